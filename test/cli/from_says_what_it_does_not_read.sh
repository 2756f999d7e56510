# SPDX-License-Identifier: Apache-2.0
# Scripts and programs are no configurations: --from says what to do instead. Keys that matter and are ignored are named without --explain.
from=$(mktemp -d)
trap 'rm -rf "$from"' EXIT
printf 'swift sft \\\n  --model Qwen/Qwen2.5-7B-Instruct \\\n  --train_type lora\n' >"$from/swift.sh"
printf 'import torch\nfrom trl import SFTTrainer\n' >"$from/train.py"
printf 'only words\n' >"$from/words.yaml"
for file in swift.sh train.py words.yaml; do
    "$GPUHOURS" plan --tokens 1M --from "$from/$file" 2>"$from/err"
    echo "exit $?"
    sed "s|$from/||" "$from/err"
done
echo "-- the command of that script"
"$GPUHOURS" plan --tokens 1M --gpu h100 --search off --quiet --ledger off -- swift sft --model Qwen/Qwen2.5-7B-Instruct --train_type lora --lora_rank 8 | head -1
echo "-- keys"
printf 'base_model: meta-llama/Llama-3.1-8B\nadapter: lora\nlora_r: 8\ntorch_compile: true\npeft_use_dora: true\nunfrozen_parameters: [a]\n' >"$from/axolotl.yml"
"$GPUHOURS" plan --tokens 1M --gpu h100 --gpus 1 --search off --ledger off --from "$from/axolotl.yml" 2>&1 >"$from/out"
"$GPUHOURS" plan --tokens 1M --gpu h100 --gpus 1 --search off --ledger off --quiet --from "$from/axolotl.yml" 2>&1 >"$from/out"
