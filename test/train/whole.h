// SPDX-License-Identifier: Apache-2.0
// whole: a run of the tiny model on a small language, in memory and one folder.

#pragma once

#include "test/train/tiny.h"
#include "train/training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A language in which each word decides the next: t → (5 t + 3) mod 59.
static inline void whole_add_sentences(struct loader *loader, int count)
{
    struct rng rng = rng_seeded(3);
    for (int i = 0; i < count; i++) {
        int32_t ids[24] = { (int32_t)rng_below(&rng, 59) };
        uint8_t learned[24] = { 0 };
        int size = 4 + (int)rng_below(&rng, 20);
        for (int j = 1; j < size; j++) {
            ids[j] = (5 * ids[j - 1] + 3) % 59;
            learned[j] = 1;
        }
        loader_add(loader, ids, learned, size);
    }
}

struct whole {
    struct tiny *tiny;
    struct loader loader;
    struct training training;
    struct group group;
    double losses[400], norms[400];
    char folder[64];
    volatile int stop; // as a signal sets it …
    int64_t stop_at;   // … after this step
    int unlabelled;    // sentences without labels, beside the others
};

static inline void whole_keep_loss(void *context, const struct training *training,
                                   const struct training_report *report)
{
    struct whole *run = context;
    (void)training;
    run->losses[report->step - 1] = report->loss;
    run->norms[report->step - 1] = report->norm;
    run->stop = report->step == run->stop_at;
}

// A run that can still be changed before whole_start() lays it out.
static inline struct whole *whole_make_of(struct tiny *tiny, int method, enum dtype compute,
                                          int64_t micro_batch, int64_t accumulation)
{
    struct whole *run = ARENA_NEW(&test_arena, struct whole, 1);
    run->tiny = tiny;
    run->tiny->recipe.method = method;
    run->tiny->setup.compute = compute;
    run->tiny->setup.tokens = run->tiny->setup.labelled = 24 * micro_batch;
    run->group = group_alone();
    run->training.settings = training_default();
    run->training.settings.accumulation = accumulation;
    run->training.settings.rate = 1e-2;
    run->training.settings.save_every = 0;
    strcpy(run->folder, "/tmp/gpuhours-training-XXXXXX");
    CHECK(mkdtemp(run->folder));
    return run;
}

static inline struct whole *whole_make(int method, enum dtype compute, int64_t micro_batch,
                                       int64_t accumulation)
{
    return whole_make_of(tiny_make("qwen3"), method, compute, micro_batch, accumulation);
}

static inline struct whole *whole_start(struct whole *run, struct device *device)
{
    struct loader_settings settings = { 24, 0, 1, 0.1, run->tiny->setup.beta > 0 };
    settings.micro_batch = run->tiny->setup.tokens / loader_row_tokens(&settings);
    loader_init(&run->loader, &test_arena, &settings);
    whole_add_sentences(&run->loader, 128);
    for (int i = 0; i < run->unlabelled; i++)
        loader_add(&run->loader, (int32_t[24]){ 0 }, (uint8_t[24]){ 0 }, 24);
    CHECK(!loader_start(&run->loader));
    CHECK(!transformer_init(&run->tiny->transformer, &test_arena, device, &run->tiny->setup));
    transformer_random_weights(&run->tiny->transformer, 1);
    transformer_loaded(&run->tiny->transformer);
    run->training = (struct training){ .settings = run->training.settings,
                                       .transformer = &run->tiny->transformer,
                                       .loader = &run->loader,
                                       .group = &run->group,
                                       .out = run->folder,
                                       .fingerprint = "test",
                                       .context = run,
                                       .report = whole_keep_loss,
                                       .stop = &run->stop };
    return run;
}

static inline struct whole *whole_prepare(int method, enum dtype compute, int64_t micro_batch,
                                          int64_t accumulation)
{
    return whole_start(whole_make(method, compute, micro_batch, accumulation), gradient_device());
}

static inline bool whole_have_same_bits(const struct whole *a, const struct whole *b)
{
    const struct blocks *x = &a->tiny->transformer.blocks, *y = &b->tiny->transformer.blocks;
    return !memcmp(a->losses, b->losses, sizeof a->losses) &&
           !memcmp(x->at[BLOCKS_TRAINABLES], y->at[BLOCKS_TRAINABLES],
                   (size_t)x->bytes[BLOCKS_TRAINABLES]);
}

static inline void whole_finish(struct whole *run)
{
    char command[128];
    transformer_release(&run->tiny->transformer);
    loader_release(&run->loader);
    snprintf(command, sizeof command, "rm -rf %s", run->folder);
    CHECK(!system(command));
}
