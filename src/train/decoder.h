// SPDX-License-Identifier: Apache-2.0
// decoder: a model that the engine can train: shape, positions and norms, from config.json.
//
//     struct decoder decoder;
//     TRY(decoder_read(&decoder, arena, file.text, "config.json"));
//     int64_t window = decoder_window(&decoder, 3);
//
// The engine runs the families of files/architecture.c: decoders with RMSNorm, RoPE (plain, linear,
// llama3, yarn or longrope scaling, of all or part of a head), grouped-query attention in windows
// or not, and a gated feed-forward network or a mixture of them. Other differences between the
// families are numbers here, with a neutral value for models that lack the feature. Anything else
// is refused.

#pragma once

#include "train/backend.h"
#include "train/files/architecture.h"

// Frequencies of the usual positions, and of others: of layers with a window (Gemma 3), or of
// documents that are longer than those of the model's training (longrope).
enum decoder_rotation { ROTATION_USUAL, ROTATION_OTHER, ROTATION_NONE };
enum { DECODER_ROTATIONS = ROTATION_NONE };

struct decoder_scaling {                      // of positions, as in config.json
    const char *type;                         // NULL, "linear", "llama3", "yarn", "longrope"
    double factor, low, high, trained;        // low and high: turns in the trained length
    bool keeps_fractions;                     // of yarn: pairs are not rounded to whole ones
    const double *factors[DECODER_ROTATIONS]; // of longrope, for each pair: short, long
};

struct decoder {
    struct model model;
    const struct architecture *architecture;
    double norm_epsilon;
    double rope_theta, local_theta; // local: of layers with a window; 0: as the others
    struct decoder_scaling scaling;
    int64_t rotary_size;             // the first columns of a head, which are rotated
    double rotary_scale;             // of what is rotated
    double *frequencies;             // (DECODER_ROTATIONS, rotary_size / 2)
    const int64_t *windows;          // of each layer; NULL: all have that of the model
    const bool *unrotated;           // layers without positions; NULL: none
    double embedding_scale;          // of a token's row of the embedding
    double added_scale, logit_scale; // of what a layer adds to the residual stream; of logits
    double attention_scale;          // of q · k; 0: 1 over the root of the size of a head
    double attention_cap, logit_cap; // x → cap · tanh(x / cap); 0: none
    struct swiglu swiglu;
    bool normalises_experts; // the weights of a token's experts add up to 1
    double balance;          // weight of the auxiliary loss that spreads tokens over experts
};

enum err decoder_read(struct decoder *out, struct arena *arena, struct text json, const char *name);

// From a shape only, for runs without weights: plain positions with theta 10000.
enum err decoder_of(struct decoder *out, struct arena *arena, const struct model *model);

int64_t decoder_window(const struct decoder *decoder, int64_t layer); // 0: all tokens before

// How the queries and keys of a layer are rotated in a document of so many tokens.
enum decoder_rotation decoder_rotation(const struct decoder *decoder, int64_t layer,
                                       int64_t tokens);

// A config.json that transformers reads back as this decoder.
void decoder_write(const struct decoder *decoder, struct json_writer *w, const char *torch_dtype);
