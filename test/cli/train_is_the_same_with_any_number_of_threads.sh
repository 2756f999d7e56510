# SPDX-License-Identifier: Apache-2.0
# Every number of OpenMP's threads ends with the same bits: what runs where never changes a sum.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/model" && cp test/data/tiny_model/*.json "$work/model" # wide enough for many tiles
sed -i 's/"hidden_size": 32/"hidden_size": 192/; s/"intermediate_size": 48/"intermediate_size": 352/
        s/"head_dim": 8/"head_dim": 48/' "$work/model/config.json"
for threads in 1 2 3 5; do
    for precision in fp32 bf16; do
        OMP_NUM_THREADS=$threads "$GPUHOURS" train --random-weights --model "$work/model" --data test/data/tiny_model/rows.jsonl \
            --device cpu --precision $precision --labels all --method full --context 256 --micro-batch 8 \
            --accumulation 1 --max-steps 2 --rate 0.003 --quiet --out "$work/$precision-$threads" >/dev/null || exit 1
    done
done
for run in "$work"/*-[2-9]; do
    cmp "$run/model.safetensors" "${run%-*}-1/model.safetensors" && echo "${run##*/}: the same bits"
done
