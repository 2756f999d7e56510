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
    int64_t count = tensor_count(out);
    out = tensor_shape(out, 1, count);
    gate = tensor_shape(gate, 1, count);
    up = tensor_shape(up, 1, count);
#pragma omp parallel for if (count > CPU_PARALLEL)
    for (int64_t c = 0; c < count; c += TENSOR_CHUNK) {
        int64_t n = tensor_chunk(count, c);
        double g[TENSOR_CHUNK], u[TENSOR_CHUNK];
        tensor_load(g, gate, 0, c, n);
        tensor_load(u, up, 0, c, n);
        for (int64_t i = 0; i < n; i++)
            u[i] *= g[i] * logistic(g[i]);
        tensor_store(out, 0, c, u, n);
    }
}

void cpu_swiglu_backward(struct device *device, struct tensor dgate, struct tensor dup,
                         struct tensor dout, struct tensor gate, struct tensor up)
{
    (void)device;
    int64_t count = tensor_count(dout);
    dgate = tensor_shape(dgate, 1, count);
    dup = tensor_shape(dup, 1, count);
    dout = tensor_shape(dout, 1, count);
    gate = tensor_shape(gate, 1, count);
    up = tensor_shape(up, 1, count);
#pragma omp parallel for if (count > CPU_PARALLEL)
    for (int64_t c = 0; c < count; c += TENSOR_CHUNK) {
        int64_t n = tensor_chunk(count, c);
        double g[TENSOR_CHUNK], u[TENSOR_CHUNK], d[TENSOR_CHUNK];
        tensor_load(g, gate, 0, c, n);
        tensor_load(u, up, 0, c, n);
        tensor_load(d, dout, 0, c, n);
        for (int64_t i = 0; i < n; i++) {
            double s = logistic(g[i]), to_gate = d[i] * u[i] * s * (1 + g[i] * (1 - s));
            u[i] = d[i] * g[i] * s;
            g[i] = to_gate;
        }
        tensor_store(dgate, 0, c, g, n);
        tensor_store(dup, 0, c, u, n);
    }
}
