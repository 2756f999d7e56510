#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# pilot_wrapped.sh [OUT]: transformers' Trainer with PEFT under gpuhours pilot, on the 1B and the 8B shape.
#
# For each: the pilot's sustained tokens/s against the trainer's own time stamps, its peak memory against what
# nvidia-smi shows meanwhile, and that no process is left. One JSON line each, also in OUT/pilot_wrapped.jsonl.
set -eu
cd "$(dirname "$0")/../.."
out=${1:-build/pilot_wrapped}
gpuhours=${GPUHOURS:-build/gpuhours}
python=${PYTHON:-python3}
mkdir -p "$out"
: >"$out/pilot_wrapped.jsonl"

processes() { # that carry our mark
    grep -la "GPUHOURS_BENCH_MARK=$1" /proc/[0-9]*/environ 2>/dev/null | wc -l
}

measure() { # SHAPE ROWS WIDTH
    mark=$1-$$
    rm -f "$out/$1".*
    sampler=
    if command -v nvidia-smi >/dev/null; then
        nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -lms 100 >"$out/$1.memory" &
        sampler=$!
    else
        : >"$out/$1.memory"
    fi
    code=0
    env GPUHOURS_BENCH_MARK="$mark" timeout 85 "$gpuhours" pilot --quiet --tokens-per-step $(($2 * $3)) \
        --until-width 0.02 --at-least "${AT_LEAST:-15}" --minutes 1.2 --grace 8 --out "$out/$1.json" -- \
        "$python" bench/gpu/pilot_wrapped.py train "$1" "$2" "$3" 100000 "$out/$1.stamps" \
        >"$out/$1.stdout" 2>"$out/$1.stderr" || code=$?
    left=$(processes "$mark")
    [ -z "$sampler" ] || kill "$sampler"
    tr '\r' '\n' <"$out/$1.stderr" | grep -a '^gpuhours:' || true
    grep -a '^  [a-z]' "$out/$1.stdout" || tail -5 "$out/$1.stderr"
    echo "$1: exit code $code, processes left: $left"
    [ ! -s "$out/$1.json" ] ||
        "$python" bench/gpu/pilot_wrapped.py compare "$1" "$2" "$3" "$out/$1.stamps" "$out/$1.json" "$out/$1.memory" |
        tee -a "$out/pilot_wrapped.jsonl"
}

if [ "${SHAPES:-}" ]; then
    for shape in $SHAPES; do measure "$shape" 2 128; done
else
    measure llama-3.2-1b 4 2048
    measure llama-3.1-8b 2 2048
fi
