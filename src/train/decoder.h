// SPDX-License-Identifier: Apache-2.0
// decoder: a model that the engine can train: shape, positions and norms, from config.json.
//
//     struct decoder decoder;
//     TRY(decoder_read(&decoder, arena, file.text, "config.json"));
//     double frequency = decoder.frequencies[0]; // of the first rotary pair, per position
//
// The engine runs Llama 2 and 3, Mistral, Qwen 2, 2.5 and 3 and models of the same shape: RMSNorm,
// RoPE (plain, linear or llama3 scaling), grouped-query attention, SwiGLU, optional bias on q, k
// and v, optional norm on q and k; and mixtures of experts of the same parts: Mixtral and Qwen 3
// MoE. Anything else is refused.

#pragma once

#include "core/step/model.h"

struct decoder_scaling { // of positions, as in config.json
    const char *type;    // NULL, "linear", "llama3"
    double factor, low, high, trained;
};

struct decoder {
    struct model model;
    double norm_epsilon;
    double rope_theta;
    struct decoder_scaling scaling;
    double *frequencies; // head_size / 2
    const char *kind;    // model_type: "llama", "mistral", "qwen2", "qwen3", "mixtral", "qwen3_moe"
    bool normalises_experts; // the weights of a token's experts add up to 1
    double balance;          // weight of the auxiliary loss that spreads tokens over experts
};

enum err decoder_read(struct decoder *out, struct arena *arena, struct text json, const char *name);

// From a shape only, for runs without weights: plain positions with theta 10000.
enum err decoder_of(struct decoder *out, struct arena *arena, const struct model *model);

int64_t decoder_window(const struct decoder *decoder, int64_t layer); // 0: all tokens before

// A config.json that transformers reads back as this decoder.
void decoder_write(const struct decoder *decoder, struct json_writer *w, const char *torch_dtype);
