// SPDX-License-Identifier: Apache-2.0
// adapter_file: LoRA adapters on disk, in PEFT's format.
//
// A folder holds adapter_config.json and adapter_model.safetensors with two factors per adapted
// linear: y += scale · (x Aᵀ) Bᵀ, where A is (rank, in) and B is (out, rank). Weights that were
// trained in full beside them (modules_to_save) are in the same file.
//
//     struct adapter_file adapter;
//     TRY(adapter_file_open(&adapter, arena, "adapters"));
//     double scale = adapter_file_scale(&adapter.config);
//     const struct adapter_file_module *m = adapter_file_find(&adapter, "lm_head");
//     adapter_file_release(&adapter);
//
// With DoRA there is a vector of magnitudes beside the factors: row j of W + scale · B A is brought
// to the length m_j. Experts that a model holds as one tensor share a pair of factors
// (files/adapter_stack.h); read, they are a module for each expert. Other features that change the
// computation (ranks that differ by layer, and so on) are refused by their name in the config; keys
// that only say how the adapter was made are ignored.

#pragma once

#include "train/files/adapter_stack.h"
#include "train/files/safetensors.h"

struct adapter_file_config {
    const char *base; // base_model_name_or_path; NULL: unknown
    int64_t rank;
    double alpha, dropout;
    bool rank_stabilized; // rsLoRA: scale alpha / √rank instead of alpha / rank
    bool has_magnitudes;  // DoRA: each output has the length that the file says
    const char **targets; // "q_proj", …; as in the file
    size_t target_count;  // 0: the file has a regular expression instead
    struct adapter_stack_targets parameters; // of stacked experts
    const char **saved_modules;              // "lm_head"
    size_t saved_count;
};

double adapter_file_scale(const struct adapter_file_config *config);

// --- reading -----------------------------------------------------------------

struct adapter_file_module {
    const char *name; // of the linear in the base model: "model.layers.0.self_attn.q_proj"
    int64_t in, out;
    const struct safetensors_tensor *a, *b;     // (rank, in), (out, rank); of a stack those of all
    const struct safetensors_tensor *magnitude; // (out), of DoRA; NULL: none
    const struct adapter_stack *stack;          // of experts; NULL: by itself
    int64_t expert;                             // of the stack
};

// The values of its factors: (rank, in) and (out, rank).
float *adapter_file_a(struct arena *arena, const struct adapter_file_module *module);
float *adapter_file_b(struct arena *arena, const struct adapter_file_module *module);

struct adapter_file_saved {
    const char *name; // in the base model: "lm_head.weight"
    const struct safetensors_tensor *tensor;
};

struct adapter_file {
    const char *folder;
    struct adapter_file_config config;
    struct adapter_file_module *modules; // sorted by name
    size_t module_count;
    struct adapter_file_saved *saved; // sorted by name
    size_t saved_count;
    struct safetensors file;
};

enum err adapter_file_open(struct adapter_file *out, struct arena *arena, const char *folder);
void adapter_file_release(struct adapter_file *adapter);
const struct adapter_file_module *adapter_file_find(const struct adapter_file *adapter,
                                                    const char *name);
const struct adapter_file_saved *adapter_file_find_saved(const struct adapter_file *adapter,
                                                         const char *name);

// The two halves of open, for bytes in memory; name is for error messages. The config must be read
// before the tensors are sorted into modules.
enum err adapter_file_read_config(struct adapter_file_config *out, struct arena *arena,
                                  struct text json, const char *name);
enum err adapter_file_sort(struct adapter_file *adapter, struct arena *arena);

// --- writing -----------------------------------------------------------------

struct adapter_file_factors {
    const char *name; // as in struct adapter_file_module, of an expert "….experts.7.down_proj"
    int64_t in, out;
    const float *a, *b;
    const float *magnitude; // NULL unless the config has magnitudes
};

struct adapter_file_whole {
    const char *name; // "lm_head.weight"
    int rank;
    int64_t shape[2];
    const float *values;
};

struct adapter_file_content {
    const struct adapter_file_factors *factors;
    size_t factor_count;
    const struct adapter_file_whole *whole;
    size_t whole_count;
    enum storage type;       // of all numbers in the file; F32 is lossless
    int64_t stacked_experts; // the model holds the matrices of so many as one tensor; 0: each apart
};

// Into an existing folder. Targets and saved modules are taken from the content.
enum err adapter_file_write(const char *folder, struct arena *arena,
                            const struct adapter_file_config *config,
                            const struct adapter_file_content *content);
