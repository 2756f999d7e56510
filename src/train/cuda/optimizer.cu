// SPDX-License-Identifier: Apache-2.0
// AdamW and SGD on whole tensors, sums in a fixed order, and the clipping factor.

#include "train/cuda/kernels.cuh"
#include "train/cuda/operations.h"

#include <math.h>

// --- updates -----------------------------------------------------------------

// The random bits of V neighbours: counter_rng_bits(key, position + i) for i < V, where mixed_key
// is counter_rng_mix(key).
template <int V>
static __device__ inline void draw(uint64_t (&out)[V], uint64_t mixed_key, int64_t position)
{
    uint64_t first = mixed_key + (uint64_t)position * COUNTER_RNG_STEP;
#pragma unroll
    for (int i = 0; i < V; i++)
        out[i] = counter_rng_mix(first + i * COUNTER_RNG_STEP);
}

// Stochastic rounding of bf16, with 16 of the 64 random bits of the position, as cpu/optimizer.c.
template <int V>
static __device__ inline void store_drawn(float *out, const float (&x)[V], const uint64_t (&)[V],
                                          int)
{
    store(out, x);
}

template <int V>
static __device__ inline void store_drawn(bf16 *out, const float (&x)[V],
                                          const uint64_t (&draws)[V], int part)
{
    raw<V * sizeof(bf16)> bits;
    uint16_t *rounded = reinterpret_cast<uint16_t *>(&bits);
#pragma unroll
    for (int i = 0; i < V; i++)
        rounded[i] = counter_rng_round_bf16(__float_as_uint(x[i]), draws[i] >> 16 * part);
    *reinterpret_cast<raw<V * sizeof(bf16)> *>(out) = bits;
}

// a / (√b + c): exact to the last bit but one, which stochastic rounding of bf16 hides.
static __device__ inline float divide_by_root(float a, float b, float c, float)
{
    return a / (sqrtf(b) + c);
}
static __device__ inline float divide_by_root(float a, float b, float c, bf16)
{
    float root;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(b));
    return __fdividef(a, root + c);
}

template <typename S, typename G, int WIDTH> struct adamw_step {
    enum { V = WIDTH };
    S *weight, *m, *v;
    const G *gradient;
    const double *scale;
    float rate, shrink; // rate over 1 − β₁ᵗ; shrink is rate · decay
    float beta1, rest1, beta2, rest2, second, epsilon; // rest: 1 − β, which fp32 would cancel
    uint64_t mixed_key;
    int64_t position; // of the first element

    __device__ void operator()(int64_t, int64_t at) const
    {
        pack<V, S> weights, firsts, squares;
        pack<V, G> gradients;
        fetch(weights, weight + at);
        fetch(firsts, m + at);
        fetch(squares, v + at);
        fetch(gradients, gradient + at);
        float w[V], first[V], square[V], g[V], factor = (float)*scale;
        unpack(w, weights);
        unpack(first, firsts);
        unpack(square, squares);
        unpack(g, gradients);
        uint64_t draws[V];
        draw(draws, mixed_key, position + at);
#pragma unroll
        for (int i = 0; i < V; i++) {
            float d = g[i] * factor;
            first[i] = beta1 * first[i] + rest1 * d;
            square[i] = beta2 * square[i] + rest2 * d * d;
            w[i] -= w[i] * shrink;
            w[i] -= divide_by_root(rate * first[i], square[i] * second, epsilon, S());
        }
        store_drawn(weight + at, w, draws, 0);
        store_drawn(m + at, first, draws, 1);
        store_drawn(v + at, square, draws, 2);
    }
};

static bool one_type(struct cuda *cuda, struct tensor a, struct tensor b)
{
    if (a.dtype != b.dtype && b.at)
        cuda_fail(cuda, ERR_UNAVAILABLE,
                  "an optimizer on a GPU needs weights and moments of one type");
    return !cuda->err;
}

// Calls f with the types of weight and gradient, and the vector width.
template <class F>
static void with_states(struct cuda *cuda, std::initializer_list<struct tensor> states,
                        struct tensor gradient, F f)
{
    struct tensor weight = *states.begin();
    with_type(cuda, weight.dtype, [&](auto s) {
        with_type(cuda, gradient.dtype, [&](auto g) {
            const int most = sizeof s == 2 && sizeof g == 2 ? 8 : 4;
            bool vectors = in_vectors(most, { gradient });
            for (struct tensor state : states)
                vectors = vectors && in_vectors(most, { state });
            with_width<most>(vectors, [&](auto w) { f(s, g, w); });
        });
    });
}

void cuda_adamw(struct device *device, struct tensor weight, struct tensor m, struct tensor v,
                struct tensor gradient, const struct adamw *adamw, struct tensor scale)
{
    struct cuda *cuda = cuda_of(device);
    double t = (double)adamw->step;
    flatten({ &weight, &m, &v, &gradient });
    if (!one_type(cuda, weight, m) || !one_type(cuda, weight, v))
        return;
    with_states(cuda, { weight, m, v }, gradient, [&](auto s, auto g, auto w) {
        using S = decltype(s);
        using G = decltype(g);
        adamw_step<S, G, w.value> op = {
            (S *)weight.at,
            (S *)m.at,
            (S *)v.at,
            (const G *)gradient.at,
            (const double *)scale.at,
            (float)(adamw->rate / (1 - pow(adamw->beta1, t))),
            (float)(adamw->rate * adamw->decay),
            (float)adamw->beta1,
            (float)(1 - adamw->beta1),
            (float)adamw->beta2,
            (float)(1 - adamw->beta2),
            (float)(1 / (1 - pow(adamw->beta2, t))),
            (float)adamw->epsilon,
            counter_rng_mix(adamw->key),
            adamw->first,
        };
        map(cuda, op, weight.rows, weight.columns, "adamw");
    });
}

template <typename S, typename G, int WIDTH> struct sgd_step {
    enum { V = WIDTH };
    S *weight, *moment;
    const G *gradient;
    const double *scale;
    float rate, momentum, decay;

    __device__ void operator()(int64_t, int64_t at) const
    {
        float w[V], m[V] = { 0 }, g[V], factor = (float)*scale;
        load(w, weight + at);
        load(g, gradient + at);
        if (moment)
            load(m, moment + at);
#pragma unroll
        for (int i = 0; i < V; i++) {
            m[i] = momentum * m[i] + g[i] * factor + decay * w[i];
            w[i] -= rate * m[i];
        }
        store(weight + at, w);
        if (moment)
            store(moment + at, m);
    }
};

void cuda_sgd(struct device *device, struct tensor weight, struct tensor moment,
              struct tensor gradient, double rate, double momentum, double decay,
              struct tensor scale)
{
    struct cuda *cuda = cuda_of(device);
    flatten({ &weight, &moment, &gradient });
    if (!one_type(cuda, weight, moment))
        return;
    with_states(cuda, { weight, moment }, gradient, [&](auto s, auto g, auto w) {
        using S = decltype(s);
        using G = decltype(g);
        sgd_step<S, G, w.value> op = { (S *)weight.at,
                                       (S *)moment.at,
                                       (const G *)gradient.at,
                                       (const double *)scale.at,
                                       (float)rate,
                                       (float)momentum,
                                       (float)decay };
        map(cuda, op, weight.rows, weight.columns, "sgd");
    });
}

// --- sums --------------------------------------------------------------------

enum { THREADS = 256, SUMS = 1024 }; // blocks on every GPU, so that the order is the same

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

static __device__ inline double power(double x, bool squared)
{
    return squared ? x * x : x;
}

enum { DEEP = 4 }; // vectors in flight

template <typename T, int V>
__global__ void sum_kernel(double *partials, const T *in, int64_t rows, int64_t columns,
                           int64_t stride, bool squared)
{
    double sum = 0;
    int64_t across = columns / V, count = rows * across, step = (int64_t)gridDim.x * THREADS;
    for (int64_t base = (int64_t)blockIdx.x * THREADS + threadIdx.x; base < count;
         base += DEEP * step) {
        pack<V, T> packs[DEEP];
#pragma unroll
        for (int j = 0; j < DEEP; j++) {
            int64_t at = base + j * step;
            int64_t place = rows == 1 ? at * V : at / across * stride + at % across * V;
            if (at < count)
                fetch(packs[j], in + place);
        }
#pragma unroll
        for (int j = 0; j < DEEP; j++) {
            const T *x = reinterpret_cast<const T *>(&packs[j].bits);
            if (base + j * step < count)
#pragma unroll
                for (int i = 0; i < V; i++)
                    sum +=
                        power(std::is_same<T, double>::value ? (double)x[i] : (double)widen(x[i]),
                              squared);
        }
    }
    sum = block_sum(sum);
    if (!threadIdx.x)
        partials[blockIdx.x] = sum;
}

static __global__ void sum_finish_kernel(double *out, const double *partials, int count)
{
    double sum = 0;
    for (int i = threadIdx.x; i < count; i += THREADS)
        sum += partials[i];
    sum = block_sum(sum);
    if (!threadIdx.x)
        *out += sum;
}

static void sum_up(struct cuda *cuda, struct tensor out, struct tensor in, bool squared)
{
    if (cuda->err)
        return;
    flatten({ &in });
    double *partials = (double *)cuda->partials;
    int64_t count = in.rows * in.columns, needed = ceil_div(count, THREADS * 4);
    int blocks = needed < 1 ? 1 : (int)least(needed, SUMS);
    auto launch = [&](auto t) {
        using T = decltype(t);
        const int most = 16 / sizeof(T);
        with_width<most>(in_vectors(most, { in }), [&](auto w) {
            sum_kernel<T, w.value><<<blocks, THREADS, 0, cuda->stream>>>(
                partials, (const T *)in.at, in.rows, in.columns, in.stride, squared);
            cuda_launched(cuda, "sum");
        });
    };
    if (in.dtype == DTYPE_F64)
        launch(double());
    else
        with_type(cuda, in.dtype, launch);
    sum_finish_kernel<<<1, THREADS, 0, cuda->stream>>>((double *)out.at, partials, blocks);
    cuda_launched(cuda, "sum");
}

void cuda_sum(struct device *device, struct tensor sum, struct tensor in)
{
    sum_up(cuda_of(device), sum, in, false);
}

void cuda_sum_squares(struct device *device, struct tensor sum, struct tensor in)
{
    sum_up(cuda_of(device), sum, in, true);
}

static __global__ void clip_kernel(double *scale, const double *squared_norm, double limit)
{
    double length = sqrt(*squared_norm);
    *scale = limit > 0 && length > limit ? limit / length : 1;
}

void cuda_clip(struct device *device, struct tensor scale, struct tensor squared_norm, double limit)
{
    struct cuda *cuda = cuda_of(device);
    if (cuda->err)
        return;
    clip_kernel<<<1, 1, 0, cuda->stream>>>((double *)scale.at, (const double *)squared_norm.at,
                                           limit);
    cuda_launched(cuda, "clip");
}
