#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# options.sh: options of train that must not change a bit of what is trained, on one GPU. LoRA of SHAPE (llama-3.2-1b) on MICRO_BATCH
# (4) rows of CONTEXT (4,096) tokens, random weights; PARTS="tune" names some, with their seconds on an H200 (estimated):
#
#     tune     STEPS (120) with --tune before and with --tune spread, neither knowing what others chose: the adapter is the same
#              file; when the first step and the last one ended, and the rate of the last ten steps                             80
#     offload  8 steps without and with --offload LAYERS (12): the adapter is the same file, and the steps of both              30
#
# DEVICE=cpu SHAPE=test/data/tiny_model CONTEXT=64 STEPS=6 LAYERS=2 tries the script itself.
set -u
. bench/gpu/parts.sh
context=${CONTEXT:-4096} rows=${MICRO_BATCH:-4}
export GPUHOURS_TUNED= # none

row_file() { # COUNT: rows that fill a context
    awk -v count="$1" -v size="$context" 'BEGIN { for (i = 0; i < count; i++) {
        printf "{\"text\": \""
        for (j = 0; j < size + 64; j++) printf "%d", (i * 7 + j * (1 + i % 5)) % 10
        print "\"}" } }'
}
train() { # OUT STEPS WORDS...
    out=$1 steps=$2
    shift 2
    began=$(date +%s.%N)
    timeout --foreground -k 5 75 "$program" train --device "$device" --random-weights --model "${SHAPE:-llama-3.2-1b}" \
        --tokenizer test/data/tiny_model --data "$work/rows.jsonl" --format text --labels all --context "$context" --micro-batch "$rows" \
        --rank 16 --max-steps "$steps" --epochs 1000 --save-every 0 --seed 3 --ledger off --out "$work/$out" "$@" >"$work/said" 2>&1 ||
        sed 's/^/  /' "$work/said"
    echo "  $*: $(date +%s.%N) $began" | awk '{ printf "%s%.1f s in all\n", substr($0, 1, index($0, ": ") + 1), $(NF - 1) - $NF }'
    grep -E '^  (memory|first step|tuning|loss) ' "$work/said" | sed 's/^/       /'
    sed -n 's/.*"seconds":\([0-9.e+-]*\).*/\1/p' "$work/$out/metrics.jsonl" 2>/dev/null | tail -10 | sort -g |
        awk '{ s[NR] = $1 } END { if (NR) printf "         %.4f s a step, the median of the last %d\n", s[int((NR + 1) / 2)], NR }'
}
same() { cmp -s "$work/$1/adapter_model.safetensors" "$work/$2/adapter_model.safetensors" && echo yes || echo no; }

tune() {
    row_file 64 >"$work/rows.jsonl"
    for when in before spread; do train $when "${STEPS:-120}" --tune $when; done
    verdict "$(same before spread)" "--tune spread gives the adapter of --tune before: losses differ by $(losses before spread)"
}
offload() {
    row_file 32 >"$work/rows.jsonl"
    train kept 8 --offload 0
    train offloaded 8 --offload "${LAYERS:-12}"
    verdict "$(same kept offloaded)" "--offload ${LAYERS:-12} gives the adapter of --offload 0: losses differ by $(losses kept offloaded)"
}

run_parts tune:150 offload:90
