// SPDX-License-Identifier: Apache-2.0
// Cross-entropy, and its gradient in place of the logits; weights of rows.
//
// One pass finds the largest logit and the sum of exponentials together, a second writes the
// gradient. So that the second need not read a row again, a cluster of up to eight thread blocks
// shares it, each with its part in shared memory:
//
//     row of 128,256   │ block 0 │ block 1 │ block 2 │ block 3 │   62 KiB each, on four
//     largest, sum     └────┬────┴────┬────┴────┬────┴────┬────┘   multiprocessors
//                           └───── join_cluster ──────────┘
//
// A multiprocessor has three blocks, of three rows: one is read while another is written. What does
// not fit (GPUs before Hopper have no clusters) comes a second time from the L2 cache. Both passes
// cap a logit where the model does; the formulas are in cpu/loss.c.

#include "train/cuda/kernels.cuh"
#include "train/cuda/mma.cuh"
#include "train/cuda/operations.h"

#include <math.h>

// PER_SM blocks of a multiprocessor; MOST_BLOCKS of a row
enum { THREADS = 512, PER_SM = 3, MOST_BLOCKS = 8, OTHER_SHARED = 1536 };
#define UNIT 1.4426950408889634f // 1 / log 2

// Σ exp2(x − largest), with x in units of log 2.
struct soft {
    float largest, sum;
};

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

// All 32 lanes get what they have together.
template <typename T> static __device__ inline soft join_lanes(soft x)
{
    float largest = x.largest;
#pragma unroll
    for (int step = 16; step; step /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, step));
    float sum = x.largest == -INFINITY ? 0 : x.sum * exp2_of(x.largest - largest, T());
#pragma unroll
    for (int step = 16; step; step /= 2)
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, step);
    return soft{ largest, sum };
}

template <typename T> static __device__ inline soft join_block(soft x)
{
    __shared__ soft warps[THREADS / 32];
    int lane = threadIdx.x % 32;
    x = join_lanes<T>(x);
    if (!lane)
        warps[threadIdx.x / 32] = x;
    __syncthreads();
    return join_lanes<T>(lane < THREADS / 32 ? warps[lane] : soft{ -INFINITY, 0 });
}

// --- the blocks that share a row ---------------------------------------------

#if __CUDA_ARCH__ >= 900
static __device__ inline int blocks_of_row()
{
    int blocks;
    asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(blocks));
    return blocks;
}

static __device__ inline void arrive_at_cluster()
{
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

static __device__ inline void wait_for_cluster()
{
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// From the shared memory of one of the blocks.
static __device__ inline soft read_of_block(const soft *at, int block)
{
    soft x;
    uint32_t place;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(place) : "r"(shared_address(at)), "r"(block));
    asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];"
                 : "=f"(x.largest), "=f"(x.sum)
                 : "r"(place)
                 : "memory");
    return x;
}
#else // a row is one block's
static __device__ inline int blocks_of_row()
{
    return 1;
}
static __device__ inline void arrive_at_cluster()
{
}
static __device__ inline void wait_for_cluster()
{
}
static __device__ inline soft read_of_block(const soft *at, int)
{
    return *at;
}
#endif

// Behind it all blocks of the row have read the logits that they need. A block must call
// leave_cluster() before it ends: until then others may read its sum.
template <typename T> static __device__ inline soft join_cluster(soft x)
{
    __shared__ __align__(8) soft own;
    int lane = threadIdx.x % 32, blocks = blocks_of_row();
    if (blocks == 1)
        return x;
    if (!threadIdx.x)
        own = x;
    arrive_at_cluster();
    wait_for_cluster();
    x = join_lanes<T>(lane < blocks ? read_of_block(&own, lane) : soft{ -INFINITY, 0 });
    arrive_at_cluster();
    return x;
}

static __device__ inline void leave_cluster()
{
    if (blocks_of_row() > 1)
        wait_for_cluster();
}

// --- logits ------------------------------------------------------------------

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

// What the second pass writes: the gradient of logits. part: scale over the sum; target: of them,
// or outside.
template <typename T, int V, bool CAPPED>
static __device__ inline void give(T *out, const pack<V, T> &logits, float largest, float part,
                                   int64_t target, float scale, soft_cap cap)
{
    float x[V], slope[V];
    unpack(x, logits);
    if (CAPPED)
        cap_logits(x, cap, T());
#pragma unroll
    for (int i = 0; i < V; i++) {
        slope[i] = CAPPED ? 1 - x[i] * cap.inverse * (x[i] * cap.inverse) : 1;
        x[i] = part * exp2_of(fmaf(x[i], UNIT, -largest), T());
    }
    if (target >= 0 && target < V) {
#pragma unroll
        for (int i = 0; i < V; i++)
            x[i] -= i == target ? scale : 0; // before rounding: p − 1 cancels
    }
#pragma unroll
    for (int i = 0; i < V; i++)
        x[i] *= slope[i];
    store_whole(out, x);
}

// A thread has every THREADS-th pack of V logits of its block's part, and waits for no other
// thread's.
template <typename T, int V, bool CAPPED>
__global__ void __launch_bounds__(THREADS, PER_SM)
    loss_kernel(operand losses, int64_t losses_stride, T *logits, int64_t stride, int packs,
                const int32_t *targets, float scale, soft_cap cap, int share, int keeps)
{
    extern __shared__ __align__(16) char shared[];
    pack<V, T> *kept = (pack<V, T> *)shared;
    int blocks = blocks_of_row(), first = (int)(blockIdx.x % blocks) * share;
    int64_t row = blockIdx.x / blocks;
    int count = max(0, min(share, packs - first)), target = targets[row];
    T *part = logits + row * stride + (int64_t)first * V;
    float aimed[1] = { 0 };
    bool tells = threadIdx.x == 0 && first == 0; // writes the loss
    if (tells && target >= 0 && target < packs * V)
        aimed[0] = widen(part[target]);
    if (CAPPED)
        cap_logits(aimed, cap, T());
    soft all = { -INFINITY, 0 };
    keeps = min(keeps, count);
    int group = (keeps + 4 * THREADS - 1) / (4 * THREADS) * THREADS;
    for (int g = 0; g < 4; g++) {
        for (int i = g * group + threadIdx.x; i < min((g + 1) * group, keeps); i += THREADS)
            copy16(kept + i, part + (int64_t)i * V, 16);
        commit();
    }
    auto take_group = [&](int g) {
        for (int i = g * group + threadIdx.x; i < min((g + 1) * group, keeps); i += THREADS) {
            pack<V, T> packed;
            fetch(packed, (const T *)(kept + i)); // 16 bytes at once
            take<T, V, CAPPED>(all, packed, cap);
        }
    };
    own_arrived<3>(), take_group(0);
    own_arrived<2>(), take_group(1);
    own_arrived<1>(), take_group(2);
    own_arrived<0>(), take_group(3);
#pragma unroll 4
    for (int i = keeps + threadIdx.x; i < count; i += THREADS) {
        pack<V, T> packed;
        fetch(packed, part + (int64_t)i * V);
        take<T, V, CAPPED>(all, packed, cap);
    }
    all = join_cluster<T>(join_block<T>(all)); // and the target's logit was read
    float over = scale / all.sum;
    int64_t aim = (int64_t)target - (int64_t)first * V; // in this part
    auto give_at = [&](int i, const pack<V, T> &packed) {
        give<T, V, CAPPED>(part + (int64_t)i * V, packed, all.largest, over, aim - (int64_t)i * V,
                           scale, cap);
    };
    for (int i = threadIdx.x; i < keeps; i += THREADS) {
        pack<V, T> packed;
        fetch(packed, (const T *)(kept + i));
        give_at(i, packed);
    }
#pragma unroll 4
    for (int i = keeps + threadIdx.x; i < count; i += THREADS) {
        pack<V, T> packed;
        fetch(packed, part + (int64_t)i * V);
        give_at(i, packed);
    }
    if (tells) {
        double loss = (log2((double)all.sum) + all.largest) * 0.6931471805599453 - aimed[0];
        if (losses.dtype == DTYPE_F64)
            ((double *)losses.at)[row * losses_stride] = loss;
        else
            store_any(losses, row * losses_stride, (float)loss);
    }
    leave_cluster();
}

template <typename T, int V, bool CAPPED>
static void launch(struct cuda *cuda, struct tensor losses, struct tensor logits,
                   const int32_t *targets, float scale, soft_cap cap)
{
    auto kernel = loss_kernel<T, V, CAPPED>;
    const int64_t pack_bytes = sizeof(pack<V, T>), packs = logits.columns / V;
    // A third of a multiprocessor's shared memory; single elements cannot be copied beside compute.
    int64_t room =
        pack_bytes == 16 ? ((cuda->shared_bytes + 1024) / PER_SM - OTHER_SHARED) / 16 : 0;
    unsigned blocks = 1;
    while (cuda->code >= 90 && blocks < MOST_BLOCKS && ceil_div(packs, blocks) > room && room)
        blocks *= 2;
    int share = (int)ceil_div(packs, blocks), keeps = (int)least(room, share);
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = blocks;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)logits.rows * blocks);
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = (size_t)(keeps * pack_bytes);
    config.stream = cuda->stream;
    config.attrs = &cluster;
    config.numAttrs = blocks > 1;
    cuda_check(cuda,
               cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    (int)config.dynamicSmemBytes),
               "cross-entropy");
    cuda_check(cuda,
               cudaLaunchKernelEx(&config, kernel, any_of(losses), losses.stride, (T *)logits.at,
                                  logits.stride, (int)packs, targets, scale, cap, share, keeps),
               "cross-entropy");
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
