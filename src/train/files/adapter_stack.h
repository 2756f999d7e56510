// SPDX-License-Identifier: Apache-2.0
// adapter_stack: adapters on experts that a model holds as one tensor, as gpt-oss does.
//
// PEFT adapts such a tensor by the name of the parameter (target_parameters),
// "mlp.experts.down_proj", with one pair of factors for all experts:
//
//     lora_A  (experts · rank, in)    expert e has the rows e · rank to (e + 1) · rank − 1
//     lora_B  (out, rank · experts)   expert e has the columns e, experts + e, 2 · experts + e, …
//
// In gate_up_proj the outputs of gate and up alternate, as in files/stacked.h.
//
// Files name the factors after the module that holds the parameters, "….mlp.experts". Where both of
// its parameters are adapted, PEFT puts one wrapper around the other: "….experts.base_layer" is
// gate_up_proj, which the module has first, and "….experts" is down_proj.
//
//     adapter_stack_module(&stack, arena, text_of("model.layers.3.mlp.experts"), &targets);
//     adapter_stack_read_b(values, &stack, 7, tensor); // of expert 7, (out, rank)

#pragma once

#include "train/files/safetensors.h"

struct adapter_stack {
    const char *experts_path; // "model.layers.3.mlp.experts"
    const char *parameter;    // "gate_up_proj" or "down_proj"
    int64_t experts, rank, in, out;
};

// Parameters that a config names: "mlp.experts.gate_up_proj", or "3.mlp.experts.down_proj".
struct adapter_stack_targets {
    const char **names;
    size_t count;
};

bool adapter_stack_is_target(const char *name); // of a kind that can be read

// What a module of a file adapts, "….experts" or "….experts.base_layer"; false: no stacked experts.
bool adapter_stack_module(struct adapter_stack *out, struct arena *arena, struct text module,
                          const struct adapter_stack_targets *targets);

// Linears whose outputs alternate in it: gate and up, or one.
int64_t adapter_stack_linears(const struct adapter_stack *stack);

// The other way: the module's name in a file whose experts have both parameters adapted, or one.
const char *adapter_stack_name(struct arena *arena, const struct adapter_stack *stack, bool both);

// The factors of one expert, (rank, in) and (out, rank), out of those of all.
void adapter_stack_read_a(float *out, const struct adapter_stack *stack, int64_t expert,
                          const struct safetensors_tensor *a);
void adapter_stack_read_b(float *out, const struct adapter_stack *stack, int64_t expert,
                          const struct safetensors_tensor *b);

// The way back: one expert's factors into those of all.
void adapter_stack_put(float *all_a, float *all_b, const struct adapter_stack *stack,
                       int64_t expert, const float *a, const float *b);
