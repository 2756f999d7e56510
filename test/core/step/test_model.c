// SPDX-License-Identifier: Apache-2.0
#include "core/step/catalog.h"
#include "host/file.h"
#include "test/test.h"

#include <stdio.h>
#include <string.h>

static struct catalog catalog(void)
{
    struct catalog out;
    CHECK(!catalog_open(&out, &test_arena, NULL, 0));
    return out;
}

static const struct model *model(const char *name)
{
    struct catalog c = catalog();
    const struct model *out = NULL;
    CHECK(!catalog_model(&out, &c, name));
    return out;
}

static enum err read_text(struct model *out, const char *json)
{
    return model_read_config(out, &test_arena, text_of(json), "config.json");
}

// Only rows whose total came from elsewhere can disagree; computed ones guard against change.
TEST(model_parameters_equal_the_total_of_every_catalog_model)
{
    struct catalog c = catalog();
    size_t from[4] = { 0 };
    CHECK(c.model_count >= 160);
    for (size_t i = 0; i < c.model_count; i++) {
        const struct model *m = &c.models[i];
        bool same = model_parameters(m) == m->parameters &&
                    model_active_parameters(m) == m->active_parameters;
        if (!same)
            printf("%s: %lld, %lld active\n", m->name, (long long)model_parameters(m),
                   (long long)model_active_parameters(m));
        CHECK(same);
        from[m->total_from]++;
    }
    CHECK(!from[MODEL_TOTAL_UNKNOWN]);
    CHECK(from[MODEL_TOTAL_PUBLISHED] >= 35);
    CHECK(from[MODEL_TOTAL_COMPUTED] <= 40);
}

TEST(model_linear_weights_equal_the_check_values_of_the_formula_sheet)
{
    CHECK_NEAR((double)model_linear_weights(model("llama-3.1-8b")), 7.504e9, 1e-4);
    CHECK_NEAR((double)model_linear_weights(model("llama-3.1-70b")), 69.502e9, 1e-4);
    CHECK_NEAR((double)model_linear_weights(model("qwen2.5-7b")), 7.070e9, 1e-4);
}

// Totals printed in the throughput tables of mosaicml/llm-foundry, in billions, at 2048 positions.
TEST(model_parameters_of_mpt_equal_the_totals_of_its_throughput_tables)
{
    CHECK_NEAR((double)model_parameters(model("mpt-1b")), 1.31595e9, 5e-6);
    CHECK_NEAR((double)model_parameters(model("mpt-3b")), 2.65184e9, 5e-6);
    CHECK_NEAR((double)model_parameters(model("mpt-13b")), 12.854e9, 5e-5);
    CHECK_NEAR((double)model_parameters(model("mpt-70b")), 64.8624e9, 1e-6);
}

// W = L (C (q + 2k) + qC + 3CF) + CV, written once more without the list of linears.
TEST(model_linear_weights_equal_the_closed_formula_for_dense_gated_decoders)
{
    struct catalog c = catalog();
    for (size_t i = 0; i < c.model_count; i++) {
        const struct model *m = &c.models[i];
        if (m->experts || m->kv_lora_rank)
            continue;
        int64_t C = m->width, q = m->heads * m->head_size, k = m->kv_heads * m->head_size;
        int64_t mlp = (m->gated ? 3 : 2) * C * m->ffn_width;
        int64_t layer = C * (q + 2 * k) + q * C + mlp;
        CHECK(model_linear_weights(m) == m->layers * layer + C * m->vocabulary);
        CHECK(model_layer_linear_weights(m, MODEL_DENSE) == layer);
    }
}

TEST(model_linears_name_every_matrix_of_a_dense_layer)
{
    struct model_linear linears[MODEL_LINEARS];
    static const char *const names[] = { "q", "k", "v", "o", "gate", "up", "down" };
    const struct model *m = model("llama-3.1-8b");
    CHECK(model_linears(m, MODEL_DENSE, linears) == 7);
    for (int i = 0; i < 7; i++)
        CHECK(!strcmp(linears[i].name, names[i]) && linears[i].count == 1);
    CHECK(linears[1].in == 4096 && linears[1].out == 1024);
    CHECK(linears[6].in == 14336 && linears[6].out == 4096);
    m = model("phi-3-mini");
    CHECK(model_linears(m, MODEL_DENSE, linears) == 4);
    CHECK(!strcmp(linears[0].name, "qkv") && linears[0].out == 3 * 3072);
    CHECK(!strcmp(linears[2].name, "gate_up") && linears[2].out == 2 * 8192);
}

TEST(model_linears_count_experts_and_those_a_token_passes)
{
    struct model_linear linears[MODEL_LINEARS];
    const struct model *m = model("deepseek-v3");
    size_t count = model_linears(m, MODEL_SPARSE, linears), experts = 0, shared = 0;
    for (size_t i = 0; i < count; i++) {
        experts +=
            linears[i].role == MODEL_EXPERT && linears[i].count == 256 && linears[i].active == 8;
        shared += linears[i].role == MODEL_SHARED && linears[i].count == 1;
    }
    CHECK(experts == 3 && shared == 3 && count <= MODEL_LINEARS);
    CHECK(model_layers(m, MODEL_DENSE) == 3 && model_layers(m, MODEL_SPARSE) == 58);
    CHECK(model_query_width(m) == 128 * 192 && model_value_width(m) == 128 * 128);
}

TEST(model_layers_of_a_kind_are_those_that_layer_by_layer_are_of_it)
{
    struct catalog c = catalog();
    for (size_t i = 0; i < c.model_count; i++) {
        int64_t counts[2] = { 0 };
        for (int64_t l = 0; l < c.models[i].layers; l++)
            counts[model_layer(&c.models[i], l)]++;
        CHECK(counts[MODEL_DENSE] == model_layers(&c.models[i], MODEL_DENSE));
        CHECK(counts[MODEL_SPARSE] == model_layers(&c.models[i], MODEL_SPARSE));
    }
}

// What models.csv has from elsewhere, the configs repeat in Hugging Face's words.
static const struct {
    const char *file, *name;
    int64_t total, active, window, full_layers;
} configs[] = {
    { "llama", "llama-3.1-8b", 8030261248, 8030261248, 0, 32 },
    { "llama_tied", "llama-3.2-1b", 1235814400, 1235814400, 0, 16 },
    // 13.93 GB of fp32 safetensors: right to three digits; the rest is this count by hand.
    { "llama_biased", NULL, 3482503680, 3482503680, 0, 32 },
    { "mistral", "mistral-7b-v0.1", 7241732096, 7241732096, 4096, 0 },
    { "mistral_nemo", "mistral-nemo-12b", 12247782400, 12247782400, 0, 40 },
    { "qwen2", "qwen2.5-7b", 7615616512, 7615616512, 0, 28 },
    { "qwen3", "qwen3-0.6b", 596049920, 596049920, 0, 28 },
    { "gemma", "gemma-2b", 2506172416, 2506172416, 0, 18 },
    { "gemma2", "gemma-2-2b", 2614341888, 2614341888, 4096, 13 },
    { "gemma3_text", "gemma-3-1b", 999885952, 999885952, 512, 4 },
    { "gemma3", "gemma-3-4b", 3880263168, 3880263168, 1024, 5 },
    { "phi", "phi-2", 2779683840, 2779683840, 0, 32 },
    { "phi3", "phi-3-mini", 3821079552, 3821079552, 2047, 0 },
    { "gpt2", "gpt2", 124439808, 124439808, 0, 12 },
    { "gpt_bigcode", "starcoder", 15517456384, 15517456384, 0, 40 },
    { "gpt_neox", "pythia-160m", 162322944, 162322944, 0, 12 },
    { "falcon", "falcon-7b", 6921720704, 6921720704, 0, 32 },
    { "falcon_grouped", "falcon-40b", 41303293952, 41303293952, 0, 60 },
    { "mixtral", "mixtral-8x7b", 46702792704, 12879925248, 0, 32 },
    { "qwen2_moe", "qwen1.5-moe-a2.7b", 14315784192, 2689173504, 0, 24 },
    { "qwen3_moe", "qwen3-30b-a3b", 30532122624, 3353032704, 0, 48 },
    { "deepseek_v2_lite", "deepseek-v2-lite", 15706484224, 2661150208, 0, 27 },
    { "deepseek_v3", "deepseek-v3", 671026419200, 37552297472, 0, 61 },
    { "gpt_oss", "gpt-oss-20b", 20914757184, 4187440704, 128, 12 },
    { "llama4", "llama-4-maverick", 400711848960, 17184691200, 0, 48 },
    { "olmo2", "olmo-2-7b", 7298617344, 7298617344, 0, 32 },
    { "granite", "granite-3-2b", 2533531648, 2533531648, 0, 40 },
    { "granitemoe", "granite-3-3b-a800m", 3298793472, 882874368, 0, 32 },
    { "olmoe", "olmoe-1b-7b", 6919161856, 1282017280, 0, 16 },
    { "glm4_moe", "glm-4.5-air", 106852251264, 13424129664, 0, 46 },
    { "cohere", "command-r", 34980831232, 34980831232, 0, 40 },
    { "stablelm", "stablelm-2-1.6b", 1644515328, 1644515328, 0, 24 },
    { "apertus", "apertus-8b", 8053338176, 8053338176, 0, 32 },
    { "hunyuan_v1_dense", "hunyuan-0.5b", 539010048, 539010048, 0, 24 },
    { "gptj", "gpt-j-6b", 6050882784, 6050882784, 0, 28 },
    { "opt", "opt-125m", 125239296, 125239296, 0, 12 },
    { "bloom", "bloom-560m", 559214592, 559214592, 0, 24 },
    { "mpt", "mpt-7b", 6649286656, 6649286656, 0, 32 },
    { "phimoe", "phi-3.5-moe", 41873153344, 6640999744, 131072, 0 },
    { "smollm3", "smollm3-3b", 3075098624, 3075098624, 0, 36 },
    { "starcoder2", "starcoder2-3b", 3030371328, 3030371328, 4096, 0 },
};

TEST(model_read_config_gives_the_exact_total_for_every_architecture)
{
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        const char *path = text_format(&test_arena, "test/data/config/%s.json", configs[i].file);
        struct file file;
        struct model m;
        CHECK(!file_open(&file, path));
        enum err err = model_read_config(&m, &test_arena, file.text, path);
        if (err)
            printf("%s\n", error_text());
        CHECK(!err);
        bool same = !err && model_parameters(&m) == configs[i].total &&
                    model_active_parameters(&m) == configs[i].active &&
                    m.sliding_window == configs[i].window &&
                    model_full_attention_layers(&m) == configs[i].full_layers;
        if (!same)
            printf("%s: %lld, %lld active, window %lld, %lld full\n", path,
                   (long long)model_parameters(&m), (long long)model_active_parameters(&m),
                   (long long)m.sliding_window, (long long)model_full_attention_layers(&m));
        CHECK(same);
        if (configs[i].name)
            CHECK(model_parameters(model(configs[i].name)) == configs[i].total);
        file_close(&file);
    }
}

static void check_refused(const char *json, const char *sentence)
{
    struct model m;
    CHECK(read_text(&m, json) == ERR_INPUT);
    if (strcmp(error_text(), sentence))
        printf("says: %s\n", error_text());
    CHECK(!strcmp(error_text(), sentence));
}

// Folders of Llama models all once had the name "llama", and a ledger took them for one model.
TEST(model_read_config_names_a_model_by_its_folder_where_the_file_does_not)
{
    static const char *const shape =
        "\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":2,"
        "\"num_attention_heads\":4,\"intermediate_size\":128,\"vocab_size\":256}";
    static const struct {
        const char *path, *own, *name;
    } cases[] = {
        { "/models/Llama-3.1-8B/config.json", "", "Llama-3.1-8B" },
        { "Llama-3.1-8B//config.json", "", "Llama-3.1-8B" },
        { "shapes/small.json", "", "small" },
        { "config.json", "", "llama" },
        { "../config.json", "", "llama" },
        { "/models/mine/config.json", "\"_name_or_path\":\"org/name\",", "org/name" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model model;
        const char *json = text_format(&test_arena, "{%s%s", cases[i].own, shape);
        CHECK(!model_read_config(&model, &test_arena, text_of(json), cases[i].path));
        CHECK(!strcmp(model.name, cases[i].name));
    }
}

TEST(model_read_config_refuses_bad_shapes_with_a_sentence)
{
    check_refused("[]", "config.json: is a list, must be an object");
    check_refused("{}", "config.json: has no model_type; is it a model's config.json?");
    check_refused("{\"model_type\":\"llama\"}", "config.json: hidden_size is missing or 0");
    check_refused("{\"model_type\":\"llama\",\"hidden_size\":4097,\"num_hidden_layers\":2,"
                  "\"num_attention_heads\":32,\"vocab_size\":100,\"intermediate_size\":10}",
                  "config.json: hidden_size is 4097, must be a multiple of num_attention_heads, "
                  "which is 32, or the file must have head_dim");
    check_refused("{\"model_type\":\"llama\",\"hidden_size\":4096,\"num_hidden_layers\":2,"
                  "\"num_attention_heads\":32,\"num_key_value_heads\":5,\"vocab_size\":100,"
                  "\"intermediate_size\":10}",
                  "config.json: num_attention_heads is 32, must be a multiple of "
                  "num_key_value_heads, which is 5");
    check_refused("{\"model_type\":\"llama\",\"hidden_size\":-1}",
                  "config.json: hidden_size is -1, must be a whole number from 0 to 2147483647");
    check_refused("{\"model_type\":\"llama\",\"hidden_size\":1e30}",
                  "config.json: hidden_size is 1e+30, must be a whole number from 0 to 2147483647");
    check_refused("{\"model_type\":\"llama\",\"hidden_size\":\"4096\"}",
                  "config.json: hidden_size is a string, must be a whole number");
    check_refused("{\"model_type\":\"llama\",\"hidden_size\":2147483647,\"num_hidden_layers\":1,"
                  "\"num_attention_heads\":1,\"vocab_size\":100,\"intermediate_size\":10}",
                  "config.json: hidden_size is 2147483647, must be 1 to 262144");
    check_refused("{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":1,"
                  "\"num_attention_heads\":1,\"vocab_size\":100}",
                  "config.json: intermediate_size is missing or 0");
    check_refused("{\"model_type\":\"mixtral\",\"hidden_size\":64,\"num_hidden_layers\":1,"
                  "\"num_attention_heads\":8,\"vocab_size\":100,\"intermediate_size\":10,"
                  "\"num_local_experts\":2,\"num_experts_per_tok\":3}",
                  "config.json: num_experts_per_tok is 3, must be from 1 to 2, which is "
                  "num_local_experts");
}

TEST(model_read_config_names_the_keys_that_the_file_has)
{
    static const struct {
        const char *config, *sentence;
    } cases[] = {
        { "{\"model_type\":\"gpt2\",\"n_embd\":770,\"n_head\":12,\"n_layer\":2}",
          "n_embd is 770, must be a multiple of n_head, which is 12" },
        { "{\"model_type\":\"gpt_neox\",\"hidden_size\":64,\"num_hidden_layers\":5000,"
          "\"num_attention_heads\":4,\"vocab_size\":100,\"intermediate_size\":10}",
          "num_hidden_layers is 5000, must be 1 to 4096" },
        { "{\"model_type\":\"mixtral\",\"hidden_size\":64,\"num_hidden_layers\":1,"
          "\"num_attention_heads\":8,\"vocab_size\":100,\"intermediate_size\":5000000}",
          "intermediate_size is 5000000, must be 0 to 4194304" },
        { "{\"model_type\":\"deepseek_v3\",\"hidden_size\":64,\"num_hidden_layers\":2,"
          "\"num_attention_heads\":8,\"vocab_size\":100,\"intermediate_size\":10,"
          "\"first_k_dense_replace\":3}",
          "first_k_dense_replace is 3, must be at most num_hidden_layers, which is 2" },
        { "{\"model_type\":\"gemma3\",\"text_config\":{\"model_type\":\"gemma3_text\","
          "\"hidden_size\":64,\"num_hidden_layers\":2,\"intermediate_size\":10,"
          "\"num_attention_heads\":8,\"num_key_value_heads\":3}}",
          "text_config.num_attention_heads is 8, must be a multiple of "
          "text_config.num_key_value_heads, which is 3" },
        { "{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":1,"
          "\"num_attention_heads\":8,\"vocab_size\":100000000,\"intermediate_size\":10}",
          "vocab_size is 100000000, must be 1 to 67108864" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model m;
        CHECK(read_text(&m, cases[i].config) == ERR_INPUT);
        test_check(strstr(error_text(), cases[i].sentence) != NULL, error_text(), __FILE__,
                   __LINE__);
    }
}

TEST(model_read_config_has_the_positions_that_scaled_rotary_embeddings_reach)
{
    static const struct {
        const char *scaling;
        int64_t positions;
    } cases[] = {
        { "{\"type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":8192}", 32768 },
        { "{\"rope_type\":\"yarn\",\"factor\":4}", 32768 },
        { "{\"rope_type\":\"llama3\",\"factor\":8,\"original_max_position_embeddings\":1024}",
          8192 },                                            // the file's number has it
        { "{\"rope_type\":\"linear\",\"factor\":8}", 8192 }, // so has Gemma's
        { "null", 8192 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model m;
        const char *json = text_format(
            &test_arena,
            "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":64,"
            "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":2,"
            "\"intermediate_size\":128,\"vocab_size\":100,\"max_position_embeddings\":8192,"
            "\"rope_scaling\":%s}",
            cases[i].scaling);
        CHECK(!model_read_config(&m, &test_arena, text_of(json), "config.json"));
        test_check(m.max_positions == cases[i].positions, cases[i].scaling, __FILE__, __LINE__);
    }
}

TEST(model_read_config_names_an_unknown_architecture_and_the_known_ones)
{
    struct model m;
    CHECK(read_text(&m, "{\"model_type\":\"perceiver\"}") == ERR_INPUT);
    CHECK(strstr(error_text(),
                 "\"perceiver\" is not supported; supported are llama, mistral, qwen2"));
}

static enum err read_fixture(struct model *m, const char *name)
{
    struct file file;
    const char *path = text_format(&test_arena, "test/data/config/%s.json", name);
    CHECK(!file_open(&file, path));
    enum err err = model_read_config(m, &test_arena, file.text, path);
    file_close(&file);
    return err;
}

// Billions of parameters as their publishers state them, the active ones with the embedding.
TEST(model_of_an_unknown_type_is_the_mixture_that_its_keys_say)
{
    static const struct {
        const char *name;
        double total, active;
        int64_t experts, active_experts, dense_layers, shared_width;
    } cases[] = {
        { "ernie4_5_moe", 21.8e9, 3.3e9, 64, 6, 1, 3072 },
        { "minimax_m2", 228.7e9, 11e9, 256, 8, 0, 0 },
        { "dots1", 142.8e9, 14e9, 128, 6, 1, 2816 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model m;
        CHECK(!read_fixture(&m, cases[i].name));
        CHECK_NEAR((double)model_parameters(&m), cases[i].total, 0.01);
        CHECK_NEAR((double)model_active_parameters(&m), cases[i].active, 0.05);
        CHECK(m.experts == cases[i].experts && m.experts_active == cases[i].active_experts);
        CHECK(model_layers(&m, MODEL_DENSE) == cases[i].dense_layers);
        CHECK(m.shared_width == cases[i].shared_width);
        CHECK(!strcmp(m.family, cases[i].name) && strstr(m.note, "not known"));
    }
}

TEST(model_with_recurrent_layers_is_refused_by_what_it_has)
{
    static const struct {
        const char *name, *what;
    } cases[] = {
        { "qwen3_next", "gated delta net layers" },
        { "nemotron_h", "Mamba layers" },
        { "jamba", "Mamba layers" },
        { "granitemoehybrid", "Mamba layers" },
        { "renamed_hybrid", "gated delta net" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model m;
        CHECK(read_fixture(&m, cases[i].name) == ERR_INPUT);
        CHECK(strstr(error_text(), cases[i].what) && strstr(error_text(), "gpuhours pilot"));
    }
}

TEST(model_check_keeps_totals_inside_an_integer)
{
    struct model m = *model("llama-3.1-8b");
    m.layers = 4096;
    m.width = 1 << 18;
    m.ffn_width = 1 << 22;
    m.experts = m.experts_active = 1 << 13;
    m.expert_width = 1 << 22;
    CHECK(model_check(&m, "m", NULL) == ERR_INPUT);
    CHECK(strstr(error_text(), "the limit is 1e17"));
}

// --- config.json of models that read images ----------------------------------

static struct model read_seeing(const char *json)
{
    struct model model = { 0 };
    enum err err = model_read_config(&model, &test_arena, text_of(json), "config.json");
    test_check(!err, err ? error_text() : "", json, 0);
    return model;
}

TEST(model_configs_with_a_vision_config_have_its_encoder)
{
    struct model model = read_seeing(
        "{\"model_type\": \"qwen2_5_vl\", \"hidden_size\": 2048, \"num_hidden_layers\": 36, "
        "\"num_attention_heads\": 16, \"num_key_value_heads\": 2, \"intermediate_size\": 11008, "
        "\"vocab_size\": 151936, \"vision_config\": {\"depth\": 32, \"hidden_size\": 1280, "
        "\"num_heads\": 16, \"intermediate_size\": 3420, \"patch_size\": 14}}");
    CHECK(model.tower && !strcmp(model.vision, "qwen2.5-vl") && model.layers == 36);
    CHECK(!model.note && model.qkv_bias);
    model = read_seeing(
        "{\"model_type\": \"qwen3_vl\", \"text_config\": {\"model_type\": \"qwen3_vl_text\", "
        "\"hidden_size\": 2560, \"num_hidden_layers\": 36, \"num_attention_heads\": 32, "
        "\"num_key_value_heads\": 8, \"intermediate_size\": 9728, \"vocab_size\": 151936}, "
        "\"vision_config\": {\"depth\": 24, \"hidden_size\": 1024, \"num_heads\": 16, "
        "\"intermediate_size\": 4096, \"patch_size\": 16}}");
    CHECK(model.tower && !strcmp(model.vision, "qwen3-vl-small"));
    CHECK(model.qk_norm == MODEL_QK_HEAD);
    // LLaVA 1.5 leaves out what is as in Llama 2 7B.
    model = read_seeing("{\"model_type\": \"llava\", \"text_config\": {\"model_type\": \"llama\", "
                        "\"vocab_size\": 32064, \"max_position_embeddings\": 4096}, "
                        "\"vision_config\": {\"model_type\": \"clip_vision_model\", "
                        "\"hidden_size\": 1024, \"num_hidden_layers\": 24, \"patch_size\": 14, "
                        "\"intermediate_size\": 4096, \"num_attention_heads\": 16}}");
    CHECK(model.tower && !strcmp(model.vision, "llava-1.5"));
    CHECK(model.width == 4096 && model.layers == 32 && model.vocabulary == 32064);
    // Pixtral's file calls itself llava.
    model = read_seeing(
        "{\"model_type\": \"llava\", \"text_config\": {\"model_type\": \"mistral\", "
        "\"hidden_size\": 5120, \"num_hidden_layers\": 40, \"head_dim\": 128, "
        "\"vocab_size\": 131072}, \"vision_config\": {\"model_type\": \"pixtral\", \"patch_size\": "
        "16, \"hidden_size\": 1024, \"intermediate_size\": 4096}}");
    CHECK(model.tower && !strcmp(model.vision, "pixtral"));
}

TEST(model_configs_of_an_encoder_of_another_size_keep_the_familys_rule)
{
    struct model model = read_seeing(
        "{\"model_type\": \"qwen2_vl\", \"hidden_size\": 1536, \"num_hidden_layers\": 28, "
        "\"num_attention_heads\": 12, \"num_key_value_heads\": 2, \"intermediate_size\": 8960, "
        "\"vocab_size\": 151936, \"vision_config\": {\"depth\": 16, \"embed_dim\": 640, "
        "\"hidden_size\": 1536, \"num_heads\": 8, \"mlp_ratio\": 4, \"patch_size\": 14}}");
    CHECK(model.tower && model.tower->layers == 16 && model.tower->width == 640);
    CHECK(model.tower->ffn_width == 2560 && model.tower->projector_in == 2560);
    CHECK(model.tower->rule == VISION_NATIVE);
}

TEST(model_read_config_knows_a_gelu_that_is_written_out)
{
    static const struct {
        const char *keys;
        bool composed;
    } cases[] = {
        { "\"activation_function\":\"gelu_new\",", true },
        { "\"activation_function\":\"gelu\",", false },
        { "", true }, // the default of GPT-2
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model m;
        const char *json = text_format(
            &test_arena,
            "{\"architectures\":[\"GPT2LMHeadModel\"],\"model_type\":\"gpt2\",%s\"n_embd\":64,"
            "\"n_layer\":2,\"n_head\":4,\"vocab_size\":100,\"n_positions\":128}",
            cases[i].keys);
        CHECK(!model_read_config(&m, &test_arena, text_of(json), "config.json"));
        test_check(m.composed_gelu == cases[i].composed, cases[i].keys, __FILE__, __LINE__);
    }
}
