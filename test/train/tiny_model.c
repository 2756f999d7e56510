// SPDX-License-Identifier: Apache-2.0
#include "test/train/tiny_model.h"

#include "base/half.h"
#include "base/rng.h"
#include "test/files.h"
#include "test/test.h"

#include <string.h>
#include <sys/stat.h>

#define SHAPE                                                                             \
    "\"hidden_size\": 16, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "         \
    "\"num_key_value_heads\": 2, \"intermediate_size\": 24, \"vocab_size\": 40, "         \
    "\"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-05, \"rope_theta\": 10000.0, " \
    "\"hidden_act\": \"silu\", \"torch_dtype\": \"float32\""

const char tiny_llama[] = "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", "
                          "\"tie_word_embeddings\": false, " SHAPE "}";
const char tiny_mistral[] = "{\"model_type\": \"mistral\", \"sliding_window\": 8, " SHAPE "}";
const char tiny_qwen2[] = "{\"model_type\": \"qwen2\", \"tie_word_embeddings\": true, " SHAPE "}";
const char tiny_mixtral[] = "{\"model_type\": \"mixtral\", \"num_local_experts\": 3, " SHAPE "}";
const char tiny_qwen3_moe[] =
    "{\"model_type\": \"qwen3_moe\", \"head_dim\": 8, \"num_experts\": 3, "
    "\"num_experts_per_tok\": 2, \"moe_intermediate_size\": 12, \"mlp_only_layers\": [0], " SHAPE
    "}";
const char tiny_qwen3[] = "{\"model_type\": \"qwen3\", \"head_dim\": 8, " SHAPE "}";

static uint64_t seed_of(const char *name)
{
    uint64_t seed = 1469598103934665603;
    for (; *name; name++)
        seed = (seed ^ (unsigned char)*name) * 1099511628211;
    return seed;
}

float *tiny_model_values(const struct weights_slot *slot)
{
    struct rng rng = rng_seeded(seed_of(slot->name));
    int64_t count = weights_elements(slot);
    float *values = ARENA_NEW(&test_arena, float, count);
    bool norm = slot->rank == 1 && !slot->bias;
    for (int64_t i = 0; i < count; i++) {
        float value = (float)(norm ? 1 + 0.1 * rng_normal(&rng) : 0.2 * rng_normal(&rng));
        values[i] = half_from_bf16(half_to_bf16(value));
    }
    return values;
}

static bool is_quantized(const struct tiny_model *how, const struct weights_slot *slot)
{
    return how->quantized && slot->rank == 2 && slot->layer >= 0;
}

static enum err write_one(struct safetensors_writer *out, const struct tiny_model *how,
                          const struct weights_slot *slot, size_t at, const struct nf4_slots *parts)
{
    float *values = tiny_model_values(slot);
    if (how->broken && !strcmp(how->broken, slot->name))
        values[3] = NAN;
    if (is_quantized(how, slot)) {
        struct nf4 nf4;
        nf4_quantize(&nf4, &test_arena, values, slot->shape[0], slot->shape[1], how->type);
        return nf4_write(out, parts, &nf4);
    }
    size_t count = (size_t)weights_elements(slot), bytes = count * storage_bytes(how->type);
    char *stored = ARENA_NEW(&test_arena, char, bytes);
    storage_write(stored, how->type, values, count);
    return safetensors_write(out, at, 0, stored, bytes);
}

static enum err write_weights(struct safetensors_writer *out, const struct tiny_model *how,
                              const struct weights_slot *slots, size_t count)
{
    size_t *at = ARENA_NEW(&test_arena, size_t, count);
    struct nf4_slots *parts = ARENA_NEW(&test_arena, struct nf4_slots, count);
    for (size_t i = 0; i < count; i++)
        if (is_quantized(how, &slots[i]))
            parts[i] = nf4_declare(out, slots[i].file_name, slots[i].shape[0], slots[i].shape[1]);
        else
            at[i] = safetensors_declare(out, slots[i].file_name, how->type, slots[i].rank,
                                        slots[i].shape);
    TRY(safetensors_begin(out));
    for (size_t i = 0; i < count; i++)
        TRY(write_one(out, how, &slots[i], at[i], &parts[i]));
    return safetensors_finish(out);
}

const char *tiny_model_write(const char *folder, struct tiny_model how)
{
    const char *path = files_path(folder);
    mkdir(path, 0700);
    files_write(text_format(&test_arena, "%s/config.json", folder), text_of(how.config));
    struct model model;
    struct weights_slot *slots;
    size_t count;
    CHECK(!model_read_config(&model, &test_arena, text_of(how.config), "config.json"));
    CHECK(!weights_list(&slots, &count, &test_arena, &model, how.type));
    struct safetensors_writer out;
    safetensors_init(&out, &test_arena, path, "model");
    if (how.shard_bytes)
        out.shard_bytes = how.shard_bytes;
    CHECK(!write_weights(&out, &how, slots, count));
    safetensors_release_writer(&out);
    return path;
}

const char *tiny_model_plain(const char *folder, const char *config, enum storage type)
{
    return tiny_model_write(folder, (struct tiny_model){ .config = config, .type = type });
}
