// RMSNorm with the addition before it; cpu/norm.c has the formulas.
//
// A piece (a row, or a head of it) stays in the registers of the threads that share it: a block, or
// some lanes of a warp where it is narrow. Each element is read once and written once.

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
                   rows_of<T> b, operand weight, float epsilon, pieces shape)
{
    int64_t piece = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    int64_t row = piece / shape.per_row, at = piece % shape.per_row;
    bool here = piece < shape.count;
    pack<V, T> first[PER], second[PER];
    float x[PER][V], squares = 0;
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
            squares += x[j][i] * x[j][i];
    }
    squares = group_sum(squares, shape.lanes);
    float r = 1.0f / sqrtf(squares / (float)shape.width + epsilon);
    if (rms.dtype == DTYPE_BF16)
        r = widen(narrow<bf16>(r)); // a norm made again from rms must equal this one
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
            x[j][i] *= r * w[i];
        store(out.at + row * out.stride + at * shape.width + c, x[j]);
    }
}

// All is read before anything is written, by the thread that writes it: dx may be dout or residual.
template <typename T, int V, int PER>
__global__ void __launch_bounds__(most_lanes<T, V>)
    backward_kernel(rows_of<T> dx, rows_of<T> residual, rows_of<T> dout, rows_of<T> x, operand rms,
                    int64_t rms_stride, operand weight, pieces shape)
{
    int64_t piece = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    int64_t row = piece / shape.per_row, at = piece % shape.per_row;
    bool here = piece < shape.count;
    pack<V, T> inputs[PER], gradients[PER], befores[PER];
    float sum = 0;
#pragma unroll
    for (int j = 0; j < PER; j++) {
        int c = (j * shape.lanes + (int)threadIdx.x) * V;
        if (!here || c >= shape.width)
            continue;
        fetch(inputs[j], x.at + row * x.stride + at * shape.width + c);
        fetch(gradients[j], dout.at + row * dout.stride + at * shape.width + c);
        if (residual.at)
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
            sum += s[i] * w[i] * d[i];
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
        if (residual.at)
            unpack(before, befores[j]);
#pragma unroll
        for (int i = 0; i < V; i++)
            before[i] += r * (w[i] * d[i] - s[i] * pull);
        store(dx.at + row * dx.stride + at * shape.width + c, before);
    }
}

template <typename T, int WIDTH> struct weight_gradient {
    enum { V = WIDTH };
    rows_of<T> dout, x;
    operand rms;
    int64_t rms_stride;
    int per_row, width;

    __device__ void operator()(float (&sum)[V], int64_t piece, int64_t column) const
    {
        int64_t row = per_row == 1 ? piece : piece / per_row, at = piece - row * per_row;
        float s[V], d[V], r = load_any(rms, row * rms_stride + at);
        load(s, x.at + row * x.stride + at * width + column);
        load(d, dout.at + row * dout.stride + at * width + column);
#pragma unroll
        for (int i = 0; i < V; i++)
            sum[i] += d[i] * s[i] * r;
    }
};

// --- launches ----------------------------------------------------------------

static pieces pieces_of(struct tensor x, struct tensor weight)
{
    int per_row = weight.columns ? (int)(x.columns / weight.columns) : 0;
    return pieces{ x.rows * per_row, per_row, (int)weight.columns, 1 };
}

static bool one_type(struct cuda *cuda, enum dtype dtype, std::initializer_list<struct tensor> all)
{
    for (struct tensor t : all)
        if (t.at && t.dtype != dtype) {
            cuda_fail(cuda, ERR_UNAVAILABLE, "a norm on a GPU takes rows of one type");
            return false;
        }
    return true;
}

// A piece must begin where a vector may, too.
static bool in_pieces(int most, int width, std::initializer_list<struct tensor> all)
{
    return width % most == 0 && in_vectors(most, all);
}

void cuda_norm_forward(struct device *device, struct tensor sum, struct tensor out,
                       struct tensor rms, struct tensor a, struct tensor b, struct tensor weight,
                       double epsilon)
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
                    rows_at<T>(b), any_of(weight), (float)epsilon, shape);
            cuda_launched(cuda, "norm");
        });
    });
}

void cuda_norm_backward(struct device *device, struct tensor dx, struct tensor dweight,
                        struct tensor residual, struct tensor dout, struct tensor x,
                        struct tensor rms, struct tensor weight)
{
    struct cuda *cuda = cuda_of(device);
    pieces shape = pieces_of(x, weight);
    if (cuda->err || !shape.count || !one_type(cuda, x.dtype, { dx, residual, dout }))
        return;
    with_type(cuda, x.dtype, [&](auto t) {
        using T = decltype(t);
        const int most = 16 / sizeof(T);
        bool vectors = in_pieces(most, shape.width, { dx, residual, dout, x, weight });
        if (dweight.at) // first, since dx may be dout
            with_width<most>(vectors, [&](auto v) {
                weight_gradient<T, v.value> op = { rows_at<T>(dout), rows_at<T>(x), any_of(rms),
                                                   rms.stride,       shape.per_row, shape.width };
                add_columns(cuda, dweight, op, shape.count, shape.width, "norm weight gradient");
            });
        share_out<T>(cuda, &shape, vectors, [&](auto v, auto per) {
            dim3 block = block_of(shape);
            if (shape.lanes > most_lanes<T, v.value>)
                return too_wide(cuda, shape);
            backward_kernel<T, v.value, per.value>
                <<<(unsigned)ceil_div(shape.count, block.y), block, 0, cuda->stream>>>(
                    rows_at<T>(dx), rows_at<T>(residual), rows_at<T>(dout), rows_at<T>(x),
                    any_of(rms), rms.stride, any_of(weight), shape);
            cuda_launched(cuda, "norm gradient");
        });
    });
}
