// SPDX-License-Identifier: Apache-2.0
// transformer_files: a transformer's weights from a model folder; adapters or weights back to one.

#pragma once

#include "train/files/adapter_file.h"
#include "train/transformer.h"
#include "train/files/weights.h"

// Loads every weight of the base. NF4 stays NF4 under QLoRA; other types become the compute type.
enum err transformer_load(struct transformer *t, const struct weights *weights);

// Saves adapters in PEFT's format, in fp32: adapter_config.json and adapter_model.safetensors.
enum err transformer_save_adapter(struct transformer *t, struct arena *arena, const char *folder,
                                  const char *base);

// Loads the adapter of a folder, to continue training it.
enum err transformer_load_adapter(struct transformer *t, struct arena *arena, const char *folder);

// Saves the whole model as safetensors with config.json, in the compute type. base: the folder from
// which config and tokenizer are copied; NULL: none.
enum err transformer_save(struct transformer *t, struct arena *arena, const char *folder,
                          const char *base);
