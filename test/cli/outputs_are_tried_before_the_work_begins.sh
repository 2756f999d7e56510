# SPDX-License-Identifier: Apache-2.0
# An --out that cannot be written is refused before a trainer starts or data is read, and trying it leaves nothing.
. test/cli/wrapped.inc
rows=test/data/tiny_model/rows.jsonl tiny=test/data/tiny_model
"$GPUHOURS" plan $rows --model $tiny --gpu h100 --search off --ledger off --quiet --json >"$work/plan.json"
try() { # WORDS...
    "$GPUHOURS" "$@" --quiet --ledger off >"$work/out" 2>"$work/err"
    echo "$1: exit $?: $(sed "s|$work|WORK|g" "$work/err")"
    [ ! -e "$work/started" ] || echo "the work began"
}
start="-- touch $work/started"
"$GPUHOURS" watch --plan "$work/plan.json" --quiet --ledger off --out "$work/no/run.json" $start 2>&1 | sed "s|$work|WORK|g"
"$GPUHOURS" pilot --tokens-per-step 1 --quiet --ledger off --out "$work/no/pilot.json" $start 2>&1 | sed "s|$work|WORK|g"
[ ! -e "$work/started" ] || echo "the trainer was started"
echo '{"prompt": "never read' >"$work/broken.jsonl"
try profile "$work/broken.jsonl" --out "$work/no/profile.json"
try profile "$work/broken.jsonl" --out - --lengths "$work/no/lengths.csv"
try pack "$work/broken.jsonl" --model $tiny --context 64 --units "$work/units" --out "$work/no/packed"
try train --random-weights --model $tiny --data "$work/broken.jsonl" --out "$work/no/tuned"
try train --random-weights --model $tiny --data "$work/broken.jsonl" --out "$work/plan.json"
ls "$work"
