// SPDX-License-Identifier: Apache-2.0
// A lower bound of the FLOPs of a token, held against the peak of the GPUs.

#include "core/measured/plausible.h"

#include "core/step/compute.h"

#include <math.h>
#include <string.h>

// A product costs 2 FLOPs per weight and token forward, 2 for the gradient of its input, which the
// first layer does not need, and 2 for that of its weights where they are trained. The head is left
// out: some stacks compute it for labelled tokens only.
double plausible_flops_per_token(const struct model *model, int method)
{
    double weights =
        (double)(model_active_linear_weights(model) - model->width * model->vocabulary);
    double backward = 2 * (1 - 1 / (double)model->layers);
    return weights * (2 + backward + (method == RECIPE_FULL ? 2 : 0));
}

// "423 GFLOP"
static const char *spell_flops(struct arena *arena, double flops)
{
    static const char *const units[] = { "", "k", "M", "G", "T", "P", "E" };
    int unit = 0;
    for (; flops >= 1000 && unit < 6; unit++)
        flops /= 1000;
    return text_format(arena, flops < 10 ? "%.1f %sFLOP" : "%.0f %sFLOP", flops, units[unit]);
}

enum err plausible_rate(const struct plausible *rate, const char *name)
{
    double flops = plausible_flops_per_token(rate->model, rate->recipe->method);
    double peak = rate->gpus * compute_peak_flops_per_s(rate->gpu, rate->recipe->precision);
    double reached = rate->tokens_per_s * flops;
    if (!(peak > 0) || !(reached > peak))
        return OK;
    struct arena arena = { 0 };
    double times = reached / peak;
    enum err err = fail(
        ERR_INPUT,
        "%s: %s tokens/s × %s per token = %s/s, %s times the peak of %.0f × %s (%s/s): check the "
        "tokens per step and the number of GPUs",
        name, text_commas(&arena, llround(rate->tokens_per_s)), spell_flops(&arena, flops),
        spell_flops(&arena, reached), text_format(&arena, times < 10 ? "%.2g" : "%.0f", times),
        rate->gpus, rate->gpu->title, spell_flops(&arena, peak));
    arena_release(&arena);
    return err;
}

// --- by name -----------------------------------------------------------------

// OK where a name is unknown: the error of the search is dropped.
static enum err check_names(const struct catalog *catalog, struct plausible *rate,
                            const char *model, const char *gpu, const char *name)
{
    if (!model || !gpu || !(rate->gpus > 0) || catalog_model(&rate->model, catalog, model) ||
        catalog_gpu(&rate->gpu, catalog, gpu)) {
        fail(OK, "%s", "");
        return OK;
    }
    return plausible_rate(rate, name);
}

enum err plausible_pilot(const struct catalog *catalog, const struct pilot *pilot, const char *name)
{
    const struct pilot_configuration *c = &pilot->configuration;
    struct plausible rate = { .tokens_per_s = pilot->tokens_per_s.mean,
                              .recipe = &c->recipe,
                              .gpus = (double)(c->gpus > 0 ? c->gpus : pilot->gpu.count) };
    return check_names(catalog, &rate, c->model, c->gpu ? c->gpu : pilot->gpu.name, name);
}

// The recipe as far as an entry knows it.
static struct recipe recipe_of(const struct history_entry *entry, struct arena *arena)
{
    struct recipe recipe = recipe_default();
    struct json tree;
    if (entry->configuration &&
        !json_read(&tree, arena, text_of(entry->configuration), "configuration"))
        field_read(recipe_fields, &recipe, arena, &tree, "configuration", false);
    for (int i = 0; entry->method && recipe_methods[i]; i++)
        if (!strcmp(entry->method, recipe_methods[i]))
            recipe.method = i;
    return recipe;
}

enum err plausible_entry(const struct catalog *catalog, struct arena *arena,
                         const struct history_entry *entry, const char *name)
{
    bool measured = entry->kind == HISTORY_PILOT || entry->kind == HISTORY_RUN;
    if (!measured || !(entry->actual_tokens_per_second > 0))
        return OK;
    struct arena_mark mark = arena_mark(arena);
    struct recipe recipe = recipe_of(entry, arena);
    struct plausible rate = { .tokens_per_s = entry->actual_tokens_per_second,
                              .recipe = &recipe,
                              .gpus = (double)entry->gpus };
    enum err err = check_names(catalog, &rate, entry->model, entry->gpu, name);
    arena_rewind(arena, mark);
    return err;
}
