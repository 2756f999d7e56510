# SPDX-License-Identifier: Apache-2.0
# Two ranks share the base, as the plan says: one document, of both, with the seconds of a step that they spent with each other.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tiny=test/data/tiny_model
"$GPUHOURS" plan $tiny/rows.jsonl --model $tiny --labels completion --stack native --gpu h100 --gpus 2 --parallel fsdp --context 64 \
    --micro-batch 1 --global-batch 4 --precision fp32 --search off --ledger off --json >"$work/plan.json"
. test/cli/settled.inc
settled "$GPUHOURS" pilot --plan "$work/plan.json" --model $tiny --data $tiny/rows.jsonl --labels completion --device cpu --steps 12 --minutes 1 \
    --ranks 2 --ledger off --quiet --out "$work/pilot.json" >/dev/null
echo "ended with $?"
grep -E '"(gpus|parallel|accumulation|global_batch)"' "$work/pilot.json"
sed -n 's/.*"\(communication_seconds\|waited_seconds\)": *\([0-9.e+-]*\).*/\1 \2/p; s/.*"mean": \([0-9.e+-]*\).*/mean \1/p' "$work/pilot.json" |
    awk '{ v[$1] = $2 } END { print "communication", (v["communication_seconds"] > 0 && v["communication_seconds"] < v["mean"] &&
        v["waited_seconds"] <= v["communication_seconds"]) ? "is part of a step" : "is not part of a step" }'
