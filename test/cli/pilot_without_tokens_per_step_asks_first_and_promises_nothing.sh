# SPDX-License-Identifier: Apache-2.0
# A trainer that prints steps but no tokens: the pilot warns before it starts, writes what it measured,
# does not recommend a document that plan refuses, and plan says what to add.
. test/cli/wrapped.inc
marked "$GPUHOURS" pilot --steps 30 --until-width 0.9 --at-least 0 --out "$work/pilot.json" \
    -- "$trainer" trains 6000 5 >"$work/out" 2>"$work/err"
[ $? -le 2 ] && echo measured # 1: on a busy machine it may not be steady
said "$work/err" | head -1
sed -n '/^  speed/p; /^  written/,$p' "$work/out" | tr -s ' \n' ' ' | sed "s|$work/||; s/[0-9.]* steps/N steps/"
echo
plan() { "$GPUHOURS" plan --tokens 1M --model llama-3.1-8b --search off --pilot "$work/pilot.json" 2>&1 | head -1; }
plan | sed "s|$work/||; s/[0-9.]* steps/N steps/"
echo "-- with the tokens of a step"
sed -i '/"composition"/,/}/s/"tokens": null/"tokens": 4096/' "$work/pilot.json"
plan | sed "s|$work/||"
left
