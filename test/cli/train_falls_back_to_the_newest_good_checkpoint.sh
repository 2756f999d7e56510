# SPDX-License-Identifier: Apache-2.0
# Whatever happened to the newest checkpoint, the run goes on from the newest good one, says so, and
# ends with the bits of an undisturbed run.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
asked="train --random-weights --model test/data/tiny_model --data test/data/tiny_model/rows.jsonl --labels completion \
    --rank 4 --context 64 --save-every 2 --keep 4 --quiet"
"$GPUHOURS" $asked --max-steps 8 --out "$work/straight" >/dev/null
newest=checkpoints/step-00000008
damage() {
    echo "-- $1"
    rm -rf "$work/run"
    cp -r "$work/straight" "$work/run"
    rm "$work/run/adapter_model.safetensors"
    (cd "$work/run/$newest" && eval "$2")
    "$GPUHOURS" $asked --max-steps 8 --out "$work/run" 2>&1 >/dev/null | sed "s|$work|WORK|g"
    [ -f "$work/run/adapter_model.safetensors" ] &&
        cmp "$work/straight/adapter_model.safetensors" "$work/run/adapter_model.safetensors" && echo same adapter
    ls "$work/run/checkpoints" | tr '\n' ' '
    echo
}
damage "truncated" 'truncate -s 1000 state.safetensors'
damage "empty" ': >state.safetensors'
damage "one flipped bit" 'printf "\001" | dd of=state.safetensors bs=1 seek=5000 conv=notrunc 2>/dev/null; printf "\002" | dd of=state.safetensors bs=1 seek=5001 conv=notrunc 2>/dev/null'
damage "another step" 'sed -i "s/\"step\": 8/\"step\": 6/" state.json'
damage "missing state" 'rm state.json'
damage "a newer version" 'sed -i "s/\"version\": 2/\"version\": 9/" state.json; echo whole >DONE'
echo "-- all of them"
for folder in "$work"/run/checkpoints/step-*; do echo "{}" >"$folder/state.json"; done
"$GPUHOURS" $asked --max-steps 8 --out "$work/run" 2>&1 >/dev/null | grep -o 'no older checkpoint.*'
