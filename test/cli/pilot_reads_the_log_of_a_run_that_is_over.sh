# SPDX-License-Identifier: Apache-2.0
# What trainers printed or wrote (test/data/logs says which) becomes a pilot: rate, interval, and what no log tells.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
logs=test/data/logs
"$GPUHOURS" plan --model llama-3.2-1b --stack hf-peft --method lora --tokens 20M --gpu h200 --context 2048 --batching packed --micro-batch 5 --global-batch 5 --search off --json >"$work/plan.json"
"$GPUHOURS" pilot --plan "$work/plan.json" --log $logs/transformers_5.log --out "$work/pilot.json" 2>&1 |
    grep -vE '^  (before|after)|GPU hours|^   ' | sed "s|$work|WORK|"
"$GPUHOURS" plan --model llama-3.2-1b --stack hf-peft --method lora --tokens 20M --gpu h200 --pilot "$work/pilot.json" 2>&1 | grep -o "[0-9,]* tokens/s measured on .* h200-sxm"
echo "-- steps of other batches than the plan's keep their own tokens"
"$GPUHOURS" plan --model llama-3.2-1b --stack hf-peft --method lora --tokens 20M --gpu h200 --context 2048 --batching packed --micro-batch 8 --global-batch 64 --search off --json >"$work/other.json"
"$GPUHOURS" pilot --plan "$work/other.json" --log $logs/transformers_5.log --out "$work/other-pilot.json" --quiet 2>&1 | grep speed
echo "-- others"
for log in axolotl.log megatron.log nemo.log trainer_state.json events.out.tfevents.1741684442.host.1.0; do
    "$GPUHOURS" pilot --log $logs/$log --tokens-per-step 4096 --json --quiet 2>/dev/null |
        grep -E '"(mean|low|high|steady|warmup_steps|startup_seconds)":' | head -6 | tr -d ' \n'
    echo " $log"
done
echo "-- steps or micro-batches"
"$GPUHOURS" pilot --log $logs/lightning.log --tokens-per-step 4096 --json --quiet 2>&1 >/dev/null | head -1
"$GPUHOURS" pilot --plan "$work/plan.json" --log $logs/lightning.log --json --quiet 2>&1 >/dev/null | grep -c micro-batches
echo "-- tokens are known to nobody"
"$GPUHOURS" pilot --log $logs/transformers.log --quiet --out "$work/none.json"
echo "exit $?"
ls "$work/none.json" 2>&1 | sed "s|$work|WORK|"
echo "-- no times"
echo "nothing to see" >"$work/empty.log"
"$GPUHOURS" pilot --log "$work/empty.log" --tokens-per-step 1 --quiet 2>&1 | sed "s|$work|WORK|"
"$GPUHOURS" pilot --log $logs --tokens-per-step 1 --quiet 2>&1
"$GPUHOURS" pilot --log $logs/axolotl.log data.jsonl
echo "exit $?"
