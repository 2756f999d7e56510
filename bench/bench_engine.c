// Steps of the engine on a GPU, as a trainer runs them: tokens/s, executed FLOP/s, memory.
//
//     build/fast/bench/engine llama-3.1-8b lora bf16 4096 4 [steps] [accumulation] [level] [limit]
//
// Random weights, made on the device; random tokens, all labelled, one document a row. Prints one
// JSON object: the median of the steps behind two that warm up. The limit is of a product of
// 8192 × 8192 in bf16, measured just before.

#include "core/catalog.h"
#include "train/arrange.h"
#include "train/device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct job {
    const char *model, *method, *precision;
    int64_t context, micro_batch, steps, accumulation;
    const char *level;
    double limit;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int place_of(const char *name, const char *const *names)
{
    for (int i = 0; names[i]; i++)
        if (!strcmp(names[i], name))
            return i;
    return 0;
}

static struct micro_batch make_batch(struct arena *arena, const struct transformer_setup *setup,
                                     uint32_t seed)
{
    int64_t tokens = setup->tokens, rows = tokens / setup->longest;
    int32_t *ids = ARENA_NEW(arena, int32_t, tokens),
            *positions = ARENA_NEW(arena, int32_t, tokens);
    int32_t *labelled = ARENA_NEW(arena, int32_t, tokens);
    struct span *spans = ARENA_NEW(arena, struct span, rows);
    for (int64_t i = 0; i < tokens; i++) {
        seed = seed * 1664525u + 1013904223u;
        ids[i] = (int32_t)((seed >> 8) % (uint64_t)setup->decoder->model.vocabulary);
        positions[i] = (int32_t)(i % setup->longest);
        labelled[i] = (int32_t)i;
    }
    for (int64_t i = 0; i < rows; i++)
        spans[i] = (struct span){ (int32_t)(i * setup->longest), (int32_t)setup->longest };
    return (struct micro_batch){ tokens, ids, positions, spans, rows, labelled, ids, tokens, 0 };
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static enum err run(const struct job *job, struct arena *arena, struct transformer *t,
                    double *seconds, double *loss)
{
    struct micro_batch batch = make_batch(arena, &t->setup, 1);
    for (int64_t step = 0; step < job->steps; step++) {
        struct transformer_sums sums;
        double began = now();
        transformer_begin(t);
        for (int64_t i = 0; i < job->accumulation; i++) {
            double scale = 1 / (double)(batch.labelled * job->accumulation);
            transformer_loss(t, &batch, scale);
            transformer_backward(t, &batch);
        }
        transformer_clip(t, 1);
        transformer_update(
            t, &(struct update){ { 1e-4, 0.9, 0.999, 1e-8, 0, step + 1, (uint64_t)step }, 0 });
        TRY(transformer_sums(t, &sums));
        seconds[step] = now() - began;
        *loss = sums.loss / (double)(batch.labelled * job->accumulation);
    }
    return OK;
}

static enum err measure(const struct job *job, struct arena *arena)
{
    static const char *const precisions[] = { "fp32", "bf16", "fp8", NULL };
    struct catalog catalog;
    const struct model *model;
    struct decoder decoder;
    struct device device;
    struct transformer t;
    struct transformer_trace trace = { 0 };
    struct recipe recipe = recipe_default();
    int precision = place_of(job->precision, precisions);
    double flops = 0, loss = 0, *seconds = ARENA_NEW(arena, double, job->steps);
    TRY(catalog_open(&catalog, arena, NULL, 0));
    TRY(catalog_model(&model, &catalog, job->model));
    TRY(decoder_of(&decoder, arena, model));
    TRY(device_open(&device, DEVICE_CUDA, 0));
    double peak = device_peak(&device);
    recipe.method = place_of(job->method, recipe_methods);
    recipe.rank = 16;
    recipe.dropout = 0;
    struct arrangement a = { .setup = { .decoder = &decoder,
                                        .recipe = &recipe,
                                        .compute = precision ? DTYPE_BF16 : DTYPE_F32,
                                        .level =
                                            (enum recompute)place_of(job->level, recompute_names),
                                        .fp8 = precision == 2,
                                        .bf16_states = recipe.method == RECIPE_FULL && precision },
                             .context = job->context,
                             .micro_batch = job->micro_batch };
    TRY(arrange(&a, &device, job->limit));
    double began = now();
    TRY(transformer_init(&t, arena, &device, &a.setup));
    transformer_start(&t, 1);
    TRY(device.backend->sync(&device));
    double started = now();
    transformer_tune(&t);
    TRY(device.backend->sync(&device));
    double tuned = now();
    t.trace = &trace;
    TRY(run(job, arena, &t, seconds, &loss));
    for (int i = 0; i < trace.count; i++)
        flops += trace.items[i].flops / (double)job->steps;
    int64_t warm = job->steps > 3 ? 2 : 0;
    qsort(seconds + warm, (size_t)(job->steps - warm), sizeof *seconds, compare);
    double median = seconds[warm + (job->steps - warm) / 2];
    double tokens = (double)(t.setup.tokens * job->accumulation);
    enum recompute highest = t.layers[decoder.model.layers - 1].level;
    printf("{\"model\": \"%s\", \"method\": \"%s\", \"precision\": \"%s\", \"context\": %lld, "
           "\"micro_batch\": %lld, \"accumulation\": %lld, \"recompute\": \"%s\", "
           "\"step_seconds\": %.5f, \"tokens_per_second\": %.1f, \"tflops\": %.1f, "
           "\"peak_tflops\": %.1f, \"planned_bytes\": %lld, \"allocated_bytes\": %lld, "
           "\"used_bytes\": %lld, \"start_seconds\": %.2f, \"tune_seconds\": %.2f, \"loss\": %.5f, "
           "\"quantized\": %s}\n",
           job->model, job->method, job->precision, (long long)job->context,
           (long long)a.micro_batch, (long long)job->accumulation, recompute_names[highest], median,
           tokens / median, flops / median / 1e12, peak / 1e12, (long long)a.planned_bytes,
           (long long)device.allocated_bytes, (long long)device.backend->used_bytes(&device),
           started - began, tuned - started, loss, a.was_quantized ? "true" : "false");
    transformer_release(&t);
    device.backend->close(&device);
    return OK;
}

int main(int argc, char **argv)
{
    struct job job = { "llama-3.1-8b", "lora", "bf16", 4096, 0, 8, 1, "none", 0 };
    struct arena arena = { 0 };
    struct device device;
    const char **words[] = { &job.model, &job.method, &job.precision };
    int64_t *numbers[] = { &job.context, &job.micro_batch, &job.steps, &job.accumulation };
    for (int i = 1; i < argc && i < 4; i++)
        *words[i - 1] = argv[i];
    for (int i = 4; i < argc && i < 8; i++)
        *numbers[i - 4] = strtoll(argv[i], NULL, 10);
    job.level = argc > 8 ? argv[8] : job.level;
    job.limit = argc > 9 ? strtod(argv[9], NULL) * 1073741824 : 0;
    if (device_open(&device, DEVICE_CUDA, 0)) {
        printf("engine: left out: %s\n", error_text());
        return 0;
    }
    device.backend->close(&device);
    enum err err = measure(&job, &arena);
    if (err)
        fprintf(stderr, "bench_engine: %s\n", error_text());
    arena_release(&arena);
    return err ? 1 : 0;
}
