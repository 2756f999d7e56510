// SPDX-License-Identifier: Apache-2.0
// What stands beside the price of machines: attestations, storage, services, the sheet, the chart.

#include "core/report/report.h"
#include "test/core/hosting/comparing.h"

static bool has_provider(const struct hosting *h, const char *provider)
{
    for (size_t i = 0; i < h->count; i++)
        if (!strcmp(h->rows[i].provider, provider))
            return true;
    return false;
}

TEST(hosting_shows_services_of_the_catalog_but_recommends_none)
{
    struct asked *a = ask("{\"model\":\"llama-3.1-8b\",\"tokens\":\"10M\",\"epochs\":2,"
                          "\"method\":\"lora\",\"gpu\":\"h100-sxm\",\"gpus\":1,\"search\":false}");
    struct managed *services = NULL;
    CHECK(!hosting_read_managed(&services, &a->input.managed_count, &test_arena,
                                embedded_file("managed.csv"), "managed.csv"));
    a->input.managed = services;
    const struct hosting *h = answer(a);
    const struct hosting_row *row = row_of(h, "fireworks", "up to 16B", OFFERS_MANAGED);
    CHECK_NEAR(row->cost_usd.mid, 20 * 0.5, 1e-12); // LoRA, two epochs
    CHECK_NEAR(row_of(h, "crusoe", NULL, OFFERS_MANAGED)->cost_usd.mid, 20 * 0.4, 1e-12);
    CHECK(row->doubt && h->recommended && h->recommended->kind != OFFERS_MANAGED);
    CHECK(!has_provider(h, "tinker")); // for another model
    a->request.deadline = 3600;
    CHECK(!row_of(answer(a), "fireworks", NULL, OFFERS_MANAGED)->in_time);
    a->request.deadline = NAN;
    a->request.provider = "fireworks";
    h = answer(a);
    CHECK(h->count == 1 && !h->recommended);
}

TEST(hosting_prices_services_only_for_the_objective_that_they_sell)
{
    static const char *const objectives[] = { "dpo", "grpo" };
    for (int i = 0; i < 2; i++) {
        struct asked *a = ask(text_format(
            &test_arena,
            "{\"model\":\"llama-3.1-8b\",\"method\":\"lora\",\"gpu\":\"h100-sxm\",\"gpus\":1,"
            "\"search\":false,\"objective\":\"%s\",%s}",
            objectives[i],
            i ? "\"steps\":10,\"response_length\":\"100,200,400\"" : "\"tokens\":\"10M\""));
        struct managed *services = NULL;
        CHECK(!hosting_read_managed(&services, &a->input.managed_count, &test_arena,
                                    embedded_file("managed.csv"), "managed.csv"));
        a->input.managed = services;
        const struct hosting *h = answer(a);
        CHECK(!has_provider(h, "together") && has_provider(h, "fireworks") == !i);
        if (!i)
            CHECK_NEAR(row_of(h, "fireworks", NULL, OFFERS_MANAGED)->cost_usd.mid, 10, 1e-9);
    }
}

TEST(hosting_compares_only_providers_that_state_what_is_asked)
{
    struct asked *a = ask(usual);
    a->request.compliance = "soc2,hipaa";
    const struct hosting *h = answer(a);
    CHECK(h->count > 0 && advises(h, "state nothing: ") && advises(h, "yotta"));
    for (size_t i = 0; i < h->count; i++) {
        const struct billing *terms = offers_terms(a->input.billing, a->input.billing_count,
                                                   h->rows[i].provider, h->rows[i].instance);
        CHECK(offers_tagged(terms->attested, TEXT("soc2")));
        CHECK(offers_tagged(terms->attested, TEXT("hipaa")));
    }
    a->request.compliance = "fedramp";
    h = answer(a);
    CHECK(h->count && !has_provider(h, "oci") && !has_provider(h, "lambda"));
    a->request.compliance = "hippa";
    CHECK(hosting_make(&a->hosting, &test_arena, &a->input) == ERR_USAGE);
    CHECK(strstr(error_text(), "did you mean hipaa?") != NULL);
}

TEST(hosting_stores_data_and_checkpoints_for_the_time_of_the_job)
{
    struct asked *a = ask(usual);
    a->request.data_bytes = 1e12;
    a->request.kind = "on-demand";
    const struct hosting *h = answer(a);
    const struct hosting_row *row = row_of(h, "coreweave", NULL, OFFERS_ON_DEMAND);
    double hours = row->run_hours.mid + row->move.in_hours + row->move.out_hours;
    double gb = 1000 + 2 * row->group->overheads.save_bytes / 1e9;
    CHECK_NEAR(row->storage.usd.mid, gb * 0.07 * hours / 730, 1e-9);
    CHECK_NEAR(row->cost_usd.mid,
               row->compute_usd.mid + row->move.in_usd + row->move.out_usd + row->storage.usd.mid,
               1e-12);
    // Data that is there already is paid for whether the job runs or not.
    a->request.data_at = "aws:us-east-1";
    h = answer(a);
    for (size_t i = 0; i < h->count; i++)
        if (!strcmp(h->rows[i].provider, "aws") && !strcmp(h->rows[i].region, "us-east-1"))
            CHECK(h->rows[i].storage.bytes < 1e12);
    a->request = hosting_request_default();
    a->request.today = "2026-11-15";
    a->request.kind = "colocation";
    h = answer(a);
    CHECK(h->count && h->rows[0].storage.usd.mid == 0);
}

static double cell(const struct csv *csv, size_t row, const char *column)
{
    double value;
    int at = csv_column(csv, column);
    test_check(at >= 0, column, "is a column", 0);
    return text_read_number(&value, csv_cell(csv, row, at)) ? NAN : value;
}

TEST(hosting_terms_of_a_sheet_add_up_in_every_line)
{
    static const char *const terms[] = { "rent_usd",        "write_off_usd", "capital_usd",
                                         "operations_usd",  "rack_usd",      "electricity_usd",
                                         "network_usd",     "staff_usd",     "data_in_usd",
                                         "results_out_usd", "storage_usd" };
    struct asked *a = ask(usual);
    a->request.runs_per_month = 20;
    a->request.staff_per_month = 1000;
    a->request.data_at = "gcp";
    a->request.managed_price = 0.5;
    add_own(a, "provider,instance,gpu,gpus,on_demand_usd_per_hour,note\n"
               "=2+2,\"@SUM(A1:A9)\",h100-sxm,8,30,-1\n");
    add_own(a, "provider,gpu,gpus,price_kind,machine_usd,machine_use\n"
               "lab,h100-sxm,8,own,250000,0.4\n");
    struct out out = { .arena = &test_arena };
    hosting_sheet(answer(a), &out);
    struct csv csv;
    CHECK(!csv_read(&csv, &test_arena, out_view(&out), "sheet.csv", ','));
    CHECK(csv.rows == a->hosting.count);
    bool owned = false, defused = false, own = false;
    for (size_t i = 0; i < csv.rows; i++) {
        double sum = 0;
        for (size_t k = 0; k < sizeof terms / sizeof *terms; k++)
            sum += cell(&csv, i, terms[k]);
        CHECK_NEAR(sum, cell(&csv, i, "total_usd"), 1e-6);
        bool worn = cell(&csv, i, "write_off_usd") > 0;
        owned = owned || (worn && cell(&csv, i, "rack_usd") > 0);
        own = own || (worn && cell(&csv, i, "rack_usd") == 0);
        for (int c = 0; c < 4; c++) {
            struct text text = csv_cell(&csv, i, c);
            CHECK(!text.size || !strchr("=@+-", text.at[0]));
            defused = defused || (text.size > 1 && text.at[0] == '\'' && text.at[1] == '=');
        }
    }
    CHECK(owned && own && defused);
}

static bool begins(struct text text, const char *with)
{
    size_t size = strlen(with);
    return text.size >= size && !memcmp(text.at, with, size);
}

// The chart of a report with these words in its title.
static const struct json *chart_of(struct asked *a, const char *title)
{
    struct out document = { .arena = &test_arena }, out = { .arena = &test_arena };
    struct report_input *input = ARENA_NEW(&test_arena, struct report_input, 1);
    struct json *tree = ARENA_NEW(&test_arena, struct json, 1);
    hosting_write(answer(a), &test_arena, &document);
    CHECK(!report_add(input, &test_arena, out_view(&document), "hosts.json"));
    report_json(&out, &test_arena, input);
    CHECK(!json_read(tree, &test_arena, out_view(&out), "report"));
    const struct json *sections = json_get(tree, "sections");
    for (size_t i = 0; sections && i < sections->count; i++) {
        const struct json *charts = json_get(&sections->items[i], "charts");
        for (size_t k = 0; charts && k < charts->count; k++)
            if (begins(json_get_text(&charts->items[k], "title"), title))
                return &charts->items[k];
    }
    return NULL;
}

TEST(hosting_chart_of_runs_a_month_agrees_with_the_comparison)
{
    struct asked *a = ask(usual);
    a->request.runs_per_month = 1;
    a->request.server_price = 250000;
    const struct json *chart = chart_of(a, "Cost of a run by the runs of a month");
    const struct json *series = chart ? json_get(chart, "series") : NULL;
    CHECK(series && series->count == 5);
    for (size_t i = 0; series && i < series->count; i++) {
        const struct json *points = json_get(&series->items[i], "points");
        const struct hosting_row *best = NULL;
        for (size_t k = 0; k < a->hosting.count; k++) {
            const struct hosting_row *row = &a->hosting.rows[k];
            if (begins(json_get_text(&series->items[i], "name"), offers_kind_names[row->kind]) &&
                (!best || (best->doubt && !row->doubt)))
                best = row;
        }
        CHECK(best && points->count > 10);
        CHECK_NEAR(json_get_number(&points->items[0], "x", NAN), 1, 1e-12);
        CHECK_NEAR(json_get_number(&points->items[0], "y", NAN), best->cost_usd.mid, 1e-6);
    }
}

// The same price of the same GPUs: what differs between plan and hosts is data and storage, which
// only hosts knows, and the samples of the range, not the median run.
TEST(hosting_and_plan_agree_to_the_cent_on_the_same_offer)
{
    static const char *const models[] = { "llama-3.2-1b", "llama-3.1-8b", "qwen3-8b",
                                          "qwen2.5-14b" };
    static const char *const methods[] = { "lora", "qlora", "full" };
    static const char *const gpus[] = { "h100-sxm", "a100-sxm-80gb", "h200-sxm" };
    struct rng rng = rng_seeded(16);
    size_t compared = 0;
    for (int i = 0; i < 24; i++) {
        int64_t count = rng_below(&rng, 2) ? 8 : 4;
        const char *gpu = gpus[rng_below(&rng, 3)];
        double price = 1 + (double)rng_below(&rng, 500) / 100;
        struct asked *a = ask(text_format(
            &test_arena,
            "{\"model\":\"%s\",\"tokens\":%llu,\"epochs\":%llu,\"method\":\"%s\",\"gpu\":\"%s\","
            "\"gpus\":%lld,\"price\":%.2f,\"search\":false}",
            models[rng_below(&rng, 4)], 1000000 * (1 + (unsigned long long)rng_below(&rng, 200)),
            1 + (unsigned long long)rng_below(&rng, 3), methods[rng_below(&rng, 3)], gpu,
            (long long)count, price));
        const struct plan *plan = a->input.plan;
        a->request.price = text_format(&test_arena, "%.2f/gpu-h", price);
        a->request.provider = "yours";
        a->request.gpu = gpu;
        a->request.gpus = count;
        const struct hosting *h = answer(a);
        if (!h->count) // does not fit
            continue;
        const struct hosting_row *row = &h->rows[0];
        double planned = plan->forecast.middle.wall_seconds / 3600 * (double)count * price;
        double hosted =
            row->group->middle.wall_seconds / 3600 * (double)row->instances * row->usd_per_hour;
        CHECK(fabs(planned - hosted) < 0.005);
        CHECK_NEAR(row->run_hours.mid, plan->forecast.wall_hours.mid, 0.03);
        compared++;
    }
    CHECK(compared > 15);
}
