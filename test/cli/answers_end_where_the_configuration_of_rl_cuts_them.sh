# SPDX-License-Identifier: Apache-2.0
# The longest answer and the rows of a pass are those of the trainer's file, and change the forecast; the lengths themselves are asked for.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for most in 1024 8192; do
    cat >"$work/verl.yaml" <<CONFIG
algorithm: {adv_estimator: grpo}
data: {train_batch_size: 128, max_prompt_length: 512, max_response_length: $most}
actor_rollout_ref:
  model: {path: Qwen/Qwen2.5-7B, enable_gradient_checkpointing: true}
  actor: {ppo_mini_batch_size: 32, ppo_micro_batch_size_per_gpu: 8, fsdp_config: {param_offload: true}}
  rollout: {n: 8, name: vllm, gpu_memory_utilization: 0.4}
trainer: {n_gpus_per_node: 8, nnodes: 1, save_freq: 20, test_freq: 5, total_training_steps: 100}
CONFIG
    "$GPUHOURS" plan --from "$work/verl.yaml" --response-length 300,600,1000 --gpu h100 --search off --quiet --ledger off --json >"$work/plan.json"
    sed -n '/"request"/,/}/p' "$work/plan.json" | grep -E '"(response_limit|context|micro_batch|checkpointing|save_every|evaluate_every|reference)"'
    "$GPUHOURS" plan --from "$work/verl.yaml" --response-length 300,600,1000 --gpu h100 --search off --quiet --ledger off | tr -s ' \n' '  ' | grep -o 'at most [0-9]*'
done
"$GPUHOURS" plan --from "$work/verl.yaml" --gpu h100 --search off --quiet --ledger off
echo "exit $?"
"$GPUHOURS" plan --from "$work/verl.yaml" --gpu h100 --search off --quiet --ledger off --response-length 300,600,1000 --response-limit 900
echo "exit $?"
"$GPUHOURS" plan --model llama-3.1-8b --tokens 1M --response-limit 900 --ledger off
echo "exit $?"
"$GPUHOURS" plan --model llama-3.1-8b --tokens 1M --saves-per-epoch 2 --save-every 9 --ledger off
echo "exit $?"
