# SPDX-License-Identifier: Apache-2.0
# A model trained in full, an adapter on it, the two merged: the loss at each end is the same.
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
"$GPUHOURS" train --random-weights --model test/data/tiny_model $rows --method full --epochs 8 --rate 0.01 --out "$work/base" >/dev/null
ls "$work/base"
"$GPUHOURS" train --model "$work/base" $rows --rank 4 --epochs 8 --rate 0.01 --out "$work/adapter" >/dev/null
ls "$work/adapter"
"$GPUHOURS" merge --model "$work/base" --adapter "$work/adapter" --out "$work/merged" >/dev/null
start=$(look --random-weights --model test/data/tiny_model --method full)
base=$(look --model "$work/base" --method full)
adapted=$(look --model "$work/base" --adapter "$work/adapter" --rank 4)
merged=$(look --model "$work/merged" --method full)
near "base and its adapter before training:" "$(look --model "$work/base" --rank 4)" "$base" 1e-7
near "adapted and merged:" "$adapted" "$merged" 1e-5
near "in bf16:" "$(look --model "$work/merged" --method full --precision bf16)" "$merged" 1e-2
near "in NF4:" "$(look --model "$work/merged" --method qlora)" "$merged" 0.2
echo "$start $base $merged" | awk '{ print ($2 < $1 && $3 < $2) ? "each learned" : "no: " $0 }'
