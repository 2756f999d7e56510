// SPDX-License-Identifier: Apache-2.0
// RMSNorm with the addition before it; cpu/norm.c has the formulas.
//
// A piece (a row, or a head of it) stays in the registers of the threads that share it: a thread
// block, or some lanes of a warp if it is narrow. Each element is read once and written once.

#include "train/cuda/kernels.cuh"
#include "train/cuda/operations.h"

template <typename T> struct rows_of {
    T *at;
    int64_t stride;
};

template <typename T> static rows_of<T> rows_at(struct tensor t)
{
    return rows_of<T>{ (T *)t.at, t.stride };
}

// Threads that may share a piece: a multiprocessor has 65,536 registers.
template <typename T, int V> constexpr int most_lanes = sizeof(T) * V == 16 && V == 8 ? 512 : 1024;

template <typename T, int V, int PER>
__global__ void __launch_bounds__(most_lanes<T, V>)
    forward_kernel(rows_of<T> sum, rows_of<T> out, operand rms, int64_t rms_stride, rows_of<T> a,
                   rows_of<T> b, operand weight, float offset, float epsilon, pieces shape)
{
    int64_t piece = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    int64_t row = piece / shape.per_row, at = piece % shape.per_row;
    bool here = piece < shape.count;
    pack<V, T> first[PER], second[PER];
    float x[PER][V], sum_squares = 0;
#pragma unroll
    for (int j = 0; j < PER; j++) {
        int c = (j * shape.lanes + (int)threadIdx.x) * V;
        if (!here || c >= shape.width)
            continue;
        fetch(first[j], a.at + row * a.stride + at * shape.width + c);
        if (b.at)
            fetch(second[j], b.at + row * b.stride + at * shape.width + c);
    }
#pragma unroll
    for (int j = 0; j < PER; j++) {
        int c = (j * shape.lanes + (int)threadIdx.x) * V;
        if (!here || c >= shape.width)
            continue;
        unpack(x[j], first[j]);
        if (b.at) {
            float y[V];
            unpack(y, second[j]);
#pragma unroll
            for (int i = 0; i < V; i++)
                x[j][i] = widen(narrow<T>(x[j][i] + y[i])); // as later passes will read it
            store(sum.at + row * sum.stride + at * shape.width + c, x[j]);
        }
#pragma unroll
        for (int i = 0; i < V; i++)
            sum_squares += x[j][i] * x[j][i];
    }
    sum_squares = group_sum(sum_squares, shape.lanes);
    float r = 1.0f / sqrtf(sum_squares / (float)shape.width + epsilon);
    if (rms.dtype == DTYPE_BF16)
        r = widen(narrow<bf16>(r)); // a norm recomputed from rms must equal this one
    if (here && threadIdx.x == 0)
        store_any(rms, row * rms_stride + at, r);
#pragma unroll
    for (int j = 0; j < PER; j++) {
        int c = (j * shape.lanes + (int)threadIdx.x) * V;
        if (!here || c >= shape.width)
            continue;
        float w[V];
        load_any(w, weight, c);
#pragma unroll
        for (int i = 0; i < V; i++)
            x[j][i] *= r * (offset + w[i]);
        store(out.at + row * out.stride + at * shape.width + c, x[j]);
    }
}

// Sums each column over the rows of a thread block, in order.
template <int V, int PER>
static __device__ inline void sum_block(float *out, const float (&sums)[PER][V], pieces shape)
{
    __shared__ float parts[PIECES_BLOCK * PER * V]; // used if the block has several rows
    int own = (threadIdx.y * shape.lanes + threadIdx.x) * PER * V;
    for (int j = 0; blockDim.y > 1 && j < PER * V; j++)
        parts[own + j] = sums[j / V][j % V];
    __syncthreads();
    if (threadIdx.y)
        return;
#pragma unroll
    for (int j = 0; j < PER; j++) {
        int c = (j * shape.lanes + (int)threadIdx.x) * V;
        if (c >= shape.width)
            continue;
        float total[V];
#pragma unroll
        for (int i = 0; i < V; i++) {
            total[i] = sums[j][i];
            for (int y = 1; y < (int)blockDim.y; y++)
                total[i] += parts[(y * shape.lanes + threadIdx.x) * PER * V + j * V + i];
        }
        store(out + c, total);
    }
}

// Each thread reads its elements of a row before it writes them: dx may be dout or residual. A
// thread block has a slice of the pieces; if the weight is trained, the gradient summed over the
// slice goes to partials.
template <typename T, int V, int PER, bool TRAINED>
__global__ void __launch_bounds__(most_lanes<T, V>)
    backward_kernel(rows_of<T> dx, rows_of<T> residual, rows_of<T> dout, rows_of<T> x, operand rms,
                    int64_t rms_stride, operand weight, float offset, float *partials, pieces shape,
                    int64_t slice)
{
    int64_t first = blockIdx.x * slice;
    int64_t end = first + slice < shape.count ? first + slice : shape.count;
    float sums[PER][V] = {};
    for (int64_t base = first; base < end; base += blockDim.y) {
        int64_t piece = base + threadIdx.y;
        int64_t row = piece / shape.per_row, at = piece % shape.per_row;
        bool here = piece < end;
        pack<V, T> inputs[PER], gradients[PER], befores[PER];
        float sum = 0;
#pragma unroll
        for (int j = 0; j < PER; j++) {
            int c = (j * shape.lanes + (int)threadIdx.x) * V;
            if (!here || c >= shape.width)
                continue;
            fetch(inputs[j], x.at + row * x.stride + at * shape.width + c);
            fetch(gradients[j], dout.at + row * dout.stride + at * shape.width + c);
            if (residual.at && !TRAINED)
                fetch(befores[j], residual.at + row * residual.stride + at * shape.width + c);
        }
#pragma unroll
        for (int j = 0; j < PER; j++) {
            int c = (j * shape.lanes + (int)threadIdx.x) * V;
            if (!here || c >= shape.width)
                continue;
            float s[V], d[V], w[V];
            unpack(s, inputs[j]);
            unpack(d, gradients[j]);
            load_any(w, weight, c);
#pragma unroll
            for (int i = 0; i < V; i++)
                sum += s[i] * (offset + w[i]) * d[i];
        }
        float mean = group_sum(sum, shape.lanes) / (float)shape.width;
        float r = here ? load_any(rms, row * rms_stride + at) : 0, pull = r * r * mean;
#pragma unroll
        for (int j = 0; j < PER; j++) {
            int c = (j * shape.lanes + (int)threadIdx.x) * V;
            if (!here || c >= shape.width)
                continue;
            float s[V], d[V], w[V], before[V] = { 0 };
            unpack(s, inputs[j]);
            unpack(d, gradients[j]);
            load_any(w, weight, c);
            if (residual.at && TRAINED) // late, to save registers
                fetch(befores[j], residual.at + row * residual.stride + at * shape.width + c);
            if (residual.at)
                unpack(before, befores[j]);
#pragma unroll
            for (int i = 0; i < V; i++) {
                before[i] += r * ((offset + w[i]) * d[i] - s[i] * pull);
                if (TRAINED)
                    sums[j][i] += d[i] * s[i] * r;
            }
            store(dx.at + row * dx.stride + at * shape.width + c, before);
        }
    }
    if (TRAINED)
        sum_block(partials + blockIdx.x * (int64_t)shape.width, sums, shape);
}

// --- launches ----------------------------------------------------------------

enum { SLICES = 512 }; // four blocks per multiprocessor on the largest GPUs

// Pieces per block if the weight is trained: as many rounds of `together` as leave room for the
// partial sums.
static int64_t slice_of(pieces shape, int64_t together)
{
    int64_t slices = least(SLICES, CUDA_PARTIALS / (4 * (int64_t)shape.width));
    return ceil_div(ceil_div(shape.count, slices), together) * together;
}

static pieces pieces_of(struct tensor x, struct tensor weight)
{
    int per_row = weight.columns ? (int)(x.columns / weight.columns) : 0;
    return pieces{ x.rows * per_row, per_row, (int)weight.columns, 1 };
}

static bool one_type(struct cuda *cuda, enum dtype dtype, std::initializer_list<struct tensor> all)
{
    for (struct tensor t : all)
        if (t.at && t.dtype != dtype) {
            cuda_fail(cuda, ERR_UNAVAILABLE, "a norm on a GPU needs rows of one type");
            return false;
        }
    return true;
}

// Pieces must be aligned for vector loads, too.
static bool in_pieces(int most, int width, std::initializer_list<struct tensor> all)
{
    return width % most == 0 && in_vectors(most, all);
}

void cuda_norm_forward(struct device *device, struct tensor sum, struct tensor out,
                       struct tensor rms, struct tensor a, struct tensor b, struct tensor weight,
                       double offset, double epsilon)
{
    struct cuda *cuda = cuda_of(device);
    pieces shape = pieces_of(a, weight);
    if (cuda->err || !shape.count || !one_type(cuda, a.dtype, { sum, out, b }))
        return;
    with_type(cuda, a.dtype, [&](auto t) {
        using T = decltype(t);
        bool vectors = in_pieces(16 / sizeof(T), shape.width, { sum, out, a, b, weight });
        share_out<T>(cuda, &shape, vectors, [&](auto v, auto per) {
            dim3 block = block_of(shape);
            if (shape.lanes > most_lanes<T, v.value>)
                return too_wide(cuda, shape);
            forward_kernel<T, v.value, per.value>
                <<<(unsigned)ceil_div(shape.count, block.y), block, 0, cuda->stream>>>(
                    rows_at<T>(sum), rows_at<T>(out), any_of(rms), rms.stride, rows_at<T>(a),
                    rows_at<T>(b), any_of(weight), (float)offset, (float)epsilon, shape);
            cuda_launched(cuda, "norm");
        });
    });
}

void cuda_norm_backward(struct device *device, struct tensor dx, struct tensor dweight,
                        struct tensor residual, struct tensor dout, struct tensor x,
                        struct tensor rms, struct tensor weight, double offset)
{
    struct cuda *cuda = cuda_of(device);
    pieces shape = pieces_of(x, weight);
    if (cuda->err || !shape.count || !one_type(cuda, x.dtype, { dx, residual, dout }))
        return;
    with_type(cuda, x.dtype, [&](auto t) {
        using T = decltype(t);
        bool vectors = in_pieces(16 / sizeof(T), shape.width, { dx, residual, dout, x, weight });
        share_out<T>(cuda, &shape, vectors, [&](auto v, auto per) {
            dim3 block = block_of(shape);
            if (shape.lanes > most_lanes<T, v.value>)
                return too_wide(cuda, shape);
            auto launch = [&](auto kernel, int64_t slice) {
                kernel<<<(unsigned)ceil_div(shape.count, slice), block, 0, cuda->stream>>>(
                    rows_at<T>(dx), rows_at<T>(residual), rows_at<T>(dout), rows_at<T>(x),
                    any_of(rms), rms.stride, any_of(weight), (float)offset, (float *)cuda->partials,
                    shape, slice);
                cuda_launched(cuda, "norm gradient");
            };
            if (!dweight.at)
                return launch(backward_kernel<T, v.value, per.value, false>, block.y);
            int64_t slice = slice_of(shape, block.y);
            launch(backward_kernel<T, v.value, per.value, true>, slice);
            finish_columns(cuda, dweight, ceil_div(shape.count, slice), "norm weight gradient");
        });
    });
}
