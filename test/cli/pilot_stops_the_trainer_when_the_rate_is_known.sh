# SPDX-License-Identifier: Apache-2.0
# The trainer would go on for a minute. The document is a file, whole, and what was passed through is
# what the trainer printed.
. test/cli/wrapped.inc
marked "$GPUHOURS" pilot --quiet --tokens-per-step 4096 --steps 40 --until-width 0.5 \
    --at-least 0 --out "$work/pilot.json" -- "$trainer" trains 6000 10 >"$work/out" 2>"$work/err"
[ $? -le 1 ] && echo measured # 1: on a busy machine it may not be steady
left
sed -n 's/^  \([a-zA-Z ]*[a-z]\)  .*/\1/p' "$work/out"
grep -c '"kind": "pilot"' "$work/pilot.json"
grep -c '"tokens": 4096' "$work/pilot.json"
tr '\r' '\n' <"$work/err" | grep -c '| 12/6000 \['
ls "$work"
