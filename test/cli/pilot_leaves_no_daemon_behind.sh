# SPDX-License-Identifier: Apache-2.0
# One that detached itself before the pilot is over, and one that the trainer leaves at its end.
. test/cli/wrapped.inc
for mode in 'daemon 6000 10' 'leaves 4 10'; do
    marked "$GPUHOURS" pilot --quiet --tokens-per-step 10 --steps 5 --grace 0.25 --out "$work/pilot.json" \
        -- "$trainer" $mode >"$work/out" 2>"$work/err"
    said "$work/err" | grep -v steady
    left
done
