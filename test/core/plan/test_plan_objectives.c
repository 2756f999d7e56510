// SPDX-License-Identifier: Apache-2.0
// Plans of preference tuning and reinforcement learning, from request to hours.

#include "test/core/planning.h"

#include <math.h>

#define COMMON "\"model\":\"llama-3.1-8b\",\"gpu\":\"h100\",\"search\":false,"

TEST(plan_of_pairs_counts_pairs_in_batches_and_the_tokens_of_both_answers_once)
{
    const struct plan *plan = planning_make(
        "{" COMMON "\"tokens\":10000000,\"mean_length\":500,\"gpus\":8,\"objective\":\"dpo\","
        "\"micro_batch\":\"2\",\"global_batch\":64}");
    const struct workload *w = &plan->chosen.workload;
    CHECK(w->micro_batch == 2 && w->batch.rows == 4);
    CHECK(w->global_batch == 64 && w->accumulation == 4);
    CHECK(w->steps == ceil(20000.0 / 2 / 64)); // 20,000 answers are 10,000 pairs
    CHECK_NEAR(plan->chosen.tokens_per_s * plan->chosen.seconds_per_step, w->batch.tokens * 4 * 8,
               1e-9);
}

TEST(plan_of_dpo_takes_longer_than_orpo_and_its_second_model_more_memory)
{
    const char *job = "\"tokens\":10000000,\"mean_length\":500,\"gpus\":8,\"micro_batch\":\"1\","
                      "\"parallel\":\"fsdp\",\"checkpointing\":\"full\",\"method\":\"full\",";
    const struct plan *orpo =
        planning_make(text_format(&test_arena, "{" COMMON "%s\"objective\":\"orpo\"}", job));
    const struct plan *dpo =
        planning_make(text_format(&test_arena, "{" COMMON "%s\"objective\":\"dpo\"}", job));
    CHECK(dpo->forecast.gpu_hours.mid > 1.1 * orpo->forecast.gpu_hours.mid);
    CHECK(dpo->estimate.memory.allocated_bytes > 1.5e9 + orpo->estimate.memory.allocated_bytes);
    // What nobody measured is wider than supervised tuning.
    CHECK(dpo->efficiency.log_spread > dpo->prior.log_spread);
}

TEST(plan_of_grpo_pays_for_the_gpus_that_only_sample)
{
    const char *job = "\"objective\":\"grpo\",\"response_length\":\"600,1400,4096\",\"steps\":100,";
    const struct plan *turns = planning_make(
        text_format(&test_arena, "{" COMMON "%s\"gpus\":16,\"sampler_gpus\":0}", job));
    const struct plan *apart = planning_make(
        text_format(&test_arena, "{" COMMON "%s\"gpus\":16,\"sampler_gpus\":8}", job));
    CHECK(layout_gpus(&apart->chosen.layout) == 8 && apart->chosen.gpus == 16);
    CHECK(layout_gpus(&turns->chosen.layout) == 16 && turns->chosen.gpus == 16);
    CHECK_NEAR(apart->forecast.gpu_hours.mid, 16 * apart->forecast.wall_hours.mid, 1e-9);
    CHECK(apart->chosen.workload.steps == 100 && turns->chosen.workload.steps == 100);
    double seconds = 0;
    for (size_t i = 0; i < apart->phases.count; i++)
        seconds += apart->phases.items[i].seconds;
    CHECK_NEAR(seconds, apart->chosen.seconds_per_step, 0.02);
    CHECK(!strcmp(apart->phases.items[0].name, "rollout") && apart->phases.items[0].share > 0.5);
}

TEST(plan_of_objectives_that_compare_answers_needs_two_to_a_prompt)
{
    static const char *const compare[] = { "grpo", "dapo", "gspo", "rloo" };
    const char *job = "{" COMMON "\"gpus\":8,\"steps\":10,\"response_length\":\"600,1400,4096\","
                      "\"generations\":%d,\"objective\":\"%s\"}";
    for (size_t i = 0; i < sizeof compare / sizeof *compare; i++) {
        struct plan plan;
        CHECK(planning_try(&plan, text_format(&test_arena, job, 1, compare[i])) == ERR_USAGE &&
              strstr(error_text(), "--generations is 1, must be 2 or more"));
        planning_make(text_format(&test_arena, job, 2, compare[i]));
    }
    CHECK(planning_make(text_format(&test_arena, job, 1, "ppo"))->rollout.generations == 1);
}

// Given or searched: no split that can be asked for is better than the one that is found.
TEST(plan_of_rl_finds_the_split_of_gpus_between_sampler_and_trainer)
{
    for (int async = 0; async <= 4; async += 2) {
        const char *job =
            text_format(&test_arena,
                        "{" COMMON "\"objective\":\"grpo\",\"response_length\":\"600,1400,4096\","
                        "\"steps\":100,\"gpus\":16,\"async_steps\":%d",
                        async);
        const struct plan *found = planning_make(text_format(&test_arena, "%s}", job));
        CHECK(found->chosen.gpus == 16);
        CHECK(layout_gpus(&found->chosen.layout) + (int64_t)found->rollout.gpus == 16);
        CHECK((found->rollout.gpus > 0) == (async > 0));
        CHECK(found->chosen.workload.global_batch == 256);
        for (int sampling = async ? 2 : 0; sampling < 16; sampling += 2) {
            const struct plan *asked =
                planning_make(text_format(&test_arena, "%s,\"sampler_gpus\":%d}", job, sampling));
            if (asked->fits && asked->chosen.stable && asked->chosen.workload.global_batch == 256)
                CHECK(found->chosen.gpu_hours <= 1.03 * asked->chosen.gpu_hours);
        }
    }
}

TEST(plan_of_rl_says_where_an_alternative_splits_the_gpus)
{
    const struct plan *plan =
        planning_make("{\"model\":\"llama-3.1-8b\",\"gpu\":\"h100\",\"gpus\":16,\"steps\":100,"
                      "\"objective\":\"grpo\",\"async_steps\":1,"
                      "\"response_length\":\"600,1400,4096\"}");
    int others = 0;
    for (size_t i = 0; i < plan->alternative_count; i++) {
        const struct plan_alternative *other = &plan->alternatives[i];
        bool differs = other->result.passes.rollout->gpus != plan->rollout.gpus;
        others += differs;
        CHECK(differs == (strstr(other->changes, " of them sample") != NULL));
    }
    CHECK(others > 0);
}

TEST(plan_of_rl_further_off_policy_never_takes_longer)
{
    double before = INFINITY;
    for (int async = 0; async <= 8; async = async ? 2 * async : 1) {
        const struct plan *plan = planning_make(
            text_format(&test_arena,
                        "{" COMMON "\"objective\":\"grpo\",\"response_length\":\"600,1400,4096\","
                        "\"steps\":100,\"gpus\":16,\"sampler_gpus\":8,\"async_steps\":%d}",
                        async));
        CHECK(plan->forecast.wall_hours.mid <= 1.001 * before);
        before = plan->forecast.wall_hours.mid;
        double seconds = 0;
        for (size_t i = 0; i < plan->phases.count; i++)
            seconds += plan->phases.items[i].beside ? 0 : plan->phases.items[i].seconds;
        CHECK_NEAR(seconds, plan->chosen.seconds_per_step, 0.02);
        CHECK(plan->phases.items[0].beside == (async > 0));
    }
}

TEST(plan_of_ppo_needs_more_memory_and_time_than_grpo)
{
    const char *job = "\"response_length\":\"200,400,800\",\"steps\":50,\"gpus\":8,"
                      "\"generations\":8,\"method\":\"full\",\"parallel\":\"fsdp\","
                      "\"micro_batch\":\"1\",\"checkpointing\":\"full\",";
    const struct plan *grpo =
        planning_make(text_format(&test_arena, "{" COMMON "%s\"objective\":\"grpo\"}", job));
    const struct plan *ppo =
        planning_make(text_format(&test_arena, "{" COMMON "%s\"objective\":\"ppo\"}", job));
    CHECK(ppo->estimate.memory.allocated_bytes > 5e9 + grpo->estimate.memory.allocated_bytes);
    CHECK(ppo->forecast.gpu_hours.mid > 1.1 * grpo->forecast.gpu_hours.mid);
    bool critic = false;
    for (size_t i = 0; i < ppo->phases.count; i++)
        critic = critic || !strcmp(ppo->phases.items[i].name, "critic");
    CHECK(critic);
}

TEST(plan_of_grpo_with_longer_answers_takes_longer)
{
    double before = 0;
    for (int p90 = 1000; p90 <= 16000; p90 *= 2) {
        const struct plan *plan = planning_make(text_format(
            &test_arena,
            "{" COMMON "\"objective\":\"grpo\",\"steps\":100,\"gpus\":8,\"response_length\":"
            "\"%d,%d,%d\"}",
            p90 / 4, p90 / 2, p90));
        CHECK(plan->forecast.gpu_hours.mid > before);
        before = plan->forecast.gpu_hours.mid;
    }
}
