# SPDX-License-Identifier: Apache-2.0
# A model without weights on disk is refused and nothing is written; --random-weights trains it as a test, and says so.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rows="--data test/data/tiny_model/rows.jsonl --context 64 --max-steps 1 --rank 4"
for model in smollm2-135m test/data/tiny_model test/data/tiny_model/config.json; do
    "$GPUHOURS" train --model $model --tokenizer test/data/tiny_model/tokenizer.json $rows --out "$work/out"
    echo "exit $?"
done
ls "$work"
"$GPUHOURS" train --random-weights --model test/data/tiny_model $rows --out "$work/out" >/dev/null
echo "exit $?"
ls "$work/out"
