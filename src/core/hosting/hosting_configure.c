// SPDX-License-Identifier: Apache-2.0
// The best configuration of the job for groups of machines: one search serves all groups that have
// the same number of GPUs.

#include "core/hosting/hosting_internal.h"

#include <string.h>

// A catalog in which each group is a GPU type of its own, in its own node. The search lists each
// training step once and evaluates it on every GPU of the catalog, hence on every group.
static struct catalog *catalog_of(struct hosting_job *job, struct hosting_group **groups,
                                  size_t count)
{
    struct catalog *catalog = ARENA_NEW(job->arena, struct catalog, 1);
    *catalog = job->plan->data->catalog;
    catalog->gpus = ARENA_NEW(job->arena, struct gpu, count);
    catalog->nodes = ARENA_NEW(job->arena, struct node, count);
    catalog->gpu_count = catalog->node_count = count;
    for (size_t i = 0; i < count; i++) {
        catalog->gpus[i] = *groups[i]->gpu;
        catalog->nodes[i] = groups[i]->node;
        catalog->gpus[i].name = catalog->nodes[i].gpu = text_format(job->arena, "%zu", i);
    }
    return catalog;
}

static void take_result(struct hosting_group *group, const struct search_result *best,
                        const struct hosting_job *job)
{
    group->fits = true;
    group->result = *best;
    group->result.gpu = group->gpu;
    group->result.node = group->node;
    group->result.workload.processed_tokens *= job->processed_scale;
}

static const double batch_tolerance = 0.25; // how far GPUs may make the global batch another

bool hosting_is_planned(const struct hosting_job *job, const struct hosting_group *group)
{
    const struct search_result *chosen = &job->plan->chosen;
    int64_t nodes = chosen->node.gpus > 0 ? hosting_instances(chosen->gpus, chosen->node.gpus) : 1;
    const struct hosting_document *planned = job->planned;
    bool same = planned && job->plan->fits &&
                chosen->workload.micro_batch == planned->micro_batch &&
                chosen->workload.global_batch == planned->global_batch;
    return same && group->gpu == chosen->gpu && group->gpus == chosen->gpus &&
           group->instances == nodes;
}

enum err hosting_configure(struct hosting_job *job, struct hosting_group **groups, size_t count)
{
    const struct plan *plan = job->plan;
    const struct hosting_document *planned = job->planned;
    size_t open = 0;
    for (size_t i = 0; i < count; i++)
        if (hosting_is_planned(job, groups[i]))
            take_result(groups[i], &plan->chosen, job);
        else
            groups[open++] = groups[i];
    count = open;
    if (!count)
        return OK;
    struct catalog *catalog = catalog_of(job, groups, count);
    double rows = 0;
    TRY(plan_request_rows(&rows, plan->request));
    const char *parallel = planned ? NULL : plan->request->parallel;
    struct recipe recipe = plan->request->recipe;
    if (planned) {
        recipe.checkpointing = RECIPE_AUTO;
        rows = planned->rows_given ? rows : 0;
    }
    struct search_space space = {
        .catalog = catalog,
        .model = plan->model,
        .stack = plan->stack,
        .recipe = recipe,
        .rule = plan->rule,
        .passes = plan->chosen.passes,
        .sampler_gpus = plan->splits ? 0 : (int64_t)plan->rollout.gpus,
        .splits = plan->splits,
        .efficiency = plan->efficiency,
        .overheads = &plan->overheads,
        .parallel = parallel && strcmp(parallel, "auto") ? parallel : NULL,
        .fills = recipe.checkpointing == RECIPE_AUTO,
        .micro_batch = rows,
        .global_batch = plan->chosen.workload.global_batch,
        .batch_tolerance = batch_tolerance,
        .usd_per_gpu_hour = 1,
        .vendor = groups[0]->gpu->vendor,
        .gpus = groups[0]->gpus,
    };
    if (space.parallel) {
        TRY(layout_check(text_of(space.parallel))); // a layout that no number of GPUs can have
        struct layout layout;
        int64_t trainers = space.gpus - space.sampler_gpus;
        bool can = trainers > 0 && !layout_read(&layout, text_of(space.parallel), trainers);
        if (!can && !space.splits)
            return OK; // a layout that this number of GPUs cannot have: the groups do not fit
    }
    struct search search;
    TRY(search_run(&search, job->arena, &space));
    for (size_t i = 0; i < search.count; i++) {
        const struct search_result *best = &search.best[i];
        struct hosting_group *group = groups[best->gpu - catalog->gpus];
        group->other_batch =
            planned && best->workload.global_batch > (1 + batch_tolerance) * space.global_batch;
        if (!group->other_batch)
            take_result(group, best, job);
    }
    return OK;
}
