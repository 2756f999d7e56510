// attention_kernel: attention as own kernels, for what cuDNN does not do or where it is absent.
//
// A token sees the keys low … itself, and is seen by the queries itself … high − 1; two numbers per
// token stand for documents and windows alike, so that a tile of tokens may hold many documents.
//
//     kernel_ranges(stream, low, high, spans, span_count, window);
//     kernel_forward(stream, &a);   // tensor cores for bf16, plain loops for fp32
//     kernel_backward(stream, &a);
//
// Sums have one order: a block adds up all that goes into its rows of dq, or of dk and dv.

#pragma once

#include "train/backend.h"

#include <cuda_runtime.h>

struct kernel_attention {
    const void *q, *k, *v, *dout;
    void *out, *dq, *dk, *dv;
    float *lse, *delta; // (T, H); delta: Σ dout · out, made by the backward pass
    int64_t q_stride, k_stride, v_stride, out_stride, dout_stride, dq_stride, dk_stride, dv_stride;
    const int32_t *low, *high;
    int tokens, heads, kv_heads, head_size;
    float scale;
    enum dtype dtype;
};

void kernel_ranges(cudaStream_t stream, int32_t *low, int32_t *high, const struct span *spans,
                   int64_t count, int64_t window);
void kernel_forward(cudaStream_t stream, const struct kernel_attention *a);
void kernel_backward(cudaStream_t stream, const struct kernel_attention *a);

// The same by plain loops in fp32, one warp to a row: for fp32 tensors and as the definition.
void plain_forward(cudaStream_t stream, const struct kernel_attention *a);
void plain_backward(cudaStream_t stream, const struct kernel_attention *a);
