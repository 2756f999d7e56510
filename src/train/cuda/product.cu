// SPDX-License-Identifier: Apache-2.0
// Matrix products by cuBLASLt: one plan per shape, kept with its algorithm.
//
// cuBLASLt's matrices are column-major, so a row-major matrix is its transpose: the product c = a ×
// b is requested as cᵀ = bᵀ × aᵀ. A shape that was not tuned uses the algorithm of one that differs
// only in the number of tokens, otherwise the first of the heuristic. Tuning times the heuristic's
// offers (trials.h) and takes the fastest of those that give the same bits as the first, with all
// tokens and with fewer: the choice depends on timing, the result does not. So a choice may also be
// made between steps, on random numbers: until then the first offer runs. A product that is zero
// where it is called waits for that too. What another process chose for a shape counts as tuned, if
// cuBLASLt accepts it.

#include "train/cuda/kernels.cuh"
#include "train/cuda/operations.h"
#include "train/cuda/trials.h"

#include <cublasLt.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

enum kind { NT, NN, TN, SCALED, CHOICES }; // CHOICES: see below

struct key {
    int64_t m, n, k, a_stride, b_stride, c_stride;
    int32_t kind, a, b, c, a_align, b_align, c_align, none; // no padding bytes: it is hashed
};

struct plan {
    struct key key;
    bool used, tuned;
    bool waits; // for its trials between steps, with the first of the heuristic until then …
    float beta; // … which are made as it was called
    cublasLtMatmulDescOpaque_t product;
    cublasLtMatrixLayoutOpaque_t a, b, c; // ours: b is cuBLASLt's first
    cublasLtMatmulAlgo_t algorithm;
};

enum { BUCKETS = 512, WAYS = 8 };

// The offers for one product, and the bits that all but the first are held against.
struct contest {
    struct trials trials;
    cublasLtMatmulAlgo_t offers[TRIALS_OFFERS];
    unsigned long long bits[TRIALS_CHECKS];
};

struct cuda_products {
    cublasLtHandle_t handle;
    void *workspace;
    cudaEvent_t events[2]; // around timed runs
    int evict;             // next slot to evict in a full bucket
    struct tuned *known;   // choices of other processes
    int64_t known_count;
    struct plan *on_trial; // between steps: the plan that the contest is about; NULL: none
    struct contest contest;
    struct plan plans[BUCKETS][WAYS];
};

// One product: the addresses and numbers that are not part of the plan.
struct call {
    struct tensor a, b, c;
    const void *a_scales, *b_scales;
    float alpha, beta;
};

enum err cuda_products_open(struct cuda *cuda)
{
    struct cuda_products *own = (struct cuda_products *)calloc(1, sizeof *own);
    if (!own)
        return fail(ERR_MEMORY, "out of memory for the plans of matrix products");
    cuda->products = own;
    if (cublasLtCreate(&own->handle) != CUBLAS_STATUS_SUCCESS)
        return fail(ERR_UNAVAILABLE, "cuBLASLt cannot be initialized on this GPU");
    if (cudaMalloc(&own->workspace, CUDA_PRODUCTS) != cudaSuccess) {
        cudaGetLastError();
        return fail(ERR_MEMORY, "the GPU cannot allocate %d MiB for matrix products",
                    CUDA_PRODUCTS >> 20);
    }
    for (cudaEvent_t &event : own->events)
        cuda_check(cuda, cudaEventCreate(&event), "an event");
    return cuda->err ? fail(cuda->err, "%s", cuda->problem) : OK;
}

void cuda_products_close(struct cuda *cuda)
{
    if (!cuda->products)
        return;
    if (cuda->products->handle)
        cublasLtDestroy(cuda->products->handle);
    for (cudaEvent_t event : cuda->products->events)
        if (event)
            cudaEventDestroy(event);
    cudaFree(cuda->products->workspace);
    free(cuda->products->known);
    free(cuda->products);
    cuda->products = NULL;
}

void *cuda_products_workspace(const struct cuda *cuda)
{
    return cuda->products->workspace;
}

static bool check(struct cuda *cuda, cublasStatus_t status, const struct key *key)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return true;
    static const char *const types[] = { "fp32", "bf16", "fp64", "fp8" };
    cuda_fail(cuda, ERR_UNAVAILABLE,
              "cuBLASLt has no product of (%lld × %lld) and (%lld × %lld), %s × %s to %s: %s",
              (long long)key->m, (long long)key->k, (long long)key->k, (long long)key->n,
              types[key->a], types[key->b], types[key->c], cublasLtGetStatusString(status));
    return false;
}

// --- plans -------------------------------------------------------------------

static int32_t alignment(const void *at)
{
    uintptr_t place = (uintptr_t)at;
    return place % 256 == 0 ? 256 : place % 16 == 0 ? 16 : (int32_t)(place & -place);
}

static int64_t stride_of(struct tensor t)
{
    return t.rows > 1 ? t.stride : t.columns;
}

static struct key key_of(enum kind kind, const struct call *call)
{
    struct key key = {};
    key.m = call->c.rows;
    key.n = call->c.columns;
    key.k = kind == TN ? call->a.rows : call->a.columns;
    key.a_stride = stride_of(call->a);
    key.b_stride = stride_of(call->b);
    key.c_stride = stride_of(call->c);
    key.kind = kind;
    key.a = call->a.dtype;
    key.b = call->b.dtype;
    key.c = call->c.dtype;
    key.a_align = alignment(call->a.at);
    key.b_align = alignment(call->b.at);
    key.c_align = alignment(call->c.at);
    return key;
}

// The same product for another number of tokens.
static struct key family_of(struct key key)
{
    if (key.kind == TN)
        key.k = 0;
    else
        key.m = 0;
    return key;
}

static uint64_t hash_of(const struct key *key)
{
    const char *at = (const char *)key;
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof *key; i += 8) {
        uint64_t word;
        memcpy(&word, at + i, 8);
        hash = counter_rng_mix(hash + word + 0x9E3779B97F4A7C15u);
    }
    return hash;
}

static cudaDataType_t type_of(int32_t dtype)
{
    return dtype == DTYPE_F32 ? CUDA_R_32F : dtype == DTYPE_BF16 ? CUDA_R_16BF : CUDA_R_8F_E4M3;
}

template <typename T>
static cublasStatus_t set(struct plan *plan, cublasLtMatmulDescAttributes_t name, T value)
{
    return cublasLtMatmulDescSetAttribute(&plan->product, name, &value, sizeof value);
}

static bool describe(struct cuda *cuda, struct plan *plan)
{
    const struct key *k = &plan->key;
    bool nt = k->kind == NT || k->kind == SCALED, tn = k->kind == TN;
    cublasStatus_t steps[] = {
        cublasLtMatmulDescInit(&plan->product, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        set(plan, CUBLASLT_MATMUL_DESC_TRANSA, (int32_t)(nt ? CUBLAS_OP_T : CUBLAS_OP_N)),
        set(plan, CUBLASLT_MATMUL_DESC_TRANSB, (int32_t)(tn ? CUBLAS_OP_T : CUBLAS_OP_N)),
        cublasLtMatrixLayoutInit(&plan->b, type_of(k->b), nt ? k->k : k->n, nt ? k->n : k->k,
                                 k->b_stride),
        cublasLtMatrixLayoutInit(&plan->a, type_of(k->a), tn ? k->m : k->k, tn ? k->k : k->m,
                                 k->a_stride),
        cublasLtMatrixLayoutInit(&plan->c, type_of(k->c), k->n, k->m, k->c_stride),
    };
    for (cublasStatus_t step : steps)
        if (!check(cuda, step, k))
            return false;
    if (k->kind != SCALED)
        return true;
    int32_t each_row = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    return check(cuda, set(plan, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, each_row), k) &&
           check(cuda, set(plan, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, each_row), k) &&
           check(cuda, set(plan, CUBLASLT_MATMUL_DESC_FAST_ACCUM, (int8_t)1), k);
}

static bool set_scales(struct cuda *cuda, struct plan *plan, const struct call *call)
{
    if (plan->key.kind != SCALED)
        return true;
    return check(cuda, set(plan, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, call->b_scales),
                 &plan->key) &&
           check(cuda, set(plan, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, call->a_scales), &plan->key);
}

// The offers of the heuristic, best first; at least one, or an error. Partial sums are fp32 only.
static int candidates(struct cuda *cuda, struct plan *plan, cublasLtMatmulHeuristicResult_t *out,
                      int most)
{
    cublasLtMatmulPreferenceOpaque_t wish;
    uint64_t workspace = CUDA_PRODUCTS;
    uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    uint32_t a = (uint32_t)plan->key.a_align, b = (uint32_t)plan->key.b_align;
    uint32_t c = (uint32_t)plan->key.c_align;
    cublasLtMatmulPreferenceInit(&wish);
    auto prefer = [&](cublasLtMatmulPreferenceAttributes_t name, const void *value, size_t size) {
        cublasLtMatmulPreferenceSetAttribute(&wish, name, value, size);
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction, sizeof reduction);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &b, sizeof b);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &a, sizeof a);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &c, sizeof c);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &c, sizeof c);
    int found = 0;
    cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(cuda->products->handle, &plan->product, &plan->b, &plan->a,
                                       &plan->c, &plan->c, &wish, most, out, &found);
    int good = 0; // an offer with an error status of its own is unusable
    for (int i = 0; i < found && status == CUBLAS_STATUS_SUCCESS; i++)
        if (out[i].state == CUBLAS_STATUS_SUCCESS && out[i].workspaceSize <= CUDA_PRODUCTS)
            out[good++] = out[i];
    if (status == CUBLAS_STATUS_SUCCESS && !good)
        status = CUBLAS_STATUS_NOT_SUPPORTED;
    return check(cuda, status, &plan->key) ? good : 0;
}

// Gives a plan an algorithm that was chosen elsewhere; false: cuBLASLt does not support it here.
static bool accept(struct cuda *cuda, struct plan *plan, const cublasLtMatmulAlgo_t *algorithm)
{
    cublasLtMatmulHeuristicResult_t result;
    plan->algorithm = *algorithm;
    cublasStatus_t status =
        cublasLtMatmulAlgoCheck(cuda->products->handle, &plan->product, &plan->b, &plan->a,
                                &plan->c, &plan->c, &plan->algorithm, &result);
    return status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= CUDA_PRODUCTS;
}

// What another process of the same work chose: for this very shape, or for the first that differs
// only in the tokens, as inherit() would have found it there.
static bool recall(struct cuda *cuda, struct plan *plan)
{
    const struct cuda_products *own = cuda->products;
    struct key family = family_of(plan->key);
    const struct tuned *found = NULL;
    for (int64_t i = 0; i < own->known_count && !plan->tuned; i++) {
        struct key key;
        memcpy(&key, own->known[i].key, sizeof key);
        plan->tuned = !memcmp(&key, &plan->key, sizeof key);
        key = family_of(key);
        if (plan->tuned || (!found && !memcmp(&key, &family, sizeof key)))
            found = &own->known[i];
    }
    cublasLtMatmulAlgo_t algorithm;
    if (found)
        memcpy(&algorithm, found->choice, sizeof algorithm);
    bool good = found && accept(cuda, plan, &algorithm);
    plan->tuned = plan->tuned && good;
    return good;
}

// Whether a plan has, or will have, a choice of its own. Before and after the choice is made the
// same plan is inherited from, so that the moment decides no bits.
static bool is_chosen_for(const struct plan *plan)
{
    return plan->tuned || plan->waits;
}

// The algorithm of a plan that differs only in the tokens, ones with a choice of their own first,
// if it supports this.
static bool inherit(struct cuda *cuda, struct plan *plan)
{
    struct key family = family_of(plan->key);
    struct plan *parent = NULL;
    for (int i = 0; i < BUCKETS * WAYS; i++) {
        struct plan *other = &cuda->products->plans[0][0] + i;
        if (!other->used || other == plan || (parent && !is_chosen_for(other)))
            continue;
        struct key its = family_of(other->key);
        if (!memcmp(&its, &family, sizeof its))
            parent = other;
        if (parent && is_chosen_for(parent))
            break;
    }
    return parent && accept(cuda, plan, &parent->algorithm);
}

static struct plan *find(struct cuda *cuda, const struct key *key)
{
    struct plan *bucket = cuda->products->plans[hash_of(key) % BUCKETS];
    struct plan *place = NULL;
    for (int i = 0; i < WAYS; i++) {
        if (bucket[i].used && !memcmp(&bucket[i].key, key, sizeof *key))
            return &bucket[i];
        if (!bucket[i].used && !place)
            place = &bucket[i];
    }
    for (int i = 0; i < WAYS && !place; i++) {
        cuda->products->evict = (cuda->products->evict + 1) % WAYS;
        if (!is_chosen_for(&bucket[cuda->products->evict]))
            place = &bucket[cuda->products->evict];
    }
    place = place ? place : bucket;
    if (place == cuda->products->on_trial)
        cuda->products->on_trial = NULL; // the contest was about what lay here
    memset(place, 0, sizeof *place);
    place->key = *key;
    return place;
}

static struct plan *plan_for(struct cuda *cuda, const struct key *key, const struct call *call)
{
    struct plan *plan = find(cuda, key);
    if (plan->used)
        return set_scales(cuda, plan, call) ? plan : NULL;
    if (!describe(cuda, plan) || !set_scales(cuda, plan, call))
        return NULL;
    if (!recall(cuda, plan) && !inherit(cuda, plan)) {
        cublasLtMatmulHeuristicResult_t first;
        if (!candidates(cuda, plan, &first, 1))
            return NULL;
        plan->algorithm = first.algo;
    }
    plan->used = true;
    return plan;
}

static cublasStatus_t run(struct cuda *cuda, struct plan *plan, const struct call *call,
                          const cublasLtMatmulAlgo_t *algorithm, float beta)
{
    return cublasLtMatmul(cuda->products->handle, &plan->product, &call->alpha, call->b.at,
                          &plan->b, call->a.at, &plan->a, &beta, call->c.at, &plan->c, call->c.at,
                          &plan->c, algorithm, cuda->products->workspace, CUDA_PRODUCTS,
                          cuda->stream);
}

// --- tuning ------------------------------------------------------------------

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

// Milliseconds of a run, once the clock has settled.
static float time_runs(struct cuda *cuda, struct plan *plan, const struct call *call,
                       const cublasLtMatmulAlgo_t *algorithm, struct trial trial)
{
    float milliseconds = 0;
    cudaEvent_t *events = cuda->products->events;
    for (int i = -trial.settle; i < trial.runs; i++) {
        if (i == 0)
            cuda_check(cuda, cudaEventRecord(events[0], cuda->stream), "tuning");
        check(cuda, run(cuda, plan, call, algorithm, call->beta), &plan->key);
    }
    cuda_check(cuda, cudaEventRecord(events[1], cuda->stream), "tuning");
    cuda_check(cuda, cudaEventSynchronize(events[1]), "tuning");
    cuda_check(cuda, cudaEventElapsedTime(&milliseconds, events[0], events[1]), "tuning");
    return milliseconds / (float)trial.runs;
}

static struct call with_tokens(enum kind kind, struct call call, int64_t tokens)
{
    call.a.rows = tokens;
    (kind == TN ? call.b : call.c).rows = tokens;
    return call;
}

// A hash of the output with all tokens, with one less and with half of them and one: other numbers
// inherit the choice, and equal sums of one number can be different sums of another, where the
// tokens decide how a sum is split. 0: the algorithm does not work there.
static void hash_outputs(struct cuda *cuda, const struct plan *plan, const struct call *call,
                         const cublasLtMatmulAlgo_t *algorithm,
                         unsigned long long (&out)[TRIALS_CHECKS])
{
    enum kind kind = (enum kind)plan->key.kind;
    unsigned long long *sums = (unsigned long long *)cuda->partials;
    int64_t all = call->a.rows;
    const int64_t tokens[TRIALS_CHECKS] = { all, all > 1 ? all - 1 : 1, all / 2 + 1 };
    cuda_check(cuda, cudaMemsetAsync(sums, 0, sizeof out, cuda->stream), "tuning");
    for (int i = 0; i < TRIALS_CHECKS && !cuda->err; i++) {
        struct call part = with_tokens(kind, *call, tokens[i]);
        struct plan shape = {};
        shape.key = key_of(kind, &part);
        if (describe(cuda, &shape) && set_scales(cuda, &shape, &part) &&
            accept(cuda, &shape, algorithm) &&
            run(cuda, &shape, &part, &shape.algorithm, 0) == CUBLAS_STATUS_SUCCESS)
            cuda_hash_output(cuda, sums + i, part.c);
    }
    cuda_check(cuda, cudaMemcpyAsync(out, sums, sizeof out, cudaMemcpyDeviceToHost, cuda->stream),
               "tuning");
    cuda_check(cuda, cudaStreamSynchronize(cuda->stream), "tuning");
}

// What a trial needs beside its number.
struct trial_of {
    struct cuda *cuda;
    struct plan *plan;
    const struct call *call;
    struct contest *contest;
    bool is_empty; // the matrices have no values yet
};

// Rows or columns of a matrix.
static struct tensor part_of(struct tensor t, bool are_rows, int64_t first, int64_t count)
{
    t.at = (char *)t.at + first * (are_rows ? t.stride : 1) * bytes_of(t.dtype);
    (are_rows ? t.rows : t.columns) = count;
    return t;
}

// Numbers by which algorithms can be told apart. bf16 hides most differences between two orders of
// a sum, so for half of the outputs the second half of each sum takes away what the first half
// added: what is left is what the order rounded away. The last row of outputs, if it is not the
// only one, is zeros, whose signs may differ.
static void fill_call(struct cuda *cuda, enum kind kind, const struct call *call)
{
    bool nt = kind == NT || kind == SCALED, tn = kind == TN;
    struct device device = {};
    device.own = cuda;
    int64_t n = call->c.columns, half = (tn ? call->a.rows : call->a.columns) / 2;
    struct tensor cancelling = part_of(call->b, nt, n / 2, n - n / 2);
    cuda_fill(&device, call->a, FILL_UNIFORM, 1, 1);
    cuda_fill(&device, call->b, FILL_UNIFORM, 1, 2);
    for (int i = 0; i < 2; i++) {
        cuda_fill(&device, part_of(call->a, tn, i * half, half), FILL_UNIFORM, 1, 3);
        cuda_fill(&device, part_of(cancelling, !nt, i * half, half), FILL_UNIFORM, i ? -1 : 1, 4);
    }
    if (call->c.rows > 1)
        cuda_fill(&device, part_of(call->a, !tn, call->c.rows - 1, 1), FILL_CONSTANT, 0, 0);
    cuda_fill(&device, call->c, FILL_CONSTANT, 0, 0);
    if (!call->a_scales)
        return;
    struct tensor scales[] = { { (void *)call->a_scales, DTYPE_F32, 1, call->c.rows, call->c.rows },
                               { (void *)call->b_scales, DTYPE_F32, 1, call->c.columns,
                                 call->c.columns } };
    for (struct tensor each : scales)
        cuda_fill(&device, each, FILL_CONSTANT, 1, 0);
}

static struct trial_result try_offer(void *context, struct trial trial)
{
    struct trial_of *of = (struct trial_of *)context;
    const cublasLtMatmulAlgo_t *algorithm = &of->contest->offers[trial.offer];
    struct trial_result result = { true, 0, 0 };
    double began = now_ms();
    if (of->is_empty)
        fill_call(of->cuda, (enum kind)of->plan->key.kind, of->call);
    of->is_empty = false;
    if (trial.is_first) {
        unsigned long long bits[TRIALS_CHECKS] = { 0 }, *first = of->contest->bits;
        hash_outputs(of->cuda, of->plan, of->call, algorithm, bits);
        if (!first[0])
            memcpy(first, bits, sizeof bits); // it is the first that works
        result.has_same_bits = bits[0] && !memcmp(bits, first, sizeof bits);
    }
    if (result.has_same_bits && !of->cuda->err)
        result.milliseconds = time_runs(of->cuda, of->plan, of->call, algorithm, trial);
    result.spent = now_ms() - began;
    return result;
}

static void open_contest(struct cuda *cuda, struct plan *plan, struct contest *out)
{
    cublasLtMatmulHeuristicResult_t found[TRIALS_OFFERS];
    memset(out, 0, sizeof *out);
    out->trials = trials_of(candidates(cuda, plan, found, TRIALS_OFFERS));
    for (int i = 0; i < out->trials.offers; i++)
        out->offers[i] = found[i].algo;
}

// Makes a choice final. Plans that inherited from the family inherit anew.
static void settle(struct cuda *cuda, struct plan *plan, const cublasLtMatmulAlgo_t *algorithm)
{
    struct key family = family_of(plan->key);
    plan->algorithm = *algorithm;
    plan->tuned = true;
    plan->waits = false;
    for (int i = 0; i < BUCKETS * WAYS; i++) {
        struct plan *other = &cuda->products->plans[0][0] + i;
        struct key its = family_of(other->key);
        if (other->used && !is_chosen_for(other) && !memcmp(&its, &family, sizeof its))
            memset(other, 0, sizeof *other);
    }
}

// Until its trials a plan has the first offer for its own shape, whose bits the choice will have.
static void wait_for_trials(struct cuda *cuda, struct plan *plan, const struct call *call)
{
    cublasLtMatmulHeuristicResult_t found[TRIALS_OFFERS];
    if (is_chosen_for(plan) || !candidates(cuda, plan, found, TRIALS_OFFERS))
        return;
    plan->algorithm = found[0].algo;
    plan->waits = true;
    plan->beta = call->beta;
}

// Zeros are the same bits by any algorithm, so they tell none from another: adapters begin with
// second factors of zero, and with them the gradients of the first ones. Of zeros, whatever their
// sign, twice the product has the same bits.
static bool gives_zeros(struct cuda *cuda, struct plan *plan, const struct call *call,
                        const cublasLtMatmulAlgo_t *algorithm)
{
    unsigned long long *sums = (unsigned long long *)cuda->partials, host[2] = { 0, 0 };
    struct call calls[2] = { *call, *call };
    calls[1].alpha *= 2;
    cuda_check(cuda, cudaMemsetAsync(sums, 0, sizeof host, cuda->stream), "tuning");
    for (int i = 0; i < 2; i++) {
        check(cuda, run(cuda, plan, &calls[i], algorithm, 0), &plan->key);
        cuda_hash_output(cuda, sums + i, call->c);
    }
    cuda_check(cuda, cudaMemcpyAsync(host, sums, sizeof host, cudaMemcpyDeviceToHost, cuda->stream),
               "tuning");
    cuda_check(cuda, cudaStreamSynchronize(cuda->stream), "tuning");
    return host[0] == host[1];
}

// All trials of a product, where it is called; c holds the product for beta = 0 afterwards.
static void tune(struct cuda *cuda, struct plan *plan, const struct call *call)
{
    struct contest contest;
    struct trial_of of = { cuda, plan, call, &contest, false };
    double left = INFINITY;
    open_contest(cuda, plan, &contest);
    if (contest.trials.offers && gives_zeros(cuda, plan, call, &contest.offers[0])) {
        wait_for_trials(cuda, plan, call);
    } else {
        trials_go_on(&contest.trials, &left, try_offer, &of);
        int best = trials_best(&contest.trials);
        if (cuda->err || best < 0)
            return;
        settle(cuda, plan, &contest.offers[best]);
    }
    check(cuda, run(cuda, plan, call, &plan->algorithm, 0), &plan->key);
}

// --- tuning between steps ----------------------------------------------------

// The largest product that waits for its trials; NULL: none.
static struct plan *largest_waiting(struct cuda *cuda)
{
    struct plan *largest = NULL;
    double most = 0;
    for (int i = 0; i < BUCKETS * WAYS; i++) {
        struct plan *plan = &cuda->products->plans[0][0] + i;
        double size = (double)plan->key.m * (double)plan->key.n * (double)plan->key.k;
        if (plan->waits && size > most)
            largest = plan, most = size;
    }
    return largest;
}

// A call of the plan whose matrices lie in the room; returns how many bytes they need.
static int64_t place_call(const struct plan *plan, void *room, struct call *out)
{
    const struct key *k = &plan->key;
    bool nt = k->kind == NT || k->kind == SCALED, tn = k->kind == TN;
    int64_t used = 0;
    auto take = [&](int32_t dtype, int64_t rows, int64_t columns, int64_t stride) {
        struct tensor t = { (char *)room + used, (enum dtype)dtype, rows, columns, stride };
        used += (rows * stride * bytes_of(t.dtype) + 255) / 256 * 256;
        return t;
    };
    *out = {};
    out->a = take(k->a, tn ? k->k : k->m, tn ? k->m : k->k, k->a_stride);
    out->b = take(k->b, nt ? k->n : k->k, nt ? k->k : k->n, k->b_stride);
    out->c = take(k->c, k->m, k->n, k->c_stride);
    if (k->kind == SCALED) {
        out->a_scales = take(DTYPE_F32, 1, k->m, k->m).at;
        out->b_scales = take(DTYPE_F32, 1, k->n, k->n).at;
    }
    out->alpha = 1;
    out->beta = plan->beta;
    return used;
}

// Leaves zeros where matrices lay: numbers of one type, read as those of another, may be none, and
// attention may read a few rows after the last document, as 0 times whatever they hold.
bool cuda_tune_some(struct device *device, void *room, int64_t bytes, double seconds)
{
    struct cuda *cuda = cuda_of(device);
    struct cuda_products *own = cuda->products;
    struct plan *plan;
    double left = seconds * 1e3;
    int64_t written = 0;
    while (!cuda->err && left >= 0 && (plan = largest_waiting(cuda))) {
        struct call call;
        struct trial_of of = { cuda, plan, &call, &own->contest, true };
        if (own->on_trial != plan)
            open_contest(cuda, plan, &own->contest);
        own->on_trial = plan;
        int best = -1; // where it does not fit, the first offer stays
        int64_t needed = place_call(plan, room, &call);
        if (needed <= bytes && set_scales(cuda, plan, &call)) {
            written = needed > written ? needed : written;
            if (!trials_go_on(&own->contest.trials, &left, try_offer, &of))
                break;
            best = trials_best(&own->contest.trials);
        }
        cublasLtMatmulAlgo_t chosen = best < 0 ? plan->algorithm : own->contest.offers[best];
        settle(cuda, plan, &chosen);
        own->on_trial = NULL;
    }
    if (written)
        cuda_check(cuda, cudaMemsetAsync(room, 0, (size_t)written, cuda->stream), "tuning");
    return !cuda->err && largest_waiting(cuda);
}

void cuda_tune(struct device *device, enum tuning tuning)
{
    cuda_of(device)->tuning = tuning;
}

// --- choices of other processes ----------------------------------------------

enum { TUNER = 5 }; // to be raised when tuning compares algorithms in another way

static_assert(sizeof(struct key) == TUNED_KEY, "a key is stored as it is");
static_assert(sizeof(cublasLtMatmulAlgo_t) == TUNED_CHOICE, "an algorithm is stored as it is");

void cuda_tuned_about(struct device *device, char out[TUNED_ABOUT])
{
    int driver = 0;
    cuda_check(cuda_of(device), cudaDriverGetVersion(&driver), "asking for the driver's version");
    snprintf(out, TUNED_ABOUT,
             "%s, %d multiprocessors, %lld bytes, CUDA %d, cuBLASLt %zu, tuner %d", device->name,
             cuda_of(device)->multiprocessors, (long long)device->total_bytes, driver,
             cublasLtGetVersion(), TUNER);
}

int64_t cuda_tuned_list(struct device *device, struct tuned *out, int64_t most)
{
    struct plan *plans = &cuda_of(device)->products->plans[0][0];
    int64_t count = 0;
    for (int i = 0; i < BUCKETS * WAYS && count < most && !cuda_of(device)->err; i++) {
        if (!plans[i].used || !plans[i].tuned)
            continue;
        memcpy(out[count].key, &plans[i].key, TUNED_KEY);
        memcpy(out[count++].choice, &plans[i].algorithm, TUNED_CHOICE);
    }
    return count;
}

void cuda_tuned_take(struct device *device, const struct tuned *choices, int64_t count)
{
    struct cuda_products *own = cuda_of(device)->products;
    size_t bytes = (size_t)count * sizeof *choices;
    struct tuned *copy = (struct tuned *)malloc(bytes ? bytes : 1);
    if (!copy)
        return; // they are tuned again
    memcpy(copy, choices, bytes);
    free(own->known);
    own->known = copy, own->known_count = count;
}

// --- choices between kernels of our own --------------------------------------

// They are kept, and given to other processes, as algorithms of a kind that cuBLASLt does not have.
static struct plan *choice_for(struct cuda *cuda, struct cuda_choice of)
{
    struct key key = { of.count, of.n, of.k, 0, 0, 0, CHOICES + of.kind, 0, 0, of.c, 0, 0, 0, 0 };
    struct plan *plan = find(cuda, &key);
    const struct cuda_products *own = cuda->products;
    for (int64_t i = 0; i < own->known_count && !plan->used; i++)
        if (!memcmp(own->known[i].key, &key, sizeof key)) {
            memcpy(&plan->algorithm, own->known[i].choice, sizeof plan->algorithm);
            plan->used = plan->tuned = true;
        }
    return plan;
}

int cuda_chosen(struct cuda *cuda, struct cuda_choice of)
{
    int32_t chosen = -1;
    struct plan *plan = choice_for(cuda, of);
    if (plan->tuned)
        memcpy(&chosen, &plan->algorithm, sizeof chosen);
    return chosen;
}

void cuda_choose(struct cuda *cuda, struct cuda_choice of, int chosen)
{
    int32_t stored = chosen;
    struct plan *plan = choice_for(cuda, of);
    memset(&plan->algorithm, 0, sizeof plan->algorithm);
    memcpy(&plan->algorithm, &stored, sizeof stored);
    plan->used = plan->tuned = true;
}

// --- the operations ----------------------------------------------------------

static bool supported(enum kind kind, const struct call *call)
{
    enum dtype a = call->a.dtype, b = call->b.dtype, c = call->c.dtype;
    if (kind == SCALED)
        return a == DTYPE_F8 && b == DTYPE_F8 && (c == DTYPE_BF16 || c == DTYPE_F32);
    if (a == DTYPE_BF16 && b == DTYPE_BF16)
        return c == DTYPE_BF16 || c == DTYPE_F32;
    return a == DTYPE_F32 && b == DTYPE_F32 && c == DTYPE_F32;
}

static void multiply(struct device *device, enum kind kind, const struct call *call)
{
    struct cuda *cuda = cuda_of(device);
    struct key key = key_of(kind, call);
    if (cuda->err || !key.m || !key.n)
        return;
    if (!supported(kind, call))
        return cuda_fail(
            cuda, ERR_UNAVAILABLE,
            "products on a GPU support fp32, bf16 to bf16 or fp32, and fp8 with scales; "
            "cast other mixtures first");
    if (!key.k) {
        if (call->beta == 0)
            device->backend->zero(device, call->c);
        return;
    }
    struct plan *plan = plan_for(cuda, &key, call);
    if (!plan)
        return;
    if (cuda->tuning == TUNE_LATER)
        wait_for_trials(cuda, plan, call);
    if (cuda->tuning == TUNE_NOW && !is_chosen_for(plan))
        tune(cuda, plan, call);
    else
        check(cuda, run(cuda, plan, call, &plan->algorithm, cuda->tuning ? 0 : call->beta), &key);
}

void cuda_matmul_nt(struct device *device, struct tensor c, struct tensor a, struct tensor b,
                    double alpha, double beta)
{
    struct call call = { a, b, c, NULL, NULL, (float)alpha, (float)beta };
    multiply(device, NT, &call);
}

void cuda_matmul_nn(struct device *device, struct tensor c, struct tensor a, struct tensor b,
                    double alpha, double beta)
{
    struct call call = { a, b, c, NULL, NULL, (float)alpha, (float)beta };
    multiply(device, NN, &call);
}

void cuda_matmul_tn(struct device *device, struct tensor c, struct tensor a, struct tensor b,
                    double alpha, double beta)
{
    struct call call = { a, b, c, NULL, NULL, (float)alpha, (float)beta };
    multiply(device, TN, &call);
}

void cuda_matmul_scaled(struct device *device, struct tensor c, struct tensor a,
                        struct tensor a_scales, struct tensor b, struct tensor b_scales,
                        double beta)
{
    struct call call = { a, b, c, a_scales.at, b_scales.at, 1, (float)beta };
    if (a.columns % 16 || a.stride % 16 || b.stride % 16 || c.columns % 16 || !is_dense(a_scales) ||
        !is_dense(b_scales))
        return cuda_fail(cuda_of(device), ERR_UNAVAILABLE,
                         "a product of fp8 needs widths divisible by 16 and dense scales");
    multiply(device, SCALED, &call);
}
