# SPDX-License-Identifier: Apache-2.0
# plan --runs adds up the GPU hours, the wall clock and the cost of a sweep, and says how many GPUs it takes at a
# time; deadline and budget hold for all runs together; --failed-runs 0 leaves failed attempts out.
command -v python3 >/dev/null || { echo "there is no python3"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
plan() { "$GPUHOURS" plan --model llama-3.2-1b --tokens 20M --gpu a10g --gpus 1 --price 1 --search off "$@"; }
lines() { sed -n '/^  failed runs/,/^  memory/p' | sed '/^  memory/d' | tr '\n' ' ' | tr -s ' '; echo; }
echo "a sweep of twenty runs, four at a time"
plan --runs 20 --parallel-runs 4 | lines | grep -oE '20 runs, 4 at a time on 4 GPUs'
plan --runs 20 --parallel-runs 4 --json >"$work/sweep.json"
plan --json >"$work/one.json"
python3 - "$work/one.json" "$work/sweep.json" <<'EOF'
import json, sys
one, many = (json.load(open(path)) for path in sys.argv[1:])
sweep = many["sweep"]
print("sweep" in one, one["gpu_hours"] == many["gpu_hours"])
print(sweep["runs"], sweep["parallel_runs"], sweep["peak_gpus"])
hours, wall, cost = sweep["gpu_hours"], sweep["wall_hours"], sweep["cost_usd"]
print("a sum of twenty:", 19 < hours["p50"] / one["gpu_hours"]["p50"] < 24)
print("in five turns:", 5 <= wall["p50"] / one["wall_hours"]["p50"] < 7)
print("at one dollar an hour:", all(abs(cost[p] - hours[p]) < 1e-9 for p in hours))
print("as uncertain as the speed:", hours["p90"] / hours["p10"] > 0.6 * one["gpu_hours"]["p90"] / one["gpu_hours"]["p10"])
print("failed runs:", 0.1 < one["failed_runs"]["share"] < 0.4, one["failed_runs"]["gpu_hours_mean"] > 0)
EOF
echo "a budget for one run is too small for twenty"
plan --budget 3 >/dev/null; echo "exit $?"
plan --budget 3 --runs 20 | grep -c budget_missed
echo "without failed runs"
plan --failed-runs 0 | grep -c "failed runs"
echo "in the report"
"$GPUHOURS" report "$work/sweep.json" | grep -oE "20 runs, 4 at a time on 4 GPUs" | head -1
echo "mistakes"
plan --parallel-runs 4 2>&1; echo "exit $?"
plan --runs 0 2>&1; echo "exit $?"
plan --runs 5000 2>&1; echo "exit $?"
