// SPDX-License-Identifier: Apache-2.0
// tiny_model: model folders of a few thousand weights, for tests.

#pragma once

#include "train/files/weights.h"

extern const char tiny_llama[], tiny_mistral[], tiny_qwen2[], tiny_qwen3[], tiny_mixtral[],
    tiny_qwen3_moe[]; // config.json

struct tiny_model {
    const char *config;
    enum storage type;
    bool quantized;     // the linears of the layers, to NF4
    size_t shard_bytes; // 0: one file
    const char *broken; // a weight, by our name, with a NaN in it
};

// Writes the folder and returns its path. The numbers are the same in every call.
const char *tiny_model_write(const char *folder, struct tiny_model how);
const char *tiny_model_plain(const char *folder, const char *config, enum storage type);

// The values before any rounding to the type or quantizing.
float *tiny_model_values(const struct weights_slot *slot);
