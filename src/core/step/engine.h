// SPDX-License-Identifier: Apache-2.0
// engine: exactly how many bytes our own engine allocates, and which kernel runs its attention.
//
// The engine allocates everything once, before the first step (train/blocks.h): nothing comes and
// goes, so its peak is the sum. This counts the tensors that train/transformer_place.c places; a
// test compares the two.
//
//     if (engine_runs(request))
//         bytes = engine_bytes(request, &engine_cuda);

#pragma once

#include "core/step/step.h"

// What a device does to the plan.
struct engine_device {
    int64_t padding;     // adapters of a product take a multiple of so many columns together
    int64_t chunk_bytes; // of logits that exist at once
};
extern const struct engine_device engine_cuda;
extern const double engine_card_share; // of a card's memory, all that the engine takes at most

struct engine_bytes {
    int64_t frozen;    // weights, and adapters in the compute type beside them
    int64_t quantized; // linears in NF4 with their scales
    int64_t trained;   // weights in the compute type, of full training
    int64_t masters;   // of what is trained, in fp32
    int64_t gradients, moments, activations, logits;
    int64_t scratch; // the rest of the workspace, without that of attention
    int64_t host;    // activations of a micro-batch that wait in host memory
};

// Whether the engine has the operations of a model: of the Llama family, and mixtures like Mixtral,
// Qwen3-MoE and gpt-oss.
bool engine_trains(const struct model *model);

// Whether it has the adapters of a recipe: none with dropout on experts that files hold as one
// tensor (gpt-oss).
bool engine_adapts(const struct model *model, const struct recipe *recipe);

// What ranks send each other: bytes of whole tensors, each cut into the ranks' parts.
struct engine_traffic {
    int64_t gradients; // one row of all, with the gaps of alignment
    int64_t weights;   // the same row as gathered after an update, if states are shared: weights in
                       // the compute type, or masters of adapters
    int64_t layer;     // of a base that ranks share: a gathered layer, with the columns of adapters
};

// Whether the stack is our engine, and the engine can train this model in this layout.
bool engine_runs(const struct step_request *request);

// Of the first rank, whose part of shared states is the largest.
struct engine_bytes engine_bytes(const struct step_request *request,
                                 const struct engine_device *device);

// What the engine keeps where nobody says what to recompute: the lightest level at which all layers
// fit into the budget, and in as many layers as then fit, the first ones, what the level before
// keeps (train/transformer.c). The bytes of a plan have one level for all layers, and
// so room to spare; its time is that of these.
struct engine_fill {
    int level;
    int64_t lighter; // layers that recompute one level less
    int64_t bytes;   // of everything but attention's workspace
};
struct engine_fill engine_fill(const struct step_request *request,
                               const struct engine_device *device, double budget_bytes,
                               double attention_bytes);

struct engine_traffic engine_traffic(const struct step_request *request,
                                     const struct engine_device *device);

// What runs attention in bf16 (train/cuda/attention/attention.cu), also beside fp8 products: cuDNN;
// backward our own kernel for heads of 128 on Hopper, or cuDNN in parts where documents are long;
// the built-in kernels where cuDNN has no plan or no room.
enum engine_kernel { ENGINE_CUDNN, ENGINE_HOPPER, ENGINE_CUDNN_IN_PARTS, ENGINE_BUILT_IN };
struct engine_attention {
    enum engine_kernel forward, backward;
    double workspace; // bytes, for the backward pass (base/attention_workspace.h)
    bool even; // documents of one length, a power of two, side by side: no mask of their ends
};

// For other stacks as if cuDNN did it all, without a workspace. device_bytes may be NAN.
struct engine_attention engine_attention(const struct step_request *request, double device_bytes,
                                         bool is_hopper);
