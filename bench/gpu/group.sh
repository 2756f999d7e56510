#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# group.sh [MODEL [SMALL]]: several ranks on one GPU over NCCL, which takes them for ranks of several hosts (NCCL_HOSTID).
# Correctness only: speed is of sockets and of time slices.
#
#     GPUHOURS=build/gpuhours PARTS="equal shared" bench/gpu/group.sh       parts, with their seconds on an H200 (estimated):
#
#     equal      SMALL: the losses of LoRA, QLoRA and full training by 2 and 4 ranks are those of one               25
#     shared     SMALL: LoRA in bf16 and fp8 and QLoRA with a base that ranks share give the bits of a whole base   15
#     memory     MODEL: QLoRA of two ranks that share the base: memory of each against its plan, and how much of
#                the communication lay under computation                                                            10
#     kill       SMALL: a rank that is killed ends the other within 10 s, and one rank goes on                      10
#     sanitizer  compute-sanitizer on a tiny shape, two ranks with a shared base                                    40
#
# The last is left out unless PARTS names it. Shapes are of the catalog (1B and 135M), weights random. DEVICE=cpu and two tiny
# models try the script itself.
set -u
program=${GPUHOURS:-build/gpuhours}
large=${1:-llama-3.2-1b} model=${2:-smollm2-135m}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export NCCL_SOCKET_IFNAME=lo NCCL_MAX_CTAS=2 NCCL_NVLS_ENABLE=0 MASTER_ADDR=127.0.0.1
export NCCL_SOCKET_NTHREADS=4 NCCL_NSOCKS_PERTHREAD=4
export GPUHOURS_GROUP_SECRET=bench GPUHOURS_GROUP_PATIENCE=60
export PATH=$PATH:/usr/local/cuda/bin
port=$((20000 + $$ % 20000)) failures=0

rank() { # RANK SIZE WORDS...: one process of a run
    rank=$1 size=$2
    shift 2
    RANK=$rank WORLD_SIZE=$size LOCAL_RANK=0 LOCAL_WORLD_SIZE=$size NCCL_HOSTID=host$rank GPUHOURS_GROUP_PORT=$port \
        timeout 150 ${under:-} "$program" train --device "${DEVICE:-cuda}" --random-weights --model "$model" \
        --tokenizer test/data/tiny_model --data test/data/tiny_model/rows.jsonl --labels completion --context 64 \
        --micro-batch 1 --rate 0.001 --rank 16 --quiet --ledger off "$@"
}
start() { # SIZE OUT WORDS...: all of its ranks, in the background; $pids are theirs
    many=$1 to=$2 pids=
    shift 2
    port=$((port + 1))
    rm -f "$work"/said-* "$work"/ended-*
    for i in $(seq 0 $((many - 1))); do
        (rank "$i" "$many" --out "$work/$to" "$@" >"$work/said-$i" 2>&1; touch "$work/ended-$i") &
        pids="$pids $!"
    done
}
run() { # SIZE OUT WORDS...
    start "$@"
    wait
    grep -h '^gpuhours: ' "$work"/said-* | grep -v 'random weights' | sort -u
}
verdict() { # HOLDS SENTENCE
    if [ "$1" = yes ]; then echo "  met    $2"; else echo "  MISSED $2"; failures=$((failures + 1)); fi
}
losses() { # OUT OUT: the largest relative difference of the loss, from the second's first step on; 9 without any
    awk -F'"step":|"loss":' '{ s = $2 + 0; l = $3 + 0 } NR == FNR { a[s] = l; next }
        { if (!(s in a)) next; d = (a[s] - l) / a[s]; if (d < 0) d = -d; if (d > worst) worst = d; n++ }
        END { print n ? worst + 0 : 9 }' "$work/$1/metrics.jsonl" "$work/$2/metrics.jsonl" 2>/dev/null || echo 9
}
below() { awk -v a="$1" -v b="$2" 'BEGIN { print a <= b ? "yes" : "no" }'; }

equal() {
    for kind in "lora fp32 1e-6" "full fp32 1e-6" "qlora bf16 1e-2"; do
        set -- $kind
        for size in 1 2 4; do
            run $size "$1-$size" --method "$1" --precision "$2" --accumulation 8 --epochs 4 --max-steps 6 --save-every 0
            [ $size = 1 ] && continue
            far=$(losses "$1-1" "$1-$size")
            verdict "$(below "$far" "$3")" "$1 in $2, $size ranks: losses differ by $far of one rank's, at most $3"
            rm -rf "$work/$1-$size"
        done
    done
}

used() { # the most that a process of the GPU has while ranks run, in MiB: per process, else an equal share of all
    idle=$1 most=0
    while [ ! -e "$work/ended-0" ]; do
        now=$(nvidia-smi --query-compute-apps=used_memory --format=csv,noheader,nounits 2>/dev/null | sort -n | tail -1)
        case $now in ''|*[!0-9]*)
            now=$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits 2>/dev/null | head -1)
            now=$(((${now:-0} - idle) / many)) ;;
        esac
        [ "$now" -gt $most ] && most=$now
        command sleep 0.2
    done
    echo $most
}
bytes() { # WORD FILE: the line of the plan that begins with WORD, in MiB
    awk -v word="$1" '$1 == word { print $2 * ($3 == "GiB" ? 1024 : $3 == "KiB" ? 1 / 1024 : 1); exit }' "$2"
}

shared() {
    for kind in "lora bf16 2" "lora fp8 2" "qlora bf16 4"; do
        set -- $kind
        for layout in ddp fsdp; do
            run "$3" $layout --method "$1" --precision "$2" --parallel $layout --accumulation 4 --max-steps 3 --save-every 0
        done
        same=no
        cmp -s "$work/ddp/adapter_model.safetensors" "$work/fsdp/adapter_model.safetensors" && same=yes
        verdict $same "$1 in $2, $3 ranks: the adapter of a shared base is the file of a whole one"
        rm -rf "$work/ddp" "$work/fsdp"
    done
}

memory() {
    small=$model model=$large
    idle=$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits 2>/dev/null | head -1)
    words="--method qlora --precision bf16 --accumulation 2 --save-every 0 --explain"
    start 1 alone $words --max-steps 2
    alone=$(used "${idle:-0}")
    wait
    beside=$(awk -v m="$alone" -v t="$(bytes total "$work/said-0")" 'BEGIN { print m - t }') # driver and libraries
    start 2 parts $words --max-steps 3 --parallel fsdp
    found=$(used "${idle:-0}")
    wait
    plan=$(awk -v b="$beside" -v t="$(bytes total "$work/said-0")" 'BEGIN { print t + b }')
    far=$(awk -v a="$found" -v b="$plan" 'BEGIN { d = a / (b ? b : 1) - 1; print d < 0 ? -d : d }')
    verdict "$(below "$far" 0.01)" "$model: each of two ranks has $found MiB, the plan and what one rank has beside it $plan MiB"
    grep '^  ranks ' "$work/said-0" | sed 's/^ */         /'
    model=$small
}

kill_one() {
    words="--method qlora --precision fp32 --accumulation 2 --epochs 4 --max-steps 12 --save-every 2 --parallel fsdp"
    run 2 straight $words
    start 2 killed $words
    for _ in $(seq 600); do
        [ -d "$work/killed/checkpoints/step-00000004" ] && break
        command sleep 0.1
    done
    set -- $pids
    began=$(date +%s)
    pkill -KILL -P "$(pgrep -P "$2")" # the program, which timeout started
    wait
    took=$(($(date +%s) - began)) reached=$(wc -l <"$work/killed/metrics.jsonl")
    verdict "$(below "$reached" 11)" "a rank was killed after step $reached of 12"
    verdict "$(below $took 10)" "the other rank ended $took s after one was killed, at most 10"
    run 1 killed $(echo "$words" | sed 's/--parallel fsdp//')
    far=$(losses straight killed)
    verdict "$(below "$far" 1e-6)" "one rank goes on from the checkpoint of two with a shared base: losses differ by $far"
}

sanitizer() {
    command -v compute-sanitizer >/dev/null || { echo "  compute-sanitizer is not on this machine"; return; }
    model=test/data/tiny_model
    for layout in fsdp ddp; do
        under="compute-sanitizer --tool memcheck --error-exitcode 9 --print-limit 5"
        run 2 clean-$layout --method lora --precision bf16 --accumulation 2 --max-steps 2 --save-every 0 --parallel $layout
        under=
        clean=$(cat "$work"/said-? | grep -c 'ERROR SUMMARY: 0 errors')
        verdict "$(below 2 "$clean")" "compute-sanitizer: $clean of 2 ranks without errors, $layout"
        [ "$clean" = 2 ] || grep -h '=========' "$work"/said-? | head -20
    done
}

for part in ${PARTS:-equal shared memory kill}; do
    began=$(date +%s)
    echo "$part"
    case $part in kill) kill_one ;; *) "$part" ;; esac
    echo "  $(($(date +%s) - began)) s"
done
[ $failures = 0 ]
