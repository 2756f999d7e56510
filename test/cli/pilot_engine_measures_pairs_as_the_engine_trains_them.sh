# SPDX-License-Identifier: Apache-2.0
# A plan of DPO on the built-in engine is measured by its pilot, on pairs or without data; the launch script trains what was planned.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
model=test/data/tiny_model
export TMPDIR="$work"
for i in 1 2 3 4 5 6 7 8 9; do
    printf '{"prompt": "count from %d: ", "chosen": "%d %d", "rejected": "%d %d %d"}\n' $i $i $((i + 1)) $i $((i + 7)) $((i + 3))
done >"$work/pairs.jsonl"
"$GPUHOURS" plan "$work/pairs.jsonl" --objective dpo --model $model --stack native --gpu h100 --gpus 1 --context 32 --micro-batch 2 \
    --global-batch 4 --precision fp32 --search off --quiet --json >"$work/plan.json"
grep -E '"(objective|reference|batching)": |"name": "(reference|training)"' "$work/plan.json" | sort -u
. test/cli/settled.inc
pilot="pilot --plan $work/plan.json --model $model --device cpu --quiet --steps 24 --out $work/pilot.json"
settled "$GPUHOURS" $pilot --data "$work/pairs.jsonl" >/dev/null && grep -E '"(objective|micro_batch|batching)": ' "$work/pilot.json"
settled "$GPUHOURS" $pilot >/dev/null && grep -c '"objective": "dpo"' "$work/pilot.json"
"$GPUHOURS" $pilot --data $model/rows.jsonl
echo "exit $?"
"$GPUHOURS" launch --plan "$work/plan.json" --to script --data "$work/pairs.jsonl" --quiet 2>/dev/null | grep -oE -- "--objective dpo --method lora"
