// SPDX-License-Identifier: Apache-2.0
#include "test/core/planning.h"

static struct fit fit_of(const char *json)
{
    struct plan_request *request = ARENA_NEW(&test_arena, struct plan_request, 1);
    struct fit fit = { 0 };
    CHECK(!plan_request_read(request, &test_arena, text_of(json), "request"));
    CHECK(!fit_make(&fit, &test_arena, planning_data(), request));
    return fit;
}

TEST(fit_finds_the_last_micro_batch_that_fits)
{
    struct fit fit = fit_of("{\"model\":\"llama-3.1-8b\",\"gpu\":\"h100\",\"method\":\"lora\","
                            "\"checkpointing\":\"full\",\"global_batch\":64}");
    int64_t most = fit.largest[RECIPE_RECOMPUTE].micro_batch;
    CHECK(most > 1);
    for (int more = 0; more < 2; more++) {
        struct fit tried = fit_of(
            text_format(&test_arena,
                        "{\"model\":\"llama-3.1-8b\",\"gpu\":\"h100\",\"checkpointing\":\"full\","
                        "\"micro_batch\":\"%lld\",\"global_batch\":64}",
                        (long long)most + more));
        CHECK(tried.memory.fits == !more);
    }
}

TEST(fit_finds_the_last_context_that_fits)
{
    struct fit fit = fit_of("{\"model\":\"llama-3.1-8b\",\"gpu\":\"rtx-4090\","
                            "\"method\":\"qlora\",\"checkpointing\":\"full\"}");
    int64_t most = fit.largest[RECIPE_RECOMPUTE].context;
    CHECK(most >= 1024 && most % FIT_CONTEXT_STEP == 0);
    for (int more = 0; more < 2; more++) {
        struct fit tried = fit_of(
            text_format(&test_arena,
                        "{\"model\":\"llama-3.1-8b\",\"gpu\":\"rtx-4090\",\"method\":\"qlora\","
                        "\"checkpointing\":\"full\",\"context\":%lld}",
                        (long long)most + more * FIT_CONTEXT_STEP));
        CHECK(tried.memory.fits == !more);
    }
}

TEST(fit_takes_more_rows_the_more_is_recomputed)
{
    struct fit fit = fit_of("{\"model\":\"llama-3.1-8b\",\"gpu\":\"h100\"}");
    CHECK(fit.largest[RECIPE_KEEP_ALL].micro_batch <= fit.largest[RECIPE_SELECTIVE].micro_batch);
    CHECK(fit.largest[RECIPE_SELECTIVE].micro_batch <= fit.largest[RECIPE_RECOMPUTE].micro_batch);
}

TEST(fit_without_a_gpu_is_a_byte_plan_alone)
{
    struct fit fit = fit_of("{\"model\":\"llama-3.1-8b\"}");
    CHECK(fit.memory.fits && isnan(fit.memory.device_bytes));
    CHECK(fit.memory.parts[MEMORY_WEIGHTS] > 15e9);
    CHECK(fit.largest[0].micro_batch == 0);
}

TEST(fit_finds_the_fewest_gpus_of_each_method)
{
    for (int method = 0; method < RECIPE_METHODS; method++) {
        struct fit fit = fit_of("{\"model\":\"llama-3.1-70b\",\"gpu\":\"rtx-4090\"}");
        int64_t fewest = fit.fewest[method].gpus;
        CHECK(fewest > 1 && fewest <= FIT_MOST_GPUS);
        for (int fewer = 0; fewer < 2; fewer++) {
            struct fit tried =
                fit_of(text_format(&test_arena,
                                   "{\"model\":\"llama-3.1-70b\",\"gpu\":\"rtx-4090\","
                                   "\"method\":\"%s\",\"gpus\":%lld}",
                                   recipe_methods[method], (long long)(fewest >> fewer)));
            CHECK(tried.memory.fits == !fewer);
            if (!fewer)
                CHECK_NEAR(tried.memory.fit_probability, fit.fewest[method].fit_probability, 1e-9);
        }
    }
}

TEST(fit_chooses_the_lightest_checkpointing_that_surely_fits)
{
    const char *job = "{\"model\":\"llama-3.1-8b\",\"gpu\":\"a100\",\"method\":\"full\"%s}";
    struct fit fit = fit_of(text_format(&test_arena, job, ""));
    struct fit light = fit_of(text_format(&test_arena, job, ",\"checkpointing\":\"none\""));
    CHECK(light.memory.fits && light.memory.fit_probability < memory_sure);
    CHECK(fit.recipe.checkpointing == RECIPE_RECOMPUTE);
    CHECK(fit.memory.fit_probability > light.memory.fit_probability);
    CHECK(fit.fewest[RECIPE_FULL].gpus == 1);
    CHECK(fit.fewest[RECIPE_FULL].fit_probability == fit.memory.fit_probability);
}

TEST(fit_finds_the_largest_micro_batch_with_the_accumulation_that_it_names)
{
    struct fit fit = fit_of("{\"model\":\"llama-3.1-8b\",\"method\":\"full\",\"gpu\":\"a100\"}");
    CHECK(fit.accumulation > 1);
    for (int level = RECIPE_KEEP_ALL; level <= RECIPE_RECOMPUTE; level++) {
        const struct fit_largest *largest = &fit.largest[level];
        if (fit_offers(&fit, level)) // twice the tokens are twice the rows
            CHECK(largest->micro_batch == largest->context / 2048);
    }
}

TEST(fit_shards_what_one_gpu_cannot_hold)
{
    struct fit fit = fit_of("{\"model\":\"llama-3.1-70b\",\"gpu\":\"h100\",\"gpus\":8}");
    CHECK(fit.memory.fits && fit.layout.zero == 3);
    fit = fit_of("{\"model\":\"llama-3.2-1b\",\"gpu\":\"h100\",\"gpus\":8}");
    CHECK(fit.layout.zero == 0);
}

// Each layout is chosen for the size on trial, as when it is asked for.
TEST(fit_finds_the_last_micro_batch_that_fits_in_any_layout)
{
    static const struct {
        const char *request;
        int level;
    } cases[] = {
        { "\"model\":\"qwen3-30b-a3b\",\"method\":\"full\",\"gpus\":8,\"global_batch\":64",
          RECIPE_KEEP_ALL },
        { "\"model\":\"qwen3-30b-a3b\",\"method\":\"full\",\"gpus\":8,\"global_batch\":64",
          RECIPE_SELECTIVE },
        { "\"model\":\"llama-3.1-8b\",\"method\":\"full\",\"gpus\":4,\"global_batch\":64",
          RECIPE_RECOMPUTE },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *all = text_format(&test_arena, "{%s,\"gpu\":\"h100\"}", cases[i].request);
        int64_t most = fit_of(all).largest[cases[i].level].micro_batch;
        CHECK(most >= 1);
        for (int more = 0; more < 2; more++) {
            struct fit tried = fit_of(text_format(
                &test_arena,
                "{%s,\"gpu\":\"h100\",\"checkpointing\":\"%s\",\"micro_batch\":\"%lld\"}",
                cases[i].request, recipe_checkpointings[cases[i].level], (long long)most + more));
            CHECK(tried.memory.fits == !more);
        }
    }
}
