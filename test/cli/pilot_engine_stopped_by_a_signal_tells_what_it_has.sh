# SPDX-License-Identifier: Apache-2.0
# SIGTERM ends a built-in pilot that would go on for minutes; its result stands, as one that
# is too brief to be sustained. A busy machine gets more time.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
model=test/data/tiny_model
"$GPUHOURS" plan $model/rows.jsonl --model $model --stack native --gpu h100 --gpus 1 --context 64 --micro-batch 1 \
    --global-batch 1 --precision fp32 --search off --json >"$work/plan.json"
mkdir "$work/tmp"
for seconds in 1 4 16 40; do
    TMPDIR="$work/tmp" "$GPUHOURS" pilot --plan "$work/plan.json" --model $model --device cpu --minutes 10 \
        --at-least 600 --quiet --out "$work/pilot.json" $model/rows.jsonl >"$work/said" 2>&1 &
    pilot=$!
    sleep $seconds
    kill -TERM $pilot
    wait $pilot
    code=$?
    [ -s "$work/pilot.json" ] && break
done
echo "exit $code"
grep -c ' tokens/s ' "$work/said"
grep -c 'tokens/s sustained' "$work/said"
grep -c '"kind": "pilot"' "$work/pilot.json"
ls "$work/tmp" | wc -l
