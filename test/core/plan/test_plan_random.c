// SPDX-License-Identifier: Apache-2.0
// What must hold between plans of random requests, whatever the numbers are: more tokens never take
// fewer hours, a larger card never stops fitting, and so on. RANDOM_COUNT requests from
// RANDOM_SEED; `make check-random` runs as many as asked.
//
// Hours are compared at the configuration that the first plan chose, asked for by its names; what
// the search does with more memory is in test_requests.c.

#include "base/rng.h"
#include "test/core/planning.h"

#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 30 / TEST_CASES_OF };
enum { SEED = 20261116, MOST_PRINTED = 5 };

static int violations;

// A claim about one request; the request that broke it is printed, as the program reads it.
static void claim(bool holds, const char *what, const struct plan_request *request, double before,
                  double after)
{
    if (holds)
        return;
    struct out out = { .arena = &test_arena };
    struct json_writer w = { .out = &out, .compact = true };
    plan_request_write(request, &test_arena, NULL, &w);
    if (++violations <= MOST_PRINTED)
        printf("%s: %.17g, then %.17g: %s\n", what, before, after, out_string(&out));
}

static const char *one_of(struct rng *rng, const char *const *list)
{
    size_t count = 0;
    while (list[count])
        count++;
    return list[rng_below(rng, count)];
}

static double between(struct rng *rng, double low, double high) // evenly over the logarithm
{
    return low * pow(high / low, rng_uniform(rng));
}

static struct plan_request random_request(struct rng *rng, const struct catalog *catalog)
{
    static const char *const stacks[] = { "hf",        "hf-peft",      "unsloth", "axolotl",
                                          "torchtune", "nemo",         "native",  "fms-fsdp",
                                          "litgpt",    "hf-deepspeed", NULL };
    struct plan_request r = plan_request_default();
    r.search = false;
    r.model = catalog->models[rng_below(rng, catalog->model_count)].name;
    r.gpu = catalog->gpus[rng_below(rng, catalog->gpu_count)].name;
    r.gpus = (int64_t)1 << rng_below(rng, 6);
    r.stack = one_of(rng, stacks);
    r.tokens = (int64_t)between(rng, 1e5, 1e11);
    r.context = (int64_t)64 << rng_below(rng, 9);
    r.epochs = rng_below(rng, 3) ? 1 + (double)rng_below(rng, 4) : between(rng, 0.1, 3);
    r.recipe.method = (int)rng_below(rng, 3);
    r.recipe.rank = (int64_t)4 << rng_below(rng, 6);
    r.batching = (int)rng_below(rng, 2);
    r.seed = (int64_t)rng_below(rng, 1000);
    if (rng_below(rng, 2))
        r.mean_length = between(rng, 16, (double)r.context);
    if (rng_below(rng, 2))
        r.price = between(rng, 0.1, 20);
    if (rng_below(rng, 3) == 0)
        r.retries = (double)rng_below(rng, 3);
    return r;
}

static const struct plan *make(const struct plan_data *data, const struct plan_request *request)
{
    struct plan *plan = ARENA_NEW(&test_arena, struct plan, 1);
    return plan_make(plan, &test_arena, data, request) ? NULL : plan;
}

static bool is_range(const struct range *range)
{
    return isfinite(range->mid) && 0 < range->low && range->low <= range->mid &&
           range->mid <= range->high;
}

static void ranges_are_in_order(const struct plan *plan)
{
    const struct forecast *f = &plan->forecast;
    const struct plan_request *r = plan->request;
    claim(is_range(&f->tokens_per_s), "speed in order", r, f->tokens_per_s.low,
          f->tokens_per_s.high);
    claim(is_range(&f->wall_hours), "hours in order", r, f->wall_hours.low, f->wall_hours.high);
    claim(is_range(&f->gpu_hours), "GPU hours in order", r, f->gpu_hours.low, f->gpu_hours.high);
    claim(isnan(f->cost_usd.mid) || is_range(&f->cost_usd), "cost in order", r, f->cost_usd.low,
          f->cost_usd.high);
}

static struct text document(const struct plan *plan)
{
    struct out out = { .arena = &test_arena };
    plan_write(plan, &test_arena, &out);
    return out_view(&out);
}

// The request with everything named that the plan chose by itself.
static struct plan_request named(const struct plan *plan)
{
    struct plan_request r = *plan->request;
    const struct search_result *c = &plan->chosen;
    r.gpus = c->gpus;
    r.parallel = layout_spell(&c->layout, &test_arena);
    r.micro_batch = text_format(&test_arena, "%.0f", c->workload.micro_batch);
    r.global_batch = (int64_t)c->workload.global_batch;
    r.recipe.checkpointing = c->recipe.checkpointing;
    return r;
}

// No quantile of the hours is lower than before.
static void never_fewer_hours(const struct plan *before, const struct plan *after, const char *what)
{
    if (!after)
        return;
    const struct range *a = &before->forecast.wall_hours, *b = &after->forecast.wall_hours;
    const double slack = 1 - 1e-12; // of rounding
    claim(b->low >= a->low * slack, what, after->request, a->low, b->low);
    claim(b->mid >= a->mid * slack, what, after->request, a->mid, b->mid);
    claim(b->high >= a->high * slack, what, after->request, a->high, b->high);
}

static void more_work_takes_longer(const struct plan_data *data, const struct plan *plan,
                                   struct rng *rng)
{
    struct plan_request more = *plan->request;
    more.tokens = (int64_t)((double)more.tokens * between(rng, 1, 10)) + 1;
    never_fewer_hours(plan, make(data, &more), "more tokens");
    more = *plan->request;
    more.epochs *= between(rng, 1, 4);
    never_fewer_hours(plan, make(data, &more), "more epochs");
    more = *plan->request;
    more.retries = (isnan(more.retries) ? 0 : more.retries) + 1;
    never_fewer_hours(plan, make(data, &more), "more retries");
    more = *plan->request;
    more.startup = 3600;
    struct plan_request less = *plan->request;
    less.startup = 36;
    const struct plan *quick = make(data, &less);
    if (quick)
        never_fewer_hours(quick, make(data, &more), "a longer start");
}

static void price_changes_cost_alone(const struct plan_data *data, const struct plan *plan)
{
    struct plan_request one = *plan->request, two = one;
    one.price = 1.25;
    two.price = 2.5;
    const struct plan *cheap = make(data, &one), *dear = make(data, &two);
    if (!cheap || !dear)
        return claim(false, "a price is refused", &one, 1.25, 2.5);
    const struct forecast *a = &cheap->forecast, *b = &dear->forecast;
    claim(a->wall_hours.mid == b->wall_hours.mid, "a price changes hours", &two, a->wall_hours.mid,
          b->wall_hours.mid);
    claim(fabs(b->cost_usd.mid - 2 * a->cost_usd.mid) <= 1e-9 * b->cost_usd.mid,
          "twice the price is twice the cost", &two, a->cost_usd.mid, b->cost_usd.mid);
    claim(b->cost_usd.high >= a->cost_usd.high, "a higher price costs less", &two, a->cost_usd.high,
          b->cost_usd.high);
}

// The same card with more memory, in a catalog of one test.
static void larger_card_still_fits(const struct plan_data *data, const struct plan *free_plan,
                                   const struct plan *plan, struct rng *rng)
{
    struct plan_data larger = *data;
    const struct gpu *gpu = plan->chosen.gpu;
    size_t row = (size_t)(gpu - data->catalog.gpus);
    if (row >= data->catalog.gpu_count)
        return;
    larger.catalog.gpus = ARENA_NEW(&test_arena, struct gpu, data->catalog.gpu_count);
    memcpy(larger.catalog.gpus, data->catalog.gpus, data->catalog.gpu_count * sizeof *gpu);
    larger.catalog.gpus[row].memory_bytes *= between(rng, 1, 3);
    const struct plan *again = make(&larger, plan->request);
    claim(again && (!plan->fits || again->fits), "a larger card stops fitting", plan->request,
          plan->fits, again && again->fits);
    if (!again)
        return;
    // Our engine runs long rows by kernels that have room: with more of it it may be faster.
    double before = plan->forecast.gpu_hours.mid, after = again->forecast.gpu_hours.mid;
    bool adapts = !strcmp(plan->stack->name, "native");
    claim(adapts ? after <= before : after == before,
          "memory alone changes the hours of a configuration", plan->request, before, after);
    again = make(&larger, free_plan->request);
    claim(again && (!free_plan->fits || again->fits), "a larger card stops fitting by itself",
          free_plan->request, free_plan->fits, again && again->fits);
}

static void longer_rows_need_memory(const struct plan_data *data, const struct plan *plan)
{
    struct plan_request longer = *plan->request;
    longer.context *= 2;
    longer.mean_length = isnan(longer.mean_length) ? NAN : longer.mean_length * 2;
    const struct plan *again = make(data, &longer);
    if (!again)
        return;
    // Not the total: attention's workspace, which is beside it, shrinks a little where fewer heads
    // are done at a time.
    double now = again->chosen.memory.allocated_bytes, before = plan->chosen.memory.allocated_bytes;
    claim(now >= before * (1 - 1e-12), "a longer context needs less memory", &longer, before, now);
}

// The document read back makes the same plan: plan --plan, and hosts start from it.
static void document_makes_the_same_plan(const struct plan_data *data, const struct plan *plan)
{
    struct plan_request *former = ARENA_NEW(&test_arena, struct plan_request, 1);
    if (plan_request_former(former, &test_arena, document(plan), "plan"))
        return claim(false, "its own document is refused", plan->request, 0, 0);
    const struct plan *again = make(data, former);
    double hours = again ? again->forecast.gpu_hours.mid : NAN;
    claim(fabs(hours - plan->forecast.gpu_hours.mid) <= 1e-9 * hours,
          "the plan of its document has other hours", plan->request, plan->forecast.gpu_hours.mid,
          hours);
}

// False: no plan is made of this request, as of fp8 on a card without it.
static bool check_one(const struct plan_data *data, struct rng *rng)
{
    struct plan_request request = random_request(rng, &data->catalog);
    const struct plan *plan = make(data, &request), *again = make(data, &request);
    if (!plan)
        return false;
    ranges_are_in_order(plan);
    claim(again && text_equal(document(plan), document(again)), "the same request, other bytes",
          &request, 0, 0);
    document_makes_the_same_plan(data, plan);
    struct plan_request by_name = named(plan);
    const struct plan *fixed = make(data, &by_name);
    claim(fixed, "what was chosen is refused by its names", &by_name, 0, 0);
    if (!fixed)
        return true;
    // Unless a level is named, our engine keeps more in some layers, or less where the card is so
    // full that it leaves it no room.
    const struct memory *memory = &plan->estimate.memory;
    bool fills = memory->filled.total_bytes > 0;
    bool less = fills && memory->filled.level > plan->chosen.recipe.checkpointing;
    double hours = plan->forecast.gpu_hours.mid, named_hours = fixed->forecast.gpu_hours.mid;
    claim(less || (fills ? named_hours >= hours * (1 - 1e-9) : named_hours == hours),
          "what was chosen, by its names, takes other hours", &by_name, hours, named_hours);
    more_work_takes_longer(data, fixed, rng);
    price_changes_cost_alone(data, fixed);
    larger_card_still_fits(data, plan, fixed, rng);
    longer_rows_need_memory(data, fixed);
    return true;
}

TEST(plans_of_random_requests_agree_with_each_other)
{
    const char *count = getenv("RANDOM_COUNT"), *seed = getenv("RANDOM_SEED");
    long wanted = count ? strtol(count, NULL, 10) : COUNT, made = 0;
    unsigned long long from = seed ? strtoull(seed, NULL, 10) : SEED;
    violations = 0;
    for (long i = 0; i < wanted; i++) {
        struct rng rng = rng_seeded(from + (unsigned long long)i);
        made += check_one(planning_data(), &rng);
        arena_release(&test_arena);
    }
    if (count || seed)
        printf("%ld random requests from seed %llu, %ld made a plan: %d violations\n", wanted, from,
               made, violations);
    CHECK(made * 2 > wanted); // else hardly anything was tested
    CHECK(violations == 0);
}
