// SPDX-License-Identifier: Apache-2.0
// Steps of the engine on a GPU, as a trainer runs them: tokens/s, executed FLOP/s, memory.
//
//     build/fast/bench/engine llama-3.1-8b lora bf16 4096 4 [steps] [accumulation] [level] [limit]
//                             [lengths.csv packed|padded]
//
// A method may name the targets of its adapters: lora:attention.
//
// With a file of lengths, a step is one pass over its first 512 documents, cut to the context:
// packed as the trainer packs them, or in micro-batches of that many documents in file order, each
// padded to the longest of its micro-batch. Tokens per second then count real tokens only. Random
// weights, created on the device; random tokens, all labelled, one document per row. Prints one
// JSON object: the median of the steps after two warm-up steps. The limit is the rate of a product
// of 8192 × 8192 in bf16, measured just before. ANY_ORDER=1 in the environment lets attention add
// in any order; TUNE=0 leaves tuning out.

#include "core/step/catalog.h"
#include "train/arrange.h"
#include "train/device.h"
#include "train/loader.h"

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
    const char *lengths;
    bool is_padded;
};

struct work { // one step
    struct micro_batch *batches;
    int64_t count, labelled;
    double tokens, processed; // without and with padding
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

// The method before the colon.
static int method_of(const char *words)
{
    size_t size = strcspn(words, ":");
    for (int i = 0; recipe_methods[i]; i++)
        if (strlen(recipe_methods[i]) == size && !strncmp(recipe_methods[i], words, size))
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

// --- documents of given lengths ----------------------------------------------

enum { DOCUMENTS = 512 };

static int64_t read_lengths(const char *path, int32_t *lengths, int64_t longest)
{
    char line[256];
    int64_t count = 0;
    FILE *file = fopen(path, "r");
    while (file && count < DOCUMENTS && fgets(line, sizeof line, file)) {
        int64_t length = strtoll(line, NULL, 10);
        if (length > 1) // else a comment or the header
            lengths[count++] = (int32_t)(length < longest ? length : longest);
    }
    if (file)
        fclose(file);
    return count;
}

static void add_batch(struct work *work, const struct micro_batch *batch)
{
    work->batches[work->count++] = *batch;
    work->labelled += batch->labelled;
    work->processed += (double)batch->tokens;
}

static void *copy_of(struct arena *arena, const void *from, int64_t count, size_t size)
{
    return arena_copy(arena, from, (size_t)count * size);
}

static enum err make_packed(struct work *work, struct arena *arena, const struct job *job,
                            const struct micro_batch *random, const int32_t *lengths, int64_t count)
{
    struct loader loader;
    uint8_t *learned = ARENA_NEW(arena, uint8_t, job->context);
    memset(learned, 1, (size_t)job->context);
    loader_init(&loader, arena,
                &(struct loader_settings){ job->context, job->micro_batch, 1, 0, false });
    for (int64_t i = 0; i < count; i++)
        loader_add(&loader, random->ids, learned, lengths[i]);
    TRY(loader_start(&loader));
    for (int64_t i = 0; i < loader.train.micro_batches; i++) {
        struct micro_batch b;
        loader_batch(&loader, &b, i);
        b.ids = copy_of(arena, b.ids, b.tokens, sizeof *b.ids);
        b.positions = copy_of(arena, b.positions, b.tokens, sizeof *b.positions);
        b.spans = copy_of(arena, b.spans, b.span_count, sizeof *b.spans);
        b.rows = copy_of(arena, b.rows, b.labelled, sizeof *b.rows);
        b.targets = copy_of(arena, b.targets, b.labelled, sizeof *b.targets);
        add_batch(work, &b);
    }
    loader_release(&loader);
    return OK;
}

// Padding without labels follows a document; it is computed like any token.
static void make_padded(struct work *work, struct arena *arena, const struct job *job,
                        const struct micro_batch *random, const int32_t *lengths, int64_t count)
{
    for (int64_t first = 0; first < count; first += job->micro_batch) {
        int64_t end = first + job->micro_batch < count ? first + job->micro_batch : count;
        int32_t width = 0;
        for (int64_t i = first; i < end; i++)
            width = lengths[i] > width ? lengths[i] : width;
        int64_t tokens = (end - first) * width;
        int32_t *positions = ARENA_NEW(arena, int32_t, tokens),
                *rows = ARENA_NEW(arena, int32_t, tokens);
        struct span *spans = ARENA_NEW(arena, struct span, end - first);
        struct micro_batch b = { tokens, random->ids, positions, spans, end - first,
                                 rows,   random->ids, 0,         0 };
        for (int64_t i = 0; i < tokens; i++) {
            positions[i] = (int32_t)(i % width);
            if (positions[i] + 1 < lengths[first + i / width])
                rows[b.labelled++] = (int32_t)i;
        }
        for (int64_t i = 0; i < end - first; i++)
            spans[i] = (struct span){ (int32_t)(i * width), width };
        add_batch(work, &b);
    }
}

static enum err make_work(struct work *work, struct arena *arena, const struct job *job,
                          const struct transformer_setup *setup)
{
    static int32_t lengths[DOCUMENTS];
    struct micro_batch random = make_batch(arena, setup, 1);
    *work = (struct work){ .batches = ARENA_NEW(arena, struct micro_batch, DOCUMENTS) };
    if (!job->lengths) {
        work->batches = ARENA_NEW(arena, struct micro_batch, job->accumulation);
        for (int64_t i = 0; i < job->accumulation; i++)
            add_batch(work, &random);
        work->tokens = work->processed;
        return OK;
    }
    int64_t count = read_lengths(job->lengths, lengths, job->context);
    if (!count)
        return fail(ERR_INPUT, "%s: holds no lengths", job->lengths);
    for (int64_t i = 0; i < count; i++)
        work->tokens += lengths[i];
    if (!job->is_padded)
        return make_packed(work, arena, job, &random, lengths, count);
    make_padded(work, arena, job, &random, lengths, count);
    return OK;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static enum err run(const struct job *job, const struct work *work, struct transformer *t,
                    double *seconds, double *loss)
{
    for (int64_t step = 0; step < job->steps; step++) {
        struct transformer_sums sums;
        double began = now();
        transformer_begin(t);
        for (int64_t i = 0; i < work->count; i++) {
            transformer_loss(t, &work->batches[i], 1 / (double)work->labelled);
            transformer_backward(t, &work->batches[i]);
        }
        transformer_norm(t);
        transformer_clip(t, 1);
        transformer_update(
            t, &(struct update){ { 1e-4, 0.9, 0.999, 1e-8, 0, step + 1, (uint64_t)step, 0 }, 0 });
        TRY(transformer_sums(t, &sums));
        seconds[step] = now() - began;
        *loss = sums.loss / (double)work->labelled;
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
    struct work work;
    struct recipe recipe = recipe_default();
    const char *tunes = getenv("TUNE");
    int precision = place_of(job->precision, precisions);
    double flops = 0, loss = 0, *seconds = ARENA_NEW(arena, double, job->steps);
    TRY(catalog_open(&catalog, arena, NULL, 0));
    TRY(catalog_model(&model, &catalog, job->model));
    TRY(decoder_of(&decoder, arena, model));
    TRY(device_open(&device, DEVICE_CUDA, 0));
    double peak = device_peak(&device);
    const char *targets = strchr(job->method, ':');
    recipe.targets = targets ? targets + 1 : recipe.targets;
    recipe.method = method_of(job->method);
    recipe.rank = 16;
    recipe.dropout = 0;
    struct arrangement a = { .setup = { .decoder = &decoder,
                                        .recipe = &recipe,
                                        .compute = precision ? DTYPE_BF16 : DTYPE_F32,
                                        .level =
                                            (enum recompute)place_of(job->level, recompute_names),
                                        .fp8 = precision == 2,
                                        .any_order = getenv("ANY_ORDER") != NULL,
                                        .bf16_states = recipe.method == RECIPE_FULL && precision },
                             .context = job->context,
                             .micro_batch = job->micro_batch };
    TRY(arrange(&a, &device, job->limit));
    double began = now();
    TRY(transformer_init(&t, arena, &device, &a.setup));
    transformer_random_weights(&t, 1);
    TRY(device.backend->sync(&device));
    double started = now();
    if (!tunes || strcmp(tunes, "0"))
        transformer_tune(&t, TUNE_NOW);
    TRY(device.backend->sync(&device));
    double tuned = now();
    t.trace = &trace;
    struct job chosen = *job;
    chosen.micro_batch = a.micro_batch;
    TRY(make_work(&work, arena, &chosen, &t.setup));
    TRY(run(job, &work, &t, seconds, &loss));
    for (int i = 0; i < trace.count; i++)
        flops += trace.items[i].flops / (double)job->steps;
    int64_t warm = job->steps > 3 ? 2 : 0;
    qsort(seconds + warm, (size_t)(job->steps - warm), sizeof *seconds, compare);
    double median = seconds[warm + (job->steps - warm) / 2];
    enum recompute highest = t.layers[decoder.model.layers - 1].level;
    long long at[RECOMPUTE_LEVELS] = { 0 };
    for (int64_t i = 0; i < decoder.model.layers; i++)
        at[t.layers[i].level]++;
    printf("{\"model\": \"%s\", \"method\": \"%s\", \"precision\": \"%s\", \"context\": %lld, "
           "\"micro_batch\": %lld, \"accumulation\": %lld, \"recompute\": \"%s\", "
           "\"step_seconds\": %.5f, \"tokens_per_second\": %.1f, \"tflops\": %.1f, "
           "\"peak_tflops\": %.1f, \"planned_bytes\": %lld, \"allocated_bytes\": %lld, "
           "\"used_bytes\": %lld, \"start_seconds\": %.2f, \"tune_seconds\": %.2f, \"loss\": %.5f, "
           "\"any_order\": %s, \"layers_at_level\": [%lld, %lld, %lld, %lld, %lld], "
           "\"quantized\": %s, \"batches\": %lld, \"real_share\": %.4f, \"lengths\": \"%s%s\"}\n",
           job->model, job->method, job->precision, (long long)job->context,
           (long long)a.micro_batch, (long long)work.count, recompute_names[highest], median,
           work.tokens / median, flops / median / 1e12, peak / 1e12, (long long)a.planned_bytes,
           (long long)device.allocated_bytes, (long long)device.backend->used_bytes(&device),
           started - began, tuned - started, loss, a.setup.any_order ? "true" : "false", at[0],
           at[1], at[2], at[3], at[4], a.was_quantized ? "true" : "false", (long long)work.count,
           work.tokens / work.processed,
           job->lengths ? job->is_padded ? "padded: " : "packed: " : "",
           job->lengths ? job->lengths : "");
    transformer_release(&t);
    device.backend->close(&device);
    return OK;
}

int main(int argc, char **argv)
{
    struct job job = { "llama-3.1-8b", "lora", "bf16", 4096, 0, 8, 1, "none", 0, NULL, false };
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
    job.lengths = argc > 10 ? argv[10] : NULL;
    job.is_padded = argc > 11 && !strcmp(argv[11], "padded");
    if (device_open(&device, DEVICE_CUDA, 0)) {
        printf("engine: skipped: %s\n", error_text());
        return 0;
    }
    device.backend->close(&device);
    enum err err = measure(&job, &arena);
    if (err)
        fprintf(stderr, "bench_engine: %s\n", error_text());
    arena_release(&arena);
    return err ? 1 : 0;
}
