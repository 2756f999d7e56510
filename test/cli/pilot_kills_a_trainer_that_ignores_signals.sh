# SPDX-License-Identifier: Apache-2.0
. test/cli/wrapped.inc
marked "$GPUHOURS" pilot --quiet --tokens-per-step 10 --steps 5 --grace 0.25 --out "$work/pilot.json" \
    -- "$trainer" stubborn 6000 10 >"$work/out" 2>"$work/err"
said "$work/err" | grep -v steady
left
