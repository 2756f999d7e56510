# SPDX-License-Identifier: Apache-2.0
# Files may not grow beyond a limit, as on a full disk: the run ends, what was saved is whole.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
asked="train --random-weights --model test/data/tiny_model --data test/data/tiny_model/rows.jsonl \
    --labels completion --context 64 --epochs 4 --rate 0.01 --quiet"
"$GPUHOURS" $asked --rank 4 --out "$work/straight" >/dev/null
"$GPUHOURS" $asked --rank 4 --save-every 10 --out "$work/full" >/dev/null 2>&1 &
while [ ! -e "$work/full/checkpoints/step-00000010/DONE" ]; do sleep 0.01; done
kill -9 $!
wait $! 2>/dev/null
(trap '' XFSZ; ulimit -f 20; "$GPUHOURS" $asked --rank 4 --save-every 10 --out "$work/full") >/dev/null 2>"$work/said"
echo "exit $?"
grep -c 'cannot' "$work/said"
ls "$work/full/checkpoints" | grep -c tmp
"$GPUHOURS" $asked --rank 4 --save-every 10 --out "$work/full" | grep -c 'from step'
cmp "$work/straight/adapter_model.safetensors" "$work/full/adapter_model.safetensors" && echo same adapter
