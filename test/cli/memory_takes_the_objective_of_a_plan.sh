# SPDX-License-Identifier: Apache-2.0
# A second model and pairs of answers need memory: what memory says of an objective is what plan says of it, and a recipe of one is read.
export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0" # the search for leaks takes seconds a process
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
same="--model llama-3.2-1b --method full --micro-batch 4 --context 2048 --checkpointing none --gpu h100 --gpus 1"
for options in '--objective sft' '--objective dpo' '--objective dpo --reference precomputed' '--objective reward'; do
    # shellcheck disable=SC2086 # words
    "$GPUHOURS" memory $same $options --json | grep -o '"total_bytes": [0-9.]*' | head -1 >"$work/memory"
    # shellcheck disable=SC2086 # words
    "$GPUHOURS" plan $same $options --tokens 1M --global-batch 4 --search off --quiet --ledger off --json | grep -o '"total_bytes": [0-9.]*' | head -1 >"$work/plan"
    cmp "$work/memory" "$work/plan" && echo "$options: as plan says"
done
"$GPUHOURS" memory $same --objective dpo | head -2
"$GPUHOURS" memory $same --objective grpo | head -2
"$GPUHOURS" memory $same --objective grpo --json | grep -E '"(objective|reference)"'
echo "-- a recipe of TRL that does not say which objective"
cat >"$work/dpo.yaml" <<'CONFIG'
model_name_or_path: meta-llama/Llama-3.2-1B
beta: 0.1
max_prompt_length: 512
max_length: 1024
per_device_train_batch_size: 4
CONFIG
"$GPUHOURS" memory --from "$work/dpo.yaml" --gpu h100 2>"$work/err"
echo "exit $?"
sed "s|$work/||" "$work/err"
"$GPUHOURS" memory --from "$work/dpo.yaml" --gpu h100 --objective dpo | head -2
echo "-- a recipe of TRL that samples answers"
cat >"$work/grpo.yaml" <<'CONFIG'
model_name_or_path: meta-llama/Llama-3.2-1B
num_generations: 8
max_completion_length: 256
per_device_train_batch_size: 8
CONFIG
"$GPUHOURS" memory --from "$work/grpo.yaml" --gpu h100 | head -2
