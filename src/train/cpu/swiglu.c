// SPDX-License-Identifier: Apache-2.0
// The gated activation: out = w · g · σ(g) · u, with σ the logistic function and w a row's weight.
//
//     dg = w · dout · u · σ(g) · (1 + g · (1 − σ(g))),  du = w · dout · g · σ(g)
//     dw = Σ dout · g · σ(g) · u

#include "train/cpu/cpu.h"

#include <math.h>

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

static double weight_of(struct tensor weight, int64_t row)
{
    double w = 1;
    if (weight.at)
        tensor_load(&w, weight, row, 0, 1);
    return w;
}

void cpu_swiglu_forward(struct device *device, struct tensor out, struct tensor gate,
                        struct tensor up, struct tensor weight)
{
    (void)device;
#pragma omp parallel for if (tensor_count(out) > CPU_PARALLEL)
    for (int64_t i = 0; i < cpu_pieces(out); i++) {
        struct cpu_piece at = cpu_piece(out, i);
        double g[TENSOR_CHUNK], u[TENSOR_CHUNK], w = weight_of(weight, at.row);
        tensor_load(g, gate, at.row, at.column, at.count);
        tensor_load(u, up, at.row, at.column, at.count);
        for (int64_t j = 0; j < at.count; j++)
            u[j] *= w * g[j] * logistic(g[j]);
        tensor_store(out, at.row, at.column, u, at.count);
    }
}

struct gated {
    struct tensor dgate, dup, dout, gate, up;
};

// The gradients of one row; returns that of its weight.
static double row_backward(const struct gated *t, int64_t row, double w)
{
    double dw = 0;
    for (int64_t c = 0; c < t->dout.columns; c += TENSOR_CHUNK) {
        int64_t n = tensor_chunk(t->dout.columns, c);
        double g[TENSOR_CHUNK], u[TENSOR_CHUNK], d[TENSOR_CHUNK];
        tensor_load(g, t->gate, row, c, n);
        tensor_load(u, t->up, row, c, n);
        tensor_load(d, t->dout, row, c, n);
        for (int64_t j = 0; j < n; j++) {
            double s = logistic(g[j]), to_gate = w * d[j] * u[j] * s * (1 + g[j] * (1 - s));
            dw += d[j] * g[j] * s * u[j];
            u[j] = w * d[j] * g[j] * s;
            g[j] = to_gate;
        }
        tensor_store(t->dgate, row, c, g, n);
        tensor_store(t->dup, row, c, u, n);
    }
    return dw;
}

void cpu_swiglu_backward(struct device *device, struct tensor dgate, struct tensor dup,
                         struct tensor dweight, struct tensor dout, struct tensor gate,
                         struct tensor up, struct tensor weight)
{
    (void)device;
    struct gated tensors = { dgate, dup, dout, gate, up };
#pragma omp parallel for if (tensor_count(dout) > CPU_PARALLEL)
    for (int64_t t = 0; t < dout.rows; t++) {
        double dw = row_backward(&tensors, t, weight_of(weight, t));
        if (dweight.at)
            tensor_store(dweight, t, 0, &dw, 1);
    }
}
