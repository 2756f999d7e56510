// SPDX-License-Identifier: Apache-2.0
// architecture: what the engine computes for a model_type beyond what the shape of a model says.
//
//     const struct architecture *a = architecture_of(&model);
//     const char *path = architecture_spelling(a, "mlp_norm"); // "post_attention_layernorm"
//
// A family is a row of the table: how transformers spells its weights, and which of the parts that
// models differ in it has. The engine's operations are written for the parts, never for a name.

#pragma once

#include "core/step/model.h"
#include "train/backend.h"

enum { ARCHITECTURE_SPELLINGS = 4 };

struct architecture {
    const char *type;       // model_type: "llama"
    const char *class_name; // in transformers: "LlamaForCausalLM"
    const char *family;     // in the catalog, where it is not the type; NULL: the type
    int64_t norms;          // of the whole width in a layer
    struct architecture_spelling {
        const char *ours, *theirs;
    } spellings[ARCHITECTURE_SPELLINGS]; // of weights that others spell otherwise
    enum activation activation;
    struct swiglu swiglu;  // of an activation with SiLU; 0: slope 1, the usual one
    double norm_offset;    // norms multiply by this + their weight
    bool scales_embedding; // by the root of the width
    bool has_multipliers;  // of embedding, scores, what layers add, and logits, in config.json
    double score_size;     // q · k is divided by its root; 0: the size of a head
    double attention_cap, logit_cap; // usual soft caps; 0: none
    double theta, local_theta; // usual ones of RoPE, local in layers with a window; 0: 10000, none
    bool spreads_windows;      // layers without a window are one in so many, not the first ones
    int64_t unrotated_every;   // one layer in so many rotates nothing; 0: all rotate
    bool has_sinks;            // of attention, a weight per head
    bool has_biases;           // on o, the router and the experts too
    bool has_experts;
    bool stacks_experts; // files hold the matrices of all experts as one tensor, often in MXFP4,
                         // which is then their form in QLoRA
    const char *expert_count; // its key in config.json; NULL: num_experts
    bool normalises_experts;  // always: the weights of a token's experts add up to 1
};

const struct architecture *architecture_find(struct text type);        // NULL: the engine has none
const struct architecture *architecture_of(const struct model *model); // by family, else by shape
const char *architecture_types(struct arena *arena); // "llama, mistral, … and phi3"

// The path of a linear or norm inside its layer, with %lld for the number of an expert; NULL: none.
const char *architecture_spelling(const struct architecture *architecture, const char *part);

// What a model has that the engine does not compute: "shared experts"; NULL: nothing.
const char *architecture_foreign(const struct architecture *architecture,
                                 const struct model *model);
