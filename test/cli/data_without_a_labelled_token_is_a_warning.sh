# SPDX-License-Identifier: Apache-2.0
# Answers of another role, or cut off by the context: nothing would be learned. Prompts alone are meant to carry no loss.
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
exec 2>&1
for i in 1 2 3; do echo '{"messages": [{"role": "User", "content": "How many are they?"}, {"role": "Assistant", "content": "Two."}]}'; done > "$folder/roles.jsonl"
sed 's/User/user/; s/Assistant/assistant/' "$folder/roles.jsonl" > "$folder/fine.jsonl"
for i in 1 2 3; do echo '{"prompt": "How many are they?"}'; done > "$folder/prompts.jsonl"
asked="--tokenizer test/data/small_tokenizer.json --template chatml --ledger off"
warned() { "$GPUHOURS" "$@" $asked --json > "$folder/said" 2> "$folder/errors" && echo "$1: $(grep -c '"nothing_labelled"' "$folder/said") in the document" && grep nothing_labelled "$folder/errors"; }
warned profile "$folder/roles.jsonl" --labels assistant
grep -A1 '"nothing_labelled"' "$folder/said"
warned profile "$folder/roles.jsonl"
warned profile "$folder/fine.jsonl" --labels assistant
warned profile "$folder/prompts.jsonl" --labels assistant
warned pack "$folder/roles.jsonl" --labels assistant --out "$folder/packed"
warned pack "$folder/fine.jsonl" --labels assistant --context 4 --out "$folder/cut"
$GPUHOURS plan "$folder/roles.jsonl" --labels assistant --model llama-3.1-8b --gpu h100 --context 64 $asked | grep -v '^Forecast' | sed "s|$folder/||"
for data in prompts fine; do $GPUHOURS plan "$folder/$data.jsonl" --labels assistant --model llama-3.1-8b --gpu h100 --context 4 $asked --stack axolotl | sed "s|$folder/||"; done
echo "prompts alone, and in plans of RL"
for objective in sft kto "grpo --response-length 10,20,40"; do
    $GPUHOURS plan "$folder/prompts.jsonl" --objective $objective --model llama-3.1-8b --gpu h100 $asked --search off --quiet |
        grep -A3 prompts_as_sft || echo "$objective: none"
done
