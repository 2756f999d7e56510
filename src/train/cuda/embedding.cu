// SPDX-License-Identifier: Apache-2.0
// The embedding table: rows by token, and their gradient, added in the order of the tokens.
//
// Positions with the same id form a chain: each one knows the next. A thread block starts at the
// first position of its id and follows the chain, so that no two blocks write the same row.

#include "train/cuda/kernels.cuh"
#include "train/cuda/operations.h"

enum { TILE = 256, LAST = -1 };

void cuda_embedding_forward(struct device *device, struct tensor out, struct tensor table,
                            const int32_t *ids)
{
    cuda_gather(device, out, table, ids);
}

// next[t]: the next position with the id of t, or LAST; first[t]: whether t is the first one.
static __global__ void chain_kernel(int32_t *next, int32_t *first, const int32_t *ids, int count)
{
    __shared__ int32_t tile[TILE];
    int t = blockIdx.x * TILE + threadIdx.x;
    int32_t own = t < count ? ids[t] : -1, found = LAST;
    bool before = false;
    for (int base = 0; base < count; base += TILE) {
        int at = base + threadIdx.x;
        __syncthreads();
        tile[threadIdx.x] = at < count ? ids[at] : -2;
        __syncthreads();
        if (base > t ? found != LAST : before && base + TILE <= t)
            continue;
        for (int i = 0; i < TILE; i++) {
            if (tile[i] != own)
                continue;
            before |= base + i < t;
            if (base + i > t && found == LAST)
                found = base + i;
        }
    }
    if (t < count) {
        next[t] = found;
        first[t] = !before;
    }
}

template <typename T, int V>
__global__ void walk_kernel(operand dtable, int64_t table_stride, const T *dout, int64_t stride,
                            const int32_t *ids, const int32_t *next, const int32_t *first,
                            int64_t columns)
{
    int t = blockIdx.x;
    int64_t c = ((int64_t)blockIdx.y * blockDim.x + threadIdx.x) * V;
    if (!first[t] || c >= columns)
        return;
    float sum[V] = { 0 };
    for (int at = t; at != LAST;) {
        int then = next[at];
        float x[V];
        load(x, dout + at * stride + c);
#pragma unroll
        for (int i = 0; i < V; i++)
            sum[i] += x[i];
        at = then;
    }
    int64_t place = ids[t] * table_stride + c;
    float before[V];
    load_any(before, dtable, place);
#pragma unroll
    for (int i = 0; i < V; i++)
        sum[i] += before[i];
    store_any(dtable, place, sum);
}

void cuda_embedding_backward(struct device *device, struct tensor dtable, struct tensor dout,
                             const int32_t *ids)
{
    struct cuda *cuda = cuda_of(device);
    int64_t count = dout.rows;
    if (cuda->err || !count || !dout.columns)
        return;
    if (count * 8 > CUDA_PARTIALS)
        return cuda_fail(cuda, ERR_UNAVAILABLE,
                         "the gradient of an embedding supports at most %d tokens at a time",
                         CUDA_PARTIALS / 8);
    int32_t *next = (int32_t *)cuda->partials, *first = next + count;
    chain_kernel<<<(unsigned)ceil_div(count, TILE), TILE, 0, cuda->stream>>>(next, first, ids,
                                                                             (int)count);
    cuda_launched(cuda, "embedding chain");
    with_type(cuda, dout.dtype, [&](auto t) {
        using T = decltype(t);
        const int most = 16 / sizeof(T);
        with_width<most>(in_vectors(most, { dout, dtable }), [&](auto w) {
            const int threads = 128;
            dim3 grid((unsigned)count, (unsigned)ceil_div(dout.columns, threads * w.value));
            walk_kernel<T, w.value><<<grid, threads, 0, cuda->stream>>>(
                any_of(dtable), dtable.stride, (const T *)dout.at, dout.stride, ids, next, first,
                dout.columns);
            cuda_launched(cuda, "embedding gradient");
        });
    });
}
