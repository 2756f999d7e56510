# SPDX-License-Identifier: Apache-2.0
# Packed rows of 4,096 tokens, 2 × 4 of them on each of 2 GPUs: 65,536 tokens a step. Rows padded to
# their batch's longest are simulated on a profile.
. test/cli/wrapped.inc
export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0" # the search for leaks takes seconds a process
run() {
    marked "$GPUHOURS" pilot --quiet --steps 20 --until-width 0.9 --at-least 0 --out "$work/pilot.json" \
        "$@" -- "$trainer" trains 6000 5 >"$work/out" 2>"$work/err"
    [ $? -le 1 ] && echo measured # 1: on a busy machine it may not be steady
    grep -A3 '"composition"' "$work/pilot.json" | grep -o '"tokens": [0-9]*'
    grep -o '"stack": "[a-z-]*"\|"global_batch": [0-9]*\|"batching": "[a-z]*"\|"trainer": ".*"' "$work/pilot.json" | sort -u
}
echo "-- packed"
run --gpus 2 --from test/data/from/axolotl.yml
echo "-- padded to the longest"
"$GPUHOURS" profile example --quiet --json >"$work/profile.json"
run --profile "$work/profile.json" --from test/data/from/litgpt.yaml
grep -q '"widths_seen": [1-9]' "$work/pilot.json" && echo "knows the new widths"
left
echo "-- refused"
"$GPUHOURS" pilot --from test/data/from/axolotl.yml 2>&1
"$GPUHOURS" pilot --from test/data/from/axolotl.yml --plan plan.json -- true 2>&1
echo "exit $?"
