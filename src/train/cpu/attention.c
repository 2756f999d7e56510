// SPDX-License-Identifier: Apache-2.0
// Causal attention of each document on itself, with grouped key/value heads and sliding windows.
//
//     p = softmax(scale · q kᵀ) over the keys that a query sees,  out = p v
//     dv = pᵀ dout,  ds = p · (dout vᵀ − Σ dout · out) · scale,  dq = ds k,  dk = dsᵀ q
//
// A soft cap puts cap · tanh(x / cap) in place of each score x, and 1 − (x / cap)² of that into ds.
//
// Queries are processed in blocks; p is never stored as a whole, and the backward pass recomputes
// it from lse. A worker has a key/value head with all its query heads, so the order of sums does
// not depend on the number of threads. No product of a block is larger than BLOCK times all of q.

#include "train/cpu/cpu.h"

#include "train/cpu/product.h"

#include <math.h>

enum { BLOCK = 64 };

// The memory of one worker, in fp32 or fp64: a head of one document.
struct space {
    bool wide;             // fp64
    void *k, *v, *dk, *dv; // (longest, D)
    void *q, *dq, *o, *d;  // (BLOCK, D)
    void *p, *s;           // (BLOCK, longest)
};

static int64_t space_elements(const struct attention *a)
{
    return 4 * a->longest * a->head_size + 4 * BLOCK * a->head_size + 2 * BLOCK * a->longest;
}

static int64_t element_bytes(enum dtype dtype)
{
    return dtype == DTYPE_F64 ? 8 : 4;
}

int64_t cpu_attention_bytes(struct device *device, const struct attention *a, enum dtype dtype)
{
    return device->workers * space_elements(a) * element_bytes(dtype);
}

void cpu_attention_begin(struct device *device, const struct attention *a, void *workspace)
{
    (void)device, (void)a, (void)workspace; // nothing to prepare
}

static struct space space_of(const struct attention *a, enum dtype dtype, void *workspace, int at)
{
    int64_t size = element_bytes(dtype), d = a->head_size;
    char *next = (char *)workspace + at * space_elements(a) * size;
    struct space space = { .wide = dtype == DTYPE_F64 };
    void **document[] = { &space.k, &space.v, &space.dk, &space.dv };
    void **block[] = { &space.q, &space.dq, &space.o, &space.d };
    void **scores[] = { &space.p, &space.s };
    for (int i = 0; i < 4; i++, next += a->longest * d * size)
        *document[i] = next;
    for (int i = 0; i < 4; i++, next += BLOCK * d * size)
        *block[i] = next;
    for (int i = 0; i < 2; i++, next += BLOCK * a->longest * size)
        *scores[i] = next;
    return space;
}

// Rows first … first + rows − 1 of one head.
static void load_head(void *out, bool wide, struct tensor in, int64_t head, int64_t size,
                      int64_t first, int64_t rows)
{
    double x[TENSOR_CHUNK];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < size; c += TENSOR_CHUNK) {
            int64_t n = tensor_chunk(size, c);
            tensor_load(x, in, first + r, head * size + c, n);
            tensor_store(tensor_of(out, wide ? DTYPE_F64 : DTYPE_F32, rows, size), r, c, x, n);
        }
}

static void store_head(struct tensor out, int64_t head, int64_t size, int64_t first, int64_t rows,
                       const void *in, bool wide)
{
    double x[TENSOR_CHUNK];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < size; c += TENSOR_CHUNK) {
            int64_t n = tensor_chunk(size, c);
            tensor_load(x, tensor_of((void *)in, wide ? DTYPE_F64 : DTYPE_F32, rows, size), r, c,
                        n);
            tensor_store(out, first + r, head * size + c, x, n);
        }
}

static void *row_at(void *at, bool wide, int64_t element)
{
    return (char *)at + element * (wide ? 8 : 4);
}

static void multiply(bool wide, void *c, const void *a, const void *b, struct product p)
{
    if (wide)
        product_f64(c, a, b, &p);
    else
        product_f32(c, a, b, &p);
}

// --- rows of scores ----------------------------------------------------------

// Turns scores from … to − 1 of a row of n into probabilities, the rest into zeros. Returns the
// logarithm of the sum of exponentials.
static double softmax_f32(float *row, int64_t n, int64_t from, int64_t to)
{
    float largest = row[from], inverse;
    double sum = 0;
    for (int64_t j = from; j < to; j++)
        largest = row[j] > largest ? row[j] : largest;
    for (int64_t j = from; j < to; j++)
        sum += row[j] = expf(row[j] - largest);
    inverse = (float)(1 / sum);
    for (int64_t j = 0; j < n; j++)
        row[j] = j >= from && j < to ? row[j] * inverse : 0;
    return largest + log(sum);
}

static double softmax_f64(double *row, int64_t n, int64_t from, int64_t to)
{
    double largest = row[from], sum = 0;
    for (int64_t j = from; j < to; j++)
        largest = row[j] > largest ? row[j] : largest;
    for (int64_t j = from; j < to; j++)
        sum += row[j] = exp(row[j] - largest);
    for (int64_t j = 0; j < n; j++)
        row[j] = j >= from && j < to ? row[j] / sum : 0;
    return largest + log(sum);
}

// Recomputes probabilities from scores and lse.
static void recompute_softmax(void *row, bool wide, int64_t n, int64_t from, int64_t to, double lse)
{
    for (int64_t j = 0; j < n; j++)
        if (wide)
            ((double *)row)[j] = j >= from && j < to ? exp(((double *)row)[j] - lse) : 0;
        else
            ((float *)row)[j] = j >= from && j < to ? expf(((float *)row)[j] - (float)lse) : 0;
}

// s = p · (s − delta) · scale
static void score_gradient(void *s, const void *p, bool wide, int64_t n, double delta, double scale)
{
    float narrow_delta = (float)delta, narrow_scale = (float)scale;
    for (int64_t j = 0; j < n; j++)
        if (wide)
            ((double *)s)[j] = ((const double *)p)[j] * (((double *)s)[j] - delta) * scale;
        else
            ((float *)s)[j] =
                ((const float *)p)[j] * (((float *)s)[j] - narrow_delta) * narrow_scale;
}

// s = s · (1 − (x / cap)²), where the score was x = log p + lse.
static void cap_gradient(void *s, const void *p, bool wide, int64_t n, double lse, double cap)
{
    for (int64_t j = 0; j < n; j++) {
        double probability = wide ? ((const double *)p)[j] : ((const float *)p)[j];
        double x = probability > 0 ? (log(probability) + lse) / cap : 1;
        if (wide)
            ((double *)s)[j] *= 1 - x * x;
        else
            ((float *)s)[j] *= (float)(1 - x * x);
    }
}

static double dot(const void *a, const void *b, bool wide, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += wide ? ((const double *)a)[i] * ((const double *)b)[i]
                    : (double)((const float *)a)[i] * ((const float *)b)[i];
    return sum;
}

// --- blocks ------------------------------------------------------------------

// Queries first … first + rows − 1 of a document attend to keys within low … high − 1.
struct block {
    int64_t first, rows, low, high;
};

static struct block block_at(const struct attention *a, struct span span, int64_t first)
{
    int64_t rows = span.size - first < BLOCK ? span.size - first : BLOCK, low = 0;
    if (a->window && first >= a->window)
        low = first - a->window + 1;
    return (struct block){ first, rows, low, first + rows };
}

// The first key that query i attends to, relative to the first key of the block.
static int64_t from_of(const struct attention *a, struct block b, int64_t i)
{
    int64_t from = a->window && b.first + i >= a->window ? b.first + i - a->window + 1 : 0;
    return from - b.low;
}

static double scale_of(const struct attention *a)
{
    return a->scale > 0 ? a->scale : 1 / sqrt((double)a->head_size);
}

static void score(const struct attention *a, const struct space *at, struct block b, void *out)
{
    int64_t d = a->head_size, n = b.high - b.low;
    multiply(at->wide, out, at->q, row_at(at->k, at->wide, b.low * d),
             (struct product){ false, true, b.rows, n, d, d, d, n, scale_of(a), 0 });
    for (int64_t i = 0; a->cap > 0 && i < b.rows * n; i++)
        if (at->wide)
            ((double *)out)[i] = a->cap * tanh(((double *)out)[i] / a->cap);
        else
            ((float *)out)[i] = (float)(a->cap * tanh(((float *)out)[i] / a->cap));
}

static void forward_block(const struct attention *a, const struct space *at, struct tensor lse,
                          struct span span, int64_t head, struct block b)
{
    int64_t d = a->head_size, n = b.high - b.low;
    score(a, at, b, at->p);
    for (int64_t i = 0; i < b.rows; i++) {
        void *row = row_at(at->p, at->wide, i * n);
        int64_t from = from_of(a, b, i), to = b.first + i + 1 - b.low;
        double sum = at->wide ? softmax_f64(row, n, from, to) : softmax_f32(row, n, from, to);
        tensor_store(lse, span.start + b.first + i, head, &sum, 1);
    }
    multiply(at->wide, at->o, at->p, row_at(at->v, at->wide, b.low * d),
             (struct product){ false, false, b.rows, d, n, n, d, d, 1, 0 });
}

void cpu_attention_forward(struct device *device, struct tensor out, struct tensor lse,
                           struct tensor q, struct tensor k, struct tensor v,
                           const struct attention *a, void *workspace)
{
    int64_t group = a->heads / a->kv_heads, d = a->head_size;
#pragma omp parallel for schedule(static, 1) if (BLOCK * tensor_count(q) > PRODUCT_ALONE)
    for (int worker = 0; worker < device->workers; worker++) {
        struct space at = space_of(a, q.dtype, workspace, worker);
        for (int64_t item = worker; item < a->kv_heads * a->span_count; item += device->workers) {
            struct span span = a->spans[item / a->kv_heads];
            int64_t shared = item % a->kv_heads;
            load_head(at.k, at.wide, k, shared, d, span.start, span.size);
            load_head(at.v, at.wide, v, shared, d, span.start, span.size);
            for (int64_t head = shared * group; head < (shared + 1) * group; head++)
                for (int64_t first = 0; first < span.size; first += BLOCK) {
                    struct block b = block_at(a, span, first);
                    load_head(at.q, at.wide, q, head, d, span.start + first, b.rows);
                    forward_block(a, &at, lse, span, head, b);
                    store_head(out, head, d, span.start + first, b.rows, at.o, at.wide);
                }
        }
    }
}

static void backward_block(const struct attention *a, const struct space *at, struct tensor lse,
                           struct span span, int64_t head, struct block b)
{
    int64_t d = a->head_size, n = b.high - b.low;
    bool wide = at->wide;
    void *k = row_at(at->k, wide, b.low * d), *v = row_at(at->v, wide, b.low * d);
    void *dk = row_at(at->dk, wide, b.low * d), *dv = row_at(at->dv, wide, b.low * d);
    score(a, at, b, at->p);
    multiply(wide, at->s, at->d, v, (struct product){ false, true, b.rows, n, d, d, d, n, 1, 0 });
    for (int64_t i = 0; i < b.rows; i++) {
        double sum, delta = dot(row_at(at->o, wide, i * d), row_at(at->d, wide, i * d), wide, d);
        void *p = row_at(at->p, wide, i * n);
        tensor_load(&sum, lse, span.start + b.first + i, head, 1);
        recompute_softmax(p, wide, n, from_of(a, b, i), b.first + i + 1 - b.low, sum);
        score_gradient(row_at(at->s, wide, i * n), p, wide, n, delta, scale_of(a));
        if (a->cap > 0)
            cap_gradient(row_at(at->s, wide, i * n), p, wide, n, sum, a->cap);
    }
    multiply(wide, dv, at->p, at->d, (struct product){ true, false, n, d, b.rows, n, d, d, 1, 1 });
    multiply(wide, at->dq, at->s, k, (struct product){ false, false, b.rows, d, n, n, d, d, 1, 0 });
    multiply(wide, dk, at->s, at->q, (struct product){ true, false, n, d, b.rows, n, d, d, 1, 1 });
}

void cpu_attention_backward(struct device *device, struct tensor dq, struct tensor dk,
                            struct tensor dv, struct tensor dout, struct tensor out,
                            struct tensor lse, struct tensor q, struct tensor k, struct tensor v,
                            const struct attention *a, void *workspace)
{
    int64_t group = a->heads / a->kv_heads, d = a->head_size;
#pragma omp parallel for schedule(static, 1) if (BLOCK * tensor_count(q) > PRODUCT_ALONE)
    for (int worker = 0; worker < device->workers; worker++) {
        struct space at = space_of(a, q.dtype, workspace, worker);
        for (int64_t item = worker; item < a->kv_heads * a->span_count; item += device->workers) {
            struct span span = a->spans[item / a->kv_heads];
            int64_t shared = item % a->kv_heads;
            load_head(at.k, at.wide, k, shared, d, span.start, span.size);
            load_head(at.v, at.wide, v, shared, d, span.start, span.size);
            memset(at.dk, 0, (size_t)(span.size * d * element_bytes(q.dtype)));
            memset(at.dv, 0, (size_t)(span.size * d * element_bytes(q.dtype)));
            for (int64_t head = shared * group; head < (shared + 1) * group; head++)
                for (int64_t first = 0; first < span.size; first += BLOCK) {
                    struct block b = block_at(a, span, first);
                    int64_t row = span.start + first;
                    load_head(at.q, at.wide, q, head, d, row, b.rows);
                    load_head(at.o, at.wide, out, head, d, row, b.rows);
                    load_head(at.d, at.wide, dout, head, d, row, b.rows);
                    backward_block(a, &at, lse, span, head, b);
                    store_head(dq, head, d, row, b.rows, at.dq, at.wide);
                }
            store_head(dk, shared, d, span.start, span.size, at.dk, at.wide);
            store_head(dv, shared, d, span.start, span.size, at.dv, at.wide);
        }
    }
}
