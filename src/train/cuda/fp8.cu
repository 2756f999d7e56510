// SPDX-License-Identifier: Apache-2.0
// Quantizes rows to fp8 (e4m3), each with its own scale.

#include "train/cuda/kernels.cuh"
#include "train/cuda/operations.h"

#define LARGEST 448.0f

static __device__ inline float scale_of(float largest)
{
    return largest > 0 ? largest / LARGEST : 1.0f;
}

template <typename T, int V, int PER>
__global__ void __launch_bounds__(MOST_LANES)
    rows_kernel(fp8 *codes, int64_t codes_stride, float *scales, int64_t scales_stride, const T *in,
                int64_t in_stride, pieces shape)
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
    float scale = scale_of(group_max(most, shape.lanes)), factor = 1.0f / scale;
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
        scales[i * stride] = scale_of(scales[i * stride]);
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

void cuda_quantize_rows(struct device *device, struct tensor codes, struct tensor scales,
                        struct tensor in, bool transposed)
{
    struct cuda *cuda = cuda_of(device);
    if (cuda->err || !in.rows || !in.columns)
        return;
    with_type(cuda, in.dtype, [&](auto t) {
        using T = decltype(t);
        if (transposed)
            return transposed_rows<T>(cuda, codes, scales, in);
        pieces shape = { in.rows, 1, (int)in.columns, 1 };
        bool vectors = in_vectors(16 / sizeof(T), { codes, in });
        share_out<T>(cuda, &shape, vectors, [&](auto v, auto per) {
            dim3 block = block_of(shape);
            rows_kernel<T, v.value, per.value>
                <<<(unsigned)ceil_div(shape.count, block.y), block, 0, cuda->stream>>>(
                    (fp8 *)codes.at, codes.stride, (float *)scales.at, scales.stride,
                    (const T *)in.at, in.stride, shape);
            cuda_launched(cuda, "fp8 rows");
        });
    });
}
