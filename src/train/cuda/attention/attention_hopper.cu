// SPDX-License-Identifier: Apache-2.0
// The backward pass of attention on the tensor cores of compute capability 9.0, which multiply tiles
// that lie in shared memory (wgmma). experts_wgmma.cu draws how an operand lies there.
//
// A thread block has one task at a time: 128 keys of a document and kv head. It walks over all query
// heads that share them, and over each one's queries from the document's last block of 64 to the
// diagonal; its sums of dk and dv stay in registers all the way.
//
//              keys →                        turns of the thread block that has key block 1, of
//              0    1    2                   two query heads:
//     queries ┌────┬────┬────┐
//     0       │╲   │    │    │                     head  0   0   0   0   1   1   1   1
//     1       │ ╲  │    │    │                  queries  5   4   3   2   5   4   3   2
//     2       │ ·  │╲ 4 │    │
//     3       │ ·  │ ╲3 │    │               4 and 3 are their turns' numbers: the diagonal is last
//     4       │ ·  │  2 │╲   │
//     5       │ ·  │  1 │ ╲  │
//             └────┴────┴────┘
//
// A turn has five products. Two groups of four warps have 64 of the keys each, and 64 columns of dq:
//
//     s  = k qᵀ       (64 keys × 64 queries)         operands in shared memory
//     dp = v doutᵀ    (64 keys × 64 queries)
//     p  = exp(s · scale − lse)                      in registers, as left operand of
//     dv += p dout    (64 keys × 128)
//     ds = p ∘ (dp − delta)                          in registers, as left operand of
//     dk += ds q      (64 keys × 128)
//     dq  = dsᵀ k     (64 queries × 64 of 128)       all 128 keys: ds of both groups, in shared memory
//
// Products run on while warps compute. The group of a turn t, with what its products are given to do:
//
//     tensor cores   s(t) ┊ dp(t) ─────┊ dv(t) ──────────┊ dk(t) ─── dq(t) ─── s(t + 1) ┊ dp(t + 1)
//     warps               ┊ p(t)       ┊ ds(t), stored   ┊ wait      dq(t), stored      ┊ p(t + 1)
//
// The third group of warps has a loader, which asks the copy engine for tiles of q and dout two turns
// ahead, and a writer, which has it add the tiles of dq to fp32 sums in global memory:
//
//     loader ──q, dout, lse, delta──▶ two places each ──▶ both groups ──dq──▶ two places ──▶ writer
//
// Order. The tile of dq of a query block is first that of key block 0, to which that of key block 1
// is added, and so on: a counter of each query block and head says how many are there, and a writer
// waits for it. Tasks are numbered, and a thread block takes the next number when it has time. A
// key block has a greater number than the one before it in its document, so a writer only waits for
// tasks that somebody has begun already, and the one with the least number waits for nobody. What a
// writer waits for is also likely done: all walk the same way, and the one before began earlier.
//
// Ends. Query blocks are filled up with rows whose lse is ∞: their p is 0. Keys behind the end are
// after all queries, and the mask of the diagonal covers them. Rows of the next document that a tile
// has there are multiplied with zeros.

#include "train/cuda/attention/attention_hopper.h"

#include "train/cuda/mma.cuh"

#include <cuda.h>
#include <cudaTypedefs.h>

#define LOG2E 1.4426950408889634f

enum { D = 128, KEYS = HOPPER_KEYS, QUERIES = HOPPER_QUERIES, GROUP = 128, THREADS = 3 * GROUP };
enum { OWN = KEYS / 2, COLUMNS = D / 2 }; // of a group: keys, columns of dq
enum { LINE = 128, ATOM = 8 * LINE };     // bytes of 64 columns; of eight such rows
enum { KEY_PANEL = (int)KEYS * LINE, QUERY_PANEL = (int)QUERIES * LINE, DEEP = 16 * LINE };
enum { NUMBERS = 2 * QUERIES, SUMS = QUERIES * D }; // lse and delta; dq, as many floats

// Shared memory, in bytes. Places alternate from turn to turn.
enum {
    K = 0,
    V = K + 2 * KEY_PANEL,
    Q = V + 2 * KEY_PANEL,
    Q_PLACE = 2 * QUERY_PANEL,
    DOUT = Q + 2 * Q_PLACE,
    DS = DOUT + 2 * Q_PLACE,
    DS_PLACE = KEY_PANEL,
    DQ = DS + 2 * DS_PLACE,
    DQ_PLACE = SUMS * 4,
    LSE = DQ + 2 * DQ_PLACE,
    LSE_PLACE = NUMBERS * 4,
    BARRIERS = LSE + 2 * LSE_PLACE,
    Q_FULL = BARRIERS,
    Q_EMPTY = Q_FULL + 16,
    DOUT_FULL = Q_EMPTY + 16,
    DOUT_EMPTY = DOUT_FULL + 16,
    DQ_FULL = DOUT_EMPTY + 16,
    DQ_EMPTY = DQ_FULL + 16,
    K_FULL = DQ_EMPTY + 16,
    K_EMPTY = K_FULL + 8,
    FREE = K_EMPTY + 8,
    TASK = FREE + 16,
    LATE = TASK + 20,
    TRACE_AT = TASK + 32, // for measuring: cycles of 3 × 16 parts of a turn
    BYTES = TRACE_AT + 192
};

struct work {
    struct kernel_attention a;
    struct hopper_lists lists;
    float *numbers;    // (H, query blocks, 2, 64): lse · log₂ e, delta
    float *sums;       // (H, query blocks, 64 · 128): dq, in the order of the threads that have it
    int32_t *counters; // (H, query blocks): key blocks that are in sums
    int32_t *next;     // task
    int mode;          // for measuring: 8 no order, 16 no dq, 32 no copies of queries
    uint32_t *trace;   // for measuring
    int32_t *late;     // not 0: somebody waited for what never came
};

struct maps { // of rows of q, k, v and dout
    CUtensorMap q, k, v, dout;
};

// Where code for 9.0 is compiled; elsewhere the kernel is empty and never started.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define HAS_WGMMA 1
#else
#define HAS_WGMMA 0
#endif

// --- before and after ----------------------------------------------------------

static __device__ inline int64_t tile_of(const struct work &w, int head, int block)
{
    return (int64_t)head * w.lists.query_count + block;
}

static __device__ inline float dot8(uint4 x, uint4 y)
{
    const __nv_bfloat162 *a = (const __nv_bfloat162 *)&x, *b = (const __nv_bfloat162 *)&y;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 u = __bfloat1622float2(a[i]), v = __bfloat1622float2(b[i]);
        sum += u.x * v.x + u.y * v.y;
    }
    return sum;
}

// lse and delta = Σ dout · out of a query block and head, and its counter.
static __global__ void __launch_bounds__(256) prepare(struct work w)
{
    struct hopper_block at = w.lists.queries[blockIdx.x];
    int head = blockIdx.y, column = head * D + threadIdx.x % 16 * 8;
    int64_t tile = tile_of(w, head, blockIdx.x);
    const bf16 *out = (const bf16 *)w.a.out + column, *dout = (const bf16 *)w.a.dout + column;
    float sum[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int row = threadIdx.x / 16 + i * 16;
        int64_t token = at.token + min(row, at.size - 1);
        sum[i] = dot8(*(const uint4 *)(out + token * w.a.out_stride),
                      *(const uint4 *)(dout + token * w.a.dout_stride));
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int row = threadIdx.x / 16 + i * 16;
        for (int step = 8; step; step /= 2)
            sum[i] += __shfl_xor_sync(~0u, sum[i], step);
        if (threadIdx.x % 16 == 0) {
            float *numbers = w.numbers + tile * NUMBERS + row;
            bool there = row < at.size;
            numbers[0] =
                there ? w.a.lse[(int64_t)(at.token + row) * w.a.heads + head] * LOG2E : INFINITY;
            numbers[QUERIES] = there ? sum[i] : 0;
        }
    }
    if (threadIdx.x == 0)
        w.counters[tile] = 0;
    if (threadIdx.x == 0 && blockIdx.x == 0 && head == 0)
        *w.next = 0, *w.late = 0;
}

static __device__ inline uint32_t pack(float low, float high)
{
    __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *(uint32_t *)&both;
}

// Of four lanes side by side, lane l gives its word i to lane i, which keeps it as word l.
static __device__ inline void exchange(uint32_t (&w)[4])
{
#pragma unroll
    for (int step = 1; step < 4; step *= 2)
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (!(i & step)) {
                bool upper = threadIdx.x & step;
                uint32_t other = __shfl_xor_sync(~0u, upper ? w[i] : w[i + step], step);
                if (upper)
                    w[i] = other;
                else
                    w[i + step] = other;
            }
}

// Stores the rows of a group's sums in bf16: COUNT / 4 times eight columns, of which a lane has two
// neighbours. Four lanes bring together what one can store at once.
template <int COUNT>
static __device__ inline void save(void *out, int64_t stride, int64_t first, int rows, int column,
                                   const float (&sum)[COUNT], float factor)
{
    int lane = threadIdx.x % 32, row = threadIdx.x % GROUP / 32 * 16 + lane / 4;
    bf16 *at = (bf16 *)out + (first + row) * stride + column + lane % 4 * 8;
#pragma unroll
    for (int j = 0; j < COUNT / 4; j += 4)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint32_t words[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float *x = sum + (j + i) * 4 + half * 2;
                words[i] = pack(factor * x[0], factor * x[1]);
            }
            exchange(words);
            if (row + half * 8 < rows)
                *(uint4 *)(at + half * 8 * stride + j * 8) =
                    make_uint4(words[0], words[1], words[2], words[3]);
        }
}

// dq in bf16 from its sums.
static __global__ void __launch_bounds__(2 * GROUP) finish(struct work w)
{
    struct hopper_block at = w.lists.queries[blockIdx.x];
    int head = blockIdx.y, group = threadIdx.x / GROUP;
    const float4 *from = (const float4 *)(w.sums + tile_of(w, head, blockIdx.x) * SUMS) +
                         group * (SUMS / 8) + threadIdx.x % GROUP;
    float sum[OWN * COLUMNS / GROUP];
#pragma unroll
    for (int i = 0; i < OWN * COLUMNS / GROUP / 4; i++) {
        float4 x = from[i * GROUP];
        sum[4 * i] = x.x, sum[4 * i + 1] = x.y, sum[4 * i + 2] = x.z, sum[4 * i + 3] = x.w;
    }
    save(w.a.dq, w.a.dq_stride, at.token, at.size, head * D + group * COLUMNS, sum, w.a.scale);
}

#if HAS_WGMMA

// --- barriers and copies -------------------------------------------------------

#ifndef REGS_LOAD
#define REGS_LOAD 40
#define REGS_COMPUTE 232
#endif
#define PATIENCE 6000000000ull // cycles, three seconds; what takes longer never comes

extern __shared__ __align__(1024) char shared_memory[];

#ifndef TRACE
#define TRACE 0
#endif
#if TRACE
// Adds the cycles since the mark before to a sum.
static __device__ inline void mark(int who, int part, uint32_t &since)
{
    uint32_t now;
    asm volatile("mov.u32 %0, %clock;" : "=r"(now)::"memory");
    if (threadIdx.x % GROUP == 0 || threadIdx.x == 2 * GROUP + 32)
        atomicAdd((uint32_t *)(shared_memory + TRACE_AT) + who * 16 + part, now - since);
    since = now;
}
#define MARK(who, part) mark(who, part, since)
#else
#define MARK(who, part) (void)0
#endif

static __device__ inline uint64_t cycles()
{
    uint64_t t;
    asm volatile("mov.u64 %0, %clock64;" : "=l"(t));
    return t;
}

static __device__ inline bool is_late(uint64_t began)
{
    volatile int32_t *late = (volatile int32_t *)(shared_memory + LATE);
    if (cycles() - began > PATIENCE)
        *late = 1;
    return *late;
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

static __device__ inline void load_numbers(uint32_t to, const float *from, uint32_t barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "n"((int)LSE_PLACE), "r"(barrier)
                 : "memory");
}

// --- tasks ---------------------------------------------------------------------

struct task {
    int token, size, index, first, head; // a key block of a document, and its kv head
};

static __device__ inline int query_blocks(const struct task &t)
{
    return (t.size + QUERIES - 1) / QUERIES;
}

static __device__ inline int first_query(const struct task &t)
{
    return t.index * (KEYS / QUERIES);
}

static __device__ inline void write_task(uint32_t memory, const struct task &t)
{
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(memory + TASK), "r"(t.token),
                 "r"(t.size), "r"(t.index), "r"(t.first)
                 : "memory");
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(memory + TASK + 16), "r"(t.head) : "memory");
}

static __device__ inline struct task read_task(uint32_t memory)
{
    struct task t;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(t.token), "=r"(t.size), "=r"(t.index), "=r"(t.first)
                 : "r"(memory + TASK)
                 : "memory");
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(t.head) : "r"(memory + TASK + 16) : "memory");
    return t;
}

// A task without tokens: there are no more.
static __device__ inline struct task take_task(const struct work &w)
{
    int number = atomicAdd(w.next, 1), block = number / w.a.kv_heads;
    if (block >= w.lists.key_count)
        return task{ 0, 0, 0, 0, 0 };
    struct hopper_block at = w.lists.keys[block];
    return task{ at.token, at.size, at.index, at.first, number % w.a.kv_heads };
}

// --- the loader ----------------------------------------------------------------

static __device__ inline void load_keys(const struct maps &m, uint32_t memory, const struct task &t)
{
    int row = t.token + t.index * KEYS;
    arrive_with(memory + K_FULL, 4 * KEY_PANEL);
    load_tile(memory + K, &m.k, t.head, row, KEY_PANEL, memory + K_FULL);
    load_tile(memory + V, &m.v, t.head, row, KEY_PANEL, memory + K_FULL);
}

// turn: of this thread block, over all tasks
static __device__ inline void load_queries(const struct work &w, const struct maps &m,
                                           uint32_t memory, const struct task &t, uint32_t turn,
                                           int head, int block)
{
    uint32_t place = turn % 2, phase = turn / 2 % 2 ^ 1;
    uint32_t full = memory + Q_FULL + place * 8, dout_full = memory + DOUT_FULL + place * 8;
    int row = t.token + block * QUERIES;
    if (w.mode & 32) {
        await(memory + Q_EMPTY + place * 8, phase);
        arrive(full);
        await(memory + DOUT_EMPTY + place * 8, phase);
        arrive(dout_full);
        return;
    }
    await(memory + Q_EMPTY + place * 8, phase);
    arrive_with(full, Q_PLACE + LSE_PLACE);
    load_tile(memory + Q + place * Q_PLACE, &m.q, head, row, QUERY_PANEL, full);
    load_numbers(memory + LSE + place * LSE_PLACE,
                 w.numbers + tile_of(w, head, t.first + block) * NUMBERS, full);
    await(memory + DOUT_EMPTY + place * 8, phase);
    arrive_with(dout_full, Q_PLACE);
    load_tile(memory + DOUT + place * Q_PLACE, &m.dout, head, row, QUERY_PANEL, dout_full);
}

static __device__ inline void load(const struct work &w, const struct maps &m, uint32_t memory)
{
    int shared = w.a.heads / w.a.kv_heads;
    uint32_t turn = 0, phase = 1;
    for (;; phase ^= 1) {
        struct task t = take_task(w);
        int block = query_blocks(t) - 1, head = t.head * shared, end = head + shared;
        if (t.size > 0) // while the keys of the task before are still in use
            load_queries(w, m, memory, t, turn++, head, block);
        await(memory + K_EMPTY, phase);
        write_task(memory, t);
        if (t.size == 0)
            break;
        load_keys(m, memory, t);
        for (; head < end; head++, block = query_blocks(t))
            while (--block >= first_query(t))
                load_queries(w, m, memory, t, turn++, head, block);
    }
    arrive(memory + K_FULL);
}

// --- the writer ----------------------------------------------------------------

#ifndef RED
#define RED 0 // for measuring: groups add dq to the sums themselves
#endif
#ifndef EARLY
#define EARLY 0 // for measuring: the next scores do not wait for dk
#endif
#ifndef HALF
#define HALF 0 // for measuring: ds from p in bf16
#endif

static __device__ inline int counted(const int32_t *counter)
{
    int n;
    asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(n) : "l"(counter) : "memory");
    return n;
}

static __device__ inline void await_count(const int32_t *counter, int count)
{
    if (counted(counter) >= count)
        return;
    uint64_t began = cycles();
    while (counted(counter) < count && !is_late(began))
        ;
}

// Adds a tile to the sums of its query block, or begins them with it.
static __device__ inline void add_tile(float *sums, uint32_t tile, bool begin)
{
    if (begin)
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(sums),
                     "r"(tile), "n"((int)DQ_PLACE)
                     : "memory");
    else
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 "
                     "[%0], [%1], %2;" ::"l"(sums),
                     "r"(tile), "n"((int)DQ_PLACE)
                     : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

static __device__ inline void write_tile(const struct work &w, uint32_t memory,
                                         const struct task &t, uint32_t turn, int head, int block)
{
    uint32_t place = turn % 2;
    int64_t tile = tile_of(w, head, t.first + block);
#if RED
    if (threadIdx.x % 64 == 0) { // warp 2: what came before is there
        await(memory + FREE + place * 8, turn / 2 % 2 ^ 1);
        if (!(w.mode & 8))
            await_count(w.counters + tile, t.index);
        arrive(memory + DQ_EMPTY + place * 8);
    } else { // warp 1: it has been added
        await(memory + DQ_FULL + place * 8, turn / 2 % 2);
        __threadfence();
        asm volatile("st.release.gpu.global.b32 [%0], %1;" ::"l"(w.counters + tile),
                     "r"(t.index + 1)
                     : "memory");
        arrive(memory + FREE + place * 8);
    }
    return;
#endif
#if TRACE
    uint32_t since;
    asm volatile("mov.u32 %0, %clock;" : "=r"(since)::"memory");
#endif
    await(memory + DQ_FULL + place * 8, turn / 2 % 2);
    MARK(2, 0);
    if (w.mode & 16) {
        arrive(memory + DQ_EMPTY + place * 8);
        return;
    }
    if (!(w.mode & 8))
        await_count(w.counters + tile, t.index);
    MARK(2, 1);
    asm volatile("fence.proxy.async;" ::: "memory"); // what others added, and what is added now
    add_tile(w.sums + tile * SUMS, memory + DQ + place * DQ_PLACE, t.index == 0);
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    arrive(memory + DQ_EMPTY + place * 8);
    MARK(2, 2);
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    MARK(2, 3);
    asm volatile("fence.proxy.async;" ::: "memory");
    __threadfence();
    asm volatile("st.release.gpu.global.b32 [%0], %1;" ::"l"(w.counters + tile), "r"(t.index + 1)
                 : "memory");
    MARK(2, 4);
}

static __device__ inline void write(const struct work &w, uint32_t memory)
{
    int shared = w.a.heads / w.a.kv_heads;
    uint32_t turn = 0, phase = 0;
    for (;; phase ^= 1) {
        await(memory + K_FULL, phase);
        struct task t = read_task(memory);
        arrive(memory + K_EMPTY);
        if (t.size == 0)
            break;
        for (int head = t.head * shared; head < (t.head + 1) * shared; head++)
            for (int block = query_blocks(t) - 1; block >= first_query(t); block--)
                write_tile(w, memory, t, turn++, head, block);
    }
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

#define PRODUCT_64(mode, add)                                                                     \
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"                          \
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "          \
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, " \
                 "%32, %33, " add ", 1, 1, %34, %35;"                                              \
                 : SIXTEEN(mode, x, 0), SIXTEEN(mode, x, 16)                                       \
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

// --- the two groups ------------------------------------------------------------

static __device__ inline float power2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

static __device__ inline float2 two_at(uint32_t at)
{
    float2 x;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(at));
    return x;
}

// A score of key r and query c of the tile becomes −∞ where the query is before the key. behind:
// from the tile's first query to the group's first key.
static __device__ inline void mask(float (&s)[32], int behind)
{
    int lane = threadIdx.x % 32, row = threadIdx.x % GROUP / 32 * 16 + lane / 4 + behind;
#pragma unroll
    for (int i = 0; i < 32; i++)
        if (i / 4 * 8 + lane % 4 * 2 + i % 2 < row + i / 2 % 2 * 8)
            s[i] = -INFINITY;
}

// Scores become probabilities.
static __device__ inline void soften(float (&s)[32], uint32_t (&p)[16], uint32_t lse, float unit)
{
#pragma unroll
    for (int j = 0; j < 8; j++) {
        float2 less = two_at(lse + j * 32 + threadIdx.x % 4 * 8);
#pragma unroll
        for (int i = 4 * j; i < 4 * j + 4; i++)
            s[i] = power2(fmaf(s[i], unit, i % 2 ? -less.y : -less.x));
        p[2 * j] = pack(s[4 * j], s[4 * j + 1]);
        p[2 * j + 1] = pack(s[4 * j + 2], s[4 * j + 3]);
    }
}

// p and dp become the gradients of the scores.
static __device__ inline void slope(uint32_t (&ds)[16], const float (&p)[32], const float (&dp)[32],
                                    uint32_t delta)
{
#pragma unroll
    for (int j = 0; j < 8; j++) {
        float2 less = two_at(delta + j * 32 + threadIdx.x % 4 * 8);
        const float *x = p + 4 * j, *y = dp + 4 * j;
        ds[2 * j] = pack(x[0] * (y[0] - less.x), x[1] * (y[1] - less.y));
        ds[2 * j + 1] = pack(x[2] * (y[2] - less.x), x[3] * (y[3] - less.y));
    }
}

// Stores ds of this warp's 16 keys, in rows of 64 queries.
static __device__ inline void store_slopes(uint32_t to, const uint32_t (&ds)[16])
{
    int lane = threadIdx.x % 32, row = threadIdx.x % GROUP / 32 * 16 + lane % 16;
#pragma unroll
    for (int k = 0; k < 4; k++)
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                         to + row * LINE + (((2 * k + lane / 16) ^ (lane % 8)) << 4)),
                     "r"(ds[4 * k]), "r"(ds[4 * k + 1]), "r"(ds[4 * k + 2]), "r"(ds[4 * k + 3])
                     : "memory");
}

static __device__ inline void store_queries(uint32_t to, const float (&dq)[32])
{
#pragma unroll
    for (int i = 0; i < 8; i++)
        asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(
                         to + i * (GROUP * 16) + threadIdx.x % GROUP * 16),
                     "f"(dq[4 * i]), "f"(dq[4 * i + 1]), "f"(dq[4 * i + 2]), "f"(dq[4 * i + 3])
                     : "memory");
}

// Adds to, or begins, a tile of sums: as many floats of a thread as its part of dq.
static __device__ inline void add_queries(float *sums, const float (&dq)[32], bool begin)
{
    float *at = sums + threadIdx.x % GROUP * 4;
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (begin)
            asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(at + i * GROUP * 4),
                         "f"(dq[4 * i]), "f"(dq[4 * i + 1]), "f"(dq[4 * i + 2]), "f"(dq[4 * i + 3])
                         : "memory");
        else
            asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(
                             at + i * GROUP * 4),
                         "f"(dq[4 * i]), "f"(dq[4 * i + 1]), "f"(dq[4 * i + 2]), "f"(dq[4 * i + 3])
                         : "memory");
}

static __device__ inline void meet() // both groups
{
    asm volatile("bar.sync 1, %0;" ::"n"(2 * (int)GROUP) : "memory");
}

// All turns of a task. Returns the next turn's number.
static __device__ inline uint32_t compute(const struct work &w, uint32_t memory,
                                          const struct task &t, int group, uint32_t turn)
{
    int count = query_blocks(t) - first_query(t), left = count; // left: of this head, with this one
    int all = count * (w.a.heads / w.a.kv_heads);
    float unit = w.a.scale * LOG2E, dk[64], dv[64], s[32];
    uint64_t k = describe(memory + K + group * (OWN * LINE));
    uint64_t v = describe(memory + V + group * (OWN * LINE));
    uint64_t k_columns = describe(memory + K + group * KEY_PANEL);
#if RED
    float *sums = w.sums + tile_of(w, t.head * (w.a.heads / w.a.kv_heads), t.first + first_query(t)) * SUMS +
                  group * (SUMS / 2);
#endif
#pragma unroll
    for (int i = 0; i < 64; i++)
        dk[i] = dv[i] = 0;
#if TRACE
    uint32_t since;
    asm volatile("mov.u32 %0, %clock;" : "=r"(since)::"memory");
#endif
    await(memory + Q_FULL + turn % 2 * 8, turn / 2 % 2);
    start_scores(s, k, describe(memory + Q + turn % 2 * Q_PLACE));
#pragma unroll 1
    for (int i = 0; i < all; i++, turn++) {
        uint32_t place = turn % 2, phase = turn / 2 % 2, lse = memory + LSE + place * LSE_PLACE;
        uint64_t q = describe(memory + Q + place * Q_PLACE);
        uint64_t dout = describe(memory + DOUT + place * Q_PLACE);
        uint32_t ds_at = memory + DS + place * DS_PLACE;
        uint32_t p[16], ds[16];
        float dp[32], dq[32];

        await(memory + DOUT_FULL + place * 8, phase);
        MARK(group, 0);
        products_done<0>(), hold(s);
        MARK(group, 1);
        start_scores(dp, v, dout);
        if (left <= KEYS / QUERIES)
            mask(s, group * OWN - (left - 1) * QUERIES);
        soften(s, p, lse, unit);
        start_gradient(dv, p, dout);
        MARK(group, 2);
        products_done<1>(), hold(dp);
        MARK(group, 3);
#if HALF
        float again[32];
#pragma unroll
        for (int j = 0; j < 16; j++)
            again[2 * j] = __uint_as_float(p[j] << 16),
            again[2 * j + 1] = __uint_as_float(p[j] & 0xffff0000u);
        slope(ds, again, dp, lse + QUERIES * 4);
#else
        slope(ds, s, dp, lse + QUERIES * 4);
#endif
        store_slopes(ds_at + group * (OWN * LINE), ds);
        publish();
        start_gradient(dk, ds, q);
        MARK(group, 4);
        meet();
        MARK(group, 5);
        start_queries(dq, describe(ds_at), k_columns);

        products_done<EARLY ? 2 : 1>(); // dv and dk
        MARK(group, 6);
        warp_arrives(memory + DOUT_EMPTY + place * 8);
        if (!EARLY)
            warp_arrives(memory + Q_EMPTY + place * 8);
        if (i + 1 < all)
            await(memory + Q_FULL + (place ^ 1) * 8, (turn + 1) / 2 % 2);
        MARK(group, 7);
        start_scores(s, k, describe(memory + Q + (place ^ 1) * Q_PLACE));
        products_done<1>(), hold(dq);
        MARK(group, 8);
        if (EARLY)
            warp_arrives(memory + Q_EMPTY + place * 8);
#if RED
        await(memory + DQ_EMPTY + place * 8, phase);
        if (!(w.mode & 16))
            add_queries(sums + (int64_t)(left - 1) * SUMS, dq, t.index == 0);
        if (left == 1)
            sums += (int64_t)w.lists.query_count * SUMS;
#else
        await(memory + DQ_EMPTY + place * 8, phase ^ 1);
        MARK(group, 9);
        store_queries(memory + DQ + place * DQ_PLACE + group * (DQ_PLACE / 2), dq);
        publish();
#endif
        warp_arrives(memory + DQ_FULL + place * 8);
        MARK(group, 10);
        left = left > 1 ? left - 1 : count;
    }
    products_done<0>(), hold(dk), hold(dv);
    warp_arrives(memory + K_EMPTY);
    int64_t row = t.token + t.index * KEYS + group * OWN;
    int rows = t.size - t.index * KEYS - group * OWN;
    save(w.a.dv, w.a.dv_stride, row, rows, t.head * D, dv, 1);
    save(w.a.dk, w.a.dk_stride, row, rows, t.head * D, dk, w.a.scale);
    MARK(group, 11);
#if TRACE
    if (threadIdx.x == 0)
        atomicAdd((uint32_t *)(shared_memory + TRACE_AT) + 15, all);
#endif
    return turn;
}

static __device__ inline void compute_all(const struct work &w, uint32_t memory, int group)
{
    uint32_t turn = 0, phase = 0;
#pragma unroll 1
    for (;; phase ^= 1) {
        await(memory + K_FULL, phase);
        struct task t = read_task(memory);
        if (t.size == 0)
            break;
        t.token = __shfl_sync(~0u, t.token, 0), t.size = __shfl_sync(~0u, t.size, 0);
        t.index = __shfl_sync(~0u, t.index, 0), t.first = __shfl_sync(~0u, t.first, 0);
        t.head = __shfl_sync(~0u, t.head, 0);
        turn = compute(w, memory, t, group, turn);
    }
}

static __device__ inline void open_barriers(uint32_t memory)
{
    const int warps = 2 * GROUP / 32; // of both groups
    struct {
        int at, places, arrivals;
    } const barriers[] = { { FREE, 2, 1 }, { Q_FULL, 2, 1 },     { Q_EMPTY, 2, warps },    { DOUT_FULL, 2, 1 },
                           { DOUT_EMPTY, 2, warps }, { DQ_FULL, 2, warps }, { DQ_EMPTY, 2, 1 },
                           { K_FULL, 1, 1 },     { K_EMPTY, 1, warps + 1 + RED } };
#pragma unroll
    for (int b = 0; b < 9; b++)
#pragma unroll
        for (int i = 0; i < barriers[b].places; i++)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(memory + barriers[b].at +
                                                                         i * 8),
                         "r"(barriers[b].arrivals)
                         : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    publish();
}

#endif

static __global__ void __launch_bounds__(THREADS, 1)
    backward(const __grid_constant__ struct work w, const __grid_constant__ struct maps m)
{
#if HAS_WGMMA
    uint32_t memory = shared_address(shared_memory);
    int group = __shfl_sync(~0u, (int)threadIdx.x / GROUP, 0);
    if (threadIdx.x == 0) {
        open_barriers(memory);
        *(volatile int32_t *)(shared_memory + LATE) = memory % ATOM != 0;
        for (int i = 0; i < 48; i++)
            ((uint32_t *)(shared_memory + TRACE_AT))[i] = 0;
    }
    __syncthreads();
    if (group == 2) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGS_LOAD));
//");
        if (threadIdx.x == 2 * GROUP)
            load(w, m, memory);
        else if (threadIdx.x == 2 * GROUP + 32 || (RED && threadIdx.x == 2 * GROUP + 64))
            write(w, memory);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGS_COMPUTE));
//");
        compute_all(w, memory, group);
        if (threadIdx.x == 0 && *(volatile int32_t *)(shared_memory + LATE))
            *w.late = 1;
        if (TRACE && threadIdx.x < 48 && blockIdx.x == 40)
            w.trace[threadIdx.x] = ((volatile uint32_t *)(shared_memory + TRACE_AT))[threadIdx.x];
    }
#else
    (void)w, (void)m;
#endif
}

// --- lists ---------------------------------------------------------------------

static int64_t blocks_of(int64_t tokens, int64_t rows)
{
    return (tokens + rows - 1) / rows;
}

int64_t hopper_most(int64_t tokens, int64_t documents)
{
    return tokens / QUERIES + documents;
}

// Documents in sets, of each of which the blocks that see the most queries come first.
void hopper_list(struct hopper_lists *lists, const struct span *spans, int64_t documents,
                 int64_t kv_heads, int64_t processors, int64_t together)
{
    int32_t first = 0, set_first = 0;
    lists->key_count = lists->query_count = 0;
    for (int64_t begin = 0, end; begin < documents; begin = end) {
        int64_t tasks = 0, longest = 0;
        for (end = begin; end < documents && ((end - begin) * kv_heads < together || tasks < processors);
             end++) {
            int64_t blocks = blocks_of(spans[end].size, KEYS);
            tasks += blocks * kv_heads, longest = blocks > longest ? blocks : longest;
            for (int32_t i = 0; i < blocks_of(spans[end].size, QUERIES); i++) {
                int32_t left = spans[end].size - i * QUERIES;
                struct hopper_block block = { spans[end].start + i * QUERIES,
                                              left < QUERIES ? left : QUERIES, i, first };
                lists->queries[lists->query_count++] = block;
            }
            first = lists->query_count;
        }
        for (int64_t left = longest; left > 0; left--) {
            first = set_first;
            for (int64_t i = begin; i < end; i++) {
                int64_t blocks = blocks_of(spans[i].size, KEYS);
                struct hopper_block block = { spans[i].start, spans[i].size,
                                              (int32_t)(blocks - left), first };
                if (left <= blocks)
                    lists->keys[lists->key_count++] = block;
                first += (int32_t)blocks_of(spans[i].size, QUERIES);
            }
        }
        set_first = first = lists->query_count;
    }
}

// --- launches ------------------------------------------------------------------

enum { ALIGNMENT = 256 };

static char *take(char **next, int64_t bytes)
{
    char *at = *next;
    *next += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return at;
}

static int64_t lay_out(struct work *w, int64_t tiles, void *workspace)
{
    char *next = (char *)workspace;
    w->sums = (float *)take(&next, tiles * SUMS * 4);
    w->numbers = (float *)take(&next, tiles * NUMBERS * 4);
    w->counters = (int32_t *)take(&next, tiles * 4);
    w->next = (int32_t *)take(&next, 4);
    w->late = (int32_t *)take(&next, 4);
    w->trace = (uint32_t *)take(&next, 192);
    return next - (char *)workspace;
}

int64_t hopper_bytes(int64_t query_blocks, int64_t heads)
{
    struct work w;
    return lay_out(&w, query_blocks * heads, NULL);
}

int hopper_parts = 7;

bool hopper_was_late(const struct hopper_lists *lists, int64_t heads, void *workspace)
{
    struct work w;
    int32_t late = 0;
    lay_out(&w, lists->query_count * heads, workspace);
    return cudaMemcpy(&late, w.late, 4, cudaMemcpyDeviceToHost) != cudaSuccess || late;
}

void hopper_trace(const struct hopper_lists *lists, int64_t heads, void *workspace, uint32_t out[48])
{
    struct work w;
    lay_out(&w, lists->query_count * heads, workspace);
    cudaMemcpy(out, w.trace, 192, cudaMemcpyDeviceToHost);
}

// The driver's function, which is not linked. NULL: it has none.
static PFN_cuTensorMapEncodeTiled_v12000 encoder()
{
    static void *found;
    cudaDriverEntryPointQueryResult result;
    if (!found && (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
                                                    cudaEnableDefault, &result) != cudaSuccess ||
                   result != cudaDriverEntryPointSuccess))
        found = NULL;
    return (PFN_cuTensorMapEncodeTiled_v12000)found;
}

// Tiles of so many rows and 64 columns; rows behind the last one are zeros.
static bool describe_rows(CUtensorMap *map, const void *at, int64_t columns, int64_t rows,
                          int64_t stride, int tile)
{
    cuuint64_t sizes[] = { (cuuint64_t)columns, (cuuint64_t)rows };
    cuuint64_t strides[] = { (cuuint64_t)stride * 2 };
    cuuint32_t box[] = { LINE / 2, (cuuint32_t)tile }, steps[] = { 1, 1 };
    PFN_cuTensorMapEncodeTiled_v12000 encode = encoder();
    return encode && encode(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, (void *)at, sizes, strides,
                            box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                            CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

bool hopper_supports(const struct kernel_attention *a)
{
    int64_t strides = a->q_stride | a->k_stride | a->v_stride | a->out_stride | a->dout_stride |
                      a->dq_stride | a->dk_stride | a->dv_stride;
    uintptr_t at = (uintptr_t)a->q | (uintptr_t)a->k | (uintptr_t)a->v | (uintptr_t)a->out |
                   (uintptr_t)a->dout | (uintptr_t)a->dq | (uintptr_t)a->dk | (uintptr_t)a->dv;
    return a->dtype == DTYPE_BF16 && a->head_size == D && a->cap == 0 && strides % 8 == 0 &&
           at % 16 == 0;
}

cudaError_t hopper_backward(cudaStream_t stream, const struct kernel_attention *a,
                            const struct hopper_lists *lists, int processors, void *workspace)
{
    struct work w = { *a, *lists };
    struct maps m;
    w.mode = hopper_parts;
    dim3 tiles((unsigned)lists->query_count, (unsigned)a->heads);
    int64_t tasks = (int64_t)lists->key_count * a->kv_heads;
    int64_t columns = a->heads * D, shared = a->kv_heads * D;
    lay_out(&w, (int64_t)lists->query_count * a->heads, workspace);
    if (!describe_rows(&m.q, a->q, columns, a->tokens, a->q_stride, QUERIES) ||
        !describe_rows(&m.dout, a->dout, columns, a->tokens, a->dout_stride, QUERIES) ||
        !describe_rows(&m.k, a->k, shared, a->tokens, a->k_stride, KEYS) ||
        !describe_rows(&m.v, a->v, shared, a->tokens, a->v_stride, KEYS))
        return cudaErrorNotSupported;
    cudaError_t status =
        cudaFuncSetAttribute(backward, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES);
    if (status != cudaSuccess)
        return status;
    if (hopper_parts & 1)
        prepare<<<tiles, 256, 0, stream>>>(w);
    if (hopper_parts & 2)
        backward<<<(unsigned)(tasks < processors ? tasks : processors), THREADS, BYTES, stream>>>(
            w, m);
    if (hopper_parts & 4)
        finish<<<tiles, 2 * GROUP, 0, stream>>>(w);
    return cudaGetLastError();
}
