# SPDX-License-Identifier: Apache-2.0
# Options of adapters beside --method full, and of quantized weights beside LoRA, change nothing: each is named.
"$GPUHOURS" plan --model llama-3.1-8b --tokens 1M --gpu h100 --gpus 2 --method full --rank 8 --targets=q,v --search off 2>&1 >/dev/null
"$GPUHOURS" memory --model llama-3.1-8b --gpu h100 --method lora --quantization nf4 --rank 8 2>&1 >/dev/null
"$GPUHOURS" memory --model llama-3.1-8b --gpu h100 --method qlora --quantization nf4 --rank 8 2>&1 >/dev/null
"$GPUHOURS" memory --model llama-3.1-8b --gpu h100 --method full --rank 8 --quiet 2>&1 >/dev/null
