#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Long rows and the second start on one GPU: attention by variant, 8B LoRA at 32,768 tokens with sums in a fixed and in any order, and
# the same shape started twice. Needs the build of bench/gpu/check.sh or cross.sh; about 90 s. Leaves $OUT/long_rows.txt and $OUT/long_rows.jsonl.
set -u
cd "$(dirname "$0")/../.."
out=${OUT:-build/gpu}
mkdir -p "$out"
export LD_LIBRARY_PATH=build:${LD_LIBRARY_PATH:-} PATH=$PATH:/usr/local/cuda/bin
export GPUHOURS_TUNED=$(mktemp -d)/tuned
text=$out/long_rows.txt lines=$out/long_rows.jsonl
: >"$text" && : >"$lines"

engine() { # engine LABEL ARGUMENTS…; variables before it reach the bench
    local label=$1 began=$SECONDS
    shift
    timeout 45 build/fast/bench/engine "$@" 2>>"$text" | tail -1 | sed "s/^{/{\"run\": \"$label\", /" | tee -a "$lines"
    echo "$label: $((SECONDS - began)) s" | tee -a "$text"
}

objects=build/cuda/src/train/cuda
[ -x build/probe_attention ] || nvcc -arch=sm_90 -O2 -std=c++20 -Isrc -o build/probe_attention test/cuda/probe_attention.cu \
    $objects/attention{,_cudnn,_kernel,_plain}.cu.o -ldl >>"$text" 2>&1 & # where cross.sh has not built it
engine "first start" llama-3.1-8b lora bf16 4096 4 4
ANY_ORDER=1 TUNE=0 engine "32k, any order" llama-3.1-8b lora bf16 32768 1 3
TUNE=0 engine "32k, fixed order" llama-3.1-8b lora bf16 32768 1 3
wait
timeout 30 build/probe_attention cut 2>&1 | tee -a "$text" # documents in parts, against plain loops
timeout 20 build/probe_attention 1x32768 2>&1 | tee -a "$text"
timeout 15 build/probe_attention "8B 4x4096" 2>&1 | tee -a "$text"
engine "second start" llama-3.1-8b lora bf16 4096 4 4
ANY_ORDER=1 engine "4k, any order" llama-3.1-8b lora bf16 4096 4 6
ls -l "$GPUHOURS_TUNED" >>"$text"
