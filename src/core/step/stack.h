// SPDX-License-Identifier: Apache-2.0
// stack: what a training stack keeps, fuses and upcasts, and how fast it runs against the roofline.
//
// Stacks are rows of data (data/stacks.json), because they differ more than GPUs do: one norm
// function reads and writes eight times what another does, one loss keeps twelve bytes per logit
// and another none. A row may be "like" another and give only what differs; no code asks for a
// stack's name, so a copy behaves as its original in everything. What cannot be derived is the
// efficiency: how much slower than its own step list a stack runs, a distribution fitted on
// measured runs (core/measured/calibration.h) and stored in data/efficiency.csv.

#pragma once

#include "base/stats.h"
#include "core/data/packing.h"
#include "core/step/catalog.h"
#include "core/step/recipe.h"

enum stack_kernels { STACK_EAGER, STACK_COMPILED, STACK_FUSED };
enum stack_attention {
    STACK_ATTENTION_EAGER,
    STACK_TRITON, // FlashAttention's first version, in Triton
    STACK_FLASH2,
    STACK_FLASH3,
    STACK_CUDNN
};
enum stack_gradients {       // under FSDP, while micro-batches accumulate
    STACK_GRADIENTS_SHARDED, // each micro-batch reduces them
    STACK_GRADIENTS_WHOLE,   // only the last one does (no_sync): each GPU holds all of them
    STACK_GRADIENTS_FLAT,    // and those of frozen weights, which share a flat tensor with trained
};
enum stack_autocasts {     // whether fp32 weights that are told stay so, cast for each product
    STACK_NEVER_CASTS,     // FSDP gathers them in 16 bits, or the trainer has a copy
    STACK_ALWAYS_CASTS,    // torch.autocast
    STACK_CASTS_UNSHARDED, // the same, but under FSDP, which does it itself
};
enum stack_selective {         // what selective recomputation computes again
    STACK_RECOMPUTES_CHEAP,    // norms and activation functions
    STACK_RECOMPUTES_HALF,     // those and every second product (torchtitan's per-op choice)
    STACK_RECOMPUTES_ATTENTION // attention's core alone (Megatron)
};
enum stack_fetches { STACK_FETCHES_UNITS, STACK_FETCHES_TENSORS }; // FSDP's, DeepSpeed's
enum stack_adapters { // LoRA as separate modules; the same under autocast; fused kernels
    STACK_ADAPTERS_PLAIN,
    STACK_ADAPTERS_AUTOCAST,
    STACK_ADAPTERS_FUSED
};

struct stack {
    const char *name, *like, *title, *aliases; // aliases: words of framework names, separated by |
    const char *family;                        // stacks of one family share their prior
    const char *vendors;        // whose accelerators it runs on, separated by |; NULL: not known
    int kernels;                // of norms, rotary positions and activation functions
    int attention;              // enum stack_attention
    bool masks;                 // padded batches reach attention with a mask (transformers' sdpa)
    int experts;                // enum recipe_experts
    const char *dense_experts;  // families, separated by |, whose experts compute every token
    bool even_routing;          // tokens are forced evenly onto experts, as benchmarks do
    bool adapts_modules;        // all-linear finds modules, not experts that are one tensor (PEFT)
    bool strided_experts;       // their gate and up are views of one product, read with a stride
    double expert_launches;     // per expert and product, where products of a group run one by one
    double expert_rate;         // of dense products, of a fused kernel whose tiles are full
    const char *experts_since;  // which version of which software runs them so
    int adapters;               // how LoRA products are run
    int autocasts;              // enum stack_autocasts
    int frozen;                 // dtype in which frozen weights are held, unless quantised
    int adapter_dtype;          // of adapters, their gradients and states
    int weights;                // dtype of trained weights under bf16 (fp32: a master copy)
    int gradients, states;      // dtypes under full training
    int reduces;                // dtype in which gradients are summed over GPUs
    bool copies_weights;        // a 16-bit copy is kept beside fp32 weights (Megatron, DeepSpeed)
    double update_copies;       // of one state, alive in the update (an optimizer over lists)
    int held_gradients;         // enum stack_gradients
    bool reentrant;             // each recomputed layer runs a backward pass of its own
    bool input_gradients;       // recomputation asks for gradients of an encoder's patches
    double inner_gradients;     // of the feed-forward network at once; kernels in place need fewer
    bool unties;                // a tied head becomes a second matrix
    bool widens_unquantized;    // embedding, head and norms go to fp32 beside a quantised base
    bool narrows_for_bf16;      // back to bf16 beside NF4 under bf16, but for norms (TRL)
    bool casts_quantized;       // a quantised linear casts its output, and both copies are kept
    bool copies_on_save;        // a checkpoint copies 8-bit linears first (bitsandbytes 0.38, 0.39)
    bool fp8_weights;           // frozen and trained weights are stored in 8 bits under fp8
    bool widens_in_torch;       // 4-bit weights, by its operations (torchao), not by a kernel
    bool fp8_gathers;           // FSDP gathers linears in 8 bits under fp8
    bool rowwise_scales;        // fp8 has a scale for each row, not for each tensor
    bool remakes;               // a whole-model compiler recomputes norm and gate outputs
    double loss_bytes;          // kept per logit at the peak
    double loss_most_bytes;     // of all logits, where they are computed in chunks
    bool pads_vocabulary;       // the head has columns up to a multiple of 64 or more
    bool fused_gelu;            // one kernel also where transformers runs GELU by its formula
    double loss_moved_bytes;    // per logit, forward and backward
    bool labelled_head;         // the head runs on labelled tokens only
    double launch_seconds;      // of the host per operation launched
    double recompute_launches;  // host time of a recomputed operation, in launches
    bool cuda_graphs;           // a layer's operations are replayed as one
    bool updates_on_gpu;        // offloaded states stream through the GPU
    int fetches;                // enum stack_fetches: what it fetches one by one under ZeRO-3
    double fetch_seconds;       // of the host per fetch and pass
    bool gathers_again;         // recomputation gathers weights that backward gathers once more
    bool copies_gathered;       // gathered weights and scattered gradients pass a buffer of a unit
    bool gathers_ahead;         // of tensors, the next ones beside the products of this one
    bool late_reduction;        // ZeRO-1 sums gradients after the backward pass
    double host_bytes_per_s;    // of its optimizer in host memory, over the GPUs of a host
    double first_width_seconds; // at the first sight of a width, where cuDNN runs attention
    double
        first_steps_seconds; // of the first step of each alignment, per layer: kernels are loaded
    double step_seconds;   // of the host per optimizer step, outside the passes: loader, log, clip
    double pause_seconds;  // of the host per adapted linear and micro-batch, while the GPU waits
    double overlap;        // share of communication that can overlap with compute
    double dropout;        // on adapters, unless the recipe gives one
    double slack;          // reserved over allocated memory when shapes repeat
    double memory_spread;  // half of the 80 % range of measured over planned memory, as logarithm
    double trainer_spread; // the same of the speed of different trainers that go by its name
    double quantized_spread;   // the same under qlora
    bool offloads_checkpoints; // layer inputs of full recomputation go to the host
    double context_bytes;      // CUDA context, libraries and communicators, per GPU
    bool attention_workspace;  // reserves base/attention_workspace.h for attention's backward pass
    int64_t zero;              // stage of ZeRO that plain data parallelism runs under
    int64_t most_zero;         // the highest stage that it offers
    bool shares_base;          // under stage 3, GPUs share the frozen base of adapters alone
    bool exact_gradients;      // sums gradients in fp32, unless full training has bf16 states
    bool stops_early;          // recomputation leaves out a layer's last product
    bool selective;            // it can recompute norms and activation functions alone
    int recomputes;            // enum stack_selective
    bool whole_inputs;         // linears keep the input that tensor ranks gathered, not their part
    bool whole_sequences;      // tensor parallelism leaves norms and residuals whole on each rank
    bool whole_logits;         // tensor ranks gather the logits, and each computes the loss
    bool partial;              // and some of a layer's products alone, as recompute.h says
    int checkpointing;         // its default
    int batching;              // its default, enum batching
    const char *pads_pairs;    // whose trainer of pairs it runs, which pads them; empty: not known
                               // to pad
    const char *trainer;       // whose batches it makes: a row of packing_trainers
    bool tensor_parallel, pipeline_parallel, context_parallel, expert_parallel; // it can split so
    bool offloads;            // states to the host
    const struct stack *base; // the stack that "like" names; NULL: none. No column
    const char *source, *as_of;
};

extern const struct field stack_fields[];

// Whether it is our engine, native or a stack like it: the only one that sums gradients exactly.
bool stack_is_engine(const struct stack *stack);

// Whether it runs on accelerators of that vendor, as gpus.csv spells it.
bool stack_runs_on(const struct stack *stack, const char *vendor);

// Whether it has a level of recomputation.
bool stack_recomputes(const struct stack *stack, int checkpointing);

// Takes off what transformers' Trainer adds to the steps of a bare loop (bench/results/h200.md).
void stack_without_trainer(struct stack *stack);

// Reads a list of stacks, or one: a user's own stack is a file. "like" names a known stack or one
// earlier in the list.
enum err stack_read(struct stack **out, size_t *count, struct arena *arena,
                    const struct stack *known, size_t known_count, struct text json,
                    const char *name);

// Whether embedding, head and norms are fp32 beside a quantised base. PEFT leaves GPTQ models
// alone.
bool stack_widens(const struct stack *stack, const struct recipe *recipe);
// Whether NF4 weights are made by several of PyTorch's operations, each with a result of its own.
bool stack_widens_in_parts(const struct stack *stack, const struct recipe *recipe);
// The type of gradients as they are held and read by the optimizer. PyTorch's have that of their
// weights; a stack that copies weights has its own.
int stack_gradients(const struct stack *stack, const struct recipe *recipe);
bool stack_is_deepspeed(const struct stack *stack);
// The kernel that runs a model's experts: enum recipe_experts.
int stack_experts(const struct stack *stack, const struct model *model);

// The stack of a request that names none: plain transformers, with PEFT where adapters are trained.
const char *stack_default(int method);

// By name, alias or a framework's name as people write it; ERR_USAGE names the nearest.
enum err stack_find(const struct stack **out, const struct stack *stacks, size_t count,
                    const char *name);
