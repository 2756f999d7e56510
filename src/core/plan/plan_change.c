// SPDX-License-Identifier: Apache-2.0
// Says what one configuration changes against the plan's, so that rows of a table compare like with
// like or tell why they do not.

#include "core/plan/plan_internal.h"

#include <string.h>

static bool is_layout_same(const struct layout *a, const struct layout *b)
{
    return a->data == b->data && a->tensor == b->tensor && a->pipeline == b->pipeline &&
           a->context == b->context && a->expert == b->expert && a->zero == b->zero &&
           a->sync_each_batch == b->sync_each_batch &&
           a->offload_optimizer == b->offload_optimizer && a->split == b->split;
}

// GPUs that only sample; 0: none do, or nothing is sampled.
static double samplers_of(const struct search_result *result)
{
    return result->passes.rollout ? result->passes.rollout->gpus : 0;
}

bool plan_is_same(const struct search_result *a, const struct search_result *b)
{
    return a->stack == b->stack && a->gpu == b->gpu && a->gpus == b->gpus &&
           a->recipe.method == b->recipe.method && a->recipe.precision == b->recipe.precision &&
           a->workload.batching == b->workload.batching &&
           a->workload.micro_batch == b->workload.micro_batch &&
           a->workload.global_batch == b->workload.global_batch &&
           a->recipe.checkpointing == b->recipe.checkpointing &&
           is_layout_same(&a->layout, &b->layout) && samplers_of(a) == samplers_of(b);
}

static void add(struct out *out, const char *change)
{
    out_put(out, "%s%s", out->size ? ", " : "", change);
}

const char *plan_changes(const struct plan *plan, const struct search_result *result,
                         struct arena *arena)
{
    const struct search_result *own = &plan->chosen;
    const struct workload *a = &own->workload, *b = &result->workload;
    struct out out = { .arena = arena };
    if (result->gpu != own->gpu || result->gpus != own->gpus)
        add(&out, text_format(arena, "%lld × %s", (long long)result->gpus, result->gpu->name));
    if (!result->stable && (own->stable || !plan->fits)) // a narrow table cuts the end
        add(&out, text_format(arena, "tight memory (%s)", memory_chance(&result->memory, arena)));
    if (samplers_of(result) != samplers_of(own))
        add(&out, samplers_of(result) > 0
                      ? text_format(arena, "%.0f of them sample", samplers_of(result))
                      : "sampling in turns");
    if (result->recipe.method != own->recipe.method)
        add(&out, recipe_methods[result->recipe.method]);
    if (result->stack != own->stack)
        add(&out, text_format(arena, "stack %s", result->stack->name));
    if (result->recipe.precision != own->recipe.precision)
        add(&out, recipe_precisions[result->recipe.precision]);
    if (b->batching != a->batching)
        add(&out, batching_names_auto[b->batching]);
    if (!is_layout_same(&result->layout, &own->layout))
        add(&out, layout_spell(&result->layout, arena));
    if (b->micro_batch != a->micro_batch)
        add(&out, text_format(arena, "micro-batch %.0f", b->micro_batch));
    if (result->recipe.checkpointing != own->recipe.checkpointing)
        add(&out, text_format(arena, "checkpointing %s",
                              recipe_checkpointings[result->recipe.checkpointing]));
    if (b->global_batch != a->global_batch)
        add(&out, text_format(arena, "global batch %.0f", b->global_batch));
    return out.size ? out_string(&out) : "nothing";
}
