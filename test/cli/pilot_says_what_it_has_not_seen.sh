# SPDX-License-Identifier: Apache-2.0
# A few steps show neither an evaluation nor a save: the pilot says so, in words and in its document.
. test/cli/wrapped.inc
marked "$GPUHOURS" pilot --quiet --tokens-per-step 4096 --steps 20 --until-width 0.5 --at-least 0 \
    --out "$work/pilot.json" -- "$trainer" trains 6000 10 >"$work/out" 2>"$work/err"
sed -n 's/^  not seen  *//p' "$work/out"
sed -n 's/^ *\("not_seen".*\)/\1/p' "$work/pilot.json"
echo "-- rows that lie end to end are all as long; grouped by length the longest come first; else a step of as many tokens tells; widths of the plan are those of batches like its own"
for batches in "packed 5" "grouped 6" "longest 6" "longest 5" "longest 10"; do
    "$GPUHOURS" plan --model llama-3.2-1b --stack hf-peft --method lora --tokens 20M --mean-length 400 --gpu h200 --context 2048 \
        --batching "${batches% *}" --micro-batch "${batches#* }" --global-batch "${batches#* }" --search off --json >"$work/plan.json"
    "$GPUHOURS" pilot --plan "$work/plan.json" --log test/data/logs/transformers_5.log --quiet --out "$work/log.json" >"$work/out" 2>&1
    sed -n "s/^ *\"not_seen\": /$batches: /p" "$work/log.json"
done
