// Which weights a transformer has, and where each tensor lies.

#include "train/transformer_internal.h"

#include <assert.h>
#include <string.h>

const char *const recompute_names[] = { "none", "norms", "gate", "block", NULL };

enum { HEAD_CHUNK_BYTES = 64 << 20, HEAD_CHUNK_LEAST = 64 }; // logits alive at once

// --- the list ----------------------------------------------------------------

static enum dtype exact_type(const struct transformer *t)
{
    return t->setup.compute == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
}

static struct parameter *add(struct transformer *t, const char *name, int64_t rows, int64_t columns,
                             enum parameter_start start)
{
    assert(t->parameter_count < t->parameter_room);
    struct parameter *p = &t->parameters[t->parameter_count++];
    *p = (struct parameter){ .name = name,
                             .value = tensor_of(NULL, t->setup.compute, rows, columns),
                             .start = start,
                             .decays = start == PARAMETER_NORMAL };
    return p;
}

static struct parameter *add_adapter(struct transformer *t, const char *name, int64_t rows,
                                     int64_t columns, enum parameter_start start)
{
    struct parameter *p = add(t, name, rows, columns, start);
    p->value.dtype = exact_type(t);
    p->is_adapter = p->decays = true;
    return p;
}

static const char *const modules[LINEARS] = {
    "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
    "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj",
};
static const char *const linear_names[LINEARS] = { "q", "k", "v", "o", "gate", "up", "down" };

static void list_linear(struct transformer *t, struct arena *arena, int64_t layer, int which,
                        const struct model_linear *shape)
{
    struct linear *linear = &t->layers[layer].linears[which];
    const char *path = text_format(arena, "model.layers.%lld.%s", (long long)layer, modules[which]);
    *linear = (struct linear){ .name = linear_names[which],
                               .in = shape->in,
                               .out = shape->out,
                               .index = (int)(layer * LINEARS + which) };
    linear->weight =
        add(t, text_format(arena, "%s.weight", path), shape->out, shape->in, PARAMETER_NORMAL);
    if (shape->bias)
        linear->bias = add(t, text_format(arena, "%s.bias", path), 1, shape->out, PARAMETER_ZERO);
    const struct recipe *recipe = t->setup.recipe;
    if (recipe->method == RECIPE_FULL || !recipe_targets(recipe, shape))
        return;
    linear->a = add_adapter(t, text_format(arena, "base_model.model.%s.lora_A.weight", path),
                            recipe->rank, shape->in, PARAMETER_KAIMING);
    linear->b = add_adapter(t, text_format(arena, "base_model.model.%s.lora_B.weight", path),
                            shape->out, recipe->rank, PARAMETER_ZERO);
}

static struct parameter *add_norm(struct transformer *t, struct arena *arena, int64_t layer,
                                  const char *name, int64_t size)
{
    return add(t, text_format(arena, "model.layers.%lld.%s.weight", (long long)layer, name), 1,
               size, PARAMETER_ONE);
}

static void list_layer(struct transformer *t, struct arena *arena, int64_t index)
{
    const struct model *m = &t->decoder->model;
    struct transformer_layer *layer = &t->layers[index];
    struct model_linear shapes[MODEL_LINEARS];
    size_t count = model_linears(m, MODEL_DENSE, shapes);
    layer->window = decoder_window(t->decoder, index);
    layer->level = t->setup.level;
    layer->attention_norm = add_norm(t, arena, index, "input_layernorm", m->width);
    layer->mlp_norm = add_norm(t, arena, index, "post_attention_layernorm", m->width);
    if (m->qk_norm == MODEL_QK_HEAD) {
        layer->q_norm = add_norm(t, arena, index, "self_attn.q_norm", m->head_size);
        layer->k_norm = add_norm(t, arena, index, "self_attn.k_norm", m->head_size);
    }
    for (size_t i = 0; i < count; i++)
        for (int which = 0; which < LINEARS; which++)
            if (!strcmp(shapes[i].name, linear_names[which]))
                list_linear(t, arena, index, which, &shapes[i]);
}

enum err transformer_list(struct transformer *t, struct arena *arena)
{
    const struct model *m = &t->decoder->model;
    const struct recipe *recipe = t->setup.recipe;
    struct model_linear head = model_head(m);
    if (recipe->method != RECIPE_FULL &&
        (recipe_targets(recipe, &head) || recipe->trains_embeddings))
        return fail(ERR_USAGE, "the engine puts no adapter on the head and trains no embedding "
                               "beside adapters; leave head out of the targets");
    t->parameter_room = (size_t)(m->layers * (4 + 4 * LINEARS) + 3);
    t->parameters = ARENA_NEW(arena, struct parameter, t->parameter_room);
    t->layers = ARENA_NEW(arena, struct transformer_layer, m->layers);
    t->losses = ARENA_NEW(arena, double, t->setup.labelled);
    t->embedding = add(t, "model.embed_tokens.weight", m->vocabulary, m->width, PARAMETER_NORMAL);
    for (int64_t i = 0; i < m->layers; i++)
        list_layer(t, arena, i);
    t->final_norm = add(t, "model.norm.weight", 1, m->width, PARAMETER_ONE);
    t->head = m->tied_embeddings
                  ? t->embedding
                  : add(t, "lm_head.weight", m->vocabulary, m->width, PARAMETER_NORMAL);
    double rank = (double)recipe->rank, alpha = recipe->alpha;
    t->adapter_scale = (alpha == alpha ? alpha : 2 * rank) / (rank > 0 ? rank : 1);
    return OK;
}

// --- weights -----------------------------------------------------------------

static const char *label_of(const struct parameter *p)
{
    return p->is_adapter                     ? "adapters"
           : p->start == PARAMETER_ZERO      ? "biases"
           : p->start == PARAMETER_ONE       ? "norms"
           : strstr(p->name, "embed_tokens") ? "embedding"
           : strstr(p->name, "lm_head")      ? "head"
                                             : "linears";
}

static void place_tensor(struct transformer *t, struct tensor *out, enum blocks_kind kind,
                         const char *name, enum dtype dtype, struct tensor like)
{
    *out = blocks_tensor(&t->blocks, kind, name, dtype, like.rows, like.columns);
}

// Two codes to a byte, a byte per 64 weights, four per 256 of those, and the 256 levels.
static void place_quantized(struct transformer *t, struct parameter *p)
{
    enum { BLOCK = 64, NESTED = 256 };
    int64_t count = tensor_count(p->value), blocks = (count + BLOCK - 1) / BLOCK;
    int64_t nested = (blocks + NESTED - 1) / NESTED;
    struct blocks *b = &t->blocks;
    p->quantized = (struct quantized){ .block = BLOCK, .nested_block = NESTED };
    p->quantized.codes = blocks_take(b, BLOCKS_WEIGHTS, "linears, 4-bit", (count + 1) / 2);
    p->quantized.nested_codes = blocks_take(b, BLOCKS_WEIGHTS, "their scales", blocks);
    p->quantized.nested = blocks_take(b, BLOCKS_WEIGHTS, "scales of scales", 4 * nested);
    p->quantized.levels = blocks_take(b, BLOCKS_WEIGHTS, "levels of scales", 4 * NESTED);
}

static void place_parameter(struct transformer *t, struct parameter *p)
{
    int method = t->setup.recipe->method;
    enum dtype exact = exact_type(t);
    const char *label = label_of(p);
    bool trained = !t->setup.only_forward && (p->is_adapter || method == RECIPE_FULL);
    bool is_linear = p->start == PARAMETER_NORMAL && !strcmp(label, "linears");
    if (method == RECIPE_QLORA && is_linear) {
        place_quantized(t, p);
        return;
    }
    place_tensor(t, &p->value, trained ? BLOCKS_TRAINABLES : BLOCKS_WEIGHTS, label, p->value.dtype,
                 p->value);
    if (!trained)
        return;
    p->master = p->value;
    if (p->value.dtype != exact)
        place_tensor(t, &p->master, BLOCKS_TRAINABLES, "masters", exact, p->value);
    place_tensor(t, &p->gradient, BLOCKS_GRADIENTS, label, exact, p->value);
    bool adam = t->setup.recipe->optimizer == RECIPE_ADAMW;
    if (adam || t->setup.has_momentum)
        place_tensor(t, &p->m, BLOCKS_OPTIMIZER, "first moments", exact, p->value);
    if (adam)
        place_tensor(t, &p->v, BLOCKS_OPTIMIZER, "second moments", exact, p->value);
}

// --- activations -------------------------------------------------------------

struct slot {
    struct tensor *own, *common;
    const char *name;
    enum dtype dtype;
    int64_t rows, columns;
};

// A tensor of the layer's own, or the one that all layers share.
static void place_slot(struct transformer *t, bool kept, struct slot slot)
{
    bool placed = slot.common->rows > 0;
    if (kept)
        *slot.own = blocks_tensor(&t->blocks, BLOCKS_ACTIVATIONS, slot.name, slot.dtype, slot.rows,
                                  slot.columns);
    else if (!placed)
        *slot.common = blocks_tensor(&t->blocks, BLOCKS_WORKSPACE, slot.name, slot.dtype, slot.rows,
                                     slot.columns);
    if (!kept)
        *slot.own = *slot.common;
}

static void place_layer(struct transformer *t, struct transformer_layer *l)
{
    struct transformer_layer *c = &t->common;
    const struct model *m = &t->decoder->model;
    enum dtype type = t->setup.compute, exact = exact_type(t);
    int64_t T = t->setup.tokens, C = m->width, F = m->ffn_width;
    int64_t Q = model_query_width(m), K = model_key_width(m);
    bool trains = !t->setup.only_forward, norms = trains && l->level < RECOMPUTE_NORMS;
    bool gate = trains && l->level < RECOMPUTE_GATE, block = trains && l->level < RECOMPUTE_BLOCK;
    struct slot kept[] = { { &l->input, &c->input, "layer inputs", type, T, C },
                           { &l->input_rms, &c->input_rms, "norms' sums", exact, T, 1 },
                           { &l->middle_rms, &c->middle_rms, "norms' sums", exact, T, 1 } };
    struct slot of_norms[] = { { &l->normed, &c->normed, "norm outputs", type, T, C },
                               { &l->middle_normed, &c->middle_normed, "norm outputs", type, T, C },
                               { &l->activated, &c->activated, "activations", type, T, F } };
    struct slot of_gate[] = { { &l->gate, &c->gate, "gate and up", type, T, F },
                              { &l->up, &c->up, "gate and up", type, T, F } };
    struct slot of_block[] = { { &l->q, &c->q, "q, k, v", type, T, Q },
                               { &l->k, &c->k, "q, k, v", type, T, K },
                               { &l->v, &c->v, "q, k, v", type, T, K },
                               { &l->attended, &c->attended, "attention outputs", type, T, Q },
                               { &l->lse, &c->lse, "attention sums", exact, T, m->heads },
                               { &l->middle, &c->middle, "middle residuals", type, T, C } };
    for (int i = 0; i < 3; i++)
        place_slot(t, trains, kept[i]);
    for (int i = 0; i < 3; i++)
        place_slot(t, norms, of_norms[i]);
    for (int i = 0; i < 2; i++)
        place_slot(t, gate, of_gate[i]);
    for (int i = 0; i < 6; i++)
        place_slot(t, block, of_block[i]);
    l->q_turned = l->q;
    l->k_turned = l->k;
    if (l->q_norm) {
        struct slot turned[] = { { &l->q_turned, &c->q_turned, "normalised q, k", type, T, Q },
                                 { &l->k_turned, &c->k_turned, "normalised q, k", type, T, K } };
        struct slot sums[] = { { &l->q_rms, &c->q_rms, "norms' sums", exact, T * m->heads, 1 },
                               { &l->k_rms, &c->k_rms, "norms' sums", exact, T * m->kv_heads, 1 } };
        for (int i = 0; i < 2; i++) {
            place_slot(t, norms, turned[i]);
            place_slot(t, trains, sums[i]);
        }
    }
    for (int i = 0; i < LINEARS; i++)
        if (l->linears[i].a) // that of down is not made again: its projection is left out
            place_slot(t, block || (trains && i == LINEAR_DOWN),
                       (struct slot){ &l->linears[i].z, &c->linears[i].z, "adapters' middles",
                                      exact, T, t->setup.recipe->rank });
}

// --- workspace ---------------------------------------------------------------

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t head_rows(const struct transformer *t)
{
    int64_t vocabulary = t->decoder->model.vocabulary;
    int64_t rows = HEAD_CHUNK_BYTES / (vocabulary * dtype_bytes(exact_type(t)));
    rows = most(rows, HEAD_CHUNK_LEAST);
    return rows < t->setup.labelled ? rows : most(t->setup.labelled, 1);
}

static struct tensor work(struct transformer *t, const char *name, enum dtype dtype, int64_t rows,
                          int64_t columns)
{
    return blocks_tensor(&t->blocks, BLOCKS_WORKSPACE, name, dtype, rows, columns);
}

static void place_backward(struct transformer *t)
{
    const struct model *m = &t->decoder->model;
    struct transformer_scratch *s = &t->scratch;
    enum dtype type = t->setup.compute;
    int64_t T = t->setup.tokens, Q = model_query_width(m), K = model_key_width(m);
    s->dx = work(t, "residual gradient", type, T, m->width);
    s->dq = work(t, "q, k, v gradients", type, T, Q);
    s->dk = work(t, "q, k, v gradients", type, T, K);
    s->dv = work(t, "q, k, v gradients", type, T, K);
    s->dattended = work(t, "attention gradient", type, T, Q);
    s->dactivated = work(t, "activation gradient", type, T, m->ffn_width);
    s->dpicked = work(t, "labelled rows", type, t->setup.labelled, m->width);
    if (t->setup.recipe->method != RECIPE_FULL)
        s->dz = work(t, "adapters' middles", exact_type(t), T, t->setup.recipe->rank);
}

static int64_t largest_linear(const struct transformer *t)
{
    int64_t largest = 0;
    for (int i = 0; i < LINEARS; i++)
        largest = most(largest, t->layers[0].linears[i].in * t->layers[0].linears[i].out);
    return largest;
}

static void place_scratch(struct transformer *t)
{
    const struct model *m = &t->decoder->model;
    const struct recipe *recipe = t->setup.recipe;
    struct transformer_scratch *s = &t->scratch;
    enum dtype type = t->setup.compute;
    int64_t T = t->setup.tokens, widest = most(most(m->width, m->ffn_width), model_query_width(m));
    struct attention shape = { .longest = t->setup.longest,
                               .heads = m->heads,
                               .kv_heads = m->kv_heads,
                               .head_size = m->head_size };
    s->branch = work(t, "branch", type, T, m->width);
    s->picked = work(t, "labelled rows", type, t->setup.labelled, m->width);
    s->logits = work(t, "logits", exact_type(t), head_rows(t), m->vocabulary);
    if (!t->setup.only_forward)
        place_backward(t);
    if (recipe->method != RECIPE_FULL && recipe->dropout > 0) {
        s->dropped = work(t, "dropout", type, T, widest);
        s->ddropped = work(t, "dropout", type, T, widest);
    }
    if (recipe->method == RECIPE_QLORA)
        s->unpacked = work(t, "unpacked linear", type, 1, largest_linear(t));
    s->attention = blocks_take(&t->blocks, BLOCKS_WORKSPACE, "attention",
                               t->device->backend->attention_bytes(t->device, &shape, type));
}

void transformer_place(struct transformer *t)
{
    const struct model *m = &t->decoder->model;
    enum dtype type = t->setup.compute;
    t->common = (struct transformer_layer){ 0 };
    for (size_t i = 0; i < t->parameter_count; i++)
        place_parameter(t, &t->parameters[i]);
    for (int64_t i = 0; i < m->layers; i++)
        place_layer(t, &t->layers[i]);
    t->last = blocks_tensor(&t->blocks, BLOCKS_ACTIVATIONS, "last residual", type, t->setup.tokens,
                            m->width);
    t->last_rms = blocks_tensor(&t->blocks, BLOCKS_ACTIVATIONS, "norms' sums", exact_type(t),
                                t->setup.tokens, 1);
    t->hidden = work(t, "final norm output", type, t->setup.tokens, m->width);
    place_scratch(t);
}
