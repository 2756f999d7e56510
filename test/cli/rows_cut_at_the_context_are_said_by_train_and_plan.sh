# SPDX-License-Identifier: Apache-2.0
# How many rows and tokens the context cuts off, of rows and of pairs; and nothing where all fits.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r test/data/tiny_model "$work/model"
word() { awk -v n="$1" 'BEGIN { while (n--) printf "a" }'; }
for size in 20 20 20 100; do echo "{\"prompt\":\"q\",\"completion\":\"$(word $size)\"}"; done >"$work/rows.jsonl"
echo "{\"prompt\":\"q\",\"chosen\":\"$(word 60)\",\"rejected\":\"$(word 90)\"}" >"$work/pairs.jsonl"
train() { # WORDS...
    rm -rf "$work/out"
    "$GPUHOURS" train --random-weights --model "$work/model" --max-steps 1 --quiet --ledger off --out "$work/out" "$@" 2>&1 |
        sed "s|$work|WORK|g" | grep 'rows\|labelled'
}
plan() { # WORDS...
    "$GPUHOURS" plan --model "$work/model" --gpu h100 --stack native --ledger off --quiet --json "$@" |
        grep '"cut_examples\|"dropped_examples\|"lost_tokens\|are not trained on'
}
echo "-- train"
train --data "$work/rows.jsonl" --context 64
train --data "$work/rows.jsonl" --context 128
train --data "$work/pairs.jsonl" --objective dpo --context 64
sed -i 's/"max_position_embeddings": 128/"max_position_embeddings": 48/' "$work/model/config.json"
train --data "$work/rows.jsonl" --context 64
echo "-- plan"
plan "$work/rows.jsonl" --context 64
plan "$work/rows.jsonl" --context 128
plan --examples 4 --mean-length 41 --context 32 --packing off
