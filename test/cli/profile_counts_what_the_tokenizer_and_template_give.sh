# SPDX-License-Identifier: Apache-2.0
# Tokens and labelled tokens as Hugging Face tokenizers 0.23.2 counts them for the same template.
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
$GPUHOURS profile data/example.jsonl --tokenizer test/data/small_tokenizer.json \
    --template chatml --labels assistant --micro-batch 16 --out "$folder/p.json" | grep -v written
