# SPDX-License-Identifier: Apache-2.0
# A data set that a configuration names on a hub is named in the message, with the way to give a local copy; with data nothing is said.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/axolotl.yml" <<'CONFIG'
base_model: Qwen/Qwen2.5-7B
datasets:
  - path: tatsu-lab/alpaca
    type: alpaca
adapter: lora
CONFIG
cat >"$work/grpo.yaml" <<'CONFIG'
model_name_or_path: Qwen/Qwen2.5-7B
dataset_name: trl-lib/tldr
num_generations: 8
learning_rate: 1.0e-6
CONFIG
cat >"$work/factory.yaml" <<'CONFIG'
model_name_or_path: Qwen/Qwen2.5-7B
stage: sft
finetuning_type: lora
dataset: identity,alpaca_en_demo
cutoff_len: 2048
CONFIG
plan() { "$GPUHOURS" plan "$@" --gpu h100 --gpus 1 --search off --ledger off --quiet 2>&1 | sed "s|$work/||g" | head -1; }
plan --from "$work/axolotl.yml"
plan --from "$work/grpo.yaml" --response-length 200,600,1024
plan --from "$work/factory.yaml"
plan --from "$work/axolotl.yml" --tokens 1M
