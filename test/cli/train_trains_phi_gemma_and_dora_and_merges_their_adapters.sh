# SPDX-License-Identifier: Apache-2.0
# Phi-3 with its linears in one, Gemma with its norms, windows and caps, DoRA, and an adapter on the head: trained in full, then adapters, the
# two merged: the loss at each end is the same.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rows="--data test/data/tiny_model/rows.jsonl --labels completion --context 64 --quiet --seed 3"
look() { # the first loss, with nothing learned
    "$GPUHOURS" train $rows --micro-batch 4 --rate 0 --max-steps 1 --json --out "$work/look" "$@" |
        sed -n 's/.*"loss":\([0-9.]*\).*/\1/p'
    rm -rf "$work/look"
}
check() { # name, what replaces "llama" in config.json, options of the adapters
    name=$1 kind=$2
    shift 2
    rm -rf "$work"/*
    mkdir "$work/shape" && cp test/data/tiny_model/tokenizer*.json "$work/shape"
    sed "s/\"llama\"/$kind/" test/data/tiny_model/config.json >"$work/shape/config.json"
    "$GPUHOURS" train --random-weights --model "$work/shape" $rows --method full --epochs 1 --rate 0.01 --out "$work/base" >/dev/null
    "$GPUHOURS" train --model "$work/base" $rows --rank 4 "$@" --epochs 2 --rate 0.002 --out "$work/adapter" >/dev/null
    "$GPUHOURS" merge --model "$work/base" --adapter "$work/adapter" --out "$work/merged" >/dev/null
    base=$(look --model "$work/base" --method full)
    merged=$(look --model "$work/merged" --method full)
    adapted=$(look --model "$work/base" --adapter "$work/adapter" --rank 4 "$@")
    echo "$base $(look --model "$work/base" --rank 4 "$@") $merged $adapted" | awk -v name="$name" '
        function near(a, b) { return (a - b) ^ 2 < 1e-10 * b ^ 2 ? "same" : "differ: " $0 }
        { print name ": base and new adapters " near($1, $2) ", adapted and merged " near($3, $4) ", " \
                ($3 < $1 ? "learned" : "did not learn: " $0) }'
}
check phi3 '"phi3", "partial_rotary_factor": 0.5'
check gemma2 '"gemma2", "sliding_window": 8'
check gemma3_text '"gemma3_text", "sliding_window": 8'
check smollm3 '"smollm3"'
check "llama with DoRA" '"llama"' --dora
check "llama with its embeddings" '"llama"/; s/true/false' --trains-embeddings # and a head of its own
check "llama with an adapter on its head" '"llama"/; s/true/false' --targets v,down,lm_head
check "qwen2 with DoRA" '"qwen2"' --dora --targets q,down
"$GPUHOURS" train --model "$work/base" $rows --dora --dropout 0.1 --out "$work/none" 2>&1 || echo "refused"
"$GPUHOURS" train --model "$work/base" $rows --rank 4 --adapter "$work/adapter" --out "$work/none" 2>&1 | sed "s|$work/||" || echo "refused"
