// SPDX-License-Identifier: Apache-2.0
// Which configuration a plan takes, and the alternatives that it shows beside it.

#include "core/plan/plan_internal.h"
#include "test/core/planning.h"

#include <math.h>

// --- choosing ----------------------------------------------------------------

TEST(plan_that_fits_nowhere_is_of_the_closest_configuration)
{
    const struct plan *plan =
        planning_make(planning_request("llama-3.1-405b", "\"method\":\"full\",\"context\":8192,"
                                                         "\"micro_batch\":\"64\""));
    CHECK(!plan->fits);
    CHECK(plan->chosen.gpus == 64 && plan->chosen.gpu->memory_bytes > 250e9);
    CHECK(plan->advice.count && strstr(plan->advice.items[0].text, "short"));
    CHECK(strstr(plan->advice.items[0].text, " fits ("));
    plan = planning_make(planning_request("llama-3.1-405b", "\"method\":\"full\",\"gpu\":\"t4\""));
    CHECK(!plan->fits && plan->chosen.gpus == 64);
}

TEST(plan_for_a_gpu_without_bf16_is_in_fp16_and_never_advises_bf16)
{
    const struct plan *plan =
        planning_make(planning_request("llama-3.1-8b", "\"gpu\":\"t4\",\"method\":\"qlora\""));
    CHECK(plan->chosen.recipe.precision == RECIPE_FP16);
    for (size_t i = 0; i < plan->advice.count; i++)
        CHECK(!strstr(plan->advice.items[i].text, "--adapter-dtype bf16") &&
              !strstr(plan->advice.items[i].text, "--precision bf16"));
    plan =
        planning_make(planning_request("llama-3.1-8b", "\"gpu\":\"a100\",\"precision\":\"fp8\""));
    CHECK(plan->chosen.recipe.precision == RECIPE_BF16);
}

TEST(plan_of_long_rows_is_spread_by_context_parallelism)
{
    const struct plan *plan = planning_make(
        planning_request("llama-3.1-8b", "\"gpu\":\"h100\",\"gpus\":8,\"context\":131072,"
                                         "\"stack\":\"hf\",\"method\":\"full\",\"search\":false"));
    CHECK(plan->fits && plan->chosen.layout.context == 8);
    // A million tokens need more than the GPUs of one node.
    plan = planning_make(planning_request("llama-3.1-8b",
                                          "\"gpu\":\"h200\",\"gpus\":32,\"context\":1048576,"
                                          "\"stack\":\"hf\",\"method\":\"full\",\"search\":false"));
    CHECK(plan->fits && plan->chosen.layout.context >= 16);
}

TEST(plan_of_very_long_rows_takes_fewer_of_them_a_step)
{
    static const struct {
        const char *members;
        double global_batch;
    } cases[] = {
        { "\"context\":65536", 64 },
        { "\"context\":131072", 32 },
        { "\"context\":1048576", 4 },
        { "\"context\":131072,\"packing\":\"off\",\"examples\":10000", 64 }, // of 1,000 tokens
        { "\"context\":131072,\"global_batch\":64", 64 },                    // as asked for
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct plan *plan = planning_make(
            planning_request("llama-3.1-8b", text_format(&test_arena,
                                                         "%s,\"search\":false,\"gpus\":32,"
                                                         "\"gpu\":\"h200\"",
                                                         cases[i].members)));
        CHECK_NEAR(plan->chosen.workload.global_batch, cases[i].global_batch, 1e-9);
    }
}

TEST(plan_without_a_gpu_offers_only_what_can_be_rented)
{
    static const char *const cases[] = { "\"gpus\":8", "\"method\":\"full\"", "\"gpu\":\"a100\"",
                                         "\"deadline\":\"1h\"" };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct plan *plan = planning_make(planning_request("llama-3.1-8b", cases[i]));
        CHECK(!isnan(plan->chosen.cost_usd));
        for (size_t k = 0; k < plan->alternative_count; k++)
            CHECK(!isnan(plan->alternatives[k].result.cost_usd));
        for (size_t k = 0; k < plan->pareto_count; k++)
            CHECK(!isnan(plan->pareto[k].cost_usd));
    }
    // Asked for by name, a GPU without offers is planned as any other.
    const struct plan *plan = planning_make(planning_request("llama-3.1-8b", "\"gpu\":\"gb300\""));
    CHECK(plan->fits && isnan(plan->chosen.cost_usd));
}

TEST(plan_says_which_alternatives_fit_only_tightly)
{
    const struct plan *plan =
        planning_make(planning_request("llama-3.1-8b", "\"gpu\":\"t4\",\"method\":\"qlora\""));
    int tight = 0;
    CHECK(plan->chosen.stable);
    for (size_t i = 0; i < plan->alternative_count; i++) {
        bool said = strstr(plan->alternatives[i].changes, "tight memory") != NULL;
        CHECK(said == !plan->alternatives[i].result.stable);
        tight += said;
    }
    CHECK(tight > 0);
}

TEST(plan_without_a_gpu_is_the_cheapest_that_it_shows)
{
    static const char *const cases[] = { "\"method\":\"full\"", "\"precision\":\"fp8\"",
                                         "\"method\":\"qlora\"", "\"context\":32768" };
    static const char *const models[] = { "llama-3.1-8b", "llama-3.1-70b" };
    for (size_t i = 0; i < 8; i++) {
        const struct plan *plan = planning_make(planning_request(models[i / 4], cases[i % 4]));
        for (size_t k = 0; k < plan->alternative_count; k++) {
            const struct search_result *r = &plan->alternatives[k].result;
            bool same = r->recipe.method == plan->chosen.recipe.method &&
                        r->workload.batching == plan->chosen.workload.batching;
            test_check(!same || !r->stable || r->cost_usd >= plan->chosen.cost_usd,
                       "no row of the same method costs less", cases[i % 4], 0);
        }
    }
}

TEST(plan_takes_no_more_gpus_than_the_goal_needs)
{
    static const char *const cases[][2] = { { "gemma-3-27b", "rtx-4090" },
                                            { "llama-3.1-8b", "t4" },
                                            { "llama-3.1-8b", "h100" },
                                            { "qwen3-30b-a3b", "h100" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct plan *plan = planning_make(planning_request(
            cases[i][0],
            text_format(&test_arena, "\"gpu\":\"%s\",\"method\":\"qlora\"", cases[i][1])));
        for (size_t k = 0; k < plan->scaling_count; k++) {
            const struct search_result *r = &plan->scaling[k];
            test_check(!r->stable || r->gpus >= plan->chosen.gpus ||
                           r->gpu_hours > plan->chosen.gpu_hours,
                       "no fewer GPUs that surely fit take fewer GPU hours", cases[i][0], 0);
        }
        CHECK(plan->chosen.stable || i == 0); // no offer joins more than eight RTX 4090
    }
}

TEST(plan_within_a_deadline_shows_a_median_within_it)
{
    static const char *const deadlines[] = { "1h", "2h", "4h", "7h" };
    for (size_t i = 0; i < sizeof deadlines / sizeof *deadlines; i++) {
        const struct plan *plan =
            planning_make(text_format(&test_arena,
                                      "{\"model\":\"llama-3.1-8b\",\"tokens\":2e8,\"gpu\":\"a100\","
                                      "\"gpus\":1,\"deadline\":\"%s\"}",
                                      deadlines[i]));
        bool found = false;
        for (size_t k = 0; k < plan->alternative_count; k++)
            if (!strcmp(plan->alternatives[k].why, "cheapest in time")) {
                found = true;
                CHECK(plan->alternatives[k].result.wall_hours * 3600 <= plan->request->deadline);
            }
        CHECK(found || plan->meets_deadline);
        plan = planning_make(text_format(
            &test_arena, "{\"model\":\"llama-3.1-8b\",\"tokens\":2e8,\"deadline\":\"%s\"}",
            deadlines[i]));
        CHECK(plan->meets_deadline);
    }
}

TEST(plan_within_a_deadline_is_the_cheapest_where_the_gpu_is_open)
{
    const struct plan *plan = planning_make("{\"model\":\"llama-3.1-8b\",\"tokens\":1e9,"
                                            "\"packing\":\"on\",\"method\":\"full\","
                                            "\"deadline\":\"12h\"}");
    CHECK(plan->meets_deadline && plan->chosen.stable);
    for (size_t i = 0; i < plan->alternative_count; i++) {
        const struct search_result *r = &plan->alternatives[i].result;
        bool in_time = r->stable && r->wall_hours * 1.6 <= 12 && r->recipe.method == RECIPE_FULL;
        CHECK(!in_time || !(r->cost_usd < 0.99 * plan->chosen.cost_usd));
    }
}

TEST(plan_with_a_longer_deadline_is_not_dearer)
{
    static const struct {
        const char *model, *method;
    } cases[] = { { "llama-3.1-8b", "lora" }, { "llama-3.1-405b", "qlora" } };
    static const char *const deadlines[] = { "4h", "8h", "24h", "72h" };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double before = INFINITY;
        for (size_t k = 0; k < sizeof deadlines / sizeof *deadlines; k++) {
            const struct plan *plan = planning_make(text_format(
                &test_arena,
                "{\"model\":\"%s\",\"method\":\"%s\",\"tokens\":\"20M\",\"deadline\":\"%s\","
                "\"packing\":\"on\",\"search\":false}",
                cases[i].model, cases[i].method, deadlines[k]));
            test_check(plan->forecast.cost_usd.mid <= before, cases[i].model, deadlines[k],
                       __LINE__);
            before = plan->forecast.cost_usd.mid;
        }
    }
}

TEST(plan_that_cannot_keep_deadline_and_budget_keeps_the_deadline_as_cheaply_as_without_a_budget)
{
    const char *without = "{\"model\":\"llama-3.1-8b\",\"tokens\":64e6,\"deadline\":\"45min\"}";
    const char *with = "{\"model\":\"llama-3.1-8b\",\"tokens\":64e6,\"deadline\":\"45min\","
                       "\"budget\":1}";
    const struct plan *plan = planning_make(with);
    CHECK(plan->meets_deadline && !plan->meets_budget);
    CHECK(plan->chosen.cost_usd == planning_make(without)->chosen.cost_usd);
}

TEST(plan_takes_the_global_batch_that_its_help_says)
{
    static const struct {
        const char *request;
        double rows;
    } cases[] = {
        { "\"gpus\":8", 64 },
        { "\"gpus\":6", 60 },
        { "\"gpus\":8,\"context\":131072", 32 },
        { "\"gpus\":128", 128 },
        { "\"gpus\":8,\"micro_batch\":\"4\"", 32 },
        { "\"gpus\":8,\"stack\":\"nemo\",\"parallel\":\"tp4 zero1\",\"micro_batch\":\"4\"", 8 },
        { "\"gpus\":8,\"objective\":\"grpo\",\"response_length\":\"600,1400,4096\",\"steps\":9",
          256 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct plan *plan = planning_make(planning_request(
            "llama-3.1-8b",
            text_format(&test_arena, "\"gpu\":\"h100\",\"search\":false,%s", cases[i].request)));
        test_check(plan->chosen.workload.global_batch == cases[i].rows, "rows of a step",
                   cases[i].request, __LINE__);
    }
    const char *words = field_find(plan_fields, TEXT("global_batch"))->fallback;
    CHECK(strstr(words, "about 64") && strstr(words, "4 M tokens") && strstr(words, "per rank") &&
          strstr(words, "--micro-batch") && strstr(words, "256"));
}

TEST(plan_takes_the_fastest_of_the_global_batches_that_are_about_usual)
{
    static const int counts[] = { 12, 20, 24, 40 };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const char *members =
            text_format(&test_arena, "\"gpu\":\"h100\",\"gpus\":%d,\"search\":false", counts[i]);
        const struct plan *plan = planning_make(planning_request("llama-3.1-8b", members));
        CHECK(fabs(plan->chosen.workload.global_batch / 64 - 1) <= 0.25);
        for (int batch = counts[i]; batch <= 80; batch += counts[i]) {
            const char *given = text_format(&test_arena, "%s,\"global_batch\":%d", members, batch);
            const struct plan *other = planning_make(planning_request("llama-3.1-8b", given));
            if (batch >= 48)
                CHECK(plan->chosen.gpu_hours <= 1.015 * other->chosen.gpu_hours);
        }
    }
}

TEST(plan_of_a_global_batch_that_must_change_is_that_of_what_it_becomes)
{
    const char *asked = "{\"model\":\"llama-3.1-8b\",\"tokens\":1e8,\"gpu\":\"h100\",\"gpus\":8,"
                        "\"global_batch\":100}";
    const char *made = "{\"model\":\"llama-3.1-8b\",\"tokens\":1e8,\"gpu\":\"h100\",\"gpus\":8,"
                       "\"global_batch\":96}";
    CHECK(planning_make(asked)->chosen.workload.global_batch == 96);
    CHECK(planning_make(asked)->chosen.tokens_per_s == planning_make(made)->chosen.tokens_per_s);
}

TEST(plan_cuts_rows_that_are_longer_than_the_context_and_trains_on_what_is_left)
{
    const char *given = "{\"model\":\"llama-3.1-8b\",\"examples\":50000,\"mean_length\":4200,"
                        "\"context\":2048,\"gpu\":\"h100\",\"gpus\":1,\"packing\":\"off\"}";
    const char *open = "{\"model\":\"llama-3.1-8b\",\"examples\":50000,\"mean_length\":4200,"
                       "\"gpu\":\"h100\",\"gpus\":1,\"packing\":\"off\"}";
    const struct workload *cut = &planning_make(given)->chosen.workload;
    const struct workload *whole = &planning_make(open)->chosen.workload;
    CHECK_NEAR(cut->tokens, 50000.0 * 2048, 1e-9);
    CHECK_NEAR(cut->processed_tokens, cut->steps * cut->global_batch * 2048, 1e-3);
    CHECK_NEAR(whole->tokens, 50000.0 * 4200, 1e-9);
    CHECK(planning_make(open)->rule.context > 4200);
}

TEST(plan_names_the_optimizer_states_that_its_memory_has)
{
    static const char *const pairs[][2] = { { "adamw-8bit", "8 bits" },
                                            { "adafactor", "factored form" },
                                            { "adamw", "bf16 without" } };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct out out = { .arena = &test_arena };
        plan_text(planning_make(text_format(
                      &test_arena,
                      "{\"model\":\"llama-3.1-8b\",\"tokens\":1e7,\"method\":\"full\","
                      "\"stack\":\"hf\",\"gpu\":\"h200\",\"gpus\":1,\"optimizer\":\"%s\"}",
                      pairs[i][0])),
                  &test_arena, &out);
        test_check(strstr(out_string(&out), pairs[i][1]) != NULL, pairs[i][0], __FILE__, __LINE__);
    }
}

// --- alternatives ------------------------------------------------------------

static const struct plan_alternative *row_of(const struct plan *plan, const char *why)
{
    for (size_t i = 0; i < plan->alternative_count; i++)
        if (!strcmp(plan->alternatives[i].why, why))
            return &plan->alternatives[i];
    return NULL;
}

TEST(plan_alternatives_keep_a_given_global_batch_and_say_what_they_change)
{
    const struct plan *plan = planning_make(
        planning_request("qwen3-30b-a3b", "\"gpu\":\"h100\",\"gpus\":8,\"global_batch\":8"));
    CHECK(plan->alternative_count > 3);
    for (size_t i = 0; i < plan->alternative_count; i++) {
        const struct plan_alternative *a = &plan->alternatives[i];
        const struct search_result *r = &a->result, *own = &plan->chosen;
        CHECK(r->workload.global_batch == 8);
        CHECK((r->workload.micro_batch != own->workload.micro_batch) ==
              (strstr(a->changes, "micro-batch") != NULL));
        CHECK((r->recipe.checkpointing != own->recipe.checkpointing) ==
              (strstr(a->changes, "checkpointing") != NULL));
        CHECK((r->gpu != own->gpu || r->gpus != own->gpus) == (strstr(a->changes, " × ") != NULL));
        CHECK(r->gpus <= 8); // more could not share eight rows
    }
}

TEST(plan_scaling_compares_speeds_of_like_settings)
{
    const struct plan *plan = planning_make(
        planning_request("qwen3-30b-a3b", "\"gpu\":\"h100\",\"gpus\":8,\"global_batch\":8"));
    double before = INFINITY;
    bool own = false;
    for (size_t i = 0; i < plan->scaling_count; i++) {
        const struct search_result *r = &plan->scaling[i];
        CHECK(r->workload.global_batch == 8);
        if (r->workload.micro_batch != plan->chosen.workload.micro_batch ||
            r->recipe.checkpointing != plan->chosen.recipe.checkpointing)
            continue;
        CHECK(r->tokens_per_s / (double)r->gpus < 1.02 * before);
        before = r->tokens_per_s / (double)r->gpus;
        own |= r->gpus == 8 && r->wall_hours == plan->forecast.wall_hours.mid;
    }
    CHECK(own);
}

TEST(plan_takes_the_cheaper_of_equally_fast_configurations)
{
    struct search_result dear = { .stable = true, .wall_hours = 2, .gpu_hours = 16, .cost_usd = 9 };
    struct search_result cheap = dear, slower = dear;
    cheap.cost_usd = 5;
    slower.wall_hours = slower.gpu_hours = 2.01;
    slower.cost_usd = 1;
    CHECK(plan_lesser(&dear, &cheap, PLAN_FASTEST) == &cheap);
    CHECK(plan_lesser(&cheap, &dear, PLAN_FASTEST) == &cheap);
    CHECK(plan_lesser(&dear, &cheap, PLAN_FEWEST_GPU_HOURS) == &cheap);
    CHECK(plan_lesser(&dear, &slower, PLAN_FASTEST) == &dear);
    slower.cost_usd = dear.cost_usd;
    CHECK(plan_lesser(&slower, &dear, PLAN_CHEAPEST) == &dear);
}

TEST(plan_of_a_number_of_steps_is_as_long_as_these)
{
    const struct plan *plan =
        planning_make(planning_request("llama-3.1-8b", "\"gpu\":\"h100\",\"gpus\":8,\"steps\":100,"
                                                       "\"global_batch\":64,\"search\":false"));
    const struct workload *w = &plan->chosen.workload;
    CHECK(w->steps == 100 && w->epochs > 0);
    CHECK_NEAR(w->processed_tokens, 100 * 64 * w->batch.width, 0.02);
    const struct plan *longer =
        planning_make(planning_request("llama-3.1-8b", "\"gpu\":\"h100\",\"gpus\":8,\"steps\":200,"
                                                       "\"global_batch\":64,\"search\":false"));
    CHECK_NEAR(longer->chosen.workload.processed_tokens, 2 * w->processed_tokens, 1e-9);
    CHECK(longer->forecast.gpu_hours.mid > plan->forecast.gpu_hours.mid);
}

TEST(plan_labels_hold_for_the_rows_that_are_shown)
{
    static const char *const requests[] = {
        "\"gpu\":\"h100\",\"gpus\":8", "\"gpu\":\"a100\",\"method\":\"full\",\"gpus\":8",
        "\"gpu\":\"rtx-4090\"",        "\"stack\":\"nemo\",\"gpus\":4",
        "\"packing\":\"off\"",
    };
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        const struct plan *plan = planning_make(planning_request("llama-3.1-8b", requests[i]));
        const struct plan_alternative *cheap = row_of(plan, "cheapest"),
                                      *fast = row_of(plan, "fastest"),
                                      *lean = row_of(plan, "fewest GPU hours");
        const struct search_result *own = &plan->chosen;
        double cost = cheap ? cheap->result.cost_usd : own->cost_usd;
        double wall = fast ? fast->result.wall_hours : own->wall_hours;
        double hours = lean ? lean->result.gpu_hours : own->gpu_hours;
        for (size_t k = 0; k < plan->scaling_count; k++) {
            const struct search_result *r = &plan->scaling[k];
            CHECK(!r->stable || !(r->cost_usd < cost));
            CHECK(!r->stable || (r->wall_hours >= wall && r->gpu_hours >= hours));
        }
        const struct plan_alternative *of_goals[] = { cheap, fast, lean };
        for (int k = 0; k < 3; k++)
            if (of_goals[k])
                CHECK(!(of_goals[k]->result.cost_usd < cost) &&
                      of_goals[k]->result.wall_hours >= wall &&
                      of_goals[k]->result.gpu_hours >= hours);
    }
}

TEST(plan_shows_of_an_alternative_what_a_plan_of_it_would_show)
{
    const struct plan *plan =
        planning_make(planning_request("llama-3.1-8b", "\"gpu\":\"h100\",\"gpus\":8"));
    const struct search_result *r = &row_of(plan, "fewer GPUs")->result;
    const struct plan *again = planning_make(planning_request(
        "llama-3.1-8b",
        text_format(&test_arena,
                    "\"gpu\":\"%s\",\"gpus\":%lld,\"global_batch\":%.0f,\"micro_batch\":\"%.0f\","
                    "\"checkpointing\":\"%s\",\"parallel\":\"%s\"",
                    r->gpu->name, (long long)r->gpus, r->workload.global_batch,
                    r->workload.micro_batch, recipe_checkpointings[r->recipe.checkpointing],
                    layout_spell(&r->layout, &test_arena))));
    CHECK(again->forecast.gpu_hours.mid == r->gpu_hours);
    CHECK(again->forecast.cost_usd.mid == r->cost_usd);
}

TEST(plan_in_another_number_of_gpus_has_the_settings_of_a_plan_of_so_many)
{
    static const struct {
        const char *model, *request;
    } cases[] = {
        { "qwen2.5-32b", "\"gpu\":\"h100\",\"method\":\"lora\",\"context\":2048" },
        { "llama-3.1-8b", "\"gpu\":\"rtx-4090\",\"method\":\"lora\",\"context\":2048" },
        { "llama-3.1-8b", "\"gpu\":\"h100\",\"method\":\"full\",\"micro_batch\":\"2\"" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct plan *plan = planning_make(planning_request(
            cases[i].model, text_format(&test_arena, "%s,\"gpus\":16", cases[i].request)));
        for (size_t k = 0; k < plan->scaling_count; k++) {
            const struct search_result *r = &plan->scaling[k];
            const struct plan *own = planning_make(planning_request(
                cases[i].model,
                text_format(&test_arena, "%s,\"gpus\":%lld,\"global_batch\":%.0f", cases[i].request,
                            (long long)r->gpus, plan->chosen.workload.global_batch)));
            CHECK(r->stable || !own->chosen.stable);
            bool like = own->chosen.workload.global_batch == r->workload.global_batch;
            CHECK(!own->chosen.stable || !like || r->gpu_hours == own->forecast.gpu_hours.mid);
        }
    }
}

TEST(plan_of_packing_changes_packing_alone)
{
    const struct plan *plan = planning_make(
        planning_request("llama-3.1-8b", "\"gpu\":\"h100\",\"mean_length\":400,\"packing\":\"off\","
                                         "\"micro_batch\":\"2\",\"checkpointing\":\"full\""));
    const struct plan_alternative *packed = row_of(plan, "packed");
    CHECK(packed && !strcmp(packed->changes, "packed"));
    CHECK(packed->result.workload.micro_batch == 2);
}

static const struct plan_alternative *alternative_of(const struct plan *plan, const char *why)
{
    for (size_t i = 0; i < plan->alternative_count; i++)
        if (!strcmp(plan->alternatives[i].why, why))
            return &plan->alternatives[i];
    return NULL;
}

TEST(plan_of_another_method_is_what_its_row_among_the_alternatives_says)
{
    static const char *const methods[] = { "lora", "full" };
    const struct plan *plans[2];
    for (int i = 0; i < 2; i++)
        plans[i] = planning_make(text_format(
            &test_arena,
            "{\"model\":\"llama-3.1-8b\",\"tokens\":\"100M\",\"gpu\":\"h100\",\"gpus\":8,"
            "\"method\":\"%s\"}",
            methods[i]));
    for (int i = 0; i < 2; i++) {
        const struct plan_alternative *row = alternative_of(plans[i], methods[!i]);
        CHECK(row && row->result.stack == plans[!i]->stack);
        CHECK_NEAR(row->result.gpu_hours, plans[!i]->forecast.gpu_hours.mid, 1e-9);
        CHECK(strstr(row->changes, i ? "stack hf-peft" : "stack hf,"));
    }
    const struct plan *own = planning_make("{\"model\":\"llama-3.1-8b\",\"tokens\":\"100M\","
                                           "\"gpu\":\"h100\",\"gpus\":8,\"method\":\"full\","
                                           "\"stack\":\"hf\"}");
    const struct plan_alternative *lora = alternative_of(own, "lora");
    CHECK(lora && lora->result.stack == own->stack && !strstr(lora->changes, "stack"));
}

// PyTorch's FSDP does not shard then; DeepSpeed's ZeRO-3 fetches all the same.
TEST(plan_of_fsdp_on_one_gpu_is_that_of_one_gpu)
{
    static const char *const layouts[] = { "single", "fsdp" };
    static const char *const stacks[] = { "hf-peft", "hf-deepspeed" };
    for (int s = 0; s < 2; s++) {
        const struct plan *plans[2];
        for (int i = 0; i < 2; i++)
            plans[i] = planning_make(text_format(
                &test_arena,
                "{\"model\":\"llama-3.1-8b\",\"tokens\":\"10M\",\"gpu\":\"h100\",\"gpus\":1,"
                "\"micro_batch\":\"2\",\"global_batch\":64,\"checkpointing\":\"none\","
                "\"search\":false,\"parallel\":\"%s\",\"stack\":\"%s\"}",
                layouts[i], stacks[s]));
        double single = plans[0]->forecast.gpu_hours.mid, fsdp = plans[1]->forecast.gpu_hours.mid;
        CHECK(s ? fsdp > single : fsdp == single);
        CHECK(!strcmp(layout_spell(&plans[1]->chosen.layout, &test_arena),
                      s ? "single zero3" : "single"));
    }
}

TEST(plan_of_further_runs_is_that_of_a_sweep_with_one_more)
{
    static const char request[] = "{\"model\":\"llama-3.1-8b\",\"tokens\":\"20M\","
                                  "\"gpu\":\"h100\",\"gpus\":8,\"failed_runs\":0,"
                                  "\"failures_per_gpu_hour\":0,\"search\":false,";
    const struct plan *tuned = planning_make(text_format(&test_arena, "%s\"retries\":5}", request));
    const struct plan *swept = planning_make(text_format(&test_arena, "%s\"runs\":6}", request));
    const struct range *a = &tuned->forecast.gpu_hours, *b = &swept->sweep.gpu_hours;
    CHECK_NEAR(a->low, b->low, 1e-6);
    CHECK_NEAR(a->mid, b->mid, 1e-6);
    CHECK_NEAR(a->high, b->high, 1e-6);
    CHECK_NEAR(tuned->forecast.repeats_gpu_hours_mid, a->mid * 5 / 6, 1e-6);
    CHECK(strstr(plan_repeats_words(tuned, &test_arena), "5 further runs: "));
    CHECK(strstr(plan_repeats_words(tuned, &test_arena), "at the median"));
}

TEST(plan_shows_fewer_gpus_that_nearly_surely_fit_at_clearly_fewer_hours)
{
    const struct plan *plan = planning_make(
        "{\"model\":\"llama-3.1-8b\",\"tokens\":1.2e6,\"examples\":4000,\"packing\":\"off\","
        "\"context\":2176,\"gpu\":\"4090\",\"method\":\"qlora\",\"stack\":\"unsloth\",\"epochs\":3,"
        "\"checkpointing\":\"none\"}");
    const struct plan_alternative *unsure = NULL;
    for (size_t i = 0; i < plan->alternative_count; i++)
        if (strstr(plan->alternatives[i].why, "% sure"))
            unsure = &plan->alternatives[i];
    CHECK(plan->chosen.gpus > 1 && plan->chosen.stable && unsure);
    if (!unsure)
        return;
    const struct search_result *r = &unsure->result;
    CHECK(r->gpus < plan->chosen.gpus && r->gpu_hours < 0.8 * plan->chosen.gpu_hours);
    CHECK(!r->stable && r->memory.fit_probability >= 0.8);
    CHECK(r->recipe.checkpointing == RECIPE_KEEP_ALL);
}

TEST(plan_within_a_budget_alone_names_no_time)
{
    const struct plan *plan = planning_make("{\"model\":\"llama-3.1-8b\",\"tokens\":2e8,\"gpu\":"
                                            "\"a100\",\"gpus\":8,\"budget\":20}");
    bool found = false;
    for (size_t i = 0; i < plan->alternative_count; i++) {
        CHECK(strcmp(plan->alternatives[i].why, "cheapest in time"));
        found |= !strcmp(plan->alternatives[i].why, "cheapest in budget");
    }
    CHECK(found);
}

static const char *text_with(const char *members)
{
    const struct plan *plan = planning_make(text_format(
        &test_arena, "{\"model\":\"llama-3.1-8b\",\"gpu\":\"h100\",\"gpus\":1,\"search\":false,%s}",
        members));
    struct out out = { .arena = &test_arena };
    plan_text(plan, &test_arena, &out);
    return out_string(&out);
}

TEST(plan_of_less_than_a_step_shows_the_time_that_it_takes)
{
    const char *text = text_with("\"tokens\":10000");
    CHECK(strstr(text, "1 step of 1.")); // 10,000 tokens at about 7,700 a second, not a full step
}

TEST(plan_shows_parts_of_epochs_in_three_digits)
{
    CHECK(strstr(text_with("\"tokens\":20000,\"epochs\":64.9351"), "64.9 epochs"));
    CHECK(strstr(text_with("\"tokens\":20000,\"epochs\":1250"), "1250 epochs"));
}
