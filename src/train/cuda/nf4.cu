// SPDX-License-Identifier: Apache-2.0
// To and from NF4, as train/nf4.h defines it, and MXFP4. Codes equal those of the CPU byte for
// byte.

#include "train/cuda/kernels.cuh"
#include "train/cuda/operations.h"
#include "train/mxfp4.h"
#include "train/nf4_tables.h"

#include <math.h>
#include <stdlib.h>

enum { LEVELS = 16, NESTED_LEVELS = 256 };

static __constant__ float levels[LEVELS] = { NF4_LEVEL_TABLE };
static __constant__ float mxfp4_levels[LEVELS] = { MXFP4_LEVEL_TABLE };
static __constant__ float middles[LEVELS - 1] = { NF4_MIDDLE_TABLE };

// --- numbers from codes ------------------------------------------------------

// Finds the scale of an element by shifts: blocks are powers of two, and a division would take
// longer than everything else.
struct places {
    int block, nested; // of how many bits
};

static int bits_of(int64_t size)
{
    int bits = 0;
    while (bits < 62 && (int64_t)1 << bits < size)
        bits++;
    return (int64_t)1 << bits == size ? bits : -1;
}

// With two roundings, as on the CPU.
static __device__ inline float scale_of(const struct quantized &in, int64_t at, places bits,
                                        float offset)
{
    int64_t block = at >> bits.block;
    if (in.is_mxfp4)
        return mxfp4_power(in.nested_codes[block]);
    if (in.scales)
        return in.scales[block];
    float level = in.levels[in.nested_codes[block]];
    return __fadd_rn(__fmul_rn(level, in.nested[block >> bits.nested]), offset);
}

enum { WIDTH = 8, DEEP = 4, THREADS = 256 };

// Matrices in equal distances: elements of the output, bytes of each array of the input.
struct distances {
    int64_t out, in;
};

template <typename T> static __device__ inline T *later(T *at, int64_t bytes)
{
    return at ? (T *)((char *)at + bytes) : at;
}

static __device__ inline float offset_of(const struct quantized &in)
{
    return in.offset ? *in.offset : 0;
}

static __device__ inline struct quantized later(const struct quantized &in, int64_t bytes)
{
    return { later(in.codes, bytes),
             later(in.scales, bytes),
             later(in.nested_codes, bytes),
             later(in.nested, bytes),
             later(in.levels, bytes),
             later(in.offset, bytes),
             in.block,
             in.nested_block,
             in.is_mxfp4 };
}

// A thread has 8 columns of DEEP rows: it loads all their codes before it uses the first.
template <typename T>
__global__ void __launch_bounds__(THREADS)
    dequantize_kernel(T *out, int64_t stride, const struct quantized first_in, distances each,
                      places bits, int64_t rows, int64_t columns)
{
    const struct quantized in = later(first_in, blockIdx.z * each.in);
    out += blockIdx.z * each.out;
    __shared__ float table[LEVELS];
    int thread = threadIdx.y * blockDim.x + threadIdx.x;
    if (thread < LEVELS)
        table[thread] = in.is_mxfp4 ? mxfp4_levels[thread] : levels[thread];
    __syncthreads();
    int64_t c = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * WIDTH;
    float offset = offset_of(in);
    if (c >= columns)
        return;
    for (int64_t first = (int64_t)blockIdx.y * blockDim.y * DEEP + threadIdx.y; first < rows;
         first += (int64_t)gridDim.y * blockDim.y * DEEP) {
        uint32_t codes[DEEP] = { 0 };
        float scale[DEEP] = { 0 };
#pragma unroll
        for (int j = 0; j < DEEP; j++) {
            int64_t r = first + j * blockDim.y, at = r * columns + c;
            if (r < rows) {
                codes[j] = __ldcs((const uint32_t *)(in.codes + at / 2));
                scale[j] = scale_of(in, at, bits, offset);
            }
        }
#pragma unroll
        for (int j = 0; j < DEEP; j++) {
            int64_t r = first + j * blockDim.y;
            float x[WIDTH];
#pragma unroll
            for (int i = 0; i < WIDTH; i++) // bytes in order, the high half first
                x[i] = table[codes[j] >> (i / 2 * 8 + (i % 2 ? 0 : 4)) & 15] * scale[j];
            if (r < rows)
                store(out + r * stride + c, x);
        }
    }
}

struct dequantize_one {
    enum { V = 1 };
    operand out;
    int64_t stride, rows, columns;
    struct quantized first_in;
    distances each;
    places bits;

    __device__ void operator()(int64_t row_of_all, int64_t column) const
    {
        int64_t matrix = row_of_all / rows, row = row_of_all % rows;
        struct quantized in = later(first_in, matrix * each.in);
        int64_t at = row * columns + column;
        int code = in.codes[at / 2] >> (at % 2 ? 0 : 4) & 15;
        float level = in.is_mxfp4 ? mxfp4_levels[code] : levels[code];
        float scale = scale_of(in, at, bits, offset_of(in));
        store_any(out, matrix * each.out + row * stride + column, level * scale);
    }
};

void cuda_experts_dequantize(struct device *device, struct expert_matrices all,
                             const struct quantized *in, int64_t step)
{
    struct cuda *cuda = cuda_of(device);
    struct tensor out = all.each;
    distances each = { all.step, step };
    if (cuda->err || !out.rows || !out.columns || !all.count)
        return;
    bool nested = !in->scales && !in->is_mxfp4;
    places bits = { bits_of(in->block), nested ? bits_of(in->nested_block) : 0 };
    if (bits.block < 0 || bits.nested < 0)
        return cuda_fail(cuda, ERR_UNAVAILABLE,
                         "4-bit weights on a GPU need block sizes that are powers of two");
    if (!in_vectors(WIDTH, { out }) || all.step % WIDTH || in->block % WIDTH ||
        ((uintptr_t)in->codes | (uintptr_t)step) % 4) {
        dequantize_one op = { any_of(out), out.stride, out.rows, out.columns, *in, each, bits };
        return map(cuda, op, all.count * out.rows, out.columns, "dequantize");
    }
    int64_t across = out.columns / WIDTH;
    int x = power_of_two(least(across, THREADS)), y = THREADS / x;
    int64_t high = ceil_div(out.rows, (int64_t)y * DEEP);
    dim3 grid((unsigned)ceil_div(across, x), (unsigned)least(high, MAP_ROWS), (unsigned)all.count);
    with_type(cuda, out.dtype, [&](auto t) {
        using T = decltype(t);
        dequantize_kernel<T><<<grid, dim3((unsigned)x, (unsigned)y), 0, cuda->stream>>>(
            (T *)out.at, out.stride, *in, each, bits, out.rows, out.columns);
        cuda_launched(cuda, "dequantize");
    });
}

void cuda_dequantize(struct device *device, struct tensor out, const struct quantized *in)
{
    cuda_experts_dequantize(device, expert_matrices{ out, 0, 0, 1 }, in, 0);
}

// --- codes from numbers ------------------------------------------------------

static __device__ inline float reciprocal(float scale)
{
    return scale > 0 ? 1.0f / scale : 0;
}

static __device__ inline unsigned encode(float value)
{
    unsigned code = 0;
#pragma unroll
    for (int m = 0; m < LEVELS - 1; m++)
        code += value > middles[m];
    return code;
}

// A warp per block. Scales are numbers, or powers of MXFP4.
template <typename T>
__global__ void encode_kernel(uint8_t *codes, float *scales, uint8_t *powers, const T *in,
                              int64_t stride, int64_t rows, int64_t columns, int64_t block,
                              int64_t blocks)
{
    int64_t index = (int64_t)blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    int64_t first = index * block, count = rows * columns;
    int lane = threadIdx.x % 32;
    if (index >= blocks)
        return;
    auto value = [&](int64_t at) {
        return at >= count         ? 0.0f
               : stride == columns ? widen(in[at])
                                   : widen(in[at / columns * stride + at % columns]);
    };
    int64_t end = first + block < count ? first + block : count;
    unsigned most = 0; // magnitudes are ordered like their bits
    for (int64_t at = first + lane; at < end; at += 32)
        most = max(most, __float_as_uint(fabsf(value(at))));
    most = __reduce_max_sync(0xFFFFFFFFu, most);
    float scale = __uint_as_float(most);
    unsigned power = mxfp4_scale(scale);
    float factor = powers ? mxfp4_inverse(power) : reciprocal(scale);
    auto code = [&](int64_t at) {
        float x = value(at) * factor;
        return at >= end ? 0 : powers ? mxfp4_code(x) : encode(x);
    };
    for (int64_t at = first + 2 * lane; at < end; at += 64)
        codes[at / 2] = (uint8_t)(code(at) << 4 | code(at + 1));
    if (!lane && powers)
        powers[index] = (uint8_t)power;
    else if (!lane)
        scales[index] = scale;
}

struct nested_levels {
    float at[NESTED_LEVELS];
};

// A thread block per block of scales; the first one also writes the levels and the offset.
static __global__ void nest_kernel(const struct quantized out, const float *scales,
                                   const double *total, int64_t blocks,
                                   const __grid_constant__ nested_levels table)
{
    __shared__ float between[NESTED_LEVELS];
    __shared__ unsigned most;
    float offset = (float)(*total / (double)blocks);
    int64_t first = (int64_t)blockIdx.x * out.nested_block;
    int64_t end = first + out.nested_block < blocks ? first + out.nested_block : blocks;
    int i = threadIdx.x;
    between[i] =
        i + 1 < NESTED_LEVELS ? __fmul_rn(__fadd_rn(table.at[i], table.at[i + 1]), 0.5f) : INFINITY;
    if (i == 0)
        most = 0;
    __syncthreads();
    for (int64_t at = first + i; at < end; at += blockDim.x)
        atomicMax(&most, __float_as_uint(fabsf(__fsub_rn(scales[at], offset))));
    __syncthreads();
    float top = __uint_as_float(most), factor = reciprocal(top);
    for (int64_t at = first + i; at < end; at += blockDim.x) {
        float value = __fmul_rn(__fsub_rn(scales[at], offset), factor);
        int low = 0, high = NESTED_LEVELS - 1;
        while (low < high) {
            int half = (low + high) / 2;
            if (value > between[half])
                low = half + 1;
            else
                high = half;
        }
        out.nested_codes[at] = (uint8_t)low;
    }
    if (i == 0)
        out.nested[blockIdx.x] = top;
    if (blockIdx.x)
        return;
    out.levels[i] = table.at[i];
    if (i == 0)
        *out.offset = offset;
}

static int compare(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

// Seven decades, each with twice as many steps as the one below; then 0, and 1.
static nested_levels make_nested_levels(void)
{
    nested_levels out;
    int count = 0;
    for (int decade = 0; decade < 7; decade++)
        for (int i = 0, steps = 1 << decade; i < steps; i++) {
            double value = pow(10, decade - 6) * (0.1 + 0.9 * (i + 0.5) / steps);
            out.at[count++] = (float)value;
            out.at[count++] = (float)-value;
        }
    out.at[count++] = 0;
    out.at[count++] = 1;
    qsort(out.at, NESTED_LEVELS, sizeof *out.at, compare);
    return out;
}

void cuda_quantize(struct device *device, const struct quantized *out, struct tensor in,
                   void *workspace)
{
    struct cuda *cuda = cuda_of(device);
    int64_t blocks = out->block ? ceil_div(in.rows * in.columns, out->block) : 0;
    float *scales = out->scales ? out->scales : (float *)workspace;
    if (cuda->err || !blocks)
        return;
    if (out->block % 2)
        return cuda_fail(cuda, ERR_UNAVAILABLE, "4-bit weights need block sizes that are even");
    uint8_t *powers = out->is_mxfp4 ? out->nested_codes : NULL;
    with_type(cuda, in.dtype, [&](auto t) {
        using T = decltype(t);
        encode_kernel<<<(unsigned)ceil_div(blocks, THREADS / 32), THREADS, 0, cuda->stream>>>(
            out->codes, scales, powers, (const T *)in.at, in.rows > 1 ? in.stride : in.columns,
            in.rows, in.columns, out->block, blocks);
        cuda_launched(cuda, "quantize");
    });
    if (out->scales || powers || cuda->err)
        return;
    double *total = (double *)cuda->partials + CUDA_PARTIALS / 16; // past what sum() uses
    cuda_check(cuda, cudaMemsetAsync(total, 0, sizeof *total, cuda->stream), "a sum of scales");
    struct tensor sum = { total, DTYPE_F64, 1, 1, 1 },
                  every_scale = { scales, DTYPE_F32, 1, blocks, blocks };
    cuda_sum(device, sum, every_scale);
    nest_kernel<<<(unsigned)ceil_div(blocks, out->nested_block), NESTED_LEVELS, 0, cuda->stream>>>(
        *out, scales, total, blocks, make_nested_levels());
    cuda_launched(cuda, "quantize scales");
}
