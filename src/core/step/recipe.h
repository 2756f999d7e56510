// SPDX-License-Identifier: Apache-2.0
// recipe: how a model is trained: method, precision, optimizer, recomputation.
//
// A recipe says what the user decides, independent of the hardware and of the training stack; what
// is left on "auto" is filled in by the stack (core/step/stack.h). The tables are the plan's
// options.
//
//     struct recipe recipe = recipe_default();
//     recipe.method = RECIPE_LORA;
//     bool adapted = recipe_targets(&recipe, &linear);

#pragma once

#include "core/step/model.h"

enum recipe_method { RECIPE_FULL, RECIPE_LORA, RECIPE_QLORA, RECIPE_METHODS };
enum recipe_dtype {
    RECIPE_FP32,
    RECIPE_FP16,
    RECIPE_BF16,
    RECIPE_FP8,
    RECIPE_FP4, // of products alone: nvfp4, mxfp4
    RECIPE_DTYPE_AUTO,
};
enum recipe_quantization {
    RECIPE_NF4,
    RECIPE_NF4_NESTED,
    RECIPE_GPTQ4,
    RECIPE_INT8,
    RECIPE_GPTQ8,
};
enum recipe_optimizer {
    RECIPE_ADAMW,
    RECIPE_ADAMW_8BIT,
    RECIPE_ADAMW_PAGED, // states in host memory, paged in
    RECIPE_SGD,
    RECIPE_ADAFACTOR,
    RECIPE_ADAMW_PAGED_8BIT,
};
enum recipe_attention { // transformers' names
    RECIPE_ATTENTION_EAGER,
    RECIPE_SDPA,   // PyTorch's choice of kernels; padded batches have a mask
    RECIPE_FLASH2, // padded batches have none
    RECIPE_FLASH3,
    RECIPE_ATTENTION_AUTO, // as the stack does
};
enum recipe_experts { // how the experts of a layer are run (core/step/moe.h)
    RECIPE_EXPERTS_EAGER,
    RECIPE_EXPERTS_GROUPED,
    RECIPE_EXPERTS_FUSED,
    RECIPE_EXPERTS_DENSE, // every expert computes every token
    RECIPE_EXPERTS_AUTO,  // as the stack does
};
enum recipe_checkpointing {
    RECIPE_KEEP_ALL,    // none: every activation is kept
    RECIPE_SELECTIVE,   // norms and activation functions are recomputed
    RECIPE_GATE,        // and gate and up, by stacks that can
    RECIPE_PROJECTIONS, // and the other products: all but attention
    RECIPE_RECOMPUTE,   // full: whole layers are recomputed
    RECIPE_AUTO,        // the cheapest that fits
};

struct recipe {
    int method, precision;
    int64_t rank;
    double alpha;        // NAN: twice the rank
    bool rslora;         // adapters are scaled by alpha / √rank instead of alpha / rank
    bool dora;           // adapters with a trained magnitude for each output (DoRA)
    const char *targets; // "all-linear", "attention", "mlp", or names: "q,v"
    bool skips_experts;  // all-linear does not find them: set by estimate_recipe()
    double dropout;      // on the adapters' input; NAN: as the stack does
    int adapter_dtype;   // RECIPE_DTYPE_AUTO: as the stack does
    int quantization;    // of the frozen base under QLoRA
    int optimizer;
    int states;  // dtype of the optimizer's states
    int weights; // dtype of the trained weights: fp32 is a master copy
    int checkpointing;
    int attention;              // enum recipe_attention
    int experts;                // enum recipe_experts, of a mixture of experts
    bool trains_encoder;        // of images: its weights, or adapters on all its linears
    bool trains_embeddings;     // embedding and head are trained whole beside the adapters
    bool optimizer_in_backward; // each weight is updated as soon as its gradient is there
    bool nondeterministic;      // our engine: sums of attention's backward pass in any order
};

extern const struct field recipe_fields[];
extern const char *const recipe_methods[], *const recipe_precisions[],
                                               *const recipe_quantizations[];
extern const char *const recipe_expert_kernels[]; // "eager", "grouped", "fused", "dense", "auto"
extern const char *const recipe_checkpointings[]; // "none", "selective", … "auto", NULL

struct recipe recipe_default(void); // LoRA, rank 16, all linears, bf16, AdamW, no recomputation

bool recipe_is_paged(const struct recipe *recipe); // optimizer states live in host memory
// How the weights of a checkpoint are stored, by the end of its name ("…-bnb-4bit", "…-GPTQ");
// below 0: it does not say.
int recipe_quantization_of(struct text name);

// How the frozen base is quantised: by GPTQ in 8 or 4 bits; in NF4, with nested statistics or
// plain.
bool recipe_is_gptq(const struct recipe *recipe);
bool recipe_is_nf4(const struct recipe *recipe);

// Whether LoRA adapts this linear. The head is adapted only where it is named.
bool recipe_targets(const struct recipe *recipe, const struct model_linear *linear);
enum err recipe_check(const struct recipe *recipe, const struct model *model);

bool recipe_is_small(const struct recipe *recipe); // products of 8- or 4-bit operands
double recipe_dtype_bytes(int dtype);
double recipe_weight_bytes(
    const struct recipe *recipe); // per frozen quantised weight, with its scales
double recipe_state_bytes(const struct recipe *recipe, int states); // optimizer, per trained weight
