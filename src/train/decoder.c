// SPDX-License-Identifier: Apache-2.0
// Reads the part of config.json that the engine needs, and refuses models it cannot train.

#include "train/decoder.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *model_type, *class;
} kinds[] = {
    { "llama", "LlamaForCausalLM" },     { "mistral", "MistralForCausalLM" },
    { "qwen2", "Qwen2ForCausalLM" },     { "qwen3", "Qwen3ForCausalLM" },
    { "mixtral", "MixtralForCausalLM" }, { "qwen3_moe", "Qwen3MoeForCausalLM" },
};
enum { KINDS = sizeof kinds / sizeof *kinds };

#define TRAINED "llama, mistral, qwen2, qwen3, mixtral and qwen3_moe"

// --- what can be run ---------------------------------------------------------

static enum err check(const struct model *m, const char *name)
{
    const struct {
        bool is;
        const char *what;
    } others[] = {
        { m->shared_experts > 0 || m->shared_width > 0, "has shared experts" },
        { m->router_bias, "has a bias on its router" },
        { m->kv_lora_rank > 0, "has latent attention" },
        { !m->gated, "has no gate in its feed-forward network" },
        { m->norm != MODEL_RMS_NORM || m->norms_per_layer != 2, "has other norms than Llama" },
        { m->qk_norm == MODEL_QK_WIDTH, "normalises queries over all heads" },
        { m->parallel, "runs attention and feed-forward in parallel" },
        { m->learned_positions || m->embedding_norm, "has learned positions or a first norm" },
        { m->out_bias || m->mlp_bias || m->head_bias, "has biases other than those of q, k and v" },
        { m->fused_qkv || m->fused_gate_up, "stores its linears fused" },
        { m->attention_sinks || m->activation_parameters > 0, "has additional weights" },
        { m->head_size % 2 != 0, "has heads of an odd size" },
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].is)
            return fail(ERR_INPUT, "%s: the model %s; the engine trains the Llama family: " TRAINED,
                        name, others[i].what);
    return OK;
}

static const char *kind_of(const struct model *m)
{
    bool is_qwen3 = m->qk_norm == MODEL_QK_HEAD;
    return m->experts          ? is_qwen3 ? "qwen3_moe" : "mixtral"
           : is_qwen3          ? "qwen3"
           : m->qkv_bias       ? "qwen2"
           : m->sliding_window ? "mistral"
                               : "llama";
}

// --- positions ---------------------------------------------------------------

static void plain_frequencies(struct decoder *d, struct arena *arena)
{
    int64_t half = d->model.head_size / 2;
    d->frequencies = ARENA_NEW(arena, double, half);
    for (int64_t i = 0; i < half; i++)
        d->frequencies[i] = pow(d->rope_theta, -(double)i / (double)half);
}

// Llama 3.1's rule: long wavelengths are stretched, short ones kept, those between interpolated.
static enum err scale_llama3(struct decoder *d, const char *name)
{
    const struct decoder_scaling *s = &d->scaling;
    if (!(s->low > 0) || !(s->high > s->low) || !(s->trained > 0))
        return fail(ERR_INPUT,
                    "%s: rope_scaling llama3 needs low_freq_factor below high_freq_factor and "
                    "original_max_position_embeddings",
                    name);
    for (int64_t i = 0; i < d->model.head_size / 2; i++) {
        double f = d->frequencies[i], waves = s->trained * f / 6.283185307179586;
        double smooth = (waves - s->low) / (s->high - s->low);
        smooth = smooth < 0 ? 0 : smooth > 1 ? 1 : smooth;
        d->frequencies[i] = (1 - smooth) * f / s->factor + smooth * f;
    }
    return OK;
}

static enum err scale(struct decoder *d, const struct json *scaling, const char *name)
{
    struct text type = json_get_text(scaling, "rope_type");
    type = type.at ? type : json_get_text(scaling, "type");
    if (!type.at || text_is(type, "default"))
        return OK;
    d->scaling = (struct decoder_scaling){
        .type = text_is(type, "llama3")   ? "llama3"
                : text_is(type, "linear") ? "linear"
                                          : NULL,
        .factor = json_get_number(scaling, "factor", NAN),
        .low = json_get_number(scaling, "low_freq_factor", NAN),
        .high = json_get_number(scaling, "high_freq_factor", NAN),
        .trained = json_get_number(scaling, "original_max_position_embeddings", NAN),
    };
    if (!d->scaling.type)
        return fail(ERR_INPUT, "%s: rope_scaling \"%.*s\" is not supported; linear and llama3 are",
                    name, TEXT_BRIEF(type));
    if (!(d->scaling.factor >= 1))
        return fail(ERR_INPUT, "%s: rope_scaling has no factor of at least 1", name);
    if (!strcmp(d->scaling.type, "llama3"))
        return scale_llama3(d, name);
    for (int64_t i = 0; i < d->model.head_size / 2; i++)
        d->frequencies[i] /= d->scaling.factor;
    return OK;
}

// --- reading -----------------------------------------------------------------

// As transformers does: Mixtral always normalises the weights of a token's experts, Qwen 3 MoE
// where its config says so; the auxiliary loss counts where the router's logits are to be given
// out.
static void read_experts(struct decoder *d, const struct json *config)
{
    d->normalises_experts =
        !strcmp(d->kind, "mixtral") || json_get_bool(config, "norm_topk_prob", false);
    if (d->model.experts && json_get_bool(config, "output_router_logits", false))
        d->balance = json_get_number(config, "router_aux_loss_coef", 0.001);
}

enum err decoder_read(struct decoder *out, struct arena *arena, struct text json, const char *name)
{
    *out = (struct decoder){ 0 };
    struct json config;
    TRY(model_read_config(&out->model, arena, json, name));
    TRY(json_read(&config, arena, json, name));
    struct text type = json_get_text(&config, "model_type");
    for (int i = 0; i < KINDS; i++)
        if (type.at && text_is(type, kinds[i].model_type))
            out->kind = kinds[i].model_type;
    if (!out->kind)
        return fail(ERR_INPUT,
                    "%s: the engine cannot train model_type \"%.*s\"; it trains " TRAINED, name,
                    TEXT_BRIEF(type));
    TRY(check(&out->model, name));
    const struct json *positions = json_get(&config, "rope_parameters");
    const struct json *scaling = positions ? positions : json_get(&config, "rope_scaling");
    out->norm_epsilon = json_get_number(&config, "rms_norm_eps", 1e-6);
    out->rope_theta = json_get_number(&config, "rope_theta", 10000);
    if (positions)
        out->rope_theta = json_get_number(positions, "rope_theta", out->rope_theta);
    if (!(out->rope_theta > 0) || !(out->norm_epsilon >= 0))
        return fail(ERR_INPUT, "%s: rope_theta and rms_norm_eps must not be negative", name);
    read_experts(out, &config);
    plain_frequencies(out, arena);
    return scaling ? scale(out, scaling, name) : OK;
}

enum err decoder_of(struct decoder *out, struct arena *arena, const struct model *model)
{
    *out = (struct decoder){ .model = *model,
                             .norm_epsilon = 1e-5,
                             .rope_theta = 10000,
                             .kind = kind_of(model),
                             .normalises_experts = true };
    TRY(check(model, model->name ? model->name : "the model"));
    plain_frequencies(out, arena);
    return OK;
}

int64_t decoder_window(const struct decoder *decoder, int64_t layer)
{
    const struct model *m = &decoder->model;
    return layer < m->full_attention_layers ? 0 : m->sliding_window;
}

static void write_scaling(const struct decoder_scaling *s, struct json_writer *w)
{
    json_open(w, "rope_scaling", '{');
    json_put_string(w, "rope_type", s->type);
    json_put_number(w, "factor", s->factor);
    if (!strcmp(s->type, "llama3")) {
        json_put_number(w, "low_freq_factor", s->low);
        json_put_number(w, "high_freq_factor", s->high);
        json_put_number(w, "original_max_position_embeddings", s->trained);
    }
    json_close(w, '}');
}

static void write_experts(const struct decoder *d, struct json_writer *w)
{
    const struct model *m = &d->model;
    bool is_mixtral = !strcmp(d->kind, "mixtral");
    json_put_count(w, is_mixtral ? "num_local_experts" : "num_experts", m->experts);
    json_put_count(w, "num_experts_per_tok", m->experts_active);
    if (!is_mixtral) {
        json_put_count(w, "moe_intermediate_size", m->expert_width);
        json_put_bool(w, "norm_topk_prob", d->normalises_experts);
        json_put_count(w, "decoder_sparse_step", m->sparse_every ? m->sparse_every : 1);
        json_open(w, "mlp_only_layers", '[');
        for (int64_t i = 0; i < m->dense_layers; i++)
            json_put_count(w, NULL, i);
        json_close(w, ']');
    }
    json_put_bool(w, "output_router_logits", d->balance > 0);
    if (d->balance > 0)
        json_put_number(w, "router_aux_loss_coef", d->balance);
}

void decoder_write(const struct decoder *d, struct json_writer *w, const char *torch_dtype)
{
    const struct model *m = &d->model;
    json_open(w, NULL, '{');
    json_open(w, "architectures", '[');
    for (int i = 0; i < KINDS; i++)
        if (!strcmp(d->kind, kinds[i].model_type))
            json_put_string(w, NULL, kinds[i].class);
    json_close(w, ']');
    json_put_string(w, "model_type", d->kind);
    json_put_string(w, "torch_dtype", torch_dtype);
    json_put_count(w, "hidden_size", m->width);
    json_put_count(w, "intermediate_size", m->ffn_width ? m->ffn_width : m->expert_width);
    json_put_count(w, "num_hidden_layers", m->layers);
    json_put_count(w, "num_attention_heads", m->heads);
    json_put_count(w, "num_key_value_heads", m->kv_heads);
    json_put_count(w, "head_dim", m->head_size);
    json_put_count(w, "vocab_size", m->vocabulary);
    json_put_count(w, "max_position_embeddings", m->max_positions ? m->max_positions : 2048);
    json_put_string(w, "hidden_act", "silu");
    json_put_number(w, "rms_norm_eps", d->norm_epsilon);
    json_put_number(w, "rope_theta", d->rope_theta);
    if (d->scaling.type)
        write_scaling(&d->scaling, w);
    if (m->experts)
        write_experts(d, w);
    json_put_bool(w, "tie_word_embeddings", m->tied_embeddings);
    json_put_bool(w, "attention_bias", false);
    if (m->sliding_window)
        json_put_count(w, "sliding_window", m->sliding_window);
    json_close(w, '}');
}
