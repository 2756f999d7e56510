// SPDX-License-Identifier: Apache-2.0
// The magnitudes of DoRA: lengths of the rows of W + s · B A, and outputs brought to a trained
// length; cpu/magnitude.c has the formulas.
//
// A thread block has eight rows of W. A thread takes some columns of all eight: what it reads of A
// serves eight rows, and W, the largest by far, is read once.

#include "train/cuda/kernels.cuh"
#include "train/cuda/operations.h"

enum { THREADS = 256, ROWS = 8, MOST_RANK = 1024 };

struct row_norms_task {
    operand norms;
    int64_t out, in, w_stride, b_stride, a_stride;
    int rank;
    float scale;
};

// Factors of A for the block's rows: s · B, zeros after the last row.
template <typename T>
static __device__ inline void load_factors(float (&out)[MOST_RANK][ROWS], const T *b,
                                           const row_norms_task &task, int64_t first)
{
    for (int i = threadIdx.x; i < task.rank * ROWS; i += THREADS) {
        int r = i % ROWS, k = i / ROWS;
        bool there = first + r < task.out;
        out[k][r] = there ? task.scale * widen(b[(first + r) * task.b_stride + k]) : 0;
    }
    __syncthreads();
}

// V columns of row r, with what the adapter adds to them.
template <typename T, int V>
static __device__ inline void load_rows(float (&x)[ROWS][V], const T *w, const T *a,
                                        const float (&factors)[MOST_RANK][ROWS],
                                        const row_norms_task &task, int64_t first, int64_t column)
{
    pack<V, T> weights[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        if (first + r < task.out)
            fetch(weights[r], w + (first + r) * task.w_stride + column);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        if (first + r < task.out)
            unpack(x[r], weights[r]);
        else
            for (int i = 0; i < V; i++)
                x[r][i] = 0;
    }
    for (int k = 0; k < task.rank; k++) {
        float row[V];
        load(row, a + k * task.a_stride + column);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int i = 0; i < V; i++)
                x[r][i] += factors[k][r] * row[i];
    }
}

template <typename T, int V>
static __global__ void __launch_bounds__(THREADS)
    row_norms_kernel(row_norms_task task, const T *w, const T *b, const T *a)
{
    __shared__ float factors[MOST_RANK][ROWS];
    int64_t first = (int64_t)blockIdx.x * ROWS;
    float squares[ROWS] = {};
    load_factors(factors, b, task, first);
    for (int64_t c = threadIdx.x * V; c < task.in; c += THREADS * V) {
        float x[ROWS][V];
        load_rows(x, w, a, factors, task, first, c);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int i = 0; i < V; i++)
                squares[r] += x[r][i] * x[r][i];
    }
    for (int r = 0; r < ROWS; r++) {
        float sum = group_sum(squares[r], THREADS);
        if (threadIdx.x == 0 && first + r < task.out)
            store_any(task.norms, first + r, sqrtf(sum));
    }
}

void cuda_row_norms(struct device *device, struct tensor norms, struct tensor w, struct tensor b,
                    struct tensor a, double scale)
{
    struct cuda *cuda = cuda_of(device);
    row_norms_task task = { any_of(norms), w.rows,   w.columns,   w.stride,
                            b.stride,      a.stride, (int)a.rows, (float)scale };
    if (cuda->err || !w.rows)
        return;
    if (a.rows > MOST_RANK || a.dtype != w.dtype || b.dtype != w.dtype)
        return cuda_fail(cuda, ERR_UNAVAILABLE,
                         "magnitudes on a GPU need a rank of at most %d, and one type", MOST_RANK);
    with_type(cuda, w.dtype, [&](auto t) {
        using T = decltype(t);
        const int most = 16 / sizeof(T);
        with_width<most>(in_vectors(most, { w, a }), [&](auto v) {
            row_norms_kernel<T, v.value>
                <<<(unsigned)ceil_div(w.rows, ROWS), THREADS, 0, cuda->stream>>>(
                    task, (const T *)w.at, (const T *)b.at, (const T *)a.at);
            cuda_launched(cuda, "lengths of rows");
        });
    });
}

// --- outputs -----------------------------------------------------------------

// m / n of some columns; a row of zeros stays one, whatever its magnitude.
template <int V>
static __device__ inline void load_ratios(float (&out)[V], float (&lengths)[V], operand m,
                                          operand norms, int64_t column)
{
    load_any(out, m, column);
    load_any(lengths, norms, column);
#pragma unroll
    for (int i = 0; i < V; i++)
        out[i] = lengths[i] > 0 ? out[i] / lengths[i] : 1;
}

template <typename T, int WIDTH> struct magnify {
    enum { V = WIDTH };
    T *y;
    int64_t stride;
    operand m, norms;

    __device__ void operator()(int64_t row, int64_t column) const
    {
        float x[V], ratios[V], lengths[V];
        load(x, y + row * stride + column);
        load_ratios(ratios, lengths, m, norms, column);
#pragma unroll
        for (int i = 0; i < V; i++)
            x[i] *= ratios[i];
        store(y + row * stride + column, x);
    }
};

// Adds to the sums of columns, and magnifies dy on the way: each element is visited once.
template <typename T, int WIDTH> struct magnify_backward {
    enum { V = WIDTH };
    T *dy;
    const T *y;
    int64_t dy_stride, y_stride;
    operand m, norms;

    __device__ void operator()(float (&sum)[V], int64_t row, int64_t column) const
    {
        float d[V], x[V], ratios[V], lengths[V];
        load(d, dy + row * dy_stride + column);
        load(x, y + row * y_stride + column);
        load_ratios(ratios, lengths, m, norms, column);
#pragma unroll
        for (int i = 0; i < V; i++) {
            sum[i] += lengths[i] > 0 ? d[i] * x[i] / lengths[i] : 0;
            d[i] *= ratios[i];
        }
        store(dy + row * dy_stride + column, d);
    }
};

void cuda_magnify(struct device *device, struct tensor y, struct tensor m, struct tensor norms)
{
    struct cuda *cuda = cuda_of(device);
    with_type(cuda, y.dtype, [&](auto t) {
        using T = decltype(t);
        const int most = 16 / sizeof(T);
        with_width<most>(in_vectors(most, { y, m, norms }), [&](auto v) {
            magnify<T, v.value> op = { (T *)y.at, y.stride, any_of(m), any_of(norms) };
            map(cuda, op, y.rows, y.columns, "magnitudes");
        });
    });
}

void cuda_magnify_backward(struct device *device, struct tensor dm, struct tensor dy,
                           struct tensor y, struct tensor m, struct tensor norms)
{
    struct cuda *cuda = cuda_of(device);
    if (y.dtype != dy.dtype)
        return cuda_fail(cuda, ERR_UNAVAILABLE, "magnitudes on a GPU need outputs of one type");
    with_type(cuda, dy.dtype, [&](auto t) {
        using T = decltype(t);
        const int most = 16 / sizeof(T);
        with_width<most>(in_vectors(most, { dy, y, m, norms }), [&](auto v) {
            magnify_backward<T, v.value> op = { (T *)dy.at, (const T *)y.at, dy.stride,
                                                y.stride,   any_of(m),       any_of(norms) };
            add_columns(cuda, dm, op, dy.rows, dy.columns, "gradient of magnitudes");
        });
    });
}
