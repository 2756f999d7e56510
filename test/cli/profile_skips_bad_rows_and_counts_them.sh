# SPDX-License-Identifier: Apache-2.0
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
{ head -3 data/example.jsonl; echo '{"messages": "hello"}'; echo '{"messages": ['; tail -2 data/example.jsonl
  echo '{"messages": [{"role": "user", "content": "anyone?"}]}'; head -1 data/example.jsonl; } > "$folder/rows.jsonl"
$GPUHOURS profile "$folder/rows.jsonl" --tokenizer test/data/small_tokenizer.json --template chatml \
    --labels assistant --bad-rows skip --json |
    grep -E '"(rows|examples|bad_rows|unlabelled_examples|duplicate_examples)": [0-9]' | head -5
