// SPDX-License-Identifier: Apache-2.0
// hosting_document: a plan's document read back, and the document and the table of a comparison.

#include "test/core/hosting/comparing.h"

TEST(hosting_reads_a_plans_document_back)
{
    const struct plan *plan = planning_make(
        "{\"model\":\"llama-3.1-8b\",\"tokens\":\"21.4M\",\"epochs\":2,\"gpu\":\"a100-sxm-80gb\","
        "\"gpus\":4,\"method\":\"qlora\",\"rank\":32,\"context\":4096,\"packing\":\"on\","
        "\"retries\":2,\"startup\":\"5min\",\"search\":false}");
    struct out out = { .arena = &test_arena };
    struct plan_request request;
    struct hosting_document document;
    plan_write(plan, &test_arena, &out);
    CHECK(!hosting_read_plan(&request, &document, &test_arena, out_view(&out), "plan.json"));
    CHECK(!strcmp(request.model, "llama-3.1-8b") && request.tokens == 21400000);
    CHECK(request.epochs == 2 && request.context == 4096 && request.gpus == 4);
    CHECK(request.recipe.method == RECIPE_QLORA && request.recipe.rank == 32);
    CHECK(request.batching == BATCHING_PACKED);
    CHECK(request.retries == 2 && request.startup == 300);
    CHECK_NEAR(document.efficiency.log_mid, plan->efficiency.log_mid, 1e-6);
    CHECK_NEAR(document.efficiency.log_spread, plan->efficiency.log_spread, 1e-3);
    CHECK(fabs(document.efficiency.slow_tail - plan->efficiency.slow_tail) < 1e-3);
    struct plan *again = ARENA_NEW(&test_arena, struct plan, 1);
    CHECK(!plan_make(again, &test_arena, planning_data(), &request));
    struct hosting_input input = { .plan = again };
    hosting_adopt(&input, again, &document);
    CHECK_NEAR(input.processed_scale, 1, 1e-9);
    CHECK(input.lengths_factor.low <= 1 && input.lengths_factor.mid == 1);
    document.processed_tokens *= 1.5; // as a profile may have found
    hosting_adopt(&input, again, &document);
    CHECK_NEAR(input.processed_scale, 1.5, 1e-9);
    CHECK(hosting_read_plan(&request, &document, &test_arena, TEXT("{\"kind\":\"profile\"}"),
                            "p.json") == ERR_INPUT);
}

static double number(const struct json *row, const char *object, const char *key)
{
    const struct json *inner = object ? json_get(row, object) : row;
    return inner ? json_get_number(inner, key, NAN) : NAN;
}

static double widened(double mid, double hours, double mid_hours, double spread)
{
    double log_hours = log(hours / mid_hours), log_price = STATS_P90 * spread;
    double width = sqrt(log_hours * log_hours + log_price * log_price);
    return mid * exp(hours < mid_hours ? -width : width);
}

// Recomputes a row from the values of the document alone.
static void check_row(const struct json *row, double runs)
{
    struct text kind = json_get_text(row, "kind");
    if (text_is(kind, "managed")) {
        CHECK_NEAR(number(row, "cost_usd", "p50"),
                   number(row, NULL, "managed_tokens") / 1e6 *
                       number(row, NULL, "usd_per_million_tokens"),
                   1e-9);
        return;
    }
    const struct json *seconds = json_get(json_get(row, "time"), "seconds");
    double sum = 0, instances = number(row, NULL, "instances");
    for (size_t i = 0; i < seconds->count; i++)
        sum += json_get_number(&seconds->items[i], "seconds", NAN);
    CHECK_NEAR(number(row, "time", "run_seconds"), sum, 1e-9);
    CHECK_NEAR(json_get_number(&seconds->items[0], "seconds", NAN),
               number(row, "time", "processed_tokens") / number(row, "time", "tokens_per_second"),
               1e-9);
    CHECK(instances == ceil(number(row, NULL, "gpus") / number(row, NULL, "instance_gpus")));
    double billed = number(row, "billed_hours", "p50");
    double usd = number(row, "compute_usd", "p50");
    CHECK_NEAR(usd, instances * number(row, "price", "usd_per_instance_hour") * billed, 1e-9);
    if (text_is(kind, "on-demand")) {
        double step = number(row, "price", "granularity_seconds");
        double least = number(row, "price", "minimum_seconds");
        double run = (number(row, "move", "in_hours") + number(row, "run_hours", "p50") +
                      number(row, "move", "out_hours")) *
                     3600;
        bool block = text_is(json_get_text(row, "price_kind"), "block");
        if (block)
            run += (number(row, "run_hours", "p90") - number(row, "run_hours", "p50")) * 3600;
        CHECK_NEAR(billed * 3600, fmax(least, ceil(run / step) * step), 1e-9);
    }
    if (text_is(kind, "reserved-1y") || text_is(kind, "reserved-3y"))
        CHECK_NEAR(billed, number(row, "commitment", "sets") * 730 / runs, 1e-9);
    if (!text_is(kind, "colocation"))
        CHECK_NEAR(number(row, "compute_usd", "p90"),
                   widened(usd, number(row, "billed_hours", "p90"), billed,
                           number(row, "price", "log_spread")),
                   1e-9);
    double moved = number(row, "move", "in_usd") + number(row, "move", "out_usd");
    double hours = number(row, "run_hours", "p50") + number(row, "move", "in_hours") +
                   number(row, "move", "out_hours");
    double stored = number(row, "storage", "bytes") / 1e9 *
                    number(row, "storage", "usd_per_gb_month") * hours / 730;
    CHECK_NEAR(number(row, "cost_usd", "p50"), usd + moved + stored, 1e-9);
    CHECK_NEAR(number(row, "elapsed_hours", "p50"),
               number(row, "run_hours", "p50") + number(row, "move", "in_hours") +
                   number(row, "move", "out_hours"),
               1e-9);
}

TEST(hosting_counts_no_gpu_hours_while_a_run_waits_for_a_spot_instance)
{
    struct asked *a =
        ask("{\"model\":\"llama-3.1-70b\",\"tokens\":\"100M\",\"method\":\"qlora\","
            "\"gpu\":\"h100-sxm\",\"gpus\":8,\"stack\":\"hf-peft\",\"search\":false}");
    struct out out = { .arena = &test_arena };
    hosting_write(answer(a), &test_arena, &out);
    struct json tree;
    CHECK(!json_read(&tree, &test_arena, out_view(&out), "hosts"));
    const struct json *rows = json_get(&tree, "rows");
    int waits = 0, others = 0;
    for (size_t i = 0; rows && i < rows->count; i++) {
        const struct json *row = &rows->items[i];
        bool spot = text_is(json_get_text(row, "kind"), "spot");
        double hours = number(row, spot ? "billed_hours" : "run_hours", "p50");
        double gpus = json_get_number(row, "gpus", NAN);
        if (!(gpus > 0))
            continue;
        CHECK_NEAR(number(row, "gpu_hours", "p50"), hours * gpus, 1e-9);
        waits += spot && hours < 0.9 * number(row, "run_hours", "p50");
        others += !spot;
    }
    CHECK(waits > 0 && others > 0);
}

TEST(hosting_rows_follow_from_the_terms_of_their_document)
{
    struct asked *a = ask(usual);
    a->request.managed_price = 0.5;
    a->request.runs_per_month = 20;
    a->request.data_at = "gcp";
    a->request.data_bytes = 1e11;
    struct out out = { .arena = &test_arena };
    hosting_write(answer(a), &test_arena, &out);
    struct json tree;
    CHECK(!json_read(&tree, &test_arena, out_view(&out), "hosts"));
    CHECK(text_is(json_get_text(&tree, "kind"), "hosts"));
    const struct json *rows = json_get(&tree, "rows");
    CHECK(rows && rows->count == a->hosting.count && rows->count > 1000);
    for (size_t i = 0; rows && i < rows->count; i++)
        check_row(&rows->items[i], 20);
}

TEST(hosting_table_fits_a_hundred_columns)
{
    struct asked *a = ask(usual);
    a->request.deadline = 3600;
    a->request.budget = 50;
    a->request.rows = 1000;
    a->request.managed_price = 0.5;
    struct out out = { .arena = &test_arena };
    hosting_text(answer(a), &test_arena, &out);
    struct text rest = out_view(&out), line;
    while (text_next(&rest, '\n', &line)) {
        size_t columns = 0;
        for (size_t i = 0; i < line.size; i++)
            columns += (line.at[i] & 0xC0) != 0x80;
        CHECK(columns <= 100);
    }
}
