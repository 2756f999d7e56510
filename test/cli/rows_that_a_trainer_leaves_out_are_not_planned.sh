# SPDX-License-Identifier: Apache-2.0
# max_samples limits the rows that LLaMA-Factory reads, val_set_size and val_size hold rows out of those that are trained on, saves_per_epoch saves.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
awk 'BEGIN { for (i = 0; i < 2000; i++) printf "{\"text\": \"a row of text, number %d\"}\n", i }' >"$work/data.jsonl"
plan() {
    "$GPUHOURS" plan "$work/data.jsonl" --quiet --ledger off --gpu h100 --gpus 1 --search off --from "$work/run.yaml" "$@" >"$work/out"
    "$GPUHOURS" plan "$work/data.jsonl" --quiet --ledger off --gpu h100 --gpus 1 --search off --from "$work/run.yaml" --json "$@" >"$work/plan.json"
    sed -n '/"request"/,/}/p' "$work/plan.json" | grep -E '"(examples|eval_share|saves_per_epoch)"'
    tr -s ' \n' '  ' <"$work/out" | grep -o '[0-9,]* examples were counted[^;]*evaluates on them'
}
echo "-- LLaMA-Factory"
cat >"$work/run.yaml" <<'CONFIG'
model_name_or_path: meta-llama/Llama-3.1-8B
stage: sft
finetuning_type: lora
dataset: mine
cutoff_len: 512
max_samples: 1000
val_size: 0.1
save_strategy: epoch
CONFIG
plan
echo "-- of tokens alone"
tokens() { "$GPUHOURS" plan --tokens 10M --quiet --ledger off --gpu h100 --gpus 1 --search off --from "$work/run.yaml" "$@"; }
tokens --explain | grep max_samples
tokens | tr -s ' \n' '  ' | grep -o -- '--tokens is 10,000,000.*--mean-length'
echo "-- axolotl"
cat >"$work/run.yaml" <<'CONFIG'
base_model: meta-llama/Llama-3.1-8B
adapter: lora
lora_r: 16
sequence_len: 512
val_set_size: 0.1
saves_per_epoch: 4
CONFIG
plan
"$GPUHOURS" plan --tokens 10M --quiet --ledger off --gpu h100 --gpus 1 --search off --from "$work/run.yaml" | grep -o '9.00 M tokens'
echo "-- a share that the user gives"
plan --eval-share 0.05
exit 0
