# SPDX-License-Identifier: Apache-2.0
# A plan of one H200, run on four A100s: GPU hours are counted on four, the record names them, and no later plan learns from it.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$GPUHOURS" plan --model llama-3.2-1b --stack hf-peft --method lora --tokens 20480 --gpu h200 --context 512 --batching max \
    --mean-length 512 --micro-batch 1 --global-batch 1 --epochs 1 --search off --json --ledger off --quiet >"$work/plan.json"
for place in "" "--gpu h200 --gpus 1" "--gpu a100-80gb --gpus 4" "--gpu home-made"; do
    echo "watch $place"
    rm -f "$work/ledger"
    "$GPUHOURS" watch --plan "$work/plan.json" $place --ledger "$work/ledger" --quiet --json -- \
        sh -c 'for i in $(seq 1 40); do sleep 0.02; echo "{'\''loss'\'': 1.5, '\''step'\'': $i}"; done' >"$work/run.json" 2>"$work/err"
    tr -d ' \n' <"$work/run.json" | sed 's/"planned".*"configuration"/"configuration"/' >"$work/line"
    awk -v wall="$(grep -o '"wall_hours":[^,]*' "$work/line" | cut -d: -f2)" -v gpu="$(grep -o '"gpu_hours":[^,]*' "$work/line" | cut -d: -f2)" \
        'BEGIN { printf "GPU hours of %.2g GPUs\n", gpu / wall }'
    grep -o '"gpu":"[^"]*"\|"gpus":[0-9]*\|"parallel":[^,]*' "$work/line" | tr '\n' ' '
    echo
    grep -h -o 'not added to the ledger: .*' "$work/err"
done
