// SPDX-License-Identifier: Apache-2.0
// AdamW and SGD on whole tensors, and the sums that loss and clipping need.
//
//     w ← w (1 − rate · decay),  m ← β₁ m + (1 − β₁) g,  v ← β₂ v + (1 − β₂) g²
//     w ← w − rate / (1 − β₁ᵗ) · m / (√(v / (1 − β₂ᵗ)) + ε)

#include "train/cpu/cpu.h"

#include "base/half.h"
#include "train/counter_rng.h"

#include <math.h>

static double number(struct tensor in)
{
    return *(const double *)in.at;
}

// Stochastic rounding of bf16: each number uses 16 of the 64 random bits of its position.
static void store(struct tensor out, int64_t column, const double *in, int64_t count,
                  const struct adamw *adamw, int part)
{
    if (out.dtype != DTYPE_BF16) {
        tensor_store(out, 0, column, in, count);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        ((uint16_t *)out.at)[column + i] = counter_rng_round_bf16(
            half_bits((float)in[i]),
            counter_rng_bits(adamw->key, (uint64_t)(adamw->first + column + i)) >> (16 * part));
}

void cpu_adamw(struct device *device, struct tensor weight, struct tensor m, struct tensor v,
               struct tensor gradient, const struct adamw *adamw, struct tensor scale)
{
    (void)device;
    double t = (double)adamw->step, beta1 = adamw->beta1, beta2 = adamw->beta2;
    double rate = adamw->rate / (1 - pow(beta1, t)), second = 1 - pow(beta2, t);
    int64_t count = tensor_count(weight);
    struct tensor *operands[] = { &weight, &m, &v, &gradient };
    for (int i = 0; i < 4; i++)
        *operands[i] = tensor_flat(*operands[i]);
#pragma omp parallel for if (count > CPU_PARALLEL)
    for (int64_t c = 0; c < count; c += TENSOR_CHUNK) {
        int64_t n = tensor_chunk(count, c);
        double w[TENSOR_CHUNK], first[TENSOR_CHUNK], square[TENSOR_CHUNK], g[TENSOR_CHUNK];
        tensor_load(w, weight, 0, c, n);
        tensor_load(first, m, 0, c, n);
        tensor_load(square, v, 0, c, n);
        tensor_load(g, gradient, 0, c, n);
        for (int64_t i = 0; i < n; i++) {
            double d = g[i] * number(scale);
            first[i] = beta1 * first[i] + (1 - beta1) * d;
            square[i] = beta2 * square[i] + (1 - beta2) * d * d;
            w[i] -= w[i] * adamw->rate * adamw->decay;
            w[i] -= rate * first[i] / (sqrt(square[i] / second) + adamw->epsilon);
        }
        store(weight, c, w, n, adamw, 0);
        store(m, c, first, n, adamw, 1);
        store(v, c, square, n, adamw, 2);
    }
}

void cpu_sgd(struct device *device, struct tensor weight, struct tensor moment,
             struct tensor gradient, double rate, double momentum, double decay,
             struct tensor scale)
{
    (void)device;
    int64_t count = tensor_count(weight);
    weight = tensor_flat(weight);
    gradient = tensor_flat(gradient);
    if (moment.at)
        moment = tensor_flat(moment);
#pragma omp parallel for if (count > CPU_PARALLEL)
    for (int64_t c = 0; c < count; c += TENSOR_CHUNK) {
        int64_t n = tensor_chunk(count, c);
        double w[TENSOR_CHUNK], g[TENSOR_CHUNK], m[TENSOR_CHUNK] = { 0 };
        tensor_load(w, weight, 0, c, n);
        tensor_load(g, gradient, 0, c, n);
        if (moment.at)
            tensor_load(m, moment, 0, c, n);
        for (int64_t i = 0; i < n; i++) {
            m[i] = momentum * m[i] + g[i] * number(scale) + decay * w[i];
            w[i] -= rate * m[i];
        }
        tensor_store(weight, 0, c, w, n);
        if (moment.at)
            tensor_store(moment, 0, c, m, n);
    }
}

// A fixed number of slices, so that the sum does not depend on the number of threads.
void cpu_sum_squares(struct device *device, struct tensor sum, struct tensor in)
{
    (void)device;
    enum { SLICES = 64 };
    int64_t count = tensor_count(in);
    double sums[SLICES] = { 0 }, total = 0;
    in = tensor_flat(in);
#pragma omp parallel for if (count > CPU_PARALLEL)
    for (int slice = 0; slice < SLICES; slice++) {
        int64_t end = count * (slice + 1) / SLICES;
        for (int64_t c = count * slice / SLICES; c < end; c += TENSOR_CHUNK) {
            double x[TENSOR_CHUNK];
            int64_t n = tensor_chunk(end, c);
            tensor_load(x, in, 0, c, n);
            for (int64_t i = 0; i < n; i++)
                sums[slice] += x[i] * x[i];
        }
    }
    for (int slice = 0; slice < SLICES; slice++)
        total += sums[slice];
    *(double *)sum.at += total;
}

void cpu_sum(struct device *device, struct tensor sum, struct tensor in)
{
    (void)device;
    double total = 0;
    for (int64_t i = 0; i < cpu_pieces(in); i++) {
        struct cpu_piece at = cpu_piece(in, i);
        double x[TENSOR_CHUNK];
        tensor_load(x, in, at.row, at.column, at.count);
        for (int64_t j = 0; j < at.count; j++)
            total += x[j];
    }
    *(double *)sum.at += total;
}

void cpu_clip(struct device *device, struct tensor scale, struct tensor squared_norm, double limit)
{
    (void)device;
    double norm = sqrt(number(squared_norm));
    *(double *)scale.at = limit > 0 && norm > limit ? limit / norm : 1;
}
