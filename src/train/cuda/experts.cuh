// SPDX-License-Identifier: Apache-2.0
// experts: what the kernels of experts' products share: the product, and whose rows a thread block
// computes (experts.cu draws how rows become tiles).

#pragma once

#include "train/cuda/kernels.cuh"
#include "train/cuda/mma.cuh"

enum kind { NT, NN, TN };
enum { WARP = 32, MOST_EXPERTS = 512, LANE_EXPERTS = MOST_EXPERTS / WARP };
static const unsigned ALL = 0xFFFFFFFFu;

// One product for each of `count` experts from `first` on.
struct products {
    const void *a, *b;
    operand c;
    int64_t a_stride, b_stride, c_stride;
    int64_t step; // elements from an expert's matrix to the next: of b, in tn of c
    const int32_t *counts;
    int first, count;
    int m, n, k; // of one matrix; in nt and nn m, in tn k is what the expert has
    float alpha, beta;
};

// What a thread block computes: the corner of its tile, and how much there is from there on.
template <typename T> struct task {
    const T *a, *b;
    int64_t c;
    int m, n, k; // m: 0 if there is nothing to do
};

// --- whose rows --------------------------------------------------------------

struct rows {
    int expert, first, count;
};

static __device__ inline int lanes_before(int x) // and this one
{
    int lane = threadIdx.x % WARP;
    for (int step = 1; step < WARP; step *= 2) {
        int other = __shfl_up_sync(ALL, x, step);
        x += lane >= step ? other : 0;
    }
    return x;
}

// Finds the expert in whose share the index lies, every expert having share(expert, rows) of them,
// and how far into the share. Every warp does this for itself.
template <class F> static __device__ inline rows find(const products &p, int &index, F share)
{
    int lane = threadIdx.x % WARP, end = p.first + p.count, row = 0;
    int counts[LANE_EXPERTS];
#pragma unroll
    for (int i = 0; i < LANE_EXPERTS; i++) {
        int e = i * WARP + lane;
        counts[i] = i * WARP < end && e < end ? p.counts[e] : 0;
    }
#pragma unroll
    for (int i = 0; i < LANE_EXPERTS; i++) {
        if (i * WARP >= end)
            break;
        int e = i * WARP + lane, own = e >= p.first && e < end ? share(e, counts[i]) : 0;
        int shares = lanes_before(own), upto = lanes_before(counts[i]);
        unsigned after = __ballot_sync(ALL, index < shares);
        if (after) {
            int which = __ffs((int)after) - 1;
            rows found = { i * WARP + which, row + __shfl_sync(ALL, upto - counts[i], which),
                           __shfl_sync(ALL, counts[i], which) };
            index -= __shfl_sync(ALL, shares - own, which);
            return found;
        }
        index -= __shfl_sync(ALL, shares, WARP - 1);
        row += __shfl_sync(ALL, upto, WARP - 1);
    }
    return rows{ -1, 0, 0 };
}

// Of a tile of so many rows and columns, by its place in the grid.
template <kind KIND, typename T, int HIGH, int WIDE>
static __device__ inline task<T> task_of(const products &p, uint3 tile)
{
    const T *a = (const T *)p.a, *b = (const T *)p.b;
    int n = (int)tile.x * WIDE, index = (int)(KIND == TN ? tile.z : tile.y);
    if constexpr (KIND == TN) {
        int m = (int)tile.y * HIGH;
        rows own = find(p, index, [](int, int) { return 1; });
        return task<T>{ a + own.first * p.a_stride + m,
                        b + own.first * p.b_stride + n,
                        (own.expert - p.first) * p.step + m * p.c_stride + n,
                        p.m - m,
                        p.n - n,
                        own.count };
    } else {
        rows own = find(p, index, [](int, int rows) { return (rows + HIGH - 1) / HIGH; });
        if (own.expert < 0)
            return task<T>{ a, b, 0, 0, 0, 0 };
        int64_t row = own.first + (int64_t)index * HIGH;
        b += (own.expert - p.first) * p.step + (KIND == NT ? n * p.b_stride : n);
        return task<T>{ a + row * p.a_stride,     b,       row * p.c_stride + n,
                        own.count - index * HIGH, p.n - n, p.k };
    }
}

// Two neighbours of c.
static __device__ inline void write_two(const products &p, int64_t at, float x, float y)
{
    float out[2] = { p.alpha * x, p.alpha * y };
    if (p.beta != 0) {
        float old[2];
        load_any(old, p.c, at);
        out[0] += p.beta * old[0];
        out[1] += p.beta * old[1];
    }
    store_any(p.c, at, out);
}

// --- launches ----------------------------------------------------------------

static inline dim3 grid_of(const products &p, kind kind, int64_t rows, int high, int wide)
{
    unsigned n = (unsigned)ceil_div(p.n, wide);
    return kind == TN ? dim3(n, (unsigned)ceil_div(p.m, high), (unsigned)p.count)
                      : dim3(n, (unsigned)(rows / high + p.count));
}

// experts_wgmma.cu: the same on the tensor cores of compute capability 9.0, of operands that are
// aligned to 16 bytes.
bool wgmma_supports(const struct cuda *cuda);
void wgmma_multiply(struct cuda *cuda, kind kind, const products &p, int64_t rows);
