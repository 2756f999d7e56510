// SPDX-License-Identifier: Apache-2.0
// Speed of a training step on the CPU, as a share of the speed of its own matrix product.
//
//     bench_train [TOKENS [STEPS]]
//
// A Llama shape of 100 M weights (12 layers of width 768), one document of 1,024 tokens, every
// token labelled, random weights. Prints executed FLOP/s of full training and of LoRA in fp32
// and the best rate of the linears' own products, measured in the same process. Exits with 1 if
// full training is below 60 % of that rate.

#include "base/rng.h"
#include "train/transformer.h"
#include "train/cpu/product.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BOUND 0.6

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const struct model shape = { .name = "100M",
                                    .layers = 12,
                                    .width = 768,
                                    .heads = 12,
                                    .kv_heads = 12,
                                    .head_size = 64,
                                    .ffn_width = 2048,
                                    .vocabulary = 20000,
                                    .tied_embeddings = true,
                                    .gated = true,
                                    .norms_per_layer = 2 };

// The best of three products (T, C) × (F, C)ᵀ.
static double product_rate(struct device *device, int64_t tokens)
{
    int64_t c = shape.width, f = shape.ffn_width;
    float *at = calloc((size_t)(tokens * c + f * c + tokens * f), sizeof *at);
    if (!at)
        return NAN;
    for (int64_t i = 0; i < tokens * c + f * c; i++)
        at[i] = (float)(i % 17) - 8;
    struct tensor x = tensor_of(at, DTYPE_F32, tokens, c);
    struct tensor w = tensor_of(at + tokens * c, DTYPE_F32, f, c);
    struct tensor y = tensor_of(at + tokens * c + f * c, DTYPE_F32, tokens, f);
    double best = INFINITY;
    for (int i = 0; i < 4; i++) {
        double began = now();
        device->backend->matmul_nt(device, y, x, w, 1, 0);
        best = fmin(best, now() - began);
    }
    free(at);
    return 2.0 * (double)(tokens * c * f) / best;
}

static struct micro_batch make_batch(struct arena *arena, int64_t tokens)
{
    int32_t *ids = ARENA_NEW(arena, int32_t, tokens), *places = ARENA_NEW(arena, int32_t, tokens);
    struct span *span = ARENA_NEW(arena, struct span, 1);
    struct rng rng = rng_seeded(1);
    for (int64_t i = 0; i < tokens; i++) {
        ids[i] = (int32_t)rng_below(&rng, (uint64_t)shape.vocabulary);
        places[i] = (int32_t)i;
    }
    *span = (struct span){ 0, (int32_t)tokens };
    return (struct micro_batch){ tokens, ids, places, span, 1, places, ids, tokens, 0 };
}

// Returns the share of the product's rate.
static double measure(struct arena *arena, struct device *device, int method, int64_t tokens,
                      int steps)
{
    struct decoder decoder;
    struct recipe recipe = recipe_default();
    recipe.method = method;
    recipe.dropout = 0;
    struct transformer_setup setup = { .decoder = &decoder,
                                       .recipe = &recipe,
                                       .tokens = tokens,
                                       .labelled = tokens,
                                       .longest = tokens };
    struct transformer t;
    struct transformer_trace trace = { 0 };
    struct micro_batch batch = make_batch(arena, tokens);
    struct transformer_sums sums;
    double flops = 0;
    if (decoder_of(&decoder, arena, &shape) || transformer_init(&t, arena, device, &setup)) {
        fprintf(stderr, "bench_train: %s\n", error_text());
        return 0;
    }
    transformer_random_weights(&t, 1);
    double before = product_rate(device, tokens), began = now();
    t.trace = &trace;
    for (int i = 0; i < steps; i++) {
        transformer_begin(&t);
        transformer_loss(&t, &batch, 1 / (double)tokens);
        transformer_backward(&t, &batch);
        if (transformer_sums(&t, &sums))
            return 0;
    }
    double seconds = (now() - began) / steps, rate = fmax(before, product_rate(device, tokens));
    for (int i = 0; i < trace.count; i++)
        flops += trace.items[i].flops / steps;
    printf("%-5s %6.2f s per step, %5.0f tokens/s, %5.1f GFLOP/s of %5.1f by %s: %.0f %%\n",
           recipe_methods[method], seconds, (double)tokens / seconds, flops / seconds / 1e9,
           rate / 1e9, product_name(), 100 * flops / seconds / rate);
    transformer_release(&t);
    return flops / seconds / rate;
}

int main(int argc, char **argv)
{
    int64_t tokens = argc > 1 ? strtol(argv[1], NULL, 10) : 1024;
    int steps = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 1;
    struct arena arena = { 0 };
    struct device device;
    if (tokens < 1 || steps < 1 || backend_cpu.open(&device, 0))
        return 2;
    printf("%s weights, %lld tokens, %d cores\n",
           text_count(&arena, (double)model_parameters(&shape)), (long long)tokens, device.workers);
    double full = measure(&arena, &device, RECIPE_FULL, tokens, steps);
    measure(&arena, &device, RECIPE_LORA, tokens, steps);
    device.backend->close(&device);
    arena_release(&arena);
    return full < BOUND;
}
