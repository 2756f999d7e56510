// SPDX-License-Identifier: Apache-2.0
// RoPE, in place. A thread block rotates one token: it computes the angles once for all heads.

#include "train/cuda/kernels.cuh"
#include "train/cuda/operations.h"

enum { THREADS = 256, MOST_PAIRS = 1024 };

// The angle is reduced in fp64 (positions reach 10⁵ and more), its sine taken in fp32.
static __device__ inline void turn(float *cosine, float *sine, double angle)
{
    const double circle = 6.283185307179586476925286766559;
    angle -= circle * rint(angle * (1 / circle));
    sincosf((float)angle, sine, cosine);
}

template <typename T, int V>
__global__ void rotary_kernel(T *x, int64_t stride, const int32_t *positions,
                              const double *frequencies, int heads, int head_size, int half,
                              float direction, float scale)
{
    extern __shared__ float angles[];
    float *cosines = angles, *sines = angles + half;
    T *row = x + (int64_t)blockIdx.x * stride;
    for (int i = threadIdx.x; i < half; i += blockDim.x)
        turn(cosines + i, sines + i, positions[blockIdx.x] * frequencies[i]);
    __syncthreads();
    int across = half / V;
    for (int item = threadIdx.x; item < heads * across; item += blockDim.x) {
        int i = item % across * V;
        T *first = row + (int64_t)(item / across) * head_size + i, *second = first + half;
        float a[V], b[V], c[V], d[V];
        load(a, first);
        load(b, second);
#pragma unroll
        for (int j = 0; j < V; j++) {
            float cosine = scale * cosines[i + j], sine = scale * direction * sines[i + j];
            c[j] = a[j] * cosine - b[j] * sine;
            d[j] = b[j] * cosine + a[j] * sine;
        }
        store(first, c);
        store(second, d);
    }
}

void cuda_rotary(struct device *device, struct tensor x, const int32_t *positions,
                 struct tensor frequencies, int64_t head_size, int direction, double scale)
{
    struct cuda *cuda = cuda_of(device);
    int half = (int)frequencies.columns, heads = (int)(x.columns / head_size);
    if (cuda->err || !x.rows || !heads)
        return;
    if (half > MOST_PAIRS || frequencies.dtype != DTYPE_F64)
        return cuda_fail(cuda, ERR_UNAVAILABLE,
                         "RoPE on a GPU supports head sizes up to %d and fp64 frequencies",
                         2 * MOST_PAIRS);
    with_type(cuda, x.dtype, [&](auto t) {
        using T = decltype(t);
        const int most = 16 / sizeof(T);
        bool whole = half % most == 0 && head_size % most == 0;
        with_width<most>(whole && in_vectors(most, { x }), [&](auto w) {
            int items = heads * half / w.value;
            int threads = (int)least((items + 31) / 32 * 32, THREADS);
            size_t shared = 2 * (size_t)half * sizeof(float);
            rotary_kernel<T, w.value><<<(unsigned)x.rows, threads, shared, cuda->stream>>>(
                (T *)x.at, x.stride, positions, (const double *)frequencies.at, heads,
                (int)head_size, half, (float)direction, (float)scale);
            cuda_launched(cuda, "rotary");
        });
    });
}
