// SPDX-License-Identifier: Apache-2.0
#include "base/half.h"
#include "test/files.h"
#include "test/test.h"
#include "train/files/adapter_file.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

// adapter_config.json as PEFT 0.21 writes it, but for the name of its base.
static const char peft_config[] =
    "{\n  \"alora_invocation_tokens\": null,\n  \"alpha_pattern\": {},\n  \"arrow_config\": null,\n"
    "  \"auto_mapping\": null,\n  \"base_model_name_or_path\": \"some/base\",\n"
    "  \"bias\": \"none\",\n  \"corda_config\": null,\n  \"ensure_weight_tying\": false,\n"
    "  \"eva_config\": null,\n  \"exclude_modules\": null,\n  \"fan_in_fan_out\": false,\n"
    "  \"inference_mode\": true,\n  \"init_lora_weights\": true,\n  \"kasa_config\": null,\n"
    "  \"layer_replication\": null,\n  \"layers_pattern\": null,\n"
    "  \"layers_to_transform\": null,\n  \"loftq_config\": {},\n  \"lora_alpha\": 16,\n"
    "  \"lora_bias\": false,\n  \"lora_dropout\": 0.05,\n  \"lora_ga_config\": null,\n"
    "  \"megatron_config\": null,\n  \"megatron_core\": \"megatron.core\",\n"
    "  \"modules_to_save\": [\"lm_head\"],\n  \"monteclora_config\": null,\n"
    "  \"peft_type\": \"LORA\",\n  \"peft_version\": \"0.21.2\",\n"
    "  \"qalora_group_size\": 16,\n  \"r\": 8,\n  \"rank_pattern\": {},\n  \"revision\": null,\n"
    "  \"target_modules\": [\"q_proj\", \"down_proj\"],\n  \"target_parameters\": null,\n"
    "  \"task_type\": \"CAUSAL_LM\",\n  \"trainable_token_indices\": null,\n"
    "  \"use_bdlora\": null,\n  \"use_dora\": false,\n  \"use_qalora\": false,\n"
    "  \"use_rslora\": false,\n  \"velora_config\": null\n}\n";

static enum err read_config(struct adapter_file_config *config, const char *json)
{
    return adapter_file_read_config(config, &test_arena, text_of(json), "adapter_config.json");
}

TEST(a_config_of_peft_0_21_is_read)
{
    struct adapter_file_config config;
    CHECK(!read_config(&config, peft_config));
    CHECK(config.rank == 8 && config.alpha == 16 && config.dropout == 0.05);
    CHECK(!config.rank_stabilized && adapter_file_scale(&config) == 2);
    CHECK(config.target_count == 2 && !strcmp(config.targets[1], "down_proj"));
    CHECK(config.saved_count == 1 && !strcmp(config.saved_modules[0], "lm_head"));
    CHECK(!strcmp(config.base, "some/base"));
}

TEST(rank_stabilized_adapters_scale_by_the_root)
{
    struct adapter_file_config config;
    CHECK(!read_config(&config, "{\"peft_type\": \"LORA\", \"r\": 16, \"lora_alpha\": 8, "
                                "\"use_rslora\": true, \"target_modules\": \".*proj\"}"));
    CHECK(adapter_file_scale(&config) == 2 && !config.target_count && !config.base);
}

// The config with one member replaced is refused, and the sentence names that member.
static bool refuses(const char *member, const char *value)
{
    struct adapter_file_config config;
    const char *json = text_format(&test_arena,
                                   "{\"peft_type\": \"LORA\", \"r\": 8, \"lora_alpha\": 8, "
                                   "\"x\": 1, \"%s\": %s}",
                                   member, value);
    bool good = read_config(&config, json) == ERR_INPUT && strstr(error_text(), member);
    if (!good)
        printf("%s: %s was not refused: %s\n", member, value, error_text());
    return good;
}

TEST(what_cannot_be_honoured_is_refused_by_name)
{
    CHECK(refuses("use_qalora", "true"));
    CHECK(refuses("lora_bias", "true"));
    CHECK(refuses("fan_in_fan_out", "true"));
    CHECK(refuses("rank_pattern", "{\"q_proj\": 4}"));
    CHECK(refuses("alpha_pattern", "{\"q_proj\": 4}"));
    CHECK(refuses("layer_replication", "[[0, 2]]"));
    CHECK(refuses("trainable_token_indices", "[1]"));
    CHECK(refuses("target_parameters", "[\"experts.up\"]"));
    CHECK(refuses("alora_invocation_tokens", "[5]"));
    CHECK(refuses("a_feature_of_next_year", "{\"on\": true}"));
    CHECK(refuses("init_lora_weights", "\"pissa_niter_16\""));
    CHECK(refuses("init_lora_weights", "\"olora\""));
    CHECK(refuses("bias", "\"all\""));
    CHECK(refuses("task_type", "\"SEQ_CLS\""));
    CHECK(refuses("lora_dropout", "1"));
    CHECK(refuses("target_modules", "{\"a\": 1}"));
    CHECK(refuses("modules_to_save", "[1]"));
    struct adapter_file_config config;
    CHECK(read_config(&config, "{\"r\": 8}") && strstr(error_text(), "peft_type"));
    CHECK(read_config(&config, "{\"peft_type\": \"IA3\"}") && strstr(error_text(), "IA3"));
    CHECK(read_config(&config, "{\"peft_type\": \"LORA\", \"lora_alpha\": 1}"));
    CHECK(strstr(error_text(), "r must be"));
    CHECK(read_config(&config, "{\"peft_type\": \"LORA\", \"r\": 0.5, \"lora_alpha\": 1}"));
    CHECK(read_config(&config, "{\"peft_type\": \"LORA\", \"r\": 1, \"lora_alpha\": \"x\"}"));
    CHECK(read_config(&config, "[]") == ERR_INPUT && read_config(&config, "{") == ERR_INPUT);
}

// --- round trip --------------------------------------------------------------

enum { IN = 6, OUT = 5, RANK = 3 };
static float a_values[RANK * IN], b_values[OUT * RANK], head_values[4 * IN];

static void fill_values(void)
{
    for (int i = 0; i < RANK * IN; i++)
        a_values[i] = 0.1f * (float)(i + 1);
    for (int i = 0; i < OUT * RANK; i++)
        b_values[i] = -0.3f * (float)i;
    for (int i = 0; i < 4 * IN; i++)
        head_values[i] = 1.0f / (float)(i + 1);
}

static const char *write_adapter(const char *name, enum storage type)
{
    fill_values();
    const char *folder = files_path(name);
    mkdir(folder, 0700);
    const struct adapter_file_factors factors[] = {
        { "model.layers.0.self_attn.q_proj", IN, OUT, a_values, b_values, NULL },
        { "model.layers.1.self_attn.q_proj", IN, OUT, a_values, b_values, NULL },
        { "model.layers.0.mlp.down_proj", IN, OUT, a_values, b_values, NULL },
    };
    const struct adapter_file_whole whole[] = { { "lm_head.weight", 2, { 4, IN }, head_values } };
    struct adapter_file_config config = { .base = "some/base", .rank = RANK, .alpha = 12 };
    struct adapter_file_content content = { factors, 3, whole, 1, type, 0 };
    CHECK(!adapter_file_write(folder, &test_arena, &config, &content));
    return folder;
}

static bool holds(const struct safetensors_tensor *t, const float *wanted, size_t count)
{
    float found[64];
    storage_read(found, t->type, t->at, count);
    for (size_t i = 0; i < count; i++)
        if (found[i] !=
            (t->type == STORAGE_F32 ? wanted[i] : half_from_bf16(half_to_bf16(wanted[i]))))
            return false;
    return true;
}

static void check_adapter(const char *folder)
{
    struct adapter_file adapter;
    CHECK(!adapter_file_open(&adapter, &test_arena, folder));
    CHECK(adapter.module_count == 3 && adapter.saved_count == 1);
    CHECK(adapter.config.target_count == 2 && !strcmp(adapter.config.targets[0], "down_proj"));
    CHECK(adapter.config.saved_count == 1 && adapter_file_scale(&adapter.config) == 4);
    const struct adapter_file_module *m =
        adapter_file_find(&adapter, "model.layers.1.self_attn.q_proj");
    CHECK(m && m->in == IN && m->out == OUT);
    CHECK(m && holds(m->a, a_values, RANK * IN) && holds(m->b, b_values, OUT * RANK));
    CHECK(!adapter_file_find(&adapter, "model.layers.2.self_attn.q_proj"));
    const struct adapter_file_saved *head = adapter_file_find_saved(&adapter, "lm_head.weight");
    CHECK(head && holds(head->tensor, head_values, 4 * IN));
    adapter_file_release(&adapter);
}

TEST(an_adapter_is_written_and_read_again)
{
    check_adapter(write_adapter("adapter-f32", STORAGE_F32));
    check_adapter(write_adapter("adapter-bf16", STORAGE_BF16));
}

TEST(tensors_have_the_names_and_shapes_of_peft)
{
    struct safetensors in;
    const char *folder = write_adapter("adapter-names", STORAGE_F32);
    CHECK(!safetensors_open(&in, &test_arena,
                            text_format(&test_arena, "%s/adapter_model.safetensors", folder)));
    const struct safetensors_tensor *a =
        safetensors_find(&in, "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight");
    const struct safetensors_tensor *b =
        safetensors_find(&in, "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight");
    CHECK(a && a->rank == 2 && a->shape[0] == RANK && a->shape[1] == IN);
    CHECK(b && b->rank == 2 && b->shape[0] == OUT && b->shape[1] == RANK);
    CHECK(safetensors_find(&in, "base_model.model.lm_head.weight") && in.count == 7);
    safetensors_release(&in);
}

// --- tensors that do not fit -------------------------------------------------

// A file of one-number tensors with these names and shapes, under a config of rank 1.
static enum err sort_names(const char *first, const char *second, const char *shape)
{
    const char *header =
        text_format(&test_arena,
                    "{\"%s\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[0,4]},"
                    "\"%s\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[4,8]}}",
                    first, shape, second);
    size_t size = strlen(header);
    char *at = arena_alloc(&test_arena, 8 + size + 8);
    at[0] = (char)(size & 255);
    at[1] = (char)(size >> 8);
    memcpy(at + 8, header, size);
    struct adapter_file adapter = { .folder = "adapter", .config = { .rank = 1, .alpha = 1 } };
    CHECK(!safetensors_read(&adapter.file, &test_arena, (struct text){ at, 16 + size }, "x"));
    return adapter_file_sort(&adapter, &test_arena);
}

#define HEAD "base_model.model.lm_head.weight"
#define Q "base_model.model.model.layers.0.self_attn.q_proj"

TEST(factors_that_do_not_belong_together_are_refused)
{
    CHECK(!sort_names(Q ".lora_A.weight", Q ".lora_B.weight", "[1,1]"));
    CHECK(sort_names(Q ".lora_A.weight", Q ".lora_B.weight", "[1]") == ERR_INPUT);
    CHECK(strstr(error_text(), "[r, in]"));
    CHECK(sort_names(Q ".lora_A.weight", "base_model.model.a.lora_B.weight", "[1,1]"));
    CHECK(strstr(error_text(), "a has lora_B but no lora_A"));
    CHECK(sort_names("base_model.model.lm_head.weight", Q ".lora_B.weight", "[1,1]"));
    CHECK(strstr(error_text(), "has lora_B but no lora_A"));
    CHECK(sort_names("lm_head.weight", HEAD, "[1,1]") == ERR_INPUT);
    CHECK(strstr(error_text(), "does not begin with base_model.model."));
}

TEST(tensors_of_other_kinds_are_refused)
{
    CHECK(sort_names(Q ".lora_magnitude_vector.weight", HEAD, "[1,1]") == ERR_INPUT);
    CHECK(strstr(error_text(), "lora_magnitude_vector.weight: adapters of this kind"));
    CHECK(sort_names("base_model.model.x.lora_embedding_A", HEAD, "[1,1]") == ERR_INPUT);
    CHECK(strstr(error_text(), "lora_embedding_A: adapters of this kind"));
    CHECK(sort_names(Q ".base_layer.bias", HEAD, "[1,1]") == ERR_INPUT);
    CHECK(strstr(error_text(), "base_layer.bias: adapters of this kind"));
}

TEST(a_head_saved_beside_its_factors_is_found_by_its_own_name)
{
    struct adapter_file adapter = { .folder = "adapter", .config = { .rank = 1, .alpha = 1 } };
    static const char header[] = "{\"base_model.model.lm_head.base_layer.weight\":"
                                 "{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[0,4]}}";
    char file[8 + sizeof header - 1 + 4] = { (char)(sizeof header - 1) };
    memcpy(file + 8, header, sizeof header - 1);
    CHECK(!safetensors_read(&adapter.file, &test_arena, (struct text){ file, sizeof file }, "x"));
    CHECK(!adapter_file_sort(&adapter, &test_arena) && adapter.saved_count == 1);
    CHECK(adapter_file_find_saved(&adapter, "lm_head.weight"));
}

TEST(a_nan_in_an_adapter_is_refused)
{
    fill_values();
    a_values[7] = NAN;
    const char *folder = files_path("adapter-nan");
    mkdir(folder, 0700);
    const struct adapter_file_factors factors[] = { { "lm_head", IN, OUT, a_values, b_values,
                                                      NULL } };
    struct adapter_file_config config = { .rank = RANK, .alpha = 1 };
    struct adapter_file_content content = { factors, 1, NULL, 0, STORAGE_F32, 0 };
    CHECK(!adapter_file_write(folder, &test_arena, &config, &content));
    struct adapter_file adapter;
    CHECK(adapter_file_open(&adapter, &test_arena, folder) == ERR_INPUT);
    CHECK(strstr(error_text(), "lora_A.weight: element 7 is not a finite number"));
}
