// SPDX-License-Identifier: Apache-2.0
// Every operation with a gradient against differences in fp64, and the others against their words.
//
// Long because every operation of the table stands here once.

#include "test/train/attention_case.h"
#include "train/nf4.h"

static struct tensor number(double value)
{
    struct tensor out = gradient_tensor(DTYPE_F64, 1, 1);
    *(double *)out.at = value;
    return out;
}

// --- norm --------------------------------------------------------------------

struct norm_case {
    struct tensor a, b, weight, sum, out, rms, cotangent;
};

static double norm_loss(void *context)
{
    struct norm_case *n = context;
    OP(norm_forward)(gradient_device(), n->sum, n->out, n->rms, n->a, n->b, n->weight, 0, 1e-5);
    return gradient_dot(n->out, n->cotangent) + gradient_dot(n->sum, n->cotangent) / 2;
}

TEST(norm_backward_is_the_gradient)
{
    enum { T = 3, C = 301 }; // over one chunk, and odd
    struct norm_case n = { gradient_random(T, C, 1), gradient_random(T, C, 2),
                           gradient_random(1, C, 3), gradient_random(T, C, 0),
                           gradient_random(T, C, 0), gradient_random(T, 1, 0),
                           gradient_random(T, C, 4) };
    struct tensor dx = gradient_tensor(DTYPE_F64, T, C), dw = gradient_tensor(DTYPE_F64, 1, C);
    struct tensor half = gradient_tensor(DTYPE_F64, T, C);
    for (int64_t i = 0; i < T * C; i++)
        ((double *)half.at)[i] = ((double *)n.cotangent.at)[i] / 2;
    norm_loss(&n);
    OP(norm_backward)(gradient_device(), dx, dw, half, n.cotangent, n.sum, n.rms, n.weight, 0);
    gradient_check(n.a, dx, norm_loss, &n);
    gradient_check(n.b, dx, norm_loss, &n);
    gradient_check(n.weight, dw, norm_loss, &n);
}

// As q and k are normalised: each head of a row by itself, and the rows are part of wider ones.
TEST(norm_of_pieces_is_the_norm_of_each)
{
    enum { T = 3, H = 4, D = 10 };
    struct tensor wide = gradient_random(T, H * D + 7, 1), x = tensor_columns(wide, 3, H * D);
    struct tensor weight = gradient_random(1, D, 2), rms = gradient_tensor(DTYPE_F64, T, H);
    struct tensor out = gradient_tensor(DTYPE_F64, T, H * D), none = { 0 };
    struct tensor one = gradient_tensor(DTYPE_F64, 1, D), its = gradient_tensor(DTYPE_F64, 1, 1);
    OP(norm_forward)(gradient_device(), none, out, rms, x, none, weight, 0, 1e-5);
    for (int i = 0; i < T * H; i++) {
        struct tensor piece = tensor_columns(tensor_rows(x, i / H, 1), i % H * D, D);
        OP(norm_forward)(gradient_device(), none, one, its, piece, none, weight, 0, 1e-5);
        CHECK(*(double *)its.at == *gradient_at(rms, i));
        CHECK(!memcmp(one.at, (double *)out.at + i * D, D * sizeof(double)));
    }
    struct tensor dx = gradient_tensor(DTYPE_F64, T, H * D), dw = gradient_tensor(DTYPE_F64, 1, D);
    OP(norm_backward)(gradient_device(), dx, dw, none, out, x, rms, weight, 0);
    double sum = 0; // Σ over all pieces of dout · x · rms
    for (int i = 0; i < T * H; i++)
        sum += ((double *)out.at)[i * D] * *gradient_at(x, i * D) * *gradient_at(rms, i);
    CHECK_NEAR(*(double *)dw.at, sum, 1e-12);
}

// --- rotary ------------------------------------------------------------------

TEST(rotary_rotates_back_what_it_rotated)
{
    static const int32_t positions[] = { 0, 1, 7, 100000 };
    static double frequencies[] = { 1, 0.1, 0.003 };
    struct tensor angles = tensor_of(frequencies, DTYPE_F64, 1, 3);
    struct tensor x = gradient_random(4, 12, 1), same = gradient_random(4, 12, 1);
    OP(rotary)(gradient_device(), x, positions, angles, 6, 1, 1);
    CHECK_NEAR(gradient_dot(x, x), gradient_dot(same, same), 1e-12); // lengths stay
    CHECK(fabs(gradient_dot(x, same) - gradient_dot(same, same)) > 0.1);
    OP(rotary)(gradient_device(), x, positions, angles, 6, -1, 1);
    for (int i = 0; i < 48; i++)
        CHECK(fabs(((double *)x.at)[i] - ((double *)same.at)[i]) < 1e-12);
}

// --- attention ---------------------------------------------------------------

TEST(attention_backward_is_the_gradient)
{
    static const struct span mixed[] = { { 0, 1 }, { 1, 2 }, { 3, 7 }, { 10, 70 } };
    for (int64_t window = 0; window <= 5; window += 5) {
        struct attention_case a =
            attention_case((struct attention){ .spans = mixed, .span_count = 4, .window = window });
        attention_check(&a, 5);
    }
}

// softmax(q kᵀ / √D) v as one would write it down.
static double attention_by_words(const struct attention_case *a, struct span span, int64_t t,
                                 int64_t column)
{
    const struct attention *s = &a->shape;
    const double *q = a->q.at, *k = a->k.at, *v = a->v.at;
    int64_t d = s->head_size, head = column / d, shared = head / (s->heads / s->kv_heads);
    double sum = 0, value = 0;
    for (int64_t j = span.start; j <= t; j++) {
        double x = 0;
        if (s->window && t - j >= s->window)
            continue;
        for (int64_t i = 0; i < d; i++)
            x += q[t * s->heads * d + head * d + i] * k[j * s->kv_heads * d + shared * d + i];
        x = exp(x / sqrt((double)d));
        sum += x;
        value += x * v[j * s->kv_heads * d + shared * d + column % d];
    }
    return value / sum;
}

TEST(attention_sees_its_document_up_to_itself_within_the_window)
{
    static const struct span spans[] = { { 0, 3 }, { 3, 130 } };
    for (int64_t window = 0; window < 100; window += 33) {
        struct attention_case a =
            attention_case((struct attention){ .spans = spans, .span_count = 2, .window = window });
        attention_loss(&a);
        double worst = 0;
        for (int s = 0; s < 2; s++)
            for (int64_t t = spans[s].start; t < spans[s].start + spans[s].size; t++)
                for (int64_t c = 0; c < a.out.columns; c++)
                    worst = fmax(worst, fabs(((double *)a.out.at)[t * a.out.columns + c] -
                                             attention_by_words(&a, spans[s], t, c)));
        CHECK(worst < 1e-12);
    }
}

// --- sinks -------------------------------------------------------------------

struct sink_case {
    struct attention_case attention;
    struct tensor sinks;
};

static double sink_loss(void *context)
{
    struct sink_case *s = context;
    struct attention_case *a = &s->attention;
    attention_loss(a);
    OP(sink_forward)(gradient_device(), a->out, a->lse, s->sinks);
    return gradient_dot(a->out, a->cotangent);
}

// That of the queries, keys and values too: attention's own, with what the sinks left.
TEST(sink_backward_is_the_gradient)
{
    static const struct span mixed[] = { { 0, 1 }, { 1, 2 }, { 3, 7 }, { 10, 70 } };
    struct sink_case s = {
        attention_case((struct attention){ .spans = mixed, .span_count = 4, .window = 5 }),
        gradient_random(1, 4, 11),
    };
    struct attention_case *a = &s.attention;
    struct tensor dsinks = gradient_tensor(DTYPE_F64, 1, 4);
    struct tensor dq = gradient_random(a->q.rows, a->q.columns, 7);
    struct tensor dk = gradient_random(a->k.rows, a->k.columns, 8);
    struct tensor dv = gradient_random(a->v.rows, a->v.columns, 9);
    sink_loss(&s);
    OP(sink_backward)(gradient_device(), dsinks, a->cotangent, a->out, a->lse, s.sinks);
    OP(attention_backward)
    (gradient_device(), dq, dk, dv, a->cotangent, a->out, a->lse, a->q, a->k, a->v, &a->shape,
     a->workspace);
    gradient_check(s.sinks, dsinks, sink_loss, &s);
    CHECK(gradient_error(a->q, dq, 5, sink_loss, &s) < GRADIENT_BOUND);
    CHECK(gradient_error(a->k, dk, 5, sink_loss, &s) < GRADIENT_BOUND);
    CHECK(gradient_error(a->v, dv, 5, sink_loss, &s) < GRADIENT_BOUND);
}

// A query that sees itself alone: half of its value where the sink is as large as its score.
TEST(sinks_take_their_part_of_the_softmax)
{
    static const struct span one[] = { { 0, 1 } };
    struct attention_case a = attention_case((struct attention){ .spans = one, .span_count = 1 });
    attention_loss(&a);
    struct tensor sinks = gradient_tensor(DTYPE_F64, 1, 4);
    for (int h = 0; h < 4; h++)
        ((double *)sinks.at)[h] = ((double *)a.lse.at)[h] + (h == 3 ? log(3) : 0);
    double before[4], score[4];
    for (int h = 0; h < 4; h++)
        before[h] = ((double *)a.out.at)[3 * h], score[h] = ((double *)a.lse.at)[h];
    OP(sink_forward)(gradient_device(), a.out, a.lse, sinks);
    for (int h = 0; h < 4; h++) {
        CHECK_NEAR(((double *)a.out.at)[3 * h], before[h] / (h == 3 ? 4 : 2), 1e-12);
        CHECK_NEAR(((double *)a.lse.at)[h], score[h] + log(h == 3 ? 4 : 2), 1e-12);
    }
}

// --- activation --------------------------------------------------------------

struct swiglu_case {
    struct tensor out, gate, up, cotangent, weight;
    struct swiglu form;
};

static double swiglu_loss(void *context)
{
    struct swiglu_case *s = context;
    OP(swiglu_forward)(gradient_device(), s->out, s->gate, s->up, s->weight, s->form);
    return gradient_dot(s->out, s->cotangent);
}

TEST(swiglu_backward_is_the_gradient_in_place)
{
    struct swiglu_case s = { .out = gradient_random(3, 100, 0),
                             .gate = gradient_random(3, 100, 1),
                             .up = gradient_random(3, 100, 2),
                             .cotangent = gradient_random(3, 100, 3),
                             .form = { .slope = 1 } };
    struct tensor dgate = gradient_random(3, 100, 1), dup = gradient_random(3, 100, 2);
    struct tensor dweight = { 0 };
    OP(swiglu_backward)
    (gradient_device(), dgate, dup, dweight, s.cotangent, dgate, dup, s.weight, s.form);
    gradient_check(s.gate, dgate, swiglu_loss, &s);
    gradient_check(s.up, dup, swiglu_loss, &s);
}

TEST(swiglu_backward_of_weighted_rows_is_the_gradient)
{
    struct swiglu_case s = { gradient_random(3, 300, 0), gradient_random(3, 300, 1),
                             gradient_random(3, 300, 2), gradient_random(3, 300, 3),
                             gradient_random(3, 1, 4),   { .slope = 1 } };
    struct tensor dgate = gradient_random(3, 300, 1), dup = gradient_random(3, 300, 2);
    struct tensor dweight = gradient_random(3, 1, 5);
    OP(swiglu_backward)
    (gradient_device(), dgate, dup, dweight, s.cotangent, dgate, dup, s.weight, s.form);
    gradient_check(s.gate, dgate, swiglu_loss, &s);
    gradient_check(s.up, dup, swiglu_loss, &s);
    gradient_check(s.weight, dweight, swiglu_loss, &s);
}

// No difference crosses the limit.
static void keep_off(struct tensor x, double limit)
{
    for (int64_t i = 0; i < tensor_count(x); i++)
        if (fabs(fabs(*gradient_at(x, i)) - limit) < 0.01)
            *gradient_at(x, i) = 0;
}

// Where gate or up is beyond the limit, the loss does not depend on it.
TEST(swiglu_within_limits_is_as_gpt_oss_has_it)
{
    struct swiglu_case s = {
        gradient_random(3, 300, 0), gradient_random(3, 300, 1),
        gradient_random(3, 300, 2), gradient_random(3, 300, 3),
        gradient_random(3, 1, 4),   { .slope = 1.702, .offset = 1, .limit = 0.7 }
    };
    struct tensor dgate = gradient_random(3, 300, 1), dup = gradient_random(3, 300, 2);
    struct tensor dweight = gradient_random(3, 1, 5), both[] = { s.gate, s.up, dgate, dup };
    for (int i = 0; i < 4; i++)
        keep_off(both[i], 0.7);
    swiglu_loss(&s);
    int beyond = 0;
    for (int64_t i = 0; i < 900; i++) {
        double g = *gradient_at(s.gate, i), u = *gradient_at(s.up, i), low = fmin(g, 0.7);
        double w = *gradient_at(s.weight, i / 300);
        CHECK_NEAR(*gradient_at(s.out, i),
                   w * low / (1 + exp(-1.702 * low)) * (1 + fmax(-0.7, fmin(u, 0.7))), 1e-12);
        beyond += g > 0.7 || fabs(u) > 0.7;
    }
    CHECK(beyond > 100 && beyond < 800);
    OP(swiglu_backward)
    (gradient_device(), dgate, dup, dweight, s.cotangent, dgate, dup, s.weight, s.form);
    gradient_check(s.gate, dgate, swiglu_loss, &s);
    gradient_check(s.up, dup, swiglu_loss, &s);
    gradient_check(s.weight, dweight, swiglu_loss, &s);
}

// --- routers -----------------------------------------------------------------

enum { ROUTED_TOKENS = 7, ROUTED_EXPERTS = 5, ROUTED_CHOSEN = 2 };
enum { ROUTED_ROWS = ROUTED_TOKENS * ROUTED_CHOSEN };

struct routed_case {
    struct tensor logits, probabilities, weights, cotangent, load, dprobabilities;
    struct routing routing;
    double balance; // scale of the auxiliary loss
};

static struct routed_case routed_case(bool normalises)
{
    int32_t *at = ARENA_NEW(&test_arena, int32_t, 3 * ROUTED_ROWS + ROUTED_EXPERTS);
    return (struct routed_case){
        .logits = gradient_random(ROUTED_TOKENS, ROUTED_EXPERTS, 1),
        .probabilities = gradient_tensor(DTYPE_F64, ROUTED_TOKENS, ROUTED_EXPERTS),
        .weights = gradient_tensor(DTYPE_F64, ROUTED_ROWS, 1),
        .cotangent = gradient_random(ROUTED_ROWS, 1, 2),
        .load = gradient_tensor(DTYPE_F64, 2, ROUTED_EXPERTS),
        .dprobabilities = gradient_tensor(DTYPE_F64, 1, ROUTED_EXPERTS),
        .routing = { .chosen = ROUTED_CHOSEN,
                     .experts = at,
                     .slots = at + ROUTED_ROWS,
                     .rows = at + 2 * ROUTED_ROWS,
                     .counts = at + 3 * ROUTED_ROWS,
                     .normalises = normalises },
        .balance = 0.5,
    };
}

static double routed_loss(void *context)
{
    struct routed_case *c = context;
    double balance = 0;
    OP(zero)(gradient_device(), c->load);
    OP(route_forward)
    (gradient_device(), c->probabilities, c->weights, &c->routing, c->load, c->logits);
    OP(balance)
    (gradient_device(), tensor_of(&balance, DTYPE_F64, 1, 1), c->dprobabilities, c->load,
     ROUTED_TOKENS, c->balance, c->balance);
    return gradient_dot(c->weights, c->cotangent) + balance;
}

TEST(router_backward_is_the_gradient_of_weights_and_of_the_auxiliary_loss)
{
    for (int normalises = 0; normalises < 2; normalises++) {
        struct routed_case c = routed_case(normalises);
        struct tensor dlogits = gradient_tensor(DTYPE_F64, ROUTED_TOKENS, ROUTED_EXPERTS);
        routed_loss(&c);
        OP(route_backward)
        (gradient_device(), dlogits, c.cotangent, c.probabilities, c.weights, &c.routing,
         c.dprobabilities);
        gradient_check(c.logits, dlogits, routed_loss, &c);
    }
}

TEST(router_sorts_the_copies_of_tokens_by_expert_and_adds_them_up)
{
    struct routed_case c = routed_case(true);
    struct tensor x = gradient_random(ROUTED_TOKENS, 3, 3),
                  y = gradient_random(ROUTED_TOKENS, 3, 4);
    struct tensor rows = gradient_tensor(DTYPE_F64, ROUTED_ROWS, 3);
    const struct routing *r = &c.routing;
    routed_loss(&c);
    int32_t row = 0;
    for (int32_t e = 0; e < ROUTED_EXPERTS; e++)
        for (int32_t i = 0, before = -1; i < r->counts[e]; i++, row++) {
            const int32_t *choices = r->experts + r->rows[row] * ROUTED_CHOSEN;
            CHECK(choices[0] == e || choices[1] == e);
            CHECK(r->rows[row] > before);
            before = r->rows[row];
        }
    CHECK(row == ROUTED_ROWS);
    OP(gather)(gradient_device(), rows, x, r->rows);
    OP(combine)(gradient_device(), y, rows, r);
    for (int64_t i = 0; i < tensor_count(x); i++)
        CHECK_NEAR(*gradient_at(y, i), ROUTED_CHOSEN * *gradient_at(x, i), 1e-12);
}

// --- products ----------------------------------------------------------------

enum product_way { NT, NN, TN };

static double element(struct tensor x, int64_t row, int64_t column)
{
    double value;
    tensor_load(&value, x, row, column, 1);
    return value;
}

static double worst_product(enum product_way way, enum dtype c_type, enum dtype a_type,
                            enum dtype b_type)
{
    enum { M = 259, N = 5, K = 1030 }; // over the tiles, and odd
    struct tensor c = gradient_tensor(c_type, M, N), before = gradient_tensor(c_type, M, N);
    struct tensor a = gradient_tensor(a_type, way == TN ? K : M, way == TN ? M : K);
    struct tensor b = gradient_tensor(b_type, way == NT ? N : K, way == NT ? K : N);
    gradient_fill(a, 1);
    gradient_fill(b, 2);
    gradient_fill(c, 3);
    gradient_fill(before, 3);
    const struct backend *cpu = gradient_device()->backend;
    (way == NT   ? cpu->matmul_nt
     : way == NN ? cpu->matmul_nn
                 : cpu->matmul_tn)(gradient_device(), c, a, b, 0.5, 2);
    double worst = 0;
    for (int64_t i = 0; i < M; i += 43)
        for (int64_t j = 0; j < N; j++) {
            double sum = 2 * element(before, i, j);
            for (int64_t k = 0; k < K; k++)
                sum += 0.5 * (way == TN ? element(a, k, i) : element(a, i, k)) *
                       (way == NT ? element(b, j, k) : element(b, k, j));
            worst = fmax(worst, fabs(sum - element(c, i, j)) / (1 + fabs(sum)));
        }
    return worst;
}

TEST(matmul_multiplies_every_way_in_every_type)
{
    for (int way = NT; way <= TN; way++) {
        CHECK(worst_product((enum product_way)way, DTYPE_F64, DTYPE_F64, DTYPE_F64) < 1e-12);
        CHECK(worst_product((enum product_way)way, DTYPE_F32, DTYPE_F32, DTYPE_F32) < 1e-4);
        CHECK(worst_product((enum product_way)way, DTYPE_F32, DTYPE_BF16, DTYPE_F32) < 1e-4);
        CHECK(worst_product((enum product_way)way, DTYPE_BF16, DTYPE_BF16, DTYPE_BF16) < 4e-3);
    }
}

// --- experts -----------------------------------------------------------------

enum { EXPERTS = 4, EXPERT_ROWS = 9, OTHER = 6, DEEP = 5 };
static int32_t expert_counts[EXPERTS] = { 3, 0, 4, 2 };

static struct expert_matrices below_each_other(struct tensor all, int64_t first, int64_t count)
{
    int64_t rows = all.rows / EXPERTS;
    return (struct expert_matrices){ tensor_rows(all, first * rows, rows), rows * all.stride, first,
                                     count };
}

TEST(experts_multiply_their_own_rows_with_their_own_matrix)
{
    struct routing r = { .counts = expert_counts };
    struct tensor a = gradient_random(EXPERT_ROWS, DEEP, 1);
    struct tensor b = gradient_random(EXPERTS * OTHER, DEEP, 2);
    struct tensor c = gradient_random(EXPERT_ROWS, OTHER, 3), before = gradient_random(9, OTHER, 3);
    struct tensor back = gradient_random(EXPERT_ROWS, DEEP, 4);
    OP(experts_nt)(gradient_device(), c, a, below_each_other(b, 1, 2), &r, 0.5, 2);
    OP(experts_nn)(gradient_device(), back, before, below_each_other(b, 0, EXPERTS), &r, 1, 0);
    for (int64_t i = 0; i < EXPERT_ROWS; i++) {
        int64_t e = i < 3 ? 0 : i < 7 ? 2 : 3;
        for (int64_t j = 0; j < OTHER; j++) {
            double sum = 2 * element(before, i, j);
            for (int64_t k = 0; k < DEEP; k++)
                sum += 0.5 * element(a, i, k) * element(b, e * OTHER + j, k);
            CHECK_NEAR(element(c, i, j), e == 2 ? sum : element(before, i, j), 1e-12);
        }
        for (int64_t k = 0; k < DEEP; k++) {
            double sum = 0;
            for (int64_t j = 0; j < OTHER; j++)
                sum += element(before, i, j) * element(b, e * OTHER + j, k);
            CHECK_NEAR(element(back, i, k), sum, 1e-12);
        }
    }
}

TEST(experts_sum_over_their_own_rows_and_have_zeros_without_any)
{
    struct routing r = { .counts = expert_counts };
    struct tensor a = gradient_random(EXPERT_ROWS, OTHER, 1);
    struct tensor b = gradient_random(EXPERT_ROWS, DEEP, 2);
    struct tensor set = gradient_random(EXPERTS * OTHER, DEEP, 3);
    struct tensor added = gradient_random(EXPERTS * OTHER, DEEP, 3);
    OP(experts_tn)(gradient_device(), below_each_other(set, 0, EXPERTS), a, b, &r, 1, 0);
    OP(experts_tn)(gradient_device(), below_each_other(added, 1, 3), a, b, &r, 1, 1);
    for (int64_t e = 0, first = 0; e < EXPERTS; first += expert_counts[e++])
        for (int64_t i = e * OTHER; i < (e + 1) * OTHER; i++)
            for (int64_t k = 0; k < DEEP; k++) {
                double sum = 0, before = element(gradient_random(EXPERTS * OTHER, DEEP, 3), i, k);
                for (int64_t row = first; row < first + expert_counts[e]; row++)
                    sum += element(a, row, i - e * OTHER) * element(b, row, k);
                CHECK_NEAR(element(set, i, k), sum, 1e-12);
                CHECK_NEAR(element(added, i, k), e ? before + sum : before, 1e-12);
            }
}

struct expert_bias_case {
    struct tensor y, bias, weight, cotangent;
    struct routing routing;
};

static double expert_bias_loss(void *context)
{
    struct expert_bias_case *c = context;
    OP(zero)(gradient_device(), c->y);
    OP(experts_bias_forward)
    (gradient_device(), c->y, below_each_other(c->bias, 0, EXPERTS), c->weight, &c->routing);
    return gradient_dot(c->y, c->cotangent);
}

TEST(expert_bias_backward_is_the_gradient)
{
    for (int weighted = 0; weighted < 2; weighted++) {
        struct expert_bias_case c = { .y = gradient_random(EXPERT_ROWS, OTHER, 1),
                                      .bias = gradient_random(EXPERTS, OTHER, 2),
                                      .cotangent = gradient_random(EXPERT_ROWS, OTHER, 3),
                                      .routing = { .counts = expert_counts } };
        struct tensor dbias = gradient_tensor(DTYPE_F64, EXPERTS, OTHER), dweight = { 0 };
        if (weighted) {
            c.weight = gradient_random(EXPERT_ROWS, 1, 4);
            dweight = gradient_tensor(DTYPE_F64, EXPERT_ROWS, 1);
        }
        expert_bias_loss(&c);
        CHECK_NEAR(element(c.y, 8, 5),
                   element(c.bias, 3, 5) * (weighted ? element(c.weight, 8, 0) : 1),
                   1e-12); // the last row is of the last expert
        OP(experts_bias_backward)
        (gradient_device(), below_each_other(dbias, 0, EXPERTS), dweight, c.cotangent,
         below_each_other(c.bias, 0, EXPERTS), c.weight, &c.routing);
        gradient_check(c.bias, dbias, expert_bias_loss, &c);
        if (weighted)
            gradient_check(c.weight, dweight, expert_bias_loss, &c);
    }
}

// y = z Bᵀ of two adapters; the middle columns of y and the last of z belong to none.
struct adapters_case {
    struct tensor z, b, y, cotangent;
};

static double adapters_loss(void *context)
{
    struct adapters_case *a = context;
    OP(matmul_nt)(gradient_device(), a->y, a->z, a->b, 1, 0);
    return gradient_dot(a->y, a->cotangent);
}

TEST(adapters_backward_is_the_gradient_of_each_and_zero_where_there_is_none)
{
    enum { T = 5, OUT = 12, R = 3, RANKS = 2 * R + 1 };
    static const int64_t firsts[] = { 0, 8 }, outs[] = { 6, 4 };
    struct adapters_case a = { gradient_random(T, RANKS, 1), gradient_tensor(DTYPE_F64, OUT, RANKS),
                               gradient_random(T, OUT, 0), gradient_random(T, OUT, 2) };
    struct tensor dz = gradient_random(T, RANKS, 3), half = gradient_random(T, RANKS, 4);
    struct adapter_part parts[2], again[2];
    OP(zero)(gradient_device(), a.b);
    for (int i = 0; i < 2; i++) {
        OP(cast)
        (gradient_device(), tensor_columns(tensor_rows(a.b, firsts[i], outs[i]), i * R, R),
         gradient_random(outs[i], R, 5));
        struct tensor zero = gradient_tensor(DTYPE_F64, outs[i], R);
        OP(zero)(gradient_device(), zero);
        parts[i] = (struct adapter_part){ firsts[i], i * R, zero };
        again[i] = (struct adapter_part){ firsts[i], i * R, gradient_random(outs[i], R, 6) };
    }
    OP(adapters_backward)(gradient_device(), dz, parts, 2, a.cotangent, a.b, a.z, 1);
    OP(adapters_backward)(gradient_device(), half, again, 2, a.cotangent, a.b, a.z, 0.5);
    gradient_check(a.z, dz, adapters_loss, &a);
    for (int i = 0; i < 2; i++) {
        gradient_check(tensor_columns(tensor_rows(a.b, firsts[i], outs[i]), i * R, R), parts[i].db,
                       adapters_loss, &a);
        struct tensor before = gradient_random(outs[i], R, 6);
        for (int64_t j = 0; j < outs[i] * R; j++) // added, and not scaled: z is
            CHECK_NEAR(*gradient_at(again[i].db, j),
                       *gradient_at(before, j) + *gradient_at(parts[i].db, j), 1e-12);
    }
    for (int i = 0; i < T * RANKS; i++)
        CHECK_NEAR(*gradient_at(half, i), *gradient_at(dz, i) / 2, 1e-12);
    for (int i = 0; i < T; i++)
        CHECK(*gradient_at(dz, i * RANKS + 2 * R) == 0);
}

TEST(matmul_with_nothing_to_add_ignores_what_was_there)
{
    struct tensor c = gradient_tensor(DTYPE_F32, 2, 2), a = gradient_tensor(DTYPE_F32, 2, 3);
    for (int i = 0; i < 4; i++)
        ((float *)c.at)[i] = NAN;
    OP(matmul_nt)(gradient_device(), c, a, a, 1, 0);
    for (int i = 0; i < 4; i++)
        CHECK(((float *)c.at)[i] == 0);
}

// --- bias, embedding, rows ---------------------------------------------------

TEST(bias_is_added_to_rows_and_summed_back)
{
    struct tensor y = gradient_random(5, 300, 1), same = gradient_random(5, 300, 1);
    struct tensor bias = gradient_random(1, 300, 2), back = gradient_tensor(DTYPE_F64, 1, 300);
    OP(bias_forward)(gradient_device(), y, bias);
    OP(bias_backward)(gradient_device(), back, same);
    for (int c = 0; c < 300; c++) {
        double sum = 0;
        for (int t = 0; t < 5; t++) {
            CHECK(element(y, t, c) == element(same, t, c) + element(bias, 0, c));
            sum += element(same, t, c);
        }
        CHECK(fabs(sum - element(back, 0, c)) < 1e-12);
    }
}

TEST(embedding_gradient_goes_to_the_rows_that_were_read)
{
    static const int32_t ids[] = { 2, 0, 2 };
    struct tensor table = gradient_random(4, 3, 1), out = gradient_random(3, 3, 2);
    struct tensor back = gradient_tensor(DTYPE_F64, 4, 3);
    OP(embedding_forward)(gradient_device(), out, table, ids);
    CHECK(element(out, 2, 1) == element(table, 2, 1) && element(out, 1, 2) == element(table, 0, 2));
    OP(embedding_backward)(gradient_device(), back, out, ids);
    CHECK(element(back, 2, 1) == 2 * element(table, 2, 1));
    CHECK(element(back, 1, 0) == 0 && element(back, 3, 2) == 0);
}

TEST(scatter_puts_back_what_gather_took)
{
    static const int32_t rows[] = { 4, 1 };
    struct tensor in = gradient_random(5, 300, 1), out = gradient_random(2, 300, 2);
    struct tensor back = gradient_tensor(DTYPE_F64, 5, 300);
    OP(gather)(gradient_device(), out, in, rows);
    OP(scatter)(gradient_device(), back, out, rows);
    CHECK(element(back, 4, 299) == element(in, 4, 299) && element(back, 1, 0) == element(in, 1, 0));
    CHECK(element(back, 0, 5) == 0);
}

// --- loss --------------------------------------------------------------------

struct loss_case {
    struct tensor logits, copy;
    int32_t targets[3];
    double scale;
};

static double entropy_loss(void *context)
{
    struct loss_case *l = context;
    double values[3], sum = 0;
    struct tensor losses = tensor_of(values, DTYPE_F64, 3, 1);
    memcpy(l->copy.at, l->logits.at, (size_t)tensor_bytes(l->copy));
    OP(cross_entropy)(gradient_device(), losses, l->copy, l->targets, l->scale);
    for (int i = 0; i < 3; i++)
        sum += values[i] * l->scale;
    return sum;
}

TEST(cross_entropy_leaves_its_gradient)
{
    struct loss_case l = {
        gradient_random(3, 301, 1), gradient_random(3, 301, 1), { 0, 300, 17 }, 0.25
    };
    struct tensor gradient = gradient_random(3, 301, 0);
    entropy_loss(&l);
    memcpy(gradient.at, l.copy.at, (size_t)tensor_bytes(gradient));
    gradient_check(l.logits, gradient, entropy_loss, &l);
}

TEST(cross_entropy_of_equal_logits_is_the_logarithm_of_the_vocabulary)
{
    struct tensor logits = gradient_tensor(DTYPE_F32, 1, 1000);
    for (int i = 0; i < 1000; i++)
        ((float *)logits.at)[i] = 3e4f; // a sum of their exponentials fits no number
    int32_t target = 5;
    double loss;
    OP(cross_entropy)
    (gradient_device(), tensor_of(&loss, DTYPE_F64, 1, 1), logits, &target, 1);
    CHECK_NEAR(loss, log(1000), 1e-12);
}

TEST(rows_are_multiplied_by_their_weights)
{
    struct tensor x = gradient_random(3, 300, 1), before = gradient_random(3, 300, 1);
    double weights[] = { 0.5, 0, -2 };
    OP(weigh_rows)(gradient_device(), x, tensor_of(weights, DTYPE_F64, 3, 1));
    for (int row = 0; row < 3; row++)
        CHECK(element(x, row, 299) == weights[row] * element(before, row, 299));
}

// --- dropout -----------------------------------------------------------------

TEST(dropout_keeps_the_mean_and_repeats_its_choice)
{
    struct tensor in = gradient_tensor(DTYPE_F32, 100, 1000),
                  out = gradient_tensor(DTYPE_F32, 100, 1000);
    struct tensor again = gradient_tensor(DTYPE_F32, 100, 1000);
    for (int i = 0; i < 100000; i++)
        ((float *)in.at)[i] = 1;
    OP(dropout)(gradient_device(), out, in, 0.1, 7);
    OP(dropout)(gradient_device(), again, in, 0.1, 7);
    CHECK(!memcmp(out.at, again.at, (size_t)tensor_bytes(out)));
    double sum = 0;
    for (int i = 0; i < 100000; i++)
        sum += ((float *)out.at)[i];
    CHECK_NEAR(sum / 100000, 1, 0.01);
    OP(dropout)(gradient_device(), again, in, 0.1, 8);
    CHECK(memcmp(out.at, again.at, (size_t)tensor_bytes(out)));
}

// --- optimizers --------------------------------------------------------------

// m / √v is 1 at the first step, so each weight moves by the rate, after its decay.
TEST(adamw_takes_a_step_of_its_rate_at_first)
{
    double w[] = { 1, -2 }, m[2] = { 0 }, v[2] = { 0 }, g[] = { 0.5, -1 };
    struct tensor t[4];
    double *at[] = { w, m, v, g };
    for (int i = 0; i < 4; i++)
        t[i] = tensor_of(at[i], DTYPE_F64, 1, 2);
    struct adamw adamw = { 0.1, 0.9, 0.999, 1e-8, 0.01, 1, 0, 0 };
    OP(adamw)(gradient_device(), t[0], t[1], t[2], t[3], &adamw, number(1));
    CHECK_NEAR(w[0], 1 * (1 - 0.001) - 0.1, 1e-7);
    CHECK_NEAR(w[1], -2 * (1 - 0.001) + 0.1, 1e-7);
    CHECK_NEAR(m[0], 0.05, 1e-12);
    CHECK_NEAR(v[1], 0.001, 1e-12);
}

TEST(sgd_follows_the_gradient_with_momentum)
{
    double w = 1, m = 0, g = 2;
    struct tensor weight = tensor_of(&w, DTYPE_F64, 1, 1), moment = tensor_of(&m, DTYPE_F64, 1, 1);
    struct tensor gradient = tensor_of(&g, DTYPE_F64, 1, 1);
    OP(sgd)(gradient_device(), weight, moment, gradient, 0.1, 0.9, 0, number(1));
    CHECK_NEAR(w, 0.8, 1e-12);
    OP(sgd)(gradient_device(), weight, moment, gradient, 0.1, 0.9, 0, number(0.5));
    CHECK_NEAR(w, 0.8 - 0.1 * (0.9 * 2 + 1), 1e-12);
}

TEST(squares_are_summed)
{
    struct tensor x = gradient_random(77, 133, 1);
    struct tensor sum = number(7), scale = number(0);
    OP(sum_squares)(gradient_device(), sum, x);
    CHECK_NEAR(*(double *)sum.at, 7 + gradient_dot(x, x), 1e-12);
    *(double *)sum.at -= 7;
    OP(clip)(gradient_device(), scale, sum, 1);
    CHECK_NEAR(*(double *)scale.at, 1 / sqrt(gradient_dot(x, x)), 1e-12);
    OP(clip)(gradient_device(), scale, sum, 0);
    CHECK(*(double *)scale.at == 1);
}

TEST(filling_draws_the_numbers_it_says_whatever_the_shape)
{
    struct tensor x = gradient_tensor(DTYPE_F64, 300, 300), wide = gradient_random(300, 311, 1);
    struct tensor same = tensor_columns(wide, 4, 300);
    OP(fill)(gradient_device(), x, FILL_NORMAL, 0.02, 5);
    OP(fill)(gradient_device(), same, FILL_NORMAL, 0.02, 5);
    double sum = 0, squares = gradient_dot(x, x) / 90000;
    for (int i = 0; i < 90000; i++) {
        sum += ((double *)x.at)[i] / 90000;
        CHECK(*gradient_at(x, i) == *gradient_at(same, i));
    }
    CHECK(fabs(sum) < 0.0003 && fabs(squares / 0.0004 - 1) < 0.02);
    OP(fill)(gradient_device(), x, FILL_UNIFORM, 3, 6);
    CHECK(fabs(gradient_dot(x, x) / 90000 / 3 - 1) < 0.02); // of ±3: variance 3
    OP(fill)(gradient_device(), x, FILL_CONSTANT, 1, 7);
    CHECK(gradient_dot(x, x) == 90000);
}

// A third of a step between two numbers of bf16: rounded up a third of the time.
TEST(adamw_rounds_bf16_by_chance_and_right_in_the_mean)
{
    enum { N = 30000 };
    struct tensor w = gradient_tensor(DTYPE_BF16, 1, N), back = gradient_tensor(DTYPE_F64, 1, N);
    struct tensor m = gradient_tensor(DTYPE_F64, 1, N), v = gradient_tensor(DTYPE_F64, 1, N);
    struct tensor g = gradient_tensor(DTYPE_F64, 1, N);
    OP(fill)(gradient_device(), w, FILL_CONSTANT, 1, 0);
    OP(fill)(gradient_device(), g, FILL_CONSTANT, -1, 0);
    struct adamw adamw = { 0x1p-7 / 3, 0.9, 0.999, 0, 0, 1, 77, 0 };
    OP(adamw)(gradient_device(), w, m, v, g, &adamw, number(1));
    OP(cast)(gradient_device(), back, w);
    int up = 0;
    for (int i = 0; i < N; i++)
        up += ((double *)back.at)[i] == 1 + 0x1p-7;
    CHECK(up > N / 3 - 300 && up < N / 3 + 300);
    CHECK(fabs(gradient_dot(back, g) / -N - 1 - 0x1p-7 / 3) < 1e-4);
}

// --- few bits ----------------------------------------------------------------

TEST(fp8_products_of_scaled_rows_are_near_the_exact_ones)
{
    enum { M = 5, N = 7, K = 300 };
    struct tensor a = gradient_random(M, K, 1), b = gradient_random(K, N, 2);
    struct tensor a8 = gradient_tensor(DTYPE_F8, M, K), b8 = gradient_tensor(DTYPE_F8, N, K);
    struct tensor as = gradient_tensor(DTYPE_F32, M, 1), bs = gradient_tensor(DTYPE_F32, N, 1);
    struct tensor c = gradient_random(M, N, 3), exact = gradient_random(M, N, 3);
    OP(quantize_rows)(gradient_device(), a8, as, a, false);
    OP(quantize_rows)(gradient_device(), b8, bs, b, true);
    OP(matmul_scaled)(gradient_device(), c, a8, as, b8, bs, 1);
    OP(matmul_nn)(gradient_device(), exact, a, b, 1, 1);
    double far = 0;
    for (int i = 0; i < M * N; i++)
        far += pow(*gradient_at(c, i) - *gradient_at(exact, i), 2);
    CHECK(far > 0 && sqrt(far / gradient_dot(exact, exact)) < 0.05);
}

// x wᵀ by codes, with adapters x wᵀ + z bᵀ.
enum { FP8_M = 6, FP8_N = 9, FP8_K = 257, FP8_R = 5 };
static struct tensor product_beside_adapters(struct tensor x, struct tensor w, struct tensor z,
                                             struct tensor b, bool transposed, bool adapters)
{
    int64_t columns = FP8_K + (adapters ? 3 * FP8_R + 2 : 0);
    struct tensor x8 = gradient_tensor(DTYPE_F8, FP8_M, columns);
    struct tensor w8 = gradient_tensor(DTYPE_F8, FP8_N, columns);
    struct tensor xs = gradient_tensor(DTYPE_F32, FP8_M, 1);
    struct tensor ws = gradient_tensor(DTYPE_F32, FP8_N, 1);
    struct tensor shifts = gradient_tensor(DTYPE_F32, 1, FP8_R);
    struct tensor c = gradient_tensor(DTYPE_F64, FP8_M, FP8_N);
    memset(x8.at, 0x7F, (size_t)tensor_bytes(x8)); // not a number, until it is written
    OP(zero)(gradient_device(), w8);
    OP(quantize_rows)(gradient_device(), tensor_columns(w8, 0, FP8_K), ws, w, false);
    if (adapters)
        OP(quantize_adapters)
    (gradient_device(), tensor_columns(w8, FP8_K, 3 * FP8_R), shifts, b, transposed, ws);
    else z = tensor_columns(z, 0, 0), shifts = tensor_columns(shifts, 0, 0);
    OP(quantize_inputs)(gradient_device(), x8, xs, x, z, shifts);
    OP(matmul_scaled)(gradient_device(), c, x8, xs, w8, ws, 0);
    return c;
}

static double distance(struct tensor a, struct tensor b)
{
    double far = 0;
    for (int i = 0; i < FP8_M * FP8_N; i++)
        far += pow(*gradient_at(a, i) - *gradient_at(b, i), 2);
    return sqrt(far);
}

TEST(adapters_within_products_of_fp8_are_as_exact_as_bf16)
{
    struct tensor x = gradient_random(FP8_M, FP8_K, 1), w = gradient_random(FP8_N, FP8_K, 2);
    struct tensor z = gradient_random(FP8_M, FP8_R, 3), b = gradient_random(FP8_N, FP8_R, 4);
    struct tensor turned = gradient_tensor(DTYPE_F64, FP8_R, FP8_N);
    struct tensor exact = gradient_tensor(DTYPE_F64, FP8_M, FP8_N);
    static const double sizes[] = { 1e-4, 0.01, 1, 50 };
    for (int i = 0; i < 4; i++) {
        OP(scale)(gradient_device(), b, sizes[i] / (i ? sizes[i - 1] : 1));
        for (int j = 0; j < FP8_N * FP8_R; j++)
            *gradient_at(turned, j % FP8_R * FP8_N + j / FP8_R) = *gradient_at(b, j);
        struct tensor plain = product_beside_adapters(x, w, z, b, false, false);
        struct tensor with = product_beside_adapters(x, w, z, b, false, true);
        struct tensor other = product_beside_adapters(x, w, z, turned, true, true);
        double base = sqrt(gradient_dot(plain, plain));
        OP(matmul_nt)(gradient_device(), exact, z, b, 1, 0);
        OP(add)(gradient_device(), plain, plain, exact);
        CHECK(distance(with, other) == 0);
        // Large ones cost the base some of its codes.
        CHECK(distance(with, plain) <
              0.005 * sqrt(gradient_dot(exact, exact)) + (sizes[i] < 1 ? 1e-6 : 0.05) * base);
    }
}

TEST(rows_of_weights_that_are_almost_zero_leave_inputs_their_codes)
{
    struct tensor x = gradient_random(FP8_M, FP8_K, 1), w = gradient_random(FP8_N, FP8_K, 2);
    struct tensor z = gradient_random(FP8_M, FP8_R, 3), b = gradient_random(FP8_N, FP8_R, 4);
    struct tensor exact = gradient_tensor(DTYPE_F64, FP8_M, FP8_N);
    OP(scale)(gradient_device(), tensor_rows(w, 3, 1), 1e-7);
    OP(scale)(gradient_device(), tensor_rows(w, 5, 1), 0);
    OP(scale)(gradient_device(), b, 0.01);
    OP(matmul_nt)(gradient_device(), exact, x, w, 1, 0);
    OP(matmul_nt)(gradient_device(), exact, z, b, 1, 1);
    struct tensor c = product_beside_adapters(x, w, z, b, false, true);
    CHECK(distance(c, exact) < 0.05 * sqrt(gradient_dot(exact, exact)));
}

TEST(casting_rounds_to_the_nearest)
{
    double in[] = { 1.0, 1.00390625, 1.01171875, -3.1415926, NAN };
    struct tensor narrow = gradient_tensor(DTYPE_BF16, 1, 5),
                  back = gradient_tensor(DTYPE_F32, 1, 5);
    OP(cast)(gradient_device(), narrow, tensor_of(in, DTYPE_F64, 1, 5));
    OP(cast)(gradient_device(), back, narrow);
    const float *x = back.at;
    CHECK(x[0] == 1 && x[1] == 1 && x[2] == 1.015625f && x[3] == -3.140625f && isnan(x[4]));
}

TEST(dequantize_gives_what_the_file_format_says)
{
    enum { ROWS = 30, COLUMNS = 1001 }; // an odd end, and more than 256 blocks
    float *in = ARENA_NEW(&test_arena, float, ROWS *COLUMNS), *wanted = in;
    struct rng rng = rng_seeded(4);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        in[i] = (float)rng_normal(&rng);
    struct nf4 nf4;
    nf4_quantize(&nf4, &test_arena, in, ROWS, COLUMNS, STORAGE_BF16);
    wanted = ARENA_NEW(&test_arena, float, ROWS *COLUMNS);
    nf4_dequantize(wanted, &nf4, 0, ROWS * COLUMNS);
    struct quantized quantized = { .codes = (uint8_t *)nf4.codes,
                                   .nested_codes = (uint8_t *)nf4.scales,
                                   .nested = (float *)(void *)nf4.nested_scales,
                                   .levels = nf4.nested_levels,
                                   .offset = &nf4.offset,
                                   .block = nf4.block,
                                   .nested_block = nf4.nested_block };
    struct tensor out = gradient_tensor(DTYPE_F32, ROWS, COLUMNS);
    OP(dequantize)(gradient_device(), out, &quantized);
    CHECK(!memcmp(out.at, wanted, (size_t)tensor_bytes(out)));
    float *scales = ARENA_NEW(&test_arena, float, nf4_blocks(&nf4)); // the same, not nested
    nf4_scales(scales, &nf4, 0, nf4_blocks(&nf4));
    quantized =
        (struct quantized){ .codes = (uint8_t *)nf4.codes, .scales = scales, .block = nf4.block };
    OP(dequantize)(gradient_device(), out, &quantized);
    CHECK(!memcmp(out.at, wanted, (size_t)tensor_bytes(out)));
}
