# SPDX-License-Identifier: Apache-2.0
# The files and what was assumed, on the plan's own GPUs; then a rented place, whose hours are masked.
. test/cli/launch.inc
for to in slurm script; do
    echo "== $to"
    "$program" launch --plan plan.json --to $to --output runs/first -- torchrun train.py --name 'two words' 2>&1
done
echo "== k8s"
"$program" launch --plan plan.json --to k8s --image mine/trainer:1 --data rows --output results --env HF_TOKEN \
    --partition team -- torchrun train.py 2>&1
for to in sky dstack; do
    echo "== $to"
    "$program" launch --plan plan.json --to $to --offer azure/Standard_ND96isr_H100_v5/spot --gpus 16 --today 2026-11-01 \
        --env HF_TOKEN --quiet -- torchrun train.py | grep -v '^#' |
        sed -E 's/: [0-9]+m$/: Nm/; s/(kill-after=)[0-9]+ [0-9]+/\1N N/; s/(disk[a-z_]*: )[0-9]+/\1N/; s/[0-9]+\.[0-9]+/USD/g'
done
echo "== the built-in engine"
"$program" launch --plan plan.json --to slurm --data 'my rows.jsonl' --model ./llama --quiet | grep 'set -- mpirun'
