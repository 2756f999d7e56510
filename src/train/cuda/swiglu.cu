// SPDX-License-Identifier: Apache-2.0
// The gated activation, forward and in place backward; cpu/swiglu.c has the formulas.

#include "train/cuda/kernels.cuh"
#include "train/cuda/operations.h"

static __device__ inline float logistic(float x)
{
    return 1.0f / (1.0f + expf(-x));
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
            u[i] *= g[i] * logistic(g[i]);
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
            float s = logistic(g[i]), silu = g[i] * s;
            float to_gate = d[i] * u[i] * (s + silu * (1.0f - s));
            u[i] = d[i] * silu;
            g[i] = to_gate;
        }
        store(dgate + row * dgate_stride + column, g);
        store(dup + row * dup_stride + column, u);
    }
};

static bool have_one_type(struct cuda *cuda, enum dtype dtype,
                          std::initializer_list<struct tensor> tensors)
{
    for (struct tensor t : tensors)
        if (t.dtype != dtype) {
            cuda_fail(cuda, ERR_UNAVAILABLE, "swiglu on a GPU needs tensors of one type");
            return false;
        }
    return true;
}

// Rows have weights in mixtures of experts, which run on the CPU alone so far.
static bool has_no_weight(struct cuda *cuda, struct tensor weight)
{
    if (weight.at)
        cuda_fail(cuda, ERR_UNAVAILABLE, "swiglu on a GPU gives every row the weight 1");
    return !weight.at;
}

void cuda_swiglu_forward(struct device *device, struct tensor out, struct tensor gate,
                         struct tensor up, struct tensor weight)
{
    struct cuda *cuda = cuda_of(device);
    if (!have_one_type(cuda, out.dtype, { gate, up }) || !has_no_weight(cuda, weight))
        return;
    flatten({ &out, &gate, &up });
    with_type(cuda, out.dtype, [&](auto t) {
        using T = decltype(t);
        const int most = 16 / sizeof(T);
        with_width<most>(in_vectors(most, { out, gate, up }), [&](auto w) {
            forward<T, w.value> op = { (T *)out.at, (const T *)gate.at, (const T *)up.at,
                                       out.stride,  gate.stride,        up.stride };
            map(cuda, op, out.rows, out.columns, "swiglu");
        });
    });
}

void cuda_swiglu_backward(struct device *device, struct tensor dgate, struct tensor dup,
                          struct tensor dweight, struct tensor dout, struct tensor gate,
                          struct tensor up, struct tensor weight)
{
    struct cuda *cuda = cuda_of(device);
    if (!have_one_type(cuda, dout.dtype, { dgate, dup, gate, up }) ||
        !has_no_weight(cuda, weight) || !has_no_weight(cuda, dweight))
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
            map(cuda, op, dout.rows, dout.columns, "swiglu gradient");
        });
    });
}
