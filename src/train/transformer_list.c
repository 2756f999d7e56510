// SPDX-License-Identifier: Apache-2.0
// Lists the weights of a transformer, which linears share a product, and which weights lie
// together.

#include "train/transformer_internal.h"
#include "train/files/weights.h"

#include <assert.h>
#include <string.h>

const char *const recompute_names[] = { "none", "norms", "gate", "projections", "block", NULL };

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
    p->is_adapter = p->decays = true;
    return p;
}

// The linears of attention and of a dense feed-forward network. One that holds several, "qkv",
// takes the place of the first of them.
static const struct {
    const char *name; // in the step list
    enum transformer_linear linear;
    enum transformer_projection projection;
} linears[] = {
    { "q", LINEAR_Q, PROJECTION_QKV },        { "k", LINEAR_K, PROJECTION_QKV },
    { "v", LINEAR_V, PROJECTION_QKV },        { "qkv", LINEAR_Q, PROJECTION_QKV },
    { "o", LINEAR_O, PROJECTION_O },          { "gate", LINEAR_GATE, PROJECTION_GATE },
    { "up", LINEAR_UP, PROJECTION_GATE },     { "gate_up", LINEAR_GATE, PROJECTION_GATE },
    { "down", LINEAR_DOWN, PROJECTION_DOWN },
};

static struct linear list_linear(struct transformer *t, struct arena *arena, int64_t layer,
                                 int64_t expert, const struct model_linear *shape)
{
    const char *path = weights_path(arena, &t->decoder->model, shape->name, layer, expert);
    struct linear linear = { .name = shape->name, .in = shape->in, .out = shape->out };
    linear.weight =
        add(t, text_format(arena, "%s.weight", path), shape->out, shape->in, PARAMETER_NORMAL);
    if (shape->bias)
        linear.bias = add(t, text_format(arena, "%s.bias", path), 1, shape->out, PARAMETER_ZERO);
    const struct recipe *recipe = t->setup.recipe;
    if (recipe->method == RECIPE_FULL || !recipe_targets(recipe, shape))
        return linear;
    linear.a = add_adapter(t, text_format(arena, "base_model.model.%s.lora_A.weight", path),
                           recipe->rank, shape->in, PARAMETER_KAIMING);
    linear.b = add_adapter(t, text_format(arena, "base_model.model.%s.lora_B.weight", path),
                           shape->out, recipe->rank, PARAMETER_ZERO);
    if (recipe->dora)
        linear.magnitude =
            add_adapter(t, text_format(arena, "base_model.model.%s.lora_magnitude_vector", path), 1,
                        shape->out, PARAMETER_NORMS);
    return linear;
}

static void join(struct transformer *t, struct projection *p, struct linear *linear)
{
    linear->first = p->out;
    linear->first_z = p->rank;
    p->linears[p->count++] = linear;
    p->in = linear->in;
    p->out += linear->out;
    p->rank += linear->a ? t->setup.recipe->rank : 0;
}

static void pad_rank(const struct transformer *t, struct projection *p)
{
    int64_t padding = t->device->padding;
    p->z_columns = p->rank;
    p->rank = (p->rank + padding - 1) / padding * padding;
}

static void list_projections(struct transformer *t, struct arena *arena, int64_t index,
                             const struct model_linear *shapes, size_t count)
{
    struct transformer_layer *layer = &t->layers[index];
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < sizeof linears / sizeof *linears; j++) {
            if (strcmp(shapes[i].name, linears[j].name))
                continue;
            struct linear *linear = &layer->linears[linears[j].linear];
            *linear = list_linear(t, arena, index, -1, &shapes[i]);
            linear->index = (int)(index * LINEARS + linears[j].linear);
            join(t, &layer->projections[linears[j].projection], linear);
        }
    for (int i = 0; i < PROJECTIONS; i++)
        pad_rank(t, &layer->projections[i]);
}

// --- experts -----------------------------------------------------------------

static void list_expert(struct transformer *t, struct arena *arena, int64_t layer, int64_t index,
                        const struct model_linear shapes[EXPERT_LINEARS])
{
    const struct model *m = &t->decoder->model;
    struct expert *expert = &t->layers[layer].mixture.experts[index];
    for (int i = 0; i < EXPERT_LINEARS; i++) {
        struct linear *linear = &expert->linears[i];
        if (!shapes[i].name)
            continue;
        *linear = list_linear(t, arena, layer, index, &shapes[i]);
        linear->weight->is_of_expert = true;
        if (linear->bias)
            linear->bias->is_of_expert = true;
        if (linear->a)
            linear->a->is_of_expert = linear->b->is_of_expert = true;
        linear->index =
            (int)(m->layers * LINEARS + (layer * m->experts + index) * EXPERT_LINEARS + i);
        join(t, i == EXPERT_DOWN ? &expert->down : &expert->gate, linear);
    }
    pad_rank(t, &expert->gate);
    pad_rank(t, &expert->down);
}

static void list_router(struct transformer *t, struct arena *arena, int64_t layer,
                        const struct model_linear *shape)
{
    struct mixture *mixture = &t->layers[layer].mixture;
    const char *path = weights_path(arena, &t->decoder->model, "router", layer, -1);
    mixture->router =
        add(t, text_format(arena, "%s.weight", path), shape->out, shape->in, PARAMETER_NORMAL);
    if (shape->bias)
        mixture->bias = add(t, text_format(arena, "%s.bias", path), 1, shape->out, PARAMETER_ZERO);
}

// Where gate and up are one linear, it takes the place of the gate.
static enum expert_linear expert_linear_of(const char *name)
{
    return !strcmp(name, "expert_down") ? EXPERT_DOWN
           : !strcmp(name, "expert_up") ? EXPERT_UP
                                        : EXPERT_GATE;
}

static void list_mixture(struct transformer *t, struct arena *arena, int64_t layer,
                         const struct model_linear *shapes, size_t count)
{
    const struct model *m = &t->decoder->model;
    struct mixture *mixture = &t->layers[layer].mixture;
    struct model_linear of_expert[EXPERT_LINEARS] = { 0 };
    for (size_t i = 0; i < count; i++)
        if (shapes[i].role == MODEL_ROUTER)
            list_router(t, arena, layer, &shapes[i]);
        else if (shapes[i].role == MODEL_EXPERT)
            of_expert[expert_linear_of(shapes[i].name)] = shapes[i];
    assert(mixture->router && of_expert[EXPERT_GATE].name && of_expert[EXPERT_DOWN].name);
    mixture->experts = ARENA_NEW(arena, struct expert, m->experts);
    for (int64_t i = 0; i < m->experts; i++)
        list_expert(t, arena, layer, i, of_expert);
}

// --- layers ------------------------------------------------------------------

// Norms start at a weight of one, with the offset that some have.
static enum parameter_start norm_start(const struct transformer *t)
{
    return t->decoder->architecture->norm_offset > 0 ? PARAMETER_ZERO : PARAMETER_ONE;
}

static struct parameter *add_norm(struct transformer *t, struct arena *arena, int64_t layer,
                                  const char *name, int64_t size)
{
    const char *path = weights_path(arena, &t->decoder->model, name, layer, -1);
    return add(t, text_format(arena, "%s.weight", path), 1, size, norm_start(t));
}

static const char *const norm_names[NORMS] = { "attention_norm", "mlp_norm", "attention_out_norm",
                                               "mlp_out_norm",   "q_norm",   "k_norm" };

static void list_layer(struct transformer *t, struct arena *arena, int64_t index)
{
    const struct model *m = &t->decoder->model;
    struct transformer_layer *layer = &t->layers[index];
    struct model_linear shapes[MODEL_LINEARS];
    enum model_layer kind = model_layer(m, index);
    size_t count = model_linears(m, kind, shapes);
    layer->window = decoder_window(t->decoder, index);
    layer->level = t->setup.level;
    struct model_norm norms[MODEL_NORMS];
    size_t norm_count = model_norms(m, norms);
    for (size_t i = 0; i < norm_count; i++)
        for (int j = 0; j < NORMS; j++)
            if (!strcmp(norms[i].name, norm_names[j]))
                layer->norms[j] = add_norm(t, arena, index, norms[i].name, norms[i].size);
    if (m->attention_sinks)
        layer->sinks =
            add(t, weights_path(arena, m, "sinks", index, -1), 1, m->heads, PARAMETER_ZERO);
    list_projections(t, arena, index, shapes, count);
    if (kind == MODEL_SPARSE)
        list_mixture(t, arena, index, shapes, count);
}

// --- parameter groups --------------------------------------------------------

static struct parameter_group *add_group(struct transformer *t, const char *label,
                                         struct projection *p)
{
    assert(t->group_count < t->group_room);
    t->groups[t->group_count] =
        (struct parameter_group){ .label = label, .projection = p, .layer = -1 };
    return &t->groups[t->group_count++];
}

static void append(struct parameter_group *group, struct parameter *p)
{
    if (!p)
        return;
    group->parts[group->count++] = p;
    group->rows += p->value.rows;
    group->columns = p->value.columns;
}

static void group_single(struct transformer *t, const char *label, struct parameter *p)
{
    if (p)
        append(add_group(t, label, NULL), p);
}

static void group_projection(struct transformer *t, const char *label, struct projection *p)
{
    if (!p->count)
        return;
    struct parameter_group *weights = add_group(t, label, p);
    for (int i = 0; i < p->count; i++)
        append(weights, p->linears[i]->weight);
    for (int i = 0; i < p->count; i++)
        group_single(t, "biases", p->linears[i]->bias);
    if (!p->rank)
        return;
    struct parameter_group *a = add_group(t, "adapters", p);
    for (int i = 0; i < p->count; i++)
        append(a, p->linears[i]->a);
    for (int i = 0; i < p->count; i++)
        if (p->linears[i]->b)
            append(add_group(t, "adapters", p), p->linears[i]->b);
    for (int i = 0; i < p->count; i++)
        if (p->linears[i]->magnitude)
            append(add_group(t, "magnitudes", p), p->linears[i]->magnitude);
}

static bool is_trained(const struct transformer *t, const struct parameter *p)
{
    const struct recipe *recipe = t->setup.recipe;
    return p->is_adapter || recipe->method == RECIPE_FULL ||
           (recipe->trains_embeddings && (p == t->embedding || p == t->head));
}

static void group_parameters(struct transformer *t, struct arena *arena)
{
    int64_t layers = t->decoder->model.layers;
    t->group_room = t->parameter_room;
    t->groups = ARENA_NEW(arena, struct parameter_group, t->group_room);
    group_single(t, "embedding", t->embedding);
    for (int64_t i = 0; i < layers; i++) {
        size_t first = t->group_count;
        struct transformer_layer *l = &t->layers[i];
        for (int j = 0; j < NORMS; j++)
            group_single(t, "norms", l->norms[j]);
        group_single(t, "sinks", l->sinks);
        for (int j = 0; j < PROJECTIONS; j++)
            group_projection(t, "linears", &l->projections[j]);
        group_single(t, "router", l->mixture.router);
        group_single(t, "router", l->mixture.bias);
        for (int64_t j = 0; l->mixture.experts && j < t->decoder->model.experts; j++) {
            group_projection(t, "experts", &l->mixture.experts[j].gate);
            group_projection(t, "experts", &l->mixture.experts[j].down);
        }
        for (size_t j = first; j < t->group_count; j++)
            t->groups[j].layer = i;
    }
    group_single(t, "norms", t->final_norm);
    if (t->head != t->embedding)
        group_single(t, "head", t->head);
    group_single(t, "adapters", t->head_a);
    group_single(t, "adapters", t->head_b);
    for (size_t i = 0; i < t->group_count; i++)
        t->groups[i].is_trained = !t->setup.only_forward && is_trained(t, t->groups[i].parts[0]);
}

// --- adapters ----------------------------------------------------------------

struct adapter_file_config transformer_adapter_config(const struct recipe *recipe)
{
    bool given = recipe->alpha == recipe->alpha;
    return (struct adapter_file_config){
        .rank = recipe->rank,
        .alpha = given ? recipe->alpha : 2 * (double)recipe->rank,
        .dropout = recipe->dropout > 0 ? recipe->dropout : 0,
        .rank_stabilized = recipe->rslora,
        .has_magnitudes = recipe->dora,
    };
}

// --- all ---------------------------------------------------------------------

// DoRA computes with the rows of W, which not every form of the base has at hand.
static enum err check_dora(const struct transformer *t)
{
    const struct transformer_setup *s = &t->setup;
    const char *with = s->recipe->method == RECIPE_FULL ? "--method full"
                       : s->recipe->dropout > 0         ? "--dropout"
                       : s->fp8                         ? "--precision fp8"
                       : transformer_shares_base(t)     ? "--parallel fsdp"
                       : t->decoder->model.experts      ? "a mixture of experts"
                                                        : NULL;
    if (s->recipe->dora && with)
        return fail(ERR_USAGE, "--dora does not go together with %s", with);
    return OK;
}

static bool targets_experts(const struct transformer *t)
{
    struct model_linear shapes[MODEL_LINEARS];
    size_t count = model_linears(&t->decoder->model, MODEL_SPARSE, shapes);
    for (size_t i = 0; i < count; i++)
        if (shapes[i].role == MODEL_EXPERT && recipe_targets(t->setup.recipe, &shapes[i]))
            return true;
    return false;
}

static bool adapts_head(const struct transformer *t)
{
    struct model_linear head = model_head(&t->decoder->model);
    return t->setup.recipe->method != RECIPE_FULL && recipe_targets(t->setup.recipe, &head);
}

static enum err check_head(const struct transformer *t)
{
    const struct transformer_setup *s = &t->setup;
    const char *with = s->recipe->trains_embeddings ? "--trains-embeddings, which trains it whole"
                       : s->recipe->dora            ? "--dora"
                       : s->recipe->dropout > 0     ? "--dropout"
                       : s->beta > 0                ? "--objective dpo"
                                                    : NULL;
    if (!adapts_head(t))
        return OK;
    if (t->decoder->model.tied_embeddings)
        return fail(ERR_USAGE, "the head of this model is its embedding, and takes no adapter of "
                               "its own; leave head out of --targets");
    return with ? fail(ERR_USAGE, "an adapter on the head does not go together with %s", with) : OK;
}

static enum err check(const struct transformer *t)
{
    const struct transformer_setup *s = &t->setup;
    bool full = s->recipe->method == RECIPE_FULL;
    TRY(check_head(t));
    if (!full && s->recipe->trains_embeddings && t->decoder->model.tied_embeddings)
        return fail(ERR_USAGE,
                    "--trains-embeddings needs a head of its own, and that of this model is its "
                    "embedding: PEFT would read the two as different ones");
    struct model_linear router = { .name = "router", .role = MODEL_ROUTER };
    if (!full && t->decoder->model.experts && recipe_targets(s->recipe, &router))
        return fail(ERR_USAGE,
                    "the engine trains no adapter on a router; leave it out of --targets");
    if (!full && t->decoder->architecture->stacks_experts && s->recipe->dropout > 0 &&
        targets_experts(t))
        return fail(ERR_USAGE,
                    "%s: PEFT's adapters on experts that files hold as one tensor have no dropout; "
                    "give --dropout 0, or --targets attention",
                    t->decoder->architecture->type);
    if (t->decoder->model.experts && s->fp8)
        return fail(ERR_UNAVAILABLE,
                    "%s: has experts, for which the engine has no fp8 products: --precision bf16",
                    t->decoder->architecture->type);
    if (s->bf16_states && (!full || s->compute != DTYPE_BF16))
        return fail(ERR_USAGE,
                    "--states bf16 needs --method full and --precision bf16; adapters are "
                    "small and keep fp32 masters");
    if (s->fp8 && (s->recipe->method != RECIPE_LORA || s->compute != DTYPE_BF16))
        return fail(ERR_USAGE, "--precision fp8 needs --method lora: it is for the frozen base");
    TRY(transformer_check_preference(t));
    return check_dora(t);
}

enum err transformer_list(struct transformer *t, struct arena *arena)
{
    const struct model *m = &t->decoder->model;
    const struct recipe *recipe = t->setup.recipe;
    TRY(check(t));
    t->parameter_room =
        (size_t)(m->layers * (3 + NORMS + 5 * LINEARS + 4 * EXPERT_LINEARS * m->experts) + 5);
    t->parameters = ARENA_NEW(arena, struct parameter, t->parameter_room);
    t->layers = ARENA_NEW(arena, struct transformer_layer, m->layers);
    t->shard.piece_count = transformer_shares_base(t) ? 1 : m->layers + 2;
    t->shard.pieces = ARENA_NEW(arena, struct transformer_piece, t->shard.piece_count);
    t->embedding = add(t, "model.embed_tokens.weight", m->vocabulary, m->width, PARAMETER_NORMAL);
    for (int64_t i = 0; i < m->layers; i++)
        list_layer(t, arena, i);
    t->final_norm = add(t, "model.norm.weight", 1, m->width, norm_start(t));
    t->head = m->tied_embeddings
                  ? t->embedding
                  : add(t, "lm_head.weight", m->vocabulary, m->width, PARAMETER_NORMAL);
    if (adapts_head(t)) {
        t->head_a = add_adapter(t, "base_model.model.lm_head.lora_A.weight", recipe->rank, m->width,
                                PARAMETER_KAIMING);
        t->head_b = add_adapter(t, "base_model.model.lm_head.lora_B.weight", m->vocabulary,
                                recipe->rank, PARAMETER_ZERO);
    }
    group_parameters(t, arena);
    struct adapter_file_config adapters = transformer_adapter_config(recipe);
    t->adapter_scale = recipe->rank > 0 ? adapter_file_scale(&adapters) : 1;
    return OK;
}
