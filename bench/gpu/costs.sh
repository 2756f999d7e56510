#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packing against padding on the lengths of real data sets (test/data/*_lengths.csv), by the engine itself: LoRA r=16 on
# the 1B shape, tokens/s of real tokens. Packed rows and padded micro-batches hold at most the same number of tokens.
set -u
cd "$(dirname "$0")/../.."
out=${OUT:-build/gpu}
mkdir -p "$out"
engine=build/fast/bench/engine
export LD_LIBRARY_PATH=build:${LD_LIBRARY_PATH:-}
while read -r line; do
    timeout "${LIMIT_S:-20}" $engine llama-3.2-1b lora bf16 $line 2>&1 | tail -1 | tee -a "$out/costs.jsonl"
done <<'CONFIGURATIONS'
2048 4 4 1 none 0 test/data/gsm8k_lengths.csv packed
512 16 4 1 none 0 test/data/gsm8k_lengths.csv padded
4096 4 4 1 none 0 test/data/c4_lengths.csv packed
4096 4 4 1 none 0 test/data/c4_lengths.csv padded
CONFIGURATIONS
