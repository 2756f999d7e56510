// SPDX-License-Identifier: Apache-2.0
// The cases of all operations but products and attention.

#include "test/cuda/parity.h"

#include "train/nf4.h"

#include <stdio.h>
#include <stdlib.h>

static const struct tensor none;
static const struct swiglu plain_gate = { .slope = 1 };

static const enum dtype both[] = { DTYPE_F32, DTYPE_BF16, (enum dtype)PARITY_END };

static const struct parity_shape shapes[] = {
    { "dense 37 × 256", 37, 256, 0, 0 },      { "ragged 13 × 301", 13, 301, 0, 0 },
    { "strided 29 × 512", 29, 512, 16, 48 },  { "skewed 11 × 259", 11, 259, 3, 9 },
    { "wide 9 × 4096", 9, 4096, 0, 0 },       { "one 1 × 1", 1, 1, 0, 0 },
    { "narrow 1000 × 8", 1000, 8, 8, 16 },    { "none 0 × 64", 0, 64, 0, 0 },
    { "wider 3 × 14336", 3, 14336, 64, 128 }, { 0 },
};

static const struct parity_shape heads[] = {
    { "128 of 5", 21, 5 * 128, 0, 0 },    { "64 of 3", 33, 3 * 64, 64, 128 },
    { "10 of 4", 17, 4 * 10, 3, 7 },      { "96 of 2", 11, 2 * 96, 0, 0 },
    { "256 of 40", 5, 40 * 256, 0, 512 }, { 0 },
};

static const struct parity_shape vocabularies[] = {
    { "61", 9, 61, 0, 0 },
    { "strided 1000", 17, 1000, 8, 24 },
    { "32000", 5, 32000, 0, 0 },
    { "128256", 3, 128256, 0, 0 },
    { "skewed 50257", 4, 50257, 1, 3 },
    { "151936", 3, 151936, 8, 16 },
    { "262144", 2, 262144, 0, 0 },
    { 0 },
};

static const struct parity_shape dense_only[] = {
    { "37 × 256", 37, 256, 0, 0 },
    { "13 × 301", 13, 301, 0, 0 },
    { "1 × 1", 1, 1, 0, 0 },
    { "300 × 999", 300, 999, 0, 0 },
    { 0 },
};

static struct tensor random_like(struct parity *p)
{
    return parity_random(p, p->dtype, p->shape->rows, p->shape->columns);
}

static struct tensor room_like(struct parity *p)
{
    return parity_room(p, p->dtype, p->shape->rows, p->shape->columns);
}

// --- elements ----------------------------------------------------------------

static void zero(struct parity *p)
{
    struct tensor out = room_like(p);
    p->op->zero(p->device, out);
    parity_output_exact(p, out);
}

// To the host and back in both lanes, each of which is overwritten in between: whoever copies too
// late, or is not waited for, gives other numbers.
static void offload(struct parity *p)
{
    enum { LANES = 2 };
    int64_t rows = p->shape->rows, columns = p->shape->columns;
    struct tensor x[LANES];
    void *host[LANES] = { NULL, NULL };
    int64_t bytes = rows * columns * dtype_bytes(p->dtype);
    for (int i = 0; i < LANES && bytes; i++) {
        x[i] = parity_dense(p, p->dtype, rows, columns, true);
        if (p->op->pin(p->device, &host[i], bytes))
            return;
        p->op->scale(p->device, x[i], 2 + i);
        p->op->copy_out(p->device, i, host[i], x[i].at, bytes);
        p->op->copied(p->device, i);
        p->op->zero(p->device, x[i]);
        p->op->copy_in(p->device, i, x[i].at, host[i], bytes);
    }
    for (int i = 0; i < LANES && bytes; i++) {
        p->op->copied(p->device, i);
        p->op->scale(p->device, x[i], 0.5);
        parity_output(p, x[i]);
        p->op->unpin(p->device, host[i], bytes);
    }
}

static void cast(struct parity *p)
{
    static const enum dtype types[] = { DTYPE_F32, DTYPE_BF16, DTYPE_F64, DTYPE_F8 };
    struct tensor in = random_like(p);
    for (int i = 0; i < 4; i++) {
        struct tensor out = parity_room(p, types[i], in.rows, in.columns), back = room_like(p);
        p->op->cast(p->device, out, in);
        p->op->cast(p->device, back, out);
        parity_output_exact(p, out);
        parity_output_exact(p, back);
    }
}

static void fill(struct parity *p)
{
    static const enum fill kinds[] = { FILL_CONSTANT, FILL_NORMAL, FILL_UNIFORM };
    for (int i = 0; i < 3; i++) {
        struct tensor out = room_like(p);
        p->op->fill(p->device, out, kinds[i], 0.02, 77);
        parity_output(p, out);
    }
}

static void add(struct parity *p)
{
    struct tensor a = random_like(p), b = random_like(p), sum = room_like(p);
    p->op->add(p->device, sum, a, b);
    p->op->add(p->device, a, a, b); // in place
    parity_output_exact(p, sum);
    parity_output_exact(p, a);
}

static void bias_forward(struct parity *p)
{
    struct tensor y = random_like(p), bias = parity_dense(p, p->dtype, 1, y.columns, true);
    p->op->bias_forward(p->device, y, bias);
    parity_output_exact(p, y);
}

static void bias_backward(struct parity *p)
{
    struct tensor dy = random_like(p), dbias = parity_dense(p, p->dtype, 1, dy.columns, true);
    struct tensor wide = parity_dense(p, DTYPE_F32, 1, dy.columns, true);
    p->op->bias_backward(p->device, dbias, dy);
    p->op->bias_backward(p->device, wide, dy);
    parity_output(p, dbias);
    parity_output(p, wide);
}

static int32_t *permutation(struct parity *p, int64_t count, int64_t all)
{
    int32_t *host = malloc((size_t)(all + 1) * sizeof *host);
    for (int64_t i = 0; i < all; i++)
        host[i] = (int32_t)i;
    for (int64_t i = 0; i < count; i++) {
        int64_t j = i + (int64_t)parity_draw(p, (uint64_t)(all - i));
        int32_t other = host[j];
        host[j] = host[i];
        host[i] = other;
    }
    int32_t *at = parity_upload(p, host, count * (int64_t)sizeof *host);
    free(host);
    return at;
}

static void gather(struct parity *p)
{
    struct tensor in = random_like(p), out = parity_room(p, p->dtype, in.rows / 2, in.columns);
    p->op->gather(p->device, out, in, permutation(p, out.rows, in.rows));
    parity_output_exact(p, out);
}

static void scatter(struct parity *p)
{
    struct tensor in = random_like(p), out = parity_room(p, p->dtype, 2 * in.rows, in.columns);
    p->op->zero(p->device, out);
    p->op->scatter(p->device, out, in, permutation(p, in.rows, out.rows));
    parity_output_exact(p, out);
}

static void dropout(struct parity *p)
{
    struct tensor in = random_like(p), out = room_like(p);
    p->op->dropout(p->device, out, in, 0.1, 0x123456789ABCDEFu);
    parity_output(p, out);
}

static void embedding(struct parity *p)
{
    enum { VOCABULARY = 19 }; // so that ids come again
    struct tensor table = parity_random(p, p->dtype, VOCABULARY, p->shape->columns);
    struct tensor out = room_like(p), dout = random_like(p);
    struct tensor dtable = parity_random(p, DTYPE_F32, VOCABULARY, p->shape->columns);
    int32_t *ids = parity_integers(p, out.rows, VOCABULARY);
    p->op->embedding_forward(p->device, out, table, ids);
    p->op->embedding_backward(p->device, dtable, dout, ids);
    parity_output_exact(p, out);
    parity_output(p, dtable);
    if (p->dtype == DTYPE_BF16) {
        struct tensor small = parity_random(p, DTYPE_BF16, VOCABULARY, p->shape->columns);
        p->op->embedding_backward(p->device, small, dout, ids);
        parity_output(p, small);
    }
}

// --- norms, positions, activation --------------------------------------------

static void norms(struct parity *p, int64_t width, double offset)
{
    int64_t rows = p->shape->rows, columns = p->shape->columns;
    struct tensor a = random_like(p), b = random_like(p), sum = room_like(p), out = room_like(p);
    struct tensor alone = room_like(p), dout = random_like(p), dx = room_like(p);
    struct tensor weight = parity_dense(p, p->dtype, 1, width, true);
    struct tensor rms = parity_dense(p, DTYPE_F32, rows, columns / width, false);
    struct tensor other = parity_dense(p, DTYPE_F32, rows, columns / width, false);
    struct tensor dweight = parity_dense(p, DTYPE_F32, 1, width, true);
    p->op->norm_forward(p->device, sum, out, rms, a, b, weight, offset, 1e-5);
    p->op->norm_forward(p->device, none, alone, other, a, none, weight, offset, 1e-5);
    p->op->norm_backward(p->device, dx, dweight, b, dout, a, other, weight, offset);
    parity_output_exact(p, sum);
    parity_output(p, out);
    parity_output(p, rms);
    parity_output(p, alone);
    parity_output(p, dx);
    parity_output(p, dweight);
    p->op->norm_backward(p->device, b, none, b, dout, a, other, weight, offset); // in place
    p->op->norm_backward(p->device, dout, dweight, none, dout, a, other, weight, offset); // and so
    parity_output(p, b);
    parity_output(p, dout);
    parity_output(p, dweight);
}

static void norm(struct parity *p)
{
    norms(p, p->shape->columns, 0);
}

static int64_t head_size(const struct parity_shape *shape)
{
    return strtol(shape->name, NULL, 10);
}

static void norm_of_heads(struct parity *p)
{
    norms(p, head_size(p->shape), 0);
}

static void norm_with_an_offset(struct parity *p)
{
    norms(p, p->shape->columns, 1);
}

static void rotate(struct parity *p, int64_t rotated, double scale)
{
    int64_t size = head_size(p->shape);
    double frequencies[512], step = 0.83;
    for (int64_t i = 0; i < rotated / 2; i++)
        frequencies[i] = i ? frequencies[i - 1] * step : 1;
    struct tensor angles =
        tensor_of(parity_upload(p, frequencies, rotated / 2 * 8), DTYPE_F64, 1, rotated / 2);
    struct tensor x = random_like(p), y = random_like(p);
    int32_t *positions = parity_integers(p, x.rows, 131072);
    p->op->rotary(p->device, x, positions, angles, size, 1, scale);
    p->op->rotary(p->device, y, positions, angles, size, -1, scale);
    parity_output(p, x);
    parity_output(p, y);
}

static void rotary(struct parity *p)
{
    rotate(p, head_size(p->shape), 1);
}

static void rotary_of_a_part(struct parity *p)
{
    rotate(p, head_size(p->shape) / 4 * 2, 1.19);
}

static void swiglu(struct parity *p)
{
    struct tensor gate = random_like(p), up = random_like(p), out = room_like(p);
    struct tensor dout = random_like(p), dgate = room_like(p), dup = room_like(p);
    p->op->swiglu_forward(p->device, out, gate, up, none, plain_gate);
    p->op->swiglu_backward(p->device, dgate, dup, none, dout, gate, up, none, plain_gate);
    p->op->swiglu_backward(p->device, gate, up, none, dout, gate, up, none, plain_gate); // in place
    parity_output(p, out);
    parity_output(p, dgate);
    parity_output(p, dup);
    parity_output(p, gate);
    parity_output(p, up);
}

static void sinks(struct parity *p)
{
    int64_t count = p->shape->columns / head_size(p->shape);
    struct tensor out = random_like(p), dout = random_like(p);
    struct tensor lse = parity_dense(p, DTYPE_F32, p->shape->rows, count, true);
    struct tensor each = parity_dense(p, p->dtype, 1, count, true);
    struct tensor dsinks = parity_dense(p, DTYPE_F32, 1, count, true);
    p->op->sink_forward(p->device, out, lse, each);
    p->op->sink_backward(p->device, dsinks, dout, out, lse, each);
    parity_output(p, out);
    parity_output(p, lse);
    parity_output(p, dsinks);
}

static void geglu(struct parity *p)
{
    struct tensor gate = random_like(p), up = random_like(p), out = room_like(p);
    struct tensor dout = random_like(p), dgate = room_like(p), dup = room_like(p);
    p->op->geglu_forward(p->device, out, gate, up);
    p->op->geglu_backward(p->device, dgate, dup, dout, gate, up);
    p->op->geglu_backward(p->device, gate, up, dout, gate, up); // in place
    parity_output(p, out);
    parity_output(p, dgate);
    parity_output(p, dup);
    parity_output(p, gate);
    parity_output(p, up);
}

static void scale(struct parity *p)
{
    struct tensor x = random_like(p);
    p->op->scale(p->device, x, 1.7);
    parity_output(p, x);
}

// The shape is that of the outputs; a linear of so many columns has 40 inputs and a rank of 5.
static void magnitudes(struct parity *p)
{
    enum { RANK = 5, IN = 40 };
    int64_t out = p->shape->columns;
    struct tensor y = random_like(p), dy = random_like(p), w = parity_random(p, p->dtype, out, IN);
    struct tensor b = parity_random(p, p->dtype, out, RANK);
    struct tensor a = parity_random(p, p->dtype, RANK, IN);
    struct tensor norms = parity_dense(p, DTYPE_F32, 1, out, false);
    struct tensor m = parity_dense(p, DTYPE_F32, 1, out, true);
    struct tensor dm = parity_dense(p, DTYPE_F32, 1, out, true);
    p->op->zero(p->device, tensor_rows(w, 0, 1)); // a row of zeros has no direction
    p->op->zero(p->device, tensor_rows(b, 0, 1));
    p->op->row_norms(p->device, norms, w, b, a, 0.5);
    parity_output(p, norms);
    p->op->magnify_backward(p->device, dm, dy, y, m, norms);
    p->op->magnify(p->device, y, m, norms);
    parity_output(p, dm);
    parity_output(p, dy);
    parity_output(p, y);
}

// --- loss and updates --------------------------------------------------------

static void capped_cross_entropy(struct parity *p)
{
    struct tensor logits = random_like(p);
    struct tensor losses = parity_dense(p, DTYPE_F32, logits.rows, 1, false);
    int32_t *targets = parity_integers(p, logits.rows, (int32_t)logits.columns);
    p->op->scale(p->device, logits, 4);
    p->op->capped_cross_entropy(p->device, losses, logits, targets, 1.0 / 64, 3);
    parity_output(p, losses);
    parity_output(p, logits);
}

static void cross_entropy(struct parity *p)
{
    struct tensor logits = random_like(p),
                  losses = parity_dense(p, DTYPE_F32, logits.rows, 1, false);
    struct tensor again = random_like(p), exact = parity_dense(p, DTYPE_F64, logits.rows, 1, false);
    int32_t *targets = parity_integers(p, logits.rows, (int32_t)logits.columns);
    p->op->cross_entropy(p->device, losses, logits, targets, 1.0 / 64);
    p->op->cross_entropy(p->device, exact, again, targets, 1.0 / 64);
    parity_output(p, losses);
    parity_output(p, logits);
    parity_output(p, again);
}

static void weigh_rows(struct parity *p)
{
    struct tensor x = random_like(p), weights = parity_dense(p, DTYPE_F32, x.rows, 1, true);
    p->op->weigh_rows(p->device, x, weights);
    parity_output(p, x);
}

static void sums(struct parity *p)
{
    struct tensor in = parity_dense(p, p->dtype, p->shape->rows, p->shape->columns, true);
    struct tensor sum = parity_number(p, 3), squares = parity_number(p, 5);
    struct tensor scale = parity_number(p, 7), whole = parity_number(p, 7);
    p->op->sum(p->device, sum, in);
    p->op->sum_squares(p->device, squares, in);
    p->op->clip(p->device, scale, squares, 0.5);
    p->op->clip(p->device, whole, squares, 0);
    parity_output(p, sum);
    parity_output(p, squares);
    parity_output(p, scale);
    parity_output_exact(p, whole);
}

static void adamw(struct parity *p)
{
    int64_t rows = p->shape->rows, columns = p->shape->columns;
    struct tensor weight = parity_dense(p, p->dtype, rows, columns, true);
    struct tensor gradient = parity_dense(p, p->dtype, rows, columns, true);
    struct tensor m = parity_dense(p, p->dtype, rows, columns, true);
    struct tensor v = parity_dense(p, p->dtype, rows, columns, false);
    p->op->fill(p->device, v, FILL_CONSTANT, 0.25, 0);
    struct adamw adamw = { 1e-3, 0.9, 0.999, 1e-8, 0.01, 7, 4711, 3 };
    struct tensor scale = parity_number(p, 0.75);
    p->op->adamw(p->device, weight, m, v, gradient, &adamw, scale);
    parity_output(p, weight);
    parity_output(p, m);
    parity_output(p, v);
    struct tensor master =
        parity_dense(p, DTYPE_F32, rows, columns, true); // fp32 of bf16 gradients
    struct tensor first = parity_dense(p, DTYPE_F32, rows, columns, true);
    struct tensor second = parity_dense(p, DTYPE_F32, rows, columns, false);
    p->op->zero(p->device, second);
    p->op->adamw(p->device, master, first, second, gradient, &adamw, scale);
    parity_output(p, master);
    parity_output(p, first);
    parity_output(p, second);
}

static void sgd(struct parity *p)
{
    int64_t rows = p->shape->rows, columns = p->shape->columns;
    struct tensor weight = parity_dense(p, p->dtype, rows, columns, true);
    struct tensor moment = parity_dense(p, p->dtype, rows, columns, true);
    struct tensor gradient = parity_dense(p, p->dtype, rows, columns, true);
    struct tensor scale = parity_number(p, 0.75);
    p->op->sgd(p->device, weight, moment, gradient, 0.01, 0.9, 0.1, scale);
    p->op->sgd(p->device, weight, none, gradient, 0.01, 0, 0, scale);
    parity_output(p, weight);
    parity_output(p, moment);
}

// --- few bits ----------------------------------------------------------------

static int64_t pieces(int64_t count, int64_t size)
{
    return (count + size - 1) / size;
}

static void nf4(struct parity *p)
{
    struct tensor in = random_like(p), out = room_like(p), plain = room_like(p);
    int64_t count = tensor_count(in), blocks = pieces(count, NF4_BLOCK);
    int64_t nested = pieces(blocks, NF4_NESTED_BLOCK);
    struct tensor codes = parity_dense(p, DTYPE_F8, 1, pieces(count, 2), false);
    struct tensor bytes = parity_dense(p, DTYPE_F8, 1, blocks, false);
    struct tensor tops = parity_dense(p, DTYPE_F32, 1, nested, false);
    struct tensor levels = parity_dense(p, DTYPE_F32, 1, NF4_NESTED_LEVELS, false);
    struct tensor offset = parity_dense(p, DTYPE_F32, 1, 1, false);
    struct tensor scales = parity_dense(p, DTYPE_F32, 1, blocks, true);
    struct tensor workspace = parity_dense(p, DTYPE_F32, 1, blocks, false);
    struct quantized q = { .codes = codes.at,
                           .nested_codes = bytes.at,
                           .nested = tops.at,
                           .levels = levels.at,
                           .offset = offset.at,
                           .block = NF4_BLOCK,
                           .nested_block = NF4_NESTED_BLOCK };
    p->op->quantize(p->device, &q, in, workspace.at);
    p->op->dequantize(p->device, out, &q);
    struct quantized not_nested = { .codes = codes.at, .scales = scales.at, .block = NF4_BLOCK };
    p->op->dequantize(p->device, plain, &not_nested);
    parity_output_exact(p, codes);
    if (!count)
        return;
    parity_output_exact(p, bytes);
    parity_output_exact(p, tops);
    parity_output_exact(p, levels);
    parity_output_exact(p, offset);
    parity_output_exact(p, out);
    parity_output_exact(p, plain);
}

static void quantize_rows(struct parity *p)
{
    struct tensor in = random_like(p);
    int64_t rows = in.rows, columns = in.columns;
    struct tensor codes = parity_room(p, DTYPE_F8, rows, columns);
    struct tensor transposed = parity_room(p, DTYPE_F8, columns, rows);
    struct tensor scales = parity_dense(p, DTYPE_F32, rows, 1, false);
    struct tensor transposed_scales = parity_dense(p, DTYPE_F32, columns, 1, false);
    if (!rows)
        return;
    p->op->quantize_rows(p->device, codes, scales, in, false);
    p->op->quantize_rows(p->device, transposed, transposed_scales, in, true);
    parity_output_exact(p, codes);
    parity_output_exact(p, scales);
    parity_output_exact(p, transposed);
    parity_output_exact(p, transposed_scales);
}

static void adapters_in_fp8(struct parity *p)
{
    enum { RANKS = 24, BEHIND = 80 };
    struct tensor in = random_like(p);
    int64_t rows = in.rows, columns = in.columns;
    struct tensor b = parity_random(p, p->dtype, rows, RANKS);
    struct tensor turned = parity_random(p, p->dtype, RANKS, rows);
    struct tensor z = parity_random(p, p->dtype, rows, RANKS);
    struct tensor weights = parity_room(p, DTYPE_F8, rows, columns);
    struct tensor codes = parity_room(p, DTYPE_F8, rows, columns + BEHIND);
    struct tensor behind = parity_room(p, DTYPE_F8, rows, 3 * RANKS);
    struct tensor other = parity_room(p, DTYPE_F8, rows, 3 * RANKS);
    struct tensor scales = parity_dense(p, DTYPE_F32, rows, 1, false);
    struct tensor own = parity_dense(p, DTYPE_F32, rows, 1, false);
    struct tensor shifts = parity_dense(p, DTYPE_F32, 1, RANKS, false);
    struct tensor other_shifts = parity_dense(p, DTYPE_F32, 1, RANKS, false);
    if (!rows)
        return;
    p->op->quantize_rows(p->device, weights, scales, in, false);
    p->op->quantize_adapters(p->device, behind, shifts, b, false, scales);
    p->op->quantize_adapters(p->device, other, other_shifts, turned, true, scales);
    p->op->quantize_inputs(p->device, codes, own, in, z, shifts);
    parity_output_exact(p, behind);
    parity_output_exact(p, shifts);
    parity_output_exact(p, other);
    parity_output_exact(p, other_shifts);
    parity_output_exact(p, codes);
    parity_output_exact(p, own);
}

const struct parity_case parity_cases[] = {
    { "zero", zero, shapes, both },
    { "cast", cast, shapes, both },
    { "fill", fill, shapes, both },
    { "offload", offload, shapes, both },
    { "add", add, shapes, both },
    { "bias forward", bias_forward, shapes, both },
    { "bias backward", bias_backward, shapes, both },
    { "gather", gather, shapes, both },
    { "scatter", scatter, shapes, both },
    { "dropout", dropout, shapes, both },
    { "embedding", embedding, shapes, both },
    { "norm", norm, shapes, both },
    { "norm with an offset", norm_with_an_offset, shapes, both },
    { "norm of heads", norm_of_heads, heads, both },
    { "rotary", rotary, heads, both },
    { "rotary of a part", rotary_of_a_part, heads, both },
    { "swiglu", swiglu, shapes, both },
    { "sinks", sinks, heads, both },
    { "geglu", geglu, shapes, both },
    { "scale", scale, shapes, both },
    { "magnitudes", magnitudes, shapes, both },
    { "cross entropy", cross_entropy, vocabularies, both },
    { "cross entropy, capped", capped_cross_entropy, vocabularies, both },
    { "weights of rows", weigh_rows, shapes, both },
    { "sum, squares, clip", sums, dense_only, both },
    { "adamw", adamw, dense_only, both },
    { "sgd", sgd, dense_only, both },
    { "nf4", nf4, shapes, both },
    { "quantize rows", quantize_rows, shapes, both },
    { "adapters in fp8", adapters_in_fp8, shapes, both },
    { 0 },
};

// --- what has no counterpart on the CPU --------------------------------------

enum err parity_limits(struct device *gpu, char *problem, int64_t size)
{
    const struct backend *op = gpu->backend;
    int64_t bytes = 100000007; // more than the ring holds, and odd
    void *at, *too_much;
    int64_t before = gpu->allocated_bytes;
    enum err err = op->allocate(gpu, &too_much, (int64_t)1 << 50);
    snprintf(problem, (size_t)size, "(\"%s\")", error_text());
    if (err != ERR_MEMORY || gpu->allocated_bytes != before)
        return ERR_ANSWER;
    TRY(op->allocate(gpu, &at, bytes));
    unsigned char *host = malloc((size_t)bytes), *back = malloc((size_t)bytes);
    for (int64_t i = 0; i < bytes; i++)
        host[i] = (unsigned char)(i * 2654435761u >> 11);
    op->upload(gpu, at, host, bytes);
    op->download(gpu, back, at, bytes);
    err = memcmp(host, back, (size_t)bytes) ? ERR_ANSWER : op->sync(gpu);
    op->release(gpu, at, bytes);
    free(host);
    free(back);
    return gpu->allocated_bytes == before ? err : ERR_ANSWER;
}
