// SPDX-License-Identifier: Apache-2.0
#include "base/rng.h"
#include "core/plan/plan_internal.h"
#include "test/core/planning.h"

static const char usual[] = "{\"model\":\"llama-3.1-8b\",\"tokens\":\"21.4M\",\"epochs\":3,"
                            "\"gpu\":\"h100-sxm\",\"gpus\":8,\"stack\":\"hf-peft\"}";

static struct text written(const struct plan *plan)
{
    struct out out = { .arena = &test_arena };
    plan_write(plan, &test_arena, &out);
    return out_view(&out);
}

static double number(const struct json *tree, const char *key, const char *member)
{
    const struct json *object = json_get(tree, key);
    CHECK(object);
    return object ? json_get_number(object, member, NAN) : NAN;
}

TEST(plan_document_has_the_keys_of_the_contract)
{
    struct json tree;
    CHECK(!json_read(&tree, &test_arena, written(planning_make(usual)), "plan"));
    CHECK(text_is(json_get_text(&tree, "kind"), "plan"));
    CHECK(json_get_number(&tree, "version", 0) == 1);
    static const char *const ranges[] = { "tokens_per_second", "wall_hours", "gpu_hours",
                                          "cost_usd" };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        double low = number(&tree, ranges[i], "p10"), mid = number(&tree, ranges[i], "p50"),
               high = number(&tree, ranges[i], "p90");
        CHECK(0 < low && low < mid && mid < high);
    }
    static const char *const of_workload[] = { "examples", "tokens", "labelled_tokens",
                                               "epochs",   "steps",  "processed_tokens" };
    for (size_t i = 0; i < sizeof of_workload / sizeof *of_workload; i++)
        CHECK(number(&tree, "workload", of_workload[i]) > 0);
    CHECK(number(&tree, "workload", "padding_share") >= 0);
    static const char *const of_memory[] = { "allocated_bytes", "reserved_bytes", "total_bytes",
                                             "device_bytes", "host_bytes" };
    for (size_t i = 0; i < sizeof of_memory / sizeof *of_memory; i++)
        CHECK(number(&tree, "memory", of_memory[i]) > 1e9);
    CHECK(json_get_bool(json_get(&tree, "memory"), "fits", false));
    static const char *const lists[] = { "alternatives", "assumptions", "warnings" };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        CHECK(json_get(&tree, lists[i]) && json_get(&tree, lists[i])->count > 0);
    CHECK(number(&tree, "configuration", "gpus") == 8);
}

TEST(plan_parts_of_memory_sum_to_the_total)
{
    struct json tree;
    CHECK(!json_read(&tree, &test_arena, written(planning_make(usual)), "plan"));
    const struct json *parts = json_get(json_get(&tree, "memory"), "parts");
    double sum = 0;
    for (size_t i = 0; i < parts->count; i++)
        sum += json_get_number(&parts->items[i], "bytes", NAN);
    CHECK_NEAR(sum, number(&tree, "memory", "total_bytes"), 1e-12);
}

TEST(plan_of_the_same_request_is_the_same_document)
{
    struct text a = written(planning_make(usual)), b = written(planning_make(usual));
    CHECK(text_equal(a, b));
}

TEST(plan_hours_are_tokens_over_speed_and_overheads)
{
    const struct plan *plan = planning_make(usual);
    const struct overhead_times *t = &plan->forecast.middle;
    double speed = plan->estimate.tokens_per_s * exp(plan->efficiency.log_mid);
    CHECK_NEAR(t->seconds[OVERHEAD_TRAINING], plan->chosen.workload.processed_tokens / speed,
               1e-12);
    double sum = 0;
    for (int i = 0; i < OVERHEAD_KINDS; i++)
        sum += t->seconds[i];
    CHECK_NEAR(t->wall_seconds, sum, 1e-12);
    CHECK_NEAR(plan->forecast.gpu_hours.mid, 8 * plan->forecast.wall_hours.mid, 1e-12);
}

TEST(plan_of_amounts_that_no_run_has_is_refused)
{
    static const char *const odd[][2] = {
        { "\"retries\":1e300", "--retries is 1e+300, must be at most" },
        { "\"startup\":1e300", "--startup is 1e+300, must be at most" },
        { "\"failures_per_gpu_hour\":1e300", "--failures-per-gpu-hour is 1e+300" },
        { "\"storage\":1e-300", "--storage is 1e-300 bytes/s, must be at least 1" },
        { "\"mean_length\":5e-324", "--mean-length is 4.94066e-324, must be at least 1" },
    };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        struct plan *plan = ARENA_NEW(&test_arena, struct plan, 1);
        const char *request =
            text_format(&test_arena, "{\"model\":\"llama-3.1-8b\",\"tokens\":1e7,%s}", odd[i][0]);
        CHECK(planning_try(plan, request) == ERR_USAGE);
        test_check(strstr(error_text(), odd[i][1]), error_text(), odd[i][1], 0);
    }
}

TEST(plan_text_stays_within_eighty_columns)
{
    static const char *const requests[] = {
        usual,
        "{\"model\":\"llama-3.1-70b\",\"tokens\":1e12,\"method\":\"full\",\"stack\":\"nemo\"}",
        "{\"model\":\"qwen2.5-7b\",\"tokens\":1000,\"gpu\":\"t4\",\"method\":\"full\"}",
        "{\"model\":\"mixtral-8x7b\",\"tokens\":1e7,\"gpu\":\"b200\",\"deadline\":\"1h\"}",
    };
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        const struct plan *plan = planning_make(requests[i]);
        struct out out = { .arena = &test_arena };
        plan_text(plan, &test_arena, &out);
        plan_explain(plan, &test_arena, &out);
        struct text rest = out_view(&out), line;
        while (text_next(&rest, '\n', &line)) {
            size_t columns = 0;
            for (size_t c = 0; c < line.size; c++)
                columns += (line.at[c] & 0xC0) != 0x80;
            test_check(columns <= 80, text_copy(&test_arena, line), requests[i], 0);
        }
    }
}

TEST(plan_that_does_not_fit_offers_what_does)
{
    const struct plan *plan = planning_make(
        "{\"model\":\"llama-3.1-70b\",\"tokens\":1e7,\"method\":\"full\",\"gpu\":\"h100\","
        "\"gpus\":1}");
    CHECK(!plan->fits);
    CHECK(plan->alternative_count > 0);
    CHECK(plan->forecast.gpu_hours.mid > 0);
    for (size_t i = 0; i < plan->alternative_count; i++)
        CHECK(plan->alternatives[i].result.memory.fits);
}

TEST(plan_keeps_the_deadline_with_the_fewest_gpus)
{
    const struct plan *plan = planning_make("{\"model\":\"llama-3.1-8b\",\"tokens\":1.2e9,"
                                            "\"packing\":\"on\",\"gpu\":\"h100\","
                                            "\"deadline\":\"14h\"}");
    CHECK(plan->meets_deadline);
    CHECK(plan->chosen.gpus > 1);
    for (size_t i = 0; i < plan->scaling_count; i++)
        if (plan->scaling[i].gpus * 2 <= plan->chosen.gpus)
            CHECK(plan->scaling[i].wall_hours > 14 / exp(1.5 * plan->efficiency.log_spread));
}

TEST(plan_without_a_gpu_recommends_one)
{
    const struct plan *plan = planning_make("{\"model\":\"llama-3.1-8b\",\"tokens\":1e7}");
    CHECK(plan->fits && plan->chosen.stable && plan->chosen.gpu);
    for (size_t i = 0; i < plan->search.count; i++)
        if (plan->search.best[i].stable && plan->search.best[i].cost_usd > 0)
            CHECK(plan->chosen.cost_usd < 1.3 * plan->search.best[i].cost_usd);
}

TEST(plan_repeats_runs_as_often_as_told)
{
    const char *once = "{\"model\":\"llama-3.1-8b\",\"tokens\":1e8,\"gpu\":\"h100\",\"gpus\":8}";
    const char *often = "{\"model\":\"llama-3.1-8b\",\"tokens\":1e8,\"gpu\":\"h100\",\"gpus\":8,"
                        "\"retries\":3}";
    CHECK_NEAR(planning_make(often)->forecast.middle.wall_seconds,
               4 * planning_make(once)->forecast.middle.wall_seconds, 1e-9);
}

TEST(plan_takes_a_price_instead_of_the_offers)
{
    const struct plan *plan = planning_make("{\"model\":\"llama-3.1-8b\",\"tokens\":1e8,"
                                            "\"gpu\":\"h100\",\"gpus\":8,\"price\":2}");
    CHECK_NEAR(plan->forecast.cost_usd.mid, 2 * plan->forecast.gpu_hours.mid, 1e-12);
}

TEST(plan_assumptions_say_where_they_come_from)
{
    const struct plan *plan = planning_make(usual);
    CHECK(plan->assumption_count > 15);
    for (size_t i = 0; i < plan->assumption_count; i++) {
        const struct assumption *a = &plan->assumptions[i];
        CHECK(a->name && a->unit);
        CHECK(a->origin == ASSUMPTION_GIVEN || a->source);
        CHECK(a->origin != ASSUMPTION_CATALOG || a->as_of);
        CHECK(a->value.low <= a->value.mid && a->value.mid <= a->value.high);
    }
}

TEST(plan_refuses_requests_that_make_no_sense)
{
    static const struct {
        const char *json;
        enum err err;
        const char *says;
    } cases[] = {
        { "{\"tokens\":1e7}", ERR_USAGE, "--model" },
        { "{\"model\":\"llama-3.1-8b\"}", ERR_USAGE, "--tokens" },
        { "{\"model\":\"lama-3.1-8b\",\"tokens\":1e7}", ERR_USAGE, "llama-3.1-8b" },
        { "{\"model\":\"llama-3.1-8b\",\"tokens\":-1}", ERR_INPUT, "tokens" },
        { "{\"model\":\"llama-3.1-8b\",\"tokens\":1e30}", ERR_INPUT, "tokens" },
        { "{\"model\":\"llama-3.1-8b\",\"tokens\":\"nan\"}", ERR_INPUT, "tokens" },
        { "{\"model\":\"llama-3.1-8b\",\"tokens\":1e7,\"gpus\":0}", ERR_USAGE, "--gpus" },
        { "{\"model\":\"llama-3.1-8b\",\"tokens\":1e7,\"context\":0}", ERR_USAGE, "--context" },
        { "{\"model\":\"llama-3.1-8b\",\"tokens\":1e7,\"gpu\":\"h1000\"}", ERR_USAGE, "h1000" },
        { "{\"model\":\"llama-3.1-8b\",\"tokens\":1e7,\"stack\":\"huggin\"}", ERR_USAGE, "stack" },
        { "{\"model\":\"llama-3.1-8b\",\"tokens\":1e7,\"rank\":0}", ERR_USAGE, "--rank" },
        { "{\"model\":\"llama-3.1-8b\",\"tokens\":1e7,\"micro_batch\":\"0\"}", ERR_USAGE,
          "--micro-batch" },
        { "{\"model\":\"llama-3.1-8b\",\"tokens\":1e7,\"gpus\":8,\"parallel\":\"tp3\"}", ERR_USAGE,
          "tp3" },
        { "{\"model\":\"llama-3.1-8b\",\"tokens\":1e7,\"epochs\":0}", ERR_USAGE, "--epochs" },
        { "{\"model\":\"llama-3.1-8b\",\"tokens\":1e7,\"storage\":0}", ERR_USAGE, "--storage" },
        { "{\"model\":\"llama-3.1-8b\",\"examples\":52002}", ERR_USAGE, "--mean-length" },
        { "{\"model\":\"llama-3.1-8b\",\"gpu\":\"h100\",\"gpus\":9,\"nodes\":2,\"tokens\":1e6}",
          ERR_USAGE, "--nodes" },
        { "{\"modle\":\"llama-3.1-8b\"}", ERR_INPUT, "modle" },
        { "[1]", ERR_INPUT, "object" },
        { "{\"model\":", ERR_INPUT, "request" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plan *plan = ARENA_NEW(&test_arena, struct plan, 1);
        enum err err = planning_try(plan, cases[i].json);
        test_check(err == cases[i].err, err ? error_text() : "is refused", cases[i].json, 0);
        test_check(err && strstr(error_text(), cases[i].says), error_text(), cases[i].json, 0);
    }
}

TEST(plan_says_what_it_was_asked_and_reads_it_back)
{
    struct plan_request request;
    CHECK(plan_request_read(&request, &test_arena,
                            TEXT("{\"model\":\"qwen2.5-7b\",\"tokens\":\"3M\",\"epochs\":2.5,"
                                 "\"gpus\":4,\"method\":\"qlora\",\"rank\":32,\"deadline\":\"4h\","
                                 "\"batching\":\"packed\",\"search\":false}"),
                            "t") == OK);
    struct out first = { .arena = &test_arena }, second = { .arena = &test_arena };
    struct json_writer w = { .out = &first }, again = { .out = &second };
    plan_request_write(&request, &test_arena, NULL, &w);
    struct json tree;
    CHECK(json_read(&tree, &test_arena, out_view(&first), "t") == OK);
    CHECK(tree.count == 9); // nothing that was not given
    CHECK(json_get_number(&tree, "deadline", 0) == 4 * 3600);
    CHECK(plan_request_read(&request, &test_arena, out_view(&first), "t") == OK);
    plan_request_write(&request, &test_arena, NULL, &again);
    CHECK(text_equal(out_view(&first), out_view(&second)));
}

TEST(plan_document_says_where_the_time_of_a_step_goes)
{
    static const char *const requests[] = {
        usual,
        "{\"model\":\"llama-2-70b\",\"tokens\":\"1M\",\"method\":\"qlora\",\"gpu\":\"a100-sxm-"
        "80gb\","
        "\"gpus\":2}",
        "{\"model\":\"llama-3.1-8b\",\"tokens\":\"5M\",\"method\":\"full\",\"gpu\":\"h100-sxm\","
        "\"gpus\":16,\"parallel\":\"fsdp\"}",
    };
    for (size_t r = 0; r < sizeof requests / sizeof *requests; r++) {
        const struct plan *plan = planning_make(requests[r]);
        struct json tree;
        CHECK(!json_read(&tree, &test_arena, written(plan), "plan"));
        const struct json *step = json_get(&tree, "step");
        double parts = 0, operations = 0;
        for (size_t i = 0; i < json_get(step, "parts")->count; i++)
            parts += json_get_number(&json_get(step, "parts")->items[i], "seconds", NAN);
        CHECK_NEAR(parts, json_get_number(step, "roofline_seconds", NAN), 1e-9);
        // Operations are what the GPU itself does: its four kinds, and the update without launches.
        for (size_t i = 0; i < json_get(step, "operations")->count; i++) {
            const struct json *op = &json_get(step, "operations")->items[i];
            if (!text_is(json_get_text(op, "kind"), "optimizer"))
                operations += json_get_number(op, "seconds", NAN);
        }
        const struct timing *t = &plan->estimate.timing;
        double device = t->matmul_seconds + t->attention_seconds + t->elementwise_seconds +
                        t->dequantize_seconds;
        CHECK_NEAR(operations, plan->chosen.workload.accumulation * device, 0.02);
    }
}

TEST(plan_document_has_percentiles_that_rise_through_the_range)
{
    struct json tree;
    CHECK(!json_read(&tree, &test_arena, written(planning_make(usual)), "plan"));
    const struct json *list = json_get(&tree, "gpu_hours_percentiles");
    CHECK(list && list->count == 19);
    double last = 0;
    for (size_t i = 0; i < list->count; i++) {
        double hours = json_get_number(&list->items[i], "gpu_hours", NAN);
        CHECK(json_get_number(&list->items[i], "percentile", NAN) == 5 * ((double)i + 1));
        CHECK(hours >= last);
        last = hours;
    }
    CHECK_NEAR(json_get_number(&list->items[1], "gpu_hours", NAN),
               number(&tree, "gpu_hours", "p10"), 1e-9);
    CHECK_NEAR(json_get_number(&list->items[17], "gpu_hours", NAN),
               number(&tree, "gpu_hours", "p90"), 1e-9);
}

// --- one answer everywhere ---------------------------------------------------

static struct fit fit_like(const struct plan *plan)
{
    struct plan_request *request = ARENA_NEW(&test_arena, struct plan_request, 1);
    struct fit fit = { 0 };
    *request = *plan->request;
    request->gpu = plan->chosen.gpu->name;
    request->gpus = plan->chosen.gpus;
    request->parallel = layout_spell(&plan->chosen.layout, &test_arena);
    request->recipe.checkpointing = plan->chosen.recipe.checkpointing;
    request->micro_batch = text_format(&test_arena, "%.0f", plan->chosen.workload.micro_batch);
    request->global_batch = (int64_t)plan->chosen.workload.global_batch;
    CHECK(!fit_make(&fit, &test_arena, planning_data(), request));
    return fit;
}

TEST(plan_memory_and_search_give_one_configuration_the_same_numbers)
{
    static const char *const models[] = { "llama-3.1-8b", "llama-3.1-70b", "qwen3-30b-a3b",
                                          "gemma-3-27b" };
    static const char *const stacks[] = { "hf", "hf-peft", "hf-deepspeed", "nemo", "unsloth" };
    static const char *const methods[] = { "full", "lora", "qlora" };
    static const char *const gpus[] = { "a100-sxm-80gb", "h100-sxm", "rtx-4090", "t4" };
    static const char *const batchings[] = { "auto", "longest", "packed" };
    struct rng rng = rng_seeded(7);
    for (int i = 0; i < 36; i++) {
        const char *json = planning_request(
            models[rng_below(&rng, 4)],
            text_format(&test_arena,
                        "\"stack\":\"%s\",\"method\":\"%s\",\"gpu\":\"%s\",\"gpus\":%d,"
                        "\"batching\":\"%s\",\"context\":%d,\"search\":false",
                        stacks[rng_below(&rng, 5)], methods[rng_below(&rng, 3)],
                        gpus[rng_below(&rng, 4)], 1 << rng_below(&rng, 5),
                        batchings[rng_below(&rng, 3)], 512 << rng_below(&rng, 7)));
        const struct plan *plan = planning_make(json);
        struct fit fit = fit_like(plan);
        test_check(fit.memory.total_bytes == plan->estimate.memory.total_bytes &&
                       fit.memory.fits == plan->fits,
                   "memory and plan agree", json, 0);
        test_check(plan->chosen.memory.total_bytes == plan->estimate.memory.total_bytes,
                   "search and plan agree", json, 0);
    }
}

TEST(plan_of_our_engine_is_timed_with_what_its_layers_recompute)
{
    const char *given = "\"stack\":\"native\",\"method\":\"qlora\",\"gpu\":\"h200\",\"gpus\":1,"
                        "\"context\":16384,\"micro_batch\":\"1\",\"search\":false";
    const struct plan *plan = planning_make(planning_request("qwen2.5-32b", given));
    const struct plan *levels[2];
    int level = plan->estimate.memory.filled.level;
    double share = (double)plan->estimate.memory.filled.lighter / (double)plan->model->layers;
    CHECK(level > RECIPE_KEEP_ALL && share > 0 && share < 1);
    for (int i = 0; i < 2; i++)
        levels[i] = planning_make(
            planning_request("qwen2.5-32b", text_format(&test_arena, "%s,\"checkpointing\":\"%s\"",
                                                        given, recipe_checkpointings[level - i])));
    CHECK_NEAR(plan->chosen.seconds_per_step,
               (1 - share) * levels[0]->chosen.seconds_per_step +
                   share * levels[1]->chosen.seconds_per_step,
               1e-3);
    CHECK(levels[0]->chosen.seconds_per_step > 1.05 * levels[1]->chosen.seconds_per_step);
    struct out out = { .arena = &test_arena, .columns = 200 };
    plan_text(plan, &test_arena, &out); // settings that give these hours again
    CHECK(strstr(out_string(&out), "--checkpointing auto"));
}

TEST(plan_says_whether_our_engine_keeps_more_or_less_than_planned)
{
    const struct plan *plan = planning_make(planning_request(
        "llama-3.1-8b", "\"stack\":\"native\",\"gpu\":\"h200\",\"gpus\":1,\"search\":false"));
    struct memory memory = plan->estimate.memory;
    memory.filled.level = RECIPE_GATE;
    memory.filled.lighter = 3;
    CHECK(strstr(plan_filled_words(&memory, RECIPE_GATE, plan->model, &test_arena),
                 "recompute less"));
    CHECK(strstr(plan_filled_words(&memory, RECIPE_SELECTIVE, plan->model, &test_arena),
                 "recomputes more"));
}

TEST(plan_and_memory_have_the_same_defaults)
{
    struct plan_request request;
    struct fit fit;
    const char *json =
        planning_request("llama-3.1-70b", "\"method\":\"full\",\"gpu\":\"a100-sxm-80gb\","
                                          "\"gpus\":8");
    CHECK(!plan_request_read(&request, &test_arena, text_of(json), "t"));
    CHECK(!fit_make(&fit, &test_arena, planning_data(), &request));
    const struct plan *plan = planning_make(json);
    CHECK(fit.memory.fits == plan->fits);
    CHECK(fit.accumulation == plan->chosen.workload.accumulation);
    CHECK(fit.memory.total_bytes == plan->estimate.memory.total_bytes);
}

TEST(plan_reports_the_numbers_that_it_computes_with)
{
    const struct plan *plan = planning_make(
        planning_request("llama-3.1-8b", "\"gpu\":\"t4\",\"gpus\":2,\"method\":\"qlora\""));
    struct links links =
        network_links(plan->chosen.gpu, plan->chosen.node.gpus > 0 ? &plan->chosen.node : NULL);
    const struct {
        const char *name;
        double value;
    } used[] = {
        { "GPU matrix products, sustained",
          compute_matmul_flops_per_s(plan->chosen.gpu, RECIPE_FP16) },
        { "GPU memory bandwidth, sustained", compute_memory_bytes_per_s(plan->chosen.gpu) },
        { "GPU memory", plan->estimate.memory.device_bytes },
        { "link between GPUs, sustained", links.node_bytes_per_s },
        { "context", plan->rule.context },
        { "save interval", plan->forecast.middle.save_interval_seconds },
        { "price", price_median(&plan->price) },
    };
    for (size_t i = 0; i < sizeof used / sizeof *used; i++) {
        bool found = false;
        for (size_t k = 0; k < plan->assumption_count; k++)
            if (!strcmp(plan->assumptions[k].name, used[i].name))
                found = plan->assumptions[k].value.mid == used[i].value;
        test_check(found, used[i].name, "is reported as used", 0);
    }
}

TEST(plan_of_a_rack_counts_its_trays_as_machines_and_keeps_its_link)
{
    const char *job = "\"gpu\":\"gb200\",\"stack\":\"nemo\",\"method\":\"full\",\"search\":false,"
                      "\"parallel\":\"tp8 zero1\",\"gpus\":64";
    const struct plan *plan = planning_make(planning_request("llama-3.1-70b", job));
    const struct plan *said = planning_make(
        planning_request("llama-3.1-70b", text_format(&test_arena, "%s,\"nodes\":16", job)));
    struct json tree;
    CHECK(!json_read(&tree, &test_arena, written(plan), "plan"));
    CHECK(number(&tree, "configuration", "nodes") == 16);
    CHECK(said->chosen.node.gpus == 4 && said->chosen.node.link_domain_gpus == 72);
    CHECK(said->forecast.gpu_hours.mid == plan->forecast.gpu_hours.mid);
}

// --- what is shown -----------------------------------------------------------

TEST(plan_says_given_only_of_what_was_given)
{
    struct plan_request request;
    CHECK(!plan_request_read(&request, &test_arena,
                             text_of(planning_request("llama-3.1-8b", "\"gpu\":\"h100\",\"gpus\":1,"
                                                                      "\"packing\":\"off\"")),
                             "t"));
    struct lengths lengths = { .arena = &test_arena };
    struct rng rng = rng_seeded(3);
    struct profile profile = { 0 };
    for (int i = 0; i < 4000; i++) {
        int64_t tokens = 20 + (int64_t)rng_below(&rng, 500);
        lengths_add(&lengths, tokens, tokens);
    }
    lengths_tally(&profile.tally, &test_arena, &lengths);
    CHECK(!plan_request_measure(&request, &test_arena, &profile, &lengths));
    struct plan *plan = ARENA_NEW(&test_arena, struct plan, 1);
    CHECK(!plan_make(plan, &test_arena, planning_data(), &request));
    for (size_t i = 0; i < plan->assumption_count; i++)
        test_check(plan->assumptions[i].origin != ASSUMPTION_GIVEN, plan->assumptions[i].name,
                   "was not given", 0);
    struct out out = { .arena = &test_arena };
    plan_explain(plan, &test_arena, &out);
    CHECK(strstr(out_string(&out), "new widths") && !strstr(out_string(&out), "given"));
}

TEST(plan_text_shows_the_precision_of_weights_and_states_that_memory_counts)
{
    static const char *const cases[][2] = {
        { "\"method\":\"full\",\"stack\":\"hf\"", "without an fp32 master copy" },
        { "\"stack\":\"hf-peft\"", "adapters and their optimizer states in fp32" },
        { "\"stack\":\"hf-deepspeed\"", "adapters in bf16 with an fp32 master copy, their" },
        { "\"stack\":\"hf-peft\",\"states\":\"bf16\"",
          "adapters in fp32, their optimizer states in bf16" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct out out = { .arena = &test_arena };
        const char *gpus = text_format(&test_arena, "%s,\"gpu\":\"h100\",\"gpus\":8", cases[i][0]);
        plan_text(planning_make(planning_request("llama-3.1-8b", gpus)), &test_arena, &out);
        test_check(strstr(out_string(&out), cases[i][1]), cases[i][0], __FILE__, __LINE__);
    }
}

TEST(plan_starts_from_a_former_plan_and_overrides_it)
{
    const struct plan *plan = planning_make(
        planning_request("qwen2.5-7b", "\"gpu\":\"h100\",\"gpus\":2,\"epochs\":2,\"rank\":32"));
    struct plan_request former;
    CHECK(!plan_request_former(&former, &test_arena, written(plan), "plan.json"));
    struct plan *again = ARENA_NEW(&test_arena, struct plan, 1);
    CHECK(!plan_make(again, &test_arena, planning_data(), &former));
    CHECK(again->forecast.gpu_hours.mid == plan->forecast.gpu_hours.mid);
    struct plan_request given = plan_request_default();
    given.tokens = former.tokens = 20000000;
    former.given = &given;
    plan_request_renew(&former);
    CHECK(!plan_make(again, &test_arena, planning_data(), &former));
    CHECK(again->chosen.workload.tokens == 2e7 && again->chosen.recipe.rank == 32);
    for (size_t i = 0; i < again->assumption_count; i++) {
        const struct assumption *a = &again->assumptions[i];
        if (!strcmp(a->name, "epochs"))
            CHECK(a->origin == ASSUMPTION_GIVEN && a->source && !strcmp(a->source, "plan.json"));
        if (!strcmp(a->name, "tokens"))
            CHECK(a->origin == ASSUMPTION_GIVEN && !a->source);
    }
    CHECK(plan_request_former(&former, &test_arena, TEXT("{\"kind\":\"pilot\"}"), "p.json") ==
          ERR_INPUT);
    CHECK(plan_request_former(&former, &test_arena,
                              TEXT("{\"kind\":\"plan\",\"request\":{},\"workload\":"
                                   "{\"measured\":true,\"tokens\":1e300}}"),
                              "p.json") == ERR_INPUT);
    CHECK(strstr(error_text(), "1e+300 tokens"));
}

TEST(plan_document_has_trade_offs_that_none_of_them_beats)
{
    const struct plan *plan =
        planning_make(planning_request("llama-3.1-8b", "\"gpu\":\"h100\",\"gpus\":8"));
    CHECK(plan->pareto_count >= 3);
    for (size_t i = 0; i < plan->pareto_count; i++) {
        const struct search_result *a = &plan->pareto[i];
        CHECK(a->sampled);
        for (size_t k = 0; k < plan->pareto_count; k++)
            CHECK(k == i || plan->pareto[k].wall_hours > a->wall_hours ||
                  plan->pareto[k].gpu_hours > a->gpu_hours);
    }
}

static const struct lengths *uneven_lengths(void)
{
    struct lengths *lengths = ARENA_NEW(&test_arena, struct lengths, 1);
    lengths->arena = &test_arena;
    struct rng rng = rng_seeded(11);
    for (int i = 0; i < 4000; i++) {
        int64_t tokens = (int64_t)(20 + exp(5 + 0.8 * rng_normal(&rng)));
        lengths_add(lengths, tokens, tokens * 2 / 3);
    }
    return lengths;
}

static const struct plan *plan_again(struct text document, const char *micro_batch)
{
    struct plan_request *request = ARENA_NEW(&test_arena, struct plan_request, 1);
    struct plan *plan = ARENA_NEW(&test_arena, struct plan, 1);
    CHECK(!plan_request_former(request, &test_arena, document, "plan.json"));
    if (micro_batch)
        request->micro_batch = micro_batch;
    CHECK(!plan_make(plan, &test_arena, planning_data(), request));
    return plan;
}

static bool warns(const struct plan *plan, const char *code)
{
    bool found = false;
    for (size_t i = 0; i < plan->advice.count; i++)
        found = found || !strcmp(plan->advice.items[i].code, code);
    return found;
}

TEST(plan_from_a_former_plan_of_data_knows_the_padding_of_every_micro_batch)
{
    static const char *const batchings[] = { "longest", "grouped", "packed" };
    for (int k = 0; k < 3; k++) {
        struct plan_request request;
        struct plan plan, given;
        CHECK(!plan_request_read(
            &request, &test_arena,
            text_of(text_format(&test_arena,
                                "{\"model\":\"llama-3.1-8b\",\"tokens\":1,\"epochs\":3,"
                                "\"context\":2048,\"batching\":\"%s\",\"gpu\":\"h100\","
                                "\"gpus\":8,\"search\":false}",
                                batchings[k])),
            "request"));
        request.lengths = uneven_lengths();
        request.examples = (int64_t)request.lengths->count;
        CHECK(!plan_make(&plan, &test_arena, planning_data(), &request));
        const struct plan *same = plan_again(written(&plan), NULL);
        CHECK(same->forecast.gpu_hours.mid == plan.forecast.gpu_hours.mid);
        CHECK(same->forecast.gpu_hours.high == plan.forecast.gpu_hours.high);
        CHECK(same->estimate.memory.total_bytes == plan.estimate.memory.total_bytes);
        CHECK(!warns(same, "padding_of_a_former_plan"));
        request.micro_batch = "1";
        CHECK(!plan_make(&given, &test_arena, planning_data(), &request));
        const struct plan *one = plan_again(written(same), "1");
        CHECK(one->chosen.workload.padding_share == given.chosen.workload.padding_share);
        CHECK(one->forecast.gpu_hours.mid == given.forecast.gpu_hours.mid);
        CHECK(k == 2 || one->chosen.workload.padding_share == 0);
    }
}

TEST(plan_of_packed_rows_that_nemo_takes_one_at_a_time_says_so)
{
    struct plan_request request;
    struct plan plan;
    CHECK(!plan_request_read(&request, &test_arena,
                             TEXT("{\"model\":\"llama-3.1-8b\",\"tokens\":1,\"context\":2048,"
                                  "\"gpu\":\"h100\",\"gpus\":2,\"stack\":\"nemo\","
                                  "\"packing\":\"on\",\"micro_batch\":\"4\","
                                  "\"global_batch\":16,\"search\":false}"),
                             "request"));
    request.lengths = uneven_lengths();
    CHECK(!plan_make(&plan, &test_arena, planning_data(), &request));
    CHECK(warns(&plan, "single_packed_rows"));
    CHECK(plan.chosen.workload.micro_batch == 1 && plan.chosen.workload.global_batch == 16);
    request.micro_batch = NULL;
    CHECK(!plan_make(&plan, &test_arena, planning_data(), &request));
    CHECK(!warns(&plan, "single_packed_rows") && plan.chosen.workload.micro_batch == 1);
}

TEST(plan_from_a_document_without_shapes_keeps_its_micro_batch_and_says_so)
{
    struct plan_request request;
    struct plan plan;
    CHECK(!plan_request_read(&request, &test_arena,
                             TEXT("{\"model\":\"llama-3.1-8b\",\"tokens\":1,\"epochs\":3,"
                                  "\"context\":2048,\"gpu\":\"h100\",\"gpus\":8,"
                                  "\"micro_batch\":\"2\",\"global_batch\":64,"
                                  "\"search\":false}"),
                             "request"));
    request.lengths = uneven_lengths();
    CHECK(!plan_make(&plan, &test_arena, planning_data(), &request));
    request.micro_batch = NULL; // so that the document does not ask for it
    struct text document = written(&plan);
    char *copy = ARENA_NEW(&test_arena, char, document.size + 1);
    memcpy(copy, document.at, document.size);
    char *key = strstr(copy, "\"shapes\"");
    CHECK(key);
    memcpy(key, "\"shapez\"", 8); // as documents before 0.9.9
    const struct plan *kept = plan_again(text_of(copy), NULL),
                      *other = plan_again(text_of(copy), "8");
    CHECK(kept->chosen.workload.micro_batch == 2 && kept->chosen.workload.global_batch == 64);
    CHECK(warns(kept, "padding_of_a_former_plan") && warns(other, "padding_of_a_former_plan"));
    CHECK(other->chosen.workload.micro_batch == 8);
}

TEST(plan_steps_times_the_seconds_of_a_step_are_the_training_of_every_stack)
{
    const struct lengths *lengths = uneven_lengths();
    static const char *const batchings[] = { "max", "longest", "grouped", "packed" };
    static const char *const rows[] = { "1", "4" };
    const struct plan_data *data = planning_data();
    for (size_t s = 0; s < data->stack_count; s += TEST_CASES_OF)
        for (int k = 0; k < 8; k++) {
            struct arena_mark mark = arena_mark(&test_arena);
            const char *json = text_format(
                &test_arena,
                "{\"model\":\"llama-3.1-8b\",\"tokens\":1,\"epochs\":2,\"context\":2048,"
                "\"stack\":\"%s\",\"batching\":\"%s\",\"micro_batch\":\"%s\",\"global_batch\":16,"
                "\"gpu\":\"b200\",\"gpus\":1,\"search\":false}",
                data->stacks[s].name, batchings[k / 2], rows[k % 2]);
            struct plan_request request;
            struct plan plan;
            CHECK(!plan_request_read(&request, &test_arena, text_of(json), "request"));
            request.lengths = lengths;
            if (!plan_make(&plan, &test_arena, data, &request)) {
                const struct workload *w = &plan.chosen.workload;
                double training = plan.forecast.middle.seconds[OVERHEAD_TRAINING];
                double full = training / plan.chosen.seconds_per_step;
                test_check(full <= w->steps * 1.02 && full >= (w->steps - w->epochs) * 0.98,
                           "steps take the time of training", json, 0);
            }
            arena_rewind(&test_arena, mark);
        }
}
