// SPDX-License-Identifier: Apache-2.0
// The gated activation with GELU: out = g · Φ(g) · u, Φ(g) = (1 + tanh(√(2/π) · (g + c · g³))) / 2.
//
//     dg = dout · u · (Φ(g) + g · Φ'(g)),  du = dout · g · Φ(g)

#include "train/cpu/cpu.h"

#include <math.h>

static const double root = 0.7978845608028654, cubic = 0.044715; // √(2/π); c

// Φ(g), and its slope.
static double normal(double g, double *slope)
{
    double t = tanh(root * (g + cubic * g * g * g));
    *slope = 0.5 * (1 - t * t) * root * (1 + 3 * cubic * g * g);
    return 0.5 * (1 + t);
}

void cpu_geglu_forward(struct device *device, struct tensor out, struct tensor gate,
                       struct tensor up)
{
    (void)device;
#pragma omp parallel for if (tensor_count(out) > CPU_PARALLEL)
    for (int64_t i = 0; i < cpu_pieces(out); i++) {
        struct cpu_piece at = cpu_piece(out, i);
        double g[TENSOR_CHUNK], u[TENSOR_CHUNK], slope;
        tensor_load(g, gate, at.row, at.column, at.count);
        tensor_load(u, up, at.row, at.column, at.count);
        for (int64_t j = 0; j < at.count; j++)
            u[j] *= g[j] * normal(g[j], &slope);
        tensor_store(out, at.row, at.column, u, at.count);
    }
}

void cpu_geglu_backward(struct device *device, struct tensor dgate, struct tensor dup,
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
            double slope, part = normal(g[j], &slope);
            double to_gate = d[j] * u[j] * (part + g[j] * slope);
            u[j] = d[j] * g[j] * part;
            g[j] = to_gate;
        }
        tensor_store(dgate, at.row, at.column, g, at.count);
        tensor_store(dup, at.row, at.column, u, at.count);
    }
}
