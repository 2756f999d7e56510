// SPDX-License-Identifier: Apache-2.0
// Attention with plain loops: a warp per row, its lanes share the columns of a head. See
// attention_kernel.h.

#include "train/cuda/attention/attention_kernel.h"

#include <cuda_bf16.h>

enum { LANES = 32, MOST = 8 /* columns of a lane */, WARPS = 8 };

static __device__ float load(float x)
{
    return x;
}

static __device__ float load(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

static __device__ void store(float *at, float x)
{
    *at = x;
}

static __device__ void store(__nv_bfloat16 *at, float x)
{
    *at = __float2bfloat16(x);
}

// A row of one head, distributed over the lanes.
template <typename T> struct row {
    float x[MOST];

    __device__ row()
    {
        for (int i = 0; i < MOST; i++)
            x[i] = 0;
    }

    __device__ row(const void *at, int64_t stride, int64_t token, int head, int size)
    {
        const T *in = (const T *)at + token * stride + (int64_t)head * size;
        for (int i = 0, c = threadIdx.x; i < MOST; i++, c += LANES)
            x[i] = c < size ? load(in[c]) : 0;
    }

    __device__ void save(void *at, int64_t stride, int64_t token, int head, int size, float scale)
    {
        T *out = (T *)at + token * stride + (int64_t)head * size;
        for (int i = 0, c = threadIdx.x; i < MOST && c < size; i++, c += LANES)
            store(&out[c], x[i] * scale);
    }

    __device__ float dot(const row &b) const
    {
        float sum = 0;
        for (int i = 0; i < MOST; i++)
            sum += x[i] * b.x[i];
        for (int step = LANES / 2; step; step /= 2)
            sum += __shfl_xor_sync(~0u, sum, step);
        return sum;
    }

    __device__ void add(const row &b, float factor)
    {
        for (int i = 0; i < MOST; i++)
            x[i] += factor * b.x[i];
    }
};

// The score of a product q · k, and its slope by the product.
struct score {
    float value, slope;
};

static __device__ struct score score_of(const struct kernel_attention &a, float product)
{
    if (a.cap == 0)
        return score{ a.scale * product, a.scale };
    float t = tanhf(a.scale * product / a.cap);
    return score{ a.cap * t, a.scale * (1 - t * t) };
}

template <typename T> static __global__ void forward(struct kernel_attention a)
{
    int token = blockIdx.x * WARPS + threadIdx.y, head = blockIdx.y;
    if (token >= a.tokens)
        return;
    int shared = head / (a.heads / a.kv_heads), d = a.head_size;
    row<T> q(a.q, a.q_stride, token, head, d), out;
    float largest = -INFINITY, sum = 0;
    for (int key = a.low[token]; key <= token; key++) {
        float s = score_of(a, q.dot(row<T>(a.k, a.k_stride, key, shared, d))).value;
        float next = fmaxf(largest, s), keep = expf(largest - next), p = expf(s - next);
        for (int i = 0; i < MOST; i++)
            out.x[i] *= keep;
        out.add(row<T>(a.v, a.v_stride, key, shared, d), p);
        sum = sum * keep + p, largest = next;
    }
    out.save(a.out, a.out_stride, token, head, d, 1 / sum);
    if (threadIdx.x == 0)
        a.lse[(int64_t)token * a.heads + head] = largest + logf(sum);
}

template <typename T> static __global__ void backward_q(struct kernel_attention a)
{
    int token = blockIdx.x * WARPS + threadIdx.y, head = blockIdx.y;
    if (token >= a.tokens)
        return;
    int shared = head / (a.heads / a.kv_heads), d = a.head_size;
    int64_t at = (int64_t)token * a.heads + head;
    row<T> q(a.q, a.q_stride, token, head, d), dout(a.dout, a.dout_stride, token, head, d), dq;
    float lse = a.lse[at], delta = dout.dot(row<T>(a.out, a.out_stride, token, head, d));
    for (int key = a.low[token]; key <= token; key++) {
        row<T> k(a.k, a.k_stride, key, shared, d);
        struct score s = score_of(a, q.dot(k));
        float p = expf(s.value - lse);
        dq.add(k, s.slope * p * (dout.dot(row<T>(a.v, a.v_stride, key, shared, d)) - delta));
    }
    dq.save(a.dq, a.dq_stride, token, head, d, 1);
    if (threadIdx.x == 0)
        a.delta[at] = delta;
}

template <typename T> static __global__ void backward_kv(struct kernel_attention a)
{
    int token = blockIdx.x * WARPS + threadIdx.y, shared = blockIdx.y;
    if (token >= a.tokens)
        return;
    int group = a.heads / a.kv_heads, d = a.head_size;
    row<T> k(a.k, a.k_stride, token, shared, d), v(a.v, a.v_stride, token, shared, d), dk, dv;
    for (int head = shared * group; head < (shared + 1) * group; head++)
        for (int query = token; query < a.high[token]; query++) {
            int64_t at = (int64_t)query * a.heads + head;
            row<T> q(a.q, a.q_stride, query, head, d), dout(a.dout, a.dout_stride, query, head, d);
            struct score s = score_of(a, q.dot(k));
            float p = expf(s.value - a.lse[at]);
            dv.add(dout, p);
            dk.add(q, s.slope * p * (dout.dot(v) - a.delta[at]));
        }
    dk.save(a.dk, a.dk_stride, token, shared, d, 1);
    dv.save(a.dv, a.dv_stride, token, shared, d, 1);
}

void plain_forward(cudaStream_t stream, const struct kernel_attention *a)
{
    dim3 grid((a->tokens + WARPS - 1) / WARPS, a->heads), block(LANES, WARPS);
    if (a->dtype == DTYPE_BF16)
        forward<__nv_bfloat16><<<grid, block, 0, stream>>>(*a);
    else
        forward<float><<<grid, block, 0, stream>>>(*a);
}

void plain_backward(cudaStream_t stream, const struct kernel_attention *a)
{
    int tiles = (a->tokens + WARPS - 1) / WARPS;
    dim3 grid(tiles, a->heads), shared(tiles, a->kv_heads), block(LANES, WARPS);
    if (a->dtype == DTYPE_BF16) {
        backward_q<__nv_bfloat16><<<grid, block, 0, stream>>>(*a);
        backward_kv<__nv_bfloat16><<<shared, block, 0, stream>>>(*a);
    } else {
        backward_q<float><<<grid, block, 0, stream>>>(*a);
        backward_kv<float><<<shared, block, 0, stream>>>(*a);
    }
}
