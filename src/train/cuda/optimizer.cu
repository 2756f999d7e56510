// AdamW and SGD on whole tensors, sums in a fixed order, and the factor that clips.

#include "train/cuda/kernels.cuh"
#include "train/cuda/operations.h"

#include <math.h>

// --- updates -----------------------------------------------------------------

// bf16 is rounded by chance, by a part of the draw of its place; cpu/optimizer.c does the same.
template <int V>
static __device__ inline void store_drawn(operand out, int64_t place, float (&x)[V],
                                          const uint64_t (&draws)[V], int part)
{
    if (out.dtype == DTYPE_BF16)
#pragma unroll
        for (int i = 0; i < V; i++) {
            uint16_t bits = draw_round_bf16(__float_as_uint(x[i]), draws[i] >> 16 * part);
            x[i] = __uint_as_float((uint32_t)bits << 16);
        }
    store_any(out, place, x);
}

template <int WIDTH> struct adamw_step {
    enum { V = WIDTH };
    operand weight, m, v, gradient;
    const double *scale;
    float rate, shrink, beta1, beta2, second, epsilon; // rate over 1 − β₁ᵗ; shrink is rate · decay
    uint64_t key;
    bool drawn; // something is bf16

    __device__ void operator()(int64_t, int64_t at) const
    {
        float w[V], first[V], square[V], g[V], factor = (float)*scale;
        load_any(w, weight, at);
        load_any(first, m, at);
        load_any(square, v, at);
        load_any(g, gradient, at);
#pragma unroll
        for (int i = 0; i < V; i++) {
            float d = g[i] * factor;
            first[i] = beta1 * first[i] + (1.0f - beta1) * d;
            square[i] = beta2 * square[i] + (1.0f - beta2) * d * d;
            w[i] -= w[i] * shrink;
            w[i] -= rate * first[i] / (sqrtf(square[i] * second) + epsilon);
        }
        uint64_t draws[V] = { 0 };
        if (drawn)
#pragma unroll
            for (int i = 0; i < V; i++)
                draws[i] = draw_bits(key, (uint64_t)(at + i));
        store_drawn(weight, at, w, draws, 0);
        store_drawn(m, at, first, draws, 1);
        store_drawn(v, at, square, draws, 2);
    }
};

void cuda_adamw(struct device *device, struct tensor weight, struct tensor m, struct tensor v,
                struct tensor gradient, const struct adamw *adamw, struct tensor scale)
{
    double t = (double)adamw->step;
    bool drawn = weight.dtype == DTYPE_BF16 || m.dtype == DTYPE_BF16 || v.dtype == DTYPE_BF16;
    flatten({ &weight, &m, &v, &gradient });
    with_width<4>(in_vectors(4, { weight, m, v, gradient }), [&](auto w) {
        adamw_step<w.value> op = { any_of(weight),
                                   any_of(m),
                                   any_of(v),
                                   any_of(gradient),
                                   (const double *)scale.at,
                                   (float)(adamw->rate / (1 - pow(adamw->beta1, t))),
                                   (float)(adamw->rate * adamw->decay),
                                   (float)adamw->beta1,
                                   (float)adamw->beta2,
                                   (float)(1 / (1 - pow(adamw->beta2, t))),
                                   (float)adamw->epsilon,
                                   adamw->key,
                                   drawn };
        map(cuda_of(device), op, weight.rows, weight.columns, "adamw");
    });
}

template <int WIDTH> struct sgd_step {
    enum { V = WIDTH };
    operand weight, moment, gradient;
    const double *scale;
    float rate, momentum, decay;

    __device__ void operator()(int64_t, int64_t at) const
    {
        float w[V], m[V] = { 0 }, g[V], factor = (float)*scale;
        load_any(w, weight, at);
        load_any(g, gradient, at);
        if (moment.at)
            load_any(m, moment, at);
#pragma unroll
        for (int i = 0; i < V; i++) {
            m[i] = momentum * m[i] + g[i] * factor + decay * w[i];
            w[i] -= rate * m[i];
        }
        store_any(weight, at, w);
        if (moment.at)
            store_any(moment, at, m);
    }
};

void cuda_sgd(struct device *device, struct tensor weight, struct tensor moment,
              struct tensor gradient, double rate, double momentum, double decay,
              struct tensor scale)
{
    flatten({ &weight, &moment, &gradient });
    with_width<4>(in_vectors(4, { weight, moment, gradient }), [&](auto w) {
        sgd_step<w.value> op = { any_of(weight),   any_of(moment),
                                 any_of(gradient), (const double *)scale.at,
                                 (float)rate,      (float)momentum,
                                 (float)decay };
        map(cuda_of(device), op, weight.rows, weight.columns, "sgd");
    });
}

// --- sums --------------------------------------------------------------------

enum { THREADS = 256, SUMS = 1024 }; // blocks, whatever the GPU: the order is the same on each

static __device__ double block_sum(double x)
{
    __shared__ double parts[THREADS / 32];
    for (int step = 16; step; step /= 2)
        x += __shfl_xor_sync(0xFFFFFFFFu, x, step);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = 0;
    for (int i = 0; i < THREADS / 32; i++)
        x += parts[i];
    return x;
}

static __device__ inline double load_double(operand in, int64_t i)
{
    return in.dtype == DTYPE_F64 ? ((const double *)in.at)[i] : (double)load_any(in, i);
}

// Powers 1 and 2: the sum, the sum of squares.
template <int V>
__global__ void sum_kernel(double *partials, operand in, int64_t rows, int64_t columns,
                           int64_t stride, bool squared)
{
    double sum = 0;
    int64_t across = columns / V, count = rows * across;
    for (int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x; at < count;
         at += (int64_t)gridDim.x * THREADS) {
        int64_t place = rows == 1 ? at * V : at / across * stride + at % across * V;
        if (V == 1) {
            double x = load_double(in, place);
            sum += squared ? x * x : x;
        } else {
            float x[V];
            load_any(x, in, place);
#pragma unroll
            for (int i = 0; i < V; i++)
                sum += squared ? (double)x[i] * x[i] : (double)x[i];
        }
    }
    sum = block_sum(sum);
    if (!threadIdx.x)
        partials[blockIdx.x] = sum;
}

static __global__ void sum_finish_kernel(double *out, const double *partials, int count, bool add)
{
    double sum = 0;
    for (int i = threadIdx.x; i < count; i += THREADS)
        sum += partials[i];
    sum = block_sum(sum);
    if (!threadIdx.x)
        *out = add ? *out + sum : sum;
}

static void sum_up(struct cuda *cuda, struct tensor out, struct tensor in, bool squared, bool add)
{
    if (cuda->err)
        return;
    flatten({ &in });
    double *partials = (double *)cuda->partials;
    int64_t count = in.rows * in.columns, needed = ceil_div(count, THREADS * 4);
    int blocks = needed < 1 ? 1 : (int)least(needed, SUMS);
    bool narrow = in.dtype == DTYPE_F32 || in.dtype == DTYPE_BF16;
    with_width<4>(narrow && in_vectors(4, { in }), [&](auto w) {
        sum_kernel<w.value><<<blocks, THREADS, 0, cuda->stream>>>(partials, any_of(in), in.rows,
                                                                  in.columns, in.stride, squared);
        cuda_launched(cuda, "sum");
    });
    sum_finish_kernel<<<1, THREADS, 0, cuda->stream>>>((double *)out.at, partials, blocks, add);
    cuda_launched(cuda, "sum");
}

void cuda_sum(struct device *device, struct tensor sum, struct tensor in)
{
    sum_up(cuda_of(device), sum, in, false, true);
}

void cuda_squares(struct device *device, struct tensor sum, struct tensor in)
{
    sum_up(cuda_of(device), sum, in, true, false);
}

static __global__ void clip_kernel(double *scale, const double *squares, double limit)
{
    double length = sqrt(*squares);
    *scale = limit > 0 && length > limit ? limit / length : 1;
}

void cuda_clip(struct device *device, struct tensor scale, struct tensor squares, double limit)
{
    struct cuda *cuda = cuda_of(device);
    if (cuda->err)
        return;
    clip_kernel<<<1, 1, 0, cuda->stream>>>((double *)scale.at, (const double *)squares.at, limit);
    cuda_launched(cuda, "clip");
}
