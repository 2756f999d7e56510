# SPDX-License-Identifier: Apache-2.0
# A whole run is added to the ledger, also where the trainer counts a step fewer than the plan; one that ends early, or is faster than its GPU, is not, and watch says why.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
watch() { # TOKENS STEPS SECONDS CONTEXT
    "$GPUHOURS" plan --model llama-3.2-1b --stack hf-peft --method lora --tokens "$1" --gpu h200 --context $4 --batching max --mean-length $4 \
        --micro-batch 1 --global-batch 1 --epochs 1 --search off --json --ledger off --quiet >"$work/plan.json"
    rm -f "$work/ledger"
    "$GPUHOURS" watch --plan "$work/plan.json" --ledger "$work/ledger" --quiet -- \
        sh -c "for i in \$(seq 1 $2); do sleep $3; echo \"{'loss': 1.5, 'step': \$i}\"; done; echo \"{'train_runtime': 1.5, 'train_loss': 1.2}\"" \
        >"$work/out" 2>"$work/err"
    echo "exit $?; $("$GPUHOURS" runs export --ledger "$work/ledger" 2>/dev/null | grep -c '"kind": "run"') in the ledger"
    grep -h -o 'not added to the ledger: .*' "$work/err" | sed 's/: its speed: .* times the peak of/: … times the peak of/'
    sed -n '/^  DOUBTFUL/s/[0-9,]* tokens.*/…/p' "$work/out"
}
watch 20480 39 0.02 512
watch 200k 39 0.02 512
watch 327680 39 0.01 8192 # 40 ms at the GPU's peak
