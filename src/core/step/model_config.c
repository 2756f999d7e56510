// SPDX-License-Identifier: Apache-2.0
// Reads Hugging Face config.json files. An architecture is a row of the table: what its config
// class has by default, which groups of keys it knows, and a function for what is its own. A type
// that has no row is read by the names of its keys; one with layers other than attention and
// feed-forward networks is refused by what it has.

#include "core/step/model.h"

#include "base/markup.h"
#include "base/name.h"

#include <math.h>
#include <string.h>

// --- keys --------------------------------------------------------------------

enum group { ALWAYS = 0, WINDOW = 1, MIXTURE = 2, LATENT = 4 };

struct key {
    size_t offset; // of an int64_t in struct model
    enum group group;
    const char *names[6]; // spellings, the first found counts
};

#define KEY(member, group, ...)                  \
    {                                            \
        offsetof(struct model, member), (group), \
        {                                        \
            __VA_ARGS__                          \
        }                                        \
    }

static const struct key keys[] = {
    KEY(width, ALWAYS, "hidden_size", "n_embd", "d_model", "n_embed"),
    KEY(layers, ALWAYS, "num_hidden_layers", "n_layer", "n_layers"),
    KEY(heads, ALWAYS, "num_attention_heads", "n_head", "n_heads"),
    KEY(kv_heads, ALWAYS, "num_key_value_heads", "num_kv_heads"),
    KEY(head_size, ALWAYS, "head_dim"),
    KEY(ffn_width, ALWAYS, "intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim"),
    KEY(vocabulary, ALWAYS, "vocab_size"),
    KEY(max_positions, ALWAYS, "max_position_embeddings", "n_positions", "max_seq_len"),
    KEY(sliding_window, WINDOW, "sliding_window"),
    KEY(experts, MIXTURE, "num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts",
        "num_moe_experts"),
    KEY(experts_active, MIXTURE, "num_experts_per_tok", "experts_per_token",
        "num_experts_per_token", "moe_k", "moe_topk", "moe_top_k"),
    KEY(shared_experts, MIXTURE, "n_shared_experts", "num_shared_experts", "moe_num_shared_experts",
        "num_shared_expert"),
    KEY(expert_width, MIXTURE, "moe_intermediate_size", "expert_intermediate_size",
        "moe_ffn_hidden_size"),
    KEY(shared_width, MIXTURE, "shared_expert_intermediate_size", "shared_intermediate_size",
        "moe_shared_expert_intermediate_size"),
    KEY(dense_layers, MIXTURE, "first_k_dense_replace", "num_dense_layers",
        "moe_layer_start_index"),
    KEY(sparse_every, MIXTURE, "decoder_sparse_step", "moe_layer_freq", "interleave_moe_layer_step",
        "moe_layer_interval"),
    KEY(q_lora_rank, LATENT, "q_lora_rank"),
    KEY(kv_lora_rank, LATENT, "kv_lora_rank"),
    KEY(qk_nope_size, LATENT, "qk_nope_head_dim"),
    KEY(qk_rope_size, LATENT, "qk_rope_head_dim"),
    KEY(v_head_size, LATENT, "v_head_dim"),
};

enum { KEYS = sizeof keys / sizeof *keys };

// A file being read. outer is the whole file where the decoder is its text_config, and within
// "text_config.", which a sentence puts before the key.
struct reading {
    struct model *model;
    struct arena *arena;
    const struct json *config, *outer;
    const char *name, *within;
};

// Unlike json_get, tells a null from a key that is absent.
static const struct json *find(const struct json *object, const char *key)
{
    for (size_t i = 0; i < object->count; i++)
        if (text_is(object->items[2 * i].string, key))
            return &object->items[2 * i + 1];
    return NULL;
}

// A null counts as 0: "none", or "derive it".
static enum err read_whole(const struct reading *in, const char *key, int64_t *out, bool *found)
{
    const struct json *value = find(in->config, key);
    *found = value != NULL;
    if (!value)
        return OK;
    if (value->kind == JSON_NULL) {
        *out = 0;
        return OK;
    }
    if (value->kind != JSON_NUMBER)
        return fail(ERR_INPUT, "%s: %s%s is %s, must be a whole number", in->name, in->within, key,
                    json_kind_name(value->kind));
    double number = value->number;
    if (!(number >= 0 && number <= 2147483647.0) || number != floor(number))
        return fail(ERR_INPUT, "%s: %s%s is %g, must be a whole number from 0 to 2147483647",
                    in->name, in->within, key, number);
    *out = (int64_t)number;
    return OK;
}

static enum err read_flag(const struct reading *in, const char *key, bool *out)
{
    const struct json *value = find(in->config, key);
    const char *within = value ? in->within : "";
    if (!value && in->outer)
        value = find(in->outer, key);
    if (!value || value->kind == JSON_NULL)
        return OK;
    if (value->kind != JSON_BOOL)
        return fail(ERR_INPUT, "%s: %s%s is %s, must be true or false", in->name, within, key,
                    json_kind_name(value->kind));
    *out = value->flag;
    return OK;
}

// The key that the file has for a member, or the usual one. Where no key has the width of an
// expert, it is that of the feed-forward network.
static const char *key_of(const struct reading *in, size_t offset)
{
    size_t i = 0;
    int n = 0;
    while (i < KEYS - 1 && keys[i].offset != offset)
        i++;
    while (n < 6 && keys[i].names[n] && !find(in->config, keys[i].names[n]))
        n++;
    bool found = n < 6 && keys[i].names[n];
    if (!found && offset == offsetof(struct model, expert_width))
        return key_of(in, offsetof(struct model, ffn_width));
    return text_format(in->arena, "%s%s", in->within, keys[i].names[found ? n : 0]);
}

// model_check() with the words of the file.
static enum err check(const struct reading *in)
{
    struct model_word words[KEYS + 3];
    for (size_t i = 0; i < KEYS; i++)
        words[i] = (struct model_word){ keys[i].offset, key_of(in, keys[i].offset) };
    words[KEYS] = (struct model_word){ offsetof(struct model, full_attention_layers),
                                       "the number of full_attention in layer_types" };
    words[KEYS + 1] =
        (struct model_word){ offsetof(struct model, norms_per_layer), "num_ln_in_parallel_attn" };
    words[KEYS + 2] = (struct model_word){ 0, NULL };
    return model_check(in->model, in->name, words);
}

// Some files have the positions that scaled rotary embeddings reach (Llama 3.1), others those of
// before (Qwen's YaRN): the larger of both.
static void stretch_positions(const struct reading *in)
{
    int64_t *positions = &in->model->max_positions;
    const struct json *scaling = find(in->config, "rope_scaling");
    if (!scaling || scaling->kind != JSON_OBJECT)
        scaling = find(in->config, "rope_parameters");
    if (!scaling || scaling->kind != JSON_OBJECT)
        return;
    bool yarn = text_is(json_get_text(scaling, "rope_type"), "yarn") ||
                text_is(json_get_text(scaling, "type"), "yarn");
    double factor = json_get_number(scaling, "factor", 1);
    double before =
        json_get_number(scaling, "original_max_position_embeddings", yarn ? (double)*positions : 0);
    double reached = factor * before;
    if (reached > (double)*positions && reached < 1e9)
        *positions = (int64_t)reached;
}

static enum err read_keys(const struct reading *in, int groups)
{
    for (size_t i = 0; i < KEYS; i++) {
        int64_t *member = (int64_t *)((char *)in->model + keys[i].offset);
        bool found = false;
        if (keys[i].group && !(keys[i].group & groups))
            continue;
        for (int n = 0; n < 6 && keys[i].names[n] && !found; n++)
            TRY(read_whole(in, keys[i].names[n], member, &found));
    }
    stretch_positions(in);
    return read_flag(in, "tie_word_embeddings", &in->model->tied_embeddings);
}

// --- keys of single architectures -------------------------------------------

// Layers without a window: counted where the file lists them, else one in so many.
static void set_full_layers(const struct reading *in, int64_t every)
{
    struct model *m = in->model;
    const struct json *types = find(in->config, "layer_types");
    m->full_attention_layers = every ? m->layers / every : 0;
    if (types && types->kind == JSON_ARRAY) {
        m->full_attention_layers = 0;
        for (size_t i = 0; i < types->count; i++)
            m->full_attention_layers += types->items[i].kind == JSON_STRING &&
                                        text_is(types->items[i].string, "full_attention");
    }
    if (m->full_attention_layers == m->layers || !m->sliding_window)
        m->sliding_window = m->full_attention_layers = 0;
}

static enum err finish_llama(const struct reading *in)
{
    bool bias = in->model->out_bias;
    TRY(read_flag(in, "attention_bias", &bias));
    in->model->qkv_bias = in->model->out_bias = bias;
    return read_flag(in, "mlp_bias", &in->model->mlp_bias);
}

static enum err finish_mistral(const struct reading *in)
{
    set_full_layers(in, 0);
    return OK;
}

// Qwen names a window and says elsewhere whether it is used, and from which layer on.
static enum err finish_qwen(const struct reading *in)
{
    struct model *m = in->model;
    bool windowed = false, found;
    int64_t before = 28;
    TRY(read_flag(in, "use_sliding_window", &windowed));
    TRY(read_whole(in, "max_window_layers", &before, &found));
    set_full_layers(in, 0);
    if (!windowed)
        m->sliding_window = m->full_attention_layers = 0;
    else if (m->sliding_window && !find(in->config, "layer_types"))
        m->full_attention_layers = before < m->layers ? before : m->layers;
    bool bias = false;
    TRY(read_flag(in, "attention_bias", &bias));
    if (bias)
        m->qkv_bias = m->out_bias = true;
    return read_flag(in, "qkv_bias", &m->qkv_bias);
}

static enum err finish_gemma2(const struct reading *in)
{
    set_full_layers(in, 2);
    return OK;
}

static enum err finish_gemma3(const struct reading *in)
{
    int64_t every = 6;
    bool found;
    TRY(read_whole(in, "_sliding_window_pattern", &every, &found));
    if (!found)
        TRY(read_whole(in, "sliding_window_pattern", &every, &found));
    set_full_layers(in, every);
    return OK;
}

static enum err finish_gpt2(const struct reading *in)
{
    if (!in->model->ffn_width)
        in->model->ffn_width = 4 * in->model->width;
    return OK;
}

static enum err finish_bigcode(const struct reading *in)
{
    bool shared = true;
    TRY(read_flag(in, "multi_query", &shared));
    in->model->kv_heads = shared ? 1 : in->model->heads;
    return finish_gpt2(in);
}

static enum err finish_neox(const struct reading *in)
{
    TRY(read_flag(in, "use_parallel_residual", &in->model->parallel));
    return finish_llama(in);
}

// Falcon has two generations: one key head or all of them, then groups and two norms.
static enum err finish_falcon(const struct reading *in)
{
    struct model *m = in->model;
    bool grouped = false, shared = true, bias = false, found;
    TRY(read_flag(in, "new_decoder_architecture", &grouped));
    TRY(read_flag(in, "multi_query", &shared));
    TRY(read_flag(in, "parallel_attn", &m->parallel));
    TRY(read_flag(in, "bias", &bias));
    if (!grouped)
        m->kv_heads = shared ? 1 : m->heads;
    int64_t norms = grouped ? 2 : 1;
    TRY(read_whole(in, "num_ln_in_parallel_attn", &norms, &found));
    m->norms_per_layer = !m->parallel ? 2 : norms ? norms : grouped ? 2 : 1;
    m->qkv_bias = m->out_bias = m->mlp_bias = bias;
    return finish_gpt2(in);
}

// The only feed-forward width is that of the experts.
static enum err finish_mixtral(const struct reading *in)
{
    in->model->expert_width = in->model->ffn_width;
    in->model->ffn_width = 0;
    set_full_layers(in, 0);
    return OK;
}

static enum err finish_phimoe(const struct reading *in)
{
    TRY(finish_llama(in));
    TRY(read_flag(in, "lm_head_bias", &in->model->head_bias));
    return finish_mixtral(in);
}

static enum err finish_qwen_moe(const struct reading *in)
{
    const struct json *dense = find(in->config, "mlp_only_layers");
    if (dense && dense->kind == JSON_ARRAY)
        for (size_t i = 0; i < dense->count; i++, in->model->dense_layers++)
            if (dense->items[i].kind != JSON_NUMBER || dense->items[i].number != (double)i)
                return fail(ERR_INPUT, "%s: mlp_only_layers must list the first layers only",
                            in->name);
    return finish_qwen(in);
}

static enum err finish_deepseek(const struct reading *in)
{
    struct model *m = in->model;
    m->shared_width = m->shared_experts * m->expert_width;
    m->head_size = m->qk_nope_size + m->qk_rope_size;
    m->kv_heads = m->heads;
    return finish_llama(in);
}

static enum err finish_gpt_oss(const struct reading *in)
{
    struct model *m = in->model;
    m->expert_width = m->ffn_width;
    m->ffn_width = 0;
    set_full_layers(in, 2);
    return finish_llama(in);
}

static enum err finish_llama4(const struct reading *in)
{
    struct model *m = in->model;
    bool found;
    m->expert_width = m->shared_width = m->ffn_width;
    TRY(read_whole(in, "intermediate_size_mlp", &m->ffn_width, &found));
    return finish_llama(in);
}

// Two rows of the position table stand for padding.
static enum err finish_opt(const struct reading *in)
{
    in->model->max_positions += 2;
    return OK;
}

static enum err finish_mpt(const struct reading *in)
{
    struct model *m = in->model;
    const struct json *attention = json_get(in->config, "attn_config");
    int64_t ratio = 4;
    bool found, no_bias = true;
    TRY(read_whole(in, "expansion_ratio", &ratio, &found));
    TRY(read_flag(in, "no_bias", &no_bias));
    m->ffn_width = ratio * m->width;
    m->qkv_bias = m->out_bias = m->mlp_bias = !no_bias;
    m->norm = no_bias ? MODEL_LAYER_NORM_NO_BIAS : MODEL_LAYER_NORM;
    if (!attention || attention->kind != JSON_OBJECT)
        return OK;
    struct reading inner = { m, in->arena, attention, NULL, in->name, "attn_config." };
    return read_whole(&inner, "kv_n_heads", &m->kv_heads, &found);
}

static enum err finish_glm_moe(const struct reading *in)
{
    struct model *m = in->model;
    bool normed = false;
    m->shared_width = m->shared_experts * m->expert_width;
    TRY(read_flag(in, "use_qk_norm", &normed));
    m->qk_norm = normed ? MODEL_QK_HEAD : MODEL_QK_NONE;
    return read_flag(in, "attention_bias", &m->qkv_bias);
}

static enum err finish_cohere(const struct reading *in)
{
    bool normed = false;
    TRY(read_flag(in, "use_qk_norm", &normed));
    if (normed)
        return fail(ERR_INPUT, "%s: use_qk_norm is not supported for cohere", in->name);
    return finish_llama(in);
}

static enum err finish_stablelm(const struct reading *in)
{
    struct model *m = in->model;
    TRY(read_flag(in, "use_parallel_residual", &m->parallel));
    if (m->parallel)
        m->norms_per_layer = 1;
    return read_flag(in, "use_qkv_bias", &m->qkv_bias);
}

static enum err finish_starcoder2(const struct reading *in)
{
    bool bias = true;
    TRY(read_flag(in, "use_bias", &bias));
    in->model->qkv_bias = in->model->out_bias = in->model->mlp_bias = bias;
    set_full_layers(in, 0);
    return OK;
}

// A type without a row: what its keys say, and as most decoders are where they say nothing.
static enum err finish_unknown(const struct reading *in)
{
    struct model *m = in->model;
    bool normed = false;
    if (m->experts && !m->expert_width) { // the only feed-forward width is that of the experts
        m->expert_width = m->ffn_width;
        m->ffn_width = 0;
    }
    if (m->experts && !m->shared_width)
        m->shared_width = m->shared_experts * m->expert_width;
    if (m->kv_lora_rank) {
        m->head_size = m->qk_nope_size + m->qk_rope_size;
        m->kv_heads = m->heads;
    }
    TRY(read_flag(in, "use_qk_norm", &normed));
    m->qk_norm = normed ? MODEL_QK_HEAD : MODEL_QK_NONE;
    set_full_layers(in, 0);
    if (!find(in->config, "layer_types"))
        m->sliding_window = 0; // many files name a window that no layer uses
    m->note =
        "its model_type is not known: read by the names of its keys, with RMS norms and a gated "
        "feed-forward network";
    return finish_llama(in);
}

// --- architectures -----------------------------------------------------------

struct architecture {
    const char *type;
    int groups;
    enum err (*finish)(const struct reading *in);
    struct model defaults; // 0: must be in the file, or is derived
};

#define BIASES .qkv_bias = true, .out_bias = true, .mlp_bias = true
#define GPT .norm = MODEL_LAYER_NORM, .fused_qkv = true, BIASES
#define MLA                                                                          \
    .gated = true, .norms_per_layer = 2, .max_positions = 2048, .q_lora_rank = 1536, \
    .kv_lora_rank = 512, .qk_nope_size = 128, .qk_rope_size = 64, .v_head_size = 128

// clang-format off
static const struct architecture architectures[] = {
    { "llama", 0, finish_llama,
      { .gated = true, .norms_per_layer = 2, .max_positions = 2048 } },
    { "mistral", WINDOW, finish_mistral,
      { .gated = true, .norms_per_layer = 2, .max_positions = 131072, .kv_heads = 8,
        .sliding_window = 4096 } },
    { "qwen2", WINDOW, finish_qwen,
      { .gated = true, .norms_per_layer = 2, .max_positions = 32768, .kv_heads = 32,
        .sliding_window = 4096, .qkv_bias = true } },
    { "qwen3", WINDOW, finish_qwen,
      { .gated = true, .norms_per_layer = 2, .max_positions = 32768, .kv_heads = 32,
        .head_size = 128, .sliding_window = 4096, .qk_norm = MODEL_QK_HEAD } },
    { "gemma", 0, finish_llama,
      { .gated = true, .norms_per_layer = 2, .max_positions = 8192, .kv_heads = 16,
        .head_size = 256, .vocabulary = 256000, .tied_embeddings = true } },
    { "gemma2", WINDOW, finish_gemma2,
      { .gated = true, .norms_per_layer = 4, .max_positions = 8192, .heads = 8, .kv_heads = 4,
        .head_size = 256, .vocabulary = 256000, .tied_embeddings = true,
        .sliding_window = 4096 } },
    { "gemma3_text", WINDOW, finish_gemma3,
      { .gated = true, .norms_per_layer = 4, .max_positions = 131072, .heads = 8, .kv_heads = 4,
        .head_size = 256, .vocabulary = 262208, .tied_embeddings = true, .sliding_window = 4096,
        .qk_norm = MODEL_QK_HEAD } },
    { "phi", 0, NULL,
      { .composed_gelu = true, .norm = MODEL_LAYER_NORM, .norms_per_layer = 1,
        .max_positions = 2048, .parallel = true, .head_bias = true, BIASES } },
    { "phi3", WINDOW, finish_mistral,
      { .gated = true, .norms_per_layer = 2, .max_positions = 4096, .fused_qkv = true,
        .fused_gate_up = true } },
    { "gpt2", 0, finish_gpt2,
      { .composed_gelu = true, .norms_per_layer = 2, .max_positions = 1024,
        .tied_embeddings = true, .learned_positions = true, .vocabulary = 50257, .width = 768,
        .layers = 12, .heads = 12, GPT } },
    { "gpt_bigcode", 0, finish_bigcode,
      { .norms_per_layer = 2, .max_positions = 1024, .tied_embeddings = true,
        .learned_positions = true, .vocabulary = 50257, GPT } },
    { "gpt_neox", 0, finish_neox,
      { .norms_per_layer = 2, .max_positions = 2048, .parallel = true, GPT } },
    { "falcon", 0, finish_falcon,
      { .norm = MODEL_LAYER_NORM, .max_positions = 2048, .vocabulary = 65024, .parallel = true,
        .tied_embeddings = true, .fused_qkv = true } },
    { "mixtral", WINDOW | MIXTURE, finish_mixtral,
      { .gated = true, .norms_per_layer = 2, .max_positions = 131072, .kv_heads = 8,
        .experts = 8, .experts_active = 2 } },
    { "qwen2_moe", WINDOW | MIXTURE, finish_qwen_moe,
      { .gated = true, .norms_per_layer = 2, .max_positions = 32768, .kv_heads = 16,
        .sliding_window = 4096, .qkv_bias = true, .experts = 60, .experts_active = 4,
        .shared_experts = 1, .expert_width = 1408, .shared_width = 5632, .shared_gate = true } },
    { "qwen3_moe", WINDOW | MIXTURE, finish_qwen_moe,
      { .gated = true, .norms_per_layer = 2, .max_positions = 32768, .kv_heads = 4,
        .sliding_window = 4096, .qk_norm = MODEL_QK_HEAD, .experts = 128, .experts_active = 8,
        .expert_width = 768 } },
    { "deepseek_v2", MIXTURE | LATENT, finish_deepseek,
      { .experts = 64, .experts_active = 6, .shared_experts = 2, .expert_width = 1407, MLA } },
    { "deepseek_v3", MIXTURE | LATENT, finish_deepseek,
      { .experts = 256, .experts_active = 8, .shared_experts = 1, .expert_width = 2048,
        .dense_layers = 3, .router_bias = true, MLA } },
    { "kimi_k2", MIXTURE | LATENT, finish_deepseek,
      { .experts = 384, .experts_active = 8, .shared_experts = 1, .expert_width = 2048,
        .dense_layers = 1, .router_bias = true, MLA } },
    { "gpt_oss", WINDOW | MIXTURE, finish_gpt_oss,
      { .gated = true, .norms_per_layer = 2, .max_positions = 131072, .kv_heads = 8,
        .head_size = 64, .sliding_window = 128, .experts = 128, .experts_active = 4,
        .fused_gate_up = true, .attention_sinks = true, .router_bias = true, BIASES } },
    { "llama4_text", MIXTURE, finish_llama4,
      { .gated = true, .norms_per_layer = 2, .max_positions = 131072, .kv_heads = 8,
        .head_size = 128, .experts = 16, .experts_active = 1, .shared_experts = 1 } },
    { "olmo2", 0, finish_llama,
      { .gated = true, .norms_per_layer = 2, .max_positions = 2048, .qk_norm = MODEL_QK_WIDTH } },
    { "granite", 0, finish_llama,
      { .gated = true, .norms_per_layer = 2, .max_positions = 2048 } },
    { "granitemoe", MIXTURE, finish_mixtral,
      { .gated = true, .norms_per_layer = 2, .max_positions = 2048, .experts = 8,
        .experts_active = 2, .fused_gate_up = true } },
    { "olmoe", MIXTURE, finish_mixtral,
      { .gated = true, .norms_per_layer = 2, .max_positions = 4096, .experts = 64,
        .experts_active = 8, .qk_norm = MODEL_QK_WIDTH } },
    { "glm4_moe", MIXTURE, finish_glm_moe,
      { .gated = true, .norms_per_layer = 2, .max_positions = 131072, .kv_heads = 8,
        .head_size = 128, .experts = 128, .experts_active = 8, .shared_experts = 1,
        .expert_width = 1408, .dense_layers = 1, .router_bias = true } },
    { "cohere", 0, finish_cohere,
      { .gated = true, .norm = MODEL_LAYER_NORM_NO_BIAS, .norms_per_layer = 1,
        .max_positions = 8192, .vocabulary = 256000, .parallel = true, .tied_embeddings = true } },
    { "stablelm", 0, finish_stablelm,
      { .gated = true, .norm = MODEL_LAYER_NORM, .norms_per_layer = 2, .max_positions = 4096,
        .kv_heads = 32 } },
    { "apertus", 0, finish_llama,
      { .norms_per_layer = 2, .max_positions = 65536, .qk_norm = MODEL_QK_HEAD,
        .activation_parameters = 2 } },
    { "hunyuan_v1_dense", 0, finish_llama,
      { .gated = true, .norms_per_layer = 2, .max_positions = 2048, .qk_norm = MODEL_QK_HEAD } },
    { "gptj", 0, finish_gpt2,
      { .composed_gelu = true, .norm = MODEL_LAYER_NORM, .norms_per_layer = 1,
        .max_positions = 2048, .vocabulary = 50400, .parallel = true, .mlp_bias = true, .head_bias = true } },
    { "opt", 0, finish_opt,
      { .norm = MODEL_LAYER_NORM, .norms_per_layer = 2, .max_positions = 2048,
        .vocabulary = 50272, .tied_embeddings = true, .learned_positions = true, BIASES } },
    { "bloom", 0, finish_gpt2,
      { .norms_per_layer = 2, .max_positions = 2048, .vocabulary = 250880, .tied_embeddings = true,
        .embedding_norm = true, GPT } },
    { "mpt", 0, finish_mpt,
      { .norms_per_layer = 2, .max_positions = 2048, .vocabulary = 50368, .tied_embeddings = true,
        .fused_qkv = true } },
    { "phimoe", WINDOW | MIXTURE, finish_phimoe,
      { .gated = true, .norm = MODEL_LAYER_NORM, .norms_per_layer = 2, .max_positions = 131072,
        .kv_heads = 8, .experts = 16, .experts_active = 2 } },
    { "smollm3", WINDOW, finish_qwen,
      { .gated = true, .norms_per_layer = 2, .max_positions = 32768, .kv_heads = 4,
        .vocabulary = 128256, .tied_embeddings = true } },
    { "starcoder2", WINDOW, finish_starcoder2,
      { .norm = MODEL_LAYER_NORM, .norms_per_layer = 2, .max_positions = 4096, .kv_heads = 2,
        .vocabulary = 49152, .tied_embeddings = true } },
};
// clang-format on

enum { ARCHITECTURES = sizeof architectures / sizeof *architectures };

// Read where no row has the type.
static const struct architecture unknown = {
    "",
    WINDOW | MIXTURE | LATENT,
    finish_unknown,
    { .gated = true, .norms_per_layer = 2, .max_positions = 2048 }
};

// Layers that are neither attention nor a feed-forward network, by what gives them away: a word in
// the type, a key, a word in layer_types, or the names of the models that have them.
static const struct {
    const char *type, *key, *layer, *what, *names;
} foreign[] = {
    { "mamba", "mamba_d_state", "mamba", "Mamba layers", "mamba|mamba2|falcon-mamba|zamba|zamba2" },
    { "jamba", "attn_layer_period", NULL, "Mamba layers", "jamba" },
    { "bamba", "ssm_state_size", NULL, "Mamba layers", "bamba" },
    { "nemotron_h", "hybrid_override_pattern", NULL, "Mamba layers",
      "nemotron-h|nemotron-nano-9b|nemotron-nano-12b|nemotron-3-nano|nemotron-3-super" },
    { "granitemoehybrid", "mamba_n_heads", NULL, "Mamba layers", "granite-4.0-h|granite-4-h" },
    { "falcon_h1", "mamba_d_ssm", NULL, "Mamba layers", "falcon-h1" },
    { "qwen3_next", "linear_num_value_heads", "linear_attention", "gated delta net layers",
      "qwen3-next" },
    { "qwen3_5", "linear_key_head_dim", NULL, "gated delta net layers", "qwen3.5" },
    { "rwkv", "head_size_divisor", NULL, "RWKV layers", "rwkv" },
    { "recurrent_gemma", "lru_width", "recurrent", "recurrent layers", "recurrentgemma" },
    { "minimax_m1", "attn_type_list", NULL, "lightning attention", "minimax-m1|minimax-text" },
    { "kimi_linear", "linear_attn_config", NULL, "delta attention layers", "kimi-linear" },
    { "lfm2", "conv_L_cache", "conv", "convolution layers", "lfm2" },
    { "bert", "type_vocab_size", NULL, "an encoder", "bert|modernbert|roberta" },
    { "vit", "patch_size", NULL, "an encoder of images", "vit" },
    { "deepseek_v32", "index_topk", NULL, "sparse attention chosen by an indexer",
      "deepseek-v3.2" },
};

enum err model_check_name(struct arena *arena, struct text name)
{
    struct name_list list = { .arena = arena, .extras = true };
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        name_add(&list, foreign[i].type, foreign[i].names, (int)i);
    int row = name_find(&list, name);
    return row < 0 ? OK
                   : fail(ERR_INPUT,
                          "\"%.*s\" has %s, whose costs are not modelled; measure its steps with "
                          "gpuhours pilot instead of planning from its shape",
                          TEXT_BRIEF(name), foreign[row].what);
}

static bool lists_layer(const struct json *config, const char *word)
{
    const struct json *types = word ? json_get(config, "layer_types") : NULL;
    for (size_t i = 0; types && types->kind == JSON_ARRAY && i < types->count; i++)
        if (types->items[i].kind == JSON_STRING && text_is(types->items[i].string, word))
            return true;
    return false;
}

static enum err check_foreign(const struct json *config, struct text type, const char *name)
{
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        size_t size = strlen(foreign[i].type);
        bool named = type.size >= size && !memcmp(type.at, foreign[i].type, size);
        if (named || find(config, foreign[i].key) || lists_layer(config, foreign[i].layer))
            return fail(ERR_INPUT,
                        "%s: model_type \"%.*s\" has %s, whose costs are not modelled; measure its "
                        "steps with gpuhours pilot instead of planning from its shape",
                        name, TEXT_BRIEF(type), foreign[i].what);
    }
    return OK;
}

static enum err unknown_type(struct arena *arena, struct text type, const char *name)
{
    struct out list = { .arena = arena };
    for (int i = 0; i < ARCHITECTURES; i++)
        out_put(&list, "%s%s", i ? ", " : "", architectures[i].type);
    return fail(ERR_INPUT, "%s: model_type \"%.*s\" is not supported; supported are %s", name,
                (int)(type.size < 60 ? type.size : 60), type.at, out_string(&list));
}

// Decoders that have a type of their own in models that read images.
static const struct {
    const char *type, *as;
} decoders[] = {
    { "qwen2_vl", "qwen2" },          { "qwen2_vl_text", "qwen2" },
    { "qwen2_5_vl", "qwen2" },        { "qwen2_5_vl_text", "qwen2" },
    { "qwen3_vl_text", "qwen3" },     { "qwen3_vl_moe_text", "qwen3_moe" },
    { "mllama_text_model", "llama" },
};

static const struct architecture *find_type(struct text type)
{
    for (size_t i = 0; i < sizeof decoders / sizeof *decoders; i++)
        if (text_is(type, decoders[i].type))
            type = text_of(decoders[i].as);
    for (int i = 0; i < ARCHITECTURES; i++)
        if (text_is(type, architectures[i].type))
            return &architectures[i];
    return NULL;
}

// Which GELU a feed-forward network without a gate has.
static void read_activation(const struct reading *in)
{
    static const char *const names[] = { "activation_function", "hidden_act" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct text word = json_get_text(in->config, names[i]);
        if (word.at && !in->model->gated)
            in->model->composed_gelu = text_is(word, "gelu_new");
    }
}

// What every architecture derives in the same way.
static enum err derive(const struct reading *in)
{
    struct model *m = in->model;
    static const size_t needed[] = { offsetof(struct model, width), offsetof(struct model, layers),
                                     offsetof(struct model, heads),
                                     offsetof(struct model, vocabulary) };
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!*(int64_t *)((char *)m + needed[i]))
            return fail(ERR_INPUT, "%s: %s is missing or 0", in->name, key_of(in, needed[i]));
    if (!m->kv_heads)
        m->kv_heads = m->heads;
    if (!m->head_size && !m->kv_lora_rank) {
        if (m->width % m->heads)
            return fail(ERR_INPUT,
                        "%s: %s is %lld, must be a multiple of %s, which is %lld, or the file must "
                        "have %s",
                        in->name, key_of(in, offsetof(struct model, width)), (long long)m->width,
                        key_of(in, offsetof(struct model, heads)), (long long)m->heads,
                        key_of(in, offsetof(struct model, head_size)));
        m->head_size = m->width / m->heads;
    }
    return OK;
}

// LLaVA's files leave out what is as in Llama's and Mistral's own 7B.
static void take_usual(struct model *model, const struct architecture *a)
{
    if (strcmp(a->type, "llama") && strcmp(a->type, "mistral"))
        return;
    bool llama = !strcmp(a->type, "llama");
    model->width = 4096;
    model->layers = model->heads = 32;
    model->ffn_width = llama ? 11008 : 14336;
    model->vocabulary = 32000;
}

// What a path calls the model: "llama-8b" of llama-8b/config.json and of llama-8b.json. Empty where
// it does not tell: config.json, ./config.json.
static struct text name_of_path(struct text path)
{
    struct text piece, folder = TEXT(""), file = TEXT("");
    while (text_next(&path, '/', &piece)) {
        if (!piece.size)
            continue;
        folder = file;
        file = piece;
    }
    if (text_is(file, "config.json"))
        file = folder;
    else if (text_ends(file, ".json"))
        file.size -= strlen(".json");
    return text_is(file, ".") || text_is(file, "..") ? TEXT("") : file;
}

enum err model_read_config(struct model *model, struct arena *arena, struct text json,
                           const char *name)
{
    struct json file;
    TRY(json_read(&file, arena, json, name));
    if (file.kind != JSON_OBJECT)
        return fail(ERR_INPUT, "%s: is %s, must be an object", name, json_kind_name(file.kind));
    const struct json *config = &file, *inner = json_get(&file, "text_config");
    const char *within = inner ? "text_config." : "llm_config."; // the second is InternVL's own
    if (!inner)
        inner = json_get(&file, "llm_config");
    if (inner && inner->kind == JSON_OBJECT)
        config = inner;
    else
        within = "";
    struct text type = json_get_text(config, "model_type");
    if (!type.at)
        type = json_get_text(&file, "model_type");
    if (!type.at)
        return fail(ERR_INPUT, "%s: has no model_type; is it a model's config.json?", name);
    const struct architecture *a = find_type(type);
    if (!a) {
        TRY(check_foreign(config, type, name));
        if (!find(config, "hidden_size") || !find(config, "num_attention_heads"))
            return unknown_type(arena, type, name);
        a = &unknown;
    }
    *model = a->defaults;
    TRY(vision_read_config(&model->tower, arena, &file, name));
    if (model->tower) {
        model->vision = model->tower->name;
        take_usual(model, a);
    }
    struct reading reading = { model, arena, config, config == &file ? NULL : &file, name, within };
    TRY(read_keys(&reading, a->groups));
    read_activation(&reading);
    TRY(derive(&reading));
    if (a->finish)
        TRY(a->finish(&reading));
    struct text path = json_get_text(&file, "_name_or_path");
    struct text own = path.at && path.size ? path : name_of_path(text_of(name));
    model->family = *a->type ? a->type : markup_plain(arena, type, MARKUP_SENTENCE);
    model->name = own.size ? markup_plain(arena, own, MARKUP_SENTENCE) : model->family;
    model->source = text_copy(arena, text_of(name));
    return check(&reading);
}
