#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# group_large.sh: what group.sh shows at 1B, at the sizes that people share a base for; random weights, one GPU of 139 GiB.
#
#     GPUHOURS=build/gpuhours PARTS="eight seventy" bench/gpu/group_large.sh       parts, with their seconds (estimated):
#
#     eight    QLoRA of 8B: two ranks that share the base give the adapter of two whole ones                60
#     seventy  QLoRA of 70B: two ranks that share the base, each under 27 GiB; the loss of one whole rank   200
#     one      8B LoRA by one rank, against the program BEFORE (an older build): at least 0.995 of its rate  120
set -u
program=${GPUHOURS:-build/gpuhours}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export NCCL_SOCKET_IFNAME=lo NCCL_MAX_CTAS=2 NCCL_NVLS_ENABLE=0 MASTER_ADDR=127.0.0.1
export NCCL_SOCKET_NTHREADS=4 NCCL_NSOCKS_PERTHREAD=4
export GPUHOURS_GROUP_SECRET=bench GPUHOURS_GROUP_PATIENCE=120
port=$((20000 + $$ % 20000)) failures=0

train() { # PROGRAM OUT WORDS...
    with=$1 to=$2
    shift 2
    "$with" train --device "${DEVICE:-cuda}" --random-weights --tokenizer test/data/tiny_model \
        --data test/data/tiny_model/rows.jsonl --labels completion --context 512 --micro-batch 1 --rate 0.001 --rank 16 \
        --save-every 0 --quiet --ledger off --out "$work/$to" "$@"
}
ranks() { # SIZE OUT WORDS...
    many=$1 name=$2
    shift 2
    port=$((port + 1))
    for i in $(seq 0 $((many - 1))); do
        RANK=$i WORLD_SIZE=$many LOCAL_RANK=0 LOCAL_WORLD_SIZE=$many NCCL_HOSTID=host$i GPUHOURS_GROUP_PORT=$port \
            train "$program" "$name" --explain "$@" >"$work/said-$i" 2>&1 &
    done
    wait
    grep -h '^gpuhours: ' "$work"/said-* | grep -v 'random weights' | sort -u
    grep -E '^  (total|ranks) ' "$work/said-0"
}
verdict() { # HOLDS SENTENCE
    if [ "$1" = yes ]; then echo "  met    $2"; else echo "  MISSED $2"; failures=$((failures + 1)); fi
}
below() { awk -v a="$1" -v b="$2" 'BEGIN { print a <= b ? "yes" : "no" }'; }
loss() { sed -n 's/.*"loss":\([0-9.e+-]*\).*/\1/p' "$work/$1/metrics.jsonl" 2>/dev/null | tail -1; }
planned() { # of rank 0, in GiB, without the driver's part
    awk '$1 == "total" { print $2 * ($3 == "MiB" ? 1 / 1024 : 1); exit }' "$work/said-0"
}

eight() {
    model=${EIGHT:-llama-3.1-8b}
    for layout in ddp fsdp; do
        ranks 2 $layout --model "$model" --method qlora --accumulation 2 --max-steps 2 --parallel $layout
    done
    same=no
    cmp -s "$work/ddp/adapter_model.safetensors" "$work/fsdp/adapter_model.safetensors" && same=yes
    verdict $same "$model: the adapter of a shared base is the file of a whole one"
}

seventy() {
    model=${SEVENTY:-llama-3.1-70b}
    ranks 1 whole --model "$model" --method qlora --accumulation 2 --max-steps 1
    ranks 2 shared --model "$model" --method qlora --accumulation 2 --max-steps 1 --parallel fsdp --recompute block
    verdict "$(below "$(planned)" 27)" "$model: $(planned) GiB for each of two ranks, at most 27"
    far=$(awk -v a="$(loss whole)" -v b="$(loss shared)" 'BEGIN { d = a - b; if (d < 0) d = -d; print (a > 0 ? d / a : 9) }')
    verdict "$(below "$far" 1e-2)" "$model: the loss differs by $far from that of one whole rank"
}

rate() { # PROGRAM: the median seconds of a step after the first two
    train "$1" rate --model "${EIGHT:-llama-3.1-8b}" --method lora --accumulation 4 --max-steps 12 --epochs 9 >/dev/null 2>&1
    sed -n '3,$s/.*"seconds":\([0-9.e+-]*\).*/\1/p' "$work/rate/metrics.jsonl" | sort -g |
        awk '{ s[NR] = $1 } END { print s[int((NR + 1) / 2)] }'
    rm -rf "$work/rate"
}
one() {
    [ -n "${BEFORE:-}" ] || { echo "  give BEFORE, an older build of the program"; return; }
    for _ in 1 2 3; do
        echo "$(rate "$BEFORE") $(rate "$program")"
    done >"$work/rates"
    ratio=$(awk '{ a += $1; b += $2 } END { print a / b }' "$work/rates")
    verdict "$(below 0.995 "$ratio")" "8B LoRA by one rank has $ratio of the rate of $BEFORE, at least 0.995"
}

for part in ${PARTS:-eight seventy one}; do
    began=$(date +%s)
    echo "$part"
    "$part"
    echo "  $(($(date +%s) - began)) s"
done
[ $failures = 0 ]
