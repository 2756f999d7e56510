# SPDX-License-Identifier: Apache-2.0
# A deadline and a budget that the median keeps and P90 does not: plan and hosts say so in words.
job="example --model llama-3.1-8b --epochs 30 --gpu h100 --gpus 8 --stack unsloth --search off"
plan=$(mktemp)
one_line() {
    tr '\n' ' ' | tr -s ' '
}
for budget in 1 5 1000; do
    echo "plan --deadline 5m --budget $budget"
    "$GPUHOURS" plan $job --deadline 5m --budget $budget | sed -n '/wall clock/,/memory/p' | one_line |
        grep -oE '(the median|within)[^;]* (deadline|budget) of [0-9$,.]+( min 00 s)?(, [^;]*P90( is not| too))?'
done
"$GPUHOURS" plan $job --json >"$plan"
for budget in 0.2 1000; do
    echo "hosts --budget $budget"
    "$GPUHOURS" hosts --plan "$plan" --budget $budget --today 2026-11-15 | one_line |
        grep -oE 'within the budget of [0-9$,.]+( at the median, but not at P90)?'
done
rm "$plan"
