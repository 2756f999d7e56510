// SPDX-License-Identifier: Apache-2.0
// weights: the weights of a model folder in the layout of transformers, by the engine's names.
//
// A slot is one weight that the model has: its name here ("layers.3.q", see core/step/model.h), its
// name in files ("model.layers.3.self_attn.q_proj.weight"), and its shape. The list of slots comes
// only from the model; a folder is checked against it.
//
//     struct weights weights;
//     TRY(weights_open(&weights, arena, "models/llama"));
//     err = weights_check_finite(&weights);
//     const struct weights_item *q = weights_find(&weights, "layers.3.q");
//     weights_read(values, q, 0, q->slot.shape[0] * q->slot.shape[1]);
//     weights_release(&weights);
//
// Linears are (out, in) as in the files. A tied head has no slot: it is the embedding. A weight may
// be quantized to NF4, and stacked ones to MXFP4; weights_read dequantizes them.

#pragma once

#include "core/step/model.h"
#include "train/files/stacked.h"
#include "train/nf4.h"

struct weights_slot {
    const char *name;      // "embedding", "layers.3.q", "layers.3.q.bias", "final_norm", "head",
                           // "layers.3.expert_up.5" of expert 5
    const char *file_name; // "model.layers.3.self_attn.q_proj.weight"; of a stacked weight one
                           // that files do not have (files/stacked.h)
    const char *part;      // of model_linears() or model_norms(), "embedding", "final_norm", "head"
    int64_t layer;         // -1: of no layer
    int64_t expert;        // -1: of no expert
    bool bias;
    int64_t stacked; // files hold it in one tensor with those of so many experts; 0: by itself
    int rank;        // 2, or 1 for norms and biases
    int64_t shape[2];
    enum storage type; // how it is, or will be, stored
};

int64_t weights_elements(const struct weights_slot *slot);

// The path of a linear or norm of a layer in files: "model.layers.3.self_attn.q_proj". part is of
// model_linears() or model_norms(); an expert's linears have its number, others -1.
const char *weights_path(struct arena *arena, const struct model *model, const char *part,
                         int64_t layer, int64_t expert);

// Where a stacked weight lies among those of all experts; not yet in a file.
struct stacked weights_stacked(const struct weights_slot *slot);

// What PEFT calls the module: the file's name without ".weight".
const char *weights_module(struct arena *arena, const struct weights_slot *slot);

// Embedding, layers, final norm, head. ERR_UNAVAILABLE for shapes that the engine does not train.
enum err weights_list(struct weights_slot **out, size_t *count, struct arena *arena,
                      const struct model *model, enum storage type);

// --- reading -----------------------------------------------------------------

struct weights_item {
    struct weights_slot slot;
    const struct safetensors_tensor *tensor; // of a quantized weight its codes
    const struct nf4 *nf4;                   // NULL unless quantized to NF4
    const struct stacked *stacked;           // NULL unless stacked
};

struct weights {
    const char *folder;
    struct model model;
    struct weights_item *items; // in the order of weights_list()
    size_t count;
    bool quantized; // at least one of them
    struct safetensors file;
};

// Reads config.json and maps the safetensors: every weight of the model must be there, in its shape
// and as fp64, fp32, fp16, bf16, NF4 or MXFP4, and nothing else.
enum err weights_open(struct weights *out, struct arena *arena, const char *folder);
void weights_release(struct weights *weights);
const struct weights_item *weights_find(const struct weights *weights, const char *name);

// A checksum over names and values, added to `seed`. Of a large tensor it takes three samples:
// other weights are noticed, a flipped bit may not be.
uint64_t weights_sum(const struct weights *weights, uint64_t seed);

const char *weights_at(const struct weights_item *item);      // its bytes, as stored
enum err weights_check_finite(const struct weights *weights); // reads all of them
enum err weights_check_values(const struct weights *weights, const struct weights_item *item,
                              const void *values); // the same for one, as stored
void weights_read(float *out, const struct weights_item *item, int64_t first, int64_t count);

// --- writing -----------------------------------------------------------------

struct weights_writer {
    struct safetensors_writer file;
    const struct weights_slot *slots;
    size_t *tensors; // of the file, for each slot
    float *stacked;  // the pieces of a stacked weight until all are there: `filled` so far
    int64_t filled;
};

// Into an existing folder; slots may be written in any order and in pieces, those of a stacked
// weight one after another.
enum err weights_create(struct weights_writer *out, struct arena *arena, const char *folder,
                        const struct weights_slot *slots, size_t count);
enum err weights_write(struct weights_writer *out, size_t slot, int64_t first, const float *values,
                       int64_t count);
enum err weights_finish(struct weights_writer *out);
void weights_release_writer(struct weights_writer *out);

// Copies what belongs to the weights: config.json, without quantization_config and with the given
// type, and the files of the tokenizer that exist.
// Refuses links that lead out of the folder: a model from elsewhere could have a file of the user
// copied beside weights that are handed on. weights_check_config() says so before any work.
enum err weights_check_config(const char *folder, struct arena *arena);
enum err weights_copy_config(const char *from_folder, const char *to_folder, struct arena *arena,
                             enum storage type);
