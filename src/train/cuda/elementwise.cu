// SPDX-License-Identifier: Apache-2.0
// Copies and casts, filling, scaling, sums, biases, dropout and hashes: one pass over memory each.

#include "train/cuda/kernels.cuh"
#include "train/cuda/operations.h"

#include <math.h>

// --- copies ------------------------------------------------------------------

// out[to[r]] = in[from[r]]; a list that is NULL means row r itself.
template <typename OUT, typename IN, int WIDTH> struct copy {
    enum { V = WIDTH };
    OUT *out;
    const IN *in;
    int64_t out_stride, in_stride;
    const int32_t *to, *from;

    __device__ void operator()(int64_t row, int64_t column) const
    {
        float x[V];
        int64_t source = from ? from[row] : row, target = to ? to[row] : row;
        load(x, in + source * in_stride + column);
        store(out + target * out_stride + column, x);
    }
};

template <class F> static void with_each_type(enum dtype dtype, F f)
{
    switch (dtype) {
    case DTYPE_F32: f(float()); break;
    case DTYPE_BF16: f(bf16()); break;
    case DTYPE_F64: f(double()); break;
    default: f(fp8()); break;
    }
}

static void copy_rows(struct cuda *cuda, struct tensor out, struct tensor in, int64_t rows,
                      const int32_t *to, const int32_t *from, const char *what)
{
    with_each_type(out.dtype, [&](auto o) {
        with_each_type(in.dtype, [&](auto i) {
            using OUT = decltype(o);
            using IN = decltype(i);
            const int larger = sizeof(OUT) > sizeof(IN) ? sizeof(OUT) : sizeof(IN);
            with_width<16 / larger>(in_vectors(16 / larger, { out, in }), [&](auto w) {
                copy<OUT, IN, w.value> op = {
                    (OUT *)out.at, (const IN *)in.at, out.stride, in.stride, to, from
                };
                map(cuda, op, rows, out.columns, what);
            });
        });
    });
}

void cuda_cast(struct device *device, struct tensor out, struct tensor in)
{
    struct cuda *cuda = cuda_of(device);
    if (cuda->err || !out.rows || !out.columns)
        return;
    if (out.dtype == in.dtype) {
        size_t size = (size_t)bytes_of(in.dtype), row = (size_t)in.columns * size;
        cudaError_t status = is_dense(out) && is_dense(in)
                                 ? cudaMemcpyAsync(out.at, in.at, row * (size_t)in.rows,
                                                   cudaMemcpyDeviceToDevice, cuda->stream)
                                 : cudaMemcpy2DAsync(out.at, (size_t)out.stride * size, in.at,
                                                     (size_t)in.stride * size, row, (size_t)in.rows,
                                                     cudaMemcpyDeviceToDevice, cuda->stream);
        cuda_check(cuda, status, "a copy");
        return;
    }
    flatten({ &out, &in });
    copy_rows(cuda, out, in, out.rows, NULL, NULL, "cast");
}

// A matrix of each expert; in may be NULL: zeros.
template <typename OUT, typename IN, int WIDTH> struct copy_each {
    enum { V = WIDTH };
    OUT *out;
    const IN *in;
    int64_t out_stride, in_stride, out_step, in_step, rows;

    __device__ void operator()(int64_t row_of_all, int64_t column) const
    {
        int64_t matrix = row_of_all / rows, row = row_of_all % rows;
        float x[V] = { 0 };
        if (in)
            load(x, in + matrix * in_step + row * in_stride + column);
        store(out + matrix * out_step + row * out_stride + column, x);
    }
};

void cuda_experts_cast(struct device *device, struct expert_matrices to,
                       struct expert_matrices from)
{
    struct cuda *cuda = cuda_of(device);
    struct tensor out = to.each, in = from.each;
    with_type(cuda, out.dtype, [&](auto o) {
        with_type(cuda, in.at ? in.dtype : out.dtype, [&](auto i) {
            using OUT = decltype(o);
            using IN = decltype(i);
            const int most = 16 / (sizeof(OUT) > sizeof(IN) ? sizeof(OUT) : sizeof(IN));
            bool vectors =
                in_vectors(most, { out, in }) && to.step % most == 0 && from.step % most == 0;
            with_width<most>(vectors, [&](auto w) {
                copy_each<OUT, IN, w.value> op = { (OUT *)out.at, (const IN *)in.at, out.stride,
                                                   in.stride,     to.step,           from.step,
                                                   out.rows };
                map(cuda, op, to.count * out.rows, out.columns, "a copy of experts");
            });
        });
    });
}

void cuda_gather(struct device *device, struct tensor out, struct tensor in, const int32_t *rows)
{
    copy_rows(cuda_of(device), out, in, out.rows, NULL, rows, "gather");
}

void cuda_scatter(struct device *device, struct tensor out, struct tensor in, const int32_t *rows)
{
    copy_rows(cuda_of(device), out, in, in.rows, rows, NULL, "scatter");
}

// --- filling and dropping ----------------------------------------------------

struct fill_with {
    enum { V = 1 };
    operand out;
    int64_t stride, columns;
    enum fill how;
    double scale;
    uint64_t key;

    __device__ double draw(uint64_t place) const
    {
        if (how == FILL_CONSTANT)
            return scale;
        if (how == FILL_UNIFORM)
            return scale * (2 * counter_rng_uniform(key, place) - 1);
        double radius = sqrt(-2 * log(1 - counter_rng_uniform(key, 2 * place)));
        return scale * radius * cos(COUNTER_RNG_TWO_PI * counter_rng_uniform(key, 2 * place + 1));
    }

    __device__ void operator()(int64_t row, int64_t column) const
    {
        double x = draw((uint64_t)(row * columns + column));
        int64_t at = row * stride + column;
        if (out.dtype == DTYPE_F64)
            ((double *)out.at)[at] = x;
        else
            store_any(out, at, (float)x);
    }
};

void cuda_fill(struct device *device, struct tensor out, enum fill how, double scale, uint64_t key)
{
    fill_with op = { any_of(out), out.stride, out.columns, how, scale, key };
    map(cuda_of(device), op, out.rows, out.columns, "fill");
}

template <typename T, int WIDTH> struct drop {
    enum { V = WIDTH };
    T *out;
    const T *in;
    int64_t out_stride, in_stride, columns;
    uint64_t key, below; // elements with 53 random bits below this are dropped
    float keep;          // 1 / (1 − rate)

    __device__ void operator()(int64_t row, int64_t column) const
    {
        float x[V];
        load(x, in + row * in_stride + column);
#pragma unroll
        for (int i = 0; i < V; i++) {
            uint64_t place = (uint64_t)(row * columns + column + i);
            bool dropped = counter_rng_bits(key, place) >> 11 < below;
            x[i] = dropped ? 0 : x[i] * keep;
        }
        store(out + row * out_stride + column, x);
    }
};

void cuda_dropout(struct device *device, struct tensor out, struct tensor in, double rate,
                  uint64_t key)
{
    struct cuda *cuda = cuda_of(device);
    uint64_t below = (uint64_t)ceil(ldexp(rate, 53));
    flatten({ &out, &in });
    with_type(cuda, in.dtype, [&](auto t) {
        using T = decltype(t);
        const int most = 16 / sizeof(T);
        with_width<most>(in_vectors(most, { out, in }), [&](auto w) {
            drop<T, w.value> op = { (T *)out.at, (const T *)in.at,
                                    out.stride,  in.stride,
                                    in.columns,  key,
                                    below,       (float)(1 / (1 - rate)) };
            map(cuda, op, in.rows, in.columns, "dropout");
        });
    });
}

// --- sums and products -------------------------------------------------------

template <typename T, int WIDTH> struct times {
    enum { V = WIDTH };
    T *x;
    int64_t stride;
    float factor;

    __device__ void operator()(int64_t row, int64_t column) const
    {
        float values[V];
        load(values, x + row * stride + column);
#pragma unroll
        for (int i = 0; i < V; i++)
            values[i] *= factor;
        store(x + row * stride + column, values);
    }
};

void cuda_scale(struct device *device, struct tensor x, double factor)
{
    struct cuda *cuda = cuda_of(device);
    flatten({ &x });
    with_type(cuda, x.dtype, [&](auto t) {
        using T = decltype(t);
        const int most = 16 / sizeof(T);
        with_width<most>(in_vectors(most, { x }), [&](auto w) {
            times<T, w.value> op = { (T *)x.at, x.stride, (float)factor };
            map(cuda, op, x.rows, x.columns, "scaling");
        });
    });
}

template <typename T, int WIDTH> struct plus {
    enum { V = WIDTH };
    T *sum;
    const T *a, *b;
    int64_t sum_stride, a_stride, b_stride;

    __device__ void operator()(int64_t row, int64_t column) const
    {
        float x[V], y[V];
        load(x, a + row * a_stride + column);
        load(y, b + row * b_stride + column);
#pragma unroll
        for (int i = 0; i < V; i++)
            x[i] += y[i];
        store(sum + row * sum_stride + column, x);
    }
};

void cuda_add(struct device *device, struct tensor sum, struct tensor a, struct tensor b)
{
    struct cuda *cuda = cuda_of(device);
    if (sum.dtype != a.dtype || sum.dtype != b.dtype)
        return cuda_fail(cuda, ERR_UNAVAILABLE, "a sum on a GPU needs tensors of one type");
    flatten({ &sum, &a, &b });
    with_type(cuda, sum.dtype, [&](auto t) {
        using T = decltype(t);
        const int most = 16 / sizeof(T);
        with_width<most>(in_vectors(most, { sum, a, b }), [&](auto w) {
            plus<T, w.value> op = { (T *)sum.at, (const T *)a.at, (const T *)b.at,
                                    sum.stride,  a.stride,        b.stride };
            map(cuda, op, sum.rows, sum.columns, "add");
        });
    });
}

template <typename T, int WIDTH> struct add_bias {
    enum { V = WIDTH };
    T *y;
    int64_t stride;
    operand bias;

    __device__ void operator()(int64_t row, int64_t column) const
    {
        float x[V], b[V];
        load(x, y + row * stride + column);
        load_any(b, bias, column);
#pragma unroll
        for (int i = 0; i < V; i++)
            x[i] += b[i];
        store(y + row * stride + column, x);
    }
};

void cuda_bias_forward(struct device *device, struct tensor y, struct tensor bias)
{
    struct cuda *cuda = cuda_of(device);
    with_type(cuda, y.dtype, [&](auto t) {
        using T = decltype(t);
        const int most = 16 / sizeof(T);
        with_width<most>(in_vectors(most, { y, bias }), [&](auto w) {
            add_bias<T, w.value> op = { (T *)y.at, y.stride, any_of(bias) };
            map(cuda, op, y.rows, y.columns, "bias");
        });
    });
}

template <typename T, int WIDTH> struct add_rows {
    enum { V = WIDTH };
    const T *in;
    int64_t stride;

    __device__ void operator()(float (&sum)[V], int64_t row, int64_t column) const
    {
        float x[V];
        load(x, in + row * stride + column);
#pragma unroll
        for (int i = 0; i < V; i++)
            sum[i] += x[i];
    }
};

void cuda_bias_backward(struct device *device, struct tensor dbias, struct tensor dy)
{
    struct cuda *cuda = cuda_of(device);
    with_type(cuda, dy.dtype, [&](auto t) {
        using T = decltype(t);
        const int most = 16 / sizeof(T);
        with_width<most>(in_vectors(most, { dy }), [&](auto w) {
            add_rows<T, w.value> op = { (const T *)dy.at, dy.stride };
            add_columns(cuda, dbias, op, dy.rows, dy.columns, "bias gradient");
        });
    });
}

// --- telling outputs apart ---------------------------------------------------

// Sums a hash of each element's bits and position: integers, so the order does not matter.
template <typename T>
__global__ void hash_kernel(unsigned long long *sum, const T *in, int64_t rows, int64_t columns,
                            int64_t stride)
{
    unsigned long long own = 0;
    int64_t count = rows * columns, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        uint64_t bits = in[i / columns * stride + i % columns];
        own += counter_rng_mix((uint64_t)i * 0x9E3779B97F4A7C15u + counter_rng_mix(bits + 1));
    }
    for (int lanes = 16; lanes; lanes /= 2)
        own += __shfl_xor_sync(0xFFFFFFFFu, own, lanes);
    if (threadIdx.x % 32 == 0)
        atomicAdd(sum, own);
}

void cuda_hash_output(struct cuda *cuda, unsigned long long *sum, struct tensor c)
{
    int blocks = 8 * cuda->multiprocessors;
    if (c.dtype == DTYPE_F32)
        hash_kernel<<<blocks, 256, 0, cuda->stream>>>(sum, (const uint32_t *)c.at, c.rows,
                                                      c.columns, c.stride);
    else
        hash_kernel<<<blocks, 256, 0, cuda->stream>>>(sum, (const uint16_t *)c.at, c.rows,
                                                      c.columns, c.stride);
    cuda_launched(cuda, "a product's hash");
}
