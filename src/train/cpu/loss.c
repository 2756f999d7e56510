// Cross-entropy and its gradient, which takes the place of the logits.
//
//     loss = log Σⱼ exp xⱼ − x_target,  dxⱼ = scale · (exp(xⱼ) / Σ − [j = target])

#include "train/cpu/cpu.h"

#include <assert.h>
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

// Exponentials take the place of the logits; returns their sum.
static double exponentiate(struct tensor logits, int64_t row, double largest)
{
    double sum = 0, x[TENSOR_CHUNK];
    for (int64_t c = 0; c < logits.columns; c += TENSOR_CHUNK) {
        int64_t n = tensor_chunk(logits.columns, c);
        tensor_load(x, logits, row, c, n);
        for (int64_t i = 0; i < n; i++)
            sum += x[i] = exp(x[i] - largest);
        tensor_store(logits, row, c, x, n);
    }
    return sum;
}

void cpu_cross_entropy(struct device *device, double *losses, struct tensor logits,
                       const int32_t *targets, double scale)
{
    (void)device;
    assert(logits.dtype != DTYPE_BF16);
#pragma omp parallel for if (tensor_count(logits) > CPU_PARALLEL)
    for (int64_t row = 0; row < logits.rows; row++) {
        double target, exact, x[TENSOR_CHUNK];
        tensor_load(&target, logits, row, targets[row], 1);
        double largest = largest_of(logits, row), sum = exponentiate(logits, row, largest);
        losses[row] = log(sum) + largest - target;
        exact = scale * (exp(target - largest) / sum - 1); // before rounding: p − 1 cancels
        for (int64_t c = 0; c < logits.columns; c += TENSOR_CHUNK) {
            int64_t n = tensor_chunk(logits.columns, c);
            tensor_load(x, logits, row, c, n);
            for (int64_t i = 0; i < n; i++)
                x[i] *= scale / sum;
            tensor_store(logits, row, c, x, n);
        }
        tensor_store(logits, row, targets[row], &exact, 1);
    }
}
