// SPDX-License-Identifier: Apache-2.0
#include "core/objective/objective.h"
#include "core/objective/rollout.h"
#include "core/step/compute.h"
#include "test/core/knowledge.h"

#include <math.h>

static struct rollout usual(void)
{
    return (struct rollout){ .sampler = &samplers[0],
                             .prompts = 32,
                             .generations = 8,
                             .prompt_length = 200,
                             .p10 = 600,
                             .p50 = 1400,
                             .p90 = 4096,
                             .limit = 8192,
                             .efficiency = 1 };
}

static struct rollout_seconds time_of(const struct rollout *r, const char *model, double gpus)
{
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, model, "hf", 1, 1024);
    struct links links = network_links(setup.gpu, catalog_node_of(&k.catalog, setup.gpu));
    struct rollout_seconds seconds;
    rollout_time(&seconds, r, setup.model, setup.gpu, &links, gpus);
    return seconds;
}

TEST(rollout_lengths_keep_their_percentiles_and_end_at_the_context)
{
    struct rollout r = usual();
    CHECK_NEAR(rollout_quantile(&r, 0.1), 600, 1e-6);
    CHECK_NEAR(rollout_quantile(&r, 0.5), 1400, 1e-6);
    CHECK_NEAR(rollout_quantile(&r, 0.9), 4096, 1e-6);
    r.limit = 4000;
    CHECK(rollout_quantile(&r, 0.999) == 4000);
    CHECK(rollout_mean_length(&r) < 4000 && rollout_mean_length(&r) > 1400);
    r.p10 = r.p50 = r.p90 = 1000;
    CHECK_NEAR(rollout_mean_length(&r), 1000, 0.01);
}

TEST(rollout_of_one_row_reads_the_weights_once_a_token)
{
    // 16 GB at the H200's sustained rate and the engine's share, and the host's time of a step.
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "hf", 1, 1024);
    struct rollout r = usual();
    r.prompts = r.generations = 1, r.prompt_length = 1, r.limit = 1000;
    r.p10 = r.p50 = r.p90 = 1000;
    double each = 2 * (double)model_parameters(setup.model) /
                      (compute_memory_bytes_per_s(setup.gpu) * r.sampler->bandwidth_share) +
                  r.sampler->step_seconds + r.sampler->token_seconds;
    CHECK_NEAR(time_of(&r, "llama-3.1-8b", 1).decode, 1000 * each, 0.02);
}

// Seconds of 64 tokens after a prompt of 128 by transformers' generate on an H200, forecast before
// they were measured (bench/gpu/generate_predicted.csv).
TEST(rollout_by_generate_takes_what_was_measured_on_an_h200)
{
    static const struct {
        const char *model;
        double rows, seconds;
    } runs[] = {
        { "llama-3.2-1b", 1, 0.94207 },   { "llama-3.2-1b", 16, 0.78418 },
        { "llama-3.2-1b", 128, 0.83129 }, { "llama-3.1-8b", 1, 1.40742 },
        { "llama-3.1-8b", 16, 1.526 },    { "llama-3.1-8b", 128, 1.86385 },
    };
    struct rollout r = usual();
    r.sampler = &samplers[2];
    r.prompt_length = 128, r.p10 = r.p50 = r.p90 = 64, r.generations = 1;
    CHECK(!strcmp(r.sampler->name, "hf"));
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        r.prompts = runs[i].rows;
        struct rollout_seconds s = time_of(&r, runs[i].model, 1);
        CHECK_NEAR(s.prefill + s.decode, runs[i].seconds, 0.2);
    }
}

TEST(rollout_waits_for_the_longest_answer_and_more_gpus_do_not_shorten_it)
{
    struct rollout r = usual(), even = usual();
    even.p10 = even.p90 = even.p50 = rollout_mean_length(&r); // the same tokens, no tail
    double tail = rollout_total(
               &(struct rollout_seconds){ .decode = time_of(&r, "qwen2.5-7b", 8).decode,
                                          .waiting = time_of(&r, "qwen2.5-7b", 8).waiting }),
           flat = time_of(&even, "qwen2.5-7b", 8).decode;
    CHECK(tail > 2 * flat);
    double eight = rollout_total(&(struct rollout_seconds){ .decode = tail });
    struct rollout_seconds many = time_of(&r, "qwen2.5-7b", 64);
    CHECK(many.decode + many.waiting > 0.6 * eight);
}

TEST(rollout_beside_the_training_adds_only_what_the_sampler_is_slower_by)
{
    struct rollout r = usual();
    r.gpus = 8;
    struct rollout_seconds s = time_of(&r, "qwen2.5-7b", 8);
    double own = rollout_total(&s) - s.transfer;
    CHECK(rollout_added(&s, &r, 1) == rollout_total(&s)); // in turns: all of it
    r.async_steps = 1;
    CHECK_NEAR(rollout_added(&s, &r, own / 4), 0.75 * own + s.transfer, 1e-9);
    CHECK(rollout_added(&s, &r, 2 * own) == s.transfer);
}

TEST(rollout_that_never_drains_does_not_wait_for_the_longest_answer)
{
    struct rollout one = usual(), two = usual(), eight = usual();
    one.gpus = two.gpus = eight.gpus = 8;
    one.async_steps = 1, two.async_steps = 2, eight.async_steps = 8;
    struct rollout_seconds a = time_of(&one, "qwen2.5-7b", 8), b = time_of(&two, "qwen2.5-7b", 8),
                           c = time_of(&eight, "qwen2.5-7b", 8);
    CHECK(b.waiting == 0 && c.waiting == 0);
    CHECK(b.decode < 0.6 * (a.decode + a.waiting));
    CHECK(c.decode < b.decode); // more rows under way share each reading of the weights
}

TEST(rollout_of_dapo_samples_more_than_it_trains_on)
{
    struct rollout once = usual(), twice = usual();
    twice.oversampling = 2;
    once.prompts *= 2;
    CHECK_NEAR(time_of(&twice, "qwen2.5-7b", 8).decode, time_of(&once, "qwen2.5-7b", 8).decode,
               1e-12);
}

TEST(rollout_of_8_bit_weights_reads_half_the_bytes_and_holds_more_answers)
{
    struct rollout wide = usual(), narrow = usual();
    wide.prompts = narrow.prompts = wide.generations = narrow.generations = 1;
    wide.p10 = wide.p50 = wide.p90 = narrow.p10 = narrow.p50 = narrow.p90 = 1000;
    narrow.precision = SAMPLER_FP8;
    struct rollout_seconds a = time_of(&wide, "llama-3.1-70b", 8),
                           b = time_of(&narrow, "llama-3.1-70b", 8);
    CHECK(a.tensor == 2 && b.tensor == 1);
    narrow.tensor = 2;
    b = time_of(&narrow, "llama-3.1-70b", 8);
    CHECK(b.decode < 0.7 * a.decode && b.decode > 0.5 * a.decode);
    CHECK(b.rows > a.rows);
}

TEST(rollout_spans_gpus_where_one_does_not_hold_the_model)
{
    struct rollout r = usual();
    CHECK(time_of(&r, "llama-3.1-8b", 8).tensor == 1);
    CHECK(time_of(&r, "llama-3.1-70b", 8).tensor == 2);
    CHECK(isnan(time_of(&r, "llama-3.1-405b", 1).decode));
}

TEST(rollout_of_more_answers_than_fit_takes_turns)
{
    struct rollout few = usual(), many = usual();
    many.prompts = 100 * few.prompts;
    double a = time_of(&few, "qwen2.5-7b", 1).decode, b = time_of(&many, "qwen2.5-7b", 1).decode;
    CHECK(b > 10 * a && b < 100 * a);
}
