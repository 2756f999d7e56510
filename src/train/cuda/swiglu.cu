// SPDX-License-Identifier: Apache-2.0
// The gated activation, forward and in place backward; cpu/swiglu.c has the formulas.

#include "train/cuda/kernels.cuh"
#include "train/cuda/operations.h"

static __device__ inline float logistic(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

// struct swiglu in fp32; without a limit it is infinite.
struct form {
    float slope, offset, limit;
};

static form form_of(struct swiglu in)
{
    return form{ (float)in.slope, (float)in.offset, in.limit > 0 ? (float)in.limit : INFINITY };
}

template <typename T, int WIDTH> struct forward {
    enum { V = WIDTH };
    T *out;
    const T *gate, *up;
    const float *weight; // of the rows; NULL: 1
    form f;
    int64_t out_stride, gate_stride, up_stride;

    __device__ void operator()(int64_t row, int64_t column) const
    {
        float g[V], u[V], w = weight ? weight[row] : 1;
        load(g, gate + row * gate_stride + column);
        load(u, up + row * up_stride + column);
#pragma unroll
        for (int i = 0; i < V; i++) {
            g[i] = fminf(g[i], f.limit);
            u[i] = fminf(fmaxf(u[i], -f.limit), f.limit) + f.offset;
            u[i] *= w * (g[i] * logistic(f.slope * g[i]));
        }
        store(out + row * out_stride + column, u);
    }
};

template <typename T, int WIDTH> struct backward {
    enum { V = WIDTH };
    T *dgate, *dup;
    const T *dout, *gate, *up;
    form f;
    int64_t dgate_stride, dup_stride, dout_stride, gate_stride, up_stride;

    // Returns the part of the weight's gradient. Each thread reads an element before it writes it:
    // outputs may be inputs.
    __device__ float run(int64_t row, int64_t column, float w) const
    {
        float d[V], g[V], u[V], dw = 0;
        load(d, dout + row * dout_stride + column);
        load(g, gate + row * gate_stride + column);
        load(u, up + row * up_stride + column);
#pragma unroll
        for (int i = 0; i < V; i++) {
            bool g_is_cut = g[i] > f.limit, u_is_cut = fabsf(u[i]) > f.limit;
            g[i] = fminf(g[i], f.limit);
            u[i] = fminf(fmaxf(u[i], -f.limit), f.limit) + f.offset;
            float s = logistic(f.slope * g[i]), silu = g[i] * s;
            dw += d[i] * silu * u[i];
            d[i] *= w;
            g[i] = g_is_cut ? 0 : d[i] * u[i] * (s + f.slope * silu * (1.0f - s));
            u[i] = u_is_cut ? 0 : d[i] * silu;
        }
        store(dgate + row * dgate_stride + column, g);
        store(dup + row * dup_stride + column, u);
        return dw;
    }

    __device__ void operator()(int64_t row, int64_t column) const
    {
        run(row, column, 1);
    }
};

enum { WARP = 32, ROWS = 8 };

// A warp per row, whose weight has a gradient.
template <class Op>
static __global__ void weighted_kernel(Op op, float *dweight, const float *weight, int64_t rows,
                                       int64_t columns)
{
    int64_t row = (int64_t)blockIdx.x * ROWS + threadIdx.x / WARP;
    if (row >= rows)
        return;
    float w = weight[row], dw = 0;
    for (int64_t c = threadIdx.x % WARP * Op::V; c < columns; c += WARP * Op::V)
        dw += op.run(row, c, w);
    dw = group_sum(dw, WARP);
    if (threadIdx.x % WARP == 0)
        dweight[row] = dw;
}

static bool are_weights(struct cuda *cuda, std::initializer_list<struct tensor> weights)
{
    for (struct tensor t : weights)
        if (t.at && (t.dtype != DTYPE_F32 || t.stride != 1)) {
            cuda_fail(cuda, ERR_UNAVAILABLE, "swiglu on a GPU needs dense weights in fp32");
            return false;
        }
    return true;
}

void cuda_swiglu_forward(struct device *device, struct tensor out, struct tensor gate,
                         struct tensor up, struct tensor weight, struct swiglu f)
{
    struct cuda *cuda = cuda_of(device);
    if (!have_one_type(cuda, "swiglu", out.dtype, { gate, up }) || !are_weights(cuda, { weight }))
        return;
    if (!weight.at)
        flatten({ &out, &gate, &up });
    with_type(cuda, out.dtype, [&](auto t) {
        using T = decltype(t);
        const int most = 16 / sizeof(T);
        with_width<most>(in_vectors(most, { out, gate, up }), [&](auto w) {
            forward<T, w.value> op = { (T *)out.at,      (const T *)gate.at,
                                       (const T *)up.at, (const float *)weight.at,
                                       form_of(f),       out.stride,
                                       gate.stride,      up.stride };
            map(cuda, op, out.rows, out.columns, "swiglu");
        });
    });
}

void cuda_swiglu_backward(struct device *device, struct tensor dgate, struct tensor dup,
                          struct tensor dweight, struct tensor dout, struct tensor gate,
                          struct tensor up, struct tensor weight, struct swiglu f)
{
    struct cuda *cuda = cuda_of(device);
    if (!have_one_type(cuda, "swiglu", dout.dtype, { dgate, dup, gate, up }) ||
        !are_weights(cuda, { weight, dweight }) || !dout.rows)
        return;
    if (!weight.at)
        flatten({ &dgate, &dup, &dout, &gate, &up });
    with_type(cuda, dout.dtype, [&](auto t) {
        using T = decltype(t);
        const int most = 16 / sizeof(T);
        with_width<most>(in_vectors(most, { dgate, dup, dout, gate, up }), [&](auto w) {
            backward<T, w.value> op = { (T *)dgate.at,      (T *)dup.at,      (const T *)dout.at,
                                        (const T *)gate.at, (const T *)up.at, form_of(f),
                                        dgate.stride,       dup.stride,       dout.stride,
                                        gate.stride,        up.stride };
            if (!weight.at)
                return map(cuda, op, dout.rows, dout.columns, "swiglu gradient");
            weighted_kernel<<<(unsigned)ceil_div(dout.rows, ROWS), ROWS * WARP, 0, cuda->stream>>>(
                op, (float *)dweight.at, (const float *)weight.at, dout.rows, dout.columns);
            cuda_launched(cuda, "swiglu gradient");
        });
    });
}
