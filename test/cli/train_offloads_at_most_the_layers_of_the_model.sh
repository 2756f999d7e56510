# SPDX-License-Identifier: Apache-2.0
# --offload counts layers; products may be tuned between steps where there is a GPU, and a CPU takes both words without effect on bits.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
train() {
    "$GPUHOURS" train --random-weights --model test/data/tiny_model --data test/data/tiny_model/rows.jsonl --quiet --device cpu \
        --context 64 --rank 4 --max-steps 2 --ledger off "$@"
}
train --offload 3 --out "$work/refused"
train --out "$work/plain" >/dev/null
train --offload 2 --tune spread --out "$work/other" >/dev/null
cmp "$work/plain/adapter_model.safetensors" "$work/other/adapter_model.safetensors" && echo the same adapter
