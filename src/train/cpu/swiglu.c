// SPDX-License-Identifier: Apache-2.0
// The gated activation: out = g · σ(g) · u, with σ the logistic function.
//
//     dg = dout · u · σ(g) · (1 + g · (1 − σ(g))),  du = dout · g · σ(g)

#include "train/cpu/cpu.h"

#include <math.h>

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

void cpu_swiglu_forward(struct device *device, struct tensor out, struct tensor gate,
                        struct tensor up)
{
    (void)device;
#pragma omp parallel for if (tensor_count(out) > CPU_PARALLEL)
    for (int64_t i = 0; i < cpu_pieces(out); i++) {
        struct cpu_piece at = cpu_piece(out, i);
        double g[TENSOR_CHUNK], u[TENSOR_CHUNK];
        tensor_load(g, gate, at.row, at.column, at.count);
        tensor_load(u, up, at.row, at.column, at.count);
        for (int64_t j = 0; j < at.count; j++)
            u[j] *= g[j] * logistic(g[j]);
        tensor_store(out, at.row, at.column, u, at.count);
    }
}

void cpu_swiglu_backward(struct device *device, struct tensor dgate, struct tensor dup,
                         struct tensor dout, struct tensor gate, struct tensor up)
{
    (void)device;
#pragma omp parallel for if (tensor_count(dout) > CPU_PARALLEL)
    for (int64_t i = 0; i < cpu_pieces(dout); i++) {
        struct cpu_piece at = cpu_piece(dout, i);
        double g[TENSOR_CHUNK], u[TENSOR_CHUNK], d[TENSOR_CHUNK];
        tensor_load(g, gate, at.row, at.column, at.count);
        tensor_load(u, up, at.row, at.column, at.count);
        tensor_load(d, dout, at.row, at.column, at.count);
        for (int64_t j = 0; j < at.count; j++) {
            double s = logistic(g[j]), to_gate = d[j] * u[j] * s * (1 + g[j] * (1 - s));
            u[j] = d[j] * g[j] * s;
            g[j] = to_gate;
        }
        tensor_store(dgate, at.row, at.column, g, at.count);
        tensor_store(dup, at.row, at.column, u, at.count);
    }
}
