// SPDX-License-Identifier: Apache-2.0
// mma: tensor-core products of bf16 tiles in shared memory, for compute capability 8.0 and later.
//
// Tiles arrive by asynchronous copies of 16 bytes, in groups that complete in order. A fragment is
// four 8 × 8 matrices; lane l addresses row l % 8 of matrix l / 8, and these rows must lie in
// different banks. load4_transposed() transposes each of the four matrices.
//
//     copy16(tile + …, from, 16), commit();
//     arrived<0>();
//     load4(left, …), load4_transposed(right, …);
//     mma(sum, left, right); // sum (16 × 8) += left (16 × 16) × right (16 × 8)

#pragma once

#include <cuda_bf16.h>
#include <stdint.h>

typedef __nv_bfloat16 bf16;

static __device__ inline uint32_t shared_address(const void *at)
{
    return (uint32_t)__cvta_generic_to_shared(at);
}

// Copies 16 bytes to shared memory; those after the first `bytes` become zeros.
static __device__ inline void copy16(void *out, const void *in, int bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(out)),
                 "l"(in), "r"(bytes));
}

static __device__ inline void commit()
{
    asm volatile("cp.async.commit_group;");
}

// Waits until all but the newest LEFT groups that this thread asked for have arrived.
template <int LEFT> static __device__ inline void own_arrived()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

// The same for every thread of the block.
template <int LEFT> static __device__ inline void arrived()
{
    own_arrived<LEFT>();
    __syncthreads();
}

static __device__ inline void load4(uint32_t x[4], const bf16 *at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(shared_address(at)));
}

static __device__ inline void load4_transposed(uint32_t x[4], const bf16 *at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(shared_address(at)));
}

static __device__ inline void mma(float c[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
