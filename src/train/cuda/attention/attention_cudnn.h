// SPDX-License-Identifier: Apache-2.0
// attention_cudnn: attention of packed documents as a cuDNN graph; cuDNN is loaded at run time.
//
// cuDNN fuses a graph of small operations into one kernel if it recognises the pattern: products, a
// scale, masks made of index comparisons, the parts of a softmax. A plan is such a graph, compiled
// for one shape; compiling takes a few tenths of a second.
//
//     struct cudnn *cudnn = cudnn_open(note);             // NULL: not found, note says why
//     struct cudnn_plan *plan = cudnn_plan_make(cudnn, &shape, note);
//     cudnn_run(cudnn, plan, stream, &pointers, workspace, note);
//
// The backward pass stores the length × length score gradients in the workspace and multiplies from
// there, which has a fixed order of sums. Where sums may be added in any order, it adds the
// gradients of queries with atomics into an fp32 tensor in the workspace instead: cuDNN chooses
// this kernel because the graph has that tensor.
//
// Documents of one length that lie side by side need no offsets and no mask of their ends: without
// them the same kernels take 7 % less forward and 10 % less backward.

#pragma once

#include <cuda_runtime.h>
#include <stdint.h>

enum { CUDNN_NOTE = 512 };

struct cudnn;
struct cudnn_plan;

// What a plan is compiled for: documents of at most `length` tokens, and the strides of all rows.
struct cudnn_shape {
    int64_t documents, length, heads, kv_heads, head_size;
    int64_t q_stride, k_stride, v_stride, out_stride, lse_stride;
    int64_t dout_stride, dq_stride, dk_stride, dv_stride; // 0: forward pass
    int64_t any_order;                                    // 1: of sums in the backward pass
    int64_t sees_all; // 1: no causal mask, every query sees every key
    int64_t even;     // 1: documents of `length` tokens each, side by side
};

// Offsets of documents are in elements, documents + 1 of them, one array per row stride. Even
// documents have neither offsets nor sizes: all pointers are to the first one.
struct cudnn_pointers {
    const void *q, *k, *v;
    void *out;
    float *lse;
    const void *dout;
    void *dq, *dk, *dv;
    const int32_t *sizes, *key_sizes; // of the documents, in tokens
    float scale;                      // of the scores
    const int64_t *q_offsets, *k_offsets, *v_offsets, *out_offsets, *lse_offsets;
    const int64_t *dout_offsets, *dq_offsets, *dk_offsets, *dv_offsets;
};

struct cudnn *cudnn_open(char note[CUDNN_NOTE]);
void cudnn_close(struct cudnn *cudnn);
int64_t cudnn_version(const struct cudnn *cudnn); // 91400 for 9.14.0

struct cudnn_plan *cudnn_plan_make(struct cudnn *cudnn, const struct cudnn_shape *shape,
                                   char note[CUDNN_NOTE]);
void cudnn_plan_free(struct cudnn *cudnn, struct cudnn_plan *plan);
int64_t cudnn_plan_bytes(const struct cudnn_plan *plan); // of workspace
bool cudnn_run(struct cudnn *cudnn, struct cudnn_plan *plan, cudaStream_t stream,
               const struct cudnn_pointers *pointers, void *workspace, char note[CUDNN_NOTE]);
