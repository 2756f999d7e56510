// SPDX-License-Identifier: Apache-2.0
// Speeds of the operations at the shape of Llama-3.1-8B, against what the card was measured to do.

#include "test/cuda/parity.h"

#include "train/nf4.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const double copy_bytes_per_s = 4.3e12, bf16_flops_per_s = 790e12; // of an H200, measured
enum { WIDTH = 4096, QKV = 6144, FORWARD = 14336, VOCABULARY = 128256, HEAD = 128, MOST = 12 };

struct bench {
    struct device *gpu;
    const struct backend *op;
    struct tensor t[MOST]; // what the operation works on
    int64_t bytes[MOST];
    int count;
    int64_t n; // a number of the operation's own
    int32_t *ids;
    struct quantized quantized;
    struct routing routing;
};

typedef void (*operation)(struct bench *b);

static double now_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void *take(struct bench *b, int64_t bytes)
{
    void *at = NULL;
    if (b->op->allocate(b->gpu, &at, bytes) != OK || b->count == MOST) {
        fprintf(stderr, "cuda-parity: %s\n", error_text());
        exit(5);
    }
    b->bytes[b->count] = bytes;
    return at;
}

// Columns of a matrix of that many and `extra` more.
static struct tensor tensor(struct bench *b, enum dtype dtype, int64_t rows, int64_t columns,
                            int64_t extra)
{
    int64_t bytes = rows * (columns + extra) * dtype_bytes(dtype);
    struct tensor whole = tensor_of(take(b, bytes), dtype, rows, columns + extra);
    if (dtype != DTYPE_F8)
        b->op->fill(b->gpu, whole, FILL_NORMAL, 0.5, (uint64_t)b->count);
    struct tensor part = tensor_columns(whole, 0, columns);
    b->t[b->count++] = part;
    return part;
}

static void *bytes(struct bench *b, int64_t size)
{
    void *at = take(b, size);
    b->t[b->count++] = tensor_of(at, DTYPE_F8, 1, size);
    return at;
}

static void release(struct bench *b)
{
    for (int i = 0; i < b->count; i++)
        b->op->release(b->gpu, b->t[i].at, b->bytes[i]);
    b->count = 0;
}

// Seconds of one, from enough of them to fill some 40 ms.
static double seconds_of(struct bench *b, operation run)
{
    double start, each;
    int64_t times = 1;
    run(b);
    for (;; times *= 4) {
        b->op->sync(b->gpu);
        start = now_seconds();
        for (int64_t i = 0; i < times; i++)
            run(b);
        if (b->op->sync(b->gpu) != OK) {
            printf("  %s\n", error_text());
            return 0;
        }
        each = (now_seconds() - start) / (double)times;
        if (each * (double)times > 0.04 || times > 4096)
            return each;
    }
}

static void show_bytes(struct bench *b, const char *name, operation run, double moved)
{
    double seconds = seconds_of(b, run);
    if (seconds > 0)
        printf("%-40s %9.1f us %8.0f GB/s  %5.1f %%\n", name, seconds * 1e6, moved / seconds / 1e9,
               100 * moved / seconds / copy_bytes_per_s);
    fflush(stdout);
    release(b);
}

static void show_flops(struct bench *b, const char *name, operation run, double flops)
{
    b->op->tune(b->gpu, TUNE_NOW);
    run(b);
    b->op->tune(b->gpu, TUNE_OFF);
    double seconds = seconds_of(b, run);
    if (seconds > 0)
        printf("%-40s %9.1f us %8.1f TFLOP/s  %5.1f %%\n", name, seconds * 1e6,
               flops / seconds / 1e12, 100 * flops / seconds / bf16_flops_per_s);
    fflush(stdout);
    release(b);
}

// --- memory ------------------------------------------------------------------

static const struct tensor none;
static const struct swiglu plain_gate = { .slope = 1 };

static void copy(struct bench *b)
{
    b->op->cast(b->gpu, b->t[0], b->t[1]);
}

static void widen(struct bench *b)
{
    b->op->cast(b->gpu, b->t[0], b->t[1]);
}

static void add(struct bench *b)
{
    b->op->add(b->gpu, b->t[0], b->t[1], b->t[2]);
}

static void norm_forward(struct bench *b)
{
    b->op->norm_forward(b->gpu, b->t[0], b->t[1], b->t[4], b->t[2], b->t[3], b->t[5], 0, 1e-5);
}

static void norm_backward(struct bench *b)
{
    b->op->norm_backward(b->gpu, b->t[0], none, b->t[0], b->t[1], b->t[2], b->t[4], b->t[5], 0);
}

static void norm_weight(struct bench *b)
{
    b->op->norm_backward(b->gpu, b->t[0], b->t[6], b->t[0], b->t[1], b->t[2], b->t[4], b->t[5], 0);
}

static void swiglu_forward(struct bench *b)
{
    struct tensor up = tensor_columns(b->t[1], FORWARD, FORWARD);
    b->op->swiglu_forward(b->gpu, b->t[0], tensor_columns(b->t[1], 0, FORWARD), up, none,
                          plain_gate);
}

static void swiglu_backward(struct bench *b)
{
    struct tensor gate = tensor_columns(b->t[1], 0, FORWARD);
    struct tensor up = tensor_columns(b->t[1], FORWARD, FORWARD);
    b->op->swiglu_backward(b->gpu, gate, up, none, b->t[0], gate, up, none, plain_gate);
}

static void geglu_forward(struct bench *b)
{
    struct tensor up = tensor_columns(b->t[1], FORWARD, FORWARD);
    b->op->geglu_forward(b->gpu, b->t[0], tensor_columns(b->t[1], 0, FORWARD), up);
}

static void geglu_backward(struct bench *b)
{
    struct tensor gate = tensor_columns(b->t[1], 0, FORWARD);
    struct tensor up = tensor_columns(b->t[1], FORWARD, FORWARD);
    b->op->geglu_backward(b->gpu, gate, up, b->t[0], gate, up);
}

static void scale(struct bench *b)
{
    b->op->scale(b->gpu, b->t[0], 1);
}

static void row_norms(struct bench *b)
{
    b->op->row_norms(b->gpu, b->t[3], b->t[0], b->t[1], b->t[2], 2);
}

static void magnify(struct bench *b)
{
    b->op->magnify(b->gpu, b->t[0], b->t[1], b->t[2]);
}

static void magnify_backward(struct bench *b)
{
    b->op->magnify_backward(b->gpu, b->t[3], b->t[0], b->t[4], b->t[1], b->t[2]);
}

static void rotary(struct bench *b)
{
    b->op->rotary(b->gpu, tensor_columns(b->t[0], 0, 5120), b->ids, b->t[1], HEAD, 1, 1);
}

static void bias_backward(struct bench *b)
{
    b->op->bias_backward(b->gpu, b->t[1], b->t[0]);
}

static void gather(struct bench *b)
{
    b->op->gather(b->gpu, b->t[0], b->t[1], b->ids);
}

static void embedding_backward(struct bench *b)
{
    b->op->embedding_backward(b->gpu, b->t[1], b->t[0], b->ids);
}

static void cross_entropy(struct bench *b)
{
    b->op->cross_entropy(b->gpu, b->t[1], b->t[0], b->ids, 1e-3);
}

static void capped_cross_entropy(struct bench *b)
{
    b->op->capped_cross_entropy(b->gpu, b->t[1], b->t[0], b->ids, 1e-3, 30);
}

static void dropout(struct bench *b)
{
    b->op->dropout(b->gpu, b->t[0], b->t[1], 0.1, 1);
}

static void dequantize(struct bench *b)
{
    b->op->dequantize(b->gpu, b->t[0], &b->quantized);
}

static void quantize(struct bench *b)
{
    b->op->quantize(b->gpu, &b->quantized, b->t[0], b->t[6].at);
}

static void quantize_rows(struct bench *b)
{
    b->op->quantize_rows(b->gpu, b->t[0], b->t[1], b->t[2], b->n);
}

static void squares(struct bench *b)
{
    b->op->sum_squares(b->gpu, b->t[1], b->t[0]);
}

static void adamw(struct bench *b)
{
    struct adamw adamw = { 1e-5, 0.9, 0.999, 1e-8, 0.01, 3, 1, 0 };
    b->op->adamw(b->gpu, b->t[0], b->t[1], b->t[2], b->t[3], &adamw, b->t[4]);
}

static void integers(struct bench *b, int64_t count, int32_t below)
{
    int32_t *host = malloc((size_t)count * 4);
    for (int64_t i = 0; i < count; i++)
        host[i] = (int32_t)((uint64_t)i * 2654435761u % (uint64_t)below);
    b->ids = bytes(b, count * 4);
    b->op->upload(b->gpu, b->ids, host, count * 4);
    free(host);
}

static void time_gemma_and_dora(struct bench *b, int64_t tokens)
{
    double row = 2.0 * (double)tokens;
    tensor(b, DTYPE_BF16, tokens, FORWARD, 16), tensor(b, DTYPE_BF16, tokens, 2 * FORWARD, 0);
    show_bytes(b, "geglu forward", geglu_forward, 3 * row * FORWARD);
    tensor(b, DTYPE_BF16, tokens, FORWARD, 0), tensor(b, DTYPE_BF16, tokens, 2 * FORWARD, 32);
    show_bytes(b, "geglu backward, in place", geglu_backward, 5 * row * FORWARD);
    tensor(b, DTYPE_BF16, tokens, WIDTH, 0);
    show_bytes(b, "scale, in place", scale, 2 * row * WIDTH);
    operation magnitudes[] = { magnify, magnify_backward };
    const char *names[] = { "magnitudes, in place", "magnitudes backward, in place" };
    for (int i = 0; i < 2; i++) {
        tensor(b, DTYPE_BF16, tokens, WIDTH, 64);
        for (int j = 0; j < 3; j++)
            tensor(b, DTYPE_F32, 1, WIDTH, 0);
        tensor(b, DTYPE_BF16, tokens, WIDTH, 0);
        show_bytes(b, names[i], magnitudes[i], (i ? 3 : 2) * row * WIDTH);
    }
}

static void time_tokens(struct bench *b, int64_t tokens)
{
    double row = 2.0 * (double)tokens;
    printf("\n%lld tokens\n", (long long)tokens);
    tensor(b, DTYPE_BF16, tokens, FORWARD, 0), tensor(b, DTYPE_BF16, tokens, FORWARD, 0);
    show_bytes(b, "copy", copy, 2 * row * FORWARD);
    tensor(b, DTYPE_F32, tokens, WIDTH, 0), tensor(b, DTYPE_BF16, tokens, WIDTH, 0);
    show_bytes(b, "cast to fp32", widen, 3 * row * WIDTH);
    for (int i = 0; i < 3; i++)
        tensor(b, DTYPE_BF16, tokens, WIDTH, 0);
    show_bytes(b, "add", add, 3 * row * WIDTH);
    operation norms[] = { norm_forward, norm_backward, norm_weight };
    const char *names[] = { "add + norm forward", "norm backward + residual",
                            "norm backward + weight gradient" };
    for (int n = 0; n < 3; n++) {
        for (int i = 0; i < 4; i++)
            tensor(b, DTYPE_BF16, tokens, WIDTH, i == 1 ? 48 : 0);
        tensor(b, DTYPE_F32, tokens, 1, 0), tensor(b, DTYPE_BF16, 1, WIDTH, 0);
        tensor(b, DTYPE_F32, 1, WIDTH, 0);
        show_bytes(b, names[n], norms[n], 4 * row * WIDTH);
    }
    tensor(b, DTYPE_BF16, tokens, FORWARD, 16), tensor(b, DTYPE_BF16, tokens, 2 * FORWARD, 0);
    show_bytes(b, "swiglu forward", swiglu_forward, 3 * row * FORWARD);
    tensor(b, DTYPE_BF16, tokens, FORWARD, 0), tensor(b, DTYPE_BF16, tokens, 2 * FORWARD, 32);
    show_bytes(b, "swiglu backward, in place", swiglu_backward, 5 * row * FORWARD);
    time_gemma_and_dora(b, tokens);
    tensor(b, DTYPE_BF16, tokens, QKV, 0), tensor(b, DTYPE_F64, 1, HEAD / 2, 0);
    integers(b, tokens, 4096);
    show_bytes(b, "rotary of q and k", rotary, 2 * row * 5120);
    tensor(b, DTYPE_BF16, tokens, QKV, 0), tensor(b, DTYPE_F32, 1, QKV, 0);
    show_bytes(b, "bias backward", bias_backward, row * QKV);
    tensor(b, DTYPE_BF16, tokens, WIDTH, 0), tensor(b, DTYPE_BF16, VOCABULARY, WIDTH, 0);
    integers(b, tokens, VOCABULARY);
    show_bytes(b, "embedding forward", gather, 2 * row * WIDTH);
    tensor(b, DTYPE_BF16, tokens, WIDTH, 0), tensor(b, DTYPE_F32, VOCABULARY, WIDTH, 0);
    integers(b, tokens, VOCABULARY);
    show_bytes(b, "embedding backward", embedding_backward, 5 * row * WIDTH);
    tensor(b, DTYPE_BF16, tokens, WIDTH, 0), tensor(b, DTYPE_BF16, tokens, WIDTH, 0);
    show_bytes(b, "dropout", dropout, 2 * row * WIDTH);
    tensor(b, DTYPE_F8, tokens, FORWARD, 0), tensor(b, DTYPE_F32, tokens, 1, 0);
    tensor(b, DTYPE_BF16, tokens, FORWARD, 0);
    b->n = 0;
    show_bytes(b, "fp8 of rows", quantize_rows, 1.5 * row * FORWARD);
}

static void nf4_room(struct bench *b, int64_t rows, int64_t columns, int64_t extra)
{
    int64_t count = rows * columns, blocks = count / NF4_BLOCK;
    tensor(b, DTYPE_BF16, rows, columns, extra);
    b->quantized.codes = bytes(b, count / 2);
    b->quantized.nested_codes = bytes(b, blocks);
    b->quantized.nested = bytes(b, 4 * blocks / NF4_NESTED_BLOCK);
    b->quantized.levels = bytes(b, 4 * NF4_NESTED_LEVELS);
    b->quantized.offset = bytes(b, 4);
    b->quantized.block = NF4_BLOCK;
    b->quantized.nested_block = NF4_NESTED_BLOCK;
    tensor(b, DTYPE_F32, 1, blocks, 0);
    quantize(b);
}

static void time_weights(struct bench *b)
{
    double weights = 28672.0 * WIDTH;
    printf("\nweights\n");
    for (int64_t extra = 0; extra <= 32; extra += 32) {
        nf4_room(b, 28672, WIDTH, extra);
        show_bytes(b, extra ? "dequantize nf4, strided" : "dequantize nf4", dequantize,
                   2.516 * weights);
    }
    nf4_room(b, 28672, WIDTH, 0);
    show_bytes(b, "quantize nf4", quantize, 2.516 * weights);
    for (int transposed = 0; transposed < 2; transposed++) {
        tensor(b, DTYPE_F8, transposed ? WIDTH : 28672, transposed ? 28672 : WIDTH, 0);
        tensor(b, DTYPE_F32, 28672, 1, 0), tensor(b, DTYPE_BF16, 28672, WIDTH, 0);
        b->n = transposed;
        show_bytes(b, transposed ? "fp8 of columns" : "fp8 of rows", quantize_rows, 3 * weights);
    }
    enum dtype types[] = { DTYPE_F32, DTYPE_BF16 };
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 3; j++)
            tensor(b, types[i], 28672, WIDTH, 0);
        b->op->fill(b->gpu, b->t[2], FILL_CONSTANT, 0.25, 0);
        tensor(b, DTYPE_BF16, 28672, WIDTH, 0), tensor(b, DTYPE_F64, 1, 1, 0);
        show_bytes(b, i ? "adamw, all bf16" : "adamw, fp32 but the gradient", adamw,
                   (i ? 14 : 26) * weights);
    }
    tensor(b, DTYPE_BF16, 28672, WIDTH, 0), tensor(b, DTYPE_F64, 1, 1, 0);
    show_bytes(b, "squares", squares, 2 * weights);
    for (int64_t rows = 2048; rows <= 4096; rows += 2048) { // 4,096: of four rows of 4,096 tokens
        tensor(b, DTYPE_BF16, rows, VOCABULARY, 0), tensor(b, DTYPE_F32, rows, 1, 0);
        integers(b, rows, VOCABULARY);
        show_bytes(b, rows > 2048 ? "cross entropy, 4096 rows" : "cross entropy, 2048 rows",
                   cross_entropy, 4.0 * (double)rows * VOCABULARY);
    }
    tensor(b, DTYPE_BF16, 2048, VOCABULARY, 0), tensor(b, DTYPE_F32, 2048, 1, 0);
    integers(b, 2048, VOCABULARY);
    show_bytes(b, "cross entropy, capped", capped_cross_entropy, 4 * 2048.0 * VOCABULARY);
    tensor(b, DTYPE_BF16, 28672, WIDTH, 64), tensor(b, DTYPE_BF16, 28672, 16, 0);
    tensor(b, DTYPE_BF16, 16, WIDTH, 64), tensor(b, DTYPE_F32, 1, 28672, 0);
    show_bytes(b, "lengths of rows, rank 16", row_norms, 2 * weights);
}

// --- products ----------------------------------------------------------------

static void nt(struct bench *b)
{
    b->op->matmul_nt(b->gpu, b->t[0], b->t[1], b->t[2], 1, 0);
}

static void nn(struct bench *b)
{
    b->op->matmul_nn(b->gpu, b->t[0], b->t[1], b->t[2], 1, 0);
}

static void tn_added(struct bench *b)
{
    b->op->matmul_tn(b->gpu, b->t[0], b->t[1], b->t[2], 1, 1);
}

static void scaled(struct bench *b)
{
    b->op->matmul_scaled(b->gpu, b->t[0], b->t[1], b->t[2], b->t[3], b->t[4], 0);
}

static void scaled_added(struct bench *b)
{
    b->op->matmul_scaled(b->gpu, b->t[0], b->t[1], b->t[2], b->t[3], b->t[4], 1);
}

// t: dy with dz after it, z, B, and a gradient for each of n adapters.
struct adapters {
    struct tensor dz, dy, z, b;
    struct adapter_part parts[3];
};

static struct adapters adapters_of(struct bench *b)
{
    int64_t out = b->t[2].rows, ranks = b->t[2].columns, first = 0;
    struct adapters all = { .dz = tensor_columns(b->t[0], out, ranks),
                            .dy = tensor_columns(b->t[0], 0, out),
                            .z = b->t[1],
                            .b = b->t[2] };
    for (int i = 0; i < b->n; first += b->t[3 + i++].rows)
        all.parts[i] = (struct adapter_part){ first, i * b->t[3 + i].columns, b->t[3 + i] };
    return all;
}

static void adapters_at_once(struct bench *b)
{
    struct adapters all = adapters_of(b);
    b->op->adapters_backward(b->gpu, all.dz, all.parts, (int)b->n, all.dy, all.b, all.z, 2);
}

static void adapters_apart(struct bench *b)
{
    struct adapters all = adapters_of(b);
    b->op->matmul_nn(b->gpu, all.dz, all.dy, all.b, 2, 0);
    for (int i = 0; i < b->n; i++) {
        struct tensor db = all.parts[i].db;
        b->op->matmul_tn(b->gpu, db, tensor_columns(all.dy, all.parts[i].first, db.rows),
                         tensor_columns(all.z, all.parts[i].first_z, db.columns), 1, 1);
    }
}

// Shares are of what has to be moved: dy once, and once for each product.
static void time_adapters(struct bench *b, int64_t tokens)
{
    static const struct {
        const char *name;
        int count;
        int64_t outs[3];
    } projections[] = {
        { "qkv", 3, { WIDTH, 1024, 1024 } },
        { "o or down", 1, { WIDTH } },
        { "gate_up", 2, { FORWARD, FORWARD } },
    };
    enum { RANKS = 64 };
    printf("\nadapters of %lld tokens\n", (long long)tokens);
    for (int64_t rank = 8; rank <= 16; rank *= 2)
        for (int i = 0; i < 3 * 2; i++) {
            int64_t out = 0;
            char line[48];
            b->n = projections[i / 2].count;
            for (int j = 0; j < b->n; j++)
                out += projections[i / 2].outs[j];
            int64_t ranks = (b->n * rank + RANKS - 1) / RANKS * RANKS;
            tensor(b, DTYPE_BF16, tokens, out + ranks, 0), tensor(b, DTYPE_BF16, tokens, ranks, 0);
            tensor(b, DTYPE_BF16, out, ranks, WIDTH);
            for (int j = 0; j < b->n; j++)
                tensor(b, DTYPE_F32, projections[i / 2].outs[j], rank, 0);
            b->op->tune(b->gpu, TUNE_NOW);
            adapters_apart(b);
            b->op->tune(b->gpu, TUNE_OFF);
            snprintf(line, sizeof line, "rank %lld, %s, %s", (long long)rank,
                     projections[i / 2].name, i % 2 ? "two products" : "one pass");
            show_bytes(b, line, i % 2 ? adapters_apart : adapters_at_once,
                       (i % 2 ? 4.0 : 2.0) * (double)tokens * (double)out);
        }
}

static void show_product(struct bench *b, const char *name, operation run, int64_t m, int64_t n,
                         int64_t k)
{
    char line[80];
    snprintf(line, sizeof line, "%s %lld × %lld × %lld", name, (long long)m, (long long)n,
             (long long)k);
    show_flops(b, line, run, 2.0 * (double)m * (double)n * (double)k);
}

static void time_nt(struct bench *b, const char *name, int64_t m, int64_t n, int64_t k)
{
    tensor(b, DTYPE_BF16, m, n, 0), tensor(b, DTYPE_BF16, m, k, 0), tensor(b, DTYPE_BF16, n, k, 0);
    show_product(b, name, nt, m, n, k);
}

static void time_nn(struct bench *b, const char *name, int64_t m, int64_t n, int64_t k)
{
    tensor(b, DTYPE_BF16, m, n, 0), tensor(b, DTYPE_BF16, m, k, 0), tensor(b, DTYPE_BF16, k, n, 0);
    show_product(b, name, nn, m, n, k);
}

static void time_tn(struct bench *b, const char *name, int64_t m, int64_t n, int64_t k)
{
    tensor(b, DTYPE_F32, m, n, 0), tensor(b, DTYPE_BF16, k, m, 0), tensor(b, DTYPE_BF16, k, n, 0);
    show_product(b, name, tn_added, m, n, k);
}

static void eight_bits(struct bench *b, int64_t rows, int64_t columns)
{
    struct tensor codes = tensor(b, DTYPE_F8, rows, columns, 0);
    struct tensor scales = tensor(b, DTYPE_F32, rows, 1, 0);
    struct tensor source = tensor(b, DTYPE_BF16, rows, columns, 0);
    b->op->quantize_rows(b->gpu, codes, scales, source, false);
    b->op->release(b->gpu, source.at, b->bytes[--b->count]);
}

static void time_scaled(struct bench *b, const char *name, int64_t m, int64_t n, int64_t k)
{
    operation ways[] = { scaled, scaled_added };
    for (int i = 0; i < 2; i++) {
        char line[48];
        snprintf(line, sizeof line, "fp8 %s%s", name, i ? " +=" : "");
        tensor(b, DTYPE_BF16, m, n, 0);
        eight_bits(b, m, k);
        eight_bits(b, n, k);
        show_product(b, line, ways[i], m, n, k);
    }
}

static void time_products(struct bench *b, int64_t tokens)
{
    static const struct {
        const char *name;
        int64_t n, k, extra;
    } linears[] = {
        { "qkv", QKV, WIDTH, 64 },
        { "o", WIDTH, WIDTH, 64 },
        { "gate_up", 2 * FORWARD, WIDTH, 64 },
        { "down", WIDTH, FORWARD, 64 },
    };
    printf("\nproducts of %lld tokens\n", (long long)tokens);
    for (int i = 0; i < 4; i++) {
        int64_t n = linears[i].n, k = linears[i].k, extra = linears[i].extra;
        char name[32];
        time_nt(b, linears[i].name, tokens, n, k);
        time_nt(b, linears[i].name, tokens, n, k + extra);
        snprintf(name, sizeof name, "%s back", linears[i].name);
        time_nn(b, name, tokens, k, n);
        time_nn(b, name, tokens, k, n + extra);
        snprintf(name, sizeof name, "%s weights", linears[i].name);
        time_tn(b, name, n, k, tokens);
        time_scaled(b, linears[i].name, tokens, n, k);
        snprintf(name, sizeof name, "%s back", linears[i].name);
        time_scaled(b, name, tokens, k, n);
    }
    for (int64_t rank = 16; rank <= 64; rank *= 2) {
        time_nt(b, "skinny x A", tokens, rank, WIDTH);
        time_nt(b, "skinny z B", tokens, QKV, rank);
        time_nn(b, "skinny dy B", tokens, rank, QKV);
        time_tn(b, "skinny dA", rank, WIDTH, tokens);
        time_tn(b, "skinny dB", QKV, rank, tokens);
    }
}

// --- a mixture of experts, of the shape of Qwen3-30B-A3B ---------------------

enum { EXPERTS = 128, CHOSEN = 8, NARROW = 2048, EXPERT = 768 };

static void route(struct bench *b)
{
    b->op->route_forward(b->gpu, b->t[1], b->t[2], &b->routing, none, b->t[0]);
}

static void route_backward(struct bench *b)
{
    b->op->route_backward(b->gpu, b->t[0], b->t[3], b->t[1], b->t[2], &b->routing, none);
}

static void combine(struct bench *b)
{
    b->op->combine(b->gpu, b->t[5], b->t[4], &b->routing);
}

static void weighted(struct bench *b)
{
    struct tensor gate = tensor_columns(b->t[5], 0, EXPERT);
    struct tensor up = tensor_columns(b->t[5], EXPERT, EXPERT);
    b->op->swiglu_backward(b->gpu, gate, up, b->t[3], b->t[4], gate, up, b->t[2], plain_gate);
}

// The matrices of all experts lie one below the other.
static struct expert_matrices of_experts(struct tensor all)
{
    int64_t rows = all.rows / EXPERTS;
    return (struct expert_matrices){ tensor_rows(all, 0, rows), rows * all.stride, 0, EXPERTS };
}

static void experts_nt(struct bench *b)
{
    b->op->experts_nt(b->gpu, b->t[4], b->t[5], of_experts(b->t[6]), &b->routing, 1, 0);
}

static void experts_nn(struct bench *b)
{
    b->op->experts_nn(b->gpu, b->t[4], b->t[5], of_experts(b->t[6]), &b->routing, 1, 0);
}

static void experts_tn(struct bench *b)
{
    b->op->experts_tn(b->gpu, of_experts(b->t[6]), b->t[4], b->t[5], &b->routing, 1, 1);
}

// Logits, probabilities, weights and their gradients, and the choice.
static void mixture(struct bench *b, int64_t tokens)
{
    int64_t n = tokens * CHOSEN;
    tensor(b, DTYPE_BF16, tokens, EXPERTS, 0), tensor(b, DTYPE_F32, tokens, EXPERTS, 0);
    tensor(b, DTYPE_F32, n, 1, 0), tensor(b, DTYPE_F32, n, 1, 0);
    int32_t *at = take(b, (3 * n + EXPERTS) * 4);
    b->routing = (struct routing){ CHOSEN, at, at + n, at + 2 * n, at + 3 * n, true };
    route(b);
}

static void release_mixture(struct bench *b, int64_t tokens)
{
    int64_t ints = (3 * tokens * CHOSEN + EXPERTS) * 4;
    b->op->release(b->gpu, b->routing.experts, ints);
}

static void time_experts(struct bench *b, const char *name, operation run, int64_t tokens,
                         int64_t first, int64_t second, bool first_is_out)
{
    int64_t n = tokens * CHOSEN;
    mixture(b, tokens);
    tensor(b, DTYPE_BF16, n, first, 0), tensor(b, DTYPE_BF16, n, second, 0);
    bool is_gradient = run == experts_tn;
    int64_t rows = is_gradient || first_is_out ? first : second;
    tensor(b, is_gradient ? DTYPE_F32 : DTYPE_BF16, EXPERTS * rows, rows == first ? second : first,
           0);
    show_product(b, name, run, n, first, second);
    release_mixture(b, tokens);
}

static void time_mixture(struct bench *b, int64_t tokens)
{
    double n = (double)tokens * CHOSEN, routed = (double)tokens * EXPERTS * 6;
    printf("\na mixture of experts, %lld tokens\n", (long long)tokens);
    mixture(b, tokens);
    show_bytes(b, "experts: router", route, routed);
    release_mixture(b, tokens);
    mixture(b, tokens);
    show_bytes(b, "experts: router backward", route_backward, routed);
    release_mixture(b, tokens);
    mixture(b, tokens);
    tensor(b, DTYPE_BF16, tokens * CHOSEN, NARROW, 0), tensor(b, DTYPE_BF16, tokens, NARROW, 0);
    show_bytes(b, "experts: combine", combine, 2 * NARROW * (n + (double)tokens));
    release_mixture(b, tokens);
    mixture(b, tokens);
    tensor(b, DTYPE_BF16, tokens * CHOSEN, EXPERT, 0);
    tensor(b, DTYPE_BF16, tokens * CHOSEN, 2 * EXPERT, 0);
    show_bytes(b, "experts: swiglu backward", weighted, 10 * EXPERT * n);
    release_mixture(b, tokens);
    time_experts(b, "experts: gate_up", experts_nt, tokens, 2 * EXPERT, NARROW, true);
    time_experts(b, "experts: down", experts_nt, tokens, NARROW, EXPERT, true);
    time_experts(b, "experts: gate_up back", experts_nn, tokens, NARROW, 2 * EXPERT, false);
    time_experts(b, "experts: down back", experts_nn, tokens, EXPERT, NARROW, false);
    time_experts(b, "experts: gate_up weights", experts_tn, tokens, 2 * EXPERT, NARROW, true);
    time_experts(b, "experts: skinny x A", experts_nt, tokens, 64, NARROW, true);
    time_experts(b, "experts: skinny dB", experts_tn, tokens, EXPERT, 16, true);
}

enum err timing_run(struct device *gpu, const char *word)
{
    struct bench b = { .gpu = gpu, .op = gpu->backend };
    if (!strcmp(word, "experts")) {
        time_mixture(&b, 4096);
        time_mixture(&b, 16384);
        return gpu->backend->sync(gpu);
    }
    printf("against %.1f TB/s and %.0f TFLOP/s\n", copy_bytes_per_s / 1e12,
           bf16_flops_per_s / 1e12);
    time_weights(&b);
    time_tokens(&b, 8192);
    time_tokens(&b, 16384);
    time_adapters(&b, 8192);
    time_adapters(&b, 16384);
    time_products(&b, 8192);
    time_products(&b, 16384);
    printf("\nthe head, 2048 rows\n");
    time_nt(&b, "head", 2048, VOCABULARY, WIDTH);
    time_nn(&b, "head back", 2048, WIDTH, VOCABULARY);
    time_tn(&b, "head weights", VOCABULARY, WIDTH, 2048);
    return gpu->backend->sync(gpu);
}
