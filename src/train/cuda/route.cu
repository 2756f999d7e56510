// SPDX-License-Identifier: Apache-2.0
// The router of a mixture of experts; cpu/route.c has the formulas.
//
// A warp has a token; a lane has every 32nd expert in registers. The rows are sorted by a counting
// sort that keeps the order of the tokens: chunks of choices are counted, each expert's counts are
// added up over the chunks before, and each choice takes its place after those of its expert in the
// chunks before, in the warps before and in the lanes before. No place depends on what comes first.

#include "train/cuda/kernels.cuh"
#include "train/cuda/operations.h"

#include <math.h>

enum { WARP = 32, TOKENS = 8, MOST_EXPERTS = 512 }; // TOKENS: of a thread block
enum { CHUNK = 256, CHUNK_WARPS = CHUNK / WARP };   // choices of a thread block
static const unsigned ALL = 0xFFFFFFFFu;

// Calls f with the experts of a lane.
template <class F> static bool with_experts(struct cuda *cuda, int64_t experts, F f)
{
    if (cuda->err)
        return false;
    if (experts > MOST_EXPERTS) {
        cuda_fail(cuda, ERR_UNAVAILABLE, "a router of %lld experts is too wide for a GPU: %d",
                  (long long)experts, MOST_EXPERTS);
        return false;
    }
    if (experts <= WARP)
        f(width<1>());
    else if (experts <= 4 * WARP)
        f(width<4>());
    else
        f(width<MOST_EXPERTS / WARP>());
    return !cuda->err;
}

static unsigned blocks_for(int64_t tokens)
{
    return (unsigned)ceil_div(tokens, TOKENS);
}

// --- the choice --------------------------------------------------------------

static __device__ inline float warp_max(float x)
{
    for (int step = WARP / 2; step; step /= 2)
        x = fmaxf(x, __shfl_xor_sync(ALL, x, step));
    return x;
}

static __device__ inline float warp_sum(float x)
{
    for (int step = WARP / 2; step; step /= 2)
        x += __shfl_xor_sync(ALL, x, step);
    return x;
}

// The most probable expert of the warp, of equal ones the first. A lane that has none left says −1.
static __device__ inline int warp_best(float value, int expert)
{
    for (int step = WARP / 2; step; step /= 2) {
        float other = __shfl_xor_sync(ALL, value, step);
        int its = __shfl_xor_sync(ALL, expert, step);
        if (its >= 0 && (expert < 0 || other > value || (other == value && its < expert)))
            value = other, expert = its;
    }
    return expert;
}

template <int PER> static __device__ inline int take_best(const float (&p)[PER], unsigned &taken)
{
    int lane = threadIdx.x % WARP, best = -1;
    float value = 0;
#pragma unroll
    for (int i = 0; i < PER; i++)
        if (!(taken >> i & 1) && (best < 0 || p[i] > value))
            value = p[i], best = i;
    int expert = warp_best(value, best < 0 ? -1 : best * WARP + lane);
    if (expert >= 0 && expert % WARP == lane)
        taken |= 1u << expert / WARP;
    return expert;
}

// Probabilities and choices. Experts that the router does not have are taken from the start.
template <int PER>
static __global__ void choose_kernel(float *probabilities, int64_t stride, int32_t *chosen,
                                     operand logits, int64_t logits_stride, int64_t tokens,
                                     int experts, int k)
{
    int64_t t = (int64_t)blockIdx.x * TOKENS + threadIdx.x / WARP;
    int lane = threadIdx.x % WARP;
    if (t >= tokens)
        return;
    float p[PER], largest = -INFINITY, sum = 0;
    unsigned taken = 0;
#pragma unroll
    for (int i = 0; i < PER; i++) {
        int e = i * WARP + lane;
        p[i] = e < experts ? load_any(logits, t * logits_stride + e) : -INFINITY;
        taken |= e < experts ? 0 : 1u << i;
        largest = fmaxf(largest, p[i]);
    }
    largest = warp_max(largest);
#pragma unroll
    for (int i = 0; i < PER; i++) {
        p[i] = taken >> i & 1 ? 0 : expf(p[i] - largest);
        sum += p[i];
    }
    sum = warp_sum(sum);
#pragma unroll
    for (int i = 0; i < PER; i++) {
        p[i] /= sum;
        if (i * WARP + lane < experts)
            probabilities[t * stride + i * WARP + lane] = p[i];
    }
    for (int j = 0; j < k; j++) {
        int expert = take_best<PER>(p, taken);
        if (lane == 0)
            chosen[t * k + j] = expert < 0 ? 0 : expert; // −1: all logits are NaN
    }
}

// --- sorting -----------------------------------------------------------------

// counts[expert][chunk]: how many of the chunk's choices are the expert's.
static __global__ void count_kernel(int32_t *counts, const int32_t *chosen, int64_t choices,
                                    int experts)
{
    __shared__ int32_t own[MOST_EXPERTS];
    for (int e = threadIdx.x; e < experts; e += CHUNK)
        own[e] = 0;
    __syncthreads();
    int64_t i = (int64_t)blockIdx.x * CHUNK + threadIdx.x;
    if (i < choices)
        atomicAdd(&own[chosen[i]], 1);
    __syncthreads();
    for (int e = threadIdx.x; e < experts; e += CHUNK)
        counts[(int64_t)e * gridDim.x + blockIdx.x] = own[e];
}

static __device__ inline int32_t warp_before(int32_t x) // the sum of the lanes up to this one
{
    int lane = threadIdx.x % WARP;
    for (int step = 1; step < WARP; step *= 2) {
        int32_t other = __shfl_up_sync(ALL, x, step);
        x += lane >= step ? other : 0;
    }
    return x;
}

// A warp per expert: its counts become those of the chunks before; totals[expert] is the sum.
static __global__ void add_up_kernel(int32_t *counts, int32_t *totals, int chunks)
{
    int32_t *own = counts + (int64_t)blockIdx.x * chunks, sum = 0;
    for (int first = 0; first < chunks; first += WARP) {
        int c = first + (int)threadIdx.x;
        int32_t x = c < chunks ? own[c] : 0, up_to = warp_before(x);
        if (c < chunks)
            own[c] = sum + up_to - x;
        sum += __shfl_sync(ALL, up_to, WARP - 1);
    }
    if (threadIdx.x == 0)
        totals[blockIdx.x] = sum;
}

// The first row of each expert, by one warp.
static __device__ inline void first_rows(int32_t *out, const int32_t *totals, int experts)
{
    int32_t sum = 0;
    for (int first = 0; first < experts; first += WARP) {
        int e = first + (int)threadIdx.x;
        int32_t x = e < experts ? totals[e] : 0, up_to = warp_before(x);
        if (e < experts)
            out[e] = sum + up_to - x;
        sum += __shfl_sync(ALL, up_to, WARP - 1);
    }
}

struct places {
    struct routing routing;
    float *weights;
    const float *probabilities;
    int64_t stride, choices;
    const int32_t *before; // counts of the chunks before
    int experts;
};

static __device__ inline float weight_of(const places &p, int64_t token, int expert)
{
    const float *own = p.probabilities + token * p.stride;
    float sum = 0;
    for (int64_t j = 0; p.routing.normalises && j < p.routing.chosen; j++)
        sum += own[p.routing.experts[token * p.routing.chosen + j]];
    return p.routing.normalises ? own[expert] / sum : own[expert];
}

// Gives each choice of a chunk its row, and the row its token and weight.
static __global__ void place_kernel(const places p)
{
    __shared__ int32_t rows[MOST_EXPERTS];                 // first ones of the experts
    __shared__ int16_t of_warp[CHUNK_WARPS][MOST_EXPERTS]; // choices of each warp
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    int64_t i = (int64_t)blockIdx.x * CHUNK + threadIdx.x;
    int expert = i < p.choices ? p.routing.experts[i] : -1;
    for (int at = threadIdx.x; at < CHUNK_WARPS * MOST_EXPERTS; at += CHUNK)
        of_warp[at / MOST_EXPERTS][at % MOST_EXPERTS] = 0;
    if (warp == 0)
        first_rows(rows, p.routing.counts, p.experts);
    __syncthreads();
    unsigned same = __match_any_sync(ALL, expert);
    int rank = __popc(same & ((1u << lane) - 1));
    if (expert >= 0 && rank == 0)
        of_warp[warp][expert] = (int16_t)__popc(same);
    __syncthreads();
    if (expert < 0)
        return;
    int32_t row = rows[expert] + p.before[(int64_t)expert * gridDim.x + blockIdx.x] + rank;
    for (int w = 0; w < warp; w++)
        row += of_warp[w][expert];
    int64_t token = i / p.routing.chosen;
    p.routing.slots[i] = row;
    p.routing.rows[row] = (int32_t)token;
    p.weights[row] = weight_of(p, token, expert);
}

// --- the load ----------------------------------------------------------------

enum { LOAD_THREADS = 256 };

// The sum over a thread block, always in the same order; the first thread has it.
static __device__ inline double block_sum(double x)
{
    __shared__ double parts[LOAD_THREADS];
    parts[threadIdx.x] = x;
    __syncthreads();
    for (int step = LOAD_THREADS / 2; step; step /= 2) {
        if ((int)threadIdx.x < step)
            parts[threadIdx.x] += parts[threadIdx.x + step];
        __syncthreads();
    }
    return parts[0];
}

// A thread block per expert: load[0] += its rows, load[1] += its probabilities.
static __global__ void load_kernel(double *load, int64_t load_stride, const int32_t *counts,
                                   const float *probabilities, int64_t stride, int64_t tokens)
{
    int e = blockIdx.x;
    double sum = 0;
    for (int64_t t = threadIdx.x; t < tokens; t += LOAD_THREADS)
        sum += probabilities[t * stride + e];
    sum = block_sum(sum);
    if (threadIdx.x)
        return;
    load[e] += counts[e];
    load[load_stride + e] += sum;
}

static __global__ void balance_kernel(operand loss, double *dprobabilities, const double *load,
                                      int64_t stride, int experts, double decisions, double scale,
                                      double gradient_scale)
{
    double sum = 0;
    for (int e = threadIdx.x; e < experts; e += LOAD_THREADS) {
        double share = load[e] / decisions;
        sum += share * load[stride + e] / decisions;
        dprobabilities[e] = gradient_scale * experts * share / decisions;
    }
    sum = block_sum(sum);
    if (threadIdx.x)
        return;
    if (loss.dtype == DTYPE_F64)
        *(double *)loss.at += scale * experts * sum;
    else
        store_any(loss, 0, load_any(loss, 0) + (float)(scale * experts * sum));
}

// --- forward -----------------------------------------------------------------

static bool are_exact(struct cuda *cuda, std::initializer_list<struct tensor> tensors)
{
    for (struct tensor t : tensors)
        if (t.at && t.dtype != DTYPE_F32) {
            cuda_fail(cuda, ERR_UNAVAILABLE, "a router on a GPU has probabilities in fp32");
            return false;
        }
    return true;
}

void cuda_route_forward(struct device *device, struct tensor probabilities, struct tensor weights,
                        const struct routing *r, struct tensor load, struct tensor logits)
{
    struct cuda *cuda = cuda_of(device);
    int64_t tokens = logits.rows, choices = tokens * r->chosen;
    int experts = (int)logits.columns, chunks = (int)ceil_div(choices, CHUNK);
    float *p = (float *)probabilities.at;
    int32_t *counts = (int32_t *)cuda->partials;
    if (!tokens || !are_exact(cuda, { probabilities, weights }))
        return;
    if ((int64_t)chunks * experts * 4 > CUDA_PARTIALS)
        return cuda_fail(cuda, ERR_UNAVAILABLE,
                         "a router on a GPU cannot sort %lld choices of %d experts: give a smaller "
                         "--micro-batch",
                         (long long)choices, experts);
    if (!with_experts(cuda, experts, [&](auto per) {
            choose_kernel<per.value><<<blocks_for(tokens), TOKENS * WARP, 0, cuda->stream>>>(
                p, probabilities.stride, r->experts, any_of(logits), logits.stride, tokens, experts,
                (int)r->chosen);
            cuda_launched(cuda, "a router");
        }))
        return;
    places at = { *r, (float *)weights.at, p, probabilities.stride, choices, counts, experts };
    count_kernel<<<(unsigned)chunks, CHUNK, 0, cuda->stream>>>(counts, r->experts, choices,
                                                               experts);
    add_up_kernel<<<(unsigned)experts, WARP, 0, cuda->stream>>>(counts, r->counts, chunks);
    place_kernel<<<(unsigned)chunks, CHUNK, 0, cuda->stream>>>(at);
    cuda_launched(cuda, "sorting rows by expert");
    if (!load.at)
        return;
    load_kernel<<<(unsigned)experts, LOAD_THREADS, 0, cuda->stream>>>(
        (double *)load.at, load.stride, r->counts, p, probabilities.stride, tokens);
    cuda_launched(cuda, "the load of experts");
}

void cuda_balance(struct device *device, struct tensor loss, struct tensor dprobabilities,
                  struct tensor load, double decisions, double scale, double gradient_scale)
{
    struct cuda *cuda = cuda_of(device);
    if (cuda->err)
        return;
    balance_kernel<<<1, LOAD_THREADS, 0, cuda->stream>>>(
        any_of(loss), (double *)dprobabilities.at, (const double *)load.at, load.stride,
        (int)load.columns, decisions, scale, gradient_scale);
    cuda_launched(cuda, "the auxiliary loss");
}

// --- backward ----------------------------------------------------------------

struct choices {
    struct routing routing;
    operand dlogits;
    const float *dweights, *weights, *probabilities;
    const double *dprobabilities; // NULL: none
    int64_t dlogits_stride, stride, tokens;
    int experts;
};

// Σ dw · w and Σ p over the experts of a token.
static __device__ inline void sum_choices(const choices &c, int64_t t, float *mean, float *sum)
{
    int64_t k = c.routing.chosen;
    *mean = *sum = 0;
    for (int64_t i = t * k; i < (t + 1) * k; i++) {
        int32_t row = c.routing.slots[i];
        *mean += c.dweights[row] * c.weights[row];
        *sum += c.probabilities[t * c.stride + c.routing.experts[i]];
    }
}

template <int PER> static __global__ void route_backward_kernel(const choices c)
{
    int64_t t = (int64_t)blockIdx.x * TOKENS + threadIdx.x / WARP, k = c.routing.chosen;
    int lane = threadIdx.x % WARP;
    if (t >= c.tokens)
        return;
    float mean, sum, p[PER], dp[PER], along = 0;
    sum_choices(c, t, &mean, &sum);
#pragma unroll
    for (int i = 0; i < PER; i++) {
        int e = i * WARP + lane;
        p[i] = e < c.experts ? c.probabilities[t * c.stride + e] : 0;
        dp[i] = e < c.experts && c.dprobabilities ? (float)c.dprobabilities[e] : 0;
    }
    for (int64_t j = t * k; j < (t + 1) * k; j++) {
        int e = c.routing.experts[j];
        float dw = c.dweights[c.routing.slots[j]];
        float add = c.routing.normalises ? (dw - mean) / sum : dw;
#pragma unroll
        for (int i = 0; i < PER; i++)
            dp[i] += e == i * WARP + lane ? add : 0;
    }
#pragma unroll
    for (int i = 0; i < PER; i++)
        along += dp[i] * p[i];
    along = warp_sum(along);
#pragma unroll
    for (int i = 0; i < PER; i++)
        if (i * WARP + lane < c.experts)
            store_any(c.dlogits, t * c.dlogits_stride + i * WARP + lane, p[i] * (dp[i] - along));
}

void cuda_route_backward(struct device *device, struct tensor dlogits, struct tensor dweights,
                         struct tensor probabilities, struct tensor weights,
                         const struct routing *r, struct tensor dprobabilities)
{
    struct cuda *cuda = cuda_of(device);
    int64_t tokens = dlogits.rows;
    if (!tokens || !are_exact(cuda, { dweights, probabilities, weights }))
        return;
    choices c = { *r,
                  any_of(dlogits),
                  (const float *)dweights.at,
                  (const float *)weights.at,
                  (const float *)probabilities.at,
                  (const double *)dprobabilities.at,
                  dlogits.stride,
                  probabilities.stride,
                  tokens,
                  (int)dlogits.columns };
    with_experts(cuda, c.experts, [&](auto per) {
        route_backward_kernel<per.value><<<blocks_for(tokens), TOKENS * WARP, 0, cuda->stream>>>(c);
        cuda_launched(cuda, "a router's gradient");
    });
}

// --- adding up the rows of a token -------------------------------------------

template <typename T, int WIDTH> struct add_rows_of_token {
    enum { V = WIDTH };
    T *out;
    const T *in;
    int64_t out_stride, in_stride, chosen;
    const int32_t *slots;

    __device__ void operator()(int64_t row, int64_t column) const
    {
        float sum[V] = { 0 }, x[V];
        for (int64_t j = row * chosen; j < (row + 1) * chosen; j++) {
            load(x, in + slots[j] * in_stride + column);
#pragma unroll
            for (int i = 0; i < V; i++)
                sum[i] += x[i];
        }
        store(out + row * out_stride + column, sum);
    }
};

void cuda_combine(struct device *device, struct tensor out, struct tensor in,
                  const struct routing *r)
{
    struct cuda *cuda = cuda_of(device);
    if (out.dtype != in.dtype)
        return cuda_fail(cuda, ERR_UNAVAILABLE, "a sum of rows on a GPU needs tensors of one type");
    with_type(cuda, out.dtype, [&](auto t) {
        using T = decltype(t);
        const int most = 16 / sizeof(T);
        with_width<most>(in_vectors(most, { out, in }), [&](auto w) {
            add_rows_of_token<T, w.value> op = { (T *)out.at, (const T *)in.at, out.stride,
                                                 in.stride,   r->chosen,        r->slots };
            map(cuda, op, out.rows, out.columns, "combine");
        });
    });
}
