// SPDX-License-Identifier: Apache-2.0
// What is recommended and what never is: one test per defect of a recommendation.

#include "test/core/hosting/comparing.h"

#include <stdlib.h>

static const char *const job_70b = "{\"model\":\"llama-3.1-70b\",\"tokens\":\"100M\","
                                   "\"method\":\"qlora\",\"gpu\":\"h100-sxm\",\"gpus\":8,"
                                   "\"stack\":\"hf-peft\",\"search\":false}";
static const char *const job_64 = "{\"model\":\"llama-3.1-70b\",\"tokens\":\"1B\","
                                  "\"method\":\"full\",\"gpu\":\"h100-sxm\",\"gpus\":64,"
                                  "\"stack\":\"torchtune\",\"search\":false}";
static const char *const job_lora = "{\"model\":\"llama-3.1-8b\",\"tokens\":\"50M\","
                                    "\"method\":\"lora\",\"gpu\":\"h100-sxm\",\"gpus\":1,"
                                    "\"stack\":\"hf-peft\",\"search\":false}";

TEST(hosting_never_recommends_an_auctions_floor) // L1
{
    struct asked *a = ask(job_70b);
    const struct hosting *h = answer(a);
    const struct hosting_row *floor = row_of(h, "mithril", "h200.8x", OFFERS_SPOT);
    CHECK(floor->price_kind == OFFER_AUCTION && strstr(floor->doubt, "auction"));
    CHECK(floor->cost_usd.mid < h->recommended->cost_usd.mid); // so it is tempting
    CHECK(strcmp(h->recommended->provider, "mithril"));
    CHECK(strstr(h->reason, "mithril") && strstr(h->reason, "auction"));
}

TEST(hosting_uses_the_network_of_coreweaves_nodes) // L2
{
    struct asked *a = ask(job_64);
    a->request.gpus = 64;
    a->request.gpu = "h100-sxm";
    const struct hosting *h = answer(a);
    const struct hosting_row *c = row_of(h, "coreweave", "HGX H100", OFFERS_ON_DEMAND);
    const struct hosting_row *aws = row_of(h, "aws", "p5.48xlarge", OFFERS_ON_DEMAND);
    CHECK_NEAR(c->group->tokens_per_s, aws->group->tokens_per_s, 0.02);
    CHECK(!c->doubt);
}

TEST(hosting_recommends_several_nodes_only_with_a_known_network) // L3
{
    struct asked *a = ask(job_64);
    a->request.gpus = 64;
    a->request.gpu = "h100-sxm";
    const struct hosting *h = answer(a);
    const struct hosting_row *r = row_of(h, "runpod", "8x_H100-SXM_SECURE", OFFERS_ON_DEMAND);
    CHECK(r->instances == 8 && strstr(r->doubt, "network"));
    CHECK(h->recommended && !h->recommended->doubt && h->recommended->instances == 8);
    a->request.gpus = 0; // without a number of GPUs an unknown network makes no cluster
    h = answer(a);
    for (size_t i = 0; i < h->count; i++)
        CHECK(h->rows[i].instances == 1 || !h->rows[i].doubt ||
              !strstr(h->rows[i].doubt, "network"));
}

// Nodes without an offer, and providers or instances whose network no source states.
static const char *const nodes_without_offer[] = { "aws/p3.16xlarge", "aws/p6e-gb200.36xlarge",
                                                   "aws/trn1.32xlarge", "aws/trn2.48xlarge", NULL };
static const char *const offers_without_node[] = { "aws/g4dn.metal",
                                                   "azure/Standard_ND40rs_v2",
                                                   "gcp/a2-megagpu-16g",
                                                   "gcp/n1-standard-64+",
                                                   "coreweave/A100 80GB x8",
                                                   "coreweave/HGX B",
                                                   "coreweave/HGX H200",
                                                   "coreweave/L40",
                                                   "coreweave/RTX PRO",
                                                   "lambda/gpu_8x_a100",
                                                   "lambda/gpu_8x_b200_sxm6",
                                                   "lambda/gpu_8x_v100",
                                                   "oci/BM.GPU.A100",
                                                   "oci/BM.GPU.B",
                                                   "oci/BM.GPU.H200.8",
                                                   "oci/BM.GPU.MI300X.8",
                                                   "oci/BM.GPU3.8",
                                                   "oci/BM.GPU4.8",
                                                   "mithril/",
                                                   "nebius/",
                                                   "paperspace/",
                                                   "primeintellect/",
                                                   "runpod/",
                                                   "shadeform/",
                                                   "vast/",
                                                   "yotta/",
                                                   NULL };

static bool begins_in(const char *const *list, const char *name, bool whole)
{
    for (size_t i = 0; list[i]; i++)
        if (whole ? !strcmp(name, list[i]) : !strncmp(name, list[i], strlen(list[i])))
            return true;
    return false;
}

TEST(hosting_nodes_of_the_catalog_meet_an_offer_and_the_reverse) // L2
{
    const struct catalog *c = &planning_data()->catalog;
    for (size_t i = 0; i < c->node_count; i++) {
        bool met = !strchr(c->nodes[i].name, '/');
        for (size_t k = 0; !met && k < c->offer_count; k++)
            met = !strcmp(c->nodes[i].name, text_format(&test_arena, "%s/%s", c->offers[k].provider,
                                                        c->offers[k].instance));
        bool listed = begins_in(nodes_without_offer, c->nodes[i].name, true);
        test_check(met != listed, c->nodes[i].name, "node without an offer, or listed", 0);
    }
    for (size_t k = 0; k < c->offer_count; k++) {
        const char *name = text_format(&test_arena, "%s/%.*s", c->offers[k].provider,
                                       TEXT_ARGS(offers_instance(&c->offers[k])));
        bool met = c->offers[k].gpus < 8 || begins_in(offers_without_node, name, false);
        for (size_t i = 0; !met && i < c->node_count; i++)
            met = !strcmp(c->nodes[i].name, name);
        test_check(met, name, "offer of 8 GPUs has a node, or is listed", 0);
    }
}

TEST(hosting_never_recommends_a_median_or_an_unstated_country) // L10, data 2
{
    struct asked *a = ask(job_lora);
    a->request.kind = "on-demand";
    const struct hosting *h = answer(a);
    CHECK(strstr(row_of(h, "vast", "median-L40S", OFFERS_ON_DEMAND)->doubt, "median"));
    CHECK(strstr(row_of(h, "hyperstack", "A6000", OFFERS_ON_DEMAND)->doubt, "country"));
    CHECK(h->recommended && offers_area(h->recommended->region));
}

TEST(hosting_never_recommends_what_is_sold_by_reservation_only) // data 1
{
    struct asked *a = ask(job_70b);
    a->request.provider = "gcp";
    const struct hosting *h = answer(a);
    CHECK(strstr(row_of(h, "gcp", "a4-highgpu-8g", OFFERS_ON_DEMAND)->doubt, "reservation"));
    CHECK(strstr(row_of(h, "gcp", "a3-ultragpu-8g", OFFERS_ON_DEMAND)->doubt, "reservation"));
    CHECK(!row_of(h, "gcp", "a4-highgpu-8g", OFFERS_SPOT)->doubt); // is sold as spot
    size_t rows = 0;
    const struct catalog *c = &planning_data()->catalog;
    for (size_t i = 0; i < c->offer_count; i++)
        rows +=
            c->offers[i].price_kind == OFFER_RESERVATION && c->offers[i].on_demand_usd_per_hour > 0;
    CHECK(rows == 24);
}

TEST(hosting_buys_a_block_of_whole_days_for_the_slow_end_of_the_range)
{
    // About twenty hours at the median: one day would do in most outcomes, not in nine of ten.
    struct asked *a = ask(job_70b);
    a->request.gpu = "h100-sxm";
    a->request.gpus = 8;
    bool two_days_for_one = false;
    for (double scale = 0.5; scale < 12; scale *= 1.3) {
        a->input.processed_scale = scale;
        const struct hosting_row *row =
            row_of(answer(a), "aws", "p5.48xlarge-block", OFFERS_ON_DEMAND);
        double moved = row->move.in_hours + row->move.out_hours;
        double days = ceil((row->run_hours.high + moved) / 24);
        CHECK_NEAR(row->billed_hours.mid, 24 * days, 1e-9);
        CHECK_NEAR(row->compute_usd.mid, 24 * days * 39.33, 1e-9);
        two_days_for_one = two_days_for_one || (days == 2 && row->run_hours.mid + moved < 24);
        CHECK(row->doubt && row->group->node.network_bytes_per_s_per_gpu == 50e9);
    }
    CHECK(two_days_for_one);
}

TEST(hosting_old_prices_are_neither_picked_nor_first) // L11
{
    struct asked *a = ask(job_lora);
    a->request.region = "us-east";
    a->request.kind = "on-demand";
    const struct hosting *h = answer(a);
    CHECK(!h->smallest->doubt && !h->recommended->doubt && !h->cheapest_in_time->doubt);
    bool doubtful = false;
    for (size_t i = 0; i < h->count; i++) {
        CHECK(!doubtful || h->rows[i].doubt); // after the first, only such rows
        doubtful = doubtful || h->rows[i].doubt;
    }
    CHECK(doubtful);
}

TEST(hosting_ocis_rates_have_the_date_of_the_list_that_confirms_them) // data 4
{
    const struct catalog *c = &planning_data()->catalog;
    for (size_t i = 0; i < c->offer_count; i++)
        if (!strcmp(c->offers[i].provider, "oci") && !strcmp(c->offers[i].gpu, "h100-sxm"))
            CHECK(!strcmp(c->offers[i].as_of, "2026-10-10"));
}

TEST(hosting_price_without_a_date_or_of_the_future_is_never_recommended)
{
    struct asked *a = ask(usual);
    a->request.provider = "soon,undated";
    add_own(a, "provider,gpu,gpus,on_demand_usd_per_hour,as_of\n"
               "soon,h100-sxm,8,10,2026-12-24\nundated,h100-sxm,8,10,\n");
    for (size_t i = 0; i < a->offers.count; i++)
        if (!strcmp(a->offers.rows[i].offer.provider, "undated"))
            a->offers.rows[i].offer.as_of = NULL;
    const struct hosting *h = answer(a);
    CHECK(strstr(row_of(h, "soon", NULL, OFFERS_ON_DEMAND)->doubt, "future"));
    CHECK(strstr(row_of(h, "undated", NULL, OFFERS_ON_DEMAND)->doubt, "no date"));
    CHECK(!h->recommended);
    CHECK(strstr(hosting_explain_none(h, &test_arena), "can be recommended"));
    struct out out = { .arena = &test_arena };
    hosting_text(h, &test_arena, &out);
    CHECK(!strstr(out_string(&out), " 0 d") && strstr(out_string(&out), "no date"));
}

TEST(hosting_reserves_only_what_costs_less_than_renting) // L5
{
    struct asked *a = ask(job_70b);
    a->request.runs_per_month = 100;
    const struct hosting *h = answer(a);
    CHECK(!advises(h, "Reserve: ") && advises(h, "Pay by the hour: "));
    for (size_t i = 0; i < h->count; i++) {
        const struct hosting_row *r = &h->rows[i];
        if (r->kind != OFFERS_RESERVED_1Y && r->kind != OFFERS_RESERVED_3Y)
            continue;
        CHECK(r->rent && !r->rent->doubt);
        // With one commitment, above its break-even it costs less a run, below it more.
        if (r->sets == 1 && r->break_even_runs < 100)
            CHECK(r->cost_usd.mid < r->rent->cost_usd.mid);
        if (r->sets == 1 && r->break_even_runs > 100)
            CHECK(r->cost_usd.mid > r->rent->cost_usd.mid);
    }
}

TEST(hosting_bills_the_hours_in_which_data_moves) // L6
{
    struct asked *a = ask("{\"model\":\"llama-3.1-405b\",\"tokens\":\"50M\",\"method\":\"lora\","
                          "\"gpu\":\"h100-sxm\",\"gpus\":32,\"stack\":\"torchtune\","
                          "\"search\":false}");
    a->request.kind = "on-demand";
    const struct hosting_row *r = row_of(answer(a), "aws", "p6-b200.48xlarge", OFFERS_ON_DEMAND);
    // 811.7 GB of weights at 125 MB/s are 1.80 hours of the instance.
    CHECK_NEAR(r->move.in_hours, 1.804, 0.001);
    CHECK(r->billed_hours.mid >= r->run_hours.mid + r->move.in_hours);
}

TEST(hosting_chooses_the_number_of_instances_with_queue_and_data) // L7
{
    struct asked *a =
        ask("{\"model\":\"llama-3.1-70b\",\"tokens\":\"100M\",\"method\":\"qlora\","
            "\"gpu\":\"h100-sxm\",\"gpus\":8,\"stack\":\"hf-peft\",\"packing\":\"on\","
            "\"search\":false}");
    a->request.queue = "10min,1h,6h";
    a->request.kind = "on-demand";
    a->request.deadline = 8 * 3600;
    const struct hosting *h = answer(a);
    // Two nodes of H200 take less than 8 h with the run alone, but not with a queue of up to 6 h.
    CHECK(h->recommended->chance_in_time >= 0.9 && h->recommended->cost_usd.mid < 350);
}

// Of nothing but aws/p5.48xlarge at 20 dollars an hour.
static struct asked *ask_p5(int unit_seconds)
{
    struct asked *a = ask(usual);
    a->offers.count = 0;
    a->request.kind = "on-demand";
    add_own(a, text_format(&test_arena,
                           "provider,instance,gpu,gpus,on_demand_usd_per_hour,granularity_seconds\n"
                           "aws,p5.48xlarge,h100-sxm,8,20,%d\n",
                           unit_seconds));
    return a;
}

static const struct hosting_row *p5_of(struct asked *a)
{
    return row_of(answer(a), "aws", "p5.48xlarge", OFFERS_ON_DEMAND);
}

TEST(hosting_chooses_the_number_of_instances_by_what_is_billed)
{
    double hours[2];
    struct asked *a;
    for (int i = 0; i < 2; i++) {
        a = ask_p5(3600);
        a->request.gpus = 8 * (i + 1);
        const struct hosting_row *row = p5_of(a);
        CHECK_NEAR(row->compute_usd.mid, 20 * (i + 1), 1e-12); // an hour of each
        hours[i] = row->run_hours.mid;
    }
    // The second instance would pay by the second, and does not by the hour.
    double by_second = 20 * (2 * hours[1] - hours[0]) / (hours[0] - hours[1]);
    double by_hour = 20 / (hours[0] - hours[1]);
    a = ask_p5(3600);
    a->request.hour_is_worth = (by_second + by_hour) / 2;
    CHECK(p5_of(a)->instances == 1);
    a = ask_p5(3600);
    a->request.hour_is_worth = 1.3 * by_hour;
    CHECK(p5_of(a)->instances > 1);
}

TEST(hosting_chooses_the_number_of_instances_at_the_discount)
{
    struct asked *a = ask_p5(1);
    a->request.discount = 0.5;
    a->request.hour_is_worth =
        11; // the second instance costs 8 for each hour that it saves, and 16
    CHECK(p5_of(a)->instances == 2); // without the discount
}

static void check_chance_of_spot(double hours)
{
    struct asked *a = ask(job_70b);
    a->request.deadline = hours * 3600;
    a->request.kind = "spot";
    const struct hosting *h = answer(a);
    const struct hosting_row *r = row_of(h, "nebius", NULL, OFFERS_SPOT);
    // A simulation event by event: the rate of preemptions is unknown, waits are exponential, and
    // the first instance is free with the availability that both give.
    struct rng rng = rng_seeded(5);
    double in_time = 0, without = 0, wait = r->preemption.wait_seconds;
    enum { RUNS = 20000 };
    for (int i = 0; i < RUNS; i++) {
        struct hosting_preemption p = r->preemption;
        double wall, run = r->group->wall_seconds[i % HOSTING_SAMPLES];
        p.work_seconds *= run / r->group->middle.wall_seconds;
        p.rate_per_second *= exp(log(0.47 / 0.2) / (2 * STATS_P90) * rng_normal(&rng));
        double billed = hosting_spot_simulate(
            &p, fmax(1, rint(p.work_seconds / r->spot.interval_seconds)), &rng, &wall);
        double waits = rint((wall - billed) / wait);
        wall = billed + (r->move.in_hours + r->move.out_hours) * 3600;
        for (double k = 0; k < waits; k++)
            wall -= wait * log1p(-rng_uniform(&rng));
        without += wall <= a->request.deadline;
        if (rng_uniform(&rng) > hosting_spot_available(&p))
            wall -= wait * log1p(-rng_uniform(&rng));
        in_time += wall <= a->request.deadline;
    }
    CHECK(fabs(r->chance_in_time - in_time / RUNS) < 0.025);
    CHECK(fabs(r->chance_in_time - without / RUNS) > 0.05); // the first wait matters
}

TEST(hosting_prefers_an_offer_whose_p90_keeps_the_budget)
{
    struct asked *a = ask(usual);
    a->request.provider = "older,firm";
    add_own(a, "provider,gpu,gpus,on_demand_usd_per_hour,granularity_seconds,region,as_of\n"
               "older,h100-sxm,8,20,1,us-east-1,2026-06-01\n"
               "firm,h100-sxm,8,20.6,1,us-east-1,2026-11-15\n");
    const struct hosting *h = answer(a);
    CHECK(h->recommended && !strcmp(h->recommended->provider, "older"));
    double sure = row_of(h, "firm", NULL, OFFERS_ON_DEMAND)->cost_usd.high;
    double unsure = row_of(h, "older", NULL, OFFERS_ON_DEMAND)->cost_usd.high;
    CHECK(sure < unsure);
    a->request.budget = (sure + unsure) / 2;
    h = answer(a);
    CHECK(h->recommended && !strcmp(h->recommended->provider, "firm"));
    CHECK(strstr(h->reason, "within the budget") && !strstr(h->reason, "at the median"));
    CHECK(strstr(h->reason, "older") && strstr(h->reason, "over the budget at P90"));
    CHECK(!strcmp(h->rows[0].provider, "firm"));             // and stands first
    a->request.budget = 1.01 * h->recommended->cost_usd.mid; // P90 of neither: the cheaper again
    h = answer(a);
    CHECK(h->recommended && !strcmp(h->recommended->provider, "older"));
}

// Where one instance is in time at the median alone, and of two the cheaper may cost too much.
TEST(hosting_finds_the_number_of_instances_that_keeps_both_limits_at_p90)
{
    struct asked *a = ask(usual);
    a->offers.count = 0;
    a->request.kind = "on-demand";
    add_own(a,
            "provider,instance,gpu,gpus,on_demand_usd_per_hour,granularity_seconds,region,as_of\n"
            "aws,p5.48xlarge,h100-sxm,8,20,1,us-east-1,2026-06-01\n"
            "aws,p5.48xlarge,h100-sxm,8,20.6,1,us-west-2,2026-11-15\n");
    const struct hosting_row *one = row_of(answer(a), "aws", NULL, OFFERS_ON_DEMAND);
    CHECK(one->instances == 1);
    double middle = one->elapsed_hours.mid, late = one->elapsed_hours.high;
    a->request.gpus = 16;
    const struct hosting *h = answer(a);
    CHECK(h->count == 2 && !strcmp(h->rows[0].region, "us-east-1"));
    double unsure = h->rows[0].cost_usd.high, sure = h->rows[1].cost_usd.high;
    double deadline = fmax(middle, h->rows[0].elapsed_hours.high) * 1.01;
    CHECK(sure < unsure && deadline < late);
    a->request.gpus = 0;
    a->request.deadline = deadline * 3600;
    a->request.budget = (sure + unsure) / 2;
    h = answer(a);
    CHECK(h->recommended && h->recommended->instances == 2);
    CHECK(!strcmp(h->recommended->region, "us-west-2") && h->recommended == &h->rows[0]);
    CHECK(h->recommended->surely_in_budget && h->recommended->chance_in_time >= 0.9);
}

// A deadline keeps what a shorter one keeps: at P90, and at the median.
TEST(hosting_of_a_longer_deadline_is_never_dearer_at_the_same_probability)
{
    SKIP_BELOW_SANITIZERS("answers are compared, not how they are made");
    struct asked *a = ask(job_70b);
    double sure_usd = INFINITY, likely_usd = INFINITY;
    int sure = 0, unsure = 0, nothing = 0;
    for (double hours = 0.5; hours < 400; hours *= 1.5) {
        a->request.deadline = hours * 3600;
        const struct hosting *h = answer(a);
        if (!h->recommended) {
            CHECK(likely_usd == INFINITY);
            nothing++;
            continue;
        }
        CHECK(h->cheapest_in_time->cost_usd.mid <= likely_usd * (1 + 1e-9));
        likely_usd = h->cheapest_in_time->cost_usd.mid;
        if (h->recommended->chance_in_time < 0.9) {
            CHECK(sure_usd == INFINITY); // once something is sure, it stays
            unsure++;
            continue;
        }
        CHECK(h->recommended->rank_usd <= sure_usd * (1 + 1e-9));
        sure_usd = h->recommended->rank_usd;
        sure++;
    }
    CHECK(nothing && sure > 5 && unsure);
}

TEST(hosting_names_a_deadline_of_any_length_that_is_kept)
{
    struct asked *a =
        ask("{\"model\":\"llama-3.1-70b\",\"tokens\":\"20B\",\"method\":\"qlora\","
            "\"gpu\":\"h100-sxm\",\"gpus\":1,\"stack\":\"hf-peft\",\"search\":false}");
    a->request.kind = "on-demand";
    a->request.gpus = 1;
    a->request.deadline = 60;
    const char *said = hosting_explain_none(answer(a), &test_arena);
    const char *named = strstr(said, "--deadline ");
    CHECK(named && strlen(named) > 11);
    double hours = named ? atof(named + 11) : NAN;
    CHECK(hours > 1000 && strstr(said, "h or longer"));
    a->request.deadline = hours * 3600;
    CHECK(answer(a)->recommended);
}

TEST(hosting_spot_waits_for_its_first_instance) // L8
{
    const double deadlines[] = { 8, 10, 12 };
    for (size_t i = 0; i < sizeof deadlines / sizeof *deadlines; i++)
        check_chance_of_spot(deadlines[i]);
}

TEST(hosting_server_that_must_be_bought_meets_no_deadline_by_itself) // L9
{
    struct asked *a = ask(job_70b);
    a->request.kind = "colocation";
    a->request.deadline = 48 * 3600;
    a->request.server_price = 275000;
    const struct hosting *h = answer(a);
    CHECK(!h->recommended && h->count && !h->rows[0].in_time && h->rows[0].chance_in_time == 0);
    CHECK(strstr(hosting_explain_none(h, &test_arena), "--server-lead"));
    a->request.server_lead = 24 * 3600;
    h = answer(a);
    CHECK(h->recommended && h->recommended->elapsed_hours.mid > 24);
    a->request.server_lead = 60 * 86400.0;
    CHECK(!answer(a)->recommended);
}

TEST(hosting_fastest_in_budget_needs_a_budget) // L12
{
    struct asked *a = ask(job_lora);
    CHECK(!answer(a)->fastest_in_budget);
    a->request.budget = 20;
    CHECK(answer(a)->fastest_in_budget && a->hosting.fastest_in_budget->cost_usd.mid <= 20);
}

// The same machines at two prices: one run on eight takes as long on either. A third, cheapest of
// all, has a price without a date, and is not picked.
TEST(hosting_fastest_in_budget_is_the_cheaper_of_equally_fast_offers)
{
    struct asked *a = ask(job_70b);
    a->offers.count = 0;
    a->request.budget = 1e6;
    add_own(a, "provider,region,gpu,gpus,on_demand_usd_per_hour,network_bytes_per_s_per_gpu,as_of\n"
               "dear,us-east-1,h100-sxm,8,40,50 GB/s,2026-11-01\n"
               "cheap,us-east-1,h100-sxm,8,20,50 GB/s,2026-11-01\n"
               "old,us-east-1,h100-sxm,8,10,50 GB/s,2020-11-01\n");
    const struct hosting_row *fast = answer(a)->fastest_in_budget;
    CHECK(fast && fast->instances > 1 && !strcmp(fast->provider, "cheap"));
}

TEST(hosting_says_nothing_of_packing_that_changes_nothing) // L13
{
    struct asked *a = ask(job_lora);
    a->request.runs_per_month = 2000;
    const struct hosting *h = answer(a);
    CHECK(!advises(h, "acking") && !advises(h, "e+") && advises(h, "2,000 runs"));
}

TEST(hosting_refuses_a_misspelt_place_of_the_data) // L14
{
    struct asked *a = ask(job_lora);
    a->request.data_at = "aws:us-esat-1";
    CHECK(hosting_make(&a->hosting, &test_arena, &a->input) == ERR_USAGE);
    CHECK(strstr(error_text(), "us-east-1"));
}

TEST(hosting_owns_several_servers_with_their_network) // L15
{
    struct asked *a = ask(job_64);
    a->request.gpus = 64;
    a->request.kind = "colocation";
    a->request.gpu = "h100-sxm";
    const struct hosting_row *r = row_of(answer(a), "own", NULL, OFFERS_COLOCATION);
    CHECK(r->instances == 8 && r->group->node.network_bytes_per_s_per_gpu > 0);
    CHECK_NEAR(r->commitment_usd, 8 * r->ownership.server_usd.mid, 1e-12);
}

TEST(hosting_hour_that_is_worth_something_ends_sooner)
{
    struct asked *a = ask(job_lora);
    double hours = answer(a)->recommended->elapsed_hours.mid;
    a->request.hour_is_worth = 50;
    const struct hosting_row *r = answer(a)->recommended;
    CHECK(r->elapsed_hours.mid < hours / 4);
    CHECK_NEAR(r->rank_usd,
               r->cost_usd.mid + 50 * r->elapsed_hours.mid +
                   r->compute_usd.mid * (exp(r->price_spread * r->price_spread / 2) - 1),
               1e-12);
}

TEST(hosting_own_price_replaces_the_catalogs_of_that_place) // I7
{
    struct asked *a = ask(usual);
    size_t before = a->offers.count;
    add_own(a, "provider,instance,region,gpu,gpus,on_demand_usd_per_hour,as_of\n"
               "aws,p5.48xlarge,us-east-1,h100-sxm,8,9.99,2026-11-14\n");
    CHECK(a->offers.count == before);
    a->request.region = "us-east-1";
    a->request.provider = "aws";
    const struct hosting *h = answer(a);
    const struct hosting_row *r = row_of(h, "aws", "p5.48xlarge", OFFERS_ON_DEMAND);
    CHECK(r->list_usd_per_hour == 9.99 && r->age_days == 1);
    size_t rows = 0;
    for (size_t i = 0; i < h->count; i++)
        rows += !strcmp(h->rows[i].instance, "p5.48xlarge");
    CHECK(rows == 1);
}

TEST(hosting_and_plan_price_several_nodes_by_the_same_offers) // L4
{
    struct asked *a = ask(job_64);
    a->request.gpus = 64;
    a->request.gpu = "h100-sxm";
    a->request.kind = "on-demand";
    const struct hosting *h = answer(a);
    const struct price *price = &a->input.plan->price;
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < h->count; i++) {
        double usd = h->rows[i].usd_per_hour / (double)h->rows[i].instance_gpus;
        least = h->rows[i].doubt ? least : fmin(least, usd);
        most = h->rows[i].doubt ? most : fmax(most, usd);
    }
    CHECK_NEAR(price->usd_per_gpu_hour[0], least, 1e-12);
    CHECK(price->usd_per_gpu_hour[price->offers - 1] <= most);
}

static const char *picks_of(struct asked *a)
{
    struct out out = { .arena = &test_arena };
    hosting_text(answer(a), &test_arena, &out);
    return strstr(out_string(&out), "\nRecommended");
}

TEST(hosting_shows_no_pick_that_says_nothing)
{
    for (int limited = 0; limited < 2; limited++) {
        struct asked *a = ask(usual);
        if (limited)
            a->request.deadline = 4 * 3600;
        const char *picks = picks_of(a);
        const struct hosting *h = &a->hosting;
        const struct hosting_row *best = h->recommended;
        CHECK(picks && best);
        CHECK(!strstr(picks, limited ? "  cheapest in time" : "  cheapest ") ==
              (h->cheapest_in_time == best));
        if (h->smallest && best->gpus <= h->smallest->gpus)
            CHECK(!strstr(picks, "  fewest GPUs")); // the best choice has as few
    }
}
