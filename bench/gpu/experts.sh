#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# experts.sh: mixtures of experts, Gemma and DoRA on a GPU, part by part. Needs build/gpuhours, build/libgpuhours-cuda.so,
# build/cuda-parity and build/fast/bench/engine; PARTS="parity equal" names some, with their seconds on an H200 (estimated):
#
#     parity   each operation against the CPU's, twice: the same bits                                          25
#     equal    tiny Qwen3-MoE, Mixtral and gpt-oss: losses of LoRA, QLoRA and full training are the CPU's      22
#     families Gemma 2 and 3, windows, DoRA: operations and losses are the CPU's                               14
#     speed    steps of Qwen3-30B-A3B: LoRA on attention, four rows of 4,096 tokens; memory against the plan   15
#     sinks    steps of gpt-oss-20b: LoRA on attention, and on experts too; memory against the plan            35
#     memory   QLoRA of it at 2,048 tokens in 24 GiB                                                           15
#     kernels  speeds of the operations at its shape, by mma.sync (0), wgmma (1) and as tuned (2)              12
set -u
. bench/gpu/parts.sh

parity() {
    hold_operations <<'WORDS'
- router
- combine
- swiglu of
- swiglu within
- sinks
- mxfp4
0 experts
1 experts
- experts, tuned
WORDS
}

shape() { # NAME WORDS: the tiny model as a mixture, wide enough for tensor cores
    mkdir -p "$work/$1" && cp test/data/tiny_model/tokenizer*.json "$work/$1"
    sed "s/\"llama\"/$2/; s/\"hidden_size\": [0-9]*/\"hidden_size\": 128/" test/data/tiny_model/config.json >"$work/$1/config.json"
}
run() { # MODEL DEVICE OUT WORDS...
    model=$1 on=$2 out=$3
    shift 3
    timeout --foreground -k 5 30 "$program" train --device "$on" --random-weights --model "$work/$model" --tokenizer test/data/tiny_model \
        --data test/data/tiny_model/rows.jsonl --labels completion --context 64 --micro-batch 4 --rate 0.001 --rank 8 \
        --max-steps 4 --epochs 4 --save-every 0 --quiet --ledger off --seed 3 --out "$work/$out" "$@" 2>&1 | grep '^gpuhours: ' |
        grep -v 'random weights'
}
compare() { # reads lines of model, method, precision, targets, the most that losses may differ by, other options
    while read -r model method precision targets most options; do
        run $model cpu cpu --method "$method" --precision "$precision" --targets "$targets" $options
        run $model "$device" gpu --method "$method" --precision "$precision" --targets "$targets" $options
        far=$(losses cpu gpu)
        verdict "$(below "$far" "$most")" "$model, $method in $precision on $targets $options: losses differ by $far of the CPU's, at most $most"
        rm -rf "$work/cpu" "$work/gpu"
    done
}
equal() {
    shape qwen3_moe '"qwen3_moe", "num_experts": 12, "num_experts_per_tok": 3, "moe_intermediate_size": 64, "norm_topk_prob": true, "output_router_logits": true'
    shape mixtral '"mixtral", "num_local_experts": 4, "num_experts_per_tok": 2'
    shape gpt_oss '"gpt_oss", "num_local_experts": 6, "num_experts_per_tok": 2, "sliding_window": 16'
    compare <<'RUNS'
qwen3_moe lora fp32 attention 1e-5
qwen3_moe lora fp32 all-linear 1e-5
qwen3_moe full fp32 all-linear 1e-5
qwen3_moe qlora fp32 all-linear 1e-5
qwen3_moe lora bf16 all-linear 1e-2
mixtral full fp32 all-linear 1e-5
mixtral qlora bf16 all-linear 1e-2
gpt_oss lora fp32 attention 1e-5
gpt_oss full fp32 all-linear 1e-5
gpt_oss qlora fp32 attention 1e-5
gpt_oss lora bf16 attention 1e-2
gpt_oss lora fp32 all-linear 1e-5
gpt_oss qlora fp32 all-linear 1e-5
gpt_oss lora bf16 all-linear 1e-2
RUNS
}
families() {
    hold_operations <<'WORDS'
- geglu
- scale
- magnitudes
- cross entropy
- norm with an offset
- attention
WORDS
    shape gemma2 '"gemma2", "sliding_window": 8'
    shape gemma3 '"gemma3_text", "sliding_window": 8'
    shape llama '"llama"'
    shape mistral '"mistral", "sliding_window": 8'
    compare <<'RUNS'
gemma2 full fp32 all-linear 1e-5
gemma2 lora bf16 all-linear 1e-2
gemma3 full fp32 all-linear 1e-5
gemma3 lora fp32 attention 1e-5 --dora
mistral lora fp32 all-linear 1e-5
mistral lora bf16 all-linear 1e-2
llama lora fp32 all-linear 1e-5 --dora
llama qlora bf16 all-linear 1e-2 --dora
RUNS
}

engine() { # WORDS...: one JSON line
    said=$(timeout --foreground -k 5 "${LIMIT_S:-60}" build/fast/bench/engine "$@" 2>&1 | tail -1)
    echo "  $said"
    case $said in *tokens_per_second*) ;; *) verdict no "$* has a rate" ;; esac
}
kernels() { # mma.sync, wgmma, and what tuning chose: lines of the same name
    for kernel in 0 1 2; do build/cuda-parity --experts $kernel --time experts | sed "s/^experts:/  kernel $kernel/; s/^/  /"; done
}
speed() {
    engine qwen3-30b-a3b lora:attention bf16 4096 4 5
}
sinks() {
    engine gpt-oss-20b lora:attention bf16 4096 4 5
    engine gpt-oss-20b lora:all-linear bf16 4096 2 5
}
memory() { engine qwen3-30b-a3b qlora:attention bf16 2048 1 4 1 none 24; }

run_parts parity:120 equal:90 families:90 speed:90 sinks:90 memory:90 kernels:60
