# SPDX-License-Identifier: Apache-2.0
. test/cli/wrapped.inc
marked "$GPUHOURS" pilot --quiet --tokens-per-step 10 --silent-minutes 0.01 --out "$work/pilot.json" \
    -- "$trainer" silent 60 5 >"$work/out" 2>"$work/err"
echo "exit $?"
said "$work/err"
left
