// SPDX-License-Identifier: Apache-2.0
// attention_hopper: what attention_hopper.cu asks of the hardware of compute capability 9.0:
// barriers in shared memory, copies of tiles by the copy engine, and products of tiles.
//
// A tile has 64 or 128 rows of 128 columns, in two panels of 64 columns: 128 bytes of a row.
// experts_wgmma.cu draws how a panel lies in shared memory.
//
// A product runs on while warps do other things, and its sums may only be touched after it is done:
//
//     start_scores(s, k, q);       // set of products 1
//     start_gradient(dv, p, dout); // 2
//     …
//     products_done<1>();          // all but the newest set: s may be read, dv may not
//     hold(s);
//
// Only for code of 9.0, with its own instructions.

#pragma once

#include "train/cuda/attention/attention_hopper.h"
#include "train/cuda/mma.cuh"

#include <cuda.h>

enum { D = 128, KEYS = HOPPER_KEYS, QUERIES = HOPPER_QUERIES, GROUP = 128 }; // threads of a group
enum { LINE = 128, ATOM = 8 * LINE }; // bytes of 64 columns; of eight such rows
enum { KEY_PANEL = (int)KEYS * LINE, QUERY_PANEL = (int)QUERIES * LINE, DEEP = 16 * LINE };

// Where code for 9.0 is compiled; elsewhere the kernel is empty and never started.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define HAS_WGMMA 1
#else
#define HAS_WGMMA 0
#endif

#if HAS_WGMMA

// --- barriers ------------------------------------------------------------------

// Cycles, half a minute, others' turns on the GPU included: what takes longer never comes.
#define PATIENCE 60000000000ull

static __device__ inline uint64_t cycles()
{
    uint64_t t;
    asm volatile("mov.u64 %0, %clock64;" : "=l"(t));
    return t;
}

static __device__ inline uint32_t late_flag(); // its address: the kernel has a place for it

// Whether there is no use in waiting any longer. A flag in shared memory says so to all who wait in
// this thread block: it ends with what it has, and others that wait for it will end like it.
static __device__ inline bool is_late(uint64_t began)
{
    uint32_t flag = late_flag();
    uint32_t late;
    if (cycles() - began > PATIENCE)
        asm volatile("st.volatile.shared.b32 [%0], %1;" ::"r"(flag), "r"(1) : "memory");
    asm volatile("ld.volatile.shared.b32 %0, [%1];" : "=r"(late) : "r"(flag) : "memory");
    return late;
}

static __device__ inline bool has_come(uint32_t barrier, uint32_t phase)
{
    uint32_t done;
    asm volatile("{\n.reg .pred p;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(barrier), "r"(phase)
                 : "memory");
    return done;
}

// Waits until a phase of the barrier is over: 0 for the first, 1 for the second, 0 again.
static __device__ inline void await(uint32_t barrier, uint32_t phase)
{
    if (has_come(barrier, phase))
        return;
    uint64_t began = cycles();
    while (!has_come(barrier, phase) && !is_late(began))
        ;
}

static __device__ inline int counted(const int32_t *counter)
{
    int n;
    asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(n) : "l"(counter) : "memory");
    return n;
}

// Waits until a counter in global memory has reached so much.
static __device__ inline void await_count(const int32_t *counter, int count)
{
    if (counted(counter) >= count)
        return;
    uint64_t began = cycles();
    while (counted(counter) < count && !is_late(began))
        ;
}

static __device__ inline void set_count(int32_t *counter, int count)
{
    asm volatile("st.release.gpu.global.b32 [%0], %1;" ::"l"(counter), "r"(count) : "memory");
}

static __device__ inline void open_barrier(uint32_t barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals)
                 : "memory");
}

static __device__ inline void arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

static __device__ inline void arrive_with(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

// What this warp did before is done for those who wait.
static __device__ inline void warp_arrives(uint32_t barrier)
{
    __syncwarp();
    if (threadIdx.x % 32 == 0)
        arrive(barrier);
}

// Ordinary stores to shared memory become visible to products and to the copy engine.
static __device__ inline void publish()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// --- copies --------------------------------------------------------------------

// 64 columns of a tile of rows.
static __device__ inline void load_panel(uint32_t to, const CUtensorMap *map, int column, int row,
                                         uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                 "l"(map), "r"(column), "r"(row), "r"(barrier)
                 : "memory");
}

static __device__ inline void load_tile(uint32_t to, const CUtensorMap *map, int head, int row,
                                        uint32_t panel, uint32_t barrier)
{
    load_panel(to, map, head * D, row, barrier);
    load_panel(to + panel, map, head * D + D / 2, row, barrier);
}

static __device__ inline void load_numbers(uint32_t to, const float *from, int bytes,
                                           uint32_t barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

// --- products ------------------------------------------------------------------

// How the hardware finds an operand: address, distance of panels, distance of atoms, 128-byte rows.
static __device__ inline uint64_t describe(uint32_t at)
{
    return (uint64_t)(at >> 4) | (uint64_t)(QUERY_PANEL >> 4) << 16 | (uint64_t)(ATOM >> 4) << 32 |
           (uint64_t)1 << 62;
}

static __device__ inline void open_products()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

static __device__ inline void close_products()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// No use of these moves to before this place.
template <int COUNT> static __device__ inline void hold(float (&x)[COUNT])
{
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        asm volatile("" : "+f"(x[i])::"memory");
}

// Waits until all but the newest LEFT sets of products are done.
template <int LEFT> static __device__ inline void products_done()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

#define FOUR(mode, x, i) mode(x[i]), mode(x[i + 1]), mode(x[i + 2]), mode(x[i + 3])
#define SIXTEEN(mode, x, i) \
    FOUR(mode, x, i), FOUR(mode, x, i + 4), FOUR(mode, x, i + 8), FOUR(mode, x, i + 12)

#define PRODUCT_64(mode, add)                                                               \
    asm volatile(                                                                           \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"                            \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "            \
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, " \
        "%32, %33, " add ", 1, 1, %34, %35;"                                                \
        : SIXTEEN(mode, x, 0), SIXTEEN(mode, x, 16)                                         \
        : "l"(a), "l"(b), "n"(!A_ALONG), "n"(!B_ALONG))

// x (64 × 64) = or += a (64 × 16) × b (16 × 64), both in shared memory.
template <bool ADD, bool A_ALONG, bool B_ALONG>
static __device__ inline void start_product(float (&x)[32], uint64_t a, uint64_t b)
{
    if (ADD)
        PRODUCT_64("+f", "1");
    else
        PRODUCT_64("=f", "0");
}

// x (64 × 128) += a (64 × 16, in registers) × b (16 × 128, across).
static __device__ inline void start_product(float (&x)[64], const uint32_t *a, uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
                 "{%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
                 : SIXTEEN("+f", x, 0), SIXTEEN("+f", x, 16), SIXTEEN("+f", x, 32),
                   SIXTEEN("+f", x, 48)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// s = rows × columnsᵀ: 64 keys with 64 queries, 128 deep.
static __device__ inline void start_scores(float (&s)[32], uint64_t keys, uint64_t queries)
{
    open_products();
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        uint64_t a = keys + (k / 4 * KEY_PANEL + k % 4 * 32) / 16;
        uint64_t b = queries + (k / 4 * QUERY_PANEL + k % 4 * 32) / 16;
        if (k == 0)
            start_product<false, true, true>(s, a, b);
        else
            start_product<true, true, true>(s, a, b);
    }
    close_products();
}

// sum += left × rows: 64 keys × 64 queries with 64 queries × 128.
static __device__ inline void start_gradient(float (&sum)[64], const uint32_t (&left)[16],
                                             uint64_t rows)
{
    open_products();
#pragma unroll
    for (int k = 0; k < QUERIES / 16; k++)
        start_product(sum, left + 4 * k, rows + k * DEEP / 16);
    close_products();
}

// dq = dsᵀ × keys: 64 queries × 128 keys with 128 keys × 64.
static __device__ inline void start_queries(float (&dq)[32], uint64_t ds, uint64_t keys)
{
    open_products();
#pragma unroll
    for (int k = 0; k < KEYS / 16; k++)
        if (k == 0)
            start_product<false, false, false>(dq, ds, keys);
        else
            start_product<true, false, false>(dq, ds + k * DEEP / 16, keys + k * DEEP / 16);
    close_products();
}

#endif
