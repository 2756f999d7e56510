# SPDX-License-Identifier: Apache-2.0
# The folder of --model or --adapter is no --out, nor one that holds a model or an adapter and no checkpoints: nothing there
# changes. A run goes on in its own --out.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
program=$(cd "$OLDPWD" && realpath "$GPUHOURS") tiny=$OLDPWD/test/data/tiny_model
train() { "$program" train --data "$tiny/rows.jsonl" --context 64 --max-steps 2 --quiet --ledger off "$@" 2>&1 >/dev/null; }
sums() { find . -type f -exec cksum {} + | sort; }
refuse() { # WORDS...
    sums >"$work/../before.$$"
    train "$@" && echo "trained"
    sums | cmp -s - "$work/../before.$$" || echo "something changed"
    rm "$work/../before.$$"
}
train --random-weights --model "$tiny" --method full --out base
rm -r base/checkpoints
train --model base --rank 4 --out adapter
refuse --model base --method full --out base
refuse --model base --method full --out ./base/../base/
refuse --model base --rank 4 --adapter adapter --out adapter
refuse --model base --rank 4 --out base
mkdir sharded && cp base/*.json sharded && echo '{"weight_map":{}}' >sharded/model.safetensors.index.json
refuse --model base --method full --out sharded
cp adapter/adapter_model.safetensors former
train --model base --rank 4 --out adapter && cmp former adapter/adapter_model.safetensors && echo "the same run goes on"
rm -r adapter/checkpoints
refuse --model base --rank 4 --seed 2 --out adapter
