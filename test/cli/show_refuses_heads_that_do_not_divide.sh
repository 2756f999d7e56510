# SPDX-License-Identifier: Apache-2.0
printf %s "{\"model_type\":\"llama\",\"hidden_size\":4096,\"num_hidden_layers\":2,\"num_attention_heads\":30,\"vocab_size\":9,\"intermediate_size\":9}" >build/odd.json
$GPUHOURS show models build/odd.json
