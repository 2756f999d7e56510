#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# moe.sh: steps of mixtures of experts on this GPU, into moe.jsonl in OUT (build/gpu), in about 2 minutes.
#
# Forecasts of the same steps, made before: bench/gpu/moe_predicted.csv, which moe.sh predict writes anew.
set -eu
cd "$(dirname "$0")/../.."
export PYTHONDONTWRITEBYTECODE=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1

predict() { # NAME MODEL EXPERTS CHECKPOINTING TARGETS
    build/gpuhours plan --json --ledger off --model "$2" --tokens 10M --gpu h200 --gpus 1 --stack bench/gpu/moe_stack.json \
        --method lora --targets "$5" --context 4096 --micro-batch 1 --global-batch 1 --batching packed --experts "$3" \
        --checkpointing "$4" | python3 -c "
import json, sys
plan = json.load(sys.stdin)
rate = plan['tokens_per_second']
print(','.join(['$1', '$3', '$4'] + ['%.0f' % rate[p] for p in ('p10', 'p50', 'p90')]
               + ['%.2f' % (plan['memory']['allocated_bytes'] / 2 ** 30)]))"
}

if [ "${1:-}" = predict ]; then
    {
        echo shape,experts,checkpointing,tokens_per_s_p10,tokens_per_s_p50,tokens_per_s_p90,allocated_gib
        predict olmoe-1b-7b olmoe-1b-7b grouped none attention
        predict granite-3-3b-a800m granite-3-3b-a800m grouped none attention
        predict mixtral-16-layers bench/gpu/moe_mixtral.json grouped none attention
        predict deepseek-v2-lite-16b deepseek-v2-lite-16b grouped none attention
        predict olmoe-1b-7b olmoe-1b-7b eager none attention
        predict olmoe-1b-7b olmoe-1b-7b grouped full attention
        predict mixtral-16-layers bench/gpu/moe_mixtral.json eager none attention
        predict granite-3-3b-a800m granite-3-3b-a800m eager none attention
        predict qwen3-30b-a3b qwen3-30b-a3b grouped none attention
        predict qwen3-30b-a3b qwen3-30b-a3b grouped full attention
        predict qwen3-30b-a3b qwen3-30b-a3b eager none attention
    } >bench/gpu/moe_predicted.csv
    exit
fi
out=${OUT:-build/gpu}
mkdir -p "$out"
exec "${PYTHON:-python3}" bench/gpu/moe.py "$out/moe.jsonl" "${SECONDS_MOST:-130}"
