# SPDX-License-Identifier: Apache-2.0
# DPO: learns which answers are chosen, reports rewards as TRL does, goes on with the same bits after a stop, by any number of ranks, and refuses what it cannot
# compare.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
model=test/data/tiny_model
i=0
while [ $i -lt 24 ]; do
    printf '{"prompt": "count from %d: ", "chosen": "%d %d %d", "rejected": "%d %d %d %d"}\n' $i $i $((i + 1)) $((i + 2)) $i $((i + 7)) $((i + 3)) $((i + 9))
    i=$((i + 1))
done >"$work/pairs.jsonl"
tune() { # FOLDER OPTION...
    out=$1
    shift
    "$GPUHOURS" train --random-weights --model $model --data "$work/pairs.jsonl" --objective dpo --device cpu --context 24 \
        --micro-batch 2 --accumulation 2 --rank 4 --rate 0.01 --seed 3 --quiet --out "$work/$out" "$@" 2>&1 | sed "s|$work/||g"
}
tune whole --epochs 6 --held-out 20% >"$work/said"
grep -E '^  (data|loss|rewards|held out) ' "$work/said" | sed 's/ [0-9]*\.[0-9]*/ N/g; s/[0-9.N]* %/N %/g'
head -1 "$work/whole/metrics.jsonl" | tr ',{' '\n\n' | grep -E '"(loss|reward_.*)"'
tail -1 "$work/whole/metrics.jsonl" | sed 's/.*"reward_accuracy":\([0-9.]*\).*/at the end \1 of the pairs are right/'
tune first --epochs 3 --max-steps 8 >/dev/null
tune parts --epochs 3 --max-steps 8 --save-every 3 >/dev/null
rm -rf "$work"/parts/checkpoints/*8 "$work/parts/adapter_model.safetensors"
tune parts --epochs 3 --max-steps 8 --save-every 3 | grep -c 'from step 6 on'
cmp "$work/first/adapter_model.safetensors" "$work/parts/adapter_model.safetensors" && echo "the same adapter"
tune ranks --epochs 3 --max-steps 8 --ranks 2 >/dev/null
last() { tail -1 "$work/$1/metrics.jsonl" | sed 's/.*"loss":\([0-9.]\{8\}\).*"reward_margin":\([0-9.]\{6\}\).*/\1 \2/'; }
[ "$(last first)" = "$(last ranks)" ] && echo "two ranks: the same loss and margin"
tune first --epochs 3 --max-steps 8 --beta 0.5
tune none --method full
tune none --beta 0
"$GPUHOURS" train --random-weights --model $model --data $model/rows.jsonl --objective dpo --device cpu --context 24 --quiet --out "$work/none"
echo "exit $?"
