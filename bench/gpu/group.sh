#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# group.sh [MODEL [SMALL]]: several ranks on one GPU over NCCL, which takes them for ranks of several hosts (NCCL_HOSTID).
# Correctness only: speed is of sockets and of time slices.
#
#     GPUHOURS=build/gpuhours PARTS="equal shared" bench/gpu/group.sh       parts, with their seconds on an H200:
#
#     equal      SMALL: the losses of LoRA, QLoRA and full training by 2 and 4 ranks are those of one               55
#     shared     SMALL: LoRA in bf16 and fp8 and QLoRA with a base that ranks share give the bits of a whole base   20
#     memory     MODEL: QLoRA of two ranks that share the base: memory of each against its plan, and how much of
#                the communication lay under computation                                                            20
#     kill       SMALL: a rank that is killed ends the other within 10 s, and one rank goes on                       2
#     kills      SMALL: KILLS (6) ranks killed at moments drawn from SEED, going on with 1, 2 and 4 ranks           40
#     sanitizer  compute-sanitizer on a tiny shape, two ranks with a shared base                                    40
#
# The last two are left out unless PARTS names them; the seconds of memory and of these two are estimates. Shapes are of the
# catalog (1B and 135M), weights random. DEVICE=cpu and two tiny models try the script itself.
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
rows=test/data/tiny_model/rows.jsonl data=$rows shape="--context 64 --micro-batch 1" # of the runs that follow

rank() { # RANK SIZE WORDS...: one process of a run
    rank=$1 size=$2
    shift 2
    RANK=$rank WORLD_SIZE=$size LOCAL_RANK=0 LOCAL_WORLD_SIZE=$size NCCL_HOSTID=host$rank GPUHOURS_GROUP_PORT=$port \
        timeout 150 ${under:-} "$program" train --device "${DEVICE:-cuda}" --random-weights --model "$model" \
        --tokenizer test/data/tiny_model --data "$data" --labels completion $shape --rate 0.001 --rank 16 --quiet \
        --ledger off "$@"
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

# What a process has beside its plan (driver, libraries, NCCL) is measured with whole bases; the plan of a shared one and this
# are then held against what a process has. Rows are long, so that there is computation to lie under.
memory() {
    small=$model model=$large data=$work/long.jsonl shape="--context 2048 --micro-batch 4"
    for _ in $(seq 400); do cat $rows; done >"$data"
    idle=$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits 2>/dev/null | head -1)
    for kind in "1 auto" "2 ddp" "2 fsdp"; do
        set -- $kind
        start "$1" "memory-$2" --method qlora --precision bf16 --accumulation 4 --save-every 0 --explain --max-steps 3 --parallel "$2"
        found=$(used "${idle:-0}")
        wait
        total=$(bytes total "$work/said-0")
        [ "$2" = fsdp ] && break
        alone=${beside:-0} beside=$(awk -v m="$found" -v t="$total" 'BEGIN { print m - t }')
    done
    plan=$(awk -v b="$beside" -v t="$total" 'BEGIN { print t + b }')
    far=$(awk -v a="$found" -v b="$plan" 'BEGIN { d = a / (b ? b : 1) - 1; print d < 0 ? -d : d }')
    verdict "$(below "$far" 0.01)" "$model: each of two ranks that share the base has $found MiB, planned $total and beside it $beside: $plan MiB"
    echo "         beside the plan one rank alone has $alone MiB, each of two $beside MiB: the difference is NCCL's"
    grep '^  ranks ' "$work/said-0" | sed 's/^ */         /'
    model=$small data=$rows shape="--context 64 --micro-batch 1"
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

# Every third start by one rank, by two and by four. Runs that come to their end are held against one rank that was not killed: 100
# steps let rounding grow, and two ranks that were not killed say by how much.
kills() {
    words="--method lora --precision fp32 --accumulation 4 --epochs 40 --max-steps 100 --save-every 5"
    run 1 straight $words
    run 2 pair $words
    band=$(losses straight pair | awk '{ print ($1 * 3 > 1e-6 ? $1 * 3 : 1e-6) }')
    worst=0 killed=0 ends=0 left=0 apart=0
    for i in $(seq "${KILLS:-6}"); do
        size=$((1 << i % 3))
        start $size again $words
        command sleep "$(awk -v seed="${SEED:-1}$i" 'BEGIN { srand(seed); print 0.3 + 4 * rand() }')"
        set -- $pids
        shift $((i % size))
        began=$(date +%s)
        pkill -KILL -P "$(pgrep -P "$1")" 2>/dev/null && killed=$((killed + 1)) # the program, which timeout started
        wait
        took=$(($(date +%s) - began))
        [ $took -le $worst ] || worst=$took
        left=$((left + $(pgrep -fc -- "--out $work/again")))
        [ "$i" != "${KILLS:-6}" ] || run $((1 << (i + 1) % 3)) again $words
        [ -e "$work/again/adapter_model.safetensors" ] || continue
        apart=$(losses straight again | awk -v a="$apart" '{ print ($1 > a ? $1 : a) }')
        ends=$((ends + 1))
        rm -rf "$work/again"
    done
    verdict "$(below $worst 10)" "$killed ranks killed: the others ended within $worst s, at most 10"
    verdict "$(below $left 0)" "$left processes were left"
    verdict "$(below "$apart" "$band")" "$ends runs came to their end: losses differ by $apart of a run that was not killed, at most $band"
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
    part_began=$(date +%s)
    echo "$part"
    case $part in kill) kill_one ;; *) "$part" ;; esac
    echo "  $(($(date +%s) - part_began)) s"
done
[ $failures = 0 ]
