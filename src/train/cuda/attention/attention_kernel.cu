// SPDX-License-Identifier: Apache-2.0
// Attention on tensor cores, in tiles of 64 keys: the scores of a tile stay in registers, with an
// online softmax. See attention_kernel.h for the mask.
//
// A warp has M times 16 rows. Products are mma.m16n8k16: of rows in shared memory with rows in
// shared memory (scores), and of a score tile in registers with rows in shared memory (everything
// else). The registers of a product's result are the left operand of the next product.

#include "train/cuda/attention/attention_kernel.h"

#include "train/cuda/mma.cuh"

#define LOG2E 1.4426950408889634f

enum { TILE = 64, PAD = 8 /* rows are shifted by 16 bytes to avoid bank conflicts */ };

// --- tiles ---------------------------------------------------------------------

// Copies rows first … of one head to shared memory, zeros after the last token and column.
template <int D, int ROWS>
static __device__ void fetch(bf16 *tile, const void *in, int64_t stride, int first, int tokens,
                             int head, int size)
{
    const bf16 *at = (const bf16 *)in + (int64_t)head * size;
    for (int i = threadIdx.x; i < ROWS * (D / 8); i += blockDim.x) {
        int r = i / (D / 8), c = i % (D / 8) * 8;
        bool there = first + r < tokens && c < size;
        const bf16 *from = there ? at + (int64_t)(first + r) * stride + c : at;
        copy16(tile + r * (D + PAD) + c, from, there ? 16 : 0);
    }
}

// A tile of keys and values, as one group.
template <int D>
static __device__ void fetch_both(bf16 *k, bf16 *v, const struct kernel_attention *a, int first,
                                  int head)
{
    fetch<D, TILE>(k, a->k, a->k_stride, first, a->tokens, head, a->head_size);
    fetch<D, TILE>(v, a->v, a->v_stride, first, a->tokens, head, a->head_size);
    commit();
}

static __device__ float power2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

static __device__ uint32_t pack(float low, float high)
{
    __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *(uint32_t *)&both;
}

typedef float score_tile[TILE / 8][4]; // scores of 16 rows and TILE columns, of one warp

// s = a × bᵀ: M times 16 rows of a with the TILE rows of b, which are loaded once.
template <int D, int M> static __device__ void scores(score_tile s[M], const bf16 *a, const bf16 *b)
{
    int lane = threadIdx.x % 32, r = lane % 8, m = lane / 8;
#pragma unroll
    for (int t = 0; t < M; t++)
        for (int j = 0; j < TILE / 8; j++)
            for (int i = 0; i < 4; i++)
                s[t][j][i] = 0;
#pragma unroll
    for (int k = 0; k < D; k += 16) {
        uint32_t left[M][4], right[4];
#pragma unroll
        for (int t = 0; t < M; t++)
            load4(left[t], a + (t * 16 + m % 2 * 8 + r) * (D + PAD) + k + m / 2 * 8);
#pragma unroll
        for (int j = 0; j < TILE; j += 16) {
            load4(right, b + (j + m / 2 * 8 + r) * (D + PAD) + k + m % 2 * 8);
#pragma unroll
            for (int t = 0; t < M; t++) {
                mma(s[t][j / 8], left[t], right);
                mma(s[t][j / 8 + 1], left[t], right + 2);
            }
        }
    }
}

// Where scores are capped, products become scores at once, and later only need the unit below.
static __device__ void cap_scores(score_tile s, const struct kernel_attention &a)
{
    if (a.cap == 0)
        return;
    float inner = a.scale / a.cap;
#pragma unroll
    for (int j = 0; j < TILE / 8; j++)
        for (int i = 0; i < 4; i++) {
            float t;
            asm("tanh.approx.f32 %0, %1;" : "=f"(t) : "f"(s[j][i] * inner));
            s[j][i] = a.cap * t;
        }
}

// What turns the numbers of a score tile into scores.
static __device__ float unit_of(const struct kernel_attention &a)
{
    return a.cap == 0 ? a.scale : 1;
}

// The slope of the cap at a score, given 1 / cap, or 0 without a cap. A masked score is −∞: its
// slope does not matter, as long as it is a number.
static __device__ float cap_slope(float score, float inverse)
{
    float t = fmaxf(score * inverse, -1);
    return 1 - t * t;
}

static __device__ float inverse_cap(const struct kernel_attention &a)
{
    return a.cap == 0 ? 0 : 1 / a.cap;
}

// sum += p × b: score tiles with COLUMNS columns of the TILE rows of b.
template <int D, int M, int COLUMNS = D>
static __device__ void accumulate(float sum[M][COLUMNS / 8][4], const score_tile p[M],
                                  const bf16 *b)
{
    int lane = threadIdx.x % 32, r = lane % 8, m = lane / 8;
#pragma unroll
    for (int k = 0; k < TILE; k += 16) {
        uint32_t left[M][4], right[4];
#pragma unroll
        for (int t = 0; t < M; t++)
            for (int i = 0; i < 4; i++) {
                const float *x = p[t][k / 8 + i / 2] + i % 2 * 2;
                left[t][i] = pack(x[0], x[1]);
            }
#pragma unroll
        for (int c = 0; c < COLUMNS; c += 16) {
            load4_transposed(right, b + (k + m % 2 * 8 + r) * (D + PAD) + c + m / 2 * 8);
#pragma unroll
            for (int t = 0; t < M; t++) {
                mma(sum[t][c / 8], left[t], right);
                mma(sum[t][c / 8 + 1], left[t], right + 2);
            }
        }
    }
}

// Stores the 16 rows of a warp, from `row` on, each times a factor; of a head, COLUMNS columns from
// `first` on.
template <int COLUMNS>
static __device__ void save(void *out, int64_t stride, int row, int tokens, int head, int size,
                            const float sum[COLUMNS / 8][4], float factor0, float factor1,
                            int first = 0)
{
    int lane = threadIdx.x % 32, at = row + lane / 4;
    bf16 *head_at = (bf16 *)out + (int64_t)head * size;
#pragma unroll
    for (int j = 0; j < COLUMNS / 8; j++) {
        int c = first + j * 8 + lane % 4 * 2;
        if (c >= size)
            continue;
        if (at < tokens)
            *(uint32_t *)(head_at + at * stride + c) =
                pack(sum[j][0] * factor0, sum[j][1] * factor0);
        if (at + 8 < tokens)
            *(uint32_t *)(head_at + (at + 8) * stride + c) =
                pack(sum[j][2] * factor1, sum[j][3] * factor1);
    }
}

// --- forward -------------------------------------------------------------------

static __device__ float over_quad_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
    return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

static __device__ float over_quad_sum(float x)
{
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
}

// The two rows of a thread: their masks, and the running softmax.
struct pair {
    int row[2], low[2];
    float largest[2], sum[2];
};

static __device__ struct pair pair_at(int row, int tokens, const int32_t *low)
{
    struct pair p;
    for (int i = 0; i < 2; i++) {
        p.row[i] = row + i * 8;
        p.low[i] = p.row[i] < tokens ? low[p.row[i]] : INT32_MAX;
        p.largest[i] = -INFINITY, p.sum[i] = 0;
    }
    return p;
}

// Masked scores become −∞. All 16 rows of the warp attend to the keys between low of the last row
// and the first row.
static __device__ void mask(score_tile s, const struct pair *p, int key, int row, int low)
{
    if (key >= low && key + TILE - 1 <= row)
        return;
    int column = key + threadIdx.x % 4 * 2;
#pragma unroll
    for (int j = 0; j < TILE / 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int at = column + j * 8 + i % 2;
            if (at > p->row[i / 2] || at < p->low[i / 2])
                s[j][i] = -INFINITY;
        }
}

// Turns scores into probabilities up to a factor per row; keep: the factor for earlier sums.
static __device__ void soften(score_tile s, struct pair *p, float scale, float keep[2])
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float largest = p->largest[r];
        for (int j = 0; j < TILE / 8; j++)
            largest = fmaxf(largest, fmaxf(s[j][2 * r], s[j][2 * r + 1]));
        largest = over_quad_max(largest);
        float base = largest == -INFINITY ? 0 : largest * scale, sum = 0;
        keep[r] = power2(p->largest[r] * scale - base);
        for (int j = 0; j < TILE / 8; j++)
            for (int i = 2 * r; i < 2 * r + 2; i++)
                sum += s[j][i] = power2(s[j][i] * scale - base);
        p->sum[r] = p->sum[r] * keep[r] + sum, p->largest[r] = largest;
    }
}

// Adds a tile of keys and values to the sums of a warp.
template <int D, int M>
static __device__ void take(float out[M][D / 8][4], struct pair p[M], const bf16 *q, const bf16 *k,
                            const bf16 *v, int key, const int low[M],
                            const struct kernel_attention &a)
{
    score_tile s[M];
    scores<D, M>(s, q, k);
#pragma unroll
    for (int t = 0; t < M; t++) {
        float keep[2];
        cap_scores(s[t], a);
        mask(s[t], &p[t], key, p[t].row[0] - threadIdx.x % 32 / 4, low[t]);
        soften(s[t], &p[t], unit_of(a) * LOG2E, keep);
#pragma unroll
        for (int j = 0; j < D / 8; j++)
            for (int i = 0; i < 4; i++)
                out[t][j][i] *= keep[i / 2];
    }
    accumulate<D, M>(out, s, v);
}

template <int D, int WARPS, int M>
static __global__ void __launch_bounds__(WARPS * 32, D <= 128 ? 2 : 1)
    forward(struct kernel_attention a)
{
    extern __shared__ bf16 memory[];
    enum { ROWS = WARPS * 16 * M, STEP = TILE * (D + PAD) };
    bf16 *q = memory, *k = q + ROWS * (D + PAD), *v = k + 2 * STEP;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, head = blockIdx.y, step = 0, low[M];
    int first = (gridDim.x - 1 - blockIdx.x) * ROWS; // the longest rows start first
    int last = min(first + ROWS, a.tokens), shared = head / (a.heads / a.kv_heads);
    int row = first + warp * 16 * M, begin = a.low[first] / TILE * TILE;
    float out[M][D / 8][4] = {};
    struct pair p[M];
#pragma unroll
    for (int t = 0; t < M; t++) {
        p[t] = pair_at(row + t * 16 + lane / 4, a.tokens, a.low);
        low[t] = a.low[min(row + t * 16 + 15, a.tokens - 1)];
    }
    fetch<D, ROWS>(q, a.q, a.q_stride, first, a.tokens, head, a.head_size);
    fetch_both<D>(k, v, &a, begin, shared);
    for (int key = begin; key < last; key += TILE, step ^= 1) {
        if (key + TILE < last)
            fetch_both<D>(k + (step ^ 1) * STEP, v + (step ^ 1) * STEP, &a, key + TILE, shared);
        else
            commit();
        arrived<1>();
        if (key < row + M * 16) // otherwise no row of this warp attends to the tile
            take<D, M>(out, p, q + warp * 16 * M * (D + PAD), k + step * STEP, v + step * STEP, key,
                       low, a);
        __syncthreads();
    }
#pragma unroll
    for (int t = 0; t < M; t++) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            p[t].sum[r] = over_quad_sum(p[t].sum[r]);
            if (lane % 4 == 0 && p[t].row[r] < a.tokens)
                a.lse[(int64_t)p[t].row[r] * a.heads + head] =
                    p[t].largest[r] * unit_of(a) + logf(p[t].sum[r]);
        }
        save<D>(a.out, a.out_stride, row + t * 16, a.tokens, head, a.head_size, out[t],
                1 / p[t].sum[0], 1 / p[t].sum[1]);
    }
}

// --- backward ------------------------------------------------------------------

// delta = Σ dout · out of each row and head; one warp each.
static __global__ void row_sums(struct kernel_attention a)
{
    int64_t at = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (at >= (int64_t)a.tokens * a.heads)
        return;
    int64_t token = at / a.heads, column = at % a.heads * a.head_size;
    const bf16 *x = (const bf16 *)a.out + token * a.out_stride + column;
    const bf16 *y = (const bf16 *)a.dout + token * a.dout_stride + column;
    float sum = 0;
    for (int c = threadIdx.x % 32; c < a.head_size; c += 32)
        sum += __bfloat162float(x[c]) * __bfloat162float(y[c]);
    for (int step = 16; step; step /= 2)
        sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0)
        a.delta[at] = sum;
}

template <int D> static __global__ void backward_q(struct kernel_attention a)
{
    extern __shared__ bf16 memory[];
    enum { STEP = TILE * (D + PAD) };
    bf16 *q = memory, *dout = q + STEP, *k = dout + STEP, *v = k + 2 * STEP;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, head = blockIdx.y, step = 0;
    int first = (gridDim.x - 1 - blockIdx.x) * TILE, row = first + warp * 16;
    int last = min(first + TILE, a.tokens), shared = head / (a.heads / a.kv_heads);
    int low = a.low[min(row + 15, a.tokens - 1)], begin = a.low[first] / TILE * TILE;
    float unit = unit_of(a) * LOG2E, inverse = inverse_cap(a);
    float dq[D / 8][4] = {}, lse[2], delta[2];
    struct pair p = pair_at(row + lane / 4, a.tokens, a.low);
    for (int r = 0; r < 2; r++) {
        int64_t at = (int64_t)min(p.row[r], a.tokens - 1) * a.heads + head;
        lse[r] = a.lse[at] * LOG2E, delta[r] = a.delta[at];
    }
    fetch<D, TILE>(q, a.q, a.q_stride, first, a.tokens, head, a.head_size);
    fetch<D, TILE>(dout, a.dout, a.dout_stride, first, a.tokens, head, a.head_size);
    fetch_both<D>(k, v, &a, begin, shared);
    for (int key = begin; key < last; key += TILE, step ^= 1) {
        bf16 *k_now = k + step * STEP, *v_now = v + step * STEP;
        if (key + TILE < last)
            fetch_both<D>(k + (step ^ 1) * STEP, v + (step ^ 1) * STEP, &a, key + TILE, shared);
        else
            commit();
        arrived<1>();
        score_tile s, ds;
        scores<D, 1>(&s, q + warp * 16 * (D + PAD), k_now);
        cap_scores(s, a);
        mask(s, &p, key, row, low);
        scores<D, 1>(&ds, dout + warp * 16 * (D + PAD), v_now);
#pragma unroll
        for (int j = 0; j < TILE / 8; j++)
            for (int i = 0; i < 4; i++)
                ds[j][i] = power2(s[j][i] * unit - lse[i / 2]) * (ds[j][i] - delta[i / 2]) *
                           cap_slope(s[j][i], inverse);
        accumulate<D, 1>(&dq, &ds, k_now);
        __syncthreads();
    }
    save<D>(a.dq, a.dq_stride, row, a.tokens, head, a.head_size, dq, a.scale, a.scale);
}

// Masked scores of 16 keys become −∞.
static __device__ void mask_turned(score_tile s, const int key[2], const int high[2], int query)
{
    int column = query + threadIdx.x % 4 * 2;
#pragma unroll
    for (int j = 0; j < TILE / 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int at = column + j * 8 + i % 2;
            if (at < key[i / 2] || at >= high[i / 2])
                s[j][i] = -INFINITY;
        }
}

// Probabilities and score gradients of 16 keys with TILE queries.
static __device__ void soften_turned(score_tile s, score_tile ds, const float *lse,
                                     const float *delta, const struct kernel_attention &a)
{
    float unit = unit_of(a) * LOG2E, inverse = inverse_cap(a);
    int column = threadIdx.x % 4 * 2;
#pragma unroll
    for (int j = 0; j < TILE / 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int c = column + j * 8 + i % 2;
            float slope = cap_slope(s[j][i], inverse);
            s[j][i] = power2(s[j][i] * unit - lse[c] * LOG2E);
            ds[j][i] = s[j][i] * (ds[j][i] - delta[c]) * slope;
        }
}

// A tile of queries of one head, with dout, lse and delta of its rows.
struct queries {
    bf16 *q, *dout;
    float *lse, *delta;
};

template <int D> static __device__ struct queries queries_at(bf16 *memory, int step)
{
    enum { STEP = TILE * (D + PAD) };
    float *numbers = (float *)(memory + 6 * STEP) + step * 2 * TILE;
    struct queries at = { memory + (2 + step) * STEP, memory + (4 + step) * STEP, numbers,
                          numbers + TILE };
    return at;
}

template <int D>
static __device__ void fetch_queries(struct queries to, const struct kernel_attention *a, int query,
                                     int head)
{
    fetch<D, TILE>(to.q, a->q, a->q_stride, query, a->tokens, head, a->head_size);
    fetch<D, TILE>(to.dout, a->dout, a->dout_stride, query, a->tokens, head, a->head_size);
    for (int i = threadIdx.x; i < 2 * TILE; i += blockDim.x) {
        int64_t at = (int64_t)min(query + i % TILE, a->tokens - 1) * a->heads + head;
        const float *from = (i < TILE ? a->lse : a->delta) + at;
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(to.lse + i)),
                     "l"(from));
    }
    commit();
}

// A warp has no registers for dk and dv of 256 columns: two warps then compute the same scores, and
// sum up half of the columns each.
template <int D> constexpr int shares = D > 128 ? 2 : 1;

template <int D>
static __global__ void __launch_bounds__(128 * shares<D>) backward_kv(struct kernel_attention a)
{
    extern __shared__ bf16 memory[];
    enum { STEP = TILE * (D + PAD), COLUMNS = D / shares<D> };
    bf16 *k = memory, *v = k + STEP;
    int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32, shared = blockIdx.y;
    int column = threadIdx.x / 128 * COLUMNS; // the first of this warp's
    int first = blockIdx.x * TILE, row = first + warp * 16, key[2], high[2];
    int group = a.heads / a.kv_heads, last = a.high[min(first + TILE, a.tokens) - 1];
    int each = (last - first + TILE - 1) / TILE, count = each * group; // tiles of a head, of all
    int least = a.high[min(row, a.tokens - 1)];                        // of the warp's keys
    float dk[COLUMNS / 8][4] = {}, dv[COLUMNS / 8][4] = {};
    for (int r = 0; r < 2; r++) {
        key[r] = row + lane / 4 + r * 8;
        high[r] = key[r] < a.tokens ? a.high[key[r]] : 0;
    }
    fetch<D, TILE>(k, a.k, a.k_stride, first, a.tokens, shared, a.head_size);
    fetch<D, TILE>(v, a.v, a.v_stride, first, a.tokens, shared, a.head_size);
    fetch_queries<D>(queries_at<D>(memory, 0), &a, first, shared * group);
    for (int i = 0; i < count; i++) {
        struct queries now = queries_at<D>(memory, i % 2);
        int query = first + i % each * TILE;
        score_tile s, ds;
        if (i + 1 < count)
            fetch_queries<D>(queries_at<D>(memory, (i + 1) % 2), &a, first + (i + 1) % each * TILE,
                             shared * group + (i + 1) / each);
        else
            commit();
        arrived<1>();
        scores<D, 1>(&s, k + warp * 16 * (D + PAD), now.q);
        scores<D, 1>(&ds, v + warp * 16 * (D + PAD), now.dout);
        cap_scores(s, a);
        if (query < row + 15 || query + TILE > least)
            mask_turned(s, key, high, query);
        soften_turned(s, ds, now.lse, now.delta, a);
        accumulate<D, 1, COLUMNS>(&dv, &s, now.dout + column);
        accumulate<D, 1, COLUMNS>(&dk, &ds, now.q + column);
        __syncthreads();
    }
    save<COLUMNS>(a.dk, a.dk_stride, row, a.tokens, shared, a.head_size, dk, a.scale, a.scale,
                  column);
    save<COLUMNS>(a.dv, a.dv_stride, row, a.tokens, shared, a.head_size, dv, 1, 1, column);
}

// --- launches ------------------------------------------------------------------

static __global__ void ranges(int32_t *low, int32_t *high, const struct span *spans, int64_t window)
{
    struct span span = spans[blockIdx.x];
    for (int i = threadIdx.x; i < span.size; i += blockDim.x) {
        int back = window && i >= window ? i - (int)window + 1 : 0;
        int front = window && i + window < span.size ? i + (int)window : span.size;
        low[span.start + i] = span.start + back;
        high[span.start + i] = span.start + front;
    }
}

void kernel_ranges(cudaStream_t stream, int32_t *low, int32_t *high, const struct span *spans,
                   int64_t count, int64_t window)
{
    ranges<<<(unsigned)count, 256, 0, stream>>>(low, high, spans, window);
}

static int tiles(int tokens, int rows)
{
    return (tokens + rows - 1) / rows;
}

template <typename F> static void allow(F kernel, int bytes)
{
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}

template <int D> static void forward_of(cudaStream_t stream, const struct kernel_attention *a)
{
    enum { M = D <= 128 ? 2 : 1, ROWS = 4 * 16 * M, BYTES = (ROWS + 4 * TILE) * (D + PAD) * 2 };
    allow(forward<D, 4, M>, BYTES);
    forward<D, 4, M><<<dim3(tiles(a->tokens, ROWS), a->heads), 4 * 32, BYTES, stream>>>(*a);
}

template <int D> static void backward_of(cudaStream_t stream, const struct kernel_attention *a)
{
    enum { BYTES = 6 * TILE * (D + PAD) * 2, NUMBERS = 4 * TILE * 4 };
    int64_t rows = (int64_t)a->tokens * a->heads;
    allow(backward_q<D>, BYTES);
    allow(backward_kv<D>, BYTES + NUMBERS);
    row_sums<<<(unsigned)((rows + 7) / 8), 256, 0, stream>>>(*a);
    backward_q<D><<<dim3(tiles(a->tokens, TILE), a->heads), 128, BYTES, stream>>>(*a);
    backward_kv<D>
        <<<dim3(tiles(a->tokens, TILE), a->kv_heads), 128 * shares<D>, BYTES + NUMBERS, stream>>>(
            *a);
}

// Needs rows aligned to 16 bytes, and a head that fits into a tile.
static bool fits(const struct kernel_attention *a)
{
    int64_t strides = a->q_stride | a->k_stride | a->v_stride | a->out_stride | a->dout_stride |
                      a->dq_stride | a->dk_stride | a->dv_stride;
    uintptr_t at = (uintptr_t)a->q | (uintptr_t)a->k | (uintptr_t)a->v | (uintptr_t)a->out |
                   (uintptr_t)a->dout | (uintptr_t)a->dq | (uintptr_t)a->dk | (uintptr_t)a->dv;
    return a->dtype == DTYPE_BF16 && a->head_size % 8 == 0 && a->head_size <= 256 &&
           strides % 8 == 0 && at % 16 == 0;
}

void kernel_forward(cudaStream_t stream, const struct kernel_attention *a)
{
    if (!fits(a))
        plain_forward(stream, a);
    else if (a->head_size <= 64)
        forward_of<64>(stream, a);
    else if (a->head_size <= 96)
        forward_of<96>(stream, a);
    else if (a->head_size <= 128)
        forward_of<128>(stream, a);
    else
        forward_of<256>(stream, a);
}

void kernel_backward(cudaStream_t stream, const struct kernel_attention *a)
{
    if (!fits(a))
        plain_backward(stream, a);
    else if (a->head_size <= 64)
        backward_of<64>(stream, a);
    else if (a->head_size <= 96)
        backward_of<96>(stream, a);
    else if (a->head_size <= 128)
        backward_of<128>(stream, a);
    else
        backward_of<256>(stream, a);
}
