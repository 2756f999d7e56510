# SPDX-License-Identifier: Apache-2.0
# A plan that does not fit says so in its answer; that --model has no tokenizer in the local cache, where --tokenizer names another, is no error.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
head -40 data/example.jsonl >"$work/rows.jsonl"
HF_HOME=$work "$GPUHOURS" plan "$work/rows.jsonl" --model llama-3.1-8b --tokenizer test/data/tiny_model/tokenizer.json --method full \
    --gpu t4 --gpus 1 --search off --ledger off --quiet >"$work/out" 2>"$work/err"
echo "exit $?, $(wc -l <"$work/err") lines of errors"
grep -o 'DOES NOT FIT' "$work/out" | head -1
