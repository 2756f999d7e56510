# SPDX-License-Identifier: Apache-2.0
# verl, OpenRLHF and NeMo-RL update the weights several times a step; an update costs more with the optimizer on the host. TRL and verl
# may train on the answers of a step more than once, as OpenRLHF, whose max_epochs then are no epochs of the prompts.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/verl.yaml" <<'CONFIG'
algorithm: {adv_estimator: grpo}
data: {train_batch_size: 128}
actor_rollout_ref:
  model: {path: Qwen/Qwen2.5-7B}
  actor: {ppo_mini_batch_size: 32, ppo_epochs: 2}
  rollout: {n: 8, name: vllm}
trainer: {n_gpus_per_node: 8, nnodes: 1, total_training_steps: 100}
CONFIG
cat >"$work/openrlhf.yaml" <<'CONFIG'
pretrain: meta-llama/Llama-2-7b-hf
reward_pretrain: meta-llama/Llama-2-7b-hf
rollout_batch_size: 1024
train_batch_size: 128
micro_train_batch_size: 8
zero_stage: 3
adam_offload: true
max_epochs: 2
num_episodes: 3
gradient_checkpointing: true
CONFIG
cat >"$work/nemo.yaml" <<'CONFIG'
grpo: {num_prompts_per_step: 64, num_generations_per_prompt: 32, max_num_steps: 100}
policy: {model_name: meta-llama/Llama-3.1-8B, train_global_batch_size: 512, train_micro_batch_size: 1}
cluster: {gpus_per_node: 8, num_nodes: 2}
CONFIG
cat >"$work/trl.yaml" <<'CONFIG'
model_name_or_path: Qwen/Qwen2.5-7B
num_generations: 8
max_completion_length: 1024
num_iterations: 4
per_device_train_batch_size: 8
learning_rate: 1.0e-6
beta: 0.04
CONFIG
for trainer in verl openrlhf nemo trl; do
    printf '%s\n' "$trainer"
    "$GPUHOURS" plan --from "$work/$trainer.yaml" --response-length 300,600,1000 --steps 100 --gpu h100 --gpus 8 --search off --quiet \
        --json >"$work/plan.json"
    sed -n '/"request"/,/}/p' "$work/plan.json" | grep -E '"(updates|rounds|global_batch|epochs)"'
done
rl="--objective grpo --model llama-3.1-8b --gpu h100 --gpus 8 --response-length 300,600,1000 --steps 9 --method full --stack hf-deepspeed --search off --quiet"
update() {
    "$GPUHOURS" plan $rl --sampler-gpus 0 --parallel 'zero3 + cpu offload' "$@" --json |
        tr -d '\n' | grep -o '"name": "weight update", *"seconds": [0-9]*'
}
update | grep -o '[0-9]*$' >"$work/one"
update --updates 4 | grep -o '[0-9]*$' >"$work/four"
[ "$(cat "$work/four")" -gt "$(cat "$work/one")" ] && echo 'more updates cost more'
phase() { # NAME MORE…
    name=$1
    shift
    "$GPUHOURS" plan $rl --sampler-gpus 0 --parallel zero2 --micro-batch 1 --checkpointing full "$@" --json | tr -d '\n' | grep -o "\"name\": \"$name\", *\"seconds\": [0-9.]*" | head -1 | grep -o '[0-9.]*$'
}
for name in training reference rollout; do
    echo "$name in three rounds: $(phase $name --rounds 3) $(phase $name)" | awk '{ printf "%s %s %s %s %.1f times\n", $1, $2, $3, $4, $5 / $6 }'
done
"$GPUHOURS" plan $rl --rounds 0 2>&1 | cat
"$GPUHOURS" plan $rl --updates 0 2>&1 | cat
"$GPUHOURS" plan --model llama-3.1-8b --tokens 1M --updates 2 2>&1 | cat
