#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The engine's speed and memory on a GPU, one configuration a line; peers are timed by bench/gpu/peers.py.
set -u
cd "$(dirname "$0")/../.."
out=${OUT:-build/gpu}
engine=build/fast/bench/engine
export LD_LIBRARY_PATH=build:${LD_LIBRARY_PATH:-}
while read -r line; do
    case $line in '' | '#'*) continue ;; esac
    [ -n "${ONLY:-}" ] && case $line in *$ONLY*) ;; *) continue ;; esac
    timeout "${LIMIT_S:-60}" $engine $line 2>&1 | tail -1 | tee -a "$out/engine.jsonl"
done <<'CONFIGURATIONS'
# model method precision context micro-batch steps accumulation recompute limit-GiB
llama-3.1-8b lora bf16 4096 4 8
llama-3.1-8b lora fp8 4096 4 8
llama-3.1-8b full bf16 4096 4 6 4
llama-3.1-8b qlora bf16 4096 4 8
llama-3.1-8b qlora bf16 1024 0 6 1 none 8
llama-2-70b qlora bf16 2048 0 4 1 none 48
qwen2.5-0.5b lora bf16 512 4 20
llama-3.2-1b lora bf16 4096 4 8
llama-3.1-8b lora bf16 4096 4 6 1 norms
llama-3.1-8b lora bf16 4096 4 6 1 block
llama-3.2-1b lora fp32 4096 1 6
llama-3.2-1b lora bf16 4096 1 6
CONFIGURATIONS
