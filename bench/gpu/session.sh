#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# session.sh [PART…]: what a lent GPU machine is for, in calls of SECONDS_LEFT (570) seconds each; most valuable first.
#
#     sh bench/gpu/cross.sh                           before: builds what is carried, build/x86
#     SECONDS_LEFT=570 sh bench/gpu/session.sh        there, as often as there is time: each call goes on where the last one ended
#     DRY=1 sh bench/gpu/session.sh                   runs nothing, and prints what a call would run
#
# Each part ends by itself after its limit. One for which too little time is left is passed over, and begun by the next call; one that
# was begun is not begun again on the same machine unless it is named (build/session/PART.code). Everything that parts print
# or write is under build/session, and after each of them in $OUT/session.tar.gz. At the end a table: exit code and seconds of each.
set -u
cd "$(dirname "$0")/../.."
began=$(date +%s) left=${SECONDS_LEFT:-570} reserve=6 # seconds for the table and the file
folder=build/session
mkdir -p $folder/results
[ "$(uname -m)" != x86_64 ] || [ ! -d build/x86 ] || cp -ru build/x86/. build/
export LD_LIBRARY_PATH="$PWD/build:${LD_LIBRARY_PATH:-}" PATH="$PATH:/usr/local/cuda/bin" PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
for missing in $(ldd build/libgpuhours-cuda.so 2>/dev/null | awk '/not found/ { print $1 }'); do # not where CUDA usually is: PyTorch's
    at=$(find /usr/local /opt /usr/lib -name "$missing" 2>/dev/null | head -1)
    [ -z "$at" ] || LD_LIBRARY_PATH="$LD_LIBRARY_PATH:$(dirname "$at")"
done

# --- the parts: name, seconds it takes by estimate, limit --------------------

parts='
library 3 240
host 35 60
parity 25 90
tune 70 100
rate 30 60
speed 25 70
long_rows 115 140
all_engine 370 460
lengths 190 230
shapes 470 560
experts 35 180
sinks 35 60
kernels 85 110
widths 35 60
alone 130 150
sanitizer 80 190
kills 170 290
pilots 215 285
all_rest 400 500
equal 230 280
whole 225 300
run_1 160 250
run_2 160 250
run_3 160 250
run_4 160 250
run_5 160 250
run_6 160 250
'
library() { # whether the library that was built elsewhere runs here; if not, it is built here, in two minutes instead of none
    nvidia-smi --query-gpu=name,driver_version,memory.used --format=csv,noheader
    build/gpuhours --version || return
    build/cuda-parity fill && return
    ldd build/libgpuhours-cuda.so | grep 'not found'
    make build/libgpuhours-cuda.so INSTALL=0 ARCHS=90 && build/cuda-parity fill
}
rate() { ONLY="llama-3.1-8b lora bf16 4096 4 8" bash bench/gpu/engine.sh | tee /dev/stderr | grep -q tokens_per_second; }
host() { # how fast one core is, and PyTorch's launches: what steps of small batches wait for
    lscpu | grep -E 'Model name|MHz|L3|Thread|Hypervisor'
    cat /proc/loadavg
    cc -O2 -o build/host_speed bench/gpu/host_speed.c && build/host_speed
    python3 bench/gpu/host_speed.py
}
kernels() { python3 bench/gpu/kernels.py run "$OUT/kernels.jsonl"; }
alone() { PART_S=130 PARTS="one memory" sh bench/gpu/group.sh; }

parity() { # all in one process, and in processes of their own what remembers choices or has streams of its own
    code=0
    for word in "" tuning "tuning later" offload; do timeout 60 build/cuda-parity "$word" || code=1; done
    return $code
}
equal() { PART_S=270 STEPS=3 SMALL=llama-3.2-1b PARTS=equal sh bench/gpu/group.sh; } # the first step has a rate of 0
kills() { PART_S=280 KILLS_S=200 PARTS=kills sh bench/gpu/group.sh; }
sanitizer() { PART_S=180 PARTS=sanitizer sh bench/gpu/group.sh; }
pilots() { PILOT_SECONDS=40 sh bench/gpu/six_pilots.sh 1b-rounded 1b-packed; }
whole() { sh bench/gpu/whole_runs.sh run; }
run_number() { # N: the whole run of one of the six, without a pilot
    name=$(sed -n "/^configurations='/,/^'/p" bench/gpu/six_pilots.sh | sed -n "$(($1 + 1))s/ .*//p")
    if [ -x build/host_speed ] || cc -O2 -o build/host_speed bench/gpu/host_speed.c; then # beside it: whether cores get slower
        build/host_speed 5 >"$OUT/host_$1" &
    fi
    PILOT_SECONDS=0 OUT=$OUT/run_$1 sh bench/gpu/six_pilots.sh "$name"
}
run_1() { run_number 1; }
run_2() { run_number 2; }
run_3() { run_number 3; }
run_4() { run_number 4; }
run_5() { run_number 5; }
run_6() { run_number 6; }
tune() { PARTS=tune sh bench/gpu/options.sh; }
experts() { PART_S=120 PARTS="parity families" sh bench/gpu/experts.sh; }
sinks() { LIMIT_S=30 PARTS=sinks sh bench/gpu/experts.sh; }
speed() { PARTS="speed kernels" sh bench/gpu/experts.sh; }
long_rows() { bash bench/gpu/long_rows.sh; }
widths() { python3 bench/gpu/widths_recomputed.py "$OUT/widths_recomputed.jsonl"; }
all_engine() { PARTS="engine peers" bash bench/gpu/all.sh; } # both in the same call
lengths() { python3 bench/gpu/ratios.py lengths "$OUT/lengths.jsonl" 200; } # against PEFT, both in the same call
shapes() { python3 bench/gpu/ratios.py shapes "$OUT/shapes.jsonl" 480; }
all_rest() { SKIP="build engine peers lengths shapes" bash bench/gpu/all.sh; }

# --- running -----------------------------------------------------------------

if [ -n "${SESSION_PART:-}" ]; then # one part, in a process that can be ended
    $SESSION_PART
    exit
fi

keep() { tar -czf $folder.tar.gz -C build --exclude=session/peft session 2>/dev/null && cp $folder.tar.gz "${OUT:-build}/session.tar.gz" 2>/dev/null; }
table() {
    printf '\n%-12s %5s %8s\n' part exit seconds
    echo "$parts" | while read -r name estimate limit; do
        [ -z "$name" ] || [ ! -e $folder/$name.code ] || printf '%-12s %5s %8s\n' "$name" $(cat $folder/$name.code)
    done
    echo "$(($(date +%s) - began)) s in all; logs: session.tar.gz (124: ended at its limit)"
}
trap 'keep; table; exit 143' TERM INT
# In a session of its own, of which nothing is left when it ends: parts have limits of their own inside, in groups that a signal
# to this one's would not reach, and the next part needs the GPU for itself.
run_part() { # NAME LIMIT
    part_began=$(date +%s)
    SESSION_PART=$1 OUT=$PWD/$folder/results setsid sh bench/gpu/session.sh >$folder/$1.log 2>&1 </dev/null 3<&- &
    pid=$! code=
    while kill -0 $pid 2>/dev/null; do
        [ $(($(date +%s) - part_began)) -lt "$2" ] || { code=124; break; }
        sleep 0.5
    done
    if [ -n "$code" ]; then
        pkill -TERM -s $pid
        sleep 2
    fi
    pkill -KILL -s $pid
    wait $pid
    echo "${code:-$?} $(($(date +%s) - part_began))" >$folder/$1.code
}

echo "$parts" >$folder/parts
while read -r name estimate limit <&3; do
    [ -n "$name" ] || continue
    case " ${*:-$name} " in *" $name "*) ;; *) continue ;; esac
    [ $# -gt 0 ] || [ ! -e $folder/$name.code ] || continue
    now=$((began + left - reserve - $(date +%s)))
    if [ $now -lt "$estimate" ]; then
        echo "=== $name: passed over, $now s are left and it takes $estimate"
        continue
    fi
    [ $now -ge "$limit" ] || limit=$now
    echo "=== $name: at most $limit s"
    if [ -n "${DRY:-}" ]; then
        left=$((left - estimate))
        continue
    fi
    run_part "$name" "$limit"
    tail -c "${TAIL:-900}" $folder/$name.log
    echo "=== $name: exit $(sed 's/ /, /' $folder/$name.code) s"
    keep
done 3<$folder/parts
table
