// SPDX-License-Identifier: Apache-2.0
// Cross-entropy, and its gradient in place of the logits: a thread block per row; weights of rows.
//
// One pass finds the largest logit and the sum of exponentials together, a second writes the
// gradient. Blocks are as large as possible, one per multiprocessor, so that rows are still in the
// L2 cache when they are read the second time. Both passes cap a logit where the model does; the
// formulas are in cpu/loss.c.

#include "train/cuda/kernels.cuh"
#include "train/cuda/operations.h"

#include <math.h>

enum { THREADS = 1024, DEEP = 4 };

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

template <typename T, int V, bool CAPPED>
__global__ void __launch_bounds__(THREADS)
    loss_kernel(operand losses, int64_t losses_stride, T *logits, int64_t stride, int64_t columns,
                const int32_t *targets, float scale, soft_cap cap)
{
    const float unit = 1.4426950408889634f; // 1 / log 2
    T *row = logits + blockIdx.x * stride;
    int32_t target = targets[blockIdx.x];
    bool known = target >= 0 && target < columns;
    float aimed[1] = { known ? widen(row[target]) : 0 };
    if (CAPPED)
        cap_logits(aimed, cap, T());
    soft all = { -INFINITY, 0 };
    const int step = THREADS * V;
    for (int64_t base = threadIdx.x * V; base < columns; base += DEEP * step) {
        pack<V, T> packs[DEEP];
#pragma unroll
        for (int j = 0; j < DEEP; j++)
            if (base + j * step < columns)
                fetch(packs[j], row + base + j * step);
#pragma unroll
        for (int j = 0; j < DEEP; j++) {
            if (base + j * step >= columns)
                break;
            float x[V];
            unpack(x, packs[j]);
            if (CAPPED)
                cap_logits(x, cap, T());
            soft here = { all.largest, 0 };
#pragma unroll
            for (int i = 0; i < V; i++)
                here.largest = fmaxf(here.largest, x[i] * unit);
            float from = here.largest == -INFINITY ? 0 : here.largest; // no ∞ − ∞
#pragma unroll
            for (int i = 0; i < V; i++)
                here.sum += exp2f(fmaf(x[i], unit, -from));
            all.sum = all.sum * exp2f(all.largest - from) + here.sum;
            all.largest = here.largest;
        }
    }
    all = join_block(all); // and all threads have read the target's logit
    float part = scale / all.sum;
    for (int64_t base = threadIdx.x * V; base < columns; base += DEEP * step) {
        pack<V, T> packs[DEEP];
#pragma unroll
        for (int j = 0; j < DEEP; j++)
            if (base + j * step < columns)
                fetch(packs[j], row + base + j * step);
#pragma unroll
        for (int j = 0; j < DEEP; j++) {
            int64_t c = base + j * step;
            if (c >= columns)
                break;
            float x[V];
            unpack(x, packs[j]);
            if (CAPPED)
                cap_logits(x, cap, T());
#pragma unroll
            for (int i = 0; i < V; i++) {
                float slope = CAPPED ? 1 - x[i] * cap.inverse * (x[i] * cap.inverse) : 1;
                x[i] = part * exp2f(fmaf(x[i], unit, -all.largest));
                if (c + i == target) // before rounding: p − 1 cancels
                    x[i] -= scale;
                x[i] *= slope;
            }
            store(row + c, x);
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
            auto kernel = cap > 0 ? loss_kernel<T, w.value, true> : loss_kernel<T, w.value, false>;
            kernel<<<(unsigned)logits.rows, THREADS, 0, cuda->stream>>>(
                any_of(losses), losses.stride, (T *)logits.at, logits.stride, logits.columns,
                targets, (float)scale, soft_cap);
            cuda_launched(cuda, "cross-entropy");
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
