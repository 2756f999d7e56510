// SPDX-License-Identifier: Apache-2.0
// Searches micro-batch, recomputation, place and precision of the base until a run fits.

#include "train/arrange.h"

#include "core/step/engine.h"

enum { TOKENS_ENOUGH = 16384 }; // larger micro-batches are hardly faster

static double budget_of(const struct device *device, double limit)
{
    double all = limit > 0 ? limit : engine_card_share * (double)device->total_bytes;
    return all > 0 ? all - (double)device->overhead_bytes : 0;
}

// Of pairs, a row has room for two answers of the context's length.
static int64_t row_tokens(const struct arrangement *a, int64_t context)
{
    return (a->setup.beta > 0 ? 2 : 1) * context;
}

static struct transformer_setup setup_for(const struct arrangement *a, const struct recipe *recipe,
                                          int64_t context, int64_t micro_batch, double budget)
{
    struct transformer_setup setup = a->setup;
    setup.recipe = recipe;
    setup.tokens = setup.labelled = row_tokens(a, context) * micro_batch;
    setup.longest = context;
    setup.budget_bytes = budget;
    return setup;
}

// Whether it fits; if so, the highest level of recomputation of any layer, and the bytes.
static bool fits(struct device *device, const struct transformer_setup *setup,
                 enum recompute *level, int64_t *bytes)
{
    struct arena scratch = { 0 };
    struct blocks plan;
    bool good = !transformer_plan(&plan, level, &scratch, device, setup);
    *bytes = good ? blocks_total(&plan) + device->overhead_bytes : 0;
    arena_release(&scratch);
    return good;
}

// Refuses what is wrong with any amount of memory.
static enum err check(const struct arrangement *a, const struct recipe *recipe,
                      struct device *device)
{
    struct transformer_setup setup = setup_for(a, recipe, a->context, 1, 0);
    struct arena scratch = { 0 };
    struct blocks plan;
    enum recompute level;
    enum err err = transformer_plan(&plan, &level, &scratch, device, &setup);
    arena_release(&scratch);
    return err;
}

// The micro-batch with the least recomputation, from the largest sensible one down.
static bool choose(struct arrangement *a, const struct recipe *recipe, struct device *device,
                   double budget)
{
    int64_t asked = a->micro_batch, row = row_tokens(a, a->context);
    int64_t most = (TOKENS_ENOUGH + row - 1) / row;
    enum recompute best = RECOMPUTE_LEVELS, level;
    for (int64_t n = asked ? asked : most; n >= 1; n = asked ? 0 : n / 2) {
        struct transformer_setup setup = setup_for(a, recipe, a->context, n, budget);
        int64_t bytes;
        if (!fits(device, &setup, &level, &bytes) || level >= best)
            continue;
        best = level;
        a->recipe = *recipe;
        a->setup = setup;
        a->setup.recipe = &a->recipe;
        a->micro_batch = n;
        a->planned_bytes = bytes;
        if (level == setup.level)
            break;
    }
    if (best == RECOMPUTE_LEVELS)
        a->micro_batch = asked;
    return best < RECOMPUTE_LEVELS;
}

// A whole base on every rank, or one that they share.
static bool choose_place(struct arrangement *a, const struct recipe *recipe, struct device *device,
                         double budget)
{
    if (choose(a, recipe, device, budget))
        return true;
    if (!a->may_shard)
        return false;
    a->setup.shards_base = true;
    bool good = choose(a, recipe, device, budget);
    a->setup.shards_base = good;
    return good;
}

// The cheapest change that would fit: fewer rows at a time, the base in NF4, shorter rows.
static const char *change_that_fits(const struct arrangement *a, const struct recipe *asked,
                                    struct arena *arena, struct device *device, double budget)
{
    for (int64_t context = a->context; context >= 2; context /= 2)
        for (int method = asked->method;; method = RECIPE_QLORA) {
            struct recipe recipe = *asked;
            enum recompute level;
            int64_t bytes;
            recipe.method = method;
            struct transformer_setup setup = setup_for(a, &recipe, context, 1, budget);
            setup.shards_base = setup.shards_base || a->may_shard;
            setup.fp8 = setup.fp8 && method == RECIPE_LORA;
            setup.bf16_states = setup.bf16_states && method == RECIPE_FULL;
            if (fits(device, &setup, &level, &bytes))
                return text_format(arena, "--context %lld --micro-batch 1 --method %s needs %s",
                                   (long long)context, recipe_methods[method],
                                   text_bytes(arena, (double)bytes));
            if (method == RECIPE_QLORA)
                break;
        }
    return "no --context and no --method makes this model fit";
}

static enum err advise(const struct arrangement *a, const struct recipe *asked,
                       struct device *device, double budget)
{
    struct arena scratch = { 0 };
    struct transformer_setup least =
        setup_for(a, asked, a->context, a->micro_batch ? a->micro_batch : 1, 0);
    enum recompute level;
    int64_t bytes;
    least.level = RECOMPUTE_BLOCK;
    least.shards_base = least.shards_base || a->may_shard;
    fits(device, &least, &level, &bytes);
    enum err err =
        fail(ERR_MEMORY, "%s are needed even if every layer is recomputed, the limit is %s; %s",
             text_bytes(&scratch, (double)bytes),
             text_bytes(&scratch, budget + (double)device->overhead_bytes),
             change_that_fits(a, asked, &scratch, device, budget));
    arena_release(&scratch);
    return err;
}

enum err arrange(struct arrangement *a, struct device *device, double limit_bytes)
{
    struct recipe asked = *a->setup.recipe, recipe = asked;
    double budget = budget_of(device, limit_bytes);
    TRY(check(a, &asked, device));
    if (limit_bytes > 0 && budget <= 0)
        return fail(ERR_MEMORY,
                    "--memory-limit is below what the driver and libraries of the device "
                    "take");
    if (choose_place(a, &recipe, device, budget))
        return OK;
    recipe.method = RECIPE_QLORA;
    a->was_quantized = a->may_quantize && asked.method == RECIPE_LORA && !a->setup.fp8 &&
                       choose_place(a, &recipe, device, budget);
    return a->was_quantized ? OK : advise(a, &asked, device, budget);
}
