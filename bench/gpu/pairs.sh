#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# pairs.sh: DPO on a GPU. Needs build/gpuhours, build/libgpuhours-cuda.so and build/cuda-parity; PARTS="equal" names some parts, with
# their seconds on an H200 (estimated):
#
#     parity   the operation that weighs rows against the CPU's, twice: the same bits              2
#     equal    a tiny Llama: losses and rewards of LoRA and QLoRA are the CPU's, and the same bits twice   10
#     speed    steps of Llama 3.2 1B by its pilot, beside the plan                                 25
set -u
. bench/gpu/parts.sh

parity() {
    hold_operations <<'WORDS'
- weights of rows
WORDS
}

i=0
while [ $i -lt 40 ]; do
    printf '{"prompt": "count from %d: ", "chosen": "%d %d %d", "rejected": "%d %d %d %d"}\n' $i $i $((i + 1)) $((i + 2)) $i $((i + 7)) $((i + 3)) $((i + 9))
    i=$((i + 1))
done >"$work/pairs.jsonl"
mkdir -p "$work/model" && cp test/data/tiny_model/tokenizer*.json "$work/model"
sed 's/"hidden_size": [0-9]*/"hidden_size": 128/' test/data/tiny_model/config.json >"$work/model/config.json" # wide enough for tensor cores

run() { # DEVICE OUT WORDS...
    on=$1 out=$2
    shift 2
    "$program" train --device "$on" --random-weights --model "$work/model" --data "$work/pairs.jsonl" --objective dpo --context 32 \
        --micro-batch 4 --rate 0.01 --rank 8 --max-steps 6 --epochs 4 --save-every 0 --quiet --ledger off --seed 3 --out "$work/$out" "$@" 2>&1 |
        grep '^gpuhours: ' | grep -v 'random weights'
}
farthest() { # KEY OUT OUT: the largest difference of a figure of metrics.jsonl; 9 without any
    awk -v key="\"$1\":" '{ at = index($0, key); v = substr($0, at + length(key)) + 0 } NR == FNR { a[FNR] = v; n++; next }
        { d = a[FNR] - v; if (d < 0) d = -d; if (d > worst) worst = d }
        END { print n && n == FNR ? worst + 0 : 9 }' "$work/$2/metrics.jsonl" "$work/$3/metrics.jsonl" 2>/dev/null || echo 9
}
equal() {
    while read -r method precision most; do
        run cpu cpu --method "$method" --precision "$precision"
        run "$device" gpu --method "$method" --precision "$precision"
        run "$device" again --method "$method" --precision "$precision"
        for key in loss reward_margin; do
            far=$(farthest $key cpu gpu)
            verdict "$(below "$far" "$most")" "$method in $precision: $key differs by $far from the CPU's, at most $most"
        done
        same=no
        cmp -s "$work/gpu/adapter_model.safetensors" "$work/again/adapter_model.safetensors" && same=yes
        verdict $same "$method in $precision: two runs give the same adapter"
        rm -rf "$work/cpu" "$work/gpu" "$work/again"
    done <<'RUNS'
lora fp32 1e-5
qlora fp32 1e-5
lora bf16 2e-2
RUNS
}

speed() {
    "$program" plan --model llama-3.2-1b --objective dpo --tokens 10M --mean-length 1024 --gpu h200 --gpus 1 --stack native --context 1024 \
        --micro-batch 8 --global-batch 8 --search off --ledger off --json >"$work/plan.json"
    grep -A 3 '"tokens_per_second": {' "$work/plan.json" | tr -d '\n'
    echo
    "$program" pilot --plan "$work/plan.json" --device "$device" --quiet --ledger off --minutes 0.3 --at-least 8 --out "$work/pilot.json" |
        grep -E '^  (speed|steps|memory)'
}

run_parts parity:30 equal:60 speed:90
