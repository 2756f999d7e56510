#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# experts.sh: mixtures of experts on a GPU, part by part. Needs build/gpuhours, build/libgpuhours-cuda.so,
# build/cuda-parity and build/fast/bench/engine; PARTS="parity equal" names some, with their seconds on an H200 (estimated):
#
#     parity   each operation against the CPU's, twice: the same bits                                           8
#     equal    a tiny Qwen3-MoE and a tiny Mixtral: losses of LoRA, QLoRA and full training are the CPU's      12
#     speed    steps of Qwen3-30B-A3B: LoRA on attention, four rows of 4,096 tokens; memory against the plan   15
#     memory   QLoRA of it at 2,048 tokens in 24 GiB                                                           15
#     kernels  speeds of the operations at its shape                                                            8
set -u
program=${GPUHOURS:-build/gpuhours} device=${DEVICE:-cuda}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LD_LIBRARY_PATH=build:${LD_LIBRARY_PATH:-}
failures=0

verdict() { # HOLDS SENTENCE
    if [ "$1" = yes ]; then echo "  met    $2"; else echo "  MISSED $2"; failures=$((failures + 1)); fi
}
below() { awk -v a="$1" -v b="$2" 'BEGIN { print a <= b ? "yes" : "no" }'; }

parity() {
    for word in router combine "swiglu of" experts; do
        holds=no
        build/cuda-parity "$word" >"$work/said" 2>&1 && holds=yes
        sed '1d; s/^/  /' "$work/said"
        verdict $holds "operations of \"$word\" are the CPU's, and have the same bits twice"
    done
}

shape() { # NAME WORDS: the tiny model as a mixture, wide enough for tensor cores
    mkdir -p "$work/$1" && cp test/data/tiny_model/tokenizer*.json "$work/$1"
    sed "s/\"llama\"/$2/; s/\"hidden_size\": [0-9]*/\"hidden_size\": 128/" test/data/tiny_model/config.json >"$work/$1/config.json"
}
run() { # MODEL DEVICE OUT WORDS...
    model=$1 on=$2 out=$3
    shift 3
    "$program" train --device "$on" --random-weights --model "$work/$model" --tokenizer test/data/tiny_model \
        --data test/data/tiny_model/rows.jsonl --labels completion --context 64 --micro-batch 4 --rate 0.001 --rank 8 \
        --max-steps 4 --epochs 4 --save-every 0 --quiet --ledger off --seed 3 --out "$work/$out" "$@" 2>&1 | grep '^gpuhours: ' |
        grep -v 'random weights'
}
losses() { # OUT OUT: the largest relative difference of the loss; 9 without any
    awk -F'"step":|"loss":' '{ s = $2 + 0; l = $3 + 0 } NR == FNR { a[s] = l; next }
        { if (!(s in a)) next; d = (a[s] - l) / a[s]; if (d < 0) d = -d; if (d > worst) worst = d; n++ }
        END { print n ? worst + 0 : 9 }' "$work/$1/metrics.jsonl" "$work/$2/metrics.jsonl" 2>/dev/null || echo 9
}
equal() {
    shape qwen3_moe '"qwen3_moe", "num_experts": 12, "num_experts_per_tok": 3, "moe_intermediate_size": 64, "norm_topk_prob": true, "output_router_logits": true'
    shape mixtral '"mixtral", "num_local_experts": 4, "num_experts_per_tok": 2'
    while read -r model method precision targets most; do
        run $model cpu cpu --method "$method" --precision "$precision" --targets "$targets"
        run $model "$device" gpu --method "$method" --precision "$precision" --targets "$targets"
        far=$(losses cpu gpu)
        verdict "$(below "$far" "$most")" "$model, $method in $precision on $targets: losses differ by $far of the CPU's, at most $most"
        rm -rf "$work/cpu" "$work/gpu"
    done <<'RUNS'
qwen3_moe lora fp32 attention 1e-5
qwen3_moe lora fp32 all-linear 1e-5
qwen3_moe full fp32 all-linear 1e-5
qwen3_moe qlora fp32 all-linear 1e-5
qwen3_moe lora bf16 all-linear 1e-2
mixtral full fp32 all-linear 1e-5
mixtral qlora bf16 all-linear 1e-2
RUNS
}

engine() { timeout "${LIMIT_S:-60}" build/fast/bench/engine "$@" 2>&1 | tail -1; }
kernels() { build/cuda-parity --time experts | sed 's/^/  /'; }
speed() {
    engine qwen3-30b-a3b lora:attention bf16 4096 4 5
}
memory() { engine qwen3-30b-a3b qlora:attention bf16 2048 1 4 1 none 24; }

for part in ${PARTS:-parity equal speed memory kernels}; do
    began=$(date +%s)
    echo "$part"
    "$part"
    echo "  $(($(date +%s) - began)) s"
done
[ $failures = 0 ]
