// SPDX-License-Identifier: Apache-2.0
#include "base/half.h"
#include "test/files.h"
#include "test/test.h"
#include "test/train/tiny_model.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static struct model read_model(const char *config)
{
    struct model model;
    CHECK(!model_read_config(&model, &test_arena, text_of(config), "config.json"));
    return model;
}

static int64_t count_parameters(const char *config)
{
    struct model model = read_model(config);
    struct weights_slot *slots;
    size_t count;
    int64_t sum = 0;
    CHECK(!weights_list(&slots, &count, &test_arena, &model, STORAGE_BF16));
    for (size_t i = 0; i < count; i++)
        sum += weights_elements(&slots[i]);
    CHECK(sum == model_parameters(&model));
    return sum;
}

TEST(the_slots_of_each_architecture_are_all_its_parameters)
{
    static const char *const configs[] = { tiny_llama, tiny_mistral, tiny_qwen2,
                                           tiny_qwen3, tiny_mixtral, tiny_qwen3_moe };
    for (int i = 0; i < 6; i++)
        CHECK(count_parameters(configs[i]) > 4000);
}

static const struct weights_slot *find_slot(const char *config, const char *name)
{
    struct model model = read_model(config);
    struct weights_slot *slots;
    size_t count;
    CHECK(!weights_list(&slots, &count, &test_arena, &model, STORAGE_BF16));
    for (size_t i = 0; i < count; i++)
        if (!strcmp(slots[i].name, name))
            return &slots[i];
    return NULL;
}

static bool named(const char *config, const char *name, const char *file_name, int64_t rows,
                  int64_t columns)
{
    const struct weights_slot *slot = find_slot(config, name);
    return slot && !strcmp(slot->file_name, file_name) && slot->shape[0] == rows &&
           slot->shape[1] == columns && slot->rank == (columns ? 2 : 1);
}

// Names and shapes as in the published checkpoints of these families.
TEST(weights_have_the_names_of_published_checkpoints)
{
    CHECK(named(tiny_llama, "embedding", "model.embed_tokens.weight", 40, 16));
    CHECK(named(tiny_llama, "layers.1.q", "model.layers.1.self_attn.q_proj.weight", 16, 16));
    CHECK(named(tiny_llama, "layers.0.k", "model.layers.0.self_attn.k_proj.weight", 8, 16));
    CHECK(named(tiny_llama, "layers.0.o", "model.layers.0.self_attn.o_proj.weight", 16, 16));
    CHECK(named(tiny_llama, "layers.0.down", "model.layers.0.mlp.down_proj.weight", 16, 24));
    CHECK(named(tiny_llama, "layers.0.attention_norm", "model.layers.0.input_layernorm.weight", 16,
                0));
    CHECK(named(tiny_llama, "layers.0.mlp_norm", "model.layers.0.post_attention_layernorm.weight",
                16, 0));
    CHECK(named(tiny_llama, "final_norm", "model.norm.weight", 16, 0));
    CHECK(named(tiny_llama, "head", "lm_head.weight", 40, 16));
    CHECK(named(tiny_qwen2, "layers.0.v.bias", "model.layers.0.self_attn.v_proj.bias", 8, 0));
    CHECK(!find_slot(tiny_qwen2, "head") && !find_slot(tiny_llama, "layers.0.v.bias"));
    CHECK(named(tiny_qwen3, "layers.1.k_norm", "model.layers.1.self_attn.k_norm.weight", 8, 0));
    CHECK(named(tiny_mixtral, "layers.0.expert_up.2",
                "model.layers.0.block_sparse_moe.experts.2.w3.weight", 24, 16));
    CHECK(named(tiny_qwen3_moe, "layers.0.up", "model.layers.0.mlp.up_proj.weight", 24, 16));
    CHECK(named(tiny_qwen3_moe, "layers.1.router", "model.layers.1.mlp.gate.weight", 3, 16));
    CHECK(named(tiny_qwen3_moe, "layers.1.expert_down.0",
                "model.layers.1.mlp.experts.0.down_proj.weight", 16, 12));
    CHECK(named(tiny_qwen3, "layers.1.q", "model.layers.1.self_attn.q_proj.weight", 32, 16));
    const char *module = weights_module(&test_arena, find_slot(tiny_llama, "layers.1.q"));
    CHECK(!strcmp(module, "model.layers.1.self_attn.q_proj"));
}

// That the folder holds the tiny model, to within a relative error.
static void check_values(const char *folder, double error)
{
    struct weights w;
    CHECK(!weights_open(&w, &test_arena, folder));
    CHECK(!weights_check_finite(&w));
    for (size_t i = 0; i < w.count; i++) {
        int64_t count = weights_elements(&w.items[i].slot);
        float *wanted = tiny_model_values(&w.items[i].slot);
        float *found = ARENA_NEW(&test_arena, float, count);
        weights_read(found, &w.items[i], 0, 1);
        weights_read(found + 1, &w.items[i], 1, count - 1);
        double off = 0, size = 0;
        for (int64_t k = 0; k < count; k++) {
            off += pow((double)found[k] - (double)wanted[k], 2);
            size += pow((double)wanted[k], 2);
        }
        if (!(sqrt(off / size) <= error))
            return CHECK_NEAR(sqrt(off / size), 0, error);
    }
    weights_release(&w);
}

TEST(model_folders_of_every_type_are_read)
{
    check_values(tiny_model_plain("w-f32", tiny_llama, STORAGE_F32), 0);
    check_values(tiny_model_plain("w-bf16", tiny_qwen3, STORAGE_BF16), 0);
    check_values(tiny_model_plain("w-f16", tiny_qwen2, STORAGE_F16), 1e-3);
    check_values(tiny_model_plain("w-f64", tiny_mistral, STORAGE_F64), 0);
    struct tiny_model sharded = { tiny_llama, STORAGE_F32, .shard_bytes = 4000 };
    check_values(tiny_model_write("w-sharded", sharded), 0);
    struct tiny_model quantized = { tiny_llama, STORAGE_BF16, .quantized = true };
    check_values(tiny_model_write("w-nf4", quantized), 0.15);
}

TEST(a_quantized_model_says_so)
{
    struct tiny_model how = { tiny_llama, STORAGE_BF16, .quantized = true };
    struct weights w;
    CHECK(!weights_open(&w, &test_arena, tiny_model_write("w-says", how)));
    const struct weights_item *q = weights_find(&w, "layers.0.q");
    CHECK(w.quantized && q && q->nf4 && q->slot.type == STORAGE_BF16);
    CHECK(!weights_find(&w, "head")->nf4 && !weights_find(&w, "layers.2.q"));
    weights_release(&w);
}

// --- what is refused ---------------------------------------------------------

static bool refused(const char *folder, enum err code, const char *words)
{
    struct weights w;
    enum err opened = weights_open(&w, &test_arena, folder);
    enum err err = opened ? opened : weights_check_finite(&w);
    bool good = err == code && strstr(error_text(), words);
    if (!good)
        printf("wanted \"%s\", got %d: %s\n", words, err, err ? error_text() : "");
    if (!opened)
        weights_release(&w);
    return good;
}

static void rewrite_config(const char *name, const char *config)
{
    files_write(text_format(&test_arena, "%s/config.json", name), text_of(config));
}

TEST(weights_that_do_not_fit_the_config_are_refused)
{
    const char *path = tiny_model_plain("w-bad", tiny_llama, STORAGE_F32);
    rewrite_config("w-bad", tiny_qwen2);
    CHECK(refused(path, ERR_INPUT, "q_proj.bias: is not in the files"));
    rewrite_config("w-bad", tiny_qwen3);
    CHECK(refused(path, ERR_INPUT, "q_norm.weight: is not in the files"));
    tiny_model_plain("w-bad", tiny_qwen2, STORAGE_F32);
    rewrite_config("w-bad", tiny_mistral);
    CHECK(refused(path, ERR_INPUT, "lm_head.weight: is not in the files"));
    tiny_model_plain("w-bad", tiny_qwen3, STORAGE_F32);
    rewrite_config("w-bad", tiny_llama);
    CHECK(refused(path, ERR_INPUT, "has shape [32, 16], but config.json needs [16, 16]"));
}

TEST(a_tensor_too_many_is_refused)
{
    char *config = arena_copy(&test_arena, tiny_llama, strlen(tiny_llama));
    memcpy(strstr(config, "layers\": 2"), "layers\": 1", 10);
    const char *path = tiny_model_plain("w-more", tiny_llama, STORAGE_F32);
    rewrite_config("w-more", config);
    CHECK(refused(path, ERR_INPUT, "model.layers.1."));
}

TEST(a_nan_weight_is_named)
{
    struct tiny_model how = { tiny_llama, STORAGE_BF16, .broken = "layers.1.up" };
    CHECK(refused(tiny_model_write("w-nan", how), ERR_INPUT,
                  "model.layers.1.mlp.up_proj.weight: element 3 is not a finite number"));
}

TEST(unknown_architectures_are_refused_by_name)
{
    const char *path = tiny_model_plain("w-arch", tiny_llama, STORAGE_F32);
    rewrite_config(
        "w-arch",
        "{\"model_type\": \"olmo2\", \"hidden_size\": 16, "
        "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 4, "
        "\"vocab_size\": 40, \"intermediate_size\": 24}");
    CHECK(refused(path, ERR_UNAVAILABLE, "cannot train model_type \"olmo2\""));
    rewrite_config("w-arch", "{\"model_type\": \"perceiver\"}");
    CHECK(refused(path, ERR_INPUT, "\"perceiver\" is not supported"));
    struct model model = read_model(tiny_llama);
    struct weights_slot *slots;
    size_t count;
    model.shared_width = 8;
    CHECK(weights_list(&slots, &count, &test_arena, &model, STORAGE_F32) == ERR_UNAVAILABLE);
    CHECK(strstr(error_text(), "has shared experts"));
}

// --- writing -----------------------------------------------------------------

TEST(a_model_is_written_back_with_its_config)
{
    const char *from = tiny_model_plain("w-from", tiny_llama, STORAGE_F32);
    files_write("w-from/tokenizer.json", TEXT("{\"a\": 1}"));
    files_write("w-from/config.json",
                text_of(text_format(&test_arena, "{\"quantization_config\": {\"a\": [1]}, %s",
                                    tiny_llama + 1)));
    const char *to = files_path("w-to");
    mkdir(to, 0700);
    struct weights w;
    CHECK(!weights_open(&w, &test_arena, from));
    struct weights_slot *slots = ARENA_NEW(&test_arena, struct weights_slot, w.count);
    for (size_t i = 0; i < w.count; i++) {
        slots[i] = w.items[i].slot;
        slots[i].type = STORAGE_BF16;
    }
    struct weights_writer out;
    CHECK(!weights_create(&out, &test_arena, to, slots, w.count));
    for (size_t i = 0; i < w.count; i++) {
        int64_t count = weights_elements(&slots[i]);
        float *values = tiny_model_values(&slots[i]);
        CHECK(!weights_write(&out, i, 5, values + 5, count - 5));
        CHECK(!weights_write(&out, i, 0, values, 5));
    }
    CHECK(!weights_finish(&out));
    weights_release_writer(&out);
    CHECK(!weights_copy_config(from, to, &test_arena, STORAGE_BF16));
    weights_release(&w);
    check_values(to, 0); // the values are bf16 numbers already

    struct file file;
    CHECK(!file_open(&file, files_path("w-to/tokenizer.json")) && file.text.size == 8);
    file_close(&file);
    CHECK(!file_open(&file, files_path("w-to/config.json")));
    const char *config = text_copy(&test_arena, file.text);
    file_close(&file);
    CHECK(strstr(config, "\"torch_dtype\": \"bfloat16\"") && strstr(config, "1e-05"));
    CHECK(strstr(config, "10000.0") && !strstr(config, "quantization"));
}
