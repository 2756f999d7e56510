# SPDX-License-Identifier: Apache-2.0
# A model that reads text alone: profile and plan say that images are not counted, also from a profile that is used with a
# model that reads them. pack and train have no ids for them: they refuse, or leave the rows out when asked.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/rows.jsonl" <<'ROWS'
{"images": ["a.png"], "messages": [{"role": "user", "content": "<image>What?"}, {"role": "assistant", "content": "A cat."}]}
{"messages": [{"role": "user", "content": "What?"}, {"role": "assistant", "content": "A dog."}]}
ROWS
plan() {
    "$GPUHOURS" plan "$@" --gpu h100 --search off --quiet | sed -n '/^Warnings/{n;p;n;p}'
}
"$GPUHOURS" profile "$work/rows.jsonl" --model llama-3.1-8b --out "$work/p.json" | grep -A1 warnings
plan "$work/rows.jsonl" --model llama-3.1-8b
plan --profile "$work/p.json" --model qwen2.5-vl-7b
tokens="--tokenizer test/data/small_tokenizer.json --template chatml --context 64"
"$GPUHOURS" pack "$work/rows.jsonl" $tokens --out "$work/packed" 2>&1 | sed "s,$work/,,"
"$GPUHOURS" pack "$work/rows.jsonl" $tokens --out "$work/packed" --bad-rows skip | grep lost
