// SPDX-License-Identifier: Apache-2.0
// attention_kernel: built-in attention kernels, for what cuDNN does not support, or without it.
//
// The mask is two numbers per token, low and high, for documents and sliding windows alike. A query
// attends to the keys low[query] … query; a key is attended to by the queries key … high[key] − 1.
// Two documents, tokens 0 – 3 and 4 – 6, with a window of 3:
//
//          key   0  1  2  3  4  5  6     low              attends(query, key)
//     query 0    ×                        0          ⇔  low[query] ≤ key ≤ query
//           1    ×  ×                     0          ⇔  key ≤ query < high[key]
//           2    ×  ×  ×                  0
//           3       ×  ×  ×               1
//           4                ×            4     Both numbers never fall from a token to the next,
//           5                ×  ×         4     so a tile of queries [a, b) needs only the keys
//           6                ×  ×  ×      4     low[a] … b − 1, and a tile of keys [a, b) only the
//     high       3  4  4  4  7  7  7            queries a … high[b − 1] − 1.
//
// A tile may therefore hold tokens of many documents.
//
//     kernel_ranges(stream, low, high, spans, span_count, window);
//     kernel_forward(stream, &a);   // tensor cores for bf16, plain loops for fp32
//     kernel_backward(stream, &a);
//
// Sums have a fixed order: one thread block adds everything for its rows of dq, or of dk and dv.

#pragma once

#include "train/backend.h"

#include <cuda_runtime.h>

struct kernel_attention {
    const void *q, *k, *v, *dout;
    void *out, *dq, *dk, *dv;
    float *lse, *delta; // (T, H); delta: Σ dout · out, computed by the backward pass
    int64_t q_stride, k_stride, v_stride, out_stride, dout_stride, dq_stride, dk_stride, dv_stride;
    const int32_t *low, *high;
    int tokens, heads, kv_heads, head_size;
    float scale, cap; // scores x become cap · tanh(x / cap); 0: they stay
    enum dtype dtype;
};

void kernel_ranges(cudaStream_t stream, int32_t *low, int32_t *high, const struct span *spans,
                   int64_t count, int64_t window);
void kernel_forward(cudaStream_t stream, const struct kernel_attention *a);
void kernel_backward(cudaStream_t stream, const struct kernel_attention *a);

// The same with plain loops in fp32, one warp per row: for fp32 tensors, and as the reference.
void plain_forward(cudaStream_t stream, const struct kernel_attention *a);
void plain_backward(cudaStream_t stream, const struct kernel_attention *a);
