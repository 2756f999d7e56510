// SPDX-License-Identifier: Apache-2.0
// Attention sinks; cpu/sink.c has the formulas.

#include "train/cuda/kernels.cuh"
#include "train/cuda/operations.h"

// The heads of a tensor (T, H · size), with the log-sum-exp of each of their rows.
struct heads {
    const float *lse;
    int64_t lse_stride, size;
    operand sinks;
};

template <typename T, int WIDTH> struct scale_heads {
    enum { V = WIDTH };
    T *out;
    int64_t stride;
    heads of;

    __device__ void operator()(int64_t row, int64_t column) const
    {
        float x[V];
        int64_t head = column / of.size;
        float sink = load_any(of.sinks, head);
        float factor = 1.0f / (1.0f + expf(sink - of.lse[row * of.lse_stride + head]));
        load(x, out + row * stride + column);
#pragma unroll
        for (int i = 0; i < V; i++)
            x[i] *= factor;
        store(out + row * stride + column, x);
    }
};

struct add_sinks {
    enum { V = 1 };
    float *lse;
    int64_t stride;
    operand sinks;

    __device__ void operator()(int64_t row, int64_t head) const
    {
        float *at = lse + row * stride + head, sink = load_any(sinks, head);
        float larger = fmaxf(*at, sink), smaller = fminf(*at, sink);
        *at = larger + log1pf(expf(smaller - larger));
    }
};

static bool is_exact(struct cuda *cuda, struct tensor lse)
{
    if (lse.dtype == DTYPE_F32)
        return true;
    cuda_fail(cuda, ERR_UNAVAILABLE, "sinks on a GPU need sums of exponentials in fp32");
    return false;
}

static heads heads_of(struct tensor out, struct tensor lse, struct tensor sinks)
{
    return heads{ (const float *)lse.at, lse.stride, out.columns / sinks.columns, any_of(sinks) };
}

void cuda_sink_forward(struct device *device, struct tensor out, struct tensor lse,
                       struct tensor sinks)
{
    struct cuda *cuda = cuda_of(device);
    heads of = heads_of(out, lse, sinks);
    if (!is_exact(cuda, lse))
        return;
    with_type(cuda, out.dtype, [&](auto t) {
        using T = decltype(t);
        const int most = 16 / sizeof(T);
        with_width<most>(of.size % most == 0 && in_vectors(most, { out }), [&](auto w) {
            scale_heads<T, w.value> op = { (T *)out.at, out.stride, of };
            map(cuda, op, out.rows, out.columns, "sinks");
        });
    });
    add_sinks op = { (float *)lse.at, lse.stride, any_of(sinks) };
    map(cuda, op, lse.rows, lse.columns, "sinks: sums");
}

template <typename T> struct sink_gradient {
    enum { V = 1 };
    const T *dout, *out;
    int64_t dout_stride, out_stride;
    heads of;

    __device__ void operator()(float (&sum)[1], int64_t row, int64_t head) const
    {
        const T *d = dout + row * dout_stride + head * of.size;
        const T *o = out + row * out_stride + head * of.size;
        float dot = 0;
        for (int64_t i = 0; i < of.size; i++)
            dot += widen(d[i]) * widen(o[i]);
        sum[0] -= expf(load_any(of.sinks, head) - of.lse[row * of.lse_stride + head]) * dot;
    }
};

void cuda_sink_backward(struct device *device, struct tensor dsinks, struct tensor dout,
                        struct tensor out, struct tensor lse, struct tensor sinks)
{
    struct cuda *cuda = cuda_of(device);
    if (!is_exact(cuda, lse))
        return;
    if (dout.dtype != out.dtype)
        return cuda_fail(cuda, ERR_UNAVAILABLE, "sinks on a GPU need tensors of one type");
    with_type(cuda, out.dtype, [&](auto t) {
        using T = decltype(t);
        sink_gradient<T> op = { (const T *)dout.at, (const T *)out.at, dout.stride, out.stride,
                                heads_of(out, lse, sinks) };
        add_columns(cuda, dsinks, op, out.rows, sinks.columns, "sink gradient");
    });
}
