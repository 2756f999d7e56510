# SPDX-License-Identifier: Apache-2.0
# A few steps show neither an evaluation nor a save: the pilot says so, in words and in its document.
. test/cli/wrapped.inc
marked "$GPUHOURS" pilot --quiet --tokens-per-step 4096 --steps 20 --until-width 0.5 --at-least 0 \
    --out "$work/pilot.json" -- "$trainer" trains 6000 10 >"$work/out" 2>"$work/err"
sed -n 's/^  not seen  *//p' "$work/out"
sed -n 's/^ *\("not_seen".*\)/\1/p' "$work/pilot.json"
