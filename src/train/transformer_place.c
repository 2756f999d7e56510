// SPDX-License-Identifier: Apache-2.0
// Gives every tensor of a transformer its place in the planned memory (blocks.h).
//
// The stacked block. Linears that read the same input x, such as q, k and v, are one projection:
// one product with all their weights. LoRA adds s · (x Aᵀ) Bᵀ to each. Instead of further passes
// over y and dx, the adapters extend the product. Their low-rank activations z = s · x Aᵀ are
// written into spare columns after x, and the weights lie in one matrix:
//
//                   in          rank
//              ┌───────────┬───────────┐
//              │ W_q       │ B_q  0   0│   rows of linear q: first … first + out − 1
//        out   │ W_k       │ 0   B_k  0│   columns of its B: first_z … first_z + r − 1
//              │ W_v       │ 0    0 B_v│
//              ├───────────┼───────────┤
//        rank  │ A_q       │           │
//              │ A_k       │     0     │   rank: the sum of all r, padded to device.padding
//              │ A_v       │           │
//              └───────────┴───────────┘
//
//        forward    z  = s · x Aᵀ             x (T, in), z (T, rank)
//                   y  = [x z] × [W B]ᵀ       the upper out rows
//        backward   dz = s · dy B             dy (T, out), dz (T, rank)
//                   dx = [dy dz] × [W; A]     the left in columns
//
// So tensors that hold an input have in + rank columns, and gradients of an output out + rank. B is
// zero outside of its diagonal blocks: memory starts as zeros, and only the blocks are written.
// Where W is quantised the block is assembled in the workspace for each product (NF4), or A and B
// are quantised after the codes of W (fp8, backend.h). Only what products read is padded: masters,
// gradients and moments of A have the rows of its adapters alone.

#include "train/mxfp4.h"
#include "train/transformer_internal.h"

#include <assert.h>

enum { HEAD_ROWS_LEAST = 64, HEAD_ROWS_STEP = 128 };

static enum dtype exact_type(const struct transformer *t)
{
    return t->setup.compute == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
}

static enum dtype state_type(const struct transformer *t) // of gradients and moments
{
    return t->setup.bf16_states ? DTYPE_BF16 : exact_type(t);
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

// --- weights -----------------------------------------------------------------

static bool is_adapter(const struct parameter_group *group)
{
    return group->parts[0]->is_adapter;
}

static bool is_first_factor(const struct parameter_group *group)
{
    return is_adapter(group) && group->parts[0]->start == PARAMETER_KAIMING;
}

// Memory of a frozen linear: of the blocks or, if ranks share the base, of the layer's bytes, which
// begin at `layer->at` and are counted alone while it is NULL.
struct layer_bytes {
    char *at;
    int64_t used;
};

static void *take(struct transformer *t, struct layer_bytes *layer, enum blocks_kind kind,
                  const char *name, int64_t bytes)
{
    if (!layer)
        return blocks_take(&t->blocks, kind, name, bytes);
    char *at = layer->at ? layer->at + layer->used : NULL;
    layer->used += (bytes + BLOCKS_ALIGNMENT - 1) / BLOCKS_ALIGNMENT * BLOCKS_ALIGNMENT;
    return at;
}

// Two codes per byte, and a power of two per 32 weights.
static void place_mxfp4(struct transformer *t, struct parameter *p, struct layer_bytes *layer)
{
    int64_t count = tensor_count(p->value);
    p->quantized = (struct quantized){ .is_mxfp4 = true, .block = MXFP4_BLOCK };
    p->quantized.codes = take(t, layer, BLOCKS_WEIGHTS, "linears, 4-bit", (count + 1) / 2);
    p->quantized.nested_codes =
        take(t, layer, BLOCKS_WEIGHTS, "scales of 4-bit", (count + MXFP4_BLOCK - 1) / MXFP4_BLOCK);
}

// Two codes per byte; a scale byte per 64 weights; 4 bytes per 256 scales; 256 levels; an offset.
static void place_quantized(struct transformer *t, struct parameter *p, struct layer_bytes *layer)
{
    int64_t count = tensor_count(p->value), blocks = (count + NF4_BLOCK - 1) / NF4_BLOCK;
    int64_t nested = (blocks + NF4_NESTED_BLOCK - 1) / NF4_NESTED_BLOCK;
    enum blocks_kind kind = BLOCKS_WEIGHTS;
    p->quantized = (struct quantized){ .block = NF4_BLOCK, .nested_block = NF4_NESTED_BLOCK };
    p->quantized.codes = take(t, layer, kind, "linears, 4-bit", (count + 1) / 2);
    p->quantized.nested_codes = take(t, layer, kind, "scales of 4-bit", blocks);
    p->quantized.nested = take(t, layer, kind, "scales of scales", 4 * nested);
    p->quantized.levels = take(t, layer, kind, "levels of the scales", 4 * NF4_NESTED_LEVELS);
    p->quantized.offset = take(t, layer, kind, "levels of the scales", 4);
}

// Codes of a row of fp8: after its columns those of adapters (backend.h), up to an aligned end.
static int64_t code_columns(const struct transformer *t, const struct projection *p,
                            int64_t columns)
{
    int64_t each = 2 * t->device->padding, all = columns + 3 * p->z_columns;
    return p->z_columns ? (all + each - 1) / each * each : columns;
}

static struct scaled place_scaled(struct transformer *t, struct layer_bytes *layer,
                                  enum blocks_kind kind, const char *name, int64_t rows,
                                  int64_t columns)
{
    struct scaled out = { tensor_of(NULL, DTYPE_F8, rows, columns),
                          tensor_of(NULL, DTYPE_F32, rows, 1) };
    out.codes.at = take(t, layer, kind, name, tensor_bytes(out.codes));
    out.scales.at = take(t, layer, kind, "scales of fp8", tensor_bytes(out.scales));
    return out;
}

// The linears of a projection and the adapters beside them: W_q, W_k, … lie one below the other
// without gaps, and so do their adapters in z.
static void check_stacking(const struct transformer *t, const struct projection *p)
{
    int64_t rows = 0, columns = 0;
    for (int i = 0; i < p->count; i++) {
        assert(p->linears[i]->first == rows && p->linears[i]->in == p->in);
        assert(p->linears[i]->first_z == columns);
        rows += p->linears[i]->out;
        columns += p->linears[i]->a ? t->setup.recipe->rank : 0;
    }
    assert(rows == p->out && columns <= p->rank && p->rank % t->device->padding == 0);
}

// A weight, or its gradient. What several ranks train begins at a multiple of GROUP_ALIGNMENT
// elements, whatever its type: a rank's part of all elements is then the same range of the values
// and of the gradients, and the same whether ranks share states or not.
static struct tensor place_aligned(struct transformer *t, enum blocks_kind kind, const char *name,
                                   enum dtype type, int64_t rows, int64_t columns)
{
    struct tensor tensor = tensor_of(NULL, type, rows, columns);
    int64_t each = t->setup.ranks > 1 && kind != BLOCKS_WEIGHTS ? GROUP_ALIGNMENT : 1;
    int64_t elements = (rows * columns + each - 1) / each * each;
    tensor.at = blocks_take(&t->blocks, kind, name, elements * dtype_bytes(type));
    return tensor;
}

// The stacked block [W B; A 0], or what replaces it where W is quantised.
static void place_linears(struct transformer *t, const struct parameter_group *group,
                          struct layer_bytes *layer)
{
    struct projection *p = group->projection;
    enum blocks_kind kind = group->is_trained ? BLOCKS_TRAINABLES : BLOCKS_WEIGHTS;
    enum dtype type = t->setup.compute;
    check_stacking(t, p);
    if (t->setup.recipe->method == RECIPE_QLORA) {
        bool mxfp4 = group->parts[0]->is_of_expert && t->decoder->architecture->stacks_experts;
        for (int i = 0; i < group->count; i++)
            (mxfp4 ? place_mxfp4 : place_quantized)(t, group->parts[i], layer);
        return;
    }
    if (t->setup.fp8) {
        p->forward =
            place_scaled(t, layer, kind, "linears, fp8", p->out, code_columns(t, p, p->in));
        p->backward =
            place_scaled(t, layer, kind, "linears, fp8", p->in, code_columns(t, p, p->out));
        return;
    }
    p->stacked = tensor_of(NULL, type, p->out + p->rank, p->in + p->rank);
    if (layer) {
        p->stacked.at = take(t, layer, kind, group->label, tensor_bytes(p->stacked));
    } else {
        p->stacked = place_aligned(t, kind, group->label, type, p->out + p->rank, p->in + p->rank);
        p->a = tensor_columns(tensor_rows(p->stacked, p->out, p->rank), 0, p->in);
        p->b = tensor_columns(tensor_rows(p->stacked, 0, p->out), p->in, p->rank);
    }
    for (int i = 0; i < p->count; i++)
        p->linears[i]->weight->value = tensor_columns(
            tensor_rows(p->stacked, p->linears[i]->first, p->linears[i]->out), 0, p->in);
}

// Adapters are views of the block; where it is assembled for each product, or gathered, they have
// no value. Beside fp8 they lie apart.
static void place_adapters(struct transformer *t, const struct parameter_group *group)
{
    struct projection *p = group->projection;
    int64_t rank = t->setup.recipe->rank;
    if (t->setup.fp8 && is_first_factor(group)) {
        const char *name = "adapters, compute type";
        enum dtype type = t->setup.compute;
        p->a = blocks_tensor(&t->blocks, BLOCKS_WEIGHTS, name, type, p->rank, p->in);
        p->b = blocks_tensor(&t->blocks, BLOCKS_WEIGHTS, name, type, p->out, p->rank);
    }
    for (int i = 0; i < p->count; i++) {
        const struct linear *l = p->linears[i];
        if (!l->a || !p->a.columns)
            continue;
        l->a->value = tensor_rows(p->a, l->first_z, rank);
        l->b->value = tensor_columns(tensor_rows(p->b, l->first, l->out), l->first_z, rank);
    }
}

static void place_values(struct transformer *t, const struct parameter_group *group)
{
    struct parameter *p = group->parts[0];
    if (group->projection && is_adapter(group))
        place_adapters(t, group);
    else if (group->projection)
        place_linears(t, group, NULL);
    else
        p->value = place_aligned(t, group->is_trained ? BLOCKS_TRAINABLES : BLOCKS_WEIGHTS,
                                 group->label, t->setup.compute, group->rows, group->columns);
}

static struct tensor place_group(struct transformer *t, enum blocks_kind kind, const char *name,
                                 enum dtype type, const struct parameter_group *group)
{
    return place_aligned(t, kind, name, type, group->rows, group->columns);
}

static bool has_separate_masters(const struct transformer *t, const struct parameter_group *group)
{
    return is_adapter(group) || (t->setup.compute != exact_type(t) && !t->setup.bf16_states);
}

static void place_masters(struct transformer *t, struct parameter_group *group)
{
    bool separate = has_separate_masters(t, group);
    bool shared = separate && !is_adapter(group) && transformer_is_sharded(t);
    if ((!group->is_trained && !is_adapter(group)) || shared)
        return;
    if (separate)
        group->master = place_group(t, BLOCKS_TRAINABLES, "masters", exact_type(t), group);
    else
        group->master = group->projection ? group->projection->stacked : group->parts[0]->value;
    if (group->projection && is_first_factor(group))
        group->projection->a_master = group->master;
}

static void place_states(struct transformer *t, struct parameter_group *group)
{
    enum dtype type = state_type(t);
    bool adam = t->setup.recipe->optimizer == RECIPE_ADAMW;
    if (!group->is_trained)
        return;
    group->gradient = place_group(t, BLOCKS_GRADIENTS, group->label, type, group);
    if ((adam || t->setup.has_momentum) && !transformer_is_sharded(t))
        group->m = place_group(t, BLOCKS_OPTIMIZER, "first moments", type, group);
    if (group->projection && is_first_factor(group))
        group->projection->a_gradient = group->gradient;
    else if (group->projection && !is_adapter(group))
        group->projection->gradient = group->gradient;
}

// Second moments are placed after all first moments, so that each kind is contiguous.
static void place_second_moments(struct transformer *t, struct parameter_group *group)
{
    if (group->is_trained && t->setup.recipe->optimizer == RECIPE_ADAMW &&
        !transformer_is_sharded(t))
        group->v = place_group(t, BLOCKS_OPTIMIZER, "second moments", state_type(t), group);
}

// Cuts the row of all gradients into pieces, and each piece into parts of the ranks; returns how
// many elements are this rank's.
static int64_t cut_pieces(struct transformer *t)
{
    struct transformer_shard *shard = &t->shard;
    int64_t end = 0, kept = 0, last = shard->piece_count - 1;
    for (int64_t i = 0; i <= last; i++)
        shard->pieces[i].count = 0;
    for (size_t i = 0; i < t->group_count; i++) {
        const struct parameter_group *group = &t->groups[i];
        int64_t index = group->layer >= 0 && last ? group->layer + 1 : i ? last : 0;
        int64_t count = tensor_count(group->gradient) + GROUP_ALIGNMENT - 1;
        shard->pieces[index].count += count / GROUP_ALIGNMENT * GROUP_ALIGNMENT;
    }
    for (int64_t i = 0; i <= last; i++) {
        struct transformer_piece *piece = &shard->pieces[i];
        piece->first = end;
        piece->own = group_part_of(piece->count, t->setup.rank, t->setup.ranks);
        piece->own.first += end;
        piece->kept = kept;
        end += piece->count;
        kept += piece->own.count;
    }
    assert(end * dtype_bytes(state_type(t)) == t->blocks.used[BLOCKS_GRADIENTS]);
    return kept;
}

// This rank's part of the masters, if they are not the weights themselves, and of the moments.
// While weights are loaded their masters lie in the gradients' memory.
static void place_shard(struct transformer *t)
{
    struct transformer_shard *shard = &t->shard;
    enum dtype type = state_type(t);
    bool adam = t->setup.recipe->optimizer == RECIPE_ADAMW;
    bool full = t->setup.recipe->method == RECIPE_FULL;
    bool separate = full && has_separate_masters(t, &t->groups[0]);
    int64_t count = cut_pieces(t);
    assert(t->blocks.used[BLOCKS_TRAINABLES] / dtype_bytes(full ? t->setup.compute : type) ==
           t->blocks.used[BLOCKS_GRADIENTS] / dtype_bytes(type));
    if (separate)
        shard->states[TRANSFORMER_MASTER] =
            place_aligned(t, BLOCKS_TRAINABLES, "masters, own part", type, 1, count);
    if (adam || t->setup.has_momentum)
        shard->states[TRANSFORMER_M] =
            place_aligned(t, BLOCKS_OPTIMIZER, "first moments, own part", type, 1, count);
    if (adam)
        shard->states[TRANSFORMER_V] =
            place_aligned(t, BLOCKS_OPTIMIZER, "second moments, own part", type, 1, count);
    for (size_t i = 0; separate && i < t->group_count; i++)
        t->groups[i].master = t->groups[i].gradient;
}

static void share_with_parts(struct parameter_group *group)
{
    int64_t row = 0;
    for (int i = 0; i < group->count; i++) {
        struct parameter *p = group->parts[i];
        int64_t rows = p->value.rows;
        p->master = group->master.columns ? tensor_rows(group->master, row, rows) : group->master;
        p->gradient =
            group->gradient.columns ? tensor_rows(group->gradient, row, rows) : group->gradient;
        p->m = group->m.columns ? tensor_rows(group->m, row, rows) : group->m;
        p->v = group->v.columns ? tensor_rows(group->v, row, rows) : group->v;
        row += rows;
    }
}

// The linears of the layers one below the other, each layer in the bytes that it is gathered in;
// returns the bytes of the largest layer.
static int64_t place_base_linears(struct transformer *t)
{
    struct layer_bytes layer = { 0 };
    int64_t now = -1, most = 0;
    for (size_t i = 0; i < t->group_count; i++) {
        const struct parameter_group *group = &t->groups[i];
        if (!transformer_is_in_base(t, group))
            continue;
        if (group->layer != now)
            layer = (struct layer_bytes){ t->base.gathered[group->layer % 2].at, 0 };
        now = group->layer;
        place_linears(t, group, &layer);
        most = layer.used > most ? layer.used : most;
    }
    return most;
}

// Parts are equal, so that each layer is one all-gather.
static void place_base(struct transformer *t)
{
    struct transformer_base *base = &t->base;
    *base = (struct transformer_base){ .layers = { -1, -1 }, .held = -1 };
    int64_t words = place_base_linears(t) / dtype_bytes(DTYPE_F32);
    int64_t part = group_part_of(words, 0, t->setup.ranks).count;
    base->own = blocks_tensor(&t->blocks, BLOCKS_WEIGHTS, "linears, own part", DTYPE_F32,
                              t->decoder->model.layers, part);
    for (int i = 0; i < 2; i++)
        base->gathered[i] = blocks_tensor(&t->blocks, BLOCKS_WORKSPACE, "gathered layers",
                                          DTYPE_F32, 1, part * t->setup.ranks);
    place_base_linears(t);
}

static void place_weights(struct transformer *t)
{
    if (transformer_shares_base(t))
        place_base(t);
    for (size_t i = 0; i < t->group_count; i++)
        if (!transformer_is_in_base(t, &t->groups[i]))
            place_values(t, &t->groups[i]);
    for (size_t i = 0; i < t->group_count; i++)
        place_masters(t, &t->groups[i]);
    for (size_t i = 0; i < t->group_count; i++)
        place_states(t, &t->groups[i]);
    for (size_t i = 0; i < t->group_count; i++)
        place_second_moments(t, &t->groups[i]);
    if (transformer_is_sharded(t))
        place_shard(t);
    for (size_t i = 0; i < t->group_count; i++)
        share_with_parts(&t->groups[i]);
}

// --- activations -------------------------------------------------------------

struct slot {
    struct tensor *own, *common;
    const char *name;
    enum dtype dtype;
    int64_t rows, columns;
};

// Places a tensor for the layer if it is kept, otherwise uses the one that all layers share. A
// tensor without columns is one that the layer does not have.
static void place_slot(struct transformer *t, bool kept, struct slot slot)
{
    bool placed = slot.common->rows > 0;
    if (!slot.columns)
        return;
    if (kept)
        *slot.own = blocks_tensor(&t->blocks, BLOCKS_ACTIVATIONS, slot.name, slot.dtype, slot.rows,
                                  slot.columns);
    else if (!placed)
        *slot.common = blocks_tensor(&t->blocks, BLOCKS_WORKSPACE, slot.name, slot.dtype, slot.rows,
                                     slot.columns);
    if (!kept)
        *slot.own = *slot.common;
}

// z lies after the columns of its input. A layer that recomputes the input but not z keeps a copy
// of z: levels NORMS … until[projection] − 1.
static void place_low_rank(struct transformer *t, struct transformer_layer *l)
{
    static const enum recompute until[PROJECTIONS] = {
        [PROJECTION_QKV] = RECOMPUTE_PROJECTIONS,
        [PROJECTION_O] = RECOMPUTE_NORMS,
        [PROJECTION_GATE] = RECOMPUTE_GATE,
        [PROJECTION_DOWN] = RECOMPUTE_LEVELS,
    };
    for (int i = 0; i < PROJECTIONS; i++) {
        struct projection *p = &l->projections[i];
        bool separate =
            p->rank && !t->setup.only_forward && l->level >= RECOMPUTE_NORMS && l->level < until[i];
        p->z = separate ? blocks_tensor(&t->blocks, BLOCKS_ACTIVATIONS, "adapter activations",
                                        t->setup.compute, t->setup.tokens, p->rank)
                        : (struct tensor){ 0 };
    }
}

static int64_t most_rank(const struct transformer *t, enum transformer_projection which)
{
    int64_t most = 0;
    for (int64_t i = 0; i < t->decoder->model.layers; i++)
        most = larger(most, t->layers[i].projections[which].rank);
    return most;
}

// What backward needs of a router's choice is small and always kept.
static void place_routing(struct transformer *t, struct mixture *m)
{
    int64_t choices = transformer_expert_rows(t), experts = t->decoder->model.experts;
    bool kept = !t->setup.only_forward;
    struct routing *common = &t->common.mixture.routing;
    if (kept || !common->chosen) {
        int32_t *at = blocks_take(&t->blocks, kept ? BLOCKS_ACTIVATIONS : BLOCKS_WORKSPACE,
                                  "expert choices", (3 * choices + experts) * (int64_t)sizeof *at);
        *common = (struct routing){ .chosen = t->decoder->model.experts_active,
                                    .normalises = t->decoder->normalises_experts };
        if (at) {
            common->experts = at;
            common->slots = at + choices;
            common->rows = at + 2 * choices;
            common->counts = at + 3 * choices;
        }
    }
    m->routing = *common;
}

static void place_mixture(struct transformer *t, struct transformer_layer *l)
{
    const struct model *model = &t->decoder->model;
    struct mixture *m = &l->mixture, *c = &t->common.mixture;
    enum dtype type = t->setup.compute, exact = exact_type(t);
    int64_t N = transformer_expert_rows(t), F = model->expert_width;
    int64_t gate_rank = m->experts[0].gate.rank, down_rank = m->experts[0].down.rank;
    bool trains = !t->setup.only_forward, norms = trains && l->level < RECOMPUTE_NORMS;
    bool gate = trains && l->level < RECOMPUTE_GATE;
    bool rows = norms && transformer_reads_input(t, &m->experts[0].gate);
    bool activated = norms && transformer_reads_input(t, &m->experts[0].down);
    place_routing(t, m);
    place_slot(t, trains,
               (struct slot){ &m->probabilities, &c->probabilities, "expert probabilities", exact,
                              t->setup.tokens, model->experts });
    place_slot(t, trains, (struct slot){ &m->weights, &c->weights, "expert weights", exact, N, 1 });
    place_slot(
        t, rows,
        (struct slot){ &m->rows, &c->rows, "expert inputs", type, N, model->width + gate_rank });
    place_slot(t, gate,
               (struct slot){ &m->gate_up, &c->gate_up, "expert gate and up", type, N,
                              2 * F + gate_rank });
    place_slot(t, activated,
               (struct slot){ &m->activated, &c->activated, "expert activations", type, N,
                              F + down_rank });
}

static void place_layer(struct transformer *t, struct transformer_layer *l)
{
    struct transformer_layer *c = &t->common;
    const struct model *m = &t->decoder->model;
    const struct projection *p = l->projections;
    enum dtype type = t->setup.compute, exact = exact_type(t);
    int64_t T = t->setup.tokens, C = m->width, F = l->mixture.experts ? 0 : m->ffn_width;
    int64_t Q = model_query_width(m), K = model_key_width(m), out = l->norms[NORM_MLP_OUT] ? C : 0;
    int64_t to_qkv = C + p[PROJECTION_QKV].rank, to_gate = C + most_rank(t, PROJECTION_GATE);
    int64_t to_down = F + p[PROJECTION_DOWN].rank, to_o = Q + p[PROJECTION_O].rank;
    bool trains = !t->setup.only_forward, norms = trains && l->level < RECOMPUTE_NORMS;
    bool gate = trains && l->level < RECOMPUTE_GATE;
    bool projections = trains && l->level < RECOMPUTE_PROJECTIONS;
    bool block = trains && l->level < RECOMPUTE_BLOCK;
    bool normed = norms && transformer_reads_input(t, &p[PROJECTION_QKV]);
    // Of a mixture, which has no such projection: the input of a router that full training trains.
    bool middle_normed = norms && transformer_reads_input(t, &p[PROJECTION_GATE]);
    bool activated = norms && transformer_reads_input(t, &p[PROJECTION_DOWN]);
    struct {
        bool kept;
        struct slot slot;
    } slots[] = {
        { trains, { &l->input, &c->input, "layer inputs", type, T, C } },
        { trains, { &l->input_rms, &c->input_rms, "norm statistics", exact, T, 1 } },
        { trains, { &l->middle_rms, &c->middle_rms, "norm statistics", exact, T, 1 } },
        { normed, { &l->normed, &c->normed, "norm outputs", type, T, to_qkv } },
        { middle_normed,
          { &l->middle_normed, &c->middle_normed, "norm outputs", type, T, to_gate } },
        { activated, { &l->activated, &c->activated, "activations", type, T, to_down } },
        { gate,
          { &l->gate_up, &c->gate_up, "gate and up", type, T, 2 * F + p[PROJECTION_GATE].rank } },
        { projections, { &l->qkv, &c->qkv, "q, k, v", type, T, Q + 2 * K } },
        { block, { &l->attended, &c->attended, "attention outputs", type, T, to_o } },
        { block, { &l->lse, &c->lse, "attention logsumexp", exact, T, m->heads } },
        { projections, { &l->middle, &c->middle, "mid-layer residuals", type, T, C } },
        { projections, { &l->attention_out, &c->attention_out, "before norms", type, T, out } },
        { trains, { &l->mlp_out, &c->mlp_out, "before norms", type, T, out } },
        { trains,
          { &l->attention_out_rms, &c->attention_out_rms, "norm statistics", exact, T, !!out } },
        { trains, { &l->mlp_out_rms, &c->mlp_out_rms, "norm statistics", exact, T, !!out } },
    };
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
        place_slot(t, slots[i].kept, slots[i].slot);
    if (l->mixture.experts)
        place_mixture(t, l);
    l->rotated = tensor_columns(l->qkv, 0, Q + K);
    if (l->norms[NORM_Q]) {
        place_slot(t, norms,
                   (struct slot){ &l->rotated, &c->rotated, "normalised q, k", type, T, Q + K });
        place_slot(t, trains,
                   (struct slot){ &l->q_rms, &c->q_rms, "norm statistics", exact, T, m->heads });
        place_slot(t, trains,
                   (struct slot){ &l->k_rms, &c->k_rms, "norm statistics", exact, T, m->kv_heads });
    }
    place_low_rank(t, l);
}

static void place_kept(struct transformer *t, struct transformer_layer *l)
{
    int64_t first = t->blocks.used[BLOCKS_ACTIVATIONS];
    place_layer(t, l);
    l->kept = t->blocks.at[BLOCKS_ACTIVATIONS] ? t->blocks.at[BLOCKS_ACTIVATIONS] + first : NULL;
    l->kept_bytes = t->blocks.used[BLOCKS_ACTIVATIONS] - first;
}

// Offloaded layers have two places in turn, each as large as its largest layer; the other layers
// have one each.
static void place_layers(struct transformer *t)
{
    int64_t layers = t->decoder->model.layers, *used = &t->blocks.used[BLOCKS_ACTIVATIONS];
    for (int place = 0; place < TRANSFORMER_PLACES; place++) {
        int64_t first = *used, end = first;
        for (int64_t i = 0; i < layers; i++) {
            if (transformer_offloaded(t, i) % TRANSFORMER_PLACES != place)
                continue;
            blocks_go_on(&t->blocks, BLOCKS_ACTIVATIONS, first);
            place_kept(t, &t->layers[i]);
            end = larger(end, *used);
        }
        blocks_go_on(&t->blocks, BLOCKS_ACTIVATIONS, end);
    }
    for (int64_t i = 0; i < layers; i++)
        if (transformer_offloaded(t, i) < 0)
            place_kept(t, &t->layers[i]);
}

// --- workspace ---------------------------------------------------------------

static int64_t head_rows(const struct transformer *t)
{
    int64_t row_bytes = t->decoder->model.vocabulary * dtype_bytes(t->setup.compute);
    int64_t rows = t->chunk_bytes / row_bytes;
    if (rows > HEAD_ROWS_STEP)
        rows -= rows % HEAD_ROWS_STEP;
    rows = larger(rows, HEAD_ROWS_LEAST);
    return rows < t->setup.labelled ? rows : larger(t->setup.labelled, 1);
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
    int64_t added = m->width + larger(most_rank(t, PROJECTION_O), most_rank(t, PROJECTION_DOWN));
    s->dx = work(t, "residual gradient", type, T, added);
    if (t->layers[0].norms[NORM_MLP_OUT] || t->setup.recipe->dora ||
        t->decoder->architecture->has_multipliers)
        s->dadded = work(t, "gradient of branches", type, T, added);
    s->dqkv = work(t, "q, k, v gradients", type, T, Q + 2 * K + most_rank(t, PROJECTION_QKV));
    s->dattended = work(t, "attention gradient", type, T, Q);
    if (model_layers(m, MODEL_DENSE))
        s->dactivated = work(t, "activation gradient", type, T, m->ffn_width);
    s->dpicked = work(t, "labelled rows", type, t->setup.labelled, m->width);
}

static const struct mixture *first_mixture(const struct transformer *t)
{
    for (int64_t i = 0; i < t->decoder->model.layers; i++)
        if (t->layers[i].mixture.experts)
            return &t->layers[i].mixture;
    return NULL;
}

static void place_expert_scratch(struct transformer *t)
{
    const struct mixture *mixture = first_mixture(t);
    const struct model *m = &t->decoder->model;
    struct transformer_scratch *s = &t->scratch;
    enum dtype type = t->setup.compute;
    int64_t N = transformer_expert_rows(t);
    if (!mixture)
        return;
    s->router_logits = work(t, "router logits", type, t->setup.tokens, m->experts);
    s->expert_rows = work(t, "expert outputs", type, N, m->width + mixture->experts[0].down.rank);
    if (t->decoder->balance > 0) {
        s->load = work(t, "expert loads", DTYPE_F64, 2, m->experts);
        s->dprobabilities = work(t, "expert loads", DTYPE_F64, 1, m->experts);
    }
    if (t->setup.only_forward)
        return;
    s->dexpert_activated = work(t, "expert activation gradient", type, N, m->expert_width);
    s->dexpert_weights = work(t, "expert weight gradient", exact_type(t), N, 1);
}

struct widest {
    int64_t in, out, elements; // of any projection; elements: of its stacked block
    int64_t codes, z_columns;  // of an input or its gradient in fp8
};

// So many projections of this shape are unpacked at once.
static void widen(const struct transformer *t, struct widest *widest, const struct projection *p,
                  int64_t at_once)
{
    widest->codes = larger(widest->codes, code_columns(t, p, larger(p->in, p->out)));
    widest->z_columns = larger(widest->z_columns, p->z_columns);
    widest->in = larger(widest->in, p->in);
    widest->out = larger(widest->out, p->out);
    widest->elements = larger(widest->elements, at_once * (p->in + p->rank) * (p->out + p->rank));
}

static void place_widest(struct transformer *t)
{
    const struct recipe *recipe = t->setup.recipe;
    struct transformer_scratch *s = &t->scratch;
    struct widest widest = { 0 };
    const struct mixture *mixture = first_mixture(t);
    for (int64_t layer = 0; layer < t->decoder->model.layers; layer++)
        for (int i = 0; i < PROJECTIONS; i++)
            widen(t, &widest, &t->layers[layer].projections[i], 1);
    if (mixture) {
        int64_t at_once = transformer_experts_at_once(t, mixture);
        widen(t, &widest, &mixture->experts[0].gate, at_once);
        widen(t, &widest, &mixture->experts[0].down, at_once);
    }
    if (recipe->method != RECIPE_FULL && recipe->dropout > 0) {
        bool on_experts = mixture && mixture->experts[0].gate.rank + mixture->experts[0].down.rank;
        int64_t rows = on_experts ? transformer_expert_rows(t) : t->setup.tokens;
        s->dropped = work(t, "dropout", t->setup.compute, rows, widest.in);
        s->ddropped = work(t, "dropout", t->setup.compute, rows, widest.in);
    }
    if (recipe->method == RECIPE_QLORA || t->setup.fp8)
        s->unpacked = work(t, "unpacked linears", t->setup.compute, 1, widest.elements);
    if (t->setup.fp8) {
        s->input =
            place_scaled(t, NULL, BLOCKS_WORKSPACE, "inputs in fp8", t->setup.tokens, widest.codes);
        s->shifts = work(t, "inputs in fp8", DTYPE_F32, 1, widest.z_columns);
    }
    if (recipe->dora) {
        s->row_norms = work(t, "magnitudes", exact_type(t), 1, widest.out);
        s->unmagnified = work(t, "magnitudes", t->setup.compute, t->setup.tokens, widest.out);
    }
}

static void place_batch(struct transformer *t)
{
    struct transformer_scratch *s = &t->scratch;
    int64_t tokens = 4 * t->setup.tokens, labelled = 4 * larger(t->setup.labelled, 1);
    struct blocks *b = &t->blocks;
    s->ids = blocks_take(b, BLOCKS_WORKSPACE, "token ids, positions", tokens);
    s->positions = blocks_take(b, BLOCKS_WORKSPACE, "token ids, positions", tokens);
    s->rows = blocks_take(b, BLOCKS_WORKSPACE, "token ids, positions", labelled);
    s->targets = blocks_take(b, BLOCKS_WORKSPACE, "token ids, positions", labelled);
    s->spans = blocks_take(b, BLOCKS_WORKSPACE, "token ids, positions", 2 * tokens);
    t->frequencies = work(t, "frequencies", DTYPE_F64, DECODER_ROTATIONS,
                          larger(t->decoder->model.head_size / 2, 1));
    t->frequencies.columns = t->frequencies.stride = t->decoder->rotary_size / 2;
    t->loss = work(t, "sums", DTYPE_F64, 1, 1);
    t->squared_norm = work(t, "sums", DTYPE_F64, 1, 1);
    t->clip = work(t, "sums", DTYPE_F64, 1, 1);
}

static void place_scratch(struct transformer *t)
{
    const struct model *m = &t->decoder->model;
    struct transformer_scratch *s = &t->scratch;
    enum dtype type = t->setup.compute;
    s->branch = work(t, "branch", type, t->setup.tokens, m->width);
    s->picked = work(t, "labelled rows", type, t->setup.labelled, m->width);
    s->logits = work(t, "logits", type, head_rows(t), m->vocabulary);
    s->losses = work(t, "losses", exact_type(t), larger(t->setup.labelled, 1), 1);
    if (t->head_a)
        s->head_z = work(t, "adapter on the head", type, head_rows(t), t->setup.recipe->rank);
    if (t->head_a && !t->setup.only_forward)
        s->dhead_z = work(t, "adapter on the head", type, head_rows(t), t->setup.recipe->rank);
    if (!t->setup.only_forward)
        place_backward(t);
    place_expert_scratch(t);
    place_widest(t);
    place_batch(t);
    s->attention = blocks_take(&t->blocks, BLOCKS_WORKSPACE, "attention", t->attention_bytes);
}

void transformer_place(struct transformer *t)
{
    const struct model *m = &t->decoder->model;
    enum dtype type = t->setup.compute;
    t->common = (struct transformer_layer){ 0 };
    place_weights(t);
    place_layers(t);
    t->last = blocks_tensor(&t->blocks, BLOCKS_ACTIVATIONS, "last residual", type, t->setup.tokens,
                            m->width);
    t->last_rms = blocks_tensor(&t->blocks, BLOCKS_ACTIVATIONS, "norm statistics", exact_type(t),
                                t->setup.tokens, 1);
    t->hidden = work(t, "final norm output", type, t->setup.tokens, m->width);
    place_scratch(t);
}
