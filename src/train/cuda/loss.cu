// SPDX-License-Identifier: Apache-2.0
// Cross-entropy, and its gradient in place of the logits: a thread block per row; weights of rows.
//
// One pass finds the largest logit and the sum of exponentials together, a second writes the
// gradient. A multiprocessor has two rows at a time, so that one is read while the other is
// written. What it keeps of them is in shared memory, and the rest still in the L2 cache, when they
// are read the second time. Both passes cap a logit where the model does; the formulas are in
// cpu/loss.c.

#include "train/cuda/kernels.cuh"
#include "train/cuda/operations.h"

#include <math.h>

enum { THREADS = 512, DEEP = 4, OTHER_SHARED = 2048 };
#define UNIT 1.4426950408889634f // 1 / log 2

// Σ exp2(x − largest), with x in units of log 2.
struct soft {
    float largest, sum;
};

static __device__ inline soft join(soft a, soft b)
{
    float largest = fmaxf(a.largest, b.largest);
    if (largest == -INFINITY)
        return soft{ largest, 0 };
    return soft{ largest, a.sum * exp2f(a.largest - largest) + b.sum * exp2f(b.largest - largest) };
}

static __device__ soft join_block(soft x)
{
    __shared__ soft parts[THREADS / 32];
    for (int step = 16; step; step /= 2) {
        soft other = { __shfl_xor_sync(0xFFFFFFFFu, x.largest, step),
                       __shfl_xor_sync(0xFFFFFFFFu, x.sum, step) };
        x = threadIdx.x & step ? join(other, x) : join(x, other); // both lanes compute the same sum
    }
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = parts[0];
    for (int i = 1; i < THREADS / 32; i++)
        x = join(x, parts[i]);
    return x;
}

static __device__ inline float exp2_of(float x, float)
{
    return exp2f(x);
}

// One instruction: 2⁻²² off at most.
static __device__ inline float exp2_of(float x, bf16)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

static __device__ inline float tanh_of(float x, float)
{
    return tanhf(x);
}

// One instruction: 2⁻¹¹ off at most, an eighth of the distance between two numbers of bf16.
static __device__ inline float tanh_of(float x, bf16)
{
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Logits x become size · tanh(x / size); 0: they stay.
struct soft_cap {
    float size, inverse;
};

template <typename T, int V>
static __device__ inline void cap_logits(float (&x)[V], soft_cap cap, T type)
{
#pragma unroll
    for (int i = 0; i < V; i++)
        x[i] = cap.size * tanh_of(x[i] * cap.inverse, type);
}

// What the first pass finds.
template <typename T, int V, bool CAPPED>
static __device__ inline void take(soft &all, const pack<V, T> &logits, soft_cap cap)
{
    float x[V];
    unpack(x, logits);
    if (CAPPED)
        cap_logits(x, cap, T());
    float largest = x[0], sum = 0;
#pragma unroll
    for (int i = 1; i < V; i++)
        largest = fmaxf(largest, x[i]);
    largest = fmaxf(all.largest, largest * UNIT);
    float from = largest == -INFINITY ? 0 : largest; // no ∞ − ∞
#pragma unroll
    for (int i = 0; i < V; i++)
        sum += exp2_of(fmaf(x[i], UNIT, -from), T());
    all = soft{ largest, all.sum * exp2_of(all.largest - from, T()) + sum };
}

// What the second pass writes: the gradient of logits; target: of them, or outside.
template <typename T, int V, bool CAPPED>
static __device__ inline void give(T *out, const pack<V, T> &logits, soft all, int64_t target,
                                   float scale, soft_cap cap)
{
    float x[V], slope[V], part = scale / all.sum;
    unpack(x, logits);
    if (CAPPED)
        cap_logits(x, cap, T());
#pragma unroll
    for (int i = 0; i < V; i++) {
        slope[i] = CAPPED ? 1 - x[i] * cap.inverse * (x[i] * cap.inverse) : 1;
        x[i] = part * exp2_of(fmaf(x[i], UNIT, -all.largest), T());
    }
    if (target >= 0 && target < V) {
#pragma unroll
        for (int i = 0; i < V; i++)
            x[i] -= i == target ? scale : 0; // before rounding: p − 1 cancels
    }
#pragma unroll
    for (int i = 0; i < V; i++)
        x[i] *= slope[i];
    store(out, x);
}

// A thread has every THREADS-th pack of V logits, and keeps the first `keeps` of them.
template <typename T, int V, bool CAPPED>
__global__ void __launch_bounds__(THREADS, 2)
    loss_kernel(operand losses, int64_t losses_stride, T *logits, int64_t stride, int64_t columns,
                const int32_t *targets, float scale, soft_cap cap, int keeps)
{
    extern __shared__ __align__(16) char shared[];
    pack<V, T> *kept = (pack<V, T> *)shared + threadIdx.x;
    const int step = THREADS * V;
    T *row = logits + blockIdx.x * stride;
    int32_t target = targets[blockIdx.x];
    float aimed[1] = { target >= 0 && target < columns ? widen(row[target]) : 0 };
    if (CAPPED)
        cap_logits(aimed, cap, T());
    soft all = { -INFINITY, 0 };
    int number = 0; // of packs before these
    for (int64_t base = threadIdx.x * V; base < columns; base += DEEP * step, number += DEEP) {
        pack<V, T> packs[DEEP];
#pragma unroll
        for (int j = 0; j < DEEP; j++)
            if (base + j * step < columns)
                fetch(packs[j], row + base + j * step);
#pragma unroll
        for (int j = 0; j < DEEP; j++) {
            if (base + j * step >= columns)
                break;
            if (number + j < keeps)
                kept[(number + j) * THREADS] = packs[j];
            take<T, V, CAPPED>(all, packs[j], cap);
        }
    }
    all = join_block(all); // and all threads have read the target's logit
    number = 0;
    for (int64_t base = threadIdx.x * V; base < columns; base += DEEP * step, number += DEEP) {
        pack<V, T> packs[DEEP];
#pragma unroll
        for (int j = 0; j < DEEP; j++)
            if (number + j < keeps)
                packs[j] = kept[(number + j) * THREADS];
            else if (base + j * step < columns)
                fetch(packs[j], row + base + j * step);
#pragma unroll
        for (int j = 0; j < DEEP; j++) {
            int64_t c = base + j * step;
            if (c < columns)
                give<T, V, CAPPED>(row + c, packs[j], all, target - c, scale, cap);
        }
    }
    if (threadIdx.x)
        return;
    double loss = (log2((double)all.sum) + all.largest) * 0.6931471805599453 - aimed[0];
    if (losses.dtype == DTYPE_F64)
        ((double *)losses.at)[blockIdx.x * losses_stride] = loss;
    else
        store_any(losses, blockIdx.x * losses_stride, (float)loss);
}

template <typename T, int V, bool CAPPED>
static void launch(struct cuda *cuda, struct tensor losses, struct tensor logits,
                   const int32_t *targets, float scale, soft_cap cap)
{
    auto kernel = loss_kernel<T, V, CAPPED>;
    const int64_t pack_bytes = THREADS * sizeof(pack<V, T>);
    int keeps = (int)least((cuda->shared_bytes / 2 - OTHER_SHARED) / pack_bytes,
                           ceil_div(logits.columns, THREADS * V));
    int bytes = (int)(keeps * pack_bytes);
    cuda_check(cuda,
               cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
               "cross-entropy");
    kernel<<<(unsigned)logits.rows, THREADS, (size_t)bytes, cuda->stream>>>(
        any_of(losses), losses.stride, (T *)logits.at, logits.stride, logits.columns, targets,
        scale, cap, keeps);
    cuda_launched(cuda, "cross-entropy");
}

void cuda_capped_cross_entropy(struct device *device, struct tensor losses, struct tensor logits,
                               const int32_t *targets, double scale, double cap)
{
    struct cuda *cuda = cuda_of(device);
    soft_cap soft_cap = { (float)cap, cap > 0 ? (float)(1 / cap) : 0 };
    if (cuda->err || !logits.rows || !logits.columns)
        return;
    with_type(cuda, logits.dtype, [&](auto t) {
        using T = decltype(t);
        const int most = 16 / sizeof(T);
        with_width<most>(in_vectors(most, { logits }), [&](auto w) {
            auto run = cap > 0 ? launch<T, w.value, true> : launch<T, w.value, false>;
            run(cuda, losses, logits, targets, (float)scale, soft_cap);
        });
    });
}

void cuda_cross_entropy(struct device *device, struct tensor losses, struct tensor logits,
                        const int32_t *targets, double scale)
{
    cuda_capped_cross_entropy(device, losses, logits, targets, scale, 0);
}

template <typename T, int WIDTH> struct weigh {
    enum { V = WIDTH };
    T *x;
    int64_t stride;
    operand weights;
    int64_t weights_stride;

    __device__ void operator()(int64_t row, int64_t column) const
    {
        float value[V], weight = load_any(weights, row * weights_stride);
        load(value, x + row * stride + column);
#pragma unroll
        for (int i = 0; i < V; i++)
            value[i] *= weight;
        store(x + row * stride + column, value);
    }
};

void cuda_weigh_rows(struct device *device, struct tensor x, struct tensor weights)
{
    struct cuda *cuda = cuda_of(device);
    if (cuda->err || !x.rows || !x.columns)
        return;
    with_type(cuda, x.dtype, [&](auto t) {
        using T = decltype(t);
        const int most = 16 / sizeof(T);
        with_width<most>(in_vectors(most, { x }), [&](auto w) {
            weigh<T, w.value> op = { (T *)x.at, x.stride, any_of(weights), weights.stride };
            map(cuda, op, x.rows, x.columns, "weights of rows");
        });
    });
}
