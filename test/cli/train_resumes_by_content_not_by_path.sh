# SPDX-License-Identifier: Apache-2.0
# A resumed run has the same base weights, wherever they lie; others under the same path are refused.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rows=test/data/tiny_model/rows.jsonl
for seed in 1 2; do
    "$GPUHOURS" train --random-weights --model test/data/tiny_model --data $rows --method full --seed $seed --context 64 \
        --max-steps 1 --quiet --out "$work/model$seed" >/dev/null
    cp test/data/tiny_model/tokenizer*.json "$work/model$seed"
done
try() {
    "$GPUHOURS" train --model "$1" --data $rows --rank 4 --context 64 --max-steps 2 --quiet --out "$work/out" \
        2>&1 >/dev/null | sed "s|$work|WORK|g"
    echo "-- ${1##*/}"
}
try "$work/model1"
try "$work/../$(basename "$work")/model1"
mv "$work/model1" "$work/moved"
try "$work/moved"
mv "$work/model2" "$work/model1"
try "$work/model1"
