# SPDX-License-Identifier: Apache-2.0
# The end of a checkpoint's name says how its weights are stored; --method beats it, and is told of it.
plan() {
    "$GPUHOURS" plan --tokens 1M --gpu h100 --gpus 1 --search off --ledger off "$@" 2>&1 | tr -s ' \n' '  ' |
        grep -oE '^gpuhours: the weights.*nested|^gpuhours: the weights.*gptq[48]|^gpuhours: the weights.*int8|(QLoRA|LoRA) of rank [0-9]+|full fine-tuning'
}
for name in unsloth/Llama-3.2-3B-Instruct-bnb-4bit TheBloke/Llama-2-7B-GPTQ Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8 \
    Qwen/Qwen2.5-7B-Instruct-AWQ Qwen/Qwen2.5-7B-Instruct; do
    echo "-- $name"
    plan --model "$name"
done
echo "-- other methods"
plan --model TheBloke/Llama-2-7B-GPTQ --method lora
plan --model TheBloke/Llama-2-7B-GPTQ --method full
plan --model TheBloke/Llama-2-7B-GPTQ --method qlora
plan --model TheBloke/Llama-2-7B-GPTQ --quantization gptq8
echo "-- a trainer's file"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf 'base_model: unsloth/Llama-3.2-3B-Instruct-bnb-4bit\nadapter: lora\nlora_r: 8\n' >"$work/axolotl.yml"
plan --from "$work/axolotl.yml"
"$GPUHOURS" memory --model TheBloke/Llama-2-7B-GPTQ --method qlora --json | grep -E '"(method|quantization)"'
