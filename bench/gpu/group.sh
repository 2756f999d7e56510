#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# group.sh: several ranks on one GPU over NCCL, which takes them for ranks of several hosts (NCCL_HOSTID). Speed is of sockets and of time
# slices, except where one rank runs alone.
#
#     GPUHOURS=build/gpuhours PARTS="equal shared" sh bench/gpu/group.sh       parts, with their seconds on an H200:
#
#     equal      SMALL: losses and gradients of LoRA, QLoRA and full training by 2 and 4 ranks are those of one, STEPS (6) 55
#                METHODS="full" SIZES="1 4": of some of them
#     shared     SMALL: LoRA in bf16 and fp8 and QLoRA with a base that ranks share give the bits of a whole base    20
#     memory     MIDDLE: QLoRA of two ranks that share the base: memory of each against its plan, and how much of
#                the communication lay under computation                                                             20
#     kill_one   SMALL: a rank that is killed ends the other within 10 s, and one rank goes on                        2
#     kills      SMALL: KILLS (20) ranks killed at moments drawn from SEED, going on with 1, 2 and 4 ranks; begins
#                no further one after KILLS_S (300) seconds                                                          70
#     eight      LARGE: QLoRA by two ranks that share the base gives the adapter of two whole ones                   21
#     seventy    LARGEST: QLoRA by two ranks that share the base, each under 27 GiB; the loss of one whole rank      55
#     one        LARGE: LoRA on 4 × 4,096 tokens has at least 0.995 of the rate of BEFORE, an older build of the
#                program; without one, the one rank of a launcher that of the program alone; ROUNDS (3) pairs        90
#     sanitizer  compute-sanitizer: every operation on small shapes, a tiny model by two ranks, the adapters' pass     60
#
# Without PARTS: equal, shared, memory, kill_one. Shapes are of the catalog, weights random. Seconds of kills, one and sanitizer are
# estimates. DEVICE=cpu and tiny models in place of the four try the script itself.
set -u
. bench/gpu/parts.sh
model=${SMALL:-smollm2-135m} middle=${MIDDLE:-llama-3.2-1b} large=${LARGE:-llama-3.1-8b} largest=${LARGEST:-llama-3.1-70b}
export NCCL_SOCKET_IFNAME=lo NCCL_MAX_CTAS=2 NCCL_NVLS_ENABLE=0 MASTER_ADDR=127.0.0.1
export NCCL_SOCKET_NTHREADS=4 NCCL_NSOCKS_PERTHREAD=4
export GPUHOURS_GROUP_SECRET=bench GPUHOURS_GROUP_PATIENCE=60 GPUHOURS_TUNED=${GPUHOURS_TUNED:-$work/tuned}
export PATH=$PATH:/usr/local/cuda/bin
port=${PORT:-$((20000 + $$ % 12000))}
rows=test/data/tiny_model/rows.jsonl data=$rows shape="--context 64 --micro-batch 1" # of the runs that follow

# --- runs --------------------------------------------------------------------

train() { # PROGRAM WORDS...
    with=$1
    shift
    timeout --foreground "${limit:-150}" ${under:-} "$with" train --device "$device" --random-weights --model "$model" \
        --tokenizer test/data/tiny_model --data "$data" --labels completion $shape --rate 0.001 --rank 16 --quiet "$@"
}
start() { # SIZE OUT WORDS...: all of its ranks, in the background; $pids are theirs
    many=$1 to=$2 pids=
    shift 2
    port=$((port + 1))
    rm -f "$work"/said-* "$work"/ended-*
    for member in $(seq 0 $((many - 1))); do
        (
            export RANK="$member" WORLD_SIZE="$many" LOCAL_RANK=0 LOCAL_WORLD_SIZE="$many"
            export NCCL_HOSTID="host$member" GPUHOURS_GROUP_PORT="$port"
            train "$program" --ledger off --out "$work/$to" "$@" >"$work/said-$member" 2>&1
            touch "$work/ended-$member"
        ) &
        pids="$pids $!"
    done
}
run() { # SIZE OUT WORDS...
    start "$@"
    wait
    complaints
}
complaints() { grep -h '^gpuhours: ' "$work"/said-* | grep -v 'random weights' | sort -u; }
long_rows() { # COUNT: rows that fill a context of 4,096 tokens
    awk -v count="$1" -v numbers=2100 'BEGIN { for (i = 0; i < count; i++) {
        printf "{\"prompt\": \"count from %d: \", \"completion\": \"", i % 100
        for (j = 0; j < numbers; j++) printf "%d ", (i + j) % 10
        print "\"}" } }'
}

# --- verdicts ----------------------------------------------------------------

same() { cmp -s "$work/$1/adapter_model.safetensors" "$work/$2/adapter_model.safetensors" && echo yes || echo no; }
device_used() { nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits 2>/dev/null | head -1; }
most_used() { # IDLE: the most that a process of the GPU has while ranks run, in MiB: per process, else an equal share of all
    most=0
    while [ ! -e "$work/ended-0" ]; do
        now=$(nvidia-smi --query-compute-apps=used_memory --format=csv,noheader,nounits 2>/dev/null | sort -n | tail -1)
        case $now in ''|*[!0-9]*)
            now=$(device_used)
            now=$(((${now:-0} - $1) / many)) ;;
        esac
        [ "$now" -gt $most ] && most=$now
        command sleep 0.2
    done
    echo $most
}
planned() { # of rank 0, in MiB, without the driver's part
    awk '$1 == "total" { print $2 * ($3 == "GiB" ? 1024 : $3 == "KiB" ? 1 / 1024 : 1); exit }' "$work/said-0"
}

# --- parts -------------------------------------------------------------------

equal() {
    for kind in "lora fp32 1e-6" "qlora bf16 1e-2" "full fp32 1e-6"; do
        set -- $kind
        case " ${METHODS:-$1} " in *" $1 "*) ;; *) continue ;; esac
        for size in ${SIZES:-1 2 4}; do
            run $size "$1-$size" --method "$1" --precision "$2" --accumulation 8 --epochs 4 --max-steps "${STEPS:-6}" --save-every 0
            [ $size = 1 ] && continue
            far=$(losses "$1-1" "$1-$size")
            verdict "$(below "$far" "$3")" "$1 in $2, $size ranks: losses differ by $far of one rank's, at most $3"
            far=$(norms "$1-1" "$1-$size")
            verdict "$(below "$far" "$3")" "$1 in $2, $size ranks: norms of gradients differ by $far of one rank's, at most $3"
            rm -rf "$work/$1-$size"
        done
    done
}

# Whole and shared; what two ranks add is the same in any order, so that two give the same bits.
shared() {
    for kind in "lora bf16" "lora fp8" "qlora bf16"; do
        set -- $kind
        for layout in ddp fsdp; do
            run 2 $layout --method "$1" --precision "$2" --parallel $layout --accumulation 4 --max-steps 3 --save-every 0
        done
        verdict "$(same ddp fsdp)" "$1 in $2: the adapter of a shared base is the file of a whole one"
        rm -rf "$work/ddp" "$work/fsdp"
    done
}

# What a process has beside its plan (driver, libraries, NCCL) is measured with whole bases; the plan of a shared one and this
# are then held against what a process has. Rows are long, so that there is computation to lie under.
memory() {
    model=$middle data=$work/long.jsonl shape="--context 2048 --micro-batch 4"
    long_rows 200 >"$data"
    idle=$(device_used)
    for kind in "1 auto" "2 ddp" "2 fsdp"; do
        set -- $kind
        start "$1" "memory-$2" --method qlora --precision bf16 --accumulation 4 --save-every 0 --explain --max-steps 3 --parallel "$2"
        found=$(most_used "${idle:-0}")
        wait
        complaints
        total=$(planned)
        [ "$2" = fsdp ] && break
        alone=${beside:-0} beside=$(awk -v m="$found" -v t="$total" 'BEGIN { print m - t }')
    done
    plan=$(awk -v b="$beside" -v t="$total" 'BEGIN { print t + b }')
    far=$(awk -v a="$found" -v b="$plan" 'BEGIN { d = a / (b ? b : 1) - 1; print d < 0 ? -d : d }')
    verdict "$(below "$far" 0.01)" "$model: each of two ranks that share the base has $found MiB, planned $total and beside it $beside: $plan MiB"
    echo "         beside the plan one rank alone has $alone MiB, each of two $beside MiB: the difference is NCCL's"
    grep '^  ranks ' "$work/said-0" | sed 's/^ */         /'
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

# Every third start by one rank, by two and by four; every second one with a shared base. Runs that come to their end are held against
# one rank that was not killed: 100 steps let rounding grow, and two and four ranks that were not killed say by how much. Two ranks that
# are killed and go on as two end with the same bits.
kills() {
    words="--method lora --precision fp32 --accumulation 4 --epochs 40 --max-steps 100 --save-every 5" count=${KILLS:-20}
    run 1 straight $words
    run 2 pair $words
    run 2 sharing $words --parallel fsdp
    run 4 four $words
    band=$(for other in pair sharing four; do losses straight $other; done | sort -g | awk 'END { print ($1 * 3 > 1e-6 ? $1 * 3 : 1e-6) }')
    start 2 halved $words
    for _ in $(seq 600); do
        [ -d "$work/halved/checkpoints/step-00000040" ] && break
        command sleep 0.05
    done
    pkill -KILL -P "$(pgrep -P "${pids##* }")" # the program, which timeout started
    wait
    reached=$(wc -l <"$work/halved/metrics.jsonl")
    run 2 halved $words
    verdict "$(same pair halved)" "two ranks, one of which was killed after step $reached of 100, go on to the adapter of two that were not"
    worst=0 killed=0 ends=0 left=0 apart=0 i=0
    until [ $killed -ge "$count" ] || [ $(($(date +%s) - part_began)) -ge "${KILLS_S:-300}" ]; do # some come to their end first
        i=$((i + 1))
        size=$((1 << i % 3)) layout=ddp
        [ $((i % 2 * (size - 1))) = 0 ] || layout=fsdp
        start $size again $words --parallel $layout
        command sleep "$(awk -v seed="${SEED:-1}$i" 'BEGIN { srand(seed); print 0.3 + 3 * rand() }')"
        set -- $pids
        shift $((i % size))
        began=$(date +%s)
        pkill -KILL -P "$(pgrep -P "$1")" 2>/dev/null && killed=$((killed + 1)) # the program, which timeout started
        wait
        took=$(($(date +%s) - began))
        [ $took -le $worst ] || worst=$took
        left=$((left + $(pgrep -fc -- "--out $work/again")))
        [ -e "$work/again/adapter_model.safetensors" ] || continue
        apart=$(losses straight again | awk -v a="$apart" '{ print ($1 > a ? $1 : a) }')
        ends=$((ends + 1))
        rm -rf "$work/again"
    done
    [ $ends -gt 0 ] || { run $((1 << i % 2 * 2)) again $words; ends=1 apart=$(losses straight again); }
    verdict "$(below "$count" $killed)" "$killed ranks killed in $i starts, at least $count"
    verdict "$(below $worst 10)" "the others ended within $worst s, at most 10"
    verdict "$(below $left 0)" "$left processes were left"
    verdict "$(below "$apart" "$band")" "$ends runs came to their end: losses differ by $apart of a run that was not killed, at most $band"
}

eight() {
    model=$large shape="--context 512 --micro-batch 1"
    for layout in ddp fsdp; do
        run 2 $layout --method qlora --accumulation 2 --max-steps 2 --save-every 0 --parallel $layout
    done
    verdict "$(same ddp fsdp)" "$model: the adapter of a shared base is the file of a whole one"
}

seventy() {
    model=$largest shape="--context 512 --micro-batch 1"
    words="--method qlora --accumulation 2 --max-steps 1 --save-every 0 --explain"
    run 1 whole $words
    whole=$(planned) idle=$(device_used)
    start 2 shared $words --parallel fsdp --recompute block
    found=$(most_used "${idle:-0}")
    wait
    complaints
    verdict "$(below "$(planned)" 27648)" "$model: planned $(planned) MiB for each of two ranks, at most 27648 (one whole rank $whole)"
    [ "$found" -gt 0 ] || found="an unknown number of"
    verdict "$(below "$found" 27648)" "$model: $found MiB for each of two ranks with the driver's, the libraries' and NCCL's, at most 27648"
    far=$(losses whole shared)
    verdict "$(below "$far" 1e-2)" "$model: the loss differs by $far from that of one whole rank"
    grep '^  ranks ' "$work/said-0" | sed 's/^ */         /'
}

rate() { # PROGRAM WORDS...: the median seconds of a step after the first three
    with=$1
    shift
    train "$with" --out "$work/rate" --method lora --precision bf16 --max-steps 10 --save-every 0 "$@" >"$work/said-0" 2>&1
    sed -n '4,$s/.*"seconds":\([0-9.e+-]*\).*/\1/p' "$work/rate/metrics.jsonl" | sort -g |
        awk '{ s[NR] = $1 } END { print (NR ? s[int((NR + 1) / 2)] : 0) }'
    rm -rf "$work/rate"
}
as_rank() { RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 GPUHOURS_GROUP_PORT=$port rate "$program" --ledger off; }
# Alternating, because a GPU's clock wanders; the first run of all, which tunes, does not count.
one() {
    model=$large data=$work/rows.jsonl shape="--context 4096 --micro-batch 4"
    long_rows 60 >"$data"
    rate "$program" --ledger off >/dev/null
    for _ in $(seq "${ROUNDS:-3}"); do
        if [ -n "${BEFORE:-}" ]; then
            echo "$(rate "$BEFORE") $(rate "$program" --ledger off)"
        else
            echo "$(rate "$program" --ledger off) $(as_rank)"
        fi
    done | tee "$work/rates" | sed 's/^/         seconds of a step before or alone, and of now or of the one rank: /'
    ratio=$(awk '$2 > 0 { print $1 / $2 }' "$work/rates" | sort -g | awk '{ r[NR] = $1 } END { print r[int((NR + 1) / 2)] + 0 }')
    verdict "$(below 0.995 "$ratio")" "$model LoRA has $ratio of the rate of ${BEFORE:-the program alone}, at least 0.995"
}

checked() { # TOOL NAME COMMAND...: whether compute-sanitizer finds nothing in a command
    tool=$1 name=$2
    shift 2
    timeout "${limit:-60}" compute-sanitizer --tool "$tool" --report-api-errors no --print-limit 5 "$@" >"$work/checked" 2>&1
    clean=$(grep -c 'SUMMARY: 0 errors\|SUMMARY: 0 hazards' "$work/checked")
    verdict "$(below 1 "$clean")" "$tool of $name"
    [ "$clean" -ge 1 ] || { grep -m 8 '^=========' "$work/checked"; tail -3 "$work/checked"; }
}
sanitizer() {
    command -v compute-sanitizer >/dev/null || { echo "  compute-sanitizer is not on this machine"; return; }
    model=test/data/tiny_model limit=60
    [ ! -x build/cuda-parity ] || checked memcheck "every operation on small shapes" build/cuda-parity --small
    for layout in fsdp ddp; do
        under="compute-sanitizer --tool memcheck --report-api-errors no --print-limit 5"
        run 2 clean-$layout --method lora --precision bf16 --accumulation 2 --max-steps 2 --save-every 0 --parallel $layout
        under=
        clean=$(cat "$work"/said-? | grep -c 'ERROR SUMMARY: 0 errors')
        verdict "$(below 2 "$clean")" "memcheck of two ranks, $layout: $clean of 2 without errors"
        [ "$clean" = 2 ] || { grep -h '^=========' "$work"/said-? | head -12; }
    done
    [ ! -x build/cuda-parity ] || checked racecheck "the adapters' pass on small shapes" build/cuda-parity --small adapters
}

PARTS=${PARTS:-equal shared memory kill_one}
run_parts equal:150 shared:90 memory:120 kill_one:60 kills:400 eight:120 seventy:240 one:300 sanitizer:240
