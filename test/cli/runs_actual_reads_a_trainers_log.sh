# SPDX-License-Identifier: Apache-2.0
# What a real trainer printed (test/data/logs says which) answers a plan: rate, hours, warm-up.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$GPUHOURS" plan --model llama-3.2-1b --tokens 1M --gpu h200 --json >"$work/plan.json"
"$GPUHOURS" runs actual --plan "$work/plan.json" --log test/data/logs/transformers.log --tokens-per-step 4096 --json |
    grep -oE '"(actual_[a-z_]*|kind|steps|finished|steadiness|tokens_from)": ?[^,]*' | sort -u
head -c 8000 test/data/logs/transformers.log >"$work/cut.log"
"$GPUHOURS" runs actual 1 --log "$work/cut.log" --tokens-per-step 4096 2>&1 | sed "s|$work|WORK|" | grep -E 'ends at|wall hours'
echo "-- with the tokens of a step of the plan, 32 times too many"
"$GPUHOURS" runs actual 1 --log "$work/cut.log" 2>&1 | grep -o "[0-9,]* tokens/s ×.*"
"$GPUHOURS" runs actual 1 --log test/data/hosts/none.log
echo "exit $?"
echo 'nothing to see' >"$work/empty.log"
"$GPUHOURS" runs actual 1 --log "$work/empty.log" 2>&1 | sed "s|$work|WORK|"
for log in megatron.log torchtune_disk.txt trainer_state.json events.out.tfevents.1741684442.host.1.0; do
    "$GPUHOURS" runs actual 1 --log test/data/logs/$log --json 2>/dev/null | grep -E '"actual_(tokens|wall)' | tr -d ' \n'
    echo " $log"
done
echo "-- a run that resumed: its steps of 32 rows have half the tokens of 64, and its hours are not those of the plan"
"$GPUHOURS" plan --model llama-3.2-1b --tokens 20M --gpu h100 --gpus 2 --stack hf-peft --packing on --json >"$work/plan.json"
{
    cat test/data/logs/transformers_resumed.log
    echo "{'train_runtime': 26.5, 'train_steps_per_second': 3.7, 'train_loss': 0.99, 'epoch': 3.0}"
} >"$work/resumed.log"
"$GPUHOURS" runs actual --plan "$work/plan.json" --log "$work/resumed.log" --json 2>&1 | sed "s|$work|WORK|" |
    grep -E '^gpuhours|"actual_(tokens|wall)'
