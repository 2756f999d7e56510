// SPDX-License-Identifier: Apache-2.0
// The cases of mixtures of experts: routers, weighted rows, and products of each expert's rows.

#include "test/cuda/parity.h"

#include "train/mxfp4.h"
#include "train/nf4.h"

#include <stdlib.h>

static const enum dtype both[] = { DTYPE_F32, DTYPE_BF16, (enum dtype)PARITY_END };
static const struct tensor none;

// Rows are tokens, columns are experts; how many a token gets is in the name.
static const struct parity_shape routers[] = {
    { "2 of 8", 333, 8, 0, 0 },
    { "8 of 128", 700, 128, 0, 0 },
    { "1 of 3", 5, 3, 1, 2 },
    { "8 of 8", 40, 8, 0, 0 },
    { "6 of 160", 257, 160, 8, 24 },
    { "8 of 384", 100, 384, 0, 0 },
    { "2 of 33", 1, 33, 0, 0 },
    { "8 of 512", 64, 512, 0, 0 },
    { "4 of 8", 4097, 8, 0, 0 },
    { "2 of 8, none", 0, 8, 0, 0 },
    { 0 },
};

// Rows are those of all experts, columns the outputs; the depth is in the name. Over 1,000 rows
// there are 130 experts, otherwise 7.
static const struct parity_shape products[] = {
    { "128 deep, 300 × 128", 300, 128, 0, 0 },
    { "303 deep, 157 × 71", 157, 71, 0, 0 },
    { "64 deep, 1000 × 16", 1000, 16, 0, 0 },
    { "304 deep, strided", 280, 144, 16, 48 },
    { "65 deep, skewed", 33, 35, 3, 5 },
    { "72 deep, ragged", 511, 200, 8, 16 },
    { "1 deep, thin", 7, 9, 0, 0 },
    { "72 deep, 130 experts", 5000, 136, 0, 0 },
    { "2048 deep, as a model's", 900, 128, 0, 64 },
    { "200 deep, of several tiles", 400, 520, 0, 8 },
    { "64 deep, none", 0, 64, 0, 0 },
    { 0 },
};

static int64_t number_of(const struct parity *p)
{
    return strtol(p->shape->name, NULL, 10);
}

static int32_t *integers(struct parity *p, int64_t count)
{
    return parity_dense(p, DTYPE_F32, 1, count, false).at;
}

// --- routers -----------------------------------------------------------------

static void output_choices(struct parity *p, const struct routing *r, int64_t choices)
{
    const int32_t *all[] = { r->experts, r->slots, r->rows };
    for (int i = 0; i < 3; i++)
        parity_output_bytes(p, all[i], choices * (int64_t)sizeof *all[i]);
    parity_output_bytes(p, r->counts, p->shape->columns * (int64_t)sizeof *r->counts);
}

static void route(struct parity *p, bool normalises, bool balances)
{
    int64_t tokens = p->shape->rows, experts = p->shape->columns, k = number_of(p), n = tokens * k;
    struct routing r = { .chosen = k,
                         .experts = integers(p, n),
                         .slots = integers(p, n),
                         .rows = integers(p, n),
                         .counts = integers(p, experts),
                         .normalises = normalises };
    struct tensor logits = parity_random(p, p->dtype, tokens, experts);
    struct tensor dlogits = parity_room(p, p->dtype, tokens, experts);
    struct tensor probabilities = parity_dense(p, DTYPE_F32, tokens, experts, false);
    struct tensor weights = parity_dense(p, DTYPE_F32, n, 1, false);
    struct tensor dweights = parity_dense(p, DTYPE_F32, n, 1, true);
    struct tensor load = balances ? parity_dense(p, DTYPE_F64, 2, experts, true) : none;
    struct tensor dprobabilities = balances ? parity_dense(p, DTYPE_F64, 1, experts, false) : none;
    struct tensor loss = parity_number(p, 3);
    if (!tokens) {
        p->op->route_forward(p->device, probabilities, weights, &r, none, logits);
        return;
    }
    p->op->route_forward(p->device, probabilities, weights, &r, load, logits);
    if (balances)
        p->op->balance(p->device, loss, dprobabilities, load, (double)tokens, 0.25, 0.5);
    p->op->route_backward(p->device, dlogits, dweights, probabilities, weights, &r, dprobabilities);
    output_choices(p, &r, n);
    parity_output(p, probabilities);
    parity_output(p, weights);
    parity_output(p, dlogits);
    if (!balances)
        return;
    parity_output(p, load);
    parity_output(p, dprobabilities);
    parity_output(p, loss);
}

static void router(struct parity *p)
{
    route(p, false, false);
}

static void normalised_router(struct parity *p)
{
    route(p, true, true);
}

// Sums of three rows each.
static void combine(struct parity *p)
{
    enum { CHOSEN = 3 };
    int64_t n = CHOSEN * p->shape->rows;
    struct tensor in = parity_random(p, p->dtype, n, p->shape->columns);
    struct tensor out = parity_room(p, p->dtype, p->shape->rows, p->shape->columns);
    struct routing r = { .chosen = CHOSEN, .slots = parity_integers(p, n, (int32_t)(n ? n : 1)) };
    p->op->combine(p->device, out, in, &r);
    parity_output(p, out);
}

static void gated(struct parity *p, struct swiglu form)
{
    int64_t rows = p->shape->rows, columns = p->shape->columns;
    struct tensor gate = parity_random(p, p->dtype, rows, columns);
    struct tensor up = parity_random(p, p->dtype, rows, columns);
    struct tensor out = parity_room(p, p->dtype, rows, columns);
    struct tensor dout = parity_random(p, p->dtype, rows, columns);
    struct tensor weight = parity_dense(p, DTYPE_F32, rows, 1, true);
    struct tensor dweight = parity_dense(p, DTYPE_F32, rows, 1, false);
    p->op->swiglu_forward(p->device, out, gate, up, weight, form);
    p->op->swiglu_backward(p->device, gate, up, dweight, dout, gate, up, weight, form);
    parity_output(p, out);
    parity_output(p, gate);
    parity_output(p, up);
    parity_output(p, dweight);
}

static void weighted_swiglu(struct parity *p)
{
    gated(p, (struct swiglu){ .slope = 1 });
}

static void swiglu_within_limits(struct parity *p) // as of gpt-oss, with a limit that many meet
{
    gated(p, (struct swiglu){ .slope = 1.702, .offset = 1, .limit = 0.7 });
}

// --- products ----------------------------------------------------------------

static int64_t experts_of(const struct parity *p)
{
    return p->shape->rows > 1000 ? 130 : 7;
}

// Some experts have no row, and one has half of them.
static struct routing counted(struct parity *p)
{
    int64_t experts = experts_of(p), rows = p->shape->rows;
    int32_t counts[130] = { 0 };
    for (int64_t i = 0; i < rows; i++) {
        int64_t e = i % 2 ? 4 : (int64_t)parity_draw(p, (uint64_t)experts);
        counts[e == 1 ? 2 : e]++;
    }
    return (struct routing){ .counts = parity_upload(p, counts, experts * 4) };
}

// A matrix of each expert, one below the other.
static struct expert_matrices matrices(struct parity *p, enum dtype dtype, int64_t rows,
                                       int64_t columns, struct tensor *all)
{
    *all = parity_random(p, dtype, experts_of(p) * rows, columns);
    return (struct expert_matrices){ tensor_rows(*all, 0, rows), rows * all->stride, 0,
                                     experts_of(p) };
}

// Without the first two experts and the last one.
static struct expert_matrices some(struct expert_matrices all)
{
    all.each.at = (char *)all.each.at + 2 * all.step * dtype_bytes(all.each.dtype);
    all.first = 2;
    all.count -= 3;
    return all;
}

static void rows_times_matrices(struct parity *p, bool transposed)
{
    int64_t n = p->shape->rows, out = p->shape->columns, k = number_of(p);
    struct routing r = counted(p);
    struct tensor all, a = parity_random(p, p->dtype, n, k);
    struct expert_matrices b =
        matrices(p, p->dtype, transposed ? out : k, transposed ? k : out, &all);
    struct tensor c = parity_room(p, p->dtype, n, out), part = parity_random(p, p->dtype, n, out);
    struct tensor wide = parity_random(p, DTYPE_F32, n, out);
    void (*multiply)(struct device *, struct tensor, struct tensor, struct expert_matrices,
                     const struct routing *, double, double) =
        transposed ? p->op->experts_nt : p->op->experts_nn;
    multiply(p->device, c, a, b, &r, 1, 0);
    multiply(p->device, part, a, some(b), &r, 0.5, 1);
    multiply(p->device, wide, a, b, &r, 2, 1);
    parity_output(p, c);
    parity_output(p, part);
    parity_output(p, wide);
}

static void experts_nt(struct parity *p)
{
    rows_times_matrices(p, true);
}

static void experts_nn(struct parity *p)
{
    rows_times_matrices(p, false);
}

static void experts_tn(struct parity *p)
{
    int64_t n = p->shape->rows, columns = p->shape->columns, m = number_of(p);
    struct routing r = counted(p);
    struct tensor a = parity_random(p, p->dtype, n, m), b = parity_random(p, p->dtype, n, columns);
    struct tensor one, two, three;
    struct expert_matrices c = matrices(p, DTYPE_F32, m, columns, &one);
    struct expert_matrices sum = matrices(p, DTYPE_F32, m, columns, &two);
    struct expert_matrices same = matrices(p, p->dtype, m, columns, &three);
    p->op->experts_tn(p->device, c, a, b, &r, 1, 0);
    p->op->experts_tn(p->device, some(sum), a, b, &r, 0.5, 1);
    p->op->experts_tn(p->device, same, a, b, &r, 1, 0);
    parity_output(p, one);
    parity_output(p, two);
    parity_output(p, three);
}

// What tuning chooses gives the bits of what there was before it, for this number of rows and
// others.
static void tuned_experts(struct parity *p)
{
    int64_t n = p->shape->rows, out = p->shape->columns, k = number_of(p);
    struct routing r = counted(p);
    struct tensor all, a = parity_random(p, p->dtype, n, k);
    struct expert_matrices b = matrices(p, p->dtype, out, k, &all);
    struct tensor before = parity_room(p, p->dtype, n, out), c = parity_room(p, p->dtype, n, out);
    struct tensor sum = parity_random(p, p->dtype, n, out);
    p->op->experts_nt(p->device, before, a, b, &r, 1, 0);
    if (p->op->tune)
        p->op->tune(p->device, TUNE_NOW);
    p->op->experts_nt(p->device, c, a, b, &r, 1, 0);
    if (p->op->tune)
        p->op->tune(p->device, TUNE_OFF);
    p->op->experts_nt(p->device, sum, a, b, &r, 1, 1);
    parity_output(p, before);
    parity_output(p, c);
    parity_output(p, sum);
}

static void experts_bias(struct parity *p)
{
    int64_t n = p->shape->rows, out = p->shape->columns;
    struct routing r = counted(p);
    struct tensor all, dall, y = parity_random(p, p->dtype, n, out);
    struct tensor dy = parity_random(p, p->dtype, n, out), z = parity_random(p, p->dtype, n, out);
    struct tensor weight = parity_dense(p, DTYPE_F32, n, 1, true);
    struct tensor dweight = parity_dense(p, DTYPE_F32, n, 1, true);
    struct expert_matrices bias = matrices(p, p->dtype, 1, out, &all);
    struct expert_matrices dbias = matrices(p, DTYPE_F32, 1, out, &dall);
    p->op->experts_bias_forward(p->device, y, bias, weight, &r);
    p->op->experts_bias_forward(p->device, z, some(bias), none, &r);
    p->op->experts_bias_backward(p->device, dbias, dweight, dy, bias, weight, &r);
    p->op->experts_bias_backward(p->device, some(dbias), none, dy, some(bias), none, &r);
    parity_output(p, y);
    parity_output(p, z);
    parity_output(p, dall);
    parity_output(p, dweight);
}

// Into every second matrix of a taller row of them, and zeros into some.
static void experts_cast(struct parity *p)
{
    int64_t rows = p->shape->rows, columns = p->shape->columns;
    enum { MATRICES = 4 };
    struct tensor in = parity_random(p, DTYPE_F32, MATRICES * rows, columns);
    struct tensor out = parity_random(p, p->dtype, 2 * MATRICES * rows, columns);
    struct expert_matrices from = { tensor_rows(in, 0, rows), rows * in.stride, 0, MATRICES };
    struct expert_matrices to = { tensor_rows(out, 0, rows), 2 * rows * out.stride, 0, MATRICES };
    struct expert_matrices zeros = { tensor_rows(out, rows, rows), 4 * rows * out.stride, 0, 2 };
    p->op->experts_cast(p->device, to, from);
    p->op->experts_cast(p->device, zeros, (struct expert_matrices){ 0 });
    parity_output_exact(p, out);
}

// --- 4 bits ------------------------------------------------------------------

static int64_t pieces(int64_t count, int64_t size)
{
    return (count + size - 1) / size;
}

// Three matrices, each with its arrays in a stretch of bytes of its own.
static void experts_nf4(struct parity *p)
{
    enum { MATRICES = 3, UNIT = 256 };
    int64_t rows = p->shape->rows, columns = p->shape->columns, count = rows * columns;
    int64_t blocks = pieces(count, NF4_BLOCK);
    const int64_t bytes[] = { pieces(count, 2), blocks, 4 * pieces(blocks, NF4_NESTED_BLOCK),
                              4 * NF4_NESTED_LEVELS, 4 };
    int64_t at[6] = { 0 };
    for (int i = 0; i < 5; i++)
        at[i + 1] = at[i] + pieces(bytes[i], UNIT) * UNIT;
    char *all = parity_dense(p, DTYPE_F8, 1, MATRICES * at[5], false).at;
    struct tensor out = parity_room(p, p->dtype, MATRICES * rows, columns);
    struct tensor workspace = parity_dense(p, DTYPE_F32, 1, blocks + 1, false);
    struct quantized first = { 0 };
    for (int i = MATRICES; i-- > 0 && count;) {
        char *own = all + i * at[5];
        first = (struct quantized){ .codes = (uint8_t *)own,
                                    .nested_codes = (uint8_t *)own + at[1],
                                    .nested = (float *)(own + at[2]),
                                    .levels = (float *)(own + at[3]),
                                    .offset = (float *)(own + at[4]),
                                    .block = NF4_BLOCK,
                                    .nested_block = NF4_NESTED_BLOCK };
        p->op->quantize(p->device, &first, parity_random(p, p->dtype, rows, columns), workspace.at);
    }
    if (!count)
        return;
    struct expert_matrices to = { tensor_rows(out, 0, rows), rows * out.stride, 0, MATRICES };
    p->op->experts_dequantize(p->device, to, &first, at[5]);
    parity_output_exact(p, out);
}

static void experts_mxfp4(struct parity *p)
{
    enum { MATRICES = 3, UNIT = 256 };
    int64_t rows = p->shape->rows, columns = p->shape->columns, count = rows * columns;
    int64_t codes = pieces(pieces(count, 2), UNIT) * UNIT;
    int64_t step = codes + pieces(pieces(count, MXFP4_BLOCK), UNIT) * UNIT;
    uint8_t *all = parity_dense(p, DTYPE_F8, 1, MATRICES * step, false).at;
    struct tensor out = parity_room(p, p->dtype, MATRICES * rows, columns);
    struct quantized each = { .block = MXFP4_BLOCK, .is_mxfp4 = true };
    for (int i = MATRICES; i-- > 0 && count;) {
        each.codes = all + i * step;
        each.nested_codes = each.codes + codes;
        p->op->quantize(p->device, &each, parity_random(p, p->dtype, rows, columns), NULL);
        parity_output_bytes(p, each.codes, pieces(count, 2));
        parity_output_bytes(p, each.nested_codes, pieces(count, MXFP4_BLOCK));
    }
    if (!count)
        return;
    struct expert_matrices to = { tensor_rows(out, 0, rows), rows * out.stride, 0, MATRICES };
    p->op->experts_dequantize(p->device, to, &each, step);
    parity_output_exact(p, out);
}

static const struct parity_shape matrices_shapes[] = {
    { "64 × 256", 64, 256, 0, 0 },   { "13 × 301", 13, 301, 0, 0 }, { "29 × 512", 29, 512, 16, 48 },
    { "11 × 259", 11, 259, 3, 9 },   { "1 × 1", 1, 1, 0, 0 },       { "700 × 64", 700, 64, 0, 64 },
    { "5 × 14336", 5, 14336, 0, 0 }, { "none", 0, 64, 0, 0 },       { 0 },
};

const struct parity_case parity_mixture_cases[] = {
    { "router", router, routers, both },
    { "router, normalised", normalised_router, routers, both },
    { "combine", combine, matrices_shapes, both },
    { "swiglu of weighted rows", weighted_swiglu, matrices_shapes, both },
    { "swiglu within limits", swiglu_within_limits, matrices_shapes, both },
    { "biases of experts", experts_bias, products, both },
    { "experts nt", experts_nt, products, both },
    { "experts nn", experts_nn, products, both },
    { "experts tn", experts_tn, products, both },
    { "experts, tuned", tuned_experts, products, both },
    { "cast of experts", experts_cast, matrices_shapes, both },
    { "nf4 of experts", experts_nf4, matrices_shapes, both },
    { "mxfp4 of experts", experts_mxfp4, matrices_shapes, both },
    { 0 },
};
