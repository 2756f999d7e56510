// SPDX-License-Identifier: Apache-2.0
// The operations that only some models and adapters need, against differences in fp64: GELU's gate,
// soft caps of scores and logits, magnitudes.

#include "test/train/attention_case.h"

// --- GELU's gate -------------------------------------------------------------

struct geglu_case {
    struct tensor out, gate, up, cotangent;
};

static double geglu_loss(void *context)
{
    struct geglu_case *g = context;
    OP(geglu_forward)(gradient_device(), g->out, g->gate, g->up);
    return gradient_dot(g->out, g->cotangent);
}

TEST(geglu_backward_is_the_gradient_in_place)
{
    struct geglu_case g = { gradient_random(3, 100, 0), gradient_random(3, 100, 1),
                            gradient_random(3, 100, 2), gradient_random(3, 100, 3) };
    struct tensor dgate = gradient_random(3, 100, 1), dup = gradient_random(3, 100, 2);
    OP(geglu_backward)(gradient_device(), dgate, dup, g.cotangent, dgate, dup);
    gradient_check(g.gate, dgate, geglu_loss, &g);
    gradient_check(g.up, dup, geglu_loss, &g);
}

// --- soft caps ---------------------------------------------------------------

enum { ROWS = 3, VOCABULARY = 61 };

struct capped_case {
    struct tensor logits, copy;
};

static double capped_loss(void *context)
{
    static const int32_t targets[ROWS] = { 0, 60, 17 };
    struct capped_case *c = context;
    double values[ROWS], sum = 0;
    memcpy(c->copy.at, c->logits.at, (size_t)tensor_bytes(c->copy));
    OP(capped_cross_entropy)
    (gradient_device(), tensor_of(values, DTYPE_F64, ROWS, 1), c->copy, targets, 0.25, 1.5);
    for (int i = 0; i < ROWS; i++)
        sum += 0.25 * values[i];
    return sum;
}

TEST(cross_entropy_of_capped_logits_leaves_its_gradient)
{
    struct capped_case c = { gradient_random(ROWS, VOCABULARY, 1),
                             gradient_random(ROWS, VOCABULARY, 1) };
    struct tensor gradient = gradient_random(ROWS, VOCABULARY, 0);
    capped_loss(&c);
    memcpy(gradient.at, c.copy.at, (size_t)tensor_bytes(gradient));
    gradient_check(c.logits, gradient, capped_loss, &c);
}

TEST(attention_backward_of_capped_scores_with_a_scale_and_a_window_is_the_gradient)
{
    static const struct span spans[] = { { 0, 3 }, { 3, 37 } };
    struct attention_case a = attention_case((struct attention){
        .spans = spans, .span_count = 2, .window = 9, .scale = 0.9, .cap = 1.5 });
    attention_check(&a, 1);
}

// --- magnitudes --------------------------------------------------------------

enum { TOKENS = 5, OUT = 7, IN = 11, RANK = 2 };

struct magnified_case {
    struct tensor y, m, norms, copy, cotangent;
};

static double magnified_loss(void *context)
{
    struct magnified_case *c = context;
    memcpy(c->copy.at, c->y.at, (size_t)tensor_bytes(c->copy));
    OP(magnify)(gradient_device(), c->copy, c->m, c->norms);
    return gradient_dot(c->copy, c->cotangent);
}

TEST(magnitudes_have_the_lengths_of_rows_and_their_backward_is_the_gradient)
{
    struct magnified_case c = { gradient_random(TOKENS, OUT, 1), gradient_random(1, OUT, 2),
                                gradient_random(1, OUT, 3), gradient_random(TOKENS, OUT, 0),
                                gradient_random(TOKENS, OUT, 4) };
    struct tensor w = gradient_random(OUT, IN, 5), b = gradient_random(OUT, RANK, 6);
    struct tensor a = gradient_random(RANK, IN, 7), whole = gradient_random(OUT, IN, 5);
    struct tensor dy = gradient_random(TOKENS, OUT, 4), dm = gradient_tensor(DTYPE_F64, 1, OUT);
    OP(row_norms)(gradient_device(), c.norms, w, b, a, 0.5);
    OP(matmul_nn)(gradient_device(), whole, b, a, 0.5, 1);
    for (int64_t j = 0; j < OUT; j++) {
        struct tensor row = tensor_rows(whole, j, 1);
        CHECK_NEAR(*gradient_at(c.norms, j), sqrt(gradient_dot(row, row)), 1e-12);
    }
    OP(magnify_backward)(gradient_device(), dm, dy, c.y, c.m, c.norms);
    gradient_check(c.y, dy, magnified_loss, &c);
    gradient_check(c.m, dm, magnified_loss, &c);
}
