# SPDX-License-Identifier: Apache-2.0
# A folder with config.json alone, and that file itself: plan and profile estimate the tokens and say so, and train names what is
# missing. A tokenizer beside the config.json is used.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/shape" && cp test/data/tiny_model/config.json "$work/shape"
said() { sed "s|$work|WORK|g"; }
for model in "$work/shape" "$work/shape/config.json"; do
    "$GPUHOURS" profile example --model "$model" --quiet | sed -n 2p
    "$GPUHOURS" plan example --model "$model" --gpu h100 --ledger off --quiet | grep -A1 tokens_estimated
    "$GPUHOURS" train --random-weights --model "$model" --data example --out "$work/out" 2>&1 | said
done
"$GPUHOURS" profile example --model test/data/tiny_model/config.json --template chatml --quiet | sed -n 2p
ls "$work"
