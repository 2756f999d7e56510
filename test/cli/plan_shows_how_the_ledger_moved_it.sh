# SPDX-License-Identifier: Apache-2.0
# What the user's own runs change is shown beside the hours, in --explain and in the document, and --ledger off
# forecasts without them. A small model on one GPU says nothing about a large one on eight.
command -v node >/dev/null || { echo "there is no node to read it"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
small="--model llama-3.1-8b --gpu h100 --gpus 1 --tokens 21M --search off"
large="--model llama-3.1-70b --gpu h100 --gpus 8 --tokens 21M --search off"
plan() { "$GPUHOURS" plan --ledger "$work/ledger.sqlite" "$@"; }
plan $small --json >"$work/plan.json"
rate=$(node -p 'Math.round(1.35 * JSON.parse(require("fs").readFileSync(0, "utf8")).tokens_per_second.p50)' <"$work/plan.json")
hours() { sed -n 's/^  GPU hours *\([0-9.]*\) .*/\1 GPU hours/p; /your ledger/p'; }
plan $large | hours
"$GPUHOURS" runs actual --ledger "$work/ledger.sqlite" --plan "$work/plan.json" --tokens-per-second "$rate" >/dev/null
echo "-- like the run"
plan $small | hours
plan $small --explain | tr -s ' \n' ' ' | grep -o 'your ledger: [^;]*;'
plan $small --json | node -e '
    const plan = JSON.parse(require("fs").readFileSync(0, "utf8"));
    const { runs, speed_factor, gpu_hours_without } = plan.ledger;
    console.log(runs, speed_factor.toFixed(3), gpu_hours_without.p50.toFixed(2), plan.gpu_hours.p50.toFixed(2));
    console.log(plan.assumptions.filter(a => a.origin == "ledger").map(a => a.name).join());
    console.log(plan.warnings.filter(w => w.code == "ledger_changes_hours").length);'
echo "-- without it"
"$GPUHOURS" plan $small --ledger off | hours
echo "-- far from the run"
plan $large | hours
