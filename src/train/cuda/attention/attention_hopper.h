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
//     hopper_list(&lists, spans, span_count, kv_heads, processors);
//     … upload …
//     hopper_backward(stream, &a, &lists, kv_heads, processors, workspace, &late);
//
// Of struct kernel_attention neither low and high nor delta are used, and the tensors need rows
// that are aligned to 16 bytes.

#pragma once

#include "base/attention_workspace.h"
#include "train/cuda/attention/attention_kernel.h"
#include "train/cuda/cuda.h"

enum { HOPPER_KEYS = 128, HOPPER_QUERIES = ATTENTION_OWN_QUERIES };

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

// kv_heads: that are computed at once.
void hopper_list(struct hopper_lists *lists, const struct span *spans, int64_t documents,
                 int64_t kv_heads, int64_t processors);

bool hopper_runs(const struct cuda *cuda);              // of 9.0, and this build has code for it
bool hopper_supports(const struct kernel_attention *a); // these tensors
// kv_heads: at once, for which the workspace has attention_own_bytes(). late: on the host, and seen
// by the device. It becomes 1 where a thread waited half a minute for another one, and gave up: the
// gradients are wrong then.
cudaError_t hopper_backward(cudaStream_t stream, const struct kernel_attention *a,
                            const struct hopper_lists *lists, int kv_heads, int processors,
                            void *workspace, int32_t *late);
