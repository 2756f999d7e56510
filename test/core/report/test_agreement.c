// SPDX-License-Identifier: Apache-2.0
// One configuration has one number: random requests, the same ones at every run, through the plan,
// its alternatives, its memory, its document, the offers and the report. test/web does the same
// between the program and the page.
#include "core/report/report.h"
#include "test/core/hosting/comparing.h"
#include "test/core/random_request.h"

// The request that asks for exactly that configuration.
static struct plan_request explicitly(const struct plan *plan, const struct search_result *r)
{
    struct plan_request request = *plan->request;
    request.gpu = r->gpu->name;
    request.gpus = r->gpus;
    request.parallel = layout_spell(&r->layout, &test_arena);
    request.micro_batch = text_format(&test_arena, "%.0f", r->workload.micro_batch);
    request.global_batch = (int64_t)r->workload.global_batch;
    request.recipe.method = r->recipe.method;
    request.recipe.checkpointing = r->recipe.checkpointing;
    request.recipe.precision = r->recipe.precision;
    request.stack = r->stack->name;
    request.search = false;
    return request;
}

static bool near(double a, double b, double relative)
{
    return (isnan(a) && isnan(b)) || fabs(a - b) <= relative * fabs(b);
}

static void check_result(const struct plan *plan, const struct search_result *r, const char *json)
{
    struct plan_request request = explicitly(plan, r);
    struct plan again;
    bool packs = r->workload.batching != plan->chosen.workload.batching;
    if (packs || request.nodes != PLAN_NOT_GIVEN)
        return; // packed rows are another workload
    enum err err = plan_make(&again, &test_arena, planning_data(), &request);
    test_check(!err, err ? error_text() : "", json, 0);
    if (err)
        return;
    const char *of =
        text_format(&test_arena, "%s: %s: %.6g and %.6g GPU hours", json,
                    plan_spell(r, &test_arena), r->gpu_hours, again.forecast.gpu_hours.mid);
    test_check(near(again.forecast.gpu_hours.mid, r->gpu_hours, 1e-12), "the same GPU hours", of,
               0);
    test_check(near(again.forecast.cost_usd.mid, r->cost_usd, 1e-12), "the same cost", of, 0);
    test_check(again.estimate.memory.total_bytes == r->memory.total_bytes, "the same bytes", of, 0);
}

static void check_memory(const struct plan *plan, const char *json)
{
    struct plan_request request = explicitly(plan, &plan->chosen);
    struct fit fit;
    enum err err = fit_make(&fit, &test_arena, planning_data(), &request);
    test_check(!err, err ? error_text() : "", json, 0);
    test_check(!err && fit.memory.total_bytes == plan->estimate.memory.total_bytes &&
                   fit.memory.fits == plan->fits,
               "memory and plan agree", json, 0);
}

static struct text document_of(const struct plan *plan)
{
    struct out out = { .arena = &test_arena };
    plan_write(plan, &test_arena, &out);
    return out_view(&out);
}

// What the document says is what the report shows, and what a plan that starts from it forecasts.
static void check_document(const struct plan *plan, const char *json)
{
    struct text document = document_of(plan);
    struct report_input input = { 0 };
    struct out out = { .arena = &test_arena, .columns = 100 };
    CHECK(!report_add(&input, &test_arena, document, "plan.json"));
    report_markdown(&out, &test_arena, &input);
    const char *text = out_string(&out);
    const struct range *hours = &plan->forecast.gpu_hours;
    test_check(strstr(text, text_hours(&test_arena, hours->mid)) &&
                   strstr(text, text_hours(&test_arena, hours->low)) &&
                   strstr(text, text_hours(&test_arena, hours->high)),
               "the report shows the plan's hours", json, 0);
    struct plan_request request;
    struct plan again;
    CHECK(!plan_request_former(&request, &test_arena, document, "plan.json"));
    request.search = false;
    CHECK(!plan_make(&again, &test_arena, planning_data(), &request));
    test_check(near(again.forecast.gpu_hours.mid, hours->mid, 1e-12),
               "a plan from the document has its hours", json, 0);
}

// The same settings on GPUs with the same links.
static bool is_same(const struct hosting_group *group, const struct search_result *r)
{
    const struct search_result *own = &group->result;
    struct links theirs = network_links(group->gpu, &group->node),
                 ours = network_links(r->gpu, r->node.gpus > 0 ? &r->node : NULL);
    bool links = r->gpus == 1 || (theirs.node_bytes_per_s == ours.node_bytes_per_s &&
                                  (double)r->gpus <= fmin(theirs.node_gpus, ours.node_gpus));
    return group->fits && group->gpus == r->gpus && links &&
           own->workload.micro_batch == r->workload.micro_batch &&
           own->recipe.checkpointing == r->recipe.checkpointing &&
           own->layout.zero == r->layout.zero && own->layout.data == r->layout.data;
}

// The plan's own GPUs among the offers: hosts samples for itself, so that medians differ a little.
static int check_hosts(const struct plan *plan, const char *json)
{
    struct asked *a = ask(json);
    int checked = 0;
    a->request.gpu = plan->chosen.gpu->name;
    a->request.gpus = plan->chosen.gpus;
    if (hosting_make(&a->hosting, &test_arena, &a->input))
        return 0; // nobody offers them
    for (size_t i = 0; i < a->hosting.count && checked < 4; i++) {
        const struct hosting_row *row = &a->hosting.rows[i];
        const struct hosting_group *group = row->group;
        if (!group || row->kind != OFFERS_ON_DEMAND || !is_same(group, &plan->chosen))
            continue;
        checked++;
        const char *of = text_format(&test_arena, "%s: %.4g and %.4g hours", json,
                                     row->run_hours.mid, plan->forecast.wall_hours.mid);
        test_check(near(row->run_hours.mid, plan->forecast.wall_hours.mid, 0.04),
                   "hosts and plan agree", of, 0);
        test_check(group->result.memory.total_bytes == plan->estimate.memory.total_bytes,
                   "hosts and plan need the same bytes", of, 0);
    }
    return checked;
}

TEST(random_requests_have_one_number_in_plan_memory_document_hosts_and_report)
{
    enum { REQUESTS = 100 / TEST_CASES_OF };
    struct rng rng = rng_seeded(14);
    int planned = 0, rows = 0, offers = 0;
    for (int i = 0; i < REQUESTS; i++) {
        struct arena_mark mark = arena_mark(&test_arena);
        bool search = i % 8 == 0;
        const char *json = random_request(&rng, false, search);
        struct plan *plan = ARENA_NEW(&test_arena, struct plan, 1);
        if (!planning_try(plan, json)) {
            planned++;
            check_memory(plan, json);
            if (i % 2)
                check_document(plan, json);
            else if (plan->fits)
                check_result(plan, &plan->chosen, json);
            for (size_t k = 0; k < plan->alternative_count; k++, rows++)
                check_result(plan, &plan->alternatives[k].result, json);
            if (i % 4 == 1 && plan->fits)
                offers += check_hosts(plan, json);
        }
        arena_rewind(&test_arena, mark);
    }
    CHECK(planned > 0.9 * REQUESTS && rows > 50 / TEST_CASES_OF && offers > 5 / TEST_CASES_OF);
}
