# SPDX-License-Identifier: Apache-2.0
# Whoever reads the trainer's output stops after a line: the trainer goes on, and its exit code is kept.
. test/cli/wrapped.inc
"$GPUHOURS" plan --model llama-3.2-1b --tokens 2M --gpu h100 --stack hf-peft --price 2 --json --quiet >"$work/plan.json"
{
    marked "$GPUHOURS" watch --quiet --plan "$work/plan.json" --ledger off --out "$work/run.json" -- \
        sh -c 'i=0; while [ $i -lt 200 ]; do i=$((i + 1)); echo "line $i"; done; sleep 0.2; echo last; exit 7' 2>/dev/null
    echo "exit $?" >"$work/code"
} | head -1
cat "$work/code"
left
