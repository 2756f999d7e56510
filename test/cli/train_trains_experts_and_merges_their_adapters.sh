# SPDX-License-Identifier: Apache-2.0
# A mixture of experts trained in full, adapters on its experts, the two merged: the loss at each end is the same.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rows="--data test/data/tiny_model/rows.jsonl --labels completion --context 64 --quiet --seed 3"
mkdir "$work/shape" && cp test/data/tiny_model/tokenizer*.json "$work/shape"
sed 's/"llama"/"qwen3_moe", "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "norm_topk_prob": true/' \
    test/data/tiny_model/config.json >"$work/shape/config.json"
look() { # the first loss, with nothing learned
    "$GPUHOURS" train $rows --micro-batch 4 --rate 0 --max-steps 1 --json --out "$work/look" "$@" |
        sed 's/.*"loss":\([0-9.]*\).*/\1/'
    rm -rf "$work/look"
}
near() { awk -v what="$1" -v a="$2" -v b="$3" -v bound="$4" 'BEGIN {
    d = (a - b) / b; if (d < 0) d = -d
    print what, (b > 0 && d < bound) ? "same" : "differ: " a " " b }'; }
"$GPUHOURS" train --random-weights --model "$work/shape" $rows --method full --epochs 2 --rate 0.01 --out "$work/base" >/dev/null
"$GPUHOURS" train --model "$work/base" $rows --rank 4 --epochs 2 --rate 0.01 --out "$work/adapter" >/dev/null
"$GPUHOURS" merge --model "$work/base" --adapter "$work/adapter" --out "$work/merged" >/dev/null
start=$(look --random-weights --model "$work/shape" --method full)
base=$(look --model "$work/base" --method full)
merged=$(look --model "$work/merged" --method full)
near "adapted and merged:" "$(look --model "$work/base" --adapter "$work/adapter" --rank 4)" "$merged" 1e-5
near "in NF4:" "$(look --model "$work/merged" --method qlora)" "$merged" 0.2
echo "$start $base $merged" | awk '{ print ($2 < $1 && $3 < $2) ? "each learned" : "no: " $0 }'
"$GPUHOURS" train --model "$work/base" $rows --targets q,router --out "$work/none" 2>&1 || echo "refused"
