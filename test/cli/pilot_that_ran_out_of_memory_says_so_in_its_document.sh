# SPDX-License-Identifier: Apache-2.0
# The log of such a run: exit code 5, a doubt in the document, no entry in the ledger, a warning of the plan that uses it.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
awk 'BEGIN { for (i = 1; i <= 40; i++) printf "{\"step\": %d, \"loss\": 1, \"timestamp\": \"2026-01-01T12:00:%02dZ\"}\n", i, i
    print "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB." }' >"$work/train.log"
"$GPUHOURS" plan --model llama-3.1-8b --tokens 100M --gpu h100 --ledger off --json >"$work/plan.json"
tell() { # OPTION…: exit code, last words, and what the document doubts
    "$GPUHOURS" pilot --ledger "$work/ledger" --quiet --out "$work/pilot.json" "$@" >"$work/said" 2>&1
    echo "exit $?: $(sed "s|$work/||g" "$work/said" | grep '^gpuhours:' | tail -1)"
    [ ! -e "$work/pilot.json" ] || grep -o '"doubts": "[^";]*' "$work/pilot.json"
}
tell --plan "$work/plan.json" --tokens-per-step 8000 --log "$work/train.log"
"$GPUHOURS" plan --plan "$work/plan.json" --pilot "$work/pilot.json" --ledger off | grep -o 'pilot_doubtful'
"$GPUHOURS" runs --ledger "$work/ledger" --json | grep -c '"pilot"'
rm "$work/pilot.json"
echo "-- a rate that cannot be is not the reason"
tell --plan "$work/plan.json" --tokens-per-step 80M --log "$work/train.log"
echo "-- another number of GPUs than the plan's"
tell --plan "$work/plan.json" --gpus 4 --log "$work/train.log"
