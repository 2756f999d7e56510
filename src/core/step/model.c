// SPDX-License-Identifier: Apache-2.0
// Counts the weights of a decoder from its shape, linear by linear, and checks the shape.

#include "core/step/model.h"

#include <string.h>

static const char *const norm_names[] = { "rms", "layer", "layer-no-bias", NULL };
static const char *const qk_norm_names[] = { "none", "head", "width", NULL };

static const char *const total_names[] = { "unknown", "published", "remembered", "computed", NULL };

const struct field model_fields[] = {
    FIELD_NEEDED(model, name, TEXT, "name on the command line"),
    FIELD(model, aliases, TEXT, "other names, separated by |"),
    FIELD_NEEDED(model, family, TEXT, "models that share an architecture"),
    FIELD_NEEDED(model, layers, COUNT, "decoder layers"),
    FIELD_NEEDED(model, width, COUNT, "size of the hidden state"),
    FIELD_NEEDED(model, heads, COUNT, "query heads"),
    FIELD_NEEDED(model, kv_heads, COUNT, "key and value heads"),
    FIELD_NEEDED(model, head_size, COUNT, "elements of a query head"),
    FIELD_NEEDED(model, ffn_width, COUNT, "width of a dense feed-forward network"),
    FIELD_NEEDED(model, vocabulary, COUNT, "rows of the embedding"),
    FIELD_NEEDED(model, tied_embeddings, FLAG, "the head is the embedding"),
    FIELD_NEEDED(model, max_positions, COUNT, "longest sequence it is made for"),
    FIELD_NEEDED(model, gated, FLAG, "a gate beside the up projection"),
    FIELD(model, composed_gelu, FLAG, "GELU by its formula, operation by operation (gelu_new)",
          .since = "0.13.0"),
    FIELD_OF(model, norm, norm_names, "kind of norm"),
    FIELD_NEEDED(model, norms_per_layer, COUNT, "norms of the whole width in a layer"),
    FIELD_OF(model, qk_norm, qk_norm_names, "norm on queries and keys: over a head or all of them"),
    FIELD(model, parallel, FLAG, "attention and feed-forward read the same input"),
    FIELD(model, learned_positions, FLAG, "a table of position embeddings"),
    FIELD(model, embedding_norm, FLAG, "a norm after the embedding"),
    FIELD(model, qkv_bias, FLAG, "query, key and value have a bias"),
    FIELD(model, out_bias, FLAG, "the attention output has a bias"),
    FIELD(model, mlp_bias, FLAG, "the feed-forward linears have a bias"),
    FIELD(model, head_bias, FLAG, "the output head has a bias"),
    FIELD(model, fused_qkv, FLAG, "query, key and value are one linear"),
    FIELD(model, fused_gate_up, FLAG, "gate and up are one linear"),
    FIELD(model, attention_sinks, FLAG, "one more weight per head"),
    FIELD(model, activation_parameters, COUNT, "trained numbers of the activation, per layer"),
    FIELD(model, sliding_window, COUNT, "positions a windowed layer attends to; 0 is no window"),
    FIELD(model, full_attention_layers, COUNT, "layers without a window, where others have one"),
    FIELD(model, experts, COUNT, "routed experts in a sparse layer; 0 is a dense model"),
    FIELD(model, experts_active, COUNT, "routed experts a token passes"),
    FIELD(model, shared_experts, COUNT, "experts every token passes"),
    FIELD(model, expert_width, COUNT, "width of a routed expert"),
    FIELD(model, shared_width, COUNT, "width of all shared experts together"),
    FIELD(model, dense_layers, COUNT, "the first so many layers are dense"),
    FIELD(model, sparse_every, COUNT, "after those, one layer in so many is sparse; 0 is each"),
    FIELD(model, router_bias, FLAG, "the router has a weight per expert beside its matrix"),
    FIELD(model, shared_gate, FLAG, "a gate on the shared experts"),
    FIELD(model, q_lora_rank, COUNT, "latent attention: rank of queries; 0 is a full matrix"),
    FIELD(model, kv_lora_rank, COUNT, "latent attention: rank of keys and values; 0 is ordinary"),
    FIELD(model, qk_nope_size, COUNT, "latent attention: head elements without rotation"),
    FIELD(model, qk_rope_size, COUNT, "latent attention: head elements with rotation"),
    FIELD(model, v_head_size, COUNT, "latent attention: elements of a value head"),
    FIELD(model, vision, TEXT, "family of its encoder of images, as in vision.csv",
          .since = "0.4.0"),
    FIELD(model, parameters, COUNT, "total"),
    FIELD(model, active_parameters, COUNT, "that one token passes, by the same count"),
    FIELD_OF(model, total_from, total_names, "where the total comes from"),
    FIELD_NEEDED(model, source, TEXT, "where the figures come from"),
    FIELD_NEEDED(model, as_of, DATE, "when that was"),
    FIELD(model, note, TEXT, "what to know"),
    { 0 },
};

// --- layers ------------------------------------------------------------------

enum model_layer model_layer(const struct model *model, int64_t index)
{
    int64_t every = model->sparse_every > 1 ? model->sparse_every : 1;
    bool sparse = model->experts && index >= model->dense_layers && (index + 1) % every == 0;
    return sparse ? MODEL_SPARSE : MODEL_DENSE;
}

int64_t model_layers(const struct model *model, enum model_layer kind)
{
    int64_t every = model->sparse_every > 1 ? model->sparse_every : 1;
    int64_t sparse = model->experts ? model->layers / every - model->dense_layers / every : 0;
    return kind == MODEL_SPARSE ? sparse : model->layers - sparse;
}

int64_t model_full_attention_layers(const struct model *model)
{
    return model->sliding_window ? model->full_attention_layers : model->layers;
}

// --- attention ---------------------------------------------------------------

bool model_caps_scores(const struct model *model)
{
    return model->family && !strcmp(model->family, "gemma2");
}

int64_t model_query_width(const struct model *model)
{
    return model->kv_lora_rank ? model->heads * (model->qk_nope_size + model->qk_rope_size)
                               : model->heads * model->head_size;
}

int64_t model_key_width(const struct model *model)
{
    return model->kv_lora_rank ? model_query_width(model) : model->kv_heads * model->head_size;
}

int64_t model_value_width(const struct model *model)
{
    return model->kv_lora_rank ? model->heads * model->v_head_size
                               : model->kv_heads * model->head_size;
}

int64_t model_attention_width(const struct model *model)
{
    return model->kv_lora_rank ? model->heads * model->v_head_size
                               : model->heads * model->head_size;
}

// --- linears -----------------------------------------------------------------

struct list {
    struct model_linear *out;
    size_t count;
};

static void add(struct list *list, const char *name, enum model_role role, int64_t in, int64_t out,
                bool bias)
{
    list->out[list->count++] = (struct model_linear){ name, role, in, out, 1, 1, bias };
}

static void add_latent_attention(struct list *list, const struct model *m)
{
    int64_t queries = model_query_width(m);
    if (m->q_lora_rank) {
        add(list, "q_a", MODEL_ATTENTION, m->width, m->q_lora_rank, m->qkv_bias);
        add(list, "q_b", MODEL_ATTENTION, m->q_lora_rank, queries, false);
    } else {
        add(list, "q", MODEL_ATTENTION, m->width, queries, m->qkv_bias);
    }
    add(list, "kv_a", MODEL_ATTENTION, m->width, m->kv_lora_rank + m->qk_rope_size, m->qkv_bias);
    add(list, "kv_b", MODEL_ATTENTION, m->kv_lora_rank,
        m->heads * (m->qk_nope_size + m->v_head_size), false);
}

static void add_attention(struct list *list, const struct model *m)
{
    int64_t q = model_query_width(m), k = model_key_width(m), v = model_value_width(m);
    if (m->kv_lora_rank) {
        add_latent_attention(list, m);
    } else if (m->fused_qkv) {
        add(list, "qkv", MODEL_ATTENTION, m->width, q + k + v, m->qkv_bias);
    } else {
        add(list, "q", MODEL_ATTENTION, m->width, q, m->qkv_bias);
        add(list, "k", MODEL_ATTENTION, m->width, k, m->qkv_bias);
        add(list, "v", MODEL_ATTENTION, m->width, v, m->qkv_bias);
    }
    add(list, "o", MODEL_ATTENTION, model_attention_width(m), m->width, m->out_bias);
}

struct mlp_names {
    const char *gate_up, *gate, *up, *down;
};

static void add_mlp(struct list *list, const struct model *m, const struct mlp_names *names,
                    enum model_role role, int64_t width)
{
    if (m->gated && m->fused_gate_up) {
        add(list, names->gate_up, role, m->width, 2 * width, m->mlp_bias);
    } else {
        if (m->gated)
            add(list, names->gate, role, m->width, width, m->mlp_bias);
        add(list, names->up, role, m->width, width, m->mlp_bias);
    }
    add(list, names->down, role, width, m->width, m->mlp_bias);
}

static void add_experts(struct list *list, const struct model *m)
{
    static const struct mlp_names routed = { "expert_gate_up", "expert_gate", "expert_up",
                                             "expert_down" };
    static const struct mlp_names shared = { "shared_gate_up", "shared_gate", "shared_up",
                                             "shared_down" };
    add(list, "router", MODEL_ROUTER, m->width, m->experts, m->router_bias);
    size_t first = list->count;
    add_mlp(list, m, &routed, MODEL_EXPERT, m->expert_width);
    for (size_t i = first; i < list->count; i++) {
        list->out[i].count = m->experts;
        list->out[i].active = m->experts_active;
    }
    if (m->shared_width)
        add_mlp(list, m, &shared, MODEL_SHARED, m->shared_width);
    if (m->shared_gate)
        add(list, "shared_router", MODEL_ROUTER, m->width, 1, false);
}

size_t model_linears(const struct model *model, enum model_layer kind,
                     struct model_linear out[MODEL_LINEARS])
{
    static const struct mlp_names dense = { "gate_up", "gate", "up", "down" };
    struct list list = { out, 0 };
    add_attention(&list, model);
    if (kind == MODEL_SPARSE)
        add_experts(&list, model);
    else
        add_mlp(&list, model, &dense, MODEL_MLP, model->ffn_width);
    return list.count;
}

struct model_linear model_head(const struct model *model)
{
    return (struct model_linear){ "head", MODEL_HEAD, model->width,    model->vocabulary,
                                  1,      1,          model->head_bias };
}

// --- norms -------------------------------------------------------------------

static int64_t norm_weights(const struct model *model, int64_t size)
{
    return model->norm == MODEL_LAYER_NORM ? 2 * size : size;
}

static struct model_norm norm_of(const struct model *model, const char *name, int64_t size)
{
    return (struct model_norm){ name, size, 1, norm_weights(model, size) };
}

size_t model_norms(const struct model *model, struct model_norm out[MODEL_NORMS])
{
    static const char *const names[] = { "attention_norm", "mlp_norm", "attention_out_norm",
                                         "mlp_out_norm" };
    size_t count = 0;
    for (int64_t i = 0; i < model->norms_per_layer && i < 4; i++)
        out[count++] = norm_of(model, names[i], model->width);
    if (model->qk_norm == MODEL_QK_HEAD) { // RMS even where the layer's norms are not
        int64_t size = model->head_size;
        out[count++] = (struct model_norm){ "q_norm", size, model->heads, size };
        out[count++] = (struct model_norm){ "k_norm", size, model->kv_heads, size };
    } else if (model->qk_norm == MODEL_QK_WIDTH) {
        int64_t q = model_query_width(model), k = model_key_width(model);
        out[count++] = (struct model_norm){ "q_norm", q, 1, q };
        out[count++] = (struct model_norm){ "k_norm", k, 1, k };
    }
    if (model->q_lora_rank)
        out[count++] = norm_of(model, "q_a_norm", model->q_lora_rank);
    if (model->kv_lora_rank)
        out[count++] = norm_of(model, "kv_a_norm", model->kv_lora_rank);
    return count;
}

// --- totals ------------------------------------------------------------------

struct totals {
    int64_t weights, active_weights; // of linears, without biases
    int64_t all, active;             // with biases, norms and sinks
};

static struct totals layer_totals(const struct model *model, enum model_layer kind)
{
    struct model_linear linears[MODEL_LINEARS];
    struct model_norm norms[MODEL_NORMS];
    struct totals sum = { 0 };
    size_t count = model_linears(model, kind, linears);
    for (size_t i = 0; i < count; i++) {
        const struct model_linear *l = &linears[i];
        int64_t weights = l->in * l->out, all = weights + (l->bias ? l->out : 0);
        sum.weights += l->count * weights;
        sum.active_weights += l->active * weights;
        sum.all += l->count * all;
        sum.active += l->active * all;
    }
    int64_t others = model->activation_parameters + (model->attention_sinks ? model->heads : 0);
    count = model_norms(model, norms);
    for (size_t i = 0; i < count; i++)
        others += norms[i].weights;
    sum.all += others;
    sum.active += others;
    return sum;
}

static struct totals all_totals(const struct model *model)
{
    struct totals sum = { 0 };
    for (int kind = MODEL_DENSE; kind <= MODEL_SPARSE; kind++) {
        int64_t layers = model_layers(model, kind);
        if (!layers)
            continue;
        struct totals layer = layer_totals(model, kind);
        sum.weights += layers * layer.weights;
        sum.active_weights += layers * layer.active_weights;
        sum.all += layers * layer.all;
        sum.active += layers * layer.active;
    }
    int64_t head = model->width * model->vocabulary;
    sum.weights += head;
    sum.active_weights += head;
    int64_t others = model_embedding_parameters(model) + norm_weights(model, model->width) +
                     (model->embedding_norm ? norm_weights(model, model->width) : 0) +
                     (model->tied_embeddings ? 0 : head) +
                     (model->head_bias ? model->vocabulary : 0);
    sum.all += others;
    sum.active += others;
    return sum;
}

int64_t model_parameters(const struct model *model)
{
    return all_totals(model).all;
}

int64_t model_active_parameters(const struct model *model)
{
    return all_totals(model).active;
}

int64_t model_layer_parameters(const struct model *model, enum model_layer kind)
{
    return layer_totals(model, kind).all;
}

int64_t model_layer_linear_weights(const struct model *model, enum model_layer kind)
{
    return layer_totals(model, kind).weights;
}

int64_t model_linear_weights(const struct model *model)
{
    return all_totals(model).weights;
}

int64_t model_active_linear_weights(const struct model *model)
{
    return all_totals(model).active_weights;
}

int64_t model_embedding_parameters(const struct model *model)
{
    int64_t positions = model->learned_positions ? model->max_positions : 0;
    return (model->vocabulary + positions) * model->width;
}

// --- checks ------------------------------------------------------------------

// What a sentence calls a member: the key of its file, else the column of the catalog.
static const char *word(const struct model_word *words, size_t offset)
{
    for (; words && words->key; words++)
        if (words->offset == offset)
            return words->key;
    const struct field *field = model_fields;
    while (field->name && field->offset != offset)
        field++;
    return field->name;
}

#define WORD(member) word(words, offsetof(struct model, member))

// The limits keep every product of model_linears() inside an int64.
#define LIMIT(member, least, most)                      \
    {                                                   \
        offsetof(struct model, member), (least), (most) \
    }

static const struct limit {
    size_t offset; // of an int64_t in struct model
    int64_t least, most;
} limits[] = {
    LIMIT(layers, 1, 4096),
    LIMIT(width, 1, 1 << 18),
    LIMIT(heads, 1, 1 << 12),
    LIMIT(kv_heads, 1, 1 << 12),
    LIMIT(head_size, 1, 1 << 14),
    LIMIT(ffn_width, 0, 1 << 22),
    LIMIT(vocabulary, 1, 1 << 26),
    LIMIT(max_positions, 1, 1 << 30),
    LIMIT(norms_per_layer, 1, 4),
    LIMIT(activation_parameters, 0, 1 << 20),
    LIMIT(sliding_window, 0, 1 << 30),
    LIMIT(full_attention_layers, 0, 4096),
    LIMIT(experts, 0, 1 << 13),
    LIMIT(experts_active, 0, 1 << 13),
    LIMIT(shared_experts, 0, 1 << 13),
    LIMIT(expert_width, 0, 1 << 22),
    LIMIT(shared_width, 0, 1 << 22),
    LIMIT(dense_layers, 0, 4096),
    LIMIT(sparse_every, 0, 4096),
    LIMIT(q_lora_rank, 0, 1 << 18),
    LIMIT(kv_lora_rank, 0, 1 << 18),
    LIMIT(qk_nope_size, 0, 1 << 14),
    LIMIT(qk_rope_size, 0, 1 << 14),
    LIMIT(v_head_size, 0, 1 << 14),
};

static enum err check_sizes(const struct model *model, const char *name,
                            const struct model_word *words)
{
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        const struct limit *limit = &limits[i];
        int64_t value = *(const int64_t *)((const char *)model + limit->offset);
        if (value < limit->least || value > limit->most)
            return fail(ERR_INPUT, "%s: %s is %lld, must be %lld to %lld", name,
                        word(words, limit->offset), (long long)value, (long long)limit->least,
                        (long long)limit->most);
    }
    return OK;
}

static enum err check_experts(const struct model *m, const char *name,
                              const struct model_word *words)
{
    if (m->dense_layers > m->layers)
        return fail(ERR_INPUT, "%s: %s is %lld, must be at most %s, which is %lld", name,
                    WORD(dense_layers), (long long)m->dense_layers, WORD(layers),
                    (long long)m->layers);
    if (model_layers(m, MODEL_DENSE) && !m->ffn_width)
        return fail(ERR_INPUT, "%s: %s is missing or 0", name, WORD(ffn_width));
    if (!m->experts)
        return OK;
    if (!m->experts_active || m->experts_active > m->experts)
        return fail(ERR_INPUT, "%s: %s is %lld, must be from 1 to %lld, which is %s", name,
                    WORD(experts_active), (long long)m->experts_active, (long long)m->experts,
                    WORD(experts));
    if (!m->expert_width)
        return fail(ERR_INPUT, "%s: %s is missing or 0", name, WORD(expert_width));
    return OK;
}

static enum err check_attention(const struct model *m, const char *name,
                                const struct model_word *words)
{
    if (m->heads % m->kv_heads)
        return fail(ERR_INPUT, "%s: %s is %lld, must be a multiple of %s, which is %lld", name,
                    WORD(heads), (long long)m->heads, WORD(kv_heads), (long long)m->kv_heads);
    if (m->full_attention_layers > m->layers)
        return fail(ERR_INPUT, "%s: %s is %lld, must be at most %s, which is %lld", name,
                    WORD(full_attention_layers), (long long)m->full_attention_layers, WORD(layers),
                    (long long)m->layers);
    if (m->kv_lora_rank && (!m->v_head_size || !(m->qk_nope_size + m->qk_rope_size)))
        return fail(ERR_INPUT, "%s: %s and %s + %s must be above 0 in a model with %s", name,
                    WORD(v_head_size), WORD(qk_nope_size), WORD(qk_rope_size), WORD(kv_lora_rank));
    return OK;
}

enum err model_check(const struct model *model, const char *name, const struct model_word *words)
{
    TRY(check_sizes(model, name, words));
    TRY(check_experts(model, name, words));
    TRY(check_attention(model, name, words));
    double total = 0;
    for (int kind = MODEL_DENSE; kind <= MODEL_SPARSE; kind++)
        total += (double)model_layers(model, kind) *
                 (double)model_layer_parameters(model, (enum model_layer)kind);
    if (total > 1e17)
        return fail(ERR_INPUT, "%s: has %.3g parameters; the limit is 1e17", name, total);
    return OK;
}

enum err model_find_tower(const struct model **model, struct arena *arena)
{
    if (!(*model)->vision || (*model)->tower)
        return OK;
    struct model *whole = ARENA_NEW(arena, struct model, 1);
    *whole = **model;
    TRY(vision_find(&whole->tower, arena, whole->vision));
    if (!whole->tower)
        return fail(ERR_INPUT, "%s: its encoder of images, %s, is not in vision.csv", whole->name,
                    whole->vision);
    *model = whole;
    return OK;
}
