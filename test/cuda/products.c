// SPDX-License-Identifier: Apache-2.0
// The cases of matrix products and of attention.

#include "test/cuda/parity.h"

#include <stdio.h>
#include <stdlib.h>

static const enum dtype both[] = { DTYPE_F32, DTYPE_BF16, (enum dtype)PARITY_END };
static const enum dtype bf16_only[] = { DTYPE_BF16, (enum dtype)PARITY_END };

// Rows are M, columns N; the depth is in the name.
static const struct parity_shape shapes[] = {
    { "128 deep, 96 × 160", 96, 160, 0, 0 },
    { "303 deep, 57 × 71", 57, 71, 0, 0 },
    { "256 deep, skinny", 200, 16, 0, 0 },
    { "16 deep, skinny", 160, 256, 0, 0 },
    { "304 deep, strided", 80, 144, 16, 48 },
    { "65 deep, skewed", 33, 35, 3, 5 },
    { "1 deep, thin", 7, 9, 0, 0 },
    { "512 deep, a row", 1, 64, 0, 0 },
    { "4144 deep, as augmented", 64, 128, 0, 48 },
    { "64 deep, none", 0, 64, 0, 0 },
    { 0 },
};

static const struct parity_shape fp8_shapes[] = {
    { "128 deep", 96, 160, 0, 0 },
    { "4096 deep", 33, 64, 0, 0 },
    { "256 deep, strided", 80, 144, 16, 48 },
    { "64 deep, a row", 1, 16, 0, 0 },
    { 0 },
};

// Rows are tokens; the rank is in the name.
static const struct parity_shape adapter_shapes[] = {
    { "16 wide, dense", 333, 3000, 0, 0 },
    { "16 wide, strided", 77, 2056, 16, 48 },
    { "16 wide, 4096 tokens", 4096, 2100, 0, 64 },
    { "16 wide, ragged columns", 50, 1203, 0, 8 },
    { "16 wide, skewed", 33, 500, 3, 9 },
    { "16 wide, few", 5, 40, 0, 8 },
    { "8 wide, a token", 1, 600, 0, 64 },
    { "8 wide, strided", 100, 190, 8, 16 },
    { "32 wide, 1000 tokens", 1000, 1600, 8, 16 },
    { "32 wide, strided", 19, 1000, 8, 24 },
    { "64 wide, dense", 100, 512, 0, 0 },
    { "4 wide, dense", 40, 96, 0, 0 },
    { "16 wide, none", 0, 64, 0, 0 },
    { 0 },
};

// So many tokens that the workspace does not hold the partial sums of all.
static const struct parity_shape many_tokens[] = {
    { "32 wide", 152001, 40, 0, 0 },
    { 0 },
};

static int64_t depth_of(struct parity *p)
{
    return strtol(p->shape->name, NULL, 10);
}

typedef void (*product)(struct device *, struct tensor, struct tensor, struct tensor, double,
                        double);

static void products(struct parity *p, product multiply, bool a_transposed, bool b_transposed)
{
    int64_t m = p->shape->rows, n = p->shape->columns, k = depth_of(p);
    struct tensor a = parity_random(p, p->dtype, a_transposed ? k : m, a_transposed ? m : k);
    struct tensor b = parity_random(p, p->dtype, b_transposed ? n : k, b_transposed ? k : n);
    struct tensor c = parity_room(p, p->dtype, m, n), sum = parity_random(p, p->dtype, m, n);
    struct tensor wide = parity_room(p, DTYPE_F32, m, n);
    struct tensor more = parity_random(p, DTYPE_F32, m, n);
    multiply(p->device, c, a, b, 1, 0);
    multiply(p->device, sum, a, b, 0.5, 1);
    multiply(p->device, wide, a, b, 2, 0);
    multiply(p->device, more, a, b, 1, 1);
    parity_output(p, c);
    parity_output(p, sum);
    parity_output(p, wide);
    parity_output(p, more);
}

static void matmul_nt(struct parity *p)
{
    products(p, p->op->matmul_nt, false, true);
}

static void matmul_nn(struct parity *p)
{
    products(p, p->op->matmul_nn, false, false);
}

static void matmul_tn(struct parity *p)
{
    products(p, p->op->matmul_tn, true, false);
}

// Adapters of the first half of the columns, of a quarter, and of what is left after a gap; the
// last columns of z belong to none.
static void adapters_backward(struct parity *p)
{
    int64_t tokens = p->shape->rows, out = p->shape->columns, rank = depth_of(p);
    int64_t half = out / 16 * 8, quarter = out / 32 * 8, gap = half + quarter + 8;
    int64_t firsts[] = { 0, half, gap }, outs[] = { half, quarter, out - gap };
    int64_t ranks = 3 * rank + 8;
    struct tensor dy = parity_random(p, p->dtype, tokens, (out + 7) / 8 * 8);
    struct tensor z = parity_random(p, p->dtype, tokens, ranks);
    struct tensor dz = parity_room(p, p->dtype, tokens, ranks);
    struct tensor b = parity_room(p, p->dtype, out, ranks);
    struct adapter_part parts[3];
    p->op->zero(p->device, b);
    for (int i = 0; i < 3; i++) {
        struct tensor own = tensor_columns(tensor_rows(b, firsts[i], outs[i]), i * rank, rank);
        p->op->cast(p->device, own, parity_random(p, p->dtype, outs[i], rank));
        parts[i] = (struct adapter_part){ firsts[i], i * rank,
                                          parity_random(p, DTYPE_F32, outs[i], rank) };
    }
    p->op->adapters_backward(p->device, dz, parts, 3, tensor_columns(dy, 0, out), b, z, 0.5);
    parity_output(p, dz);
    for (int i = 0; i < 3; i++)
        parity_output(p, parts[i].db);
}

// What tuning chooses gives the bits of what there was before it, for this shape and for others.
static void tuning(struct parity *p)
{
    int64_t m = p->shape->rows, n = p->shape->columns, k = depth_of(p);
    struct tensor a = parity_random(p, p->dtype, m, k), b = parity_random(p, p->dtype, n, k);
    struct tensor c = parity_room(p, p->dtype, m, n), d = parity_room(p, p->dtype, m, n);
    struct tensor part = parity_room(p, p->dtype, m, n), sum = parity_random(p, p->dtype, m, n);
    if (p->op->tune)
        p->op->tune(p->device, TUNE_NOW);
    p->op->matmul_nt(p->device, c, a, b, 1, 0);
    if (p->op->tune)
        p->op->tune(p->device, TUNE_OFF);
    p->op->matmul_nt(p->device, d, a, b, 1, 0);
    p->op->matmul_nt(p->device, sum, a, b, 1, 1);
    parity_output(p, c);
    parity_output(p, d);
    parity_output(p, sum);
    if (m < 2)
        return;
    p->op->matmul_nt(p->device, tensor_rows(part, 0, m - 1), tensor_rows(a, 0, m - 1), b, 1, 0);
    parity_output(p, tensor_rows(part, 0, m - 1));
}

// The same where the trials come later, in a room of their own and a few at a time: before, between
// and after them the bits are the same. Of another kind of product: what tuning() chose waits for
// no trials. The second run has the choice from its beginning, the first one from the third part on
// at the latest; so equal bits of both runs are equal bits of the first offer and of the choice.
// The room was zeros and is again.
static void tuning_later(struct parity *p)
{
    enum { PARTS = 4 };
    int64_t m = p->shape->rows, n = p->shape->columns, k = depth_of(p);
    struct tensor a = parity_random(p, p->dtype, m, k), b = parity_random(p, p->dtype, k, n);
    struct tensor room =
        parity_dense(p, DTYPE_F8, 1, 16 * ((m + n) * k + m * n) + (1 << 20), false);
    struct tensor c[PARTS];
    p->op->zero(p->device, room);
    for (int i = 0; i < PARTS; i++) {
        c[i] = parity_room(p, p->dtype, m, n);
        if (p->op->tune)
            p->op->tune(p->device, i ? TUNE_OFF : TUNE_LATER);
        p->op->matmul_nn(p->device, c[i], a, b, 1, 0);
        parity_output(p, c[i]);
        if (p->op->tune)
            p->op->tune_some(p->device, room.at, room.columns, i < 2 ? 1e-5 : 10);
    }
    parity_output_bytes(p, room.at, room.columns);
}

// A product of zeros has the same bits by any algorithm, as those with fresh adapters have: it
// waits for its trials. The second run has the choice from its beginning, so equal bits of both
// runs are equal bits of the first offer and of the choice.
static void tuning_zeros(struct parity *p)
{
    int64_t m = p->shape->rows, n = p->shape->columns, k = depth_of(p);
    struct tensor a = parity_random(p, p->dtype, k, m), b = parity_random(p, p->dtype, k, n);
    struct tensor zeros = parity_room(p, p->dtype, k, m);
    struct tensor room =
        parity_dense(p, DTYPE_F8, 1, 16 * ((m + n) * k + m * n) + (1 << 20), false);
    struct tensor c = parity_room(p, p->dtype, m, n), d = parity_room(p, p->dtype, m, n);
    p->op->zero(p->device, room);
    p->op->zero(p->device, zeros);
    if (p->op->tune)
        p->op->tune(p->device, TUNE_NOW);
    p->op->matmul_tn(p->device, d, zeros, b, 1, 0);
    parity_output(p, d);
    if (p->op->tune)
        p->op->tune(p->device, TUNE_OFF);
    p->op->matmul_tn(p->device, c, a, b, 1, 0);
    parity_output(p, c);
    if (p->op->tune)
        p->op->tune_some(p->device, room.at, room.columns, 10);
    p->op->matmul_tn(p->device, d, a, b, 1, 0);
    parity_output(p, d);
}

static void matmul_scaled(struct parity *p)
{
    int64_t m = p->shape->rows, n = p->shape->columns, k = depth_of(p);
    struct tensor a = parity_random(p, DTYPE_BF16, m, k), b = parity_random(p, DTYPE_BF16, n, k);
    struct tensor a8 = parity_room(p, DTYPE_F8, m, k), b8 = parity_room(p, DTYPE_F8, n, k);
    struct tensor a_scales = parity_dense(p, DTYPE_F32, m, 1, false);
    struct tensor b_scales = parity_dense(p, DTYPE_F32, n, 1, false);
    struct tensor c = parity_room(p, p->dtype, m, n), sum = parity_random(p, p->dtype, m, n);
    p->op->quantize_rows(p->device, a8, a_scales, a, false);
    p->op->quantize_rows(p->device, b8, b_scales, b, false);
    p->op->matmul_scaled(p->device, c, a8, a_scales, b8, b_scales, 0);
    p->op->matmul_scaled(p->device, sum, a8, a_scales, b8, b_scales, 1);
    parity_output(p, c);
    parity_output(p, sum);
}

// --- attention ---------------------------------------------------------------

// Rows are the heads, columns the key/value heads, the head's size is in the name; extra is the
// window, offset the number of documents.
static const struct parity_shape documents[] = {
    { "128", 8, 2, 1, 0 },       { "64", 4, 4, 5, 0 },  { "128 of many", 4, 1, 9, 0 },
    { "64 seen", 6, 3, 3, 50 },  { "32", 2, 1, 4, 0 },  { "256", 4, 2, 4, 0 },
    { "256 seen", 4, 1, 6, 33 }, { "192", 2, 2, 3, 0 }, { 0 },
};

// Heads of 128 on compute capability 9.0 have a kernel of their own: groups of 1, 4 and 7.
static const struct parity_shape lengths_of_128[] = {
    { "128", 4, 4, 9, 0 },
    { "128 groups of 4", 8, 2, 9, 0 },
    { "128 groups of 7", 7, 1, 9, 0 },
    { 0 },
};

// A document, or some that are cut where there is little room; many.
static const struct parity_shape one_of_128[] = { { "128", 8, 2, 1, 0 }, { 0 } };
static const struct parity_shape some_of_128[] = { { "128", 16, 4, 4, 0 }, { 0 } };
static const struct parity_shape many_of_128[] = { { "128", 4, 2, 100, 0 }, { 0 } };

static const struct parity_shape dense = { "dense", 0, 0, 0, 0 };

// A tensor that is followed by as many rows as a tile has, which hold no numbers.
static struct tensor before_none(struct parity *p, enum dtype dtype, int64_t rows, int64_t columns,
                                 bool random)
{
    enum { TILE = 128 };
    struct tensor all = parity_dense(p, dtype, rows + TILE, columns, false); // every bit set
    struct tensor out = tensor_rows(all, 0, rows);
    if (random)
        p->op->cast(p->device, out, parity_dense(p, dtype, rows, columns, true));
    return out;
}

// What a case asks for beside the shape. sizes: of the documents in turn; NULL: they are drawn, but
// the second has one token.
struct attended {
    double scale, cap;
    const int32_t *sizes;
    int64_t card_bytes; // 0: as it is
    struct tensor (*make)(struct parity *, enum dtype, int64_t, int64_t, bool);
};

// The layers of a micro-batch may have windows: it begins without one.
static void attend(struct parity *p, struct attended of)
{
    enum { MOST = 128 };
    const struct parity_shape *shape = p->shape;
    struct tensor (*make)(struct parity *, enum dtype, int64_t, int64_t, bool) = of.make;
    struct attention a = { .heads = shape->rows,
                           .kv_heads = shape->columns,
                           .head_size = depth_of(p),
                           .span_count = shape->offset,
                           .scale = of.scale,
                           .cap = of.cap };
    struct span spans[MOST];
    for (int64_t i = 0; i < a.span_count; i++) {
        int32_t drawn = i == 1 ? 1 : 1 + (int32_t)parity_draw(p, 200);
        spans[i] = (struct span){ (int32_t)a.tokens, of.sizes ? of.sizes[i] : drawn };
        a.tokens += spans[i].size;
        a.longest = spans[i].size > a.longest ? spans[i].size : a.longest;
    }
    a.host_spans = spans;
    a.spans = parity_upload(p, spans, a.span_count * (int64_t)sizeof *spans);
    p->shape = &dense;
    int64_t q_width = a.heads * a.head_size, kv_width = a.kv_heads * a.head_size;
    struct tensor qkv = make(p, p->dtype, a.tokens, q_width + 2 * kv_width, true);
    struct tensor dqkv = make(p, p->dtype, a.tokens, q_width + 2 * kv_width, false);
    struct tensor out = make(p, p->dtype, a.tokens, q_width, false);
    struct tensor dout = make(p, p->dtype, a.tokens, q_width, true);
    struct tensor lse = make(p, DTYPE_F32, a.tokens, a.heads, false);
    struct tensor q = tensor_columns(qkv, 0, q_width), k = tensor_columns(qkv, q_width, kv_width);
    struct tensor v = tensor_columns(qkv, q_width + kv_width, kv_width);
    int64_t card_bytes = p->device->total_bytes;
    p->device->total_bytes = of.card_bytes ? of.card_bytes : card_bytes;
    struct tensor room =
        parity_dense(p, DTYPE_F8, 1, p->op->attention_bytes(p->device, &a, p->dtype) + 256, false);
    p->device->total_bytes = card_bytes;
    p->op->attention_begin(p->device, &a, room.at);
    a.window = shape->extra;
    p->op->attention_forward(p->device, out, lse, q, k, v, &a, room.at);
    p->op->attention_backward(
        p->device, tensor_columns(dqkv, 0, q_width), tensor_columns(dqkv, q_width, kv_width),
        tensor_columns(dqkv, q_width + kv_width, kv_width), dout, out, lse, q, k, v, &a, room.at);
    parity_output(p, out);
    parity_output(p, lse);
    parity_output(p, dqkv);
}

static void attention(struct parity *p)
{
    attend(p, (struct attended){ .make = parity_dense });
}

// What lies after the last document does not matter, even if it is not a number.
static void attention_before_none(struct parity *p)
{
    attend(p, (struct attended){ .make = before_none });
}

// Documents as long as a plan of cuDNN has them.
static void even_attention(struct parity *p)
{
    static const int32_t even[] = { 256, 256, 256, 256, 256, 256, 256, 256, 256 };
    attend(p, (struct attended){ .sizes = even, .make = parity_dense });
}

static void scaled_attention(struct parity *p)
{
    attend(p, (struct attended){ .scale = 0.05, .make = parity_dense });
}

static void capped_attention(struct parity *p)
{
    attend(p, (struct attended){ .scale = 0.15, .cap = 2, .make = parity_dense });
}

// Around blocks of 64 queries and 128 keys, followed by what is not a number.
static void lengths_of_attention(struct parity *p)
{
    static const int32_t around[] = { 1, 63, 64, 65, 127, 129, 128, 500, 321 };
    attend(p, (struct attended){ .sizes = around, .make = before_none });
}

static void one_long_document(struct parity *p)
{
    static const int32_t one[] = { 1900 };
    attend(p, (struct attended){ .sizes = one, .make = before_none });
}

// On a card so small that cuDNN would cut the long ones, and our own kernel takes few heads at
// once.
static void attention_in_little_room(struct parity *p)
{
    static const int32_t some[] = { 1500, 100, 1030, 1 };
    attend(p, (struct attended){ .sizes = some, .card_bytes = 300 << 20, .make = parity_dense });
}

const struct parity_case parity_product_cases[] = {
    { "matmul nt", matmul_nt, shapes, both },
    { "matmul nn", matmul_nn, shapes, both },
    { "matmul tn", matmul_tn, shapes, both },
    { "adapters backward", adapters_backward, adapter_shapes, both },
    { "adapters in pieces", adapters_backward, many_tokens, bf16_only },
    { "tuning", tuning, shapes, both },
    { "tuning later", tuning_later, shapes, both },
    { "tuning zeros", tuning_zeros, shapes, both },
    { "matmul scaled", matmul_scaled, fp8_shapes, bf16_only },
    { "attention", attention, documents, both },
    { "attention before none", attention_before_none, documents, both },
    { "attention, even", even_attention, documents, both },
    { "attention, scaled", scaled_attention, documents, both },
    { "attention, capped", capped_attention, documents, both },
    { "attention, lengths", lengths_of_attention, lengths_of_128, both },
    { "attention, long", one_long_document, one_of_128, bf16_only },
    { "attention, many", attention, many_of_128, bf16_only },
    { "attention, little room", attention_in_little_room, some_of_128, bf16_only },
    { 0 },
};
