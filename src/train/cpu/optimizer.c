// AdamW and SGD on whole tensors, and the sum of squares that clipping needs.
//
//     w ← w (1 − rate · decay),  m ← β₁ m + (1 − β₁) g,  v ← β₂ v + (1 − β₂) g²
//     w ← w − rate / (1 − β₁ᵗ) · m / (√(v / (1 − β₂ᵗ)) + ε)

#include "train/cpu/cpu.h"

#include <math.h>

void cpu_adamw(struct device *device, struct tensor weight, struct tensor m, struct tensor v,
               struct tensor gradient, const struct adamw *adamw, double gradient_scale)
{
    (void)device;
    double t = (double)adamw->step, beta1 = adamw->beta1, beta2 = adamw->beta2;
    double rate = adamw->rate / (1 - pow(beta1, t)), second = 1 - pow(beta2, t);
    int64_t count = tensor_count(weight);
    struct tensor *all[] = { &weight, &m, &v, &gradient };
    for (int i = 0; i < 4; i++)
        *all[i] = tensor_shape(*all[i], 1, count);
#pragma omp parallel for if (count > CPU_PARALLEL)
    for (int64_t c = 0; c < count; c += TENSOR_CHUNK) {
        int64_t n = tensor_chunk(count, c);
        double w[TENSOR_CHUNK], first[TENSOR_CHUNK], square[TENSOR_CHUNK], g[TENSOR_CHUNK];
        tensor_load(w, weight, 0, c, n);
        tensor_load(first, m, 0, c, n);
        tensor_load(square, v, 0, c, n);
        tensor_load(g, gradient, 0, c, n);
        for (int64_t i = 0; i < n; i++) {
            double d = g[i] * gradient_scale;
            first[i] = beta1 * first[i] + (1 - beta1) * d;
            square[i] = beta2 * square[i] + (1 - beta2) * d * d;
            w[i] -= w[i] * adamw->rate * adamw->decay;
            w[i] -= rate * first[i] / (sqrt(square[i] / second) + adamw->epsilon);
        }
        tensor_store(weight, 0, c, w, n);
        tensor_store(m, 0, c, first, n);
        tensor_store(v, 0, c, square, n);
    }
}

void cpu_sgd(struct device *device, struct tensor weight, struct tensor moment,
             struct tensor gradient, double rate, double momentum, double decay,
             double gradient_scale)
{
    (void)device;
    int64_t count = tensor_count(weight);
    weight = tensor_shape(weight, 1, count);
    gradient = tensor_shape(gradient, 1, count);
    if (moment.at)
        moment = tensor_shape(moment, 1, count);
#pragma omp parallel for if (count > CPU_PARALLEL)
    for (int64_t c = 0; c < count; c += TENSOR_CHUNK) {
        int64_t n = tensor_chunk(count, c);
        double w[TENSOR_CHUNK], g[TENSOR_CHUNK], m[TENSOR_CHUNK] = { 0 };
        tensor_load(w, weight, 0, c, n);
        tensor_load(g, gradient, 0, c, n);
        if (moment.at)
            tensor_load(m, moment, 0, c, n);
        for (int64_t i = 0; i < n; i++) {
            m[i] = momentum * m[i] + g[i] * gradient_scale + decay * w[i];
            w[i] -= rate * m[i];
        }
        tensor_store(weight, 0, c, w, n);
        if (moment.at)
            tensor_store(moment, 0, c, m, n);
    }
}

// In a fixed number of slices, so that the sum does not depend on the number of threads.
double cpu_squares(struct device *device, struct tensor in)
{
    (void)device;
    enum { SLICES = 64 };
    int64_t count = tensor_count(in);
    double sums[SLICES] = { 0 }, sum = 0;
    in = tensor_shape(in, 1, count);
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
        sum += sums[slice];
    return sum;
}
