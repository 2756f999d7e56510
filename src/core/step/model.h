// SPDX-License-Identifier: Apache-2.0
// model: the shapes of a decoder, every weight in it, and how many there are.
//
//     struct model model;
//     TRY(model_read_config(&model, arena, text, "config.json"));
//     struct model_linear linears[MODEL_LINEARS];
//     size_t count = model_linears(&model, MODEL_DENSE, linears);
//
// The lists of linears and norms are the one description of the weights: the step list, the LoRA
// targets, the byte plan and the parameter totals all read them. A layer is either dense (one
// feed-forward network) or sparse (a router and experts); a model has layers of one or both kinds.
// Texts point into the arena or are constants. The letters of formulas: C width, H heads, K
// kv_heads, D head_size, F ffn_width, V vocabulary, L layers, E experts.

#pragma once

#include "core/vision/vision.h"

enum model_norm_kind { MODEL_RMS_NORM, MODEL_LAYER_NORM, MODEL_LAYER_NORM_NO_BIAS };

// A norm on queries and keys has weights for one head, or for all heads together.
enum model_qk_norm { MODEL_QK_NONE, MODEL_QK_HEAD, MODEL_QK_WIDTH };

// Whether a catalog's total was seen in print, is one that a person remembered, or was computed
// from the shape: the last agrees with model_parameters() by construction and proves nothing.
enum model_total {
    MODEL_TOTAL_UNKNOWN,
    MODEL_TOTAL_PUBLISHED,
    MODEL_TOTAL_REMEMBERED,
    MODEL_TOTAL_COMPUTED,
};

struct model {
    const char *name, *aliases, *family; // aliases are separated by |
    int64_t layers, width, heads, kv_heads, head_size, ffn_width, vocabulary;
    bool tied_embeddings;
    int64_t max_positions;
    bool gated;         // SwiGLU, GeGLU: a gate beside the up projection
    bool composed_gelu; // GELU by its formula, operation by operation (gelu_new)
    int norm;           // enum model_norm_kind
    int64_t norms_per_layer;
    int qk_norm;            // enum model_qk_norm
    bool parallel;          // attention and feed-forward read the same input
    bool learned_positions; // a table of max_positions × width
    bool embedding_norm;    // a norm after the embedding
    bool qkv_bias, out_bias, mlp_bias, head_bias;
    bool fused_qkv, fused_gate_up; // stored, and adapted by LoRA, as one linear
    bool attention_sinks;          // one more weight per head and layer
    int64_t activation_parameters; // per layer; 0 but for trained activations
    int64_t sliding_window;        // 0: every layer attends to everything before
    int64_t full_attention_layers; // those without a window, where others have one

    // Mixture of experts. experts is 0 for a dense model.
    int64_t experts, experts_active, shared_experts;
    int64_t expert_width, shared_width; // shared_width: of all shared experts together
    int64_t dense_layers;          // the first so many layers have a dense feed-forward network
    int64_t sparse_every;          // after those, one layer in so many is sparse; 0: each
    bool router_bias, shared_gate; // a weight per expert; a width → 1 gate on the shared ones

    // Latent attention (DeepSeek). kv_lora_rank is 0 for ordinary attention.
    int64_t q_lora_rank, kv_lora_rank, qk_nope_size, qk_rope_size, v_head_size;

    const char *vision;         // family of its encoder of images, as in vision.csv; NULL: none
    const struct vision *tower; // that encoder, once looked up (model_find_tower)

    int64_t parameters, active_parameters; // of the catalog; 0 where read from a config.json
    int total_from;                        // enum model_total
    const char *source, *as_of, *note;
};

extern const struct field model_fields[]; // columns of models.csv, keys of JSON

enum model_role {
    MODEL_ATTENTION,
    MODEL_MLP,
    MODEL_EXPERT,
    MODEL_SHARED,
    MODEL_ROUTER,
    MODEL_HEAD,
};

struct model_linear {
    const char *name; // "q", "k", "v", "o", "qkv", "gate", "up", "down", "gate_up", "router",
                      // "expert_gate", …, "shared_gate", …, "q_a", "q_b", "kv_a", "kv_b", "head"
    enum model_role role;
    int64_t in, out;
    int64_t count;  // copies in the layer: the number of experts, else 1
    int64_t active; // copies that one token passes
    bool bias;      // out more weights per copy
};

struct model_norm {
    const char *name;
    int64_t size;    // elements normalised together
    int64_t vectors; // per token: 1, or the number of heads for a norm per head
    int64_t weights; // trained, with the bias
};

enum model_layer { MODEL_DENSE, MODEL_SPARSE };
enum { MODEL_LINEARS = 16, MODEL_NORMS = 8 };

int64_t model_layers(const struct model *model, enum model_layer kind); // how many of that kind
enum model_layer model_layer(const struct model *model, int64_t index);
size_t model_linears(const struct model *model, enum model_layer kind,
                     struct model_linear out[MODEL_LINEARS]);
size_t model_norms(const struct model *model, struct model_norm out[MODEL_NORMS]); // of any layer
struct model_linear model_head(const struct model *model);      // the output head, tied or not
int64_t model_full_attention_layers(const struct model *model); // those without a window
bool model_caps_scores(const struct model *model); // and logits, softly: Gemma 2 alone does

// What attention reads and gives per token: all query, key and value heads, and what enters "o".
// Of latent attention the expanded keys and values, as training computes them.
int64_t model_query_width(const struct model *model);
int64_t model_key_width(const struct model *model);
int64_t model_value_width(const struct model *model);
int64_t model_attention_width(const struct model *model);

// Exact totals. Weights of linears count no biases; all of them fit an int64 (model_check).
int64_t model_parameters(const struct model *model);
int64_t model_active_parameters(const struct model *model); // that one token passes
int64_t model_layer_parameters(const struct model *model, enum model_layer kind);
int64_t model_layer_linear_weights(const struct model *model, enum model_layer kind);
int64_t model_linear_weights(const struct model *model); // of all layers and the head
int64_t model_active_linear_weights(const struct model *model);
int64_t model_embedding_parameters(const struct model *model); // tokens and positions, not the head

// What the file of a model calls a member; a list of them ends with a key of NULL.
struct model_word {
    size_t offset; // in struct model
    const char *key;
};

// ERR_INPUT with a sentence for shapes that no decoder has: zero or absurd sizes, heads that do not
// divide, more active experts than there are. It names members by words (NULL: by model_fields).
enum err model_check(const struct model *model, const char *name, const struct model_word *words);

// The model with its encoder of images; itself if it has none, or has it already.
enum err model_find_tower(const struct model **model, struct arena *arena);

// Reads a Hugging Face config.json. Missing keys take the defaults of that model_type where it has
// them. An unknown model_type is read by the names of its keys and says so in its note; one with
// recurrent or other foreign layers is refused by what it has, one without shape by the known
// types.
enum err model_read_config(struct model *model, struct arena *arena, struct text json,
                           const char *name);

// ERR_INPUT for the name of a known model that has foreign layers, which no catalog has and whose
// nearest namesake is another kind of model.
enum err model_check_name(struct arena *arena, struct text name);
