// SPDX-License-Identifier: Apache-2.0
// Cross-entropy and its gradient, which takes the place of the logits.
//
//     loss = log Σⱼ exp xⱼ − x_target,  dxⱼ = scale · (exp(xⱼ) / Σ − [j = target])

#include "train/cpu/cpu.h"

#include <math.h>

static double largest_of(struct tensor logits, int64_t row)
{
    double largest = -INFINITY, x[TENSOR_CHUNK];
    for (int64_t c = 0; c < logits.columns; c += TENSOR_CHUNK) {
        int64_t n = tensor_chunk(logits.columns, c);
        tensor_load(x, logits, row, c, n);
        for (int64_t i = 0; i < n; i++)
            largest = x[i] > largest ? x[i] : largest;
    }
    return largest;
}

static double sum_of(struct tensor logits, int64_t row, double largest)
{
    double sum = 0, x[TENSOR_CHUNK];
    for (int64_t c = 0; c < logits.columns; c += TENSOR_CHUNK) {
        int64_t n = tensor_chunk(logits.columns, c);
        tensor_load(x, logits, row, c, n);
        for (int64_t i = 0; i < n; i++)
            sum += exp(x[i] - largest);
    }
    return sum;
}

void cpu_cross_entropy(struct device *device, struct tensor losses, struct tensor logits,
                       const int32_t *targets, double scale)
{
    (void)device;
#pragma omp parallel for if (tensor_count(logits) > CPU_PARALLEL)
    for (int64_t row = 0; row < logits.rows; row++) {
        double target, exact, loss, x[TENSOR_CHUNK];
        tensor_load(&target, logits, row, targets[row], 1);
        double largest = largest_of(logits, row), sum = sum_of(logits, row, largest);
        loss = log(sum) + largest - target;
        tensor_store(losses, row, 0, &loss, 1);
        exact = scale * (exp(target - largest) / sum - 1); // before rounding: p − 1 cancels
        for (int64_t c = 0; c < logits.columns; c += TENSOR_CHUNK) {
            int64_t n = tensor_chunk(logits.columns, c);
            tensor_load(x, logits, row, c, n);
            for (int64_t i = 0; i < n; i++)
                x[i] = exp(x[i] - largest) * (scale / sum);
            tensor_store(logits, row, c, x, n);
        }
        tensor_store(logits, row, targets[row], &exact, 1);
    }
}
