// SPDX-License-Identifier: Apache-2.0
// kernels: what the kernels share: vector loads and stores, maps over rows, sums.
//
// A kernel takes addresses and whole numbers. It computes in fp32 and moves 16 bytes at a time
// where addresses, strides and widths allow it, else element by element:
//
//     struct twice { enum { V = 8 }; const bf16 *in; bf16 *out; int64_t in_stride, out_stride;
//         __device__ void operator()(int64_t row, int64_t column) const { … } };
//     map(cuda, twice{ … }, rows, columns, "twice");

#pragma once

#include "train/cuda/cuda.h"
#include "train/counter_rng.h"

#include <cuda_fp8.h>
#include <initializer_list>
#include <type_traits>

typedef __nv_bfloat16 bf16;
typedef __nv_fp8_e4m3 fp8;

// --- tensors on the host's side ----------------------------------------------

static inline int64_t bytes_of(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? 4 : dtype == DTYPE_BF16 ? 2 : dtype == DTYPE_F64 ? 8 : 1;
}

static inline bool is_dense(struct tensor t)
{
    return t.stride == t.columns || t.rows <= 1;
}

static inline int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// The smallest power of two that is at least `bound`.
static inline int power_of_two(int64_t bound)
{
    int64_t power = 1;
    while (power < bound)
        power *= 2;
    return (int)power;
}

// Fails, and says which operation, unless all tensors have the type.
static inline bool have_one_type(struct cuda *cuda, const char *operation, enum dtype dtype,
                                 std::initializer_list<struct tensor> tensors)
{
    for (struct tensor t : tensors)
        if (t.dtype != dtype) {
            cuda_fail(cuda, ERR_UNAVAILABLE, "%s on a GPU needs tensors of one type", operation);
            return false;
        }
    return true;
}

// Whether the rows of all tensors can be read `width` elements at a time; none counts as yes.
static inline bool in_vectors(int width, std::initializer_list<struct tensor> tensors)
{
    for (struct tensor t : tensors) {
        int64_t bytes = width * bytes_of(t.dtype), unit = bytes < 16 ? bytes : 16;
        if (!t.at)
            continue;
        if (t.columns % width || (uintptr_t)t.at % unit)
            return false;
        if (t.rows > 1 && t.stride * bytes_of(t.dtype) % unit)
            return false;
    }
    return true;
}

// Views dense tensors of one shape as a single row, for elementwise operations.
static inline void flatten(std::initializer_list<struct tensor *> tensors)
{
    for (struct tensor *t : tensors)
        if (t->at && !is_dense(*t))
            return;
    for (struct tensor *t : tensors) {
        t->columns *= t->rows;
        t->rows = 1;
        t->stride = t->columns;
    }
}

// Calls f with a value of the element type, to select a template argument.
template <class F> static inline void with_type(struct cuda *cuda, enum dtype dtype, F f)
{
    if (dtype == DTYPE_F32)
        f(float());
    else if (dtype == DTYPE_BF16)
        f(bf16());
    else
        cuda_fail(cuda, ERR_UNAVAILABLE, "this operation on a GPU supports fp32 and bf16 only");
}

template <int WIDTH> using width = std::integral_constant<int, WIDTH>;

template <int WIDTH, class F> static inline void with_width(bool vectors, F f)
{
    if (vectors)
        f(width<WIDTH>());
    else
        f(width<1>());
}

// --- elements ----------------------------------------------------------------

static __device__ inline float widen(float x)
{
    return x;
}
static __device__ inline float widen(bf16 x)
{
    return __bfloat162float(x);
}
static __device__ inline float widen(double x)
{
    return (float)x;
}
static __device__ inline float widen(fp8 x)
{
    return (float)x;
}

template <typename T> __device__ inline T narrow(float x);
template <> __device__ inline float narrow<float>(float x)
{
    return x;
}
template <> __device__ inline bf16 narrow<bf16>(float x)
{
    return __float2bfloat16_rn(x);
}
template <> __device__ inline double narrow<double>(float x)
{
    return (double)x;
}
template <> __device__ inline fp8 narrow<fp8>(float x) // saturates
{
    return fp8(x);
}

template <int BYTES> struct raw;
template <> struct raw<1> {
    unsigned char at;
};
template <> struct raw<2> {
    unsigned short at;
};
template <> struct raw<4> {
    unsigned int at;
};
template <> struct raw<8> {
    uint2 at;
};
template <> struct raw<16> {
    uint4 at;
};
template <> struct raw<32> {
    uint4 at, and_at;
};
template <> struct raw<64> {
    uint4 at, and_at, then_at, last_at;
};

// V elements as they are stored. If several packs are needed, fetch all before using one: a load
// does not pass an earlier store, and waiting for one at a time leaves memory idle.
template <int V, typename T> struct pack {
    raw<V * sizeof(T)> bits;
};

template <int V, typename T> __device__ inline void fetch(pack<V, T> &out, const T *in)
{
    out.bits = *reinterpret_cast<const raw<V * sizeof(T)> *>(in);
}

template <int V, typename T> __device__ inline void unpack(float (&out)[V], const pack<V, T> &in)
{
    if constexpr (std::is_same<T, bf16>::value && V % 2 == 0) { // no conversions: 2 to 15 % faster
        const uint32_t *words = reinterpret_cast<const uint32_t *>(&in.bits);
#pragma unroll
        for (int i = 0; i < V; i += 2) {
            out[i] = __uint_as_float(words[i / 2] << 16);
            out[i + 1] = __uint_as_float(words[i / 2] & 0xFFFF0000u);
        }
    } else {
        const T *x = reinterpret_cast<const T *>(&in.bits);
#pragma unroll
        for (int i = 0; i < V; i++)
            out[i] = widen(x[i]);
    }
}

template <int V, typename T> __device__ inline void load(float (&out)[V], const T *in)
{
    pack<V, T> bits;
    fetch(bits, in);
    unpack(out, bits);
}

template <int V, typename T> __device__ inline raw<V * sizeof(T)> narrow_all(const float (&in)[V])
{
    raw<V * sizeof(T)> bits;
    T *x = reinterpret_cast<T *>(&bits);
    if constexpr (std::is_same<T, bf16>::value && V % 2 == 0) { // two per instruction
#pragma unroll
        for (int i = 0; i < V; i += 2)
            reinterpret_cast<__nv_bfloat162 *>(x)[i / 2] = __floats2bfloat162_rn(in[i], in[i + 1]);
    } else if constexpr (std::is_same<T, fp8>::value && V % 2 == 0) {
#pragma unroll
        for (int i = 0; i < V; i += 2)
            reinterpret_cast<__nv_fp8x2_e4m3 *>(x)[i / 2] =
                __nv_fp8x2_e4m3(make_float2(in[i], in[i + 1]));
    } else {
#pragma unroll
        for (int i = 0; i < V; i++)
            x[i] = narrow<T>(in[i]);
    }
    return bits;
}

template <int V, typename T> __device__ inline void store(T *out, const float (&in)[V])
{
    *reinterpret_cast<raw<V * sizeof(T)> *>(out) = narrow_all<V, T>(in);
}

// To global memory, where store() is slow: in loops that load from shared memory beside it, nvcc
// makes four stores of an assignment of 16 bytes.
template <int V, typename T> __device__ inline void store_whole(T *out, const float (&in)[V])
{
    raw<V * sizeof(T)> bits = narrow_all<V, T>(in);
    if constexpr (sizeof bits == 16)
        __stwb(reinterpret_cast<uint4 *>(out), bits.at);
    else
        *reinterpret_cast<raw<V * sizeof(T)> *>(out) = bits;
}

// An operand of any type, for small tensors: weights of norms, biases, sums.
struct operand {
    void *at;
    enum dtype dtype;
};

static inline operand any_of(struct tensor t)
{
    return operand{ t.at, t.dtype };
}

static __device__ inline float load_any(operand in, int64_t i)
{
    switch (in.dtype) {
    case DTYPE_F32: return ((const float *)in.at)[i];
    case DTYPE_BF16: return widen(((const bf16 *)in.at)[i]);
    case DTYPE_F64: return (float)((const double *)in.at)[i];
    default: return widen(((const fp8 *)in.at)[i]);
    }
}

static __device__ inline void store_any(operand out, int64_t i, float x)
{
    switch (out.dtype) {
    case DTYPE_F32: ((float *)out.at)[i] = x; break;
    case DTYPE_BF16: ((bf16 *)out.at)[i] = narrow<bf16>(x); break;
    case DTYPE_F64: ((double *)out.at)[i] = x; break;
    default: ((fp8 *)out.at)[i] = narrow<fp8>(x); break;
    }
}

// V elements at once; in_vectors() must be true for the tensor.
template <int V> static __device__ inline void load_any(float (&out)[V], operand in, int64_t i)
{
    if (in.dtype == DTYPE_F32)
        load(out, (const float *)in.at + i);
    else if (in.dtype == DTYPE_BF16)
        load(out, (const bf16 *)in.at + i);
    else
        for (int j = 0; j < V; j++)
            out[j] = load_any(in, i + j);
}

template <int V>
static __device__ inline void store_any(operand out, int64_t i, const float (&in)[V])
{
    if (out.dtype == DTYPE_F32)
        store((float *)out.at + i, in);
    else if (out.dtype == DTYPE_BF16)
        store((bf16 *)out.at + i, in);
    else
        for (int j = 0; j < V; j++)
            store_any(out, i + j, in[j]);
}

// --- sums --------------------------------------------------------------------

// The sum over the `lanes` threads that share a row. Up to 32, lanes is a power of two, and all
// threads of the warp must call this; above 32 it is the size of the block, in whole warps, and all
// threads of the block must.
static __device__ inline float group_sum(float x, int lanes)
{
    __shared__ float parts[32];
    for (int step = (lanes < 32 ? lanes : 32) / 2; step; step /= 2)
        x += __shfl_xor_sync(0xFFFFFFFFu, x, step);
    if (lanes <= 32)
        return x;
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = 0;
    for (int i = 0; i < lanes / 32; i++)
        x += parts[i];
    __syncthreads();
    return x;
}

static __device__ inline float group_max(float x, int lanes)
{
    __shared__ float parts[32];
    for (int step = (lanes < 32 ? lanes : 32) / 2; step; step /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, step));
    if (lanes <= 32)
        return x;
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = parts[0];
    for (int i = 1; i < lanes / 32; i++)
        x = fmaxf(x, parts[i]);
    __syncthreads();
    return x;
}

// --- pieces: rows, or parts of rows, that stay in registers ------------------

// A piece is shared by `lanes` threads, each with PER times V elements.
struct pieces {
    int64_t count; // of pieces in all rows
    int per_row, width, lanes;
};

enum { MOST_LANES = 1024, PIECES_BLOCK = 128 };

static inline void too_wide(struct cuda *cuda, pieces shape)
{
    cuda_fail(cuda, ERR_UNAVAILABLE, "a row of %d columns is too wide for this operation on a GPU",
              shape.width);
}

// Calls f with (V, PER) after setting the lanes: parts of a warp, or whole warps. VECTORS: that a
// lane has of a row.
template <typename T, int VECTORS = 4, class F>
static inline void share_out(struct cuda *cuda, pieces *shape, bool vectors, F f)
{
    const int most = 16 / sizeof(T);
    int64_t across = shape->width / (vectors ? most : 1);
    int per = across <= 32 ? 1 : vectors ? VECTORS : across <= 4 * MOST_LANES ? 4 : 16;
    int64_t lanes = ceil_div(across, per);
    shape->lanes = lanes > 32 ? (int)ceil_div(lanes, 32) * 32 : power_of_two(lanes);
    if (shape->lanes > MOST_LANES)
        return too_wide(cuda, *shape);
    if (vectors && per == 1)
        f(width<most>(), width<1>());
    else if (vectors)
        f(width<most>(), width<VECTORS>());
    else if (per <= 4)
        f(width<1>(), width<4>());
    else
        f(width<1>(), width<16>());
}

static inline dim3 block_of(pieces shape)
{
    return shape.lanes > 32 ? dim3((unsigned)shape.lanes)
                            : dim3((unsigned)shape.lanes, (unsigned)(PIECES_BLOCK / shape.lanes));
}

// --- maps over elements ------------------------------------------------------

template <class Op> __global__ void map_kernel(Op op, int64_t rows, int64_t columns)
{
    int64_t first = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * Op::V;
    int64_t step = (int64_t)gridDim.x * blockDim.x * Op::V;
    for (int64_t r = (int64_t)blockIdx.y * blockDim.y + threadIdx.y; r < rows;
         r += (int64_t)gridDim.y * blockDim.y)
        for (int64_t c = first; c < columns; c += step)
            op(r, c);
}

enum { MAP_THREADS = 256, MAP_ROWS = 65535 };

// Calls op(row, column) for every Op::V-th column; Op::V must divide the columns.
template <class Op>
static inline void map(struct cuda *cuda, Op op, int64_t rows, int64_t columns, const char *what)
{
    int64_t across = columns / Op::V;
    if (cuda->err || rows <= 0 || across <= 0)
        return;
    int x = power_of_two(least(across, MAP_THREADS)), y = MAP_THREADS / x;
    int64_t wide = ceil_div(across, x), high = ceil_div(rows, y);
    dim3 grid((unsigned)least(wide, INT32_MAX), (unsigned)least(high, MAP_ROWS));
    map_kernel<<<grid, dim3((unsigned)x, (unsigned)y), 0, cuda->stream>>>(op, rows, columns);
    cuda_launched(cuda, what);
}

// --- sums over rows, in two stages -------------------------------------------

enum { COLUMN_THREADS = 32, ROW_THREADS = 8, MOST_SLICES = 128 };

// partials[slice][column] = the sum over the rows of the slice.
template <class Op>
__global__ void columns_kernel(float *partials, Op op, int64_t rows, int64_t columns,
                               int64_t slice_rows)
{
    const int V = Op::V;
    __shared__ float parts[ROW_THREADS][COLUMN_THREADS * V];
    int64_t c = ((int64_t)blockIdx.x * COLUMN_THREADS + threadIdx.x) * V;
    int64_t first = (int64_t)blockIdx.y * slice_rows;
    int64_t end = first + slice_rows < rows ? first + slice_rows : rows;
    float sum[V] = { 0 };
    if (c < columns)
#pragma unroll 4
        for (int64_t r = first + threadIdx.y; r < end; r += ROW_THREADS)
            op(sum, r, c);
    for (int i = 0; i < V; i++)
        parts[threadIdx.y][threadIdx.x * V + i] = sum[i];
    __syncthreads();
    int thread = threadIdx.y * COLUMN_THREADS + threadIdx.x;
    for (int i = thread; i < COLUMN_THREADS * V; i += COLUMN_THREADS * ROW_THREADS) {
        int64_t column = (int64_t)blockIdx.x * COLUMN_THREADS * V + i;
        float total = 0;
        for (int y = 0; y < ROW_THREADS; y++)
            total += parts[y][i];
        if (column < columns)
            partials[blockIdx.y * columns + column] = total;
    }
}

enum { FINISH_ROWS = 32 };

static __global__ void columns_finish_kernel(operand out, const float *partials, int64_t columns,
                                             int64_t slices)
{
    __shared__ float parts[FINISH_ROWS][COLUMN_THREADS];
    int64_t c = (int64_t)blockIdx.x * COLUMN_THREADS + threadIdx.x;
    float sum = 0;
    if (c < columns)
#pragma unroll 4
        for (int64_t s = threadIdx.y; s < slices; s += FINISH_ROWS)
            sum += partials[s * columns + c];
    parts[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y || c >= columns)
        return;
    for (int y = 1; y < FINISH_ROWS; y++)
        sum += parts[y][threadIdx.x];
    store_any(out, c, load_any(out, c) + sum);
}

// out (1, columns) += the sum of all slices of partials.
static inline void finish_columns(struct cuda *cuda, struct tensor out, int64_t slices,
                                  const char *what)
{
    columns_finish_kernel<<<(unsigned)ceil_div(out.columns, COLUMN_THREADS),
                            dim3(COLUMN_THREADS, FINISH_ROWS), 0, cuda->stream>>>(
        any_of(out), (const float *)cuda->partials, out.columns, slices);
    cuda_launched(cuda, what);
}

// out (1, columns) += the sum over rows of what op(sum, row, column) adds for each Op::V columns.
template <class Op>
static inline void add_columns(struct cuda *cuda, struct tensor out, Op op, int64_t rows,
                               int64_t columns, const char *what)
{
    if (cuda->err || rows <= 0 || columns <= 0)
        return;
    int64_t slices = least(ceil_div(rows, ROW_THREADS), MOST_SLICES);
    slices = least(slices, CUDA_PARTIALS / (4 * columns));
    if (!slices)
        return cuda_fail(cuda, ERR_UNAVAILABLE, "%s: too many columns to sum", what);
    int64_t slice_rows = ceil_div(rows, slices);
    slices = ceil_div(rows, slice_rows);
    dim3 grid((unsigned)ceil_div(columns / Op::V, COLUMN_THREADS), (unsigned)slices);
    columns_kernel<<<grid, dim3(COLUMN_THREADS, ROW_THREADS), 0, cuda->stream>>>(
        (float *)cuda->partials, op, rows, columns, slice_rows);
    cuda_launched(cuda, what);
    finish_columns(cuda, out, slices, what);
}
