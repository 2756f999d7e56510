# SPDX-License-Identifier: Apache-2.0
# A plan's document may come from elsewhere: an efficiency that nobody measured ended in an assertion or in "nan".
export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$GPUHOURS" plan --tokens 10M --model llama-3.1-8b --gpu h100 --search off --ledger off --json >"$work/plan.json"
for change in value=5e-324 low=5e-324 high=1e+300 low=-1; do
    awk -v key="\"${change%%=*}\"" -v value="${change#*=}" '/"efficiency of the stack"/ { inside = 1 }
        inside && index($0, key ":") { sub(key ": *[0-9.e+-]*", key ": " value); inside = 0 } { print }' "$work/plan.json" >"$work/odd.json"
    cmp -s "$work/plan.json" "$work/odd.json" && echo "unchanged"
    "$GPUHOURS" hosts --plan "$work/odd.json" --today 2026-11-01 >"$work/out" 2>&1
    echo "$change: exit $?, $(grep -ciE '\<nan|\<inf\>' "$work/out") lines without a number"
done
