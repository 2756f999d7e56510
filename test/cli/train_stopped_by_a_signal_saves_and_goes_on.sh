# SPDX-License-Identifier: Apache-2.0
# SIGTERM in the middle: exit 1 with a sentence, a whole checkpoint, and the same adapter in the end.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
asked="train --random-weights --model test/data/tiny_model --data test/data/tiny_model/rows.jsonl \
    --labels completion --rank 4 --context 64 --accumulation 2 --epochs 40 --rate 0.01 \
    --save-every 0 --quiet --out $work"
"$GPUHOURS" $asked/straight >/dev/null
"$GPUHOURS" $asked/stopped >/dev/null 2>"$work/said" &
while ! grep -q '"step":9,' "$work/stopped/metrics.jsonl" 2>/dev/null; do sleep 0.01; done
kill -TERM $!
wait $!
echo "exit $?"
sed 's/step [0-9]* of/step N of/' "$work/said"
ls "$work/stopped/checkpoints" | wc -l
"$GPUHOURS" $asked/stopped | grep -c 'from step'
cmp "$work/straight/adapter_model.safetensors" "$work/stopped/adapter_model.safetensors" && echo same adapter
