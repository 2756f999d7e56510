# SPDX-License-Identifier: Apache-2.0
# The result names the loss at the first and at the last step, and the hours of a CPU are not called GPU hours.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$GPUHOURS" train --random-weights --model test/data/tiny_model --data test/data/tiny_model/rows.jsonl --quiet --device cpu \
    --labels completion --context 64 --rank 4 --rate 0.01 --max-steps 6 --held-out 10% --out "$work/out" >"$work/said"
grep -cE '^  trained on  [0-9,]+ tokens in .*, [0-9.]+ device hours$' "$work/said"
grep -c 'GPU hours' "$work/said"
loss() { sed -n "$1p" "$work/out/metrics.jsonl" | sed 's/.*"loss":\([0-9.]*\).*/\1/'; }
printf '  loss        %.4f at step 1, %.4f at step 6\n' "$(loss 1)" "$(loss 6)" >"$work/expected"
grep '^  loss  ' "$work/said" | cmp - "$work/expected" && echo "both losses as in metrics.jsonl"
grep -cE '^  held out    best loss [0-9.]+$' "$work/said"
