# SPDX-License-Identifier: Apache-2.0
# Every tenth step takes three times as long: the run takes a fifth longer than its steady steps, and the plan says so.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
plan() {
    "$GPUHOURS" plan --model llama-3.2-1b --stack hf-peft --method lora --tokens 30M --gpu h100 --context 2048 \
        --batching packed --micro-batch 4 --global-batch 8 --failed-runs 0 --search off --ledger off "$@"
}
plan --json >"$work/plan.json"
awk 'BEGIN { for (t = 1700000000; i <= 400; i++) {
    if (i) t += i % 10 ? 0.4 : 1.2
    printf "{\"step\":%d,\"loss\":1,\"timestamp\":%.3f}\n", i, t
} }' >"$work/log"
"$GPUHOURS" pilot --plan "$work/plan.json" --log "$work/log" --out "$work/pilot.json" --ledger off --quiet | grep -E '^  (stalls|recurring)'
plan --pilot "$work/pilot.json" --json | tr -d ' \n' | grep -o '"name":"recurringstalls","seconds":[0-9]*'
