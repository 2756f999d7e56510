# SPDX-License-Identifier: Apache-2.0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
model=$folder/models--org--small
mkdir -p "$model/refs" "$model/snapshots/abc" "$model/snapshots/old"
cp test/data/tokenizers/gpt2.json "$model/snapshots/abc/tokenizer.json"
cp test/data/tokenizers/llama2.json "$model/snapshots/old/tokenizer.json"
printf abc > "$model/refs/main"
export HF_HUB_CACHE="$folder"
echo the | $GPUHOURS tokenize --tokenizer org/small
echo the | $GPUHOURS tokenize --tokenizer org/small@old
echo the | $GPUHOURS tokenize --tokenizer "$model/snapshots/abc"
echo the | $GPUHOURS tokenize --tokenizer org/none 2>&1 | sed "s|$folder|CACHE|"
echo the | $GPUHOURS tokenize --tokenizer org/small@none 2>&1 | sed "s|$folder|CACHE|"
