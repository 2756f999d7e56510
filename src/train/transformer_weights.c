// SPDX-License-Identifier: Apache-2.0
// Sets the weights of a transformer from files, at random or from masters, and reads them back.

#include "train/transformer_internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Files hold the weights in about the order of the list, and a mixture of experts has tens of
// thousands of them: the search goes on from where the last one ended.
struct parameter *transformer_find(struct transformer *t, const char *name)
{
    for (size_t i = 0; i < t->parameter_count; i++) {
        size_t at = (t->found + i) % t->parameter_count;
        if (!strcmp(t->parameters[at].name, name)) {
            t->found = at;
            return &t->parameters[at];
        }
    }
    return NULL;
}

// --- where a weight goes -----------------------------------------------------

const struct parameter_group *transformer_group_of(const struct transformer *t,
                                                   const struct parameter *p)
{
    for (size_t i = 0; i < t->group_count; i++)
        for (int j = 0; j < t->groups[i].count; j++)
            if (t->groups[i].parts[j] == p)
                return &t->groups[i];
    return NULL;
}

static bool is_in_fp8(const struct transformer *t, const struct parameter *p)
{
    const struct parameter_group *group = t->setup.fp8 ? transformer_group_of(t, p) : NULL;
    return group && group->projection && !p->is_adapter;
}

// The unquantised rows of a weight in the workspace: alone for NF4, among those of its projection
// for fp8, where a scale of the transposed matrix spans all linears of the projection.
static struct tensor unpacked_rows(const struct transformer *t, const struct parameter *p)
{
    int64_t first = 0;
    if (is_in_fp8(t, p)) {
        const struct parameter_group *group = transformer_group_of(t, p);
        for (int i = 0; group->parts[i] != p; i++)
            first += group->parts[i]->value.rows;
    }
    struct tensor all = tensor_of(t->scratch.unpacked.at, t->setup.compute, first + p->value.rows,
                                  p->value.columns);
    return tensor_rows(all, first, p->value.rows);
}

static bool is_packed(const struct transformer *t, const struct parameter *p)
{
    return p->quantized.codes || is_in_fp8(t, p);
}

// Quantises the rows that are complete in the workspace.
static void pack(struct transformer *t, struct parameter *p)
{
    if (p->quantized.codes) {
        ops(t)->quantize(t->device, &p->quantized, unpacked_rows(t, p), t->scratch.logits.at);
        return;
    }
    const struct parameter_group *group = transformer_group_of(t, p);
    const struct projection *to = group->projection;
    if (p != group->parts[group->count - 1])
        return; // the other linears of the projection are still to come
    struct tensor all = tensor_of(t->scratch.unpacked.at, t->setup.compute, to->out, to->in);
    struct tensor forward = tensor_columns(to->forward.codes, 0, to->in);
    struct tensor backward = tensor_columns(to->backward.codes, 0, to->out);
    ops(t)->zero(t->device, to->forward.codes); // also after the columns of adapters
    ops(t)->zero(t->device, to->backward.codes);
    ops(t)->quantize_rows(t->device, forward, to->forward.scales, all, false);
    ops(t)->quantize_rows(t->device, backward, to->backward.scales, all, true);
}

// A place that the weight can be set in, if ranks share the base.
static void hold(struct transformer *t, const struct parameter *p)
{
    const struct parameter_group *group =
        transformer_shares_base(t) ? transformer_group_of(t, p) : NULL;
    if (group && transformer_is_in_base(t, group))
        transformer_hold(t, group->layer);
}

// --- from the host -----------------------------------------------------------

static bool device_type(enum dtype *out, enum storage type)
{
    *out = type == STORAGE_BF16 ? DTYPE_BF16 : type == STORAGE_F64 ? DTYPE_F64 : DTYPE_F32;
    return type == STORAGE_BF16 || type == STORAGE_F64 || type == STORAGE_F32;
}

static struct tensor part_of(struct tensor tensor, int64_t row, int64_t column, int64_t rows,
                             int64_t columns)
{
    return tensor_columns(tensor_rows(tensor, row, rows), column, columns);
}

static void set_part(struct transformer *t, struct parameter *p, struct tensor staged, int64_t row,
                     int64_t column)
{
    struct tensor to[] = { is_packed(t, p) ? unpacked_rows(t, p) : p->value, p->master };
    for (int i = 0; i < 2; i++)
        if (to[i].at && (i == 0 || to[1].at != to[0].at))
            ops(t)->cast(t->device, part_of(to[i], row, column, staged.rows, staged.columns),
                         staged);
}

// In pieces of whole rows, or of parts of a row, through the memory of the logits.
void transformer_set(struct transformer *t, struct parameter *p, enum storage type,
                     const void *values)
{
    enum dtype staged_type;
    bool direct = device_type(&staged_type, type);
    struct arena scratch = { 0 };
    int64_t rows = p->value.rows, columns = p->value.columns, size = dtype_bytes(staged_type);
    int64_t room = tensor_bytes(t->scratch.logits) / size;
    int64_t height = room >= columns ? room / columns : 1;
    int64_t width = room >= columns ? columns : room;
    float *converted = direct ? NULL : ARENA_NEW(&scratch, float, height *width);
    hold(t, p);
    for (int64_t row = 0; row < rows; row += height)
        for (int64_t column = 0; column < columns; column += width) {
            int64_t h = rows - row < height ? rows - row : height;
            int64_t w = columns - column < width ? columns - column : width;
            const char *from =
                (const char *)values + (row * columns + column) * (int64_t)storage_bytes(type);
            if (!direct)
                storage_read(converted, type, from, (size_t)(h * w));
            struct tensor staged = tensor_of(t->scratch.logits.at, staged_type, h, w);
            ops(t)->upload(t->device, staged.at, direct ? (const void *)from : converted,
                           h * w * size);
            set_part(t, p, staged, row, column);
        }
    if (is_packed(t, p))
        pack(t, p);
    arena_release(&scratch);
}

bool transformer_set_nf4(struct transformer *t, struct parameter *p, const struct nf4 *nf4)
{
    const struct quantized *q = &p->quantized;
    if (!q->codes || q->is_mxfp4 || !nf4->nested || nf4->block != q->block ||
        nf4->nested_block != q->nested_block)
        return false;
    int64_t blocks = nf4_blocks(nf4), nested = (blocks + nf4->nested_block - 1) / nf4->nested_block;
    hold(t, p);
    ops(t)->upload(t->device, q->codes, nf4->codes, (tensor_count(p->value) + 1) / 2);
    ops(t)->upload(t->device, q->nested_codes, nf4->scales, blocks);
    ops(t)->upload(t->device, q->nested, nf4->nested_scales, 4 * nested);
    ops(t)->upload(t->device, q->levels, nf4->nested_levels, (int64_t)sizeof nf4->nested_levels);
    ops(t)->upload(t->device, q->offset, &nf4->offset, (int64_t)sizeof nf4->offset);
    return true;
}

void transformer_get(struct transformer *t, struct tensor in, float *out)
{
    struct arena scratch = { 0 };
    struct tensor host = tensor_flat(in);
    host.at = arena_alloc(&scratch, (size_t)tensor_bytes(in));
    ops(t)->download(t->device, host.at, in.at, tensor_bytes(in));
    for (int64_t i = 0; i < host.columns; i += TENSOR_CHUNK) {
        double x[TENSOR_CHUNK];
        int64_t n = tensor_chunk(host.columns, i);
        tensor_load(x, host, 0, i, n);
        for (int64_t j = 0; j < n; j++)
            out[i + j] = (float)x[j];
    }
    arena_release(&scratch);
}

// --- from masters, and at random ---------------------------------------------

void transformer_refresh(struct transformer *t)
{
    for (size_t i = 0; i < t->parameter_count; i++) {
        struct parameter *p = &t->parameters[i];
        if (parameter_is_copied(p) && !p->is_of_expert)
            ops(t)->cast(t->device, p->value, p->master);
    }
    for (int64_t i = 0; i < t->decoder->model.layers; i++)
        if (t->layers[i].mixture.experts)
            transformer_experts_refresh(t, &t->layers[i].mixture);
}

// Each weight has a random key of its own, made from its name: what else is trained, and in which
// order, does not change its values.
static uint64_t key_of(const char *name, uint64_t seed)
{
    uint64_t hash = seed ^ 0xCBF29CE484222325u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001B3u;
    return hash;
}

static void randomize(struct transformer *t, struct parameter *p, uint64_t seed)
{
    if (p->start == PARAMETER_NORMS) {
        transformer_start_magnitude(t, p);
        return;
    }
    static const enum fill fills[] = { [PARAMETER_ZERO] = FILL_CONSTANT,
                                       [PARAMETER_ONE] = FILL_CONSTANT,
                                       [PARAMETER_NORMAL] = FILL_NORMAL,
                                       [PARAMETER_KAIMING] = FILL_UNIFORM };
    double scale =
        p->start == PARAMETER_NORMAL ? 0.02
        : p->start == PARAMETER_KAIMING
            ? 1 / sqrt((double)p->value.columns) // Kaiming uniform with a = √5, as in PEFT
        : p->start == PARAMETER_ONE ? 1
                                    : 0;
    struct tensor to = is_packed(t, p) ? unpacked_rows(t, p) : p->master.at ? p->master : p->value;
    hold(t, p);
    ops(t)->fill(t->device, to, fills[p->start], scale, key_of(p->name, seed));
    if (is_packed(t, p))
        pack(t, p);
    else if (p->value.at && p->value.at != to.at)
        ops(t)->cast(t->device, p->value, to);
}

void transformer_random_weights(struct transformer *t, uint64_t seed)
{
    for (size_t i = 0; i < t->group_count; i++)
        for (int j = 0; j < t->groups[i].count; j++)
            randomize(t, t->groups[i].parts[j], seed);
}

void transformer_random_adapters(struct transformer *t, uint64_t seed)
{
    for (size_t i = 0; i < t->parameter_count; i++)
        if (t->parameters[i].is_adapter)
            randomize(t, &t->parameters[i], seed);
}

// --- to compute with ---------------------------------------------------------

// Each linear of a projection has its own columns of z, so B is block-diagonal. Rows of A that only
// pad the rank are zeros.
static void stack_adapters(struct transformer *t, const struct projection *p, struct tensor block)
{
    struct tensor b = tensor_columns(block, p->in, p->rank);
    int64_t rows = p->a_master.rows;
    ops(t)->zero(t->device, b);
    ops(t)->cast(t->device, part_of(block, p->out, 0, rows, p->in), p->a_master);
    if (rows < p->rank)
        ops(t)->zero(t->device, part_of(block, p->out + rows, 0, p->rank - rows, p->in));
    for (int i = 0; i < p->count; i++) {
        const struct linear *l = p->linears[i];
        if (l->b)
            ops(t)->cast(t->device, part_of(b, l->first, l->first_z, l->out, t->setup.recipe->rank),
                         l->b->master);
    }
}

struct tensor transformer_stacked(struct transformer *t, const struct projection *p)
{
    if (p->stacked.at && p->rank && transformer_shares_base(t))
        stack_adapters(t, p, p->stacked); // what was gathered has none
    if (p->stacked.at || t->setup.fp8)
        return p->stacked;
    struct tensor block =
        tensor_of(t->scratch.unpacked.at, t->setup.compute, p->out + p->rank, p->in + p->rank);
    transformer_note(t, "dequantize", 0);
    for (int i = 0; i < p->count; i++)
        ops(t)->dequantize(t->device,
                           part_of(block, p->linears[i]->first, 0, p->linears[i]->out, p->in),
                           &p->linears[i]->weight->quantized);
    if (p->rank)
        stack_adapters(t, p, block);
    return block;
}
