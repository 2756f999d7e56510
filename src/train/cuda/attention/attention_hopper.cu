// SPDX-License-Identifier: Apache-2.0
// The backward pass of attention on the tensor cores of compute capability 9.0, which multiply
// tiles that lie in shared memory (wgmma). experts_wgmma.cu draws how an operand lies there.
//
// A thread block has one task at a time: 128 keys of a document and kv head. It walks over all
// query heads that share them, and over each one's queries from the document's last block of 64 to
// the diagonal; its sums of dk and dv stay in registers all the way.
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
// A turn has five products. Two groups of four warps have 64 of the keys each, and 64 columns of
// dq:
//
//     s  = k qᵀ       (64 keys × 64 queries)         operands in shared memory
//     dp = v doutᵀ    (64 keys × 64 queries)
//     p  = exp(s · scale − lse)                      in registers, as left operand of
//     dv += p dout    (64 keys × 128)
//     ds = p ∘ (dp − delta)                          in registers, as left operand of
//     dk += ds q      (64 keys × 128)
//     dq  = dsᵀ k     (64 queries × 64 of 128)       all 128 keys: ds of both groups, in shared
//     memory
//
// Products run on while warps compute. The group of a turn t, with what its products are given to
// do:
//
//     tensor cores   s(t) ┊ dp(t) ─────┊ dv(t) ──────────┊ dk(t) ─── dq(t) ─── s(t + 1) ┊ dp(t + 1)
//     warps               ┊ p(t)       ┊ ds(t), stored   ┊ wait      dq(t), added       ┊ p(t + 1)
//
// The third group of warps has a loader, which asks the copy engine for tiles of q and dout two
// turns ahead, and two threads that keep the order of the sums of dq, which are fp32 in global
// memory and to which both groups add from their registers:
//
//     loader ──q, dout, lse, delta──▶ two places each ──▶ both groups ──dq──▶ sums in global memory
//                                                          ▲      │
//         counter of the query block ──▶ watcher ── may add┘      └ has added ──▶ counting thread
//
// Order. The tile of dq of a query block is first that of key block 0, to which that of key block 1
// is added, and so on: a counter of each query block and head says how many are there, and the
// watcher waits for it. Tasks are numbered, and a thread block takes the next number when it has
// time. A key block has a greater number than the one before it in its document, so a watcher only
// waits for tasks that somebody has begun already, and the one with the least number waits for
// nobody. The last key block that a query block sees is the one of its diagonal, which adds the
// sums to what it has and stores dq in bf16. What a watcher waits for is also likely done: all walk
// the same way, and the one before began earlier.
//
// Ends. Query blocks are filled up with rows whose lse is ∞: their p is 0. Keys behind the end are
// after all queries, and the mask of the diagonal covers them. Rows of the next document that a
// tile has there are multiplied with zeros.

#include "train/cuda/attention/attention_hopper.cuh"

#include <assert.h>
#include <cudaTypedefs.h>

#define LOG2E 1.4426950408889634f

enum { THREADS = 3 * GROUP, OWN = KEYS / 2, COLUMNS = D / 2 }; // of a group: keys, columns of dq
enum { LOADER_REGISTERS = 40, GROUP_REGISTERS = 232 };         // of a thread
enum { NUMBERS = 2 * QUERIES, SUMS = QUERIES * D };            // lse and delta; dq, as many floats

// Shared memory, in bytes. Places alternate from turn to turn.
enum {
    K = 0,
    V = K + 2 * KEY_PANEL,
    Q = V + 2 * KEY_PANEL,
    Q_PLACE = 2 * QUERY_PANEL,
    DOUT = Q + 2 * Q_PLACE,
    DS = DOUT + 2 * Q_PLACE,
    DS_PLACE = KEY_PANEL,
    LSE = DS + 2 * DS_PLACE,
    LSE_PLACE = NUMBERS * 4,
    BARRIERS = LSE + 2 * LSE_PLACE,
    Q_FULL = BARRIERS,
    Q_EMPTY = Q_FULL + 16,
    DOUT_FULL = Q_EMPTY + 16,
    DOUT_EMPTY = DOUT_FULL + 16,
    BEFORE = DOUT_EMPTY + 16, // what comes before a turn's dq is in the sums
    ADDED = BEFORE + 16,      // the turn's own is, too
    COUNTED = ADDED + 16,
    K_FULL = COUNTED + 16,
    K_EMPTY = K_FULL + 8,
    TASK = K_EMPTY + 8,
    LATE = TASK + 20, // not 0: somebody waited for what never came
    BYTES = TASK + 32
};

struct work {
    struct kernel_attention a;
    struct hopper_lists lists;
    int64_t lse_stride;
    float *numbers;    // (H, query blocks, 2, 64): lse · log₂ e, delta
    float *sums;       // (H, query blocks, 64 · 128): dq, in the order of the threads that have it
    int32_t *counters; // (H, query blocks): key blocks that are in sums
    int32_t *next;     // task
    int32_t *late;     // becomes 1 where somebody waited for what never came; on the host
};

struct maps { // of rows of q, k, v and dout
    CUtensorMap q, k, v, dout;
};

// --- before --------------------------------------------------------------------

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
            numbers[0] = there ? w.a.lse[(at.token + row) * w.lse_stride + head] * LOG2E : INFINITY;
            numbers[QUERIES] = there ? sum[i] : 0;
        }
    }
    if (threadIdx.x == 0)
        w.counters[tile] = 0;
    if (threadIdx.x == 0 && blockIdx.x == 0 && head == 0)
        *w.next = 0;
}

#if HAS_WGMMA

extern __shared__ __align__(1024) char shared_memory[];

static __device__ inline uint32_t late_flag()
{
    return shared_address(shared_memory) + LATE;
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
    await(memory + Q_EMPTY + place * 8, phase);
    arrive_with(full, Q_PLACE + LSE_PLACE);
    load_tile(memory + Q + place * Q_PLACE, &m.q, head, row, QUERY_PANEL, full);
    load_numbers(memory + LSE + place * LSE_PLACE,
                 w.numbers + tile_of(w, head, t.first + block) * NUMBERS, LSE_PLACE, full);
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

// --- the order of sums ---------------------------------------------------------

// The tile of the query block may be added to the sums.
static __device__ inline void watch_turn(uint32_t memory, const int32_t *counter, int count,
                                         uint32_t turn)
{
    uint32_t place = turn % 2 * 8;
    await(memory + COUNTED + place, turn / 2 % 2 ^ 1);
    await_count(counter, count);
    arrive(memory + BEFORE + place);
}

// It has been added.
static __device__ inline void count_turn(uint32_t memory, int32_t *counter, int count,
                                         uint32_t turn)
{
    uint32_t place = turn % 2 * 8;
    await(memory + ADDED + place, turn / 2 % 2);
    __threadfence();
    set_count(counter, count + 1);
    arrive(memory + COUNTED + place);
}

// One thread watches, the other counts: each goes through all turns.
static __device__ inline void keep_order(const struct work &w, uint32_t memory, bool watches)
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
            for (int block = query_blocks(t) - 1; block >= first_query(t); block--, turn++) {
                int32_t *counter = w.counters + tile_of(w, head, t.first + block);
                if (watches)
                    watch_turn(memory, counter, t.index, turn);
                else
                    count_turn(memory, counter, t.index, turn);
            }
    }
}

// --- the two groups ------------------------------------------------------------

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

// Adds what a tile of sums has to this part of dq. No other load of this kernel has read the tile,
// and this one goes past the first cache.
static __device__ inline void take_sums(const float *sums, float (&dq)[32])
{
    const float *at = sums + threadIdx.x % GROUP * 4;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float4 x;
        asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
                     : "l"(at + i * GROUP * 4)
                     : "memory");
        dq[4 * i] += x.x, dq[4 * i + 1] += x.y, dq[4 * i + 2] += x.z, dq[4 * i + 3] += x.w;
    }
}

// The part of dq of a key block and the query block `left − 1` from its diagonal on: the key blocks
// of the diagonal are the last that the query block sees, and what they have is stored in bf16.
static __device__ inline void give_queries(const struct work &w, const struct task &t, int head,
                                           int group, int left, float *sums, float (&dq)[32])
{
    if (left > KEYS / QUERIES) {
        add_queries(sums, dq, t.index == 0);
        return;
    }
    if (t.index > 0)
        take_sums(sums, dq);
    int row = (first_query(t) + left - 1) * QUERIES;
    save(w.a.dq, w.a.dq_stride, t.token + row, t.size - row, head * D + group * COLUMNS, dq,
         w.a.scale);
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
    int head = t.head * (w.a.heads / w.a.kv_heads);
    int64_t tile = tile_of(w, head, t.first + first_query(t));
    float *sums = w.sums + tile * SUMS + group * (SUMS / 2); // of the diagonal, of this head
#pragma unroll
    for (int i = 0; i < 64; i++)
        dk[i] = dv[i] = 0;
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
        products_done<0>(), hold(s);
        start_scores(dp, v, dout);
        if (left <= KEYS / QUERIES)
            mask(s, group * OWN - (left - 1) * QUERIES);
        soften(s, p, lse, unit);
        start_gradient(dv, p, dout);
        products_done<1>(), hold(dp);
        slope(ds, s, dp, lse + QUERIES * 4);
        store_slopes(ds_at + group * (OWN * LINE), ds);
        publish();
        start_gradient(dk, ds, q);
        meet();
        start_queries(dq, describe(ds_at), k_columns);

        products_done<1>(); // dv and dk
        warp_arrives(memory + DOUT_EMPTY + place * 8);
        warp_arrives(memory + Q_EMPTY + place * 8);
        if (i + 1 < all)
            await(memory + Q_FULL + (place ^ 1) * 8, (turn + 1) / 2 % 2);
        start_scores(s, k, describe(memory + Q + (place ^ 1) * Q_PLACE));
        products_done<1>(), hold(dq);
        await(memory + BEFORE + place * 8, phase);
        give_queries(w, t, head, group, left, sums + (int64_t)(left - 1) * SUMS, dq);
        warp_arrives(memory + ADDED + place * 8);
        if (left == 1)
            sums += (int64_t)w.lists.query_count * SUMS, head++;
        left = left > 1 ? left - 1 : count;
    }
    products_done<0>(), hold(dk), hold(dv);
    warp_arrives(memory + K_EMPTY);
    int64_t row = t.token + t.index * KEYS + group * OWN;
    int rows = t.size - t.index * KEYS - group * OWN;
    save(w.a.dv, w.a.dv_stride, row, rows, t.head * D, dv, 1);
    save(w.a.dk, w.a.dk_stride, row, rows, t.head * D, dk, w.a.scale);
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
    *(volatile int32_t *)(shared_memory + LATE) = memory % ATOM != 0; // a panel begins at an atom
    const int warps = 2 * GROUP / 32;                                 // of both groups
    struct {
        int at, places, arrivals;
    } const barriers[] = {
        { Q_FULL, 2, 1 },         { Q_EMPTY, 2, warps }, { DOUT_FULL, 2, 1 },
        { DOUT_EMPTY, 2, warps }, { BEFORE, 2, 1 },      { ADDED, 2, warps },
        { COUNTED, 2, 1 },        { K_FULL, 1, 1 },      { K_EMPTY, 1, warps + 2 },
    };
#pragma unroll
    for (int b = 0; b < 9; b++)
#pragma unroll
        for (int i = 0; i < barriers[b].places; i++)
            open_barrier(memory + barriers[b].at + i * 8, barriers[b].arrivals);
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
    if (threadIdx.x == 0)
        open_barriers(memory);
    __syncthreads();
    if (group == 2) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"((int)LOADER_REGISTERS));
        if (threadIdx.x == 2 * GROUP)
            load(w, m, memory);
        else if (threadIdx.x == 2 * GROUP + 32 || threadIdx.x == 2 * GROUP + 64)
            keep_order(w, memory, threadIdx.x == 2 * GROUP + 64);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"((int)GROUP_REGISTERS));
        compute_all(w, memory, group);
        if (threadIdx.x == 0 && *(volatile int32_t *)(shared_memory + LATE))
            *w.late = 1;
    }
#else
    (void)w, (void)m;
#endif
}

// --- launches ------------------------------------------------------------------

enum { ALIGNMENT = 256 };

static char *take(char **next, int64_t bytes)
{
    char *at = *next;
    *next += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return at;
}

// base/attention_workspace.h has the bytes.
static void lay_out(struct work *w, void *workspace)
{
    int64_t tiles = (int64_t)w->lists.query_count * w->a.heads;
    char *next = (char *)workspace;
    w->sums = (float *)take(&next, tiles * SUMS * 4);
    w->numbers = (float *)take(&next, tiles * NUMBERS * 4);
    w->counters = (int32_t *)take(&next, tiles * 4);
    w->next = (int32_t *)take(&next, 4);
    assert(next - (char *)workspace <= attention_own_bytes(w->lists.query_count, w->a.heads));
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

bool hopper_runs(const struct cuda *cuda)
{
    const int built_for[] = { __CUDA_ARCH_LIST__ };
    for (int built : built_for)
        if (built == 900)
            return cuda->capability == 90 && (int)BYTES <= cuda->shared_bytes;
    return false;
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

// The part of `a` of so many kv heads, from one of them on.
static struct kernel_attention heads_of(const struct kernel_attention *a, int first, int count)
{
    struct kernel_attention k = *a;
    int group = a->heads / a->kv_heads;
    int64_t query = (int64_t)first * group * D, shared = (int64_t)first * D;
    k.q = (const bf16 *)a->q + query, k.out = (bf16 *)a->out + query;
    k.dout = (const bf16 *)a->dout + query, k.dq = (bf16 *)a->dq + query;
    k.k = (const bf16 *)a->k + shared, k.v = (const bf16 *)a->v + shared;
    k.dk = (bf16 *)a->dk + shared, k.dv = (bf16 *)a->dv + shared;
    k.lse = a->lse + first * group;
    k.heads = count * group, k.kv_heads = count;
    return k;
}

static cudaError_t launch(cudaStream_t stream, const struct work &w, int processors)
{
    const struct kernel_attention *a = &w.a;
    struct maps m;
    int64_t columns = (int64_t)a->heads * D, shared = (int64_t)a->kv_heads * D;
    int64_t tasks = (int64_t)w.lists.key_count * a->kv_heads;
    dim3 tiles((unsigned)w.lists.query_count, (unsigned)a->heads);
    if (!describe_rows(&m.q, a->q, columns, a->tokens, a->q_stride, QUERIES) ||
        !describe_rows(&m.dout, a->dout, columns, a->tokens, a->dout_stride, QUERIES) ||
        !describe_rows(&m.k, a->k, shared, a->tokens, a->k_stride, KEYS) ||
        !describe_rows(&m.v, a->v, shared, a->tokens, a->v_stride, KEYS))
        return cudaErrorNotSupported;
    unsigned blocks = (unsigned)(tasks < processors ? tasks : processors);
    prepare<<<tiles, 256, 0, stream>>>(w);
    backward<<<blocks, THREADS, BYTES, stream>>>(w, m);
    return cudaGetLastError();
}

cudaError_t hopper_backward(cudaStream_t stream, const struct kernel_attention *a,
                            const struct hopper_lists *lists, int kv_heads, int processors,
                            void *workspace, int32_t *late)
{
    struct work w;
    cudaError_t status =
        cudaFuncSetAttribute(backward, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES);
    w.lists = *lists, w.lse_stride = a->heads, w.late = late;
    for (int head = 0; head < a->kv_heads && status == cudaSuccess; head += kv_heads) {
        int left = a->kv_heads - head;
        w.a = heads_of(a, head, left < kv_heads ? left : kv_heads);
        lay_out(&w, workspace);
        status = launch(stream, w, processors);
    }
    return status;
}
