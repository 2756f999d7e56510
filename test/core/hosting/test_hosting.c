// SPDX-License-Identifier: Apache-2.0
// hosting: the arithmetic by hand, and comparisons of the usual plan with all offers.

#include "test/core/hosting/comparing.h"

// --- the arithmetic, by hand -------------------------------------------------

TEST(hosting_rents_whole_instances)
{
    CHECK(hosting_instances(12, 8) == 2); // 12 GPUs on nodes of 8 are two nodes
    CHECK(hosting_instances(8, 8) == 1);
    CHECK(hosting_instances(9, 8) == 2);
    CHECK(hosting_instances(1, 8) == 1);
}

TEST(hosting_bills_started_units_and_minimum_terms)
{
    CHECK(hosting_billed_seconds(3700, 3600, 0) == 7200); // 1 h 1 min 40 s are two hours
    CHECK(hosting_billed_seconds(3600, 3600, 0) == 3600); // an hour is one
    CHECK(hosting_billed_seconds(3700, 1, 60) == 3700);
    CHECK(hosting_billed_seconds(30, 1, 60) == 60);      // at least a minute
    CHECK(hosting_billed_seconds(100, 1, 3600) == 3600); // bare metal: at least an hour
    CHECK(hosting_billed_seconds(61, 60, 0) == 120);
}

// Work of 10 h, saves of 30 s, restarts of 300 s, 0.3 preemptions an hour, half an hour of waiting.
static const struct hosting_preemption often = {
    .work_seconds = 36000,
    .save_seconds = 30,
    .restart_seconds = 300,
    .rate_per_second = 0.3 / 3600,
    .wait_seconds = 1800,
};

TEST(hosting_spot_time_is_the_closed_form)
{
    // λ = 8.3333e-5/s, ten intervals of 3,600 s + 30 s: λR = 0.025, λs = 0.3025.
    // (e^0.025 − 1 + 10 · e^0.025 · (e^0.3025 − 1)) / λ
    // = (0.025315 + 10 · 1.025315 · 0.353237) / 8.3333e-5 = 43,765 s.
    CHECK_NEAR(hosting_spot_seconds(&often, 10), 43765.373, 1e-6);
    struct hosting_preemption never = often;
    never.rate_per_second = 0;
    CHECK(hosting_spot_seconds(&never, 10) == 300 + 36000 + 10 * 30);
}

TEST(hosting_spot_time_agrees_with_a_simulation_within_one_per_cent)
{
    static const struct hosting_preemption cases[] = {
        { 36000, 30, 300, 0.3 / 3600, 1800, 0 },    // the one above
        { 3600, 0.4, 192, 0.303 / 3600, 13200, 0 }, // an adapter on a node of eight
        { 180000, 120, 900, 0.05 / 3600, 600, 0 },  // a long run on calm instances
        { 7200, 60, 600, 2.0 / 3600, 60, 0 },       // taken away every half hour
        { 36000, 30, 300, 0.3 / 3600, 1800, 1120 }, // the weights of 70B are fetched again
    };
    enum { RUNS = 100000 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hosting_spot best = hosting_spot_best(&cases[i]);
        struct rng rng = rng_seeded(7 + i);
        double billed = 0, wall = 0;
        for (int run = 0; run < RUNS; run++) {
            double one;
            billed += hosting_spot_simulate(&cases[i], best.saves, &rng, &one) / RUNS;
            wall += one / RUNS;
        }
        CHECK_NEAR(billed, best.billed_seconds, 0.01);
        CHECK_NEAR(wall, best.wall_seconds, 0.01);
    }
}

TEST(hosting_spot_fetches_the_weights_again_after_each_preemption)
{
    // As above, but Q = 300 s + 1,200 s: e^0.125 · (1 − e^−0.025 + 10 · 0.353237) / λ.
    struct hosting_preemption fetching = often, never = often;
    fetching.fetch_seconds = 1200;
    CHECK_NEAR(hosting_spot_seconds(&fetching, 10), 43765.373 * exp(0.1), 1e-6);
    never.rate_per_second = 0;
    never.fetch_seconds = 1200; // the first instance has them: they were moved before the run
    CHECK(hosting_spot_seconds(&never, 10) == 300 + 36000 + 10 * 30);
    struct asked *a = ask(usual);
    a->request.link = 125e6;
    const struct hosting_row *row = row_of(answer(a), "aws", "p5.48xlarge", OFFERS_SPOT);
    CHECK_NEAR(row->preemption.fetch_seconds, row->move.model_bytes / 125e6, 1e-12);
    double slow = row->spot.billed_seconds;
    a->request.link = 125e9;
    CHECK(row_of(answer(a), "aws", "p5.48xlarge", OFFERS_SPOT)->spot.billed_seconds < slow);
}

TEST(hosting_saves_as_often_as_young_and_daly_say)
{
    // √(2 · 30 s / (0.3/3600 s)) = 848.5 s; the exact optimum is 43 intervals of 837.2 s.
    struct hosting_spot best = hosting_spot_best(&often);
    CHECK_NEAR(best.young_daly_seconds, 848.528, 1e-5);
    CHECK(best.saves == 43);
    CHECK_NEAR(best.interval_seconds, 837.209, 1e-5);
    CHECK_NEAR(best.billed_seconds, 39953.209, 1e-6);
    for (double saves = 1; saves < 400; saves++)
        CHECK(hosting_spot_seconds(&often, saves) >= best.billed_seconds);
    // 39,953 s · 0.3 / 3,600 s = 3.329 preemptions, each half an hour of waiting: 45,946 s.
    CHECK_NEAR(best.preemptions, 3.32943, 1e-5);
    CHECK_NEAR(best.wall_seconds, 39953.209 + 3.32943 * 1800, 1e-6);
}

TEST(hosting_commitments_are_as_many_as_the_runs_of_a_month_need)
{
    CHECK(hosting_sets(HOSTING_STEADY, 300, 2) == 1); // 600 of 730 hours
    CHECK(hosting_sets(HOSTING_STEADY, 500, 2) == 2); // 1,000 hours
    CHECK(hosting_sets(HOSTING_STEADY, 365, 2) == 1); // 730 hours
    CHECK(hosting_sets(HOSTING_BURST, 5, 2) == 5);    // five at once
    CHECK(hosting_sets(HOSTING_STEADY, 0.1, 1) == 1);
}

// Round figures, so that the month can be added up by hand.
static struct hosting_ownership owned(void)
{
    return (struct hosting_ownership){
        .gpus = 8,
        .server_usd = { 240000, 240000, 240000 },
        .years = { 5, 5, 5 },
        .kilowatts = { 10, 10, 10 },
        .pue = { 1.5, 1.5, 1.5 },
        .usd_per_kwh = { 0.1, 0.1, 0.1 },
        .usd_per_kw_month = { 150, 150, 150 },
        .resale_share = 0.1,
        .operations_per_year = 0.08,
        .network_per_month = 300,
        .staff_per_month = 1000,
        .idle_share = 0.3,
        .draw_share = 0.9,
    };
}

TEST(hosting_ownership_adds_up_by_the_month)
{
    // Write-off 240,000 · 0.9 / 60 = 3,600; operations 240,000 · 0.08 / 12 = 1,600; rack
    // 10 · 150 = 1,500; power at half use 10 · (0.3 + 0.6 · 0.5) · 1.5 = 9 kW, · 730 h · $0.1 =
    // 657; network 300; staff 1,000. Together 8,657.
    struct hosting_ownership o = owned();
    struct hosting_term terms[HOSTING_TERMS];
    struct range month = hosting_ownership_month(&o, 0.5, terms);
    CHECK_NEAR(terms[0].usd_per_month.mid, 3600, 1e-12);
    CHECK_NEAR(terms[2].usd_per_month.mid, 1600, 1e-12);
    CHECK_NEAR(terms[3].usd_per_month.mid, 1500, 1e-12);
    CHECK_NEAR(terms[4].usd_per_month.mid, 657, 1e-12);
    CHECK_NEAR(month.mid, 8657, 1e-12);
    CHECK(month.low == month.mid && month.high == month.mid);
    // Capital at 8 %: on (240,000 + 24,000) / 2 = 132,000 on average, 880 a month.
    o.capital_per_year = 0.08;
    CHECK_NEAR(hosting_ownership_month(&o, 0.5, NULL).mid, 8657 + 880, 1e-12);
}

TEST(hosting_ownership_breaks_even_against_rental)
{
    // Idle a month costs 8,000 + 10 · 0.3 · 1.5 · 73 = 8,328.5; full use adds 657. Renting eight at
    // $2.50 is 14,600 a month: u = 8,328.5 / (14,600 − 657) = 59.73 %.
    struct hosting_ownership o = owned();
    CHECK_NEAR(hosting_ownership_break_even(&o, 2.5), 8328.5 / 13943, 1e-9);
    // At that use a month of owning costs what renting does.
    double share = hosting_ownership_break_even(&o, 2.5);
    CHECK_NEAR(hosting_ownership_month(&o, share, NULL).mid, 14600 * share, 1e-9);
    CHECK(isnan(hosting_ownership_break_even(&o, 1))); // 5,840 a month never pay for it
    // At 90 % use it saves 13,140 of rent and costs 5,319.8 to run: 240,000 / 7,820.2 = 30.7
    // months.
    CHECK_NEAR(hosting_ownership_months(&o, 0.9, 2.5), 240000 / 7820.2, 1e-9);
    CHECK(isinf(hosting_ownership_months(&o, 0.1, 2.5)));
}

TEST(hosting_ownership_of_the_catalog_has_a_range_and_a_confidence)
{
    const struct catalog *catalog = &planning_data()->catalog;
    struct hosting_request request = hosting_request_default();
    struct hosting_ownership o;
    const struct gpu *gpu;
    CHECK(!catalog_gpu(&gpu, catalog, "h100-sxm"));
    CHECK(hosting_ownership_of(&o, catalog, gpu, &request));
    // Four sources: 200,000 to 400,000, 250,000 and 300,000; the middle of the two is 275,000.
    CHECK(o.server_usd.low == 200000 && o.server_usd.mid == 275000 && o.server_usd.high == 400000);
    CHECK(o.kilowatts.mid == 10.2);
    CHECK(!strcmp(o.confidence, "low"));
    struct range month = hosting_ownership_month(&o, 0.7, NULL);
    CHECK(month.low < month.mid && month.mid < month.high);
    CHECK(!catalog_gpu(&gpu, catalog, "t4") && !hosting_ownership_of(&o, catalog, gpu, &request));
}

TEST(hosting_moves_data_for_hours_and_dollars)
{
    // 500 GB at $0.09 leave for $45; with 16 GB of weights over 1 Gb/s they take
    // 516e9 / 125e6 = 4,128 s = 1.1467 h. 2 GB of results come back for $0.18 in 16 s.
    struct hosting_move move = { .dataset_bytes = 500e9,
                                 .model_bytes = 16e9,
                                 .result_bytes = 2e9,
                                 .in_usd_per_gb = 0.09,
                                 .out_usd_per_gb = 0.09,
                                 .link_bytes_per_s = 125e6 };
    hosting_move_cost(&move);
    CHECK_NEAR(move.in_usd, 45, 1e-12);
    CHECK_NEAR(move.in_hours, 4128.0 / 3600, 1e-12);
    CHECK_NEAR(move.out_usd, 0.18, 1e-12);
    CHECK_NEAR(move.out_hours, 16.0 / 3600, 1e-12);
}

TEST(hosting_prices_grow_uncertain_with_age)
{
    CHECK(hosting_price_spread(30) == 0);
    CHECK_NEAR(hosting_price_spread(365), 0.25, 1e-12);
    CHECK_NEAR(hosting_price_spread(4 * 365), 0.5, 1e-12);
}

TEST(hosting_quantiles_are_those_of_sorting)
{
    struct rng rng = rng_seeded(3);
    for (int round = 0; round < 20; round++) {
        double values[2000], sorted[2000];
        for (int i = 0; i < 2000; i++)
            values[i] = sorted[i] = round % 3 == 0   ? (double)rng_below(&rng, 7)
                                    : round % 3 == 1 ? rng_normal(&rng)
                                    : i % 10 || round < 10
                                        ? exp(3 * rng_normal(&rng)) // a few are far out
                                        : INFINITY;
        double first = values[0];
        struct range range = hosting_range(values, 2000, &test_arena);
        struct range right = stats_range(sorted, 2000);
        CHECK(range.low == right.low && range.mid == right.mid && range.high == right.high);
        CHECK(values[0] == first); // rows of the samples stay where they are
    }
}

// --- the comparison ----------------------------------------------------------

TEST(hosting_time_on_the_plans_own_gpus_is_the_plans)
{
    struct asked *a = ask(usual);
    a->request.gpu = "h100-sxm";
    a->request.gpus = 8;
    const struct hosting_row *row = row_of(answer(a), "aws", "p5.48xlarge", OFFERS_ON_DEMAND);
    const struct range *wall = &a->input.plan->forecast.wall_hours;
    CHECK_NEAR(row->run_hours.low, wall->low, 0.03);
    CHECK_NEAR(row->run_hours.mid, wall->mid, 0.03);
    CHECK_NEAR(row->run_hours.high, wall->high, 0.03);
}

TEST(hosting_of_a_card_without_a_known_node_has_the_links_of_the_plan)
{
    const struct catalog *catalog = &planning_data()->catalog;
    struct offers offers;
    int checked = 0;
    offers_of_catalog(&offers, &test_arena, catalog);
    for (size_t i = 0; i < offers.count; i++) {
        const struct gpu *gpu;
        bool networked;
        if (catalog_gpu(&gpu, catalog, offers.rows[i].offer.gpu) || catalog_node_of(catalog, gpu) ||
            catalog_offer_node(catalog, &offers.rows[i].offer))
            continue;
        struct node node = hosting_node(catalog, gpu, &offers.rows[i], &networked);
        struct links theirs = network_links(gpu, &node), ours = network_links(gpu, NULL);
        test_check(theirs.node_bytes_per_s == ours.node_bytes_per_s &&
                       theirs.pair_bytes_per_s == ours.pair_bytes_per_s,
                   "the same links", offers.rows[i].offer.instance, 0);
        checked++;
    }
    CHECK(checked > 20);
}

TEST(hosting_of_instances_in_a_rack_has_its_link_between_them)
{
    static const struct {
        const char *gpu;
        int64_t gpus, linked;
    } cases[] = {
        { "gb200", 4, 72 }, { "gb200", 2, 2 }, { "h100-sxm", 8, 8 }, { "h100-sxm", 4, 4 }
    };
    const struct catalog *catalog = &planning_data()->catalog;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct offers_row row = { .offer = { .provider = "somebody",
                                             .instance = "an instance",
                                             .gpu = cases[i].gpu,
                                             .gpus = cases[i].gpus } };
        const struct gpu *gpu;
        bool networked;
        CHECK(!catalog_gpu(&gpu, catalog, cases[i].gpu));
        struct node node = hosting_node(catalog, gpu, &row, &networked);
        CHECK(node.gpus == cases[i].gpus && node.link_domain_gpus == cases[i].linked);
    }
}

TEST(hosting_bills_two_nodes_for_twelve_gpus)
{
    struct asked *a = ask(usual);
    a->request.gpus = 12;
    a->request.gpu = "h100-sxm";
    const struct hosting_row *row = row_of(answer(a), "aws", "p5.48xlarge", OFFERS_ON_DEMAND);
    CHECK(row->instances == 2 && row->gpus == 12);
    CHECK_NEAR(row->compute_usd.mid, 2 * row->usd_per_hour * row->billed_hours.mid, 1e-9);
}

TEST(hosting_estimates_the_job_on_each_gpu)
{
    struct asked *a = ask(usual);
    const struct hosting *h = answer(a);
    double a100 = row_of(h, "aws", "p4d.24xlarge", OFFERS_ON_DEMAND)->run_hours.mid;
    double h100 = row_of(h, "aws", "p5.48xlarge", OFFERS_ON_DEMAND)->run_hours.mid;
    double b200 = row_of(h, "aws", "p6-b200.48xlarge", OFFERS_ON_DEMAND)->run_hours.mid;
    CHECK(a100 > h100 && h100 > b200);
    CHECK(h->count > 800 && h->evaluated > 600);
}

TEST(hosting_feeds_network_and_storage_of_an_offer_into_the_estimate)
{
    struct asked *a = ask("{\"model\":\"llama-3.1-8b\",\"tokens\":\"21.4M\",\"gpu\":\"h100-sxm\","
                          "\"gpus\":16,\"method\":\"full\",\"search\":false}");
    a->request.gpus = 16;
    a->request.provider = "fast,slow,idle";
    add_own(a, "provider,gpu,gpus,on_demand_usd_per_hour,network_bytes_per_s_per_gpu,"
               "storage_bytes_per_s\n"
               "fast,h100-sxm,8,20,50 GB/s,5 GB/s\n"
               "slow,h100-sxm,8,20,0.5 GB/s,5 GB/s\n"
               "idle,h100-sxm,8,20,50 GB/s,0.05 GB/s\n");
    const struct hosting *h = answer(a);
    const struct hosting_row *fast = row_of(h, "fast", NULL, OFFERS_ON_DEMAND);
    const struct hosting_row *slow = row_of(h, "slow", NULL, OFFERS_ON_DEMAND);
    const struct hosting_row *idle = row_of(h, "idle", NULL, OFFERS_ON_DEMAND);
    CHECK(slow->group->network_share > 2 * fast->group->network_share);
    CHECK(slow->run_hours.mid > fast->run_hours.mid);
    CHECK(!strcmp(slow->limit, "interconnect"));
    // 16 GB of weights at 0.05 GB/s take over five minutes to load.
    CHECK(idle->group->middle.seconds[OVERHEAD_LOADING] > 300);
    CHECK(!strcmp(idle->limit, "storage"));
}

static double assumed(const struct hosting *h, const char *name)
{
    for (size_t i = 0; i < h->assumption_count; i++)
        if (!strcmp(h->assumptions[i].name, name))
            return h->assumptions[i].value.mid;
    return NAN;
}

TEST(hosting_reports_the_assumptions_that_it_computes_with)
{
    struct asked *a = ask(usual);
    a->request.data_at = "aws:us-east-1";
    a->request.gpus = 8; // two instances
    add_own(a, "provider,region,gpu,gpus,on_demand_usd_per_hour\naws,here-1,h100-sxm,4,9\n");
    const struct hosting *h = answer(a);
    const struct hosting_row *row = NULL;
    for (size_t i = 0; i < h->count; i++)
        if (h->rows[i].instance_gpus == 4 && !strcmp(h->rows[i].region, "here-1"))
            row = &h->rows[i];
    CHECK(row);
    if (!row)
        return;
    CHECK(row->move.link_bytes_per_s == assumed(h, "link that moves data"));
    CHECK(row->move.dataset_bytes == assumed(h, "size of the data"));
    CHECK(row->move.in_usd_per_gb == assumed(h, "traffic between regions of a cloud"));
    CHECK(row->group->node.network_bytes_per_s_per_gpu * 4 ==
          assumed(h, "network of an instance that is part of a node"));
}

TEST(hosting_leaves_out_hosts_with_too_little_memory)
{
    struct asked *a = ask(usual);
    a->request.provider = "thin,thick";
    add_own(a, "provider,gpu,gpus,on_demand_usd_per_hour,host_memory_bytes\n"
               "thin,h100-sxm,8,20,4 GiB\nthick,h100-sxm,8,20,1 TiB\n");
    const struct hosting *h = answer(a);
    CHECK(h->count > 0);
    for (size_t i = 0; i < h->count; i++)
        CHECK(!strcmp(h->rows[i].provider, "thick"));
    CHECK(h->left_out[HOSTING_NO_HOST_MEMORY] == 1);
}

TEST(hosting_range_of_an_old_price_is_that_of_sampling_it)
{
    struct asked *a = ask(usual);
    a->request.provider = "old";
    a->request.link = 1e15; // nothing to wait for
    add_own(a, "provider,gpu,gpus,on_demand_usd_per_hour,granularity_seconds,as_of\n"
               "old,h100-sxm,8,20,1,2024-11-15\n");
    const struct hosting_row *row = row_of(answer(a), "old", NULL, OFFERS_ON_DEMAND);
    CHECK(row->stale && row->age_days == 730);
    CHECK_NEAR(row->price_spread, 0.25 * sqrt(2), 1e-9);
    struct rng rng = rng_seeded(11);
    double *usd = ARENA_NEW(&test_arena, double, HOSTING_SAMPLES);
    for (size_t i = 0; i < HOSTING_SAMPLES; i++)
        usd[i] =
            row->group->wall_seconds[i] / 3600 * 20 * exp(row->price_spread * rng_normal(&rng));
    struct range sampled = hosting_range(usd, HOSTING_SAMPLES, &test_arena);
    CHECK_NEAR(row->compute_usd.low, sampled.low, 0.05);
    CHECK_NEAR(row->compute_usd.mid, sampled.mid, 0.05); // hours are skewed
    CHECK_NEAR(row->compute_usd.high, sampled.high, 0.05);
    CHECK(!a->hosting.recommended && strstr(row->doubt, "730 days old"));
}

TEST(hosting_spot_rows_show_the_bad_tail_and_their_expectation)
{
    struct asked *a = ask(usual);
    const struct hosting *h = answer(a);
    const struct hosting_row *spot = row_of(h, "aws", "p5.48xlarge", OFFERS_SPOT);
    const struct hosting_row *firm = row_of(h, "aws", "p5.48xlarge", OFFERS_ON_DEMAND);
    CHECK(spot->run_hours.high / spot->run_hours.mid > firm->run_hours.high / firm->run_hours.mid);
    double hours = spot->spot.billed_seconds / 3600 + spot->move.in_hours + spot->move.out_hours;
    CHECK_NEAR(spot->expected_usd,
               hosting_billed_seconds(hours * 3600, 1, 60) / 3600 * spot->usd_per_hour *
                   (double)spot->instances,
               1e-12);
    CHECK(spot->expected_usd < spot->on_demand_usd);
}

TEST(hosting_expects_whole_units_of_billing_of_spot_and_of_on_demand)
{
    struct asked *a = ask(usual);
    a->request.provider = "hourly";
    add_own(a, "provider,gpu,gpus,on_demand_usd_per_hour,spot_usd_per_hour,preemptions_per_hour,"
               "granularity_seconds\nhourly,h100-sxm,8,20,18,0.1,3600\n");
    const struct hosting *h = answer(a);
    const struct hosting_row *spot = row_of(h, "hourly", NULL, OFFERS_SPOT);
    const struct hosting_row *firm = row_of(h, "hourly", NULL, OFFERS_ON_DEMAND);
    CHECK(spot->spot.billed_seconds < 3600 && firm->run_hours.mid < 1);
    CHECK_NEAR(spot->expected_usd, 18, 1e-12); // an hour that was begun is billed
    CHECK_NEAR(spot->on_demand_usd, 20, 1e-12);
    CHECK_NEAR(firm->compute_usd.mid, 20, 1e-12);
}

TEST(hosting_says_when_on_demand_is_cheaper_than_spot_in_expectation)
{
    struct asked *a = ask(usual);
    a->request.provider = "flaky";
    add_own(a, "provider,gpu,gpus,on_demand_usd_per_hour,spot_usd_per_hour,preemptions_per_hour,"
               "granularity_seconds\nflaky,h100-sxm,8,20,18,6,1\n");
    const struct hosting *h = answer(a);
    const struct hosting_row *spot = row_of(h, "flaky", NULL, OFFERS_SPOT);
    CHECK(spot->expected_usd > spot->on_demand_usd);
    CHECK(advises(h, "on demand is cheaper on average"));
}

TEST(hosting_commitments_cost_their_share_of_the_month)
{
    struct asked *a = ask(usual);
    a->request.provider = "firm";
    a->request.runs_per_month = 10;
    add_own(a, "provider,gpu,gpus,on_demand_usd_per_hour,reserved_1y_usd_per_hour,"
               "granularity_seconds\nfirm,h100-sxm,8,20,12,1\n");
    const struct hosting_row *row = row_of(answer(a), "firm", NULL, OFFERS_RESERVED_1Y);
    // Ten runs share 730 h · $12 = $8,760; a year binds 8,760 h · $12 = $105,120.
    CHECK_NEAR(row->compute_usd.mid, 876, 1e-9);
    CHECK_NEAR(row->commitment_usd, 105120, 1e-9);
    CHECK_NEAR(row->break_even, 0.6, 1e-3); // seconds begun are billed
    CHECK(advises(&a->hosting, "Pay by the hour"));
    a->request.runs_per_month = 730 / row->run_hours.mid * 0.8; // and some time to move the data
    CHECK(advises(answer(a), "Reserve: "));
}

TEST(hosting_burst_needs_its_gpus_at_once)
{
    struct asked *a = ask(usual);
    a->request.provider = "firm";
    a->request.runs_per_month = 10;
    a->request.pattern = HOSTING_BURST;
    add_own(a, "provider,gpu,gpus,on_demand_usd_per_hour,reserved_1y_usd_per_hour\n"
               "firm,h100-sxm,8,20,12\n");
    const struct hosting_row *row = row_of(answer(a), "firm", NULL, OFFERS_RESERVED_1Y);
    CHECK(row->sets == 10);
    CHECK_NEAR(row->compute_usd.mid, 8760, 1e-9); // each run pays a month of its own GPUs
}

TEST(hosting_says_when_the_data_move_costs_more_than_the_compute)
{
    struct asked *a = ask(usual);
    a->request.data_at = "aws";
    a->request.data_bytes = 1e13; // ten terabytes at $0.09 are $900
    a->request.provider = "lambda";
    const struct hosting *h = answer(a);
    CHECK_NEAR(h->recommended->move.in_usd, 900, 1e-9);
    CHECK(advises(h, "Moving the data costs more than the compute"));
    a->request.provider = "aws";
    a->request.data_at = "aws:us-east-1";
    a->request.region = "us-east-1";
    h = answer(a);
    CHECK(h->recommended->move.in_usd == 0 && !advises(h, "Moving the data"));
}

TEST(hosting_downloads_weights_without_the_optimizer_states)
{
    // Full training of 8.03 B weights: 2 bytes each are downloaded, however large a checkpoint is.
    struct asked *a = ask("{\"model\":\"llama-3.1-8b\",\"tokens\":\"21.4M\",\"gpu\":\"h100-sxm\","
                          "\"gpus\":8,\"method\":\"full\",\"search\":false}");
    a->request.provider = "aws";
    const struct hosting_row *row = row_of(answer(a), "aws", "p5.48xlarge", OFFERS_ON_DEMAND);
    CHECK_NEAR(row->move.result_bytes, 2 * 8030261248.0, 0.001);
    CHECK(row->group->overheads.save_bytes > 2 * row->move.result_bytes);
}

TEST(hosting_compares_managed_services_by_the_token)
{
    struct asked *a = ask("{\"model\":\"llama-3.1-8b\",\"examples\":10000,\"mean_length\":500,"
                          "\"context\":2048,\"epochs\":3,\"gpu\":\"h100-sxm\",\"gpus\":8,"
                          "\"search\":false}");
    a->request.managed_price = 0.48;
    // 10,000 · 500 · 3 = 15 M tokens: $7.20.
    CHECK_NEAR(row_of(answer(a), "managed", NULL, OFFERS_MANAGED)->cost_usd.mid, 7.2, 1e-6);
    // Billed as rows × maximum length, 10,000 · 2,048 · 3 = 61.44 M: $29.49.
    a->request.managed_billing = HOSTING_BY_MAXIMUM_LENGTH;
    CHECK_NEAR(row_of(answer(a), "managed", NULL, OFFERS_MANAGED)->cost_usd.mid, 29.4912, 1e-6);
}

TEST(hosting_counts_the_queue_against_the_deadline)
{
    struct asked *a = ask(usual);
    a->request.provider = "today,tomorrow";
    a->request.deadline = 12 * 3600;
    add_own(a, "provider,gpu,gpus,on_demand_usd_per_hour,queue_low_seconds,queue_seconds,"
               "queue_high_seconds\n"
               "today,h100-sxm,8,30,,,\ntomorrow,h100-sxm,8,10,12h,24h,36h\n");
    const struct hosting *h = answer(a);
    const struct hosting_row *late = row_of(h, "tomorrow", NULL, OFFERS_ON_DEMAND);
    CHECK(!late->in_time && late->chance_in_time < 0.1 && !strcmp(late->limit, "queue"));
    CHECK(late->elapsed_hours.mid > 24 && late->elapsed_hours.high > 36);
    CHECK(!strcmp(h->recommended->provider, "today")); // dearer, and in time
    a->request.deadline = NAN;
    CHECK(!strcmp(answer(a)->recommended->provider, "tomorrow"));
}

TEST(hosting_filters_by_region_provider_kind_and_tag)
{
    struct asked *a = ask(usual);
    a->request.region = "us-east";
    a->request.provider = "aws,azure";
    a->request.kind = "spot";
    const struct hosting *h = answer(a);
    CHECK(h->count > 0);
    for (size_t i = 0; i < h->count; i++) {
        const struct hosting_row *r = &h->rows[i];
        CHECK(r->kind == OFFERS_SPOT && !strcmp(offers_area(r->region), "us-east"));
        CHECK(!strcmp(r->provider, "aws") || !strcmp(r->provider, "azure"));
    }
    a->request = hosting_request_default();
    a->request.today = "2026-11-15";
    a->request.compliance = "hipaa";
    add_own(a, "provider,gpu,gpus,on_demand_usd_per_hour,compliance\n"
               "safe,h100-sxm,8,30,soc2|hipaa\nopen,h100-sxm,8,10,soc2\n");
    h = answer(a);
    CHECK(row_of(h, "safe", NULL, OFFERS_ON_DEMAND));
    for (size_t i = 0; i < h->count; i++)
        CHECK(strcmp(h->rows[i].provider, "open"));
}

TEST(hosting_discounts_list_prices_and_adds_ones_own)
{
    struct asked *a = ask(usual);
    a->request.discount = 0.2;
    a->request.price = "2.49/gpu-h";
    const struct hosting *h = answer(a);
    const struct hosting_row *list = row_of(h, "aws", "p5.48xlarge", OFFERS_ON_DEMAND);
    CHECK_NEAR(list->usd_per_hour, 0.8 * list->list_usd_per_hour, 1e-12);
    const struct hosting_row *own = row_of(h, "yours", NULL, OFFERS_ON_DEMAND);
    CHECK_NEAR(own->list_usd_per_hour, 8 * 2.49, 1e-12);
}

TEST(hosting_recommends_within_deadline_and_budget)
{
    struct asked *a = ask(usual);
    a->request.deadline = 2 * 3600;
    a->request.budget = 100;
    const struct hosting *h = answer(a);
    const struct hosting_row *r = h->recommended;
    CHECK(r && r->chance_in_time >= 0.9 && r->cost_usd.mid <= 100 && !r->stale);
    CHECK(h->fastest_in_budget->elapsed_hours.mid <= r->elapsed_hours.mid);
    CHECK(h->cheapest_in_time->cost_usd.mid <= r->cost_usd.mid);
    CHECK(h->smallest->gpus <= r->gpus);
    CHECK(advises(h, "price 10 % higher"));
    size_t front = 0;
    for (size_t i = 0; i < h->count; i++)
        front += h->rows[i].pareto;
    CHECK(front >= 2 && front < h->count);
}

TEST(hosting_pick_with_the_fewest_gpus_is_never_spot)
{
    struct asked *a = ask(usual);
    const struct hosting *h = answer(a);
    CHECK(h->recommended->kind == OFFERS_SPOT); // the cheapest offer is one, so it is tempting
    CHECK(h->smallest && h->smallest->kind != OFFERS_SPOT && hosting_has_room(h->smallest));
    a->request.kind = "spot";
    CHECK(!answer(a)->smallest);
}

TEST(hosting_mentions_packing_only_where_it_saves)
{
    struct asked *a = ask(usual); // every row fills the context: nothing to save
    CHECK(!advises(answer(a), "acking"));
    a = ask("{\"model\":\"llama-3.1-8b\",\"examples\":100000,\"mean_length\":300,"
            "\"context\":2048,\"gpu\":\"h100-sxm\",\"gpus\":8,\"search\":false,"
            "\"batching\":\"max\"}");
    CHECK(advises(answer(a), "Packing would process"));
}

TEST(hosting_counts_runs_in_whole_numbers)
{
    CHECK(!strcmp(hosting_spell_runs(2000, &test_arena), "2,000"));
    CHECK(!strcmp(hosting_spell_runs(20, &test_arena), "20"));
    CHECK(!strcmp(hosting_spell_runs(0.5, &test_arena), "0.5"));
}

TEST(hosting_returns_errors_of_the_search)
{
    struct asked *a = ask(usual);
    struct plan *plan = ARENA_NEW(&test_arena, struct plan, 1);
    struct plan_request request = *a->input.plan->request;
    *plan = *a->input.plan;
    plan->request = &request;
    a->input.plan = plan;
    request.parallel = "sideways"; // no layout at all: an error, not "does not fit"
    CHECK(hosting_make(&a->hosting, &test_arena, &a->input) == ERR_USAGE);
    CHECK(strstr(error_text(), "sideways"));
    request.parallel = "tp3"; // a layout that eight GPUs cannot have: no offer fits
    a->request.gpus = 8;
    CHECK(!hosting_make(&a->hosting, &test_arena, &a->input) && !a->hosting.count);
}

TEST(hosting_without_a_result_names_the_option_to_relax)
{
    struct asked *a = ask(usual);
    a->request.provider = "lambda";
    a->request.kind = "spot";
    const char *said = hosting_explain_none(answer(a), &test_arena);
    CHECK(!a->hosting.count && strstr(said, "--kind") && strstr(said, "--provider"));
    a->request = hosting_request_default();
    a->request.today = "2026-11-15";
    a->request.deadline = 60;
    said = hosting_explain_none(answer(a), &test_arena);
    CHECK(!a->hosting.recommended && strstr(said, "--deadline") && strstr(said, "does"));
    a->request.deadline = NAN;
    a->request.budget = 0.01;
    said = hosting_explain_none(answer(a), &test_arena);
    CHECK(!a->hosting.recommended && strstr(said, "--budget"));
    a->request.deadline = 60; // neither can be kept: relaxing one of them does not help
    said = hosting_explain_none(answer(a), &test_arena);
    CHECK(!a->hosting.recommended && !strstr(said, "does") && strstr(said, "the cheapest"));
}

TEST(hosting_refuses_words_that_name_nothing)
{
    static const struct {
        const char *provider, *region, *kind, *price, *queue, *gpu, *data_at, *said;
    } cases[] = {
        { .provider = "awz", .said = "aws" },         { .region = "us-esat", .said = "us-east" },
        { .kind = "sopt", .said = "spot" },           { .price = "-2", .said = "above 0" },
        { .price = "2/month", .said = "2.49/gpu-h" }, { .queue = "3h,1h", .said = "rising" },
        { .gpu = "h1000", .said = "h100" },           { .data_at = "lamda:us", .said = "lambda" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct asked *a = ask(usual);
        a->request.provider = cases[i].provider;
        a->request.region = cases[i].region;
        a->request.kind = cases[i].kind;
        a->request.price = cases[i].price;
        a->request.queue = cases[i].queue;
        a->request.gpu = cases[i].gpu;
        a->request.data_at = cases[i].data_at;
        CHECK(hosting_make(&a->hosting, &test_arena, &a->input) == ERR_USAGE);
        CHECK(strstr(error_text(), cases[i].said));
    }
}

TEST(hosting_trusts_a_measurement_only_on_the_gpu_it_was_made_on)
{
    struct asked *a = ask("{\"model\":\"llama-3.1-8b\",\"tokens\":\"5B\",\"gpu\":\"h100-sxm\","
                          "\"gpus\":8,\"stack\":\"hf-peft\",\"packing\":\"on\","
                          "\"search\":false}");
    a->request.provider = "aws";
    a->request.kind = "on-demand";
    struct plan plan = *a->input.plan; // as a pilot would leave it
    plan.efficiency.log_spread = 0.02;
    a->input.plan = &plan;
    const struct hosting *h = answer(a);
    struct range same = row_of(h, "aws", "p5.48xlarge", OFFERS_ON_DEMAND)->run_hours;
    struct range other = row_of(h, "aws", "p4d.24xlarge", OFFERS_ON_DEMAND)->run_hours;
    CHECK(log(other.high / other.low) > 2 * log(same.high / same.low));
}
