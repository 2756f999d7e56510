// SPDX-License-Identifier: Apache-2.0
// Products of the experts of a mixture: one launch for all of them, which the host starts without
// knowing how many rows an expert has.
//
// Rows are sorted by expert. nt and nn cut each expert's rows into tiles, of which there are at
// most N / TILE + E, whatever the router chose; that many thread blocks are started for each tile
// of columns. A block adds up the counts to find its expert and its rows; those that are left over
// end at once:
//
//     rows          0        300   340              700
//     expert        │   0    │  1  │        2       │
//     tiles of 128  0  1  2   3     4   5   6        left over: 7, 8
//
// tn has a thread block for each tile of each expert's result, which sums over the expert's rows
// alone. Nothing is added up by two blocks: two runs give the same bits.
//
// bf16 runs on tensor cores: 128 × 128 results of a block, 64 × 64 of a warp in registers, and the
// operands arrive in shared memory in steps of 32, three ahead. An operand lies there as it does in
// memory: `along` the depth, which is summed over, or across it. fp32, and what is not aligned to
// 16 bytes, runs in plain multiplications. experts_wgmma.cu is the tensor cores' on newer devices.

#include "train/cuda/experts.cuh"
#include "train/cuda/operations.h"

// --- on tensor cores ---------------------------------------------------------

enum { TILE = 128, DEEP = 32, STAGES = 4, THREADS = 128, OWN = 64 }; // OWN: of a warp, each way

template <bool ALONG> struct held { // an operand in shared memory; rows are shifted by 16 bytes
    enum {
        ROWS = ALONG ? TILE : DEEP,
        COLUMNS = ALONG ? DEEP : TILE,
        PITCH = COLUMNS + 8,
        SIZE = ROWS * PITCH,
    };
};

// Copies a step of an operand; `outer` rows or columns and `depth` of it exist, zeros follow them.
template <bool ALONG>
static __device__ inline void fetch_step(bf16 *out, const bf16 *from, int64_t stride, int outer,
                                         int depth)
{
    using H = held<ALONG>;
    const int across = H::COLUMNS / 8, rows = ALONG ? outer : depth;
    const int columns = ALONG ? depth : outer;
#pragma unroll
    for (int i = 0; i < H::ROWS * across / THREADS; i++) {
        int at = (int)threadIdx.x + i * THREADS, r = at / across, c = at % across * 8;
        int bytes = r < rows ? max(0, min(16, 2 * (columns - c))) : 0;
        copy16(out + r * H::PITCH + c, bytes ? from + r * stride + c : from, bytes);
    }
}

// 16 × 16 of the left operand, and of the right one: two of mma's.
template <bool ALONG>
static __device__ inline void left_fragment(uint32_t (&x)[4], const bf16 *at, int row, int k)
{
    int r = threadIdx.x % 8, m = threadIdx.x % WARP / 8;
    if constexpr (ALONG)
        load4(x, at + (row + m % 2 * 8 + r) * held<ALONG>::PITCH + k + m / 2 * 8);
    else
        load4_transposed(x, at + (k + m / 2 * 8 + r) * held<ALONG>::PITCH + row + m % 2 * 8);
}

template <bool ALONG>
static __device__ inline void right_fragment(uint32_t (&x)[4], const bf16 *at, int column, int k)
{
    int r = threadIdx.x % 8, m = threadIdx.x % WARP / 8;
    if constexpr (ALONG)
        load4(x, at + (column + m / 2 * 8 + r) * held<ALONG>::PITCH + k + m % 2 * 8);
    else
        load4_transposed(x, at + (k + m % 2 * 8 + r) * held<ALONG>::PITCH + column + m / 2 * 8);
}

// What a warp holds of the result: 4 times 16 rows, 8 times 8 columns.
typedef float sums[OWN / 16][OWN / 8][4];

template <bool A_ALONG, bool B_ALONG>
static __device__ inline void multiply_step(sums &sum, const bf16 *a, const bf16 *b)
{
    int warp = threadIdx.x / WARP, row = warp / 2 * OWN, column = warp % 2 * OWN;
#pragma unroll
    for (int k = 0; k < DEEP; k += 16) {
        uint32_t left[OWN / 16][4], right[OWN / 16][4];
#pragma unroll
        for (int i = 0; i < OWN / 16; i++)
            left_fragment<A_ALONG>(left[i], a, row + i * 16, k);
#pragma unroll
        for (int j = 0; j < OWN / 16; j++)
            right_fragment<B_ALONG>(right[j], b, column + j * 16, k);
#pragma unroll
        for (int i = 0; i < OWN / 16; i++)
#pragma unroll
            for (int j = 0; j < OWN / 8; j++)
                mma(sum[i][j], left[i], right[j / 2] + j % 2 * 2);
    }
}

static __device__ inline void write_sums(const products &p, const task<bf16> &t, const sums &sum)
{
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int row = warp / 2 * OWN + lane / 4, column = warp % 2 * OWN + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < OWN / 16; i++)
#pragma unroll
        for (int j = 0; j < OWN / 8; j++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                int r = row + i * 16 + half * 8, c = column + j * 8;
                if (r < t.m && c < t.n)
                    write_two(p, t.c + r * p.c_stride + c, sum[i][j][half * 2],
                              sum[i][j][half * 2 + 1]);
            }
}

template <kind KIND> struct stage {
    enum { A_ALONG = KIND != TN, B_ALONG = KIND == NT };
    enum { B = (int)held<A_ALONG>::SIZE, SIZE = B + (int)held<B_ALONG>::SIZE };
    enum { BYTES = STAGES * (int)SIZE * 2 };
};

template <kind KIND>
static __device__ inline void fetch_stage(bf16 *memory, const products &p, const task<bf16> &t,
                                          int step)
{
    using S = stage<KIND>;
    bf16 *at = memory + step % STAGES * S::SIZE;
    int64_t k = (int64_t)step * DEEP;
    int left = t.k - (int)k;
    fetch_step<S::A_ALONG>(at, t.a + (S::A_ALONG ? k : k * p.a_stride), p.a_stride, t.m, left);
    fetch_step<S::B_ALONG>(at + S::B, t.b + (S::B_ALONG ? k : k * p.b_stride), p.b_stride, t.n,
                           left);
}

template <kind KIND>
static __global__ void __launch_bounds__(THREADS, 2)
    tensor_kernel(const __grid_constant__ products p)
{
    using S = stage<KIND>;
    extern __shared__ __align__(16) bf16 memory[];
    task<bf16> t = task_of<KIND, bf16, TILE, TILE>(p, blockIdx);
    if (t.m <= 0)
        return;
    int steps = (t.k + DEEP - 1) / DEEP;
    sums sum = {};
#pragma unroll 1
    for (int i = 0; i < STAGES - 1; i++) {
        if (i < steps)
            fetch_stage<KIND>(memory, p, t, i);
        commit();
    }
#pragma unroll 1
    for (int i = 0; i < steps; i++) {
        arrived<STAGES - 2>(); // and all warps have finished the previous step
        if (i + STAGES - 1 < steps)
            fetch_stage<KIND>(memory, p, t, i + STAGES - 1);
        commit();
        const bf16 *at = memory + i % STAGES * S::SIZE;
        multiply_step<S::A_ALONG, S::B_ALONG>(sum, at, at + S::B);
    }
    write_sums(p, t, sum);
}

// --- in plain multiplications ------------------------------------------------

enum { PLAIN = 64, PLAIN_DEEP = 16, PLAIN_THREADS = 256, EACH = 4 }; // EACH: of a thread, each way

template <bool ALONG, typename T>
static __device__ inline void fetch_plain(float (&out)[PLAIN_DEEP][PLAIN + 1], const T *from,
                                          int64_t stride, int outer, int depth)
{
    for (int at = threadIdx.x; at < PLAIN * PLAIN_DEEP; at += PLAIN_THREADS) {
        int o = ALONG ? at / PLAIN_DEEP : at % PLAIN, k = ALONG ? at % PLAIN_DEEP : at / PLAIN;
        bool there = o < outer && k < depth;
        out[k][o] = there ? widen(from[ALONG ? o * stride + k : k * stride + o]) : 0;
    }
}

template <kind KIND, typename T>
static __global__ void plain_kernel(const __grid_constant__ products p)
{
    using S = stage<KIND>;
    __shared__ float a[PLAIN_DEEP][PLAIN + 1], b[PLAIN_DEEP][PLAIN + 1];
    task<T> t = task_of<KIND, T, PLAIN, PLAIN>(p, blockIdx);
    int row = (int)threadIdx.x / (PLAIN / EACH) * EACH, column = (int)threadIdx.x % (PLAIN / EACH);
    float sum[EACH][EACH] = {};
    if (t.m <= 0)
        return;
    for (int k = 0; k < t.k; k += PLAIN_DEEP) {
        const T *from_a = t.a + (S::A_ALONG ? k : k * p.a_stride);
        const T *from_b = t.b + (S::B_ALONG ? k : k * p.b_stride);
        __syncthreads();
        fetch_plain<S::A_ALONG>(a, from_a, p.a_stride, t.m, t.k - k);
        fetch_plain<S::B_ALONG>(b, from_b, p.b_stride, t.n, t.k - k);
        __syncthreads();
#pragma unroll
        for (int l = 0; l < PLAIN_DEEP; l++)
#pragma unroll
            for (int i = 0; i < EACH; i++)
#pragma unroll
                for (int j = 0; j < EACH; j++)
                    sum[i][j] += a[l][row + i] * b[l][column + j * (PLAIN / EACH)];
    }
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++) {
            int r = row + i, c = column + j * (PLAIN / EACH);
            int64_t at = t.c + r * p.c_stride + c;
            if (r < t.m && c < t.n)
                store_any(p.c, at,
                          p.alpha * sum[i][j] + (p.beta != 0 ? p.beta * load_any(p.c, at) : 0));
        }
}

// --- launches ----------------------------------------------------------------

static bool are_aligned(struct tensor c, struct tensor a, struct tensor b, int64_t step, kind kind)
{
    auto in_sixteens = [](struct tensor t) {
        return (uintptr_t)t.at % 16 == 0 && t.stride % 8 == 0;
    };
    return in_sixteens(a) && in_sixteens(b) && in_vectors(2, { c }) && c.stride % 2 == 0 &&
           step % (kind == TN ? 2 : 8) == 0;
}

template <kind KIND> static void launch_tensor(struct cuda *cuda, const products &p, int64_t rows)
{
    using S = stage<KIND>;
    cuda_check(cuda,
               cudaFuncSetAttribute(tensor_kernel<KIND>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, S::BYTES),
               "products of experts");
    tensor_kernel<KIND><<<grid_of(p, KIND, rows, TILE, TILE), THREADS, S::BYTES, cuda->stream>>>(p);
    cuda_launched(cuda, "products of experts");
}

// --- which kernel ------------------------------------------------------------

// On compute capability 9.0 there are two. Tuning takes the other one where it gives the same bits
// in less time, as it does for dense products; what was not tuned runs on this file's. Two kernels
// are timed quickly: they never wait for their trials.
enum kernel { OWN_KERNEL, WGMMA_KERNEL, BY_TUNING };
static kernel forced = BY_TUNING;

extern "C" __attribute__((visibility("default"))) void gpuhours_cuda_experts(int kernel_of_all)
{
    forced = (kernel)kernel_of_all;
}

template <kind KIND>
static void run(struct cuda *cuda, kernel which, const products &p, int64_t rows)
{
    if (which == WGMMA_KERNEL)
        wgmma_multiply(cuda, KIND, p, rows);
    else
        launch_tensor<KIND>(cuda, p, rows);
}

// Whether both kernels give the same bits. Twice the product lies between them in c: a kernel that
// writes nothing, or not everything, is found out, and so is a product of zeros, by which nothing
// can be told.
template <kind KIND>
static bool are_equal(struct cuda *cuda, struct tensor c, const products &p, int64_t rows)
{
    unsigned long long *sums = (unsigned long long *)cuda->partials, host[3];
    products twice = p;
    twice.alpha *= 2;
    cuda_check(cuda, cudaMemsetAsync(sums, 0, sizeof host, cuda->stream), "tuning");
    run<KIND>(cuda, OWN_KERNEL, p, rows);
    cuda_hash_output(cuda, sums, c);
    run<KIND>(cuda, OWN_KERNEL, twice, rows);
    cuda_hash_output(cuda, sums + 1, c);
    run<KIND>(cuda, WGMMA_KERNEL, p, rows);
    cuda_hash_output(cuda, sums + 2, c);
    cuda_check(cuda, cudaMemcpyAsync(host, sums, sizeof host, cudaMemcpyDeviceToHost, cuda->stream),
               "tuning");
    return cuda_check(cuda, cudaStreamSynchronize(cuda->stream), "tuning") && host[0] == host[2] &&
           host[0] != host[1];
}

// The milliseconds of each kernel, alternating, because a GPU slows down by what ran before.
template <kind KIND>
static void time_both(struct cuda *cuda, const products &p, int64_t rows, float (&milliseconds)[2])
{
    enum { ROUNDS = 6, RUNS = 3 };
    cudaEvent_t events[2] = { NULL, NULL };
    for (int i = 0; i < 2; i++)
        cuda_check(cuda, cudaEventCreate(&events[i]), "tuning");
    milliseconds[0] = milliseconds[1] = 0;
    for (int i = 0; i < 2 * ROUNDS && !cuda->err; i++) {
        float here = 0;
        cuda_check(cuda, cudaEventRecord(events[0], cuda->stream), "tuning");
        for (int j = 0; j < RUNS; j++)
            run<KIND>(cuda, (kernel)(i % 2), p, rows);
        cuda_check(cuda, cudaEventRecord(events[1], cuda->stream), "tuning");
        cuda_check(cuda, cudaEventSynchronize(events[1]), "tuning");
        cuda_check(cuda, cudaEventElapsedTime(&here, events[0], events[1]), "tuning");
        milliseconds[i % 2] += here;
    }
    for (int i = 0; i < 2; i++)
        cudaEventDestroy(events[i]);
}

template <kind KIND>
static kernel tune(struct cuda *cuda, struct tensor c, const products &p, int64_t rows)
{
    float milliseconds[2] = { 0, 0 };
    if (!are_equal<KIND>(cuda, c, p, rows))
        return OWN_KERNEL;
    time_both<KIND>(cuda, p, rows, milliseconds);
    return milliseconds[WGMMA_KERNEL] < milliseconds[OWN_KERNEL] ? WGMMA_KERNEL : OWN_KERNEL;
}

template <kind KIND>
static kernel kernel_for(struct cuda *cuda, struct tensor c, products p, int64_t rows)
{
    struct cuda_choice shape = { KIND, p.count, p.n, KIND == TN ? p.m : p.k, c.dtype };
    if (!wgmma_supports(cuda))
        return OWN_KERNEL;
    if (forced != BY_TUNING)
        return forced;
    int chosen = cuda_chosen(cuda, shape);
    if (chosen < 0 && cuda->tuning) {
        p.beta = 0;
        chosen = tune<KIND>(cuda, c, p, rows);
        cuda_choose(cuda, shape, chosen);
    }
    return chosen == WGMMA_KERNEL ? WGMMA_KERNEL : OWN_KERNEL;
}

// c: all that the kernels write, and perhaps rows between.
template <kind KIND>
static void multiply(struct cuda *cuda, struct tensor c, struct tensor a, struct tensor b,
                     products p, int64_t rows)
{
    bool tensor_cores = a.dtype == DTYPE_BF16 && are_aligned(c, a, b, p.step, KIND) &&
                        stage<KIND>::BYTES <= cuda->shared_bytes;
    if (cuda->err || !p.n || !p.count || (KIND == TN ? !p.m : !rows))
        return;
    if (p.first + p.count > MOST_EXPERTS)
        return cuda_fail(cuda, ERR_UNAVAILABLE, "products of more than %d experts on a GPU",
                         MOST_EXPERTS);
    if (a.dtype != b.dtype || c.dtype == DTYPE_F64)
        return cuda_fail(cuda, ERR_UNAVAILABLE,
                         "products of experts on a GPU support fp32, and bf16 to bf16 or fp32");
    if (tensor_cores)
        return run<KIND>(cuda, kernel_for<KIND>(cuda, c, p, rows), p, rows);
    with_type(cuda, a.dtype, [&](auto t) {
        using T = decltype(t);
        plain_kernel<KIND, T>
            <<<grid_of(p, KIND, rows, PLAIN, PLAIN), PLAIN_THREADS, 0, cuda->stream>>>(p);
        cuda_launched(cuda, "products of experts");
    });
}

template <kind KIND>
static void multiply_rows(struct device *device, struct tensor c, struct tensor a,
                          struct expert_matrices b, const struct routing *r, double alpha,
                          double beta)
{
    products p = { a.at,     b.each.at,      any_of(c),      a.stride,     b.each.stride,
                   c.stride, b.step,         r->counts,      (int)b.first, (int)b.count,
                   0,        (int)c.columns, (int)a.columns, (float)alpha, (float)beta };
    multiply<KIND>(cuda_of(device), c, a, b.each, p, a.rows);
}

void cuda_experts_nt(struct device *device, struct tensor c, struct tensor a,
                     struct expert_matrices b, const struct routing *r, double alpha, double beta)
{
    multiply_rows<NT>(device, c, a, b, r, alpha, beta);
}

void cuda_experts_nn(struct device *device, struct tensor c, struct tensor a,
                     struct expert_matrices b, const struct routing *r, double alpha, double beta)
{
    multiply_rows<NN>(device, c, a, b, r, alpha, beta);
}

void cuda_experts_tn(struct device *device, struct expert_matrices c, struct tensor a,
                     struct tensor b, const struct routing *r, double alpha, double beta)
{
    products p = {
        a.at,   b.at,         any_of(c.each), a.stride,     b.stride,         c.each.stride,
        c.step, r->counts,    (int)c.first,   (int)c.count, (int)c.each.rows, (int)c.each.columns,
        0,      (float)alpha, (float)beta
    };
    struct tensor all = c.each;
    if (c.count > 1 && c.step % all.stride == 0)
        all.rows += (c.count - 1) * (c.step / all.stride);
    multiply<TN>(cuda_of(device), all, a, b, p, a.rows);
}
