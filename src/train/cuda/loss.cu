// SPDX-License-Identifier: Apache-2.0
// Cross-entropy, and its gradient in place of the logits: a thread block per row.
//
// One pass finds the largest logit and the sum of exponentials together, a second writes the
// gradient. Blocks are as large as possible, one per multiprocessor, so that rows are still in the
// L2 cache when they are read the second time.

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

template <typename T, int V>
__global__ void __launch_bounds__(THREADS)
    loss_kernel(operand losses, int64_t losses_stride, T *logits, int64_t stride, int64_t columns,
                const int32_t *targets, float scale)
{
    const float unit = 1.4426950408889634f; // 1 / log 2
    T *row = logits + blockIdx.x * stride;
    int32_t target = targets[blockIdx.x];
    bool known = target >= 0 && target < columns;
    float aimed = known ? widen(row[target]) : 0;
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
#pragma unroll
            for (int i = 0; i < V; i++) {
                x[i] = part * exp2f(fmaf(x[i], unit, -all.largest));
                if (c + i == target) // before rounding: p − 1 cancels
                    x[i] -= scale;
            }
            store(row + c, x);
        }
    }
    if (threadIdx.x)
        return;
    double loss = (log2((double)all.sum) + all.largest) * 0.6931471805599453 - aimed;
    if (losses.dtype == DTYPE_F64)
        ((double *)losses.at)[blockIdx.x * losses_stride] = loss;
    else
        store_any(losses, blockIdx.x * losses_stride, (float)loss);
}

void cuda_cross_entropy(struct device *device, struct tensor losses, struct tensor logits,
                        const int32_t *targets, double scale)
{
    struct cuda *cuda = cuda_of(device);
    if (cuda->err || !logits.rows || !logits.columns)
        return;
    with_type(cuda, logits.dtype, [&](auto t) {
        using T = decltype(t);
        const int most = 16 / sizeof(T);
        with_width<most>(in_vectors(most, { logits }), [&](auto w) {
            loss_kernel<T, w.value><<<(unsigned)logits.rows, THREADS, 0, cuda->stream>>>(
                any_of(losses), losses.stride, (T *)logits.at, logits.stride, logits.columns,
                targets, (float)scale);
            cuda_launched(cuda, "cross-entropy");
        });
    });
}
