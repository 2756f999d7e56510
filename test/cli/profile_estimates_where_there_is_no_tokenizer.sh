# SPDX-License-Identifier: Apache-2.0
# The model is not on this machine: its family's factor and template are used, and it says so.
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
export HF_HUB_CACHE="$folder"
$GPUHOURS profile example --model meta-llama/Llama-3.1-8B-Instruct --labels assistant \
    --out "$folder/p.json" | sed -n '1,5p'
grep -A3 '"tokenizer"' "$folder/p.json"
$GPUHOURS pack example --model meta-llama/Llama-3.1-8B-Instruct --out "$folder/packed"
