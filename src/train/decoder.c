// SPDX-License-Identifier: Apache-2.0
// Reads the part of config.json that the engine needs, and refuses models it cannot train.

#include "train/decoder.h"

#include <math.h>
#include <string.h>

struct reading { // a config being read
    struct decoder *decoder;
    struct arena *arena;
    const struct json *config;
    const char *name;
};

static enum err check(const struct reading *in)
{
    const struct decoder *d = in->decoder;
    const char *foreign = architecture_foreign(d->architecture, &d->model);
    if (foreign)
        return fail(ERR_INPUT, "%s: the model has %s; the engine trains models of the types %s",
                    in->name, foreign, architecture_types(in->arena));
    return OK;
}

// Unlike json_get_number(), tells a null, which is none, from a key that is absent.
static double number_or_none(const struct json *config, const char *key, double absent)
{
    for (size_t i = 0; i < config->count; i++)
        if (text_is(config->items[2 * i].string, key))
            return json_get_number(config, key, 0);
    return absent;
}

// --- positions ---------------------------------------------------------------

static double *frequencies_of(const struct decoder *d, enum decoder_rotation rotation)
{
    return d->frequencies + (int64_t)rotation * (d->rotary_size / 2);
}

static void plain_frequencies(struct decoder *d, enum decoder_rotation rotation, double theta)
{
    int64_t half = d->rotary_size / 2;
    for (int64_t i = 0; i < half; i++)
        frequencies_of(d, rotation)[i] = pow(theta, -(double)i / (double)half);
}

static void start_frequencies(struct decoder *d, struct arena *arena)
{
    d->frequencies = ARENA_NEW(arena, double, DECODER_ROTATIONS *(d->rotary_size / 2) + 1);
    plain_frequencies(d, ROTATION_USUAL, d->rope_theta);
    plain_frequencies(d, ROTATION_OTHER, d->local_theta > 0 ? d->local_theta : d->rope_theta);
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
    for (int64_t i = 0; i < d->rotary_size / 2; i++) {
        double f = d->frequencies[i], waves = s->trained * f / 6.283185307179586;
        double smooth = (waves - s->low) / (s->high - s->low);
        smooth = smooth < 0 ? 0 : smooth > 1 ? 1 : smooth;
        d->frequencies[i] = (1 - smooth) * f / s->factor + smooth * f;
    }
    return OK;
}

// The pair of a head that turns so often in the trained length.
static double pair_of_turns(const struct decoder *d, double turns)
{
    return (double)d->rotary_size / 2 * log(d->scaling.trained / (turns * 6.283185307179586)) /
           log(d->rope_theta);
}

// YaRN: pairs that turn often in the trained length are kept, those that turn seldom are stretched,
// those between interpolated; rotated values grow with the logarithm of the stretch.
static enum err scale_yarn(struct decoder *d, const char *name)
{
    const struct decoder_scaling *s = &d->scaling;
    if (!(s->low > 0) || !(s->high > s->low) || !(s->trained > 0) || !(d->rope_theta > 1))
        return fail(ERR_INPUT,
                    "%s: rope_scaling yarn needs beta_slow below beta_fast and "
                    "original_max_position_embeddings",
                    name);
    double first = pair_of_turns(d, s->high), last = pair_of_turns(d, s->low);
    first = fmax(s->keeps_fractions ? first : floor(first), 0);
    last = fmin(s->keeps_fractions ? last : ceil(last), (double)d->rotary_size - 1);
    last = last == first ? first + 0.001 : last;
    for (int64_t i = 0; i < d->rotary_size / 2; i++) {
        double stretched = ((double)i - first) / (last - first);
        stretched = stretched < 0 ? 0 : stretched > 1 ? 1 : stretched;
        d->frequencies[i] *= stretched / s->factor + 1 - stretched;
    }
    d->rotary_scale = s->factor > 1 ? 0.1 * log(s->factor) + 1 : 1;
    return OK;
}

static enum err scale_linear(struct decoder *d, const char *name)
{
    (void)name;
    for (int64_t i = 0; i < d->rotary_size / 2; i++)
        d->frequencies[i] /= d->scaling.factor;
    return OK;
}

// Phi's rule: a factor for each pair, others for documents beyond the trained length, and rotated
// values that grow with the logarithm of the stretch.
static enum err scale_longrope(struct decoder *d, const char *name)
{
    struct decoder_scaling *s = &d->scaling;
    if (!(s->trained > 1))
        return fail(ERR_INPUT, "%s: rope_scaling longrope needs original_max_position_embeddings",
                    name);
    for (int rotation = 0; rotation < DECODER_ROTATIONS; rotation++)
        for (int64_t i = 0; i < d->rotary_size / 2; i++) {
            if (!s->factors[rotation] || !(s->factors[rotation][i] > 0))
                return fail(
                    ERR_INPUT,
                    "%s: rope_scaling longrope needs short_factor and long_factor with %lld "
                    "numbers above 0",
                    name, (long long)d->rotary_size / 2);
            frequencies_of(d, (enum decoder_rotation)rotation)[i] =
                pow(d->rope_theta, -2 * (double)i / (double)d->rotary_size) /
                s->factors[rotation][i];
        }
    if (s->factor > 1)
        d->rotary_scale = sqrt(1 + log(s->factor) / log(s->trained));
    return OK;
}

static const struct scaling_kind {
    const char *name, *type;
    enum err (*scale)(struct decoder *, const char *name);
    const char *low, *high; // their keys
    double usual_low, usual_high;
} scalings[] = {
    { .name = "linear", .type = "linear", .scale = scale_linear },
    { .name = "llama3",
      .type = "llama3",
      .scale = scale_llama3,
      .low = "low_freq_factor",
      .high = "high_freq_factor",
      .usual_low = NAN,
      .usual_high = NAN },
    { .name = "yarn",
      .type = "yarn",
      .scale = scale_yarn,
      .low = "beta_slow",
      .high = "beta_fast",
      .usual_low = 1,
      .usual_high = 32 },
    { .name = "longrope", .type = "longrope", .scale = scale_longrope },
    { .name = "su", .type = "longrope", .scale = scale_longrope }, // in the first files of Phi-3
};
enum { SCALINGS = sizeof scalings / sizeof *scalings };

// The numbers of a list, if it has as many as a head has rotated pairs.
static const double *read_factors(const struct reading *in, const struct json *scaling,
                                  const char *key)
{
    const struct json *list = json_get(scaling, key);
    int64_t half = in->decoder->rotary_size / 2;
    if (!list || list->kind != JSON_ARRAY || (int64_t)list->count != half)
        return NULL;
    double *out = ARENA_NEW(in->arena, double, half);
    for (int64_t i = 0; i < half; i++)
        out[i] = list->items[i].kind == JSON_NUMBER ? list->items[i].number : NAN;
    return out;
}

// Phi states the length of its training beside the scaling, and the stretch not at all.
static double trained_length(const struct reading *in, const struct json *scaling)
{
    const char *key = "original_max_position_embeddings";
    return json_get_number(scaling, key, json_get_number(in->config, key, NAN));
}

static enum err read_scaling(const struct reading *in, const struct json *scaling)
{
    struct decoder *d = in->decoder;
    struct text type = json_get_text(scaling, "rope_type");
    type = type.at ? type : json_get_text(scaling, "type");
    if (!type.at || text_is(type, "default"))
        return OK;
    int found = 0;
    while (found < SCALINGS && !text_is(type, scalings[found].name))
        found++;
    if (found == SCALINGS)
        return fail(ERR_INPUT,
                    "%s: rope_scaling \"%.*s\" is not supported; linear, llama3, yarn and longrope "
                    "are",
                    in->name, TEXT_BRIEF(type));
    const struct scaling_kind *kind = &scalings[found];
    double trained = trained_length(in, scaling);
    d->scaling = (struct decoder_scaling){
        .type = kind->type,
        .factor = json_get_number(scaling, "factor", (double)d->model.max_positions / trained),
        .low = kind->low ? json_get_number(scaling, kind->low, kind->usual_low) : 0,
        .high = kind->high ? json_get_number(scaling, kind->high, kind->usual_high) : 0,
        .keeps_fractions = !json_get_bool(scaling, "truncate", true),
        .trained = trained,
        .factors = { read_factors(in, scaling, "short_factor"),
                     read_factors(in, scaling, "long_factor") },
    };
    if (!(d->scaling.factor >= 1))
        return fail(ERR_INPUT, "%s: rope_scaling has no factor of at least 1", in->name);
    const char *unknown[] = { "attention_factor", "mscale", "mscale_all_dim" };
    for (int i = 0; i < 3; i++)
        if (!strcmp(kind->type, "yarn") && json_get_number(scaling, unknown[i], 0) != 0)
            return fail(ERR_INPUT, "%s: rope_scaling yarn with %s is not supported", in->name,
                        unknown[i]);
    return kind->scale(d, in->name);
}

// Where positions differ between layers with and without a window, there is an object for each.
static enum err read_positions(const struct reading *in)
{
    struct decoder *d = in->decoder;
    const struct architecture *a = d->architecture;
    const struct json *stated = json_get(in->config, "rope_parameters");
    const struct json *local = json_get(stated, "sliding_attention");
    const struct json *full = json_get(stated, "full_attention");
    const struct json *positions = full ? full : stated;
    const struct json *scaling = positions ? positions : json_get(in->config, "rope_scaling");
    double theta = json_get_number(in->config, "rope_theta", a->theta ? a->theta : 10000);
    double part = json_get_number(in->config, "partial_rotary_factor", 1);
    d->rope_theta = json_get_number(positions, "rope_theta", theta);
    d->local_theta = json_get_number(in->config, "rope_local_base_freq", a->local_theta);
    d->local_theta = json_get_number(local, "rope_theta", d->local_theta);
    part = json_get_number(positions, "partial_rotary_factor", part);
    bool is_part = part > 0 && part <= 1;
    d->rotary_size = is_part ? (int64_t)((double)d->model.head_size * part) : 0;
    if (!(d->rope_theta > 0) || !(d->local_theta >= 0))
        return fail(ERR_INPUT, "%s: rope_theta must be above 0", in->name);
    if (d->rotary_size < 2 || d->rotary_size % 2)
        return fail(
            ERR_INPUT,
            "%s: partial_rotary_factor %g must rotate an even number of a head's %lld values",
            in->name, part, (long long)d->model.head_size);
    start_frequencies(d, in->arena);
    return scaling ? read_scaling(in, scaling) : OK;
}

enum decoder_rotation decoder_rotation(const struct decoder *d, int64_t layer, int64_t tokens)
{
    bool is_long = d->scaling.factors[ROTATION_OTHER] && (double)tokens > d->scaling.trained;
    bool is_local = d->local_theta > 0 && decoder_window(d, layer) > 0;
    return d->unrotated && d->unrotated[layer] ? ROTATION_NONE
           : is_long || is_local               ? ROTATION_OTHER
                                               : ROTATION_USUAL;
}

// --- layers ------------------------------------------------------------------

static bool is_word(const struct json *value, const char *word)
{
    return value->kind == JSON_STRING && text_is(value->string, word);
}

// Layers that attend to everything are the first ones (Qwen 2), or one in so many (Gemma), unless
// the config lists them.
static const int64_t *windows_of(const struct decoder *d, struct arena *arena,
                                 const struct json *types)
{
    const struct model *m = &d->model;
    int64_t full = m->full_attention_layers, every = full ? m->layers / full : 0;
    bool listed = types && types->kind == JSON_ARRAY && (int64_t)types->count == m->layers;
    if (!m->sliding_window || (!full && !listed))
        return NULL;
    int64_t *windows = ARENA_NEW(arena, int64_t, m->layers);
    for (int64_t i = 0; i < m->layers; i++) {
        bool is_full = listed ? is_word(&types->items[i], "full_attention")
                       : d->architecture->spreads_windows ? (i + 1) % every == 0
                                                          : i < full;
        windows[i] = is_full ? 0 : m->sliding_window;
    }
    return windows;
}

int64_t decoder_window(const struct decoder *decoder, int64_t layer)
{
    return decoder->windows ? decoder->windows[layer] : decoder->model.sliding_window;
}

// SmolLM 3 rotates nothing in one layer of so many; a list has a 1 for each layer that rotates.
static const bool *unrotated_of(const struct decoder *d, struct arena *arena,
                                const struct json *list)
{
    int64_t layers = d->model.layers, every = d->architecture->unrotated_every;
    bool listed = list && list->kind == JSON_ARRAY && (int64_t)list->count == layers;
    if (!every)
        return NULL;
    bool *unrotated = ARENA_NEW(arena, bool, layers);
    for (int64_t i = 0; i < layers; i++)
        unrotated[i] = listed ? list->items[i].kind == JSON_NUMBER && list->items[i].number == 0
                              : (i + 1) % every == 0;
    return unrotated;
}

// --- reading -----------------------------------------------------------------

// As transformers does: Mixtral always normalises the weights of a token's experts, Qwen 3 MoE
// where its config says so; the auxiliary loss counts where the router's logits are to be given
// out.
static void read_experts(struct decoder *d, const struct json *config)
{
    d->normalises_experts =
        d->architecture->normalises_experts || json_get_bool(config, "norm_topk_prob", false);
    if (d->model.experts && json_get_bool(config, "output_router_logits", false))
        d->balance = json_get_number(config, "router_aux_loss_coef", 0.001);
}

static const char *const activation_names[][3] = {
    [ACTIVATION_SILU] = { "silu", "swish" },
    [ACTIVATION_GELU] = { "gelu_pytorch_tanh",
                          "gelu" }, // Gemma's files say gelu and mean the other
};

static enum err check_activation(const struct reading *in)
{
    struct text name = json_get_text(in->config, "hidden_activation");
    name = name.at ? name : json_get_text(in->config, "hidden_act");
    const char *const *names = activation_names[in->decoder->architecture->activation];
    for (int i = 0; name.at && names[i]; i++)
        if (text_is(name, names[i]))
            return OK;
    return name.at ? fail(ERR_INPUT, "%s: hidden_act \"%.*s\" is not supported; a %s has %s",
                          in->name, TEXT_BRIEF(name), in->decoder->architecture->type, names[0])
                   : OK;
}

static void set_score_size(struct decoder *d, double size)
{
    d->attention_scale = size > 0 && size != (double)d->model.head_size ? 1 / sqrt(size) : 0;
}

// What a family has where its config says nothing.
static void set_usual(struct decoder *d)
{
    const struct architecture *a = d->architecture;
    d->embedding_scale = a->scales_embedding ? sqrt((double)d->model.width) : 1;
    d->added_scale = d->logit_scale = 1;
    set_score_size(d, a->score_size);
    d->attention_cap = a->attention_cap;
    d->logit_cap = a->logit_cap;
    d->rotary_size = d->model.head_size;
    d->rotary_scale = 1;
    d->swiglu = a->swiglu.slope > 0 ? a->swiglu : (struct swiglu){ .slope = 1 };
}

// Granite's four numbers. They are 1 where nothing is said, that of the scores too.
static enum err read_multipliers(const struct reading *in)
{
    struct decoder *d = in->decoder;
    if (!d->architecture->has_multipliers)
        return OK;
    double scaling = json_get_number(in->config, "logits_scaling", 1);
    d->embedding_scale = json_get_number(in->config, "embedding_multiplier", 1);
    d->attention_scale = json_get_number(in->config, "attention_multiplier", 1);
    d->added_scale = json_get_number(in->config, "residual_multiplier", 1);
    d->logit_scale = 1 / scaling;
    if (!(d->embedding_scale > 0) || !(d->attention_scale > 0) || !(d->added_scale > 0) ||
        !(scaling > 0) || !isfinite(scaling))
        return fail(ERR_INPUT, "%s: multipliers and logits_scaling must be above 0", in->name);
    return OK;
}

static enum err read_numbers(const struct reading *in)
{
    struct decoder *d = in->decoder;
    d->norm_epsilon = json_get_number(in->config, "rms_norm_eps", 1e-6);
    d->attention_cap = number_or_none(in->config, "attn_logit_softcapping", d->attention_cap);
    d->logit_cap = number_or_none(in->config, "final_logit_softcapping", d->logit_cap);
    d->swiglu.limit = json_get_number(in->config, "swiglu_limit", d->swiglu.limit);
    double usual = d->architecture->score_size;
    set_score_size(d, json_get_number(in->config, "query_pre_attn_scalar", usual));
    if (!(d->norm_epsilon >= 0) || !(d->attention_cap >= 0) || !(d->logit_cap >= 0) ||
        !(d->swiglu.limit >= 0))
        return fail(ERR_INPUT, "%s: rms_norm_eps, soft caps and swiglu_limit must not be negative",
                    in->name);
    if (json_get_bool(in->config, "use_bidirectional_attention", false))
        return fail(ERR_INPUT, "%s: use_bidirectional_attention is not supported", in->name);
    TRY(read_multipliers(in));
    return check_activation(in);
}

enum err decoder_read(struct decoder *out, struct arena *arena, struct text json, const char *name)
{
    *out = (struct decoder){ 0 };
    struct json config;
    struct reading in = { out, arena, &config, name };
    TRY(model_read_config(&out->model, arena, json, name));
    TRY(json_read(&config, arena, json, name));
    struct text type = json_get_text(&config, "model_type");
    if (json_get(&config, "text_config"))
        return fail(ERR_INPUT, "%s: has a text_config: the engine trains models of text alone",
                    name);
    out->architecture = architecture_find(type);
    if (!out->architecture)
        return fail(ERR_INPUT, "%s: the engine cannot train model_type \"%.*s\"; it trains %s",
                    name, TEXT_BRIEF(type), architecture_types(arena));
    TRY(check(&in));
    set_usual(out);
    out->windows = windows_of(out, arena, json_get(&config, "layer_types"));
    out->unrotated = unrotated_of(out, arena, json_get(&config, "no_rope_layers"));
    read_experts(out, &config);
    TRY(read_numbers(&in));
    return read_positions(&in);
}

enum err decoder_of(struct decoder *out, struct arena *arena, const struct model *model)
{
    *out = (struct decoder){ .model = *model,
                             .norm_epsilon = 1e-5,
                             .rope_theta = 10000,
                             .architecture = architecture_of(model),
                             .normalises_experts = true };
    TRY(check(&(struct reading){
        .decoder = out, .arena = arena, .name = model->name ? model->name : "the model" }));
    set_usual(out);
    out->windows = windows_of(out, arena, NULL);
    out->unrotated = unrotated_of(out, arena, NULL);
    start_frequencies(out, arena);
    return OK;
}

// --- writing -----------------------------------------------------------------

static void write_factors(struct json_writer *w, const char *key, const double *factors,
                          int64_t count)
{
    json_open(w, key, '[');
    for (int64_t i = 0; i < count; i++)
        json_put_number(w, NULL, factors[i]);
    json_close(w, ']');
}

static void write_scaling(const struct decoder *d, struct json_writer *w)
{
    const struct decoder_scaling *s = &d->scaling;
    json_open(w, "rope_scaling", '{');
    json_put_string(w, "rope_type", s->type);
    json_put_number(w, "factor", s->factor);
    for (int i = 0; i < SCALINGS; i++)
        if (!strcmp(s->type, scalings[i].name) && scalings[i].low) {
            json_put_number(w, scalings[i].low, s->low);
            json_put_number(w, scalings[i].high, s->high);
        }
    if (s->keeps_fractions)
        json_put_bool(w, "truncate", false);
    if (strcmp(s->type, "linear"))
        json_put_number(w, "original_max_position_embeddings", s->trained);
    if (s->factors[0]) {
        write_factors(w, "short_factor", s->factors[ROTATION_USUAL], d->rotary_size / 2);
        write_factors(w, "long_factor", s->factors[ROTATION_OTHER], d->rotary_size / 2);
    }
    json_close(w, '}');
}

static void write_positions(const struct decoder *d, struct json_writer *w)
{
    json_put_number(w, "rope_theta", d->rope_theta);
    if (d->local_theta > 0)
        json_put_number(w, "rope_local_base_freq", d->local_theta);
    if (d->rotary_size < d->model.head_size)
        json_put_number(w, "partial_rotary_factor",
                        (double)d->rotary_size / (double)d->model.head_size);
    if (d->scaling.type)
        write_scaling(d, w);
}

static void write_experts(const struct decoder *d, struct json_writer *w)
{
    const struct model *m = &d->model;
    const char *key = d->architecture->expert_count;
    json_put_count(w, key ? key : "num_experts", m->experts);
    json_put_count(w, "num_experts_per_tok", m->experts_active);
    if (!key) { // experts are narrower than a dense network, and some layers have one
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

static void write_caps(const struct decoder *d, struct json_writer *w)
{
    if (!d->architecture->score_size)
        return;
    json_put_number(w, "attn_logit_softcapping", d->attention_cap ? d->attention_cap : NAN);
    json_put_number(w, "final_logit_softcapping", d->logit_cap ? d->logit_cap : NAN);
    json_put_number(w, "query_pre_attn_scalar",
                    d->attention_scale > 0 ? 1 / (d->attention_scale * d->attention_scale)
                                           : (double)d->model.head_size);
}

static void write_multipliers(const struct decoder *d, struct json_writer *w)
{
    if (!d->architecture->has_multipliers)
        return;
    double usual = 1 / sqrt((double)d->model.head_size);
    json_put_number(w, "embedding_multiplier", d->embedding_scale);
    json_put_number(w, "attention_multiplier", d->attention_scale > 0 ? d->attention_scale : usual);
    json_put_number(w, "residual_multiplier", d->added_scale);
    json_put_number(w, "logits_scaling", 1 / d->logit_scale);
}

static void write_windows(const struct decoder *d, struct json_writer *w)
{
    json_put_count(w, "sliding_window", d->model.sliding_window);
    if (!d->windows)
        return;
    json_put_bool(w, "use_sliding_window", true);
    json_open(w, "layer_types", '[');
    for (int64_t i = 0; i < d->model.layers; i++)
        json_put_string(w, NULL, d->windows[i] ? "sliding_attention" : "full_attention");
    json_close(w, ']');
}

void decoder_write(const struct decoder *d, struct json_writer *w, const char *torch_dtype)
{
    const struct model *m = &d->model;
    const char *activation = activation_names[d->architecture->activation][0];
    json_open(w, NULL, '{');
    json_open(w, "architectures", '[');
    json_put_string(w, NULL, d->architecture->class_name);
    json_close(w, ']');
    json_put_string(w, "model_type", d->architecture->type);
    json_put_string(w, "torch_dtype", torch_dtype);
    json_put_count(w, "hidden_size", m->width);
    json_put_count(w, "intermediate_size", m->ffn_width ? m->ffn_width : m->expert_width);
    json_put_count(w, "num_hidden_layers", m->layers);
    json_put_count(w, "num_attention_heads", m->heads);
    json_put_count(w, "num_key_value_heads", m->kv_heads);
    json_put_count(w, "head_dim", m->head_size);
    json_put_count(w, "vocab_size", m->vocabulary);
    json_put_count(w, "max_position_embeddings", m->max_positions ? m->max_positions : 2048);
    json_put_string(w, "hidden_act", activation);
    if (d->architecture->activation)
        json_put_string(w, "hidden_activation", activation);
    json_put_number(w, "rms_norm_eps", d->norm_epsilon);
    write_positions(d, w);
    write_caps(d, w);
    write_multipliers(d, w);
    if (m->experts)
        write_experts(d, w);
    json_put_bool(w, "tie_word_embeddings", m->tied_embeddings);
    json_put_bool(w, "attention_bias", m->out_bias);
    if (d->swiglu.limit > 0)
        json_put_number(w, "swiglu_limit", d->swiglu.limit);
    if (d->unrotated) {
        json_open(w, "no_rope_layers", '[');
        for (int64_t i = 0; i < m->layers; i++)
            json_put_count(w, NULL, !d->unrotated[i]);
        json_close(w, ']');
    }
    if (m->sliding_window)
        write_windows(d, w);
    json_close(w, '}');
}
