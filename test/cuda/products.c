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

static int64_t depth_of(struct parity *p)
{
    return strtol(p->shape->name, NULL, 10);
}

typedef void (*product)(struct device *, struct tensor, struct tensor, struct tensor, double,
                        double);

static void products(struct parity *p, product multiply, bool a_turned, bool b_turned)
{
    int64_t m = p->shape->rows, n = p->shape->columns, k = depth_of(p);
    struct tensor a = parity_random(p, p->dtype, a_turned ? k : m, a_turned ? m : k);
    struct tensor b = parity_random(p, p->dtype, b_turned ? n : k, b_turned ? k : n);
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

// What tuning chooses gives the bits of what there was before it, for this shape and for others.
static void tuning(struct parity *p)
{
    int64_t m = p->shape->rows, n = p->shape->columns, k = depth_of(p);
    struct tensor a = parity_random(p, p->dtype, m, k), b = parity_random(p, p->dtype, n, k);
    struct tensor c = parity_room(p, p->dtype, m, n), d = parity_room(p, p->dtype, m, n);
    struct tensor part = parity_room(p, p->dtype, m, n), sum = parity_random(p, p->dtype, m, n);
    if (p->op->tune)
        p->op->tune(p->device, true);
    p->op->matmul_nt(p->device, c, a, b, 1, 0);
    if (p->op->tune)
        p->op->tune(p->device, false);
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
    { "128", 8, 2, 1, 0 },      { "64", 4, 4, 5, 0 }, { "128 of many", 4, 1, 9, 0 },
    { "64 seen", 6, 3, 3, 50 }, { "32", 2, 1, 4, 0 }, { 0 },
};

static const struct parity_shape dense = { "dense", 0, 0, 0, 0 };

static void attention(struct parity *p)
{
    enum { MOST = 16 };
    const struct parity_shape *shape = p->shape;
    struct attention a = { .heads = shape->rows,
                           .kv_heads = shape->columns,
                           .head_size = depth_of(p),
                           .window = shape->extra,
                           .span_count = shape->offset };
    struct span spans[MOST];
    for (int64_t i = 0; i < a.span_count; i++) {
        int32_t size = i == 1 ? 1 : 1 + (int32_t)parity_draw(p, 200);
        spans[i] = (struct span){ (int32_t)a.tokens, size };
        a.tokens += size;
        a.longest = size > a.longest ? size : a.longest;
    }
    a.host_spans = spans;
    a.spans = parity_upload(p, spans, a.span_count * (int64_t)sizeof *spans);
    p->shape = &dense;
    int64_t q_width = a.heads * a.head_size, kv_width = a.kv_heads * a.head_size;
    struct tensor qkv = parity_dense(p, p->dtype, a.tokens, q_width + 2 * kv_width, true);
    struct tensor dqkv = parity_dense(p, p->dtype, a.tokens, q_width + 2 * kv_width, false);
    struct tensor out = parity_dense(p, p->dtype, a.tokens, q_width, false);
    struct tensor dout = parity_dense(p, p->dtype, a.tokens, q_width, true);
    struct tensor lse = parity_dense(p, DTYPE_F32, a.tokens, a.heads, false);
    struct tensor q = tensor_columns(qkv, 0, q_width), k = tensor_columns(qkv, q_width, kv_width);
    struct tensor v = tensor_columns(qkv, q_width + kv_width, kv_width);
    struct tensor room =
        parity_dense(p, DTYPE_F8, 1, p->op->attention_bytes(p->device, &a, p->dtype) + 256, false);
    p->op->attention_begin(p->device, &a, room.at);
    p->op->attention_forward(p->device, out, lse, q, k, v, &a, room.at);
    p->op->attention_backward(
        p->device, tensor_columns(dqkv, 0, q_width), tensor_columns(dqkv, q_width, kv_width),
        tensor_columns(dqkv, q_width + kv_width, kv_width), dout, out, lse, q, k, v, &a, room.at);
    parity_output(p, out);
    parity_output(p, lse);
    parity_output(p, dqkv);
}

const struct parity_case parity_product_cases[] = {
    { "matmul nt", matmul_nt, shapes, both },
    { "matmul nn", matmul_nn, shapes, both },
    { "matmul tn", matmul_tn, shapes, both },
    { "tuning", tuning, shapes, both },
    { "matmul scaled", matmul_scaled, fp8_shapes, bf16_only },
    { "attention", attention, documents, both },
    { 0 },
};
