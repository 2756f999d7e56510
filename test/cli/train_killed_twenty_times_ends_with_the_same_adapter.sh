# SPDX-License-Identifier: Apache-2.0
# A run that is killed at random moments, also while it writes, and started again each time.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
asked="train --random-weights --model test/data/tiny_model --data test/data/tiny_model/rows.jsonl \
    --labels completion --rank 4 --context 64 --accumulation 4 --epochs 15 --rate 0.01 \
    --dropout 0.1 --save-every 2 --quiet --out $work"
"$GPUHOURS" $asked/straight >/dev/null
moments=$(awk 'BEGIN { srand(7); for (i = 0; i < 20; i++) printf "0.%03d ", 30 + rand() * 180 }')
for moment in $moments; do
    "$GPUHOURS" $asked/killed >/dev/null 2>&1 &
    sleep "$moment"
    kill -9 $!
    wait $!
    ls "$work"/killed/checkpoints/step-0000006*/DONE && break # a fast machine: some steps are left
done >/dev/null 2>&1
if ! ls "$work"/killed/checkpoints/*/DONE >/dev/null 2>&1; then # a busy machine: none came that far
    "$GPUHOURS" $asked/killed >/dev/null 2>&1 &
    while ! ls "$work"/killed/checkpoints/*/DONE >/dev/null 2>&1; do sleep 0.01; done
    kill -9 $!
    wait $! 2>/dev/null
fi
"$GPUHOURS" $asked/killed | grep -c "from step"
cmp "$work/straight/adapter_model.safetensors" "$work/killed/adapter_model.safetensors" && echo same adapter
cut -d, -f1,3 "$work/straight/metrics.jsonl" >"$work/a"
cut -d, -f1,3 "$work/killed/metrics.jsonl" | cmp "$work/a" - && echo same losses
ls "$work/killed/checkpoints"
# Killed at its very end, before an old checkpoint was removed.
cp -r "$work/killed/checkpoints/step-00000088" "$work/killed/checkpoints/step-00000002"
"$GPUHOURS" $asked/killed >/dev/null
ls "$work/killed/checkpoints"
