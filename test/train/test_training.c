// SPDX-License-Identifier: Apache-2.0
// Whole runs on the tiny model, in memory; files and signals are the business of test/cli.

#include "host/file.h"
#include "test/train/whole.h"

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
    struct whole *run = whole_prepare(method, compute, 4, 2);
    run_steps(run, epochs);
    CHECK(run->losses[0] > 4);
    CHECK(run->losses[run->training.steps - 1] < bound);
    double held_out = NAN;
    CHECK(!training_evaluate(&run->training, &held_out));
    CHECK(held_out < bound); // sentences it never saw
    whole_finish(run);
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
    struct whole *a = whole_prepare(RECIPE_LORA, DTYPE_F32, 2, 2);
    struct whole *b = whole_prepare(RECIPE_LORA, DTYPE_F32, 2, 2);
    run_steps(a, 1);
    run_steps(b, 1);
    CHECK(whole_have_same_bits(a, b));
    whole_finish(a);
    whole_finish(b);
}

TEST(training_step_does_not_depend_on_how_it_is_split)
{
    struct whole *a = whole_prepare(RECIPE_FULL, DTYPE_F32, 1, 4);
    struct whole *b = whole_prepare(RECIPE_FULL, DTYPE_F32, 4, 1);
    a->training.settings.max_steps = b->training.settings.max_steps = 3;
    run_steps(a, 1);
    run_steps(b, 1);
    for (int i = 0; i < 3; i++)
        CHECK_NEAR(a->losses[i], b->losses[i], 1e-6);
    whole_finish(a);
    whole_finish(b);
}

// Neighbouring sentences as pairs.
static struct whole *pairs_of_sentences(int64_t micro_batch, int64_t accumulation)
{
    struct whole *run = whole_make(RECIPE_LORA, DTYPE_F32, 2 * micro_batch, accumulation);
    run->tiny->setup.beta = 0.1;
    return whole_start(run, gradient_device());
}

TEST(training_on_pairs_begins_at_no_difference_and_does_not_depend_on_how_it_is_split)
{
    struct whole *a = pairs_of_sentences(1, 4), *b = pairs_of_sentences(4, 1);
    struct training_report first;
    a->training.settings.max_steps = b->training.settings.max_steps = 3;
    run_steps(a, 1);
    run_steps(b, 1);
    CHECK_NEAR(a->losses[0], log(2), 1e-6);
    for (int i = 0; i < 3; i++)
        CHECK_NEAR(a->losses[i], b->losses[i], 1e-6);
    CHECK(!training_step(&a->training, &first));
    CHECK_NEAR(first.reward_margin, first.reward_chosen - first.reward_rejected, 1e-12);
    CHECK(first.reward_accuracy >= 0 && first.reward_accuracy <= 1);
    whole_finish(a);
    whole_finish(b);
}

TEST(training_resumes_where_a_checkpoint_was_made)
{
    struct whole *straight = whole_prepare(RECIPE_FULL, DTYPE_BF16, 2, 2);
    struct whole *broken = whole_prepare(RECIPE_FULL, DTYPE_BF16, 2, 2);
    struct whole *resumed = whole_prepare(RECIPE_FULL, DTYPE_BF16, 2, 2);
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
    whole_finish(straight);
    whole_finish(broken);
    whole_finish(resumed);
}

TEST(training_names_all_that_differs_from_the_run_of_a_checkpoint)
{
    struct whole *first = whole_prepare(RECIPE_LORA, DTYPE_F32, 1, 1);
    struct whole *other = whole_prepare(RECIPE_LORA, DTYPE_F32, 1, 1);
    first->training.settings.max_steps = 1;
    first->training.fingerprint = "{\"rate\":0.0001234567,\"seed\":7,\"beta\":0.1}";
    run_steps(first, 1);
    other->training.out = first->folder;
    other->training.fingerprint = "{\"rate\":0.0001234568,\"seed\":7}";
    CHECK(!training_plan(&other->training));
    CHECK(training_resume(&other->training, &test_arena) == ERR_INPUT);
    CHECK(strstr(error_text(), "a run with --rate 0.0001234567 --beta 0.1;"));
    CHECK(strstr(error_text(), "this run has --rate 0.0001234568 --beta (default):"));
    CHECK(!strstr(error_text(), "seed"));
    whole_finish(first);
    whole_finish(other);
}

TEST(training_step_without_labelled_tokens_has_no_loss)
{
    struct whole *run = whole_make(RECIPE_LORA, DTYPE_F32, 1, 1);
    run->unlabelled = 64;
    whole_start(run, gradient_device());
    run_steps(run, 1);
    int64_t without = 0;
    for (int64_t i = 0; i < run->training.steps; i++) {
        CHECK(isnan(run->losses[i]) == isnan(run->norms[i]) && run->losses[i] != 0);
        without += isnan(run->losses[i]);
    }
    CHECK(without > 0 && without < run->training.steps);
    struct text metrics;
    CHECK(!file_read(&metrics, &test_arena,
                     text_format(&test_arena, "%s/metrics.jsonl", run->folder)));
    CHECK(strstr(metrics.at, "\"loss\":null") && strstr(metrics.at, "\"norm\":null"));
    whole_finish(run);
}

TEST(training_refuses_more_epochs_than_a_plan_does)
{
    struct training_settings settings = training_default();
    settings.epochs = 10000;
    CHECK(!training_check(&settings));
    settings.epochs = 1e300;
    CHECK(training_check(&settings) == ERR_USAGE && strstr(error_text(), "at most 10000"));
}

TEST(training_refuses_a_run_that_diverges)
{
    struct whole *run = whole_prepare(RECIPE_FULL, DTYPE_F32, 2, 1);
    run->training.settings.rate = 1e30;
    run->training.settings.warmup = 0;
    CHECK(!training_plan(&run->training));
    CHECK(training_run(&run->training) == ERR_INPUT);
    CHECK(strstr(error_text(), "diverged"));
    whole_finish(run);
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
