// SPDX-License-Identifier: Apache-2.0
// Whole runs on the tiny model, in memory; files and signals are the business of test/cli.

#include "test/train/tiny.h"
#include "train/training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A language in which each word decides the next: t → (5 t + 3) mod 59.
static void add_sentences(struct loader *loader, int count)
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
    double losses[400];
    char folder[64];
    volatile int stop; // as a signal sets it …
    int64_t stop_at;   // … after this step
};

static void keep_loss(void *context, const struct training *training,
                      const struct training_report *report)
{
    struct whole *run = context;
    (void)training;
    run->losses[report->step - 1] = report->loss;
    run->stop = report->step == run->stop_at;
}

static struct whole *prepare(int method, enum dtype compute, int64_t micro_batch,
                             int64_t accumulation)
{
    struct whole *run = ARENA_NEW(&test_arena, struct whole, 1);
    run->tiny = tiny_make("qwen3");
    run->tiny->recipe.method = method;
    run->tiny->setup.compute = compute;
    run->tiny->setup.tokens = run->tiny->setup.labelled = 24 * micro_batch;
    loader_init(&run->loader, &test_arena, &(struct loader_settings){ 24, micro_batch, 1, 0.1 });
    add_sentences(&run->loader, 128);
    CHECK(!loader_start(&run->loader));
    CHECK(!transformer_init(&run->tiny->transformer, &test_arena, gradient_device(),
                            &run->tiny->setup));
    transformer_random_weights(&run->tiny->transformer, 1);
    strcpy(run->folder, "/tmp/gpuhours-training-XXXXXX");
    CHECK(mkdtemp(run->folder));
    run->group = group_alone();
    run->training = (struct training){ .settings = training_default(),
                                       .transformer = &run->tiny->transformer,
                                       .loader = &run->loader,
                                       .group = &run->group,
                                       .out = run->folder,
                                       .fingerprint = "test",
                                       .context = run,
                                       .report = keep_loss,
                                       .stop = &run->stop };
    run->training.settings.accumulation = accumulation;
    run->training.settings.rate = 1e-2;
    run->training.settings.save_every = 0;
    return run;
}

static void finish(struct whole *run)
{
    char command[128];
    transformer_release(&run->tiny->transformer);
    loader_release(&run->loader);
    snprintf(command, sizeof command, "rm -rf %s", run->folder);
    CHECK(!system(command));
}

static void run_steps(struct whole *run, double epochs)
{
    run->training.settings.epochs = epochs;
    CHECK(!training_plan(&run->training));
    CHECK(!training_resume(&run->training, &test_arena));
    enum err err = training_run(&run->training);
    test_check(!err, err ? error_text() : "", __FILE__, __LINE__);
}

// Before, the loss is that of a guess, log 61 = 4.1; knowing the rule it is near 0.
static void check_learning(int method, enum dtype compute, double epochs, double bound)
{
    struct whole *run = prepare(method, compute, 4, 2);
    run_steps(run, epochs);
    CHECK(run->losses[0] > 4);
    CHECK(run->losses[run->training.steps - 1] < bound);
    double held_out = NAN;
    CHECK(!training_evaluate(&run->training, &held_out));
    CHECK(held_out < bound); // sentences it never saw
    finish(run);
}

TEST(training_learns_a_small_language)
{
    check_learning(RECIPE_FULL, DTYPE_F32, 12, 0.1);
}

TEST(training_learns_in_bf16)
{
    check_learning(RECIPE_FULL, DTYPE_BF16, 8, 0.2);
}

TEST(training_gives_the_same_bits_for_the_same_seed)
{
    struct whole *a = prepare(RECIPE_LORA, DTYPE_F32, 2, 2);
    struct whole *b = prepare(RECIPE_LORA, DTYPE_F32, 2, 2);
    run_steps(a, 1);
    run_steps(b, 1);
    CHECK(!memcmp(a->losses, b->losses, sizeof a->losses));
    CHECK(!memcmp(a->tiny->transformer.blocks.at[BLOCKS_TRAINABLES],
                  b->tiny->transformer.blocks.at[BLOCKS_TRAINABLES],
                  (size_t)a->tiny->transformer.blocks.bytes[BLOCKS_TRAINABLES]));
    finish(a);
    finish(b);
}

TEST(training_step_does_not_depend_on_how_it_is_split)
{
    struct whole *a = prepare(RECIPE_FULL, DTYPE_F32, 1, 4);
    struct whole *b = prepare(RECIPE_FULL, DTYPE_F32, 4, 1);
    a->training.settings.max_steps = b->training.settings.max_steps = 3;
    run_steps(a, 1);
    run_steps(b, 1);
    for (int i = 0; i < 3; i++)
        CHECK_NEAR(a->losses[i], b->losses[i], 1e-6);
    finish(a);
    finish(b);
}

TEST(training_resumes_where_a_checkpoint_was_made)
{
    struct whole *straight = prepare(RECIPE_FULL, DTYPE_BF16, 2, 2);
    struct whole *broken = prepare(RECIPE_FULL, DTYPE_BF16, 2, 2);
    struct whole *resumed = prepare(RECIPE_FULL, DTYPE_BF16, 2, 2);
    run_steps(straight, 1.5);
    int64_t all = straight->training.steps, half = all / 2;
    broken->stop_at = half;
    run_steps(broken, 1.5);
    CHECK(broken->training.is_stopped && broken->training.state.step == half);
    resumed->training.out = broken->folder;
    run_steps(resumed, 1.5);
    CHECK(resumed->losses[half - 1] == 0 && resumed->losses[half] > 0); // not done again
    CHECK(!memcmp(straight->losses + half, resumed->losses + half,
                  (size_t)(all - half) * sizeof *straight->losses));
    for (int kind = BLOCKS_TRAINABLES; kind <= BLOCKS_OPTIMIZER; kind++)
        CHECK(!memcmp(straight->tiny->transformer.blocks.at[kind],
                      resumed->tiny->transformer.blocks.at[kind],
                      (size_t)straight->tiny->transformer.blocks.bytes[kind]));
    finish(straight);
    finish(broken);
    finish(resumed);
}

TEST(training_refuses_a_run_that_diverges)
{
    struct whole *run = prepare(RECIPE_FULL, DTYPE_F32, 2, 1);
    run->training.settings.rate = 1e30;
    run->training.settings.warmup = 0;
    CHECK(!training_plan(&run->training));
    CHECK(training_run(&run->training) == ERR_INPUT);
    CHECK(strstr(error_text(), "diverged"));
    finish(run);
}

TEST(schedule_rises_and_falls_as_in_transformers)
{
    struct schedule s = { SCHEDULE_COSINE, 1, 0, 10, 110 };
    CHECK(schedule_rate(&s, 0) == 0);
    CHECK_NEAR(schedule_rate(&s, 5), 0.5, 1e-12);
    CHECK_NEAR(schedule_rate(&s, 10), 1, 1e-12);
    CHECK_NEAR(schedule_rate(&s, 60), 0.5, 1e-12);
    CHECK_NEAR(schedule_rate(&s, 35), (1 + sqrt(0.5)) / 2, 1e-12);
    s.kind = SCHEDULE_LINEAR;
    CHECK_NEAR(schedule_rate(&s, 35), 0.75, 1e-12);
    s.lowest = 0.1;
    CHECK_NEAR(schedule_rate(&s, 110), 0.1, 1e-12);
    s.kind = SCHEDULE_CONSTANT;
    CHECK(schedule_rate(&s, 100) == 1);
}
