// SPDX-License-Identifier: Apache-2.0
// cuda: what the files of the CUDA backend share: the device's state, launches, errors.
//
// An operation queues kernels on one stream and returns. The first error is stored on the device,
// as a code and a message; later operations do nothing, and sync() returns it. There are no float
// atomics: two runs give the same bits.
//
//     struct cuda *cuda = cuda_of(device);
//     my_kernel<<<blocks, threads, 0, cuda->stream>>>(…);
//     cuda_launched(cuda, "my kernel");

#pragma once

#include "train/backend.h"

#include <cuda_bf16.h>
#include <cuda_runtime.h>

struct cuda_products;  // cached plans of matrix products (product.cu)
struct cuda_group;     // NCCL's communicator and stream (nccl.cu)
struct cuda_attention; // cached cuDNN graphs, or the built-in kernels (attention.cu)

// Copies of activations to the host and back, beside the operations (offload.cu).
struct cuda_lanes {
    cudaStream_t out, in;        // NULL: nothing was pinned
    cudaEvent_t queued, done[2]; // what a copy waits for; the last copy of each lane
};

struct cuda {
    cudaStream_t stream;
    int multiprocessors;
    int capability;   // 90 for 9.0
    int code;         // the capability that the code was built for: 80 may run on 90
    int shared_bytes; // shared memory that a thread block may use
    enum err err;     // the first one, until sync() returns it
    char problem[256];
    struct cuda_products *products;
    struct cuda_attention *attention;
    struct cuda_group *group; // NULL: a single rank
    void *partials;           // CUDA_PARTIALS bytes for sums in two stages
    struct cuda_ring {        // pinned memory that uploads go through
        char *at;
        cudaEvent_t free[4];
        int next;
    } ring;
    struct cuda_lanes lanes;
    enum tuning tuning;
};

enum {
    CUDA_PARTIALS = 8 << 20,
    CUDA_PRODUCTS = 64 << 20, // cuBLASLt's workspace
    CUDA_RING_SLOT = 16 << 20,
    CUDA_RING_SLOTS = 4,
};

static inline struct cuda *cuda_of(struct device *device)
{
    return (struct cuda *)device->own;
}

void cuda_fail(struct cuda *cuda, enum err err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));                                // keeps the first error
bool cuda_check(struct cuda *cuda, cudaError_t status, const char *what); // true: no error
void cuda_launched(struct cuda *cuda, const char *what);                  // call after each launch

// elementwise.cu: a hash of all bits and their places
void cuda_hash_output(struct cuda *cuda, unsigned long long *sum /* += */, struct tensor c);

// product.cu
enum err cuda_products_open(struct cuda *cuda);
void cuda_products_close(struct cuda *cuda);
void *cuda_products_workspace(const struct cuda *cuda); // CUDA_PRODUCTS bytes, between products

// What tuning chose between kernels for a product of some experts. −1: nothing yet.
struct cuda_choice {
    int kind, count; // which product; experts
    int64_t n, k;
    enum dtype c;
};
int cuda_chosen(struct cuda *cuda, struct cuda_choice of);
void cuda_choose(struct cuda *cuda, struct cuda_choice of, int chosen);

// offload.cu
void cuda_lanes_close(struct cuda *cuda);

// attention.cu: with cuDNN if it is found, otherwise with the built-in kernels only.
enum err cuda_attention_open(struct cuda *cuda);
void cuda_attention_close(struct cuda *cuda);
const char *cuda_attention_name(const struct cuda *cuda); // "cuDNN 9.14", "built-in kernels"
const char *cuda_attention_note(const struct cuda *cuda); // why cuDNN was not used last; ""
void cuda_attention_check(struct cuda *cuda); // after all operations: fails if one gave up
// The workspace of the operations below has the size that this returned last.
int64_t cuda_attention_bytes(struct device *, const struct attention *, enum dtype);
void cuda_attention_begin(struct device *, const struct attention *, void *workspace);
void cuda_attention_forward(struct device *, struct tensor out, struct tensor lse, struct tensor q,
                            struct tensor k, struct tensor v, const struct attention *,
                            void *workspace);
void cuda_attention_backward(struct device *, struct tensor dq, struct tensor dk, struct tensor dv,
                             struct tensor dout, struct tensor out, struct tensor lse,
                             struct tensor q, struct tensor k, struct tensor v,
                             const struct attention *, void *workspace);
