// SPDX-License-Identifier: Apache-2.0
// attention_hopper: the backward pass of attention for compute capability 9.0.
//
// For bf16, heads of 128, causal documents, any number of query heads to a kv head. Same bits in
// every run, and no workspace that grows with the square of a document. A document is cut into
// blocks of 128 keys and of 64 queries, from its first token on:
//
//     tokens          0      64     128    192    256        300 │ 300 …
//     key blocks      │      0      │      1      │      2       │
//     query blocks    │  0   │  1   │  2   │  3   │  4  (44)     │
//
// The caller lists the blocks on the host, uploads both lists, and gives a workspace:
//
//     struct hopper_lists lists = { keys, queries };           // room for hopper_most() each
//     hopper_list(&lists, spans, span_count, kv_heads, processors, HOPPER_TOGETHER);
//     … upload …
//     hopper_backward(stream, &a, &lists, processors, workspace); // hopper_bytes()
//
// Of struct kernel_attention neither low and high nor delta are used, and the tensors need rows that
// are aligned to 16 bytes.

#pragma once

#include "train/cuda/attention/attention_kernel.h"

enum { HOPPER_KEYS = 128, HOPPER_QUERIES = 64, HOPPER_TOGETHER = 8 };

struct hopper_block {
    int32_t token, size; // first token and tokens: of the document, for a key block
    int32_t index;       // in the document
    int32_t first;       // index of the document's first query block
};

struct hopper_lists {
    struct hopper_block *keys, *queries; // keys: in the order in which they are taken
    int32_t key_count, query_count;
};

int64_t hopper_most(int64_t tokens, int64_t documents); // blocks of a list
int64_t hopper_bytes(int64_t query_blocks, int64_t heads);

// together: documents × kv heads that are under way at once, at least.
void hopper_list(struct hopper_lists *lists, const struct span *spans, int64_t documents,
                 int64_t kv_heads, int64_t processors, int64_t together);

bool hopper_supports(const struct kernel_attention *a); // and the device is of 9.0
cudaError_t hopper_backward(cudaStream_t stream, const struct kernel_attention *a,
                            const struct hopper_lists *lists, int processors, void *workspace);

extern int hopper_parts; // for measuring: 1 before, 2 the kernel, 4 after; and see mode
void hopper_trace(const struct hopper_lists *lists, int64_t heads, void *workspace, uint32_t out[48]);
bool hopper_was_late(const struct hopper_lists *lists, int64_t heads, void *workspace);
