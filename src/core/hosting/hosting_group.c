// SPDX-License-Identifier: Apache-2.0
// Groups of offers that have GPU, count and links in common: the job is estimated once per group.

#include "core/hosting/hosting_internal.h"

#include <math.h>

// What is downloaded after the run: the trained weights, without the optimizer states of a
// checkpoint.
static double result_bytes(const struct setup *setup, const struct step *step)
{
    struct recipe recipe = estimate_recipe(setup);
    const struct layout *layout = &setup->layout;
    double ranks = (double)(layout->tensor * (layout->split ? 1 : layout->pipeline));
    double each = recipe.method == RECIPE_FULL ? 2 : recipe_dtype_bytes(recipe.adapter_dtype);
    return step->trained_weights * ranks * each;
}

// The plan's, which a pilot or the ledger may have measured. On another GPU its median, with the
// spread that published runs have there.
static struct efficiency efficiency_on(const struct hosting_group *group,
                                       const struct hosting_job *job, const struct setup *setup)
{
    struct efficiency out = job->plan->efficiency;
    if (group->gpu == job->plan->chosen.gpu)
        return out;
    struct efficiency there = calibration_at(&job->plan->data->calibration, setup);
    efficiency_widen(&there, objective_spread(job->plan->objective.kind));
    out.log_spread = there.log_spread;
    out.slow_tail = there.slow_tail;
    return out;
}

static enum err time_group(struct hosting_group *group, struct hosting_job *job)
{
    struct arena_mark mark = arena_mark(job->arena);
    struct setup setup = search_setup(&group->result, job->plan->model, job->plan->stack);
    struct estimate estimate;
    TRY(estimate_make(&estimate, job->arena, &setup));
    overhead_pace(&group->overheads, group->result.workload.epochs, group->result.workload.steps);
    overhead_configure(&group->overheads, &setup, &estimate.step, estimate.timing.evaluation_share);
    if (hosting_is_planned(job, group))
        hosting_take_overheads(&group->overheads, job->planned);
    group->result_bytes = result_bytes(&setup, &estimate.step);
    const struct timing *t = &estimate.timing;
    double exposed = t->exposed_seconds * setup.accumulation + t->reduce_seconds;
    group->network_share = exposed / t->step_seconds;
    group->tokens_per_s = estimate.tokens_per_s;
    group->efficiency = efficiency_on(group, job, &setup);
    struct forecast_input input = {
        .roofline_tokens_per_s = estimate.tokens_per_s,
        .efficiency = group->efficiency,
        .processed_tokens = group->result.workload.processed_tokens,
        .lengths_factor = { 1, 1, 1 },
        .overheads = group->overheads,
    };
    forecast_middle(&group->middle, &input);
    arena_rewind(job->arena, mark);
    return OK;
}

// The storage of this node, unless the user gave its speed.
static enum err set_storage(struct hosting_group *group, const struct hosting_job *job)
{
    group->overheads = job->plan->overheads;
    if (group->overheads.storage_bytes_per_s.origin == ASSUMPTION_GIVEN)
        return OK;
    struct overheads own;
    TRY(overhead_assume(&own, &job->plan->data->catalog, &group->node));
    group->overheads.storage_bytes_per_s = own.storage_bytes_per_s;
    return OK;
}

struct hosting_group *hosting_group_find(struct hosting_job *job, const struct gpu *gpu,
                                         int64_t gpus, int64_t instances, const struct node *node)
{
    for (size_t i = 0; i < job->group_count; i++) {
        struct hosting_group *known = job->groups[i];
        if (known->gpu == gpu && known->gpus == gpus && known->instances == instances &&
            hosting_node_is(&known->node, node, instances > 1))
            return known;
    }
    job->groups = arena_room(job->arena, job->groups, sizeof *job->groups, job->group_count,
                             &job->group_room);
    struct hosting_group *group = ARENA_NEW(job->arena, struct hosting_group, 1);
    group->gpu = gpu;
    group->node = *node;
    group->gpus = gpus;
    group->instances = instances;
    job->groups[job->group_count++] = group;
    return group;
}

enum err hosting_group_estimate(struct hosting_job *job)
{
    struct hosting_group **same = ARENA_NEW(job->arena, struct hosting_group *, job->group_count);
    for (size_t i = 0; i < job->group_count; i++) {
        struct hosting_group *first = job->groups[i];
        size_t count = 0;
        if (first->estimated)
            continue;
        for (size_t k = i; k < job->group_count; k++)
            if (job->groups[k]->gpus == first->gpus) {
                same[count++] = job->groups[k];
                job->groups[k]->estimated = true;
            }
        TRY(hosting_configure(job, same, count));
    }
    for (size_t i = 0; i < job->group_count; i++) {
        TRY(set_storage(job->groups[i], job));
        if (job->groups[i]->fits)
            TRY(time_group(job->groups[i], job));
    }
    return OK;
}

const struct search_result *hosting_configuration(const struct hosting_row *row)
{
    return row->group ? &row->group->result : NULL;
}
