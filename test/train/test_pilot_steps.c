// SPDX-License-Identifier: Apache-2.0
// A pilot on the tiny model: what is timed, never how long it took.

#include "test/train/tiny.h"
#include "train/pilot_steps.h"

#include <math.h>
#include <string.h>

enum { WINDOW = 24, ROWS = 2 };

struct run {
    struct tiny *tiny;
    struct loader loader;
    struct training training;
    struct group group;
    struct pilot_steps steps;
    volatile int stop;
};

static struct run *prepare(int64_t accumulation)
{
    struct run *run = ARENA_NEW(&test_arena, struct run, 1);
    struct rng rng = rng_seeded(3);
    run->tiny = tiny_make("qwen3");
    run->tiny->setup.compute = DTYPE_F32;
    run->tiny->setup.tokens = run->tiny->setup.labelled = WINDOW * ROWS;
    loader_init(&run->loader, &test_arena, &(struct loader_settings){ WINDOW, ROWS, 1, 0, false });
    for (int i = 0; i < 60; i++) {
        int32_t ids[WINDOW];
        uint8_t learned[WINDOW];
        int size = 4 + (int)rng_below(&rng, WINDOW - 4);
        for (int j = 0; j < size; j++)
            ids[j] = (int32_t)rng_below(&rng, 61), learned[j] = j > 2;
        loader_add(&run->loader, ids, learned, size);
    }
    CHECK(!loader_start(&run->loader));
    CHECK(!transformer_init(&run->tiny->transformer, &test_arena, gradient_device(),
                            &run->tiny->setup));
    transformer_random_weights(&run->tiny->transformer, 1);
    run->group = group_alone();
    run->training = (struct training){ .settings = training_default(),
                                       .transformer = &run->tiny->transformer,
                                       .loader = &run->loader,
                                       .group = &run->group,
                                       .stop = &run->stop };
    run->training.settings.accumulation = accumulation;
    run->training.settings.rate = 1e-2;
    run->training.settings.epochs = 100;
    CHECK(!training_plan(&run->training));
    pilot_steps_init(&run->steps, &test_arena, &run->training);
    return run;
}

static void finish(struct run *run)
{
    transformer_release(&run->tiny->transformer);
    loader_release(&run->loader);
}

TEST(pilot_steps_begin_with_the_batch_that_takes_most)
{
    struct run *run = prepare(2);
    CHECK(!pilot_steps_worst(&run->steps));
    CHECK(run->steps.sample_count == 1);
    const struct pilot_sample *worst = &run->steps.samples[0];
    CHECK(worst->tokens == WINDOW * ROWS && worst->squares == WINDOW * WINDOW * ROWS);
    CHECK(worst->labelled == (WINDOW - 1) * ROWS); // the last of a document predicts nothing
    CHECK(worst->seconds > 0);
    finish(run);
}

TEST(pilot_steps_probes_vary_tokens_lengths_and_labels_apart)
{
    struct run *run = prepare(2);
    for (int i = 0; i < 60; i++)
        CHECK(!pilot_steps_probe(&run->steps));
    double low[3] = { INFINITY, INFINITY, INFINITY }, high[3] = { 0 };
    for (size_t i = 0; i < run->steps.sample_count; i++) {
        const struct pilot_sample *s = &run->steps.samples[i];
        double of[3] = { s->tokens, s->squares / s->tokens, s->labelled / s->tokens };
        CHECK(s->tokens <= WINDOW * ROWS && s->squares <= WINDOW * s->tokens);
        CHECK(s->labelled <= s->tokens && s->seconds > 0);
        for (int k = 0; k < 3; k++)
            low[k] = fmin(low[k], of[k]), high[k] = fmax(high[k], of[k]);
    }
    for (int k = 0; k < 3; k++)
        CHECK(low[k] <= 0.5 * high[k]);
    CHECK(high[0] == WINDOW * ROWS && high[1] == WINDOW);
    finish(run);
}

TEST(pilot_steps_count_what_training_takes)
{
    struct run *run = prepare(3);
    double tokens = 0, labelled = 0;
    int64_t steps = run->training.epoch_steps;
    for (int64_t i = 0; i < steps; i++)
        CHECK(!pilot_steps_step(&run->steps));
    CHECK(run->steps.step_count == (size_t)steps);
    for (int64_t i = 0; i < steps; i++) {
        tokens += run->steps.of_steps[i].tokens, labelled += run->steps.of_steps[i].labelled;
        CHECK(run->steps.steps[i].tokens == run->steps.of_steps[i].tokens);
        CHECK(run->steps.micro_batches[i] >= 1 && run->steps.micro_batches[i] <= 3);
    }
    CHECK(tokens == (double)run->loader.starts[run->loader.count]); // an epoch, without padding
    CHECK(labelled == (double)run->training.state.trained_tokens);
    CHECK(tokens == (double)run->training.state.processed_tokens);
    finish(run);
}

// The weights after steps with probes between them are those of steps without, bit for bit.
TEST(pilot_steps_probes_leave_the_run_as_it_was)
{
    struct run *plain = prepare(2), *probed = prepare(2);
    CHECK(!pilot_steps_worst(&probed->steps));
    for (int i = 0; i < 6; i++) {
        CHECK(!pilot_steps_step(&plain->steps));
        CHECK(!pilot_steps_step(&probed->steps));
        CHECK(!pilot_steps_probe(&probed->steps));
    }
    double seconds = 0;
    CHECK(!pilot_steps_evaluate(&probed->steps, &seconds) && seconds > 0);
    const struct transformer *a = &plain->tiny->transformer, *b = &probed->tiny->transformer;
    CHECK(a->blocks.bytes[BLOCKS_TRAINABLES] == b->blocks.bytes[BLOCKS_TRAINABLES]);
    CHECK(!memcmp(a->blocks.at[BLOCKS_TRAINABLES], b->blocks.at[BLOCKS_TRAINABLES],
                  (size_t)a->blocks.bytes[BLOCKS_TRAINABLES]));
    CHECK(!memcmp(a->blocks.at[BLOCKS_OPTIMIZER], b->blocks.at[BLOCKS_OPTIMIZER],
                  (size_t)a->blocks.bytes[BLOCKS_OPTIMIZER]));
    finish(plain);
    finish(probed);
}

TEST(pilot_steps_that_were_stopped_do_not_count)
{
    struct run *run = prepare(2);
    CHECK(!pilot_steps_step(&run->steps));
    run->stop = 1;
    CHECK(!pilot_steps_step(&run->steps));
    CHECK(run->steps.step_count == 1);
    finish(run);
}

// Steps that take what a fit says and 3 ms more.
TEST(pilot_steps_update_is_what_the_fit_leaves_of_a_step)
{
    struct run *run = prepare(2);
    const struct pilot_fit fit = { .constant_seconds = 0.01,
                                   .seconds_per_token = 1e-4,
                                   .seconds_per_square = 1e-6,
                                   .seconds_per_labelled = 1e-5,
                                   .samples = 50 };
    for (int i = 0; i < 5; i++) {
        CHECK(!pilot_steps_step(&run->steps));
        struct pilot_sample *s = &run->steps.of_steps[i];
        s->seconds = 0.003 + 0.01 * run->steps.micro_batches[i] + 1e-4 * s->tokens +
                     1e-6 * s->squares + 1e-5 * s->labelled + (i ? 0 : 5);
    }
    CHECK_NEAR(pilot_steps_update(&run->steps, &fit, 1, &test_arena), 0.003, 1e-9);
    struct pilot_fit none = { .samples = 0 };
    CHECK(isnan(pilot_steps_update(&run->steps, &none, 1, &test_arena)));
    CHECK(isnan(pilot_steps_update(&run->steps, &fit, 5, &test_arena)));
    finish(run);
}
