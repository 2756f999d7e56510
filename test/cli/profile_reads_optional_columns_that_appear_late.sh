# SPDX-License-Identifier: Apache-2.0
# A system text that first appears after the rows that the format is detected from is counted, in one run and in units; so are tools
# within an object.
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
plain='{"prompt": "Why?", "completion": "Because."}'
full='{"prompt": "Why?", "completion": "Because.", "system": "You answer in one word, and never in two."}'
rows() { i=0; while [ $i -lt "$2" ]; do echo "$1"; i=$((i + 1)); done; }
{ rows "$plain" 100; rows "$full" 300; } > "$folder/late.jsonl"
{ rows "$full" 300; rows "$plain" 100; } > "$folder/early.jsonl"
count() { $GPUHOURS profile "$@" --tokenizer test/data/small_tokenizer.json --template chatml --ledger off --quiet --json 2>&1 | grep '^  "tokens"'; }
count "$folder/late.jsonl"
count "$folder/early.jsonl"
count "$folder/late.jsonl" --units "$folder/units" --unit-size 4KB
answers='"preferred_output": [{"role": "assistant", "content": "a"}], "non_preferred_output": [{"role": "assistant", "content": "b"}]'
asked='"messages": [{"role": "user", "content": "Why?"}]'
plain="{\"input\": {$asked}, $answers}"
full="{\"input\": {$asked, \"tools\": [{\"name\": \"look_up_the_weather\"}]}, $answers}"
{ rows "$plain" 100; rows "$full" 10; } > "$folder/late_tools.jsonl"
{ rows "$full" 10; rows "$plain" 100; } > "$folder/early_tools.jsonl"
count "$folder/late_tools.jsonl"
count "$folder/early_tools.jsonl"
