// SPDX-License-Identifier: Apache-2.0
// Cross-entropy and its gradient, which takes the place of the logits; weights of rows.
//
//     x = logits, or cap · tanh(logits / cap)
//     loss = log Σⱼ exp xⱼ − x_target,  dxⱼ = scale · (exp(xⱼ) / Σ − [j = target])
//     dlogit = dx · (1 − (x / cap)²)

#include "train/cpu/cpu.h"

#include <math.h>

// A piece of a row, capped.
static void load_capped(double *x, struct tensor logits, int64_t row, int64_t column, int64_t n,
                        double cap)
{
    tensor_load(x, logits, row, column, n);
    for (int64_t i = 0; cap > 0 && i < n; i++)
        x[i] = cap * tanh(x[i] / cap);
}

static double cap_slope(double x, double cap)
{
    return cap > 0 ? 1 - x / cap * (x / cap) : 1;
}

static double largest_of(struct tensor logits, int64_t row, double cap)
{
    double largest = -INFINITY, x[TENSOR_CHUNK];
    for (int64_t c = 0; c < logits.columns; c += TENSOR_CHUNK) {
        int64_t n = tensor_chunk(logits.columns, c);
        load_capped(x, logits, row, c, n, cap);
        for (int64_t i = 0; i < n; i++)
            largest = x[i] > largest ? x[i] : largest;
    }
    return largest;
}

static double sum_of(struct tensor logits, int64_t row, double largest, double cap)
{
    double sum = 0, x[TENSOR_CHUNK];
    for (int64_t c = 0; c < logits.columns; c += TENSOR_CHUNK) {
        int64_t n = tensor_chunk(logits.columns, c);
        load_capped(x, logits, row, c, n, cap);
        for (int64_t i = 0; i < n; i++)
            sum += exp(x[i] - largest);
    }
    return sum;
}

void cpu_capped_cross_entropy(struct device *device, struct tensor losses, struct tensor logits,
                              const int32_t *targets, double scale, double cap)
{
    (void)device;
#pragma omp parallel for if (tensor_count(logits) > CPU_PARALLEL)
    for (int64_t row = 0; row < logits.rows; row++) {
        double target, exact, loss, x[TENSOR_CHUNK];
        load_capped(&target, logits, row, targets[row], 1, cap);
        double largest = largest_of(logits, row, cap), sum = sum_of(logits, row, largest, cap);
        loss = log(sum) + largest - target;
        tensor_store(losses, row, 0, &loss, 1);
        // Before rounding: p − 1 cancels.
        exact = scale * (exp(target - largest) / sum - 1) * cap_slope(target, cap);
        for (int64_t c = 0; c < logits.columns; c += TENSOR_CHUNK) {
            int64_t n = tensor_chunk(logits.columns, c);
            load_capped(x, logits, row, c, n, cap);
            for (int64_t i = 0; i < n; i++)
                x[i] = exp(x[i] - largest) * (scale / sum) * cap_slope(x[i], cap);
            tensor_store(logits, row, c, x, n);
        }
        tensor_store(logits, row, targets[row], &exact, 1);
    }
}

void cpu_cross_entropy(struct device *device, struct tensor losses, struct tensor logits,
                       const int32_t *targets, double scale)
{
    cpu_capped_cross_entropy(device, losses, logits, targets, scale, 0);
}

void cpu_weigh_rows(struct device *device, struct tensor x, struct tensor weights)
{
    (void)device;
#pragma omp parallel for if (tensor_count(x) > CPU_PARALLEL)
    for (int64_t i = 0; i < cpu_pieces(x); i++) {
        struct cpu_piece at = cpu_piece(x, i);
        double value[TENSOR_CHUNK], weight;
        tensor_load(&weight, weights, at.row, 0, 1);
        tensor_load(value, x, at.row, at.column, at.count);
        for (int64_t j = 0; j < at.count; j++)
            value[j] *= weight;
        tensor_store(x, at.row, at.column, value, at.count);
    }
}
