// SPDX-License-Identifier: Apache-2.0
// Quantizes rows to fp8 (e4m3), each with its own scale, and adapters beside them (backend.h).

#include "train/cuda/kernels.cuh"
#include "train/cuda/operations.h"

#define LARGEST 448.0f   // code
#define LEAST 0x1p-10f   // magnitude of a row of weights that counts
enum { TWO_ROWS = 448 }; // lanes of a row of 28,672 columns: two such blocks fit

static __device__ inline float scale_of(float largest, float smallest)
{
    return largest > 0 ? fmaxf(largest, smallest) / LARGEST : 1.0f;
}

// A number as two codes.
static __device__ inline fp8 high_of(float number)
{
    return narrow<fp8>(number);
}

static __device__ inline fp8 low_of(float number)
{
    return narrow<fp8>(number - widen(high_of(number)));
}

// The columns of z, which follow those of x.
template <typename T> struct beside {
    const T *z;
    int64_t stride;
    const float *shifts;
    int count, columns; // of z; of the codes that follow those of x
};

// Rows of weights, or of inputs with what adapters have beside them. At most LANES lanes.
template <typename T, int V, int PER, int LANES>
__global__ void __launch_bounds__(LANES, MOST_LANES / LANES)
    rows_kernel(fp8 *codes, int64_t codes_stride, float *scales, int64_t scales_stride, const T *in,
                int64_t in_stride, pieces shape, float smallest, beside<T> other)
{
    int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    bool here = row < shape.count;
    pack<V, T> values[PER];
    float most = 0;
#pragma unroll
    for (int j = 0; j < PER; j++) {
        int c = (j * shape.lanes + (int)threadIdx.x) * V;
        if (here && c < shape.width)
            fetch(values[j], in + row * in_stride + c);
    }
#pragma unroll
    for (int j = 0; j < PER; j++) {
        int c = (j * shape.lanes + (int)threadIdx.x) * V;
        if (!here || c >= shape.width)
            continue;
        float x[V];
        unpack(x, values[j]);
#pragma unroll
        for (int i = 0; i < V; i++)
            most = fmaxf(most, fabsf(x[i]));
    }
    const T *z = other.z + row * other.stride;
    for (int r = (int)threadIdx.x; here && r < other.count; r += shape.lanes)
        most = fmaxf(most, fabsf(widen(z[r]) * other.shifts[r]));
    float scale = scale_of(group_max(most, shape.lanes), smallest), factor = 1.0f / scale;
    if (here && threadIdx.x == 0)
        scales[row * scales_stride] = scale;
#pragma unroll
    for (int j = 0; j < PER; j++) {
        int c = (j * shape.lanes + (int)threadIdx.x) * V;
        if (!here || c >= shape.width)
            continue;
        float x[V];
        unpack(x, values[j]);
#pragma unroll
        for (int i = 0; i < V; i++)
            x[i] *= factor;
        store(codes + row * codes_stride + c, x);
    }
    fp8 *behind = codes + row * codes_stride + shape.width;
    for (int c = (int)threadIdx.x; here && c < other.columns; c += shape.lanes) {
        int r = c % other.count, part = c / other.count;
        float number = widen(z[r]) * other.shifts[r] * factor;
        behind[c] = part > 2 ? narrow<fp8>(0) : part == 1 ? low_of(number) : high_of(number);
    }
}

// --- transposed: a scale per column ------------------------------------------

enum { TILE = 32, TILE_ROWS = 8, SLICE = 256 };

// Magnitudes are ordered like their bits, so an integer maximum works, in any order.
template <typename T>
__global__ void most_kernel(unsigned *most, int64_t most_stride, const T *in, int64_t stride,
                            int64_t rows, int64_t columns)
{
    int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    unsigned largest = 0;
    if (c >= columns)
        return;
    for (int64_t first = (int64_t)blockIdx.y * SLICE; first < rows;
         first += (int64_t)gridDim.y * SLICE)
        for (int64_t r = first; r < first + SLICE && r < rows; r++)
            largest = max(largest, __float_as_uint(fabsf(widen(in[r * stride + c]))));
    atomicMax(most + c * most_stride, largest);
}

static __global__ void scales_kernel(float *scales, int64_t stride, int64_t count)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        scales[i * stride] = scale_of(scales[i * stride], LEAST);
}

template <typename T>
__global__ void transpose_kernel(fp8 *codes, int64_t codes_stride, const float *scales,
                                 int64_t scales_stride, const T *in, int64_t in_stride,
                                 int64_t rows, int64_t columns, int64_t across)
{
    __shared__ float tile[TILE][TILE + 1];
    int64_t r = blockIdx.x / across * TILE, c = blockIdx.x % across * TILE;
    for (int y = threadIdx.y; y < TILE; y += TILE_ROWS)
        if (r + y < rows && c + threadIdx.x < columns)
            tile[y][threadIdx.x] = widen(in[(r + y) * in_stride + c + threadIdx.x]);
    __syncthreads();
    for (int y = threadIdx.y; y < TILE; y += TILE_ROWS)
        if (c + y < columns && r + threadIdx.x < rows) {
            float factor = 1.0f / scales[(c + y) * scales_stride];
            codes[(c + y) * codes_stride + r + threadIdx.x] =
                narrow<fp8>(tile[threadIdx.x][y] * factor);
        }
}

template <typename T>
static void transposed_rows(struct cuda *cuda, struct tensor codes, struct tensor scales,
                            struct tensor in)
{
    float *at = (float *)scales.at;
    cuda_check(
        cuda,
        cudaMemset2DAsync(at, (size_t)scales.stride * 4, 0, 4, (size_t)in.columns, cuda->stream),
        "fp8 scales");
    int64_t slices = ceil_div(in.rows, SLICE), across = ceil_div(in.columns, TILE);
    dim3 grid((unsigned)ceil_div(in.columns, 256), (unsigned)least(slices, 1024));
    most_kernel<<<grid, 256, 0, cuda->stream>>>((unsigned *)at, scales.stride, (const T *)in.at,
                                                in.stride, in.rows, in.columns);
    cuda_launched(cuda, "fp8 largest");
    scales_kernel<<<(unsigned)ceil_div(in.columns, 256), 256, 0, cuda->stream>>>(at, scales.stride,
                                                                                 in.columns);
    cuda_launched(cuda, "fp8 scales");
    transpose_kernel<<<(unsigned)(ceil_div(in.rows, TILE) * across), dim3(TILE, TILE_ROWS), 0,
                       cuda->stream>>>((fp8 *)codes.at, codes.stride, at, scales.stride,
                                       (const T *)in.at, in.stride, in.rows, in.columns, across);
    cuda_launched(cuda, "fp8 transposed");
}

template <typename T>
static void quantize(struct cuda *cuda, struct tensor codes, struct tensor scales, struct tensor in,
                     float smallest, beside<T> other)
{
    pieces shape = { in.rows, 1, (int)in.columns, 1 };
    bool vectors = in_vectors(16 / sizeof(T), { codes, in });
    auto with = [&](auto lanes) {
        return [&, lanes](auto v, auto per) {
            dim3 block = block_of(shape);
            rows_kernel<T, v.value, per.value, lanes.value>
                <<<(unsigned)ceil_div(shape.count, block.y), block, 0, cuda->stream>>>(
                    (fp8 *)codes.at, codes.stride, (float *)scales.at, scales.stride,
                    (const T *)in.at, in.stride, shape, smallest, other);
            cuda_launched(cuda, "fp8 rows");
        };
    };
    // A multiprocessor is to have two rows at once: wide ones need many registers of few threads.
    const int64_t several = 8 * MOST_LANES, two = 8 * (16 / sizeof(T)) * TWO_ROWS;
    if (vectors && in.columns > several && in.columns <= two)
        share_out<T, 8>(cuda, &shape, vectors, with(width<TWO_ROWS>()));
    else if (in.columns > several)
        share_out<T, 8>(cuda, &shape, vectors, with(width<MOST_LANES>()));
    else
        share_out<T>(cuda, &shape, vectors, with(width<MOST_LANES>()));
}

void cuda_quantize_rows(struct device *device, struct tensor codes, struct tensor scales,
                        struct tensor in, bool transposed)
{
    struct cuda *cuda = cuda_of(device);
    if (cuda->err || !in.rows || !in.columns)
        return;
    with_type(cuda, in.dtype, [&](auto t) {
        using T = decltype(t);
        if (transposed)
            transposed_rows<T>(cuda, codes, scales, in);
        else
            quantize<T>(cuda, codes, scales, in, LEAST, beside<T>{});
    });
}

void cuda_quantize_inputs(struct device *device, struct tensor codes, struct tensor scales,
                          struct tensor x, struct tensor z, struct tensor shifts)
{
    struct cuda *cuda = cuda_of(device);
    if (cuda->err || !x.rows || !x.columns)
        return;
    with_type(cuda, x.dtype, [&](auto t) {
        using T = decltype(t);
        beside<T> other = { (const T *)z.at, z.stride, (const float *)shifts.at, (int)z.columns,
                            (int)(codes.columns - x.columns) };
        quantize<T>(cuda, codes, scales, x, 0, other);
    });
}

// --- adapters beside weights -------------------------------------------------

enum { FACTOR_THREADS = 256, FACTOR_BLOCKS = 1056 };

template <typename T> struct factor {
    const T *at;
    int64_t row_stride, column_stride; // of its N rows and R columns
    const float *scales;
    int64_t scales_stride;
    unsigned rows, columns;

    __device__ float operator()(unsigned n, unsigned r) const
    {
        return widen(at[n * row_stride + r * column_stride]) / scales[n * scales_stride];
    }
};

// The largest magnitude of each column, as its bits.
template <typename T> __global__ void factor_most_kernel(unsigned *most, factor<T> b)
{
    extern __shared__ unsigned own[];
    for (unsigned r = threadIdx.x; r < b.columns; r += blockDim.x)
        own[r] = 0;
    __syncthreads();
    unsigned count = b.rows * b.columns, step = gridDim.x * blockDim.x;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        atomicMax(own + i % b.columns, __float_as_uint(fabsf(b(i / b.columns, i % b.columns))));
    __syncthreads();
    for (unsigned r = threadIdx.x; r < b.columns; r += blockDim.x)
        atomicMax(most + r, own[r]);
}

// The power of two by which z is multiplied, and b divided.
static __device__ inline float shift_of(unsigned most)
{
    unsigned exponent = most >> 23;
    return exponent > 7 ? __uint_as_float((exponent - 7) << 23) : 1.0f;
}

template <typename T>
__global__ void factor_kernel(fp8 *codes, int64_t stride, float *shifts, const unsigned *most,
                              factor<T> b)
{
    unsigned count = b.rows * b.columns, step = gridDim.x * blockDim.x;
    unsigned first = blockIdx.x * blockDim.x + threadIdx.x;
    if (first < b.columns)
        shifts[first] = shift_of(most[first]);
    for (unsigned i = first; i < count; i += step) {
        unsigned n = i / b.columns, r = i % b.columns;
        float number = b(n, r) / shift_of(most[r]);
        fp8 *out = codes + n * stride + r;
        out[0] = out[b.columns] = high_of(number);
        out[2 * b.columns] = low_of(number);
    }
}

void cuda_quantize_adapters(struct device *device, struct tensor codes, struct tensor shifts,
                            struct tensor b, bool transposed, struct tensor scales)
{
    struct cuda *cuda = cuda_of(device);
    if (cuda->err || !codes.rows || !shifts.columns)
        return;
    unsigned *most = (unsigned *)cuda->partials;
    int64_t count = codes.rows * shifts.columns, bytes = 4 * shifts.columns;
    unsigned blocks = (unsigned)least(ceil_div(count, FACTOR_THREADS), FACTOR_BLOCKS);
    if (count > INT32_MAX || bytes > 48 << 10)
        return cuda_fail(cuda, ERR_UNAVAILABLE, "adapters beside fp8: too many columns");
    with_type(cuda, b.dtype, [&](auto t) {
        using T = decltype(t);
        factor<T> from = { (const T *)b.at,
                           transposed ? 1 : b.stride,
                           transposed ? b.stride : 1,
                           (const float *)scales.at,
                           scales.stride,
                           (unsigned)codes.rows,
                           (unsigned)shifts.columns };
        cuda_check(cuda, cudaMemsetAsync(most, 0, (size_t)bytes, cuda->stream), "fp8 adapters");
        factor_most_kernel<<<blocks, FACTOR_THREADS, (size_t)bytes, cuda->stream>>>(most, from);
        cuda_launched(cuda, "fp8 adapters");
        factor_kernel<<<blocks, FACTOR_THREADS, 0, cuda->stream>>>((fp8 *)codes.at, codes.stride,
                                                                   (float *)shifts.at, most, from);
        cuda_launched(cuda, "fp8 adapters");
    });
}
