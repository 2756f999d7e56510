# SPDX-License-Identifier: Apache-2.0
# The plan has a new width in each of its 15 steps. A trainer whose steps have other tokens makes other batches: its
# four slow first steps are a warm-up, and its constant rate is known.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$GPUHOURS" plan example --model llama-3.1-8b --epochs 3 --gpu h100 --gpus 8 --json --ledger off >"$work/plan.json"
awk 'BEGIN { for (t = 1700000000; i <= 500; i++) {
    if (i) t += i <= 4 ? 0.36 : 0.06
    printf "{\"step\":%d,\"loss\":1,\"timestamp\":%.3f}\n", i, t
} }' >"$work/log"
"$GPUHOURS" pilot --plan "$work/plan.json" --log "$work/log" --tokens-per-step 4096 --out "$work/pilot.json" --ledger off --quiet |
    grep -A6 '^  speed'
