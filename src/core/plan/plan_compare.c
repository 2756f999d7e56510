// SPDX-License-Identifier: Apache-2.0
// Alternatives to a plan and its scaling over GPU counts.
//
// A row is like for like: the same data, epochs, context and rows per optimizer step; another
// method on the stack that it would be planned on. A global batch that was given is kept exactly;
// one that was chosen may move by as much as the GPUs force it to. Within that a row takes the best
// settings for its GPUs, and plan_change.c lists what they are.

#include "core/plan/plan_internal.h"

#include <math.h>
#include <string.h>

static bool keeps_batch(const struct plan *plan, const struct search_space *asked,
                        const struct search_result *result)
{
    double own = plan->chosen.workload.global_batch;
    return fabs(result->workload.global_batch / own - 1) <= asked->batch_tolerance + 1e-9;
}

// Adds a row, settled, unless it is there already.
static enum err suggest(struct plan *plan, struct arena *arena, const char *why,
                        const struct search_result *result)
{
    if (plan->alternative_count >= PLAN_ALTERNATIVES ||
        (plan->fits && plan_is_same(result, &plan->chosen)))
        return OK;
    for (size_t i = 0; i < plan->alternative_count; i++)
        if (plan_is_same(&plan->alternatives[i].result, result))
            return OK;
    struct plan_alternative *row = &plan->alternatives[plan->alternative_count++];
    *row = (struct plan_alternative){ why, plan_changes(plan, result, arena), *result };
    return plan_settle(plan, arena, &row->result);
}

// --- the plan's GPU in other numbers -----------------------------------------

static const struct search_result *find_count(const struct search *search, const struct gpu *gpu,
                                              int64_t gpus)
{
    for (size_t i = 0; i < search->count; i++)
        if (search->best[i].gpu == gpu && search->best[i].gpus == gpus)
            return &search->best[i];
    return NULL;
}

// Another number of the plan's GPUs, with what a plan of so many would take; where what was asked
// for does not fit, or only tightly, the best settings that do. Numbers that no offer joins are
// left out, unless the plan's is one.
static enum err scale_to(struct plan *plan, struct arena *arena, const struct search_space *asked,
                         int64_t gpus)
{
    struct search_space space = *asked;
    space.gpu = plan->chosen.gpu;
    space.gpus = gpus;
    space.node_gpus = 0;
    space.parallel = NULL;
    space.global_batch = plan->chosen.workload.global_batch;
    struct search search;
    TRY(search_run(&search, arena, &space));
    const struct search_result *best = search.count ? &search.best[0] : NULL;
    const struct search_result *other = find_count(&plan->search, plan->chosen.gpu, gpus);
    if (!best || !keeps_batch(plan, asked, best) || (!best->stable && other && other->stable))
        best = other;
    if (gpus == plan->chosen.gpus && plan->fits)
        best = &plan->chosen;
    if (!best || !keeps_batch(plan, asked, best) || plan->scaling_count >= PLAN_SCALING ||
        (plan_price(plan, arena, best).unconnected &&
         !plan_price(plan, arena, &plan->chosen).unconnected))
        return OK;
    struct search_result *row = &plan->scaling[plan->scaling_count++];
    *row = *best;
    return plan_settle(plan, arena, row);
}

static enum err scale(struct plan *plan, struct arena *arena, const struct search_space *asked)
{
    int64_t own = plan->chosen.gpus;
    for (int64_t gpus = 1; gpus <= 64; gpus *= 2) {
        if (own > gpus / 2 && own < gpus)
            TRY(scale_to(plan, arena, asked, own));
        TRY(scale_to(plan, arena, asked, gpus));
    }
    if (own > 64)
        TRY(scale_to(plan, arena, asked, own));
    return OK;
}

// --- the plan's GPUs with one thing changed ----------------------------------

// Suggests the best of a space that holds the plan's GPUs.
static enum err suggest_best(struct plan *plan, struct arena *arena, const char *why,
                             const struct search_space *asked, const struct search_space *space)
{
    struct search search;
    TRY(search_run(&search, arena, space));
    bool found = search.count && keeps_batch(plan, asked, &search.best[0]);
    return found ? suggest(plan, arena, why, &search.best[0]) : OK;
}

// The best settings for the plan's GPUs, where they are clearly better than its own.
static enum err find_settings(struct search_result *out, bool *found, struct plan *plan,
                              struct arena *arena, const struct search_space *asked,
                              const struct search_space *space)
{
    struct search search;
    TRY(search_run(&search, arena, space));
    *found = search.count && keeps_batch(plan, asked, &search.best[0]);
    if (!*found)
        return OK;
    *out = search.best[0];
    TRY(plan_settle(plan, arena, out));
    *found = !plan->fits || out->gpu_hours < 0.97 * plan->chosen.gpu_hours;
    return OK;
}

// The same data, packed, with every other setting of the plan kept where that fits: what packing
// alone does.
static enum err suggest_packing(struct plan *plan, struct arena *arena,
                                const struct search_space *asked, struct search_space space)
{
    if (space.rule.batching == BATCHING_PACKED || space.rule.full_rows || !plan_may_pack(plan))
        return OK;
    space.rule.batching = BATCHING_PACKED;
    space.rule.shapes = NULL;
    if (plan->request->lengths)
        TRY(workload_measure(&space.rule, arena, plan->request->lengths, plan->stack->trainer,
                             (uint64_t)plan->request->seed));
    if (plan->fits) {
        space.layout = &plan->chosen.layout;
        space.micro_batch = plan->chosen.workload.micro_batch;
        space.recipe.checkpointing = plan->chosen.recipe.checkpointing;
    }
    return suggest_best(plan, arena, "packed", asked, &space);
}

static struct search_space space_of_gpus(const struct plan *plan, const struct search_space *asked)
{
    struct search_space space = *asked;
    space.gpu = plan->chosen.gpu;
    space.gpus = plan->chosen.gpus;
    space.micro_batch = 0;
    space.global_batch = plan->chosen.workload.global_batch;
    space.recipe = plan_recipe(plan->request, space.gpu);
    space.recipe.checkpointing = RECIPE_AUTO;
    space.parallel = NULL;
    return space;
}

// The stack that --method on the command line would give takes the place of the plan's, unless that
// was asked for. The default stacks are of one trainer, so that batches stay as they are.
static enum err take_default_stack(struct search_space *space, const struct plan *plan, int method)
{
    const struct plan_data *data = plan->data;
    if (plan->request->stack || plan->request->own_stack)
        return OK;
    TRY(stack_find(&space->stack, data->stacks, data->stack_count, stack_default(method)));
    space->efficiency = calibration_of(&data->calibration, space->stack);
    return OK;
}

static enum err suggest_methods(struct plan *plan, struct arena *arena,
                                const struct search_space *asked, struct search_space space)
{
    for (int method = RECIPE_FULL; method <= RECIPE_QLORA; method++) {
        struct plan_request request = *plan->request;
        struct search_space other = space;
        request.recipe.method = method;
        request.recipe.checkpointing = RECIPE_AUTO;
        other.recipe = plan_recipe(&request, space.gpu);
        if (method == asked->recipe.method || recipe_check(&other.recipe, space.model) ||
            objective_check(&plan->objective, &other.recipe))
            continue;
        TRY(take_default_stack(&other, plan, method));
        other.passes = plan_passes(plan, &other.recipe);
        TRY(suggest_best(plan, arena, recipe_methods[method], asked, &other));
    }
    return OK;
}

// --- any GPU -----------------------------------------------------------------

static enum err search_catalog(struct plan *plan, struct arena *arena,
                               const struct search_space *asked)
{
    struct search_space space = *asked;
    space.gpu = NULL;
    space.gpus = space.node_gpus = 0;
    space.micro_batch = 0;
    space.global_batch = plan->chosen.workload.global_batch;
    space.recipe = plan_recipe(plan->request, NULL);
    space.recipe.checkpointing = RECIPE_AUTO;
    space.parallel = NULL;
    return search_run(&plan->search, arena, &space);
}

// Where nothing that was considered fits: the fewest GPUs beyond that of the closest card that do.
static enum err look_further(struct plan *plan, struct arena *arena,
                             const struct search_space *asked)
{
    enum { FURTHEST = 1024 };
    struct search_space space = *asked;
    space.gpu = plan->chosen.gpu;
    space.node_gpus = 0;
    space.micro_batch = 0;
    space.recipe.checkpointing = RECIPE_AUTO;
    space.parallel = NULL;
    space.batch_tolerance = INFINITY; // so many GPUs need more rows per step
    struct search search = { 0 };
    for (space.gpus = 128; space.gpus <= FURTHEST && !search.count; space.gpus *= 2)
        TRY(search_run(&search, arena, &space));
    return search.count ? suggest(plan, arena, "more GPUs", &search.best[0]) : OK;
}

// The least of the catalog, unless a row that is shown anyway is less: labels hold for the table.
static enum err suggest_least(struct plan *plan, struct arena *arena,
                              const struct search_result *settings)
{
    static const struct {
        const char *why;
        enum plan_goal goal;
    } goals[] = { { "cheapest", PLAN_CHEAPEST },
                  { "fastest", PLAN_FASTEST },
                  { "fewest GPU hours", PLAN_FEWEST_GPU_HOURS } };
    for (size_t i = 0; i < sizeof goals / sizeof *goals; i++) {
        struct search_result best;
        bool found;
        TRY(plan_least(&best, &found, plan, arena, &plan->search, goals[i].goal));
        const struct search_result *least = found ? &best : NULL;
        for (size_t k = 0; k < plan->scaling_count; k++)
            least = plan_lesser(least, &plan->scaling[k], goals[i].goal);
        if (settings)
            least = plan_lesser(least, settings, goals[i].goal);
        if (plan->fits)
            least = plan_lesser(least, &plan->chosen, goals[i].goal);
        if (least)
            TRY(suggest(plan, arena, goals[i].why, least));
    }
    return OK;
}

// The trade-offs between wall time and GPU hours, by the medians that are written.
static enum err find_pareto(struct plan *plan, struct arena *arena)
{
    struct search_result *rows = plan->pareto;
    struct search found = { .best = rows };
    for (size_t i = 0; i < plan->search.count && found.count < PLAN_PARETO; i++)
        if (search_is_pareto(&plan->search, &plan->search.best[i]))
            TRY(plan_sample(&rows[found.count++], plan, arena, &plan->search.best[i]));
    bool kept[PLAN_PARETO];
    for (size_t i = 0; i < found.count; i++)
        kept[i] = search_is_pareto(&found, &rows[i]);
    for (size_t i = 0; i < found.count; i++)
        if (kept[i])
            rows[plan->pareto_count++] = rows[i];
    return OK;
}

static enum err suggest_in_time(struct plan *plan, struct arena *arena)
{
    struct search_result cheapest;
    bool found = false;
    if (!isnan(plan->request->deadline) || !isnan(plan->request->budget))
        TRY(plan_within(&cheapest, &found, plan, arena, &plan->search, plan->request->deadline,
                        plan->request->budget));
    const char *why = isnan(plan->request->deadline) ? "cheapest in budget" : "cheapest in time";
    return found ? suggest(plan, arena, why, &cheapest) : OK;
}

static enum err suggest_counts(struct plan *plan, struct arena *arena)
{
    for (size_t i = 0; i < plan->scaling_count; i++) {
        const struct search_result *r = &plan->scaling[i];
        if (r->gpus * 2 == plan->chosen.gpus)
            TRY(suggest(plan, arena, "fewer GPUs", r));
        if (r->gpus == plan->chosen.gpus * 2)
            TRY(suggest(plan, arena, "more GPUs", r));
    }
    return OK;
}

// What was asked for on fewer GPUs, where it is nearly sure to fit and takes clearly fewer GPU
// hours: one percent below memory_sure must not hide them.
static enum err suggest_unsure(struct plan *plan, struct arena *arena,
                               const struct search_space *asked)
{
    const double nearly = 0.8, clearly = 0.8;
    struct search_result least = { .gpu_hours = clearly * plan->chosen.gpu_hours };
    if (!plan->fits || !plan->chosen.stable)
        return OK;
    for (int64_t gpus = 1; gpus < plan->chosen.gpus; gpus *= 2) {
        struct search_space space = *asked;
        struct search search;
        space.gpu = plan->chosen.gpu;
        space.gpus = gpus;
        space.node_gpus = 0;
        space.parallel = NULL;
        space.global_batch = plan->chosen.workload.global_batch;
        TRY(search_run(&search, arena, &space));
        struct search_result *best = search.count ? &search.best[0] : NULL;
        if (!best || best->stable || best->memory.fit_probability < nearly ||
            !keeps_batch(plan, asked, best))
            continue;
        TRY(plan_settle(plan, arena, best));
        if (best->gpu_hours < least.gpu_hours &&
            !(best->wall_hours * 3600 > plan->request->deadline))
            least = *best;
    }
    if (!least.gpu)
        return OK;
    const char *why = text_format(arena, "fewer (%s sure)", memory_chance(&least.memory, arena));
    return suggest(plan, arena, why, &least);
}

enum err plan_compare(struct plan *plan, struct arena *arena, const struct search_space *asked)
{
    struct search_result settings;
    bool found;
    if (!plan->request->search)
        return OK;
    if (!plan->search.considered)
        TRY(search_catalog(plan, arena, asked));
    struct search_space space = space_of_gpus(plan, asked);
    TRY(scale(plan, arena, asked));
    TRY(find_pareto(plan, arena));
    TRY(find_settings(&settings, &found, plan, arena, asked, &space));
    TRY(suggest_in_time(plan, arena));
    TRY(suggest_least(plan, arena, found ? &settings : NULL));
    TRY(suggest_counts(plan, arena));
    TRY(suggest_unsure(plan, arena, asked));
    if (found)
        TRY(suggest(plan, arena, plan->fits ? "better settings" : "settings that fit", &settings));
    TRY(suggest_packing(plan, arena, asked, space));
    TRY(suggest_methods(plan, arena, asked, space));
    return plan->fits || plan->alternative_count ? OK : look_further(plan, arena, asked);
}
