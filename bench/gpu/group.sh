#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# group.sh [MODEL]: 1, 2 and 4 ranks on one GPU over NCCL, which takes them for ranks of several hosts (NCCL_HOSTID):
# the losses of LoRA, QLoRA and full training must equal those of one rank. Correctness only: speed is of sockets and
# of time slices. About 60 s with the default, a model of the shape of Llama 3.2 1B with random weights.
set -u
program=${GPUHOURS:-build/gpuhours}
model=${1:-llama-3.2-1b}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export NCCL_SOCKET_IFNAME=lo NCCL_MAX_CTAS=2 NCCL_NVLS_ENABLE=0 MASTER_ADDR=127.0.0.1
export GPUHOURS_GROUP_SECRET=bench GPUHOURS_GROUP_PATIENCE=60
port=$((20000 + $$ % 20000))
rank() { # RANK SIZE WORDS...
    rank=$1 size=$2
    shift 2
    RANK=$rank WORLD_SIZE=$size LOCAL_RANK=0 LOCAL_WORLD_SIZE=$size NCCL_HOSTID=host$rank GPUHOURS_GROUP_PORT=$port \
        timeout 120 "$program" train --device "${DEVICE:-cuda}" --random-weights --model "$model" --tokenizer test/data/tiny_model \
        --data test/data/tiny_model/rows.jsonl --labels completion --context 64 --micro-batch 1 --accumulation 8 \
        --max-steps 6 --rate 0.001 --rank 16 --save-every 0 --quiet --ledger off "$@"
}
for precision in fp32 bf16; do
    band=$([ $precision = fp32 ] && echo 1e-6 || echo 1e-2)
    for method in lora qlora full; do
        for size in 1 2 4; do
            port=$((port + 1)) out=$work/$precision-$method-$size
            for i in $(seq 0 $((size - 1))); do
                rank "$i" "$size" --method $method --precision $precision --out "$out" >"$work/said-$i" 2>&1 &
            done
            wait
            grep -h '^gpuhours: ' "$work"/said-* | grep -v 'random weights' | sort -u
            [ $size = 1 ] || paste "$work/$precision-$method-1/metrics.jsonl" "$out/metrics.jsonl" | awk -F'"loss":' \
                -v name="$precision $method, $size ranks" -v band=$band '
                { a = $2 + 0; b = $3 + 0; d = (a - b) / a; if (d < 0) d = -d; if (d > worst) worst = d }
                END { print name ": " NR " steps, largest relative difference of the loss " worst + 0 (worst < band ? "" : "  TOO LARGE") }'
            rm -rf "$out/checkpoints" "$out"/*.safetensors
        done
    done
done
