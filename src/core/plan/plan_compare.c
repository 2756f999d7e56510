#include "core/plan/plan_internal.h"

#include <math.h>
#include <string.h>

static bool is_spread_alike(const struct layout *a, const struct layout *b)
{
    return a->data == b->data && a->tensor == b->tensor && a->pipeline == b->pipeline &&
           a->context == b->context && a->expert == b->expert && a->zero == b->zero &&
           a->offload_optimizer == b->offload_optimizer && a->split == b->split;
}

static bool is_same(const struct search_result *a, const struct search_result *b)
{
    return a->gpu == b->gpu && a->gpus == b->gpus && a->recipe.method == b->recipe.method &&
           a->workload.batching == b->workload.batching &&
           a->workload.micro_batch == b->workload.micro_batch &&
           a->recipe.checkpointing == b->recipe.checkpointing &&
           is_spread_alike(&a->layout, &b->layout);
}

static void suggest(struct plan *plan, const char *why, const struct search_result *result)
{
    if (!result || plan->alternative_count >= PLAN_ALTERNATIVES)
        return;
    for (size_t i = 0; i < plan->alternative_count; i++)
        if (is_same(&plan->alternatives[i].result, result))
            return;
    if (plan->fits && is_same(result, &plan->chosen))
        return;
    plan->alternatives[plan->alternative_count++] = (struct plan_alternative){ why, *result };
}

// The stable result with the least of what value() gives; unstable ones do not count.
static const struct search_result *least(const struct search *search,
                                         double (*value)(const struct search_result *))
{
    const struct search_result *best = NULL;
    for (size_t i = 0; i < search->count; i++) {
        const struct search_result *r = &search->best[i];
        if (r->stable && !isnan(value(r)) && (!best || value(r) < value(best)))
            best = r;
    }
    return best;
}

static double cost(const struct search_result *r)
{
    return r->cost_usd;
}

static double wall(const struct search_result *r)
{
    return r->wall_hours;
}

static double hours(const struct search_result *r)
{
    return r->gpu_hours;
}

// The same GPU in each count: how far more of them help.
static void scale(struct plan *plan)
{
    for (int64_t gpus = 1; gpus <= 64; gpus *= 2)
        for (size_t i = 0; i < plan->search.count; i++) {
            const struct search_result *r = &plan->search.best[i];
            if (r->gpu == plan->chosen.gpu && r->gpus == gpus && plan->scaling_count < PLAN_SCALING)
                plan->scaling[plan->scaling_count++] = *r;
        }
}

// The same data, packed.
static enum err pack(struct workload_rule *rule, const struct plan *plan, struct arena *arena)
{
    rule->batching = BATCHING_PACKED;
    rule->shapes = NULL;
    return plan->request->lengths
               ? workload_measure(rule, arena, plan->request->lengths, plan->stack->trainer,
                                  (uint64_t)plan->request->seed)
               : OK;
}

// The same GPUs with one thing changed.
static enum err vary(struct plan *plan, struct arena *arena, const struct search_space *asked)
{
    struct search_space space = *asked;
    space.gpu = plan->chosen.gpu;
    space.gpus = plan->chosen.gpus;
    space.micro_batch = 0;
    space.global_batch = plan->chosen.workload.global_batch;
    space.recipe.checkpointing = RECIPE_AUTO;
    space.parallel = NULL;
    struct search search;
    TRY(search_run(&search, arena, &space));
    double middle = plan->forecast.middle.wall_seconds / 3600 * (double)plan->chosen.gpus;
    if (!plan->fits || (search.count && search.best[0].gpu_hours < 0.97 * middle))
        suggest(plan, plan->fits ? "better settings" : "settings that fit",
                search.count ? &search.best[0] : NULL);
    if (space.rule.batching != BATCHING_PACKED && !space.rule.full_rows) {
        TRY(pack(&space.rule, plan, arena));
        TRY(search_run(&search, arena, &space));
        suggest(plan, "packed", search.count ? &search.best[0] : NULL);
        space.rule = asked->rule;
    }
    for (int method = RECIPE_FULL; method <= RECIPE_QLORA; method++) {
        if (method == asked->recipe.method)
            continue;
        space.recipe.method = method;
        if (recipe_check(&space.recipe, space.model))
            continue;
        TRY(search_run(&search, arena, &space));
        suggest(plan, recipe_methods[method], search.count ? &search.best[0] : NULL);
    }
    return OK;
}

// The search compares middles; what is shown is the median of the same draws as the plan's own.
static enum err settle(struct plan *plan, struct arena *arena, struct search_result *result)
{
    struct arena_mark mark = arena_mark(arena);
    struct setup setup = search_setup(result, plan->model, plan->stack);
    struct estimate estimate;
    TRY(estimate_make(&estimate, arena, &setup));
    struct forecast_input input = plan_input(plan, arena, result, &setup, &estimate);
    input.price = plan_price(plan, arena, result);
    forecast_medians(&result->wall_hours, &result->cost_usd, arena, &input);
    result->gpu_hours = result->wall_hours * (double)result->gpus;
    arena_rewind(arena, mark);
    return OK;
}

enum err plan_compare(struct plan *plan, struct arena *arena, const struct search_space *asked)
{
    const struct plan_request *request = plan->request;
    if (!request->search)
        return OK;
    if (!plan->search.count) {
        struct search_space space = *asked;
        space.gpu = NULL;
        space.gpus = space.node_gpus = 0;
        space.micro_batch = 0;
        space.global_batch = plan->chosen.workload.global_batch;
        space.recipe.checkpointing = RECIPE_AUTO;
        space.parallel = NULL;
        TRY(search_run(&plan->search, arena, &space));
    }
    scale(plan);
    if (!isnan(request->deadline) || !isnan(request->budget))
        suggest(plan, "smallest in time",
                search_smallest(&plan->search, request->deadline / 3600, request->budget));
    suggest(plan, "cheapest", least(&plan->search, cost));
    suggest(plan, "fastest", least(&plan->search, wall));
    suggest(plan, "fewest GPU hours", least(&plan->search, hours));
    for (size_t i = 0; i < plan->scaling_count; i++) {
        const struct search_result *r = &plan->scaling[i];
        if (r->gpus * 2 == plan->chosen.gpus)
            suggest(plan, "fewer GPUs", r);
        if (r->gpus == plan->chosen.gpus * 2)
            suggest(plan, "more GPUs", r);
    }
    TRY(vary(plan, arena, asked));
    for (size_t i = 0; i < plan->alternative_count; i++)
        TRY(settle(plan, arena, &plan->alternatives[i].result));
    for (size_t i = 0; i < plan->scaling_count; i++)
        TRY(settle(plan, arena, &plan->scaling[i]));
    return OK;
}
