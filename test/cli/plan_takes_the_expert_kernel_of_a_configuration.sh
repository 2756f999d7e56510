# SPDX-License-Identifier: Apache-2.0
cat >build/experts.yml <<'EOF'
base_model: Qwen/Qwen3-30B-A3B
adapter: lora
lora_r: 16
lora_target_modules: [q_proj, k_proj, v_proj, o_proj]
sequence_len: 4096
micro_batch_size: 1
bf16: true
experts_implementation: eager
EOF
plan() { $GPUHOURS plan --tokens 10M --gpu h200 --gpus 1 --explain --ledger off "$@" | grep -E 'experts[,_]'; }
plan --from build/experts.yml
echo "as axolotl has it:"
plan --model qwen3-30b-a3b --stack axolotl
echo "as asked for:"
plan --model qwen3-30b-a3b --stack axolotl --experts fused
