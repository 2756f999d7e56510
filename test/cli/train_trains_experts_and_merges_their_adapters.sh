# SPDX-License-Identifier: Apache-2.0
# Mixtures of experts trained in full, adapters on their experts, the two merged: the loss at each end is the same.
# Qwen 3 MoE has a file's tensor for each expert, gpt-oss one for all of them.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rows="--data test/data/tiny_model/rows.jsonl --labels completion --context 64 --quiet --seed 3"
look() { # the first loss, with nothing learned
    "$GPUHOURS" train $rows --micro-batch 4 --rate 0 --max-steps 1 --json --out "$work/look" "$@" |
        sed -n 's/.*"loss":\([0-9.]*\).*/\1/p'
    rm -rf "$work/look"
}
near() { awk -v what="$1" -v a="$2" -v b="$3" -v bound="$4" 'BEGIN {
    d = (a - b) / b; if (d < 0) d = -d
    print what, (b > 0 && d < bound) ? "same" : "differ: " a " " b }'; }
train_and_merge() { # FOLDER, EDIT of a Llama's config.json
    mkdir -p "$1/shape" && cp test/data/tiny_model/tokenizer*.json "$1/shape"
    sed "$2" test/data/tiny_model/config.json >"$1/shape/config.json"
    "$GPUHOURS" train --random-weights --model "$1/shape" $rows --method full --epochs 2 --rate 0.01 --out "$1/base" >/dev/null
    "$GPUHOURS" train --model "$1/base" $rows --rank 4 --epochs 2 --rate 0.01 --out "$1/adapter" >/dev/null
    "$GPUHOURS" merge --model "$1/base" --adapter "$1/adapter" --out "$1/merged" >/dev/null
    start=$(look --random-weights --model "$1/shape" --method full)
    base=$(look --model "$1/base" --method full)
    merged=$(look --model "$1/merged" --method full)
    near "adapted and merged:" "$(look --model "$1/base" --adapter "$1/adapter" --rank 4)" "$merged" 1e-5
    echo "$start $base $merged" | awk '{ print ($2 < $1 && $3 < $2) ? "each learned" : "no: " $0 }'
}
refuse() { "$GPUHOURS" train $rows --out "$work/none" "$@" 2>&1 || echo "refused"; }

echo "Qwen 3 MoE"
train_and_merge "$work/qwen" 's/"llama"/"qwen3_moe", "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "norm_topk_prob": true/'
near "in NF4:" "$(look --model "$work/qwen/merged" --method qlora)" "$merged" 0.2
refuse --model "$work/qwen/base" --targets q,router
echo "gpt-oss"
train_and_merge "$work/oss" 's/"llama"/"gpt_oss", "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 16/; s/: true/: false/'
grep -o '"mlp.experts[^"]*"' "$work/oss/adapter/adapter_config.json"
refuse --model "$work/oss/base" --dropout 0.1
