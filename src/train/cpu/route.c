// SPDX-License-Identifier: Apache-2.0
// The router of a mixture of experts: softmax, the k most probable experts, rows sorted by expert.
//
// p = softmax(logits); of the chosen experts w_j = p_j, or p_j / S with S = Σ p over the chosen.
//
//     dp_j = dw_j,  or  (dw_j − Σ dw · w) / S;  0 of the others
//     dlogit_e = p_e · (dp_e − Σ dp · p)
//
// The auxiliary loss E · Σ f_e · P_e is least where every expert gets as many rows as another: f_e
// is expert e's share of the rows of a token, over all layers and tokens, P_e its mean probability.

#include "train/cpu/cpu.h"

#include <assert.h>
#include <math.h>

static void softmax_row(struct tensor out, struct tensor in, int64_t row)
{
    double largest = -INFINITY, sum = 0;
    for (int64_t e = 0; e < in.columns; e++)
        largest = fmax(largest, tensor_get(in, row, e));
    for (int64_t e = 0; e < in.columns; e++)
        sum += exp(tensor_get(in, row, e) - largest);
    for (int64_t e = 0; e < in.columns; e++)
        tensor_set(out, row, e, exp(tensor_get(in, row, e) - largest) / sum);
}

static bool is_among(const int32_t *experts, int64_t count, int32_t expert)
{
    for (int64_t i = 0; i < count; i++)
        if (experts[i] == expert)
            return true;
    return false;
}

// The k most probable experts of a token, the most probable first.
static void choose(const struct routing *r, struct tensor probabilities, int64_t row)
{
    int32_t *experts = r->experts + row * r->chosen;
    for (int64_t j = 0; j < r->chosen; j++) {
        int32_t best = -1;
        for (int32_t e = 0; e < probabilities.columns; e++)
            if (!is_among(experts, j, e) && (best < 0 || tensor_get(probabilities, row, e) >
                                                             tensor_get(probabilities, row, best)))
                best = e;
        experts[j] = best;
    }
}

// Counts the rows of each expert, and gives every choice its row: an expert's rows follow those of
// the experts before it.
static void sort_rows(const struct routing *r, int64_t choices, int64_t experts)
{
    for (int64_t e = 0; e < experts; e++)
        r->counts[e] = 0;
    for (int64_t i = 0; i < choices; i++)
        r->counts[r->experts[i]]++;
    int32_t row = 0;
    for (int64_t e = 0; e < experts; e++)
        for (int64_t i = 0; i < choices; i++)
            if (r->experts[i] == e) {
                r->slots[i] = row;
                r->rows[row++] = (int32_t)(i / r->chosen);
            }
}

static double chosen_sum(const struct routing *r, struct tensor probabilities, int64_t token)
{
    double sum = 0;
    for (int64_t j = 0; j < r->chosen; j++)
        sum += tensor_get(probabilities, token, r->experts[token * r->chosen + j]);
    return sum;
}

static void add_load(struct tensor load, const struct routing *r, struct tensor probabilities)
{
    for (int64_t e = 0; e < probabilities.columns; e++) {
        double sum = tensor_get(load, 1, e);
        for (int64_t t = 0; t < probabilities.rows; t++)
            sum += tensor_get(probabilities, t, e);
        tensor_set(load, 0, e, tensor_get(load, 0, e) + r->counts[e]);
        tensor_set(load, 1, e, sum);
    }
}

void cpu_route_forward(struct device *device, struct tensor probabilities, struct tensor weights,
                       const struct routing *r, struct tensor load, struct tensor logits)
{
    (void)device;
    assert(r->chosen <= logits.columns && weights.rows == logits.rows * r->chosen);
#pragma omp parallel for if (tensor_count(logits) > CPU_PARALLEL)
    for (int64_t t = 0; t < logits.rows; t++) {
        softmax_row(probabilities, logits, t);
        choose(r, probabilities, t);
    }
    sort_rows(r, weights.rows, logits.columns);
    for (int64_t t = 0; t < logits.rows; t++) {
        double sum = r->normalises ? chosen_sum(r, probabilities, t) : 1;
        for (int64_t i = t * r->chosen; i < (t + 1) * r->chosen; i++)
            tensor_set(weights, r->slots[i], 0, tensor_get(probabilities, t, r->experts[i]) / sum);
    }
    if (load.at)
        add_load(load, r, probabilities);
}

// dp of a token's j-th choice, without the auxiliary loss.
static double choice_gradient(const struct routing *r, struct tensor dweights,
                              struct tensor weights, double sum, int64_t token, int64_t j)
{
    const int32_t *slots = r->slots + token * r->chosen;
    double mean = 0;
    if (!r->normalises)
        return tensor_get(dweights, slots[j], 0);
    for (int64_t i = 0; i < r->chosen; i++)
        mean += tensor_get(dweights, slots[i], 0) * tensor_get(weights, slots[i], 0);
    return (tensor_get(dweights, slots[j], 0) - mean) / sum;
}

void cpu_route_backward(struct device *device, struct tensor dlogits, struct tensor dweights,
                        struct tensor probabilities, struct tensor weights, const struct routing *r,
                        struct tensor dprobabilities)
{
    (void)device;
#pragma omp parallel for if (tensor_count(dlogits) > CPU_PARALLEL)
    for (int64_t t = 0; t < dlogits.rows; t++) {
        const int32_t *experts = r->experts + t * r->chosen;
        double sum = chosen_sum(r, probabilities, t), mean = 0;
        for (int64_t j = 0; j < r->chosen; j++)
            mean += choice_gradient(r, dweights, weights, sum, t, j) *
                    tensor_get(probabilities, t, experts[j]);
        for (int64_t e = 0; dprobabilities.at && e < dlogits.columns; e++)
            mean += tensor_get(dprobabilities, 0, e) * tensor_get(probabilities, t, e);
        for (int64_t e = 0; e < dlogits.columns; e++) {
            double dp = dprobabilities.at ? tensor_get(dprobabilities, 0, e) : 0;
            for (int64_t j = 0; j < r->chosen; j++)
                if (experts[j] == e)
                    dp += choice_gradient(r, dweights, weights, sum, t, j);
            tensor_set(dlogits, t, e, tensor_get(probabilities, t, e) * (dp - mean));
        }
    }
}

void cpu_combine(struct device *device, struct tensor out, struct tensor in,
                 const struct routing *r)
{
    (void)device;
#pragma omp parallel for if (tensor_count(out) > CPU_PARALLEL)
    for (int64_t i = 0; i < cpu_pieces(out); i++) {
        struct cpu_piece piece = cpu_piece(out, i);
        double sum[TENSOR_CHUNK] = { 0 }, x[TENSOR_CHUNK];
        for (int64_t j = 0; j < r->chosen; j++) {
            tensor_load(x, in, r->slots[piece.row * r->chosen + j], piece.column, piece.count);
            for (int64_t c = 0; c < piece.count; c++)
                sum[c] += x[c];
        }
        tensor_store(out, piece.row, piece.column, sum, piece.count);
    }
}

void cpu_balance(struct device *device, struct tensor loss, struct tensor dprobabilities,
                 struct tensor load, double decisions, double scale, double gradient_scale)
{
    (void)device;
    double sum = 0, experts = (double)load.columns;
    for (int64_t e = 0; e < load.columns; e++) {
        double share = tensor_get(load, 0, e) / decisions;
        sum += share * tensor_get(load, 1, e) / decisions;
        tensor_set(dprobabilities, 0, e, gradient_scale * experts * share / decisions);
    }
    tensor_set(loss, 0, 0, tensor_get(loss, 0, 0) + scale * experts * sum);
}
