// SPDX-License-Identifier: Apache-2.0
// Biases of the experts of a mixture, on rows that are sorted by expert; cpu/experts.c has the
// plain loops.
//
// Thread blocks belong to an expert, and find its rows from the counts of the experts before it.

#include "train/cuda/kernels.cuh"
#include "train/cuda/operations.h"

enum { WARP = 32, WARPS = 8, SLICES = 16 }; // slices: thread blocks that share an expert's rows

// The biases of some experts, and the rows of each.
struct biases {
    operand each;
    int64_t step, columns;
    const int32_t *counts;
    int first;
};

struct own_rows {
    int64_t first, end;
};

// The rows of this block's expert; all threads of the block must call it.
static __device__ inline own_rows rows_of(const biases &b)
{
    __shared__ int before;
    int thread = threadIdx.y * blockDim.x + threadIdx.x, expert = b.first + blockIdx.x;
    if (thread == 0)
        before = 0;
    __syncthreads();
    for (int e = thread; e < expert; e += blockDim.x * blockDim.y)
        atomicAdd(&before, b.counts[e]); // whole numbers: their order does not matter
    __syncthreads();
    return own_rows{ before, before + b.counts[expert] };
}

// --- forward -----------------------------------------------------------------

template <typename T, int V>
static __global__ void add_kernel(T *y, int64_t stride, biases b, const float *weight)
{
    own_rows rows = rows_of(b);
    for (int64_t row = rows.first + blockIdx.y * WARPS + threadIdx.y; row < rows.end;
         row += SLICES * WARPS) {
        float w = weight ? weight[row] : 1;
        for (int64_t c = threadIdx.x * V; c < b.columns; c += WARP * V) {
            float x[V], bias[V];
            load(x, y + row * stride + c);
            load_any(bias, b.each, blockIdx.x * b.step + c);
#pragma unroll
            for (int i = 0; i < V; i++)
                x[i] += w * bias[i];
            store(y + row * stride + c, x);
        }
    }
}

static bool are_weights(struct cuda *cuda, std::initializer_list<struct tensor> weights)
{
    for (struct tensor t : weights)
        if (t.at && (t.dtype != DTYPE_F32 || t.stride != 1)) {
            cuda_fail(cuda, ERR_UNAVAILABLE, "experts' biases on a GPU need dense weights in fp32");
            return false;
        }
    return true;
}

static biases biases_of(struct expert_matrices in, const struct routing *r)
{
    return biases{ any_of(in.each), in.step, in.each.columns, r->counts, (int)in.first };
}

void cuda_experts_bias_forward(struct device *device, struct tensor y, struct expert_matrices bias,
                               struct tensor weight, const struct routing *r)
{
    struct cuda *cuda = cuda_of(device);
    if (cuda->err || !y.rows || !are_weights(cuda, { weight }))
        return;
    with_type(cuda, y.dtype, [&](auto t) {
        using T = decltype(t);
        const int most = 16 / sizeof(T);
        bool vectors =
            in_vectors(most, { y, bias.each }) && bias.step * bytes_of(bias.each.dtype) % 16 == 0;
        with_width<most>(vectors, [&](auto w) {
            add_kernel<T, w.value>
                <<<dim3((unsigned)bias.count, SLICES), dim3(WARP, WARPS), 0, cuda->stream>>>(
                    (T *)y.at, y.stride, biases_of(bias, r), (const float *)weight.at);
        });
        cuda_launched(cuda, "experts' biases");
    });
}

// --- backward ----------------------------------------------------------------

// dweight of a row: a warp has it.
template <typename T>
static __global__ void dot_kernel(float *dweight, const T *dy, int64_t stride, biases b)
{
    own_rows rows = rows_of(b);
    for (int64_t row = rows.first + blockIdx.y * WARPS + threadIdx.y; row < rows.end;
         row += SLICES * WARPS) {
        float sum = 0;
        for (int64_t c = threadIdx.x; c < b.columns; c += WARP)
            sum += widen(dy[row * stride + c]) * load_any(b.each, blockIdx.x * b.step + c);
        sum = group_sum(sum, WARP);
        if (threadIdx.x == 0)
            dweight[row] += sum;
    }
}

// dbias of a column: the warps take the rows in turn, and their sums are added in order.
template <typename T>
static __global__ void sum_kernel(biases db, const T *dy, int64_t stride, const float *weight)
{
    __shared__ float parts[WARPS][WARP];
    own_rows rows = rows_of(db);
    int64_t c = (int64_t)blockIdx.y * WARP + threadIdx.x;
    float sum = 0;
    if (c < db.columns)
        for (int64_t row = rows.first + threadIdx.y; row < rows.end; row += WARPS)
            sum += (weight ? weight[row] : 1) * widen(dy[row * stride + c]);
    parts[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y || c >= db.columns)
        return;
    for (int i = 1; i < WARPS; i++)
        sum += parts[i][threadIdx.x];
    int64_t at = blockIdx.x * db.step + c;
    store_any(db.each, at, load_any(db.each, at) + sum);
}

void cuda_experts_bias_backward(struct device *device, struct expert_matrices dbias,
                                struct tensor dweight, struct tensor dy,
                                struct expert_matrices bias, struct tensor weight,
                                const struct routing *r)
{
    struct cuda *cuda = cuda_of(device);
    if (cuda->err || !dy.rows || !are_weights(cuda, { weight, dweight }))
        return;
    dim3 block(WARP, WARPS);
    with_type(cuda, dy.dtype, [&](auto t) {
        using T = decltype(t);
        if (dbias.each.at)
            sum_kernel<<<dim3((unsigned)dbias.count, (unsigned)ceil_div(dy.columns, WARP)), block,
                         0, cuda->stream>>>(biases_of(dbias, r), (const T *)dy.at, dy.stride,
                                            (const float *)weight.at);
        if (weight.at)
            dot_kernel<<<dim3((unsigned)bias.count, SLICES), block, 0, cuda->stream>>>(
                (float *)dweight.at, (const T *)dy.at, dy.stride, biases_of(bias, r));
        cuda_launched(cuda, "experts' bias gradients");
    });
}
