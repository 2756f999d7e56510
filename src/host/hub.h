// SPDX-License-Identifier: Apache-2.0
// hub: finds a model's files in a folder or in the local Hugging Face cache, never on the network.
//
// A model is a folder ("./llama"), or a name ("meta-llama/Llama-3.1-8B", optionally "@revision")
// that is looked up where the hub's own library stores its downloads: $HF_HUB_CACHE,
// $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub.
//
//     const char *path;
//     TRY(hub_find_tokenizer(&path, arena, "Qwen/Qwen2.5-7B"));

#pragma once

#include "base/text.h"

// The file, folder or pattern in the cache that "hf://datasets/org/name[@revision][/path]" names.
enum err hub_find_dataset(const char **path, struct arena *arena, const char *address);

// The file to read a tokenizer from: `model` itself if it is a file, else the model's
// tokenizer.json, tokenizer.model or *.tiktoken.
enum err hub_find_tokenizer(const char **path, struct arena *arena, const char *model);
