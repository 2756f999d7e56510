# SPDX-License-Identifier: Apache-2.0
# A mistyped rate is refused with the arithmetic, wherever it comes in: runs actual, runs import, plan --pilot.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
run() { "$GPUHOURS" "$@" 2>&1 | sed "s|$work/||g; s/run of [0-9-]*/run of DATE/"; }
"$GPUHOURS" plan --model llama-3.1-70b --gpu h100 --gpus 8 --tokens 21M --search off --json \
    --ledger off >"$work/plan.json"
actual() { run runs actual --ledger "$work/$1.sqlite" --plan "$work/plan.json" --tokens-per-second "$2"; }
actual first 1266929
actual first 9000 | grep tokens/s
"$GPUHOURS" runs export --ledger "$work/first.sqlite" |
    sed 's/"actual_tokens_per_second": 9000/"actual_tokens_per_second": 9000000/' >"$work/export.json"
run runs import --ledger "$work/second.sqlite" "$work/export.json"
sed 's/"mean": 89[0-9.]*/"mean": 89000/; s/"high": 89[0-9.]*/"high": 89100/' test/data/pilot/h200_8b_lora.json \
    >"$work/pilot.json"
run plan --tokens 21M --search off --pilot "$work/pilot.json"
