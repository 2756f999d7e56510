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
    const struct plan *plan = planning_make("{\"model\":\"llama-3.1-8b\",\"tokens\":1e9,"
                                            "\"gpu\":\"h100\",\"deadline\":\"12h\"}");
    CHECK(plan->meets_deadline);
    CHECK(plan->chosen.gpus > 1);
    for (size_t i = 0; i < plan->scaling_count; i++)
        if (plan->scaling[i].gpus * 2 <= plan->chosen.gpus)
            CHECK(plan->scaling[i].wall_hours > 12 / exp(1.5 * plan->efficiency.log_spread));
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
    CHECK(tree.count == 9); // nothing that was not said
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
