// SPDX-License-Identifier: Apache-2.0
// attention_case: random queries, keys and values in fp64, whose attention a test differentiates.
//
//     struct attention_case a = attention_case((struct attention){ .spans = s, .span_count = 2 });
//     attention_check(&a, 5); // the gradients of every fifth element

#pragma once

#include "test/train/gradient.h"

struct attention_case {
    struct tensor q, k, v, out, lse, cotangent;
    struct attention shape;
    void *workspace;
};

static inline double attention_loss(void *context)
{
    struct attention_case *a = context;
    OP(attention_forward)
    (gradient_device(), a->out, a->lse, a->q, a->k, a->v, &a->shape, a->workspace);
    return gradient_dot(a->out, a->cotangent);
}

// Of the spans, window, scale and cap in `shape`, which is filled in.
static inline struct attention_case attention_case(struct attention shape)
{
    enum { H = 4, K = 2, D = 3 };
    const struct span *spans = shape.spans, *last = &spans[shape.span_count - 1];
    int64_t tokens = last->start + last->size;
    shape.host_spans = spans;
    shape.tokens = tokens;
    shape.heads = H;
    shape.kv_heads = K;
    shape.head_size = D;
    for (int i = 0; i < shape.span_count; i++)
        shape.longest = spans[i].size > shape.longest ? spans[i].size : shape.longest;
    return (struct attention_case){
        .q = gradient_random(tokens, H * D, 1),
        .k = gradient_random(tokens, K * D, 2),
        .v = gradient_random(tokens, K * D, 3),
        .out = gradient_random(tokens, H * D, 4),
        .lse = gradient_random(tokens, H, 5),
        .cotangent = gradient_random(tokens, H * D, 6),
        .shape = shape,
        .workspace = arena_alloc(&test_arena,
                                 (size_t)OP(attention_bytes)(gradient_device(), &shape, DTYPE_F64)),
    };
}

// Holds the gradients of every stride-th query, key and value against differences.
static inline void attention_check(struct attention_case *a, int64_t stride)
{
    struct tensor dq = gradient_random(a->q.rows, a->q.columns, 7);
    struct tensor dk = gradient_random(a->k.rows, a->k.columns, 8);
    struct tensor dv = gradient_random(a->v.rows, a->v.columns, 9);
    attention_loss(a);
    OP(attention_backward)
    (gradient_device(), dq, dk, dv, a->cotangent, a->out, a->lse, a->q, a->k, a->v, &a->shape,
     a->workspace);
    CHECK(gradient_error(a->q, dq, stride, attention_loss, a) < GRADIENT_BOUND);
    CHECK(gradient_error(a->k, dk, stride, attention_loss, a) < GRADIENT_BOUND);
    CHECK(gradient_error(a->v, dv, stride, attention_loss, a) < GRADIENT_BOUND);
}
