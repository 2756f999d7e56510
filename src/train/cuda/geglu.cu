// SPDX-License-Identifier: Apache-2.0
// The gated activation with GELU, forward and in place backward; cpu/geglu.c has the formulas.
//
// Φ(g) = (1 + tanh(y)) / 2 is 1 / (1 + exp(−2 y)): one exponential, as in SwiGLU.

#include "train/cuda/kernels.cuh"
#include "train/cuda/operations.h"

struct normal {
    float part, slope; // Φ(g), and how fast it grows
};

static __device__ inline normal normal_of(float g)
{
    const float twice_root = 1.5957691216057308f, cubic = 0.044715f; // 2 · √(2/π)
    float square = g * g, y = twice_root * g * (1.0f + cubic * square);
    float part = 1.0f / (1.0f + expf(-y));
    return normal{ part, part * (1.0f - part) * twice_root * (1.0f + 3.0f * cubic * square) };
}

template <typename T, int WIDTH> struct forward {
    enum { V = WIDTH };
    T *out;
    const T *gate, *up;
    int64_t out_stride, gate_stride, up_stride;

    __device__ void operator()(int64_t row, int64_t column) const
    {
        float g[V], u[V];
        load(g, gate + row * gate_stride + column);
        load(u, up + row * up_stride + column);
#pragma unroll
        for (int i = 0; i < V; i++)
            u[i] *= g[i] * normal_of(g[i]).part;
        store(out + row * out_stride + column, u);
    }
};

// Each thread reads an element before it writes it: outputs may be inputs.
template <typename T, int WIDTH> struct backward {
    enum { V = WIDTH };
    T *dgate, *dup;
    const T *dout, *gate, *up;
    int64_t dgate_stride, dup_stride, dout_stride, gate_stride, up_stride;

    __device__ void operator()(int64_t row, int64_t column) const
    {
        float d[V], g[V], u[V];
        load(d, dout + row * dout_stride + column);
        load(g, gate + row * gate_stride + column);
        load(u, up + row * up_stride + column);
#pragma unroll
        for (int i = 0; i < V; i++) {
            normal n = normal_of(g[i]);
            float to_gate = d[i] * u[i] * (n.part + g[i] * n.slope);
            u[i] = d[i] * g[i] * n.part;
            g[i] = to_gate;
        }
        store(dgate + row * dgate_stride + column, g);
        store(dup + row * dup_stride + column, u);
    }
};

void cuda_geglu_forward(struct device *device, struct tensor out, struct tensor gate,
                        struct tensor up)
{
    struct cuda *cuda = cuda_of(device);
    if (!have_one_type(cuda, "geglu", out.dtype, { gate, up }))
        return;
    flatten({ &out, &gate, &up });
    with_type(cuda, out.dtype, [&](auto t) {
        using T = decltype(t);
        const int most = 16 / sizeof(T);
        with_width<most>(in_vectors(most, { out, gate, up }), [&](auto w) {
            forward<T, w.value> op = { (T *)out.at, (const T *)gate.at, (const T *)up.at,
                                       out.stride,  gate.stride,        up.stride };
            map(cuda, op, out.rows, out.columns, "geglu");
        });
    });
}

void cuda_geglu_backward(struct device *device, struct tensor dgate, struct tensor dup,
                         struct tensor dout, struct tensor gate, struct tensor up)
{
    struct cuda *cuda = cuda_of(device);
    if (!have_one_type(cuda, "geglu", dout.dtype, { dgate, dup, gate, up }))
        return;
    flatten({ &dgate, &dup, &dout, &gate, &up });
    with_type(cuda, dout.dtype, [&](auto t) {
        using T = decltype(t);
        const int most = 16 / sizeof(T);
        with_width<most>(in_vectors(most, { dgate, dup, dout, gate, up }), [&](auto w) {
            backward<T, w.value> op = { (T *)dgate.at,      (T *)dup.at,      (const T *)dout.at,
                                        (const T *)gate.at, (const T *)up.at, dgate.stride,
                                        dup.stride,         dout.stride,      gate.stride,
                                        up.stride };
            map(cuda, op, dout.rows, dout.columns, "geglu gradient");
        });
    });
}
