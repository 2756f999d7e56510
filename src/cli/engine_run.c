// SPDX-License-Identifier: Apache-2.0
// Describes a run of the built-in engine, and computes the roofline of exactly that run.

#include "cli/engine_run.h"

#include "cli/data.h"
#include "core/forecast/transfer.h"

#include <math.h>

static const char *layout_of(const struct engine_run *run, struct arena *arena)
{
    const struct transformer *t = run->transformer;
    int ranks = run->group->size;
    return ranks == 1 ? "single"
                      : text_format(arena,
                                    transformer_shares_base(t)  ? "fsdp%d"
                                    : transformer_is_sharded(t) ? "zero1 dp%d"
                                                                : "ddp%d",
                                    ranks);
}

static enum recompute highest_level(const struct transformer *t)
{
    enum recompute level = RECOMPUTE_NONE;
    for (int64_t i = 0; i < t->decoder->model.layers; i++)
        if (t->layers[i].level > level)
            level = t->layers[i].level;
    return level;
}

static struct recipe recipe_of(const struct engine_run *run)
{
    static const int kinds[] = { [RECOMPUTE_NONE] = RECIPE_KEEP_ALL,
                                 [RECOMPUTE_NORMS] = RECIPE_SELECTIVE,
                                 [RECOMPUTE_GATE] = RECIPE_GATE,
                                 [RECOMPUTE_PROJECTIONS] = RECIPE_PROJECTIONS,
                                 [RECOMPUTE_BLOCK] = RECIPE_RECOMPUTE };
    struct recipe recipe = run->arrangement->recipe;
    recipe.checkpointing = kinds[highest_level(run->transformer)];
    if (run->arrangement->setup.fp8)
        recipe.precision = RECIPE_FP8;
    return recipe;
}

// Of the layers, those that recompute less than the recipe has.
static double lighter_share(const struct engine_run *run)
{
    const struct transformer *t = run->transformer;
    enum recompute highest = highest_level(t);
    int64_t layers = t->decoder->model.layers, lighter = 0;
    for (int64_t i = 0; i < layers; i++)
        lighter += t->layers[i].level < highest;
    return (double)lighter / (double)layers;
}

enum err engine_run_describe(struct pilot_configuration *out, const struct engine_run *run,
                             const struct command_line *line)
{
    int ranks = run->group->size;
    out->stack = "native";
    out->gpus = ranks;
    out->nodes = (int64_t)ceil((double)ranks / run->group->local_size);
    out->parallel = layout_of(run, line->arena);
    out->batching = "packed";
    out->micro_batch = (double)run->arrangement->micro_batch;
    out->accumulation = run->accumulation / ranks;
    out->global_batch = out->micro_batch * run->accumulation;
    out->micro_batch_tokens = run->batch.tokens;
    out->attended_tokens = run->batch.squares / run->batch.tokens;
    out->recipe = recipe_of(run);
    out->lighter_share = lighter_share(run);
    out->gpu = "cpu";
    if (!device_is_gpu(run->device))
        return OK;
    out->gpu = text_copy(line->arena, text_of(run->device->name));
    struct catalog catalog;
    const struct gpu *gpu;
    TRY(data_open(&catalog, line));
    if (!catalog_gpu(&gpu, &catalog, out->gpu))
        out->gpu = gpu->name;
    return OK;
}

enum err engine_run_roofline(double *out, const struct pilot_configuration *c,
                             const struct engine_run *run, const struct command_line *line)
{
    struct plan_data data;
    struct setup setup = { .model = &run->transformer->decoder->model,
                           .recipe = c->recipe,
                           .lighter_share = c->lighter_share,
                           .batch = run->batch,
                           .accumulation = c->accumulation };
    struct estimate estimate;
    *out = NAN;
    TRY(data_plan(&data, line));
    if (!device_is_gpu(run->device) || catalog_gpu(&setup.gpu, &data.catalog, c->gpu))
        return OK;
    setup.node = catalog_node_of(&data.catalog, setup.gpu);
    TRY(stack_find(&setup.stack, data.stacks, data.stack_count, c->stack));
    TRY(transfer_layout(&setup.layout, c, c->gpus));
    TRY(estimate_make(&estimate, line->arena, &setup));
    *out = estimate.tokens_per_s;
    return OK;
}
