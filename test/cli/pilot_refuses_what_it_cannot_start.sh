# SPDX-License-Identifier: Apache-2.0
. test/cli/wrapped.inc
try() {
    "$GPUHOURS" pilot --out "$work/pilot.json" "$@" 2>&1 | sed "s|$work|WORK|g"
}
code() {
    "$GPUHOURS" pilot --out "$work/pilot.json" "$@" >/dev/null 2>&1
    echo "exit $?"
}
echo text >"$work/not-executable"
try -- no-such-trainer
code -- no-such-trainer
try -- "$work/not-executable"
code -- "$work/not-executable"
try --
try --tokens-per-step 0 -- true
try --until-width 0 -- true
try --minutes 0 -- true
try rows.jsonl -- true
try --pattern 'step (' -- true
try --plan "$work/not-executable" -- true
try --plan "$work/none.json" -- true
ls "$work"
