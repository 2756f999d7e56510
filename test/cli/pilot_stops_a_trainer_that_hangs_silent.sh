# SPDX-License-Identifier: Apache-2.0
# What it says to our interrupt (KeyboardInterrupt) are not its last words.
. test/cli/wrapped.inc
marked "$GPUHOURS" pilot --quiet --tokens-per-step 10 --silent-minutes 0.01 --out "$work/pilot.json" \
    -- "$trainer" silent 60 5 >"$work/out" 2>"$work/err"
echo "exit $?"
said "$work/err"
marked "$GPUHOURS" pilot --quiet --tokens-per-step 10 --minutes 0.03 --out "$work/pilot.json" \
    -- sh -c 'trap "echo KeyboardInterrupt; exit 130" INT; echo waiting for the other nodes; while :; do sleep 0.1; done' \
    >"$work/out" 2>"$work/err"
echo "exit $?"
said "$work/err" | sed 's/output in [0-9.]* s/output in TIME/'
left
