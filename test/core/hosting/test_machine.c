// SPDX-License-Identifier: Apache-2.0
#include "test/core/hosting/comparing.h"

#include <string.h>

static struct offers_machine workstation(void)
{
    struct offers_machine m = offers_machine_default();
    m.machine = "8xh100-sxm";
    m.machine_usd = 262800;
    m.machine_years = 5;
    m.machine_use = 0.5;
    m.machine_watts = 8000;
    m.machine_usd_per_kwh = 0.15;
    return m;
}

static enum err add(struct asked *a, const struct offers_machine *machine)
{
    return offers_machine_add(&a->offers, &test_arena, &planning_data()->catalog, machine);
}

TEST(hosting_own_machine_costs_its_wear_and_its_electricity)
{
    struct asked *a = ask(usual);
    struct offers_machine m = workstation();
    CHECK(!add(a, &m));
    a->request.region = "us-east"; // it stands where its owner is
    const struct hosting_row *row = row_of(answer(a), "own", "8x-h100-sxm", OFFERS_OWN);
    // 262,800 over half of 43,800 hours, and 8 kW at 15 cents.
    CHECK_NEAR(row->usd_per_hour, 262800 / (5 * 8760 * 0.5) + 8 * 0.15, 1e-9);
    CHECK_NEAR(row->compute_usd.mid, row->billed_hours.mid * row->usd_per_hour, 1e-9);
    CHECK(row->cost_usd.mid == row->compute_usd.mid); // no traffic, no rent of disks
    CHECK(row->granularity_seconds == 1 && !row->doubt && row->instances == 1);
    const struct hosting_row *aws = row_of(&a->hosting, "aws", "p5.48xlarge", OFFERS_ON_DEMAND);
    CHECK(row->run_hours.mid <= aws->run_hours.mid * 1.1);
}

TEST(hosting_own_machine_is_recommended_where_it_costs_least)
{
    struct asked *a = ask(usual);
    struct offers_machine m = workstation();
    m.machine_usd = NAN; // it is there: electricity alone
    CHECK(!add(a, &m));
    const struct hosting *h = answer(a);
    CHECK(h->recommended && h->recommended->kind == OFFERS_OWN);
    CHECK(strstr(h->reason, "your own machine") != NULL);
    CHECK_NEAR(h->recommended->usd_per_hour, 1.2, 1e-12);
    m = workstation();
    m.machine_usd = 26280000; // of gold
    a = ask(usual);
    CHECK(!add(a, &m));
    h = answer(a);
    CHECK(h->recommended && h->recommended->kind != OFFERS_OWN);
    row_of(h, "own", "8x-h100-sxm", OFFERS_OWN); // but shown
}

TEST(hosting_own_machine_of_a_csv_is_that_of_the_options)
{
    struct asked *a = ask(usual), *b = ask(usual);
    struct offers_machine m = workstation();
    CHECK(!add(a, &m));
    add_own(b, "provider,gpu,gpus,price_kind,machine_usd,machine_years,machine_use,machine_watts,"
               "machine_usd_per_kwh\nown,h100-sxm,8,own,262800,5,50%,8000,0.15\n");
    const struct hosting_row *x = row_of(answer(a), "own", "8x-h100-sxm", OFFERS_OWN);
    const struct hosting_row *y = row_of(answer(b), "own", "8x-h100-sxm", OFFERS_OWN);
    CHECK(x->cost_usd.mid == y->cost_usd.mid && x->run_hours.high == y->run_hours.high);
    CHECK(!y->doubt); // though it has no date
}

TEST(hosting_own_machine_costs_the_same_in_the_plan)
{
    struct catalog catalog = planning_data()->catalog;
    struct offers offers;
    struct offers_machine m = workstation();
    offers_of_catalog(&offers, &test_arena, &catalog);
    CHECK(!offers_machine_add(&offers, &test_arena, &catalog, &m));
    struct offer *rows = ARENA_NEW(&test_arena, struct offer, offers.count);
    for (size_t i = 0; i < offers.count; i++)
        rows[i] = offers.rows[i].offer;
    catalog.offers = rows;
    catalog.offer_count = offers.count;
    const struct gpu *gpu, *other;
    CHECK(!catalog_gpu(&gpu, &catalog, "h100-sxm") && !catalog_gpu(&other, &catalog, "l4"));
    struct price price = price_find(&test_arena, &catalog, gpu, 8);
    CHECK(price.own && price.offers == 1);
    CHECK_NEAR(price.usd_per_gpu_hour[0], (12 + 1.2) / 8, 1e-12);
    price = price_find(&test_arena, &catalog, gpu, 4); // the whole machine is in use
    CHECK_NEAR(price.usd_per_gpu_hour[0], (12 + 1.2) / 4, 1e-12);
    CHECK(!price_find(&test_arena, &catalog, gpu, 16).own); // more than it has
    CHECK(!price_find(&test_arena, &catalog, other, 1).own);
}

TEST(hosting_own_machine_without_numbers_has_those_of_the_catalog)
{
    struct asked *a = ask(usual);
    struct offers_machine m = offers_machine_default();
    m.machine = "2x4090";
    CHECK(!add(a, &m));
    const struct offers_row *row = &a->offers.rows[a->offers.count - 1];
    // 1.6 × 450 W × 2 at 85 %, at the average price of electricity.
    CHECK_NEAR(row->machine.machine_watts, 1.6 * 450 * 2 * 0.85, 1e-9);
    CHECK_NEAR(row->offer.on_demand_usd_per_hour, 1.224 * 0.1437, 1e-9);
}

TEST(hosting_own_machine_is_refused_with_a_sentence)
{
    static const struct {
        const char *machine;
        double usd, years, use, watts;
        const char *says;
    } cases[] = {
        { NULL, 100, NAN, NAN, NAN, "no machine given" },
        { "0x4090", NAN, NAN, NAN, NAN, "from 1 to 1024" },
        { "2xnothing", NAN, NAN, NAN, NAN, "there is no GPU \"nothing\"" },
        { "4090", 2000, NAN, NAN, NAN, "needs machine-use" },
        { "4090", -1, NAN, 0.5, NAN, "machine-usd is -1" },
        { "4090", 1, 0, 0.5, NAN, "machine-years is 0, must be above 0" },
        { "4090", 1, NAN, 0, NAN, "machine-use is 0, must be above 0" },
        { "4090", 1, NAN, 1, 1e9, "machine-watts is 1e+09" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct asked *a = ask(usual);
        struct offers_machine m = offers_machine_default();
        m.machine = cases[i].machine;
        m.machine_usd = cases[i].usd;
        m.machine_years = cases[i].years;
        m.machine_use = cases[i].use;
        m.machine_watts = cases[i].watts;
        CHECK(add(a, &m) == ERR_USAGE && strstr(error_text(), cases[i].says) != NULL);
    }
}

// --- flex-start --------------------------------------------------------------

static const char flex[] =
    "provider,instance,gpu,gpus,region,on_demand_usd_per_hour,price_kind,queue_seconds,"
    "queue_high_seconds\n"
    "gcp,a3-highgpu-8g-flex,h100-sxm,8,us-central1,20,flex,,\n"
    "soon,a3-highgpu-8g-flex,h100-sxm,8,us-central1,21,flex,2h,9h\n";

TEST(hosting_flex_start_needs_a_known_wait)
{
    struct asked *a = ask(usual);
    add_own(a, flex);
    a->request.kind = "flex-start";
    const struct hosting *h = answer(a);
    const struct hosting_row *unknown = row_of(h, "gcp", NULL, OFFERS_FLEX);
    const struct hosting_row *known = row_of(h, "soon", NULL, OFFERS_FLEX);
    CHECK(strstr(unknown->doubt, "when it starts") && !known->doubt);
    CHECK(h->recommended == known && h->count == 2);
    CHECK(known->elapsed_hours.high > known->run_hours.high + 5); // the wait counts
    a->request.queue = "1h,3h,10h";                               // now both are known
    CHECK(!row_of(answer(a), "gcp", NULL, OFFERS_FLEX)->doubt);
    a->request.deadline = 4 * 3600;
    CHECK(row_of(answer(a), "gcp", NULL, OFFERS_FLEX)->chance_in_time < 0.8);
}

TEST(hosting_flex_start_has_the_network_of_its_instance)
{
    struct asked *a = ask(usual);
    add_own(a, flex);
    a->request.gpus = 16;
    a->request.gpu = "h100-sxm";
    a->request.queue = "1h";
    const struct hosting *h = answer(a);
    const struct hosting_row *on_demand = row_of(h, "gcp", "a3-highgpu-8g", OFFERS_ON_DEMAND);
    const struct hosting_row *row = row_of(h, "gcp", "a3-highgpu-8g-flex", OFFERS_FLEX);
    CHECK(row->run_hours.mid == on_demand->run_hours.mid && row->instances == 2);
}

TEST(hosting_flex_start_ends_after_seven_days)
{
    struct asked *a =
        ask("{\"model\":\"llama-3.1-8b\",\"tokens\":\"20B\",\"epochs\":3,"
            "\"gpu\":\"h100-sxm\",\"gpus\":8,\"stack\":\"hf-peft\",\"search\":false}");
    add_own(a, flex);
    a->request.gpus = 8;
    a->request.gpu = "h100-sxm";
    const struct hosting_row *row = row_of(answer(a), "soon", NULL, OFFERS_FLEX);
    CHECK(row->run_hours.high > 168 && strstr(row->doubt, "seven days") != NULL);
}
