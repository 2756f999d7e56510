// transformer_files: a transformer's weights from a model folder; adapters or weights back to one.

#pragma once

#include "train/adapter_file.h"
#include "train/transformer.h"
#include "train/weights.h"

// Every weight of the base. NF4 stays NF4 under QLoRA; anything else becomes the compute type.
enum err transformer_load(struct transformer *t, const struct weights *weights);

// Adapters as PEFT has them, in fp32: adapter_config.json and adapter_model.safetensors.
enum err transformer_save_adapter(struct transformer *t, struct arena *arena, const char *folder,
                                  const char *base);

// The adapter of a folder into this one's, to go on training it.
enum err transformer_load_adapter(struct transformer *t, struct arena *arena, const char *folder);

// The whole model as safetensors with config.json, in the compute type. base: the folder that the
// config and the tokenizer are copied from, or NULL.
enum err transformer_save(struct transformer *t, struct arena *arena, const char *folder,
                          const char *base);
