# SPDX-License-Identifier: Apache-2.0
# The built-in engine: plan, pilot on the CPU with data, with a profile and with nothing, and what plan makes of it.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
model=test/data/tiny_model
export TMPDIR="$work"
"$GPUHOURS" plan $model/rows.jsonl --model $model --labels completion --stack native --gpu h100 --gpus 1 --context 64 \
    --micro-batch 2 --global-batch 4 --precision fp32 --search off --json >"$work/plan.json"
"$GPUHOURS" profile $model/rows.jsonl --model $model --labels completion --json >"$work/profile.json"
pilot="pilot --plan $work/plan.json --model $model --device cpu --quiet --out $work/pilot.json"
. test/cli/settled.inc
words() { awk 'NF > 1 && /^  [a-z]/ { print $1 }'; }
settled "$GPUHOURS" $pilot --data $model/rows.jsonl --labels completion --steps 30 >"$work/said"
echo "exit $?"
words <"$work/said"
keys='"kind": "pilot"|"version": 1|"stack": "native"|"model": "tiny_model"|"gpu": "cpu"|"context": 64|"batching": "packed"'
grep -cE "$keys|\"micro_batch\": 2|\"accumulation\": 2|\"parallel\": \"single\"|\"method\": \"lora\"" "$work/pilot.json"
grep -A 8 '"fit"' "$work/pilot.json" | grep -c 'null'
settled "$GPUHOURS" $pilot --profile "$work/profile.json" --steps 24 >/dev/null
echo "exit $?"
settled "$GPUHOURS" $pilot --steps 24 --json >"$work/third.json"
echo "exit $?"
grep -c '"kind": "pilot"' "$work/third.json"
# Too few steps: how long it would take, or which smaller steps.
"$GPUHOURS" plan --tokens 100M --model $model --stack native --gpu h100 --gpus 1 --context 64 --micro-batch 1 --global-batch 300 \
    --precision fp32 --search off --json >"$work/large.json"
"$GPUHOURS" pilot --plan "$work/large.json" --model $model --device cpu --quiet --minutes 0.02 --out "$work/few.json" 2>&1 |
    sed 's/in [0-9]* s/in N s/; s/[0-9]* steps* of/N steps of/; s/--minutes [0-9]*/--minutes N/'
# The engine chooses what each layer recomputes, as training on this machine would, unless --checkpointing said it.
sed 's/"checkpointing": "none"/"checkpointing": "full"/' "$work/plan.json" >"$work/chosen.json"
sed 's/"filled"/"other"/' "$work/chosen.json" >"$work/given.json"
for plan in chosen given; do
    settled "$GPUHOURS" pilot --plan "$work/$plan.json" --model $model --device cpu --quiet --steps 24 --out "$work/$plan-pilot.json" >/dev/null
    grep -oE '"(checkpointing|lighter_share)": [^,]*' "$work/$plan-pilot.json"
done
"$GPUHOURS" plan --tokens 1M --model $model --pilot "$work/pilot.json" 2>&1 | sed "s|$work/||; s/at [0-9.e+]* tokens/at N tokens/"
"$GPUHOURS" pilot --device cpu
echo "exit $?"
"$GPUHOURS" pilot --plan "$work/pilot.json" --device cpu 2>&1 | sed "s|$work/||"
sed 's/"optimizer": "adamw"/"optimizer": "adafactor"/' "$work/plan.json" >"$work/other.json"
"$GPUHOURS" pilot --plan "$work/other.json" --model $model --device cpu
echo "exit $?"
ls "$work" | grep -c gpuhours-pilot || true
