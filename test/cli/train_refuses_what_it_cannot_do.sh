# SPDX-License-Identifier: Apache-2.0
# Each wrong request ends with one sentence, and nothing is written.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
try() {
    "$GPUHOURS" train "$@" 2>&1 | sed "s|$work|WORK|g; s|[0-9.]* [KMG]iB are needed|N KiB are needed|" # by threads
}
rows=test/data/tiny_model/rows.jsonl
model="--random-weights --model test/data/tiny_model --out $work/out"
try --data $rows --out "$work/out"
try --model test/data/tiny_model --data $rows
try $model
try $model --data $rows --rank 0
try $model --data $rows --targets nothing
try $model --data $rows --targets q,head
try $model --data $rows --context 1
try $model --data $rows --accumulation 0
try $model --data $rows --alpha 0
try $model --data $rows --dropout 1
try $model --data $rows --clip -1
try $model --data $rows --momentum 1 --optimizer sgd
try $model --data $rows --epochs 0
try $model --data $rows --held-out 1 --quiet
: >"$work/empty.jsonl"
try $model --data "$work/empty.jsonl" --quiet
rm "$work/empty.jsonl"
try $model --data $rows --memory-limit 100KB --context 64
try --random-weights --model test/data/config/gpt2.json --tokenizer test/data/tiny_model/tokenizer.json --data $rows --out "$work/out"
echo '{"messages": [{"role": "user", "content": "no answer"}]}' >"$work/silent.jsonl"
try $model --data "$work/silent.jsonl" --labels assistant --template chatml --quiet
mkdir "$work/broken" && cp test/data/tiny_model/*.json "$work/broken"
printf 'not a safetensors file' >"$work/broken/model.safetensors"
try --model "$work/broken" --data $rows --out "$work/out"
ls "$work"
