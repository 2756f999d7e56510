// SPDX-License-Identifier: Apache-2.0
// Computes what `gpuhours memory` answers: whether a configuration fits, and the largest that do.

#include "core/plan/fit.h"

#include "core/plan/plan_internal.h"

#include <math.h>
#include <string.h>

enum { MOST_ROWS = 1 << 16, MOST_STEPS = 1 << 14 }; // where the searches below end

// A configuration on trial. Its workload follows from the plan's rule, as in the search.
struct trial {
    const struct plan *plan;
    const struct search_space *space;
    struct recipe recipe;
    struct layout layout;
    double rows, context;
    double step_rows; // of all GPUs; 0: one micro-batch of each
    bool sure; // it must fit with a probability of memory_sure, not just be more likely to than not
};

static struct workload workload_of(const struct trial *trial)
{
    struct workload workload;
    struct workload_rule rule = trial->plan->rule;
    rule.context = trial->context;
    workload_make(&workload, &rule, trial->rows, (double)trial->layout.data, trial->step_rows);
    return workload;
}

static enum err plan_bytes(struct memory *out, struct arena *arena, const struct trial *trial)
{
    struct workload workload = workload_of(trial);
    struct setup setup = { .model = trial->plan->model,
                           .stack = trial->plan->stack,
                           .gpu = trial->space->gpu,
                           .recipe = trial->recipe,
                           .layout = trial->layout,
                           .batch = workload.batch,
                           .worst = workload.worst,
                           .accumulation = workload.accumulation,
                           .varied_widths = workload.varied_widths,
                           .passes = trial->space->passes };
    return estimate_memory(out, arena, &setup);
}

static bool fits(const struct trial *trial, const struct memory *memory)
{
    return trial->sure ? search_is_stable(memory) : memory->fits;
}

enum { LAYOUTS = 4 };
static const char *const usual_layouts[LAYOUTS] = { "ddp", "zero2", "fsdp",
                                                    "fsdp sync_each_batch" };

// How many of the usual layouts, the simplest first, there are to choose from; 1: the one asked
// for.
static size_t layouts_of(const struct trial *trial)
{
    if (trial->space->parallel || trial->space->gpus <= 1)
        return 1;
    return trial->plan->stack->held_gradients ? LAYOUTS : LAYOUTS - 1;
}

static enum err set_layout(struct trial *trial, size_t usual)
{
    const char *asked = trial->space->parallel;
    int64_t gpus = trial->space->gpus ? trial->space->gpus : 1;
    TRY(layout_read(&trial->layout, text_of(asked ? asked : usual_layouts[usual]), gpus));
    trial->layout = estimate_unsharded(&trial->layout, trial->plan->stack);
    return OK;
}

// The largest of 1 … most for which the trial fits when value holds that many units; 0 if none
// does. Doubles until it no longer fits, then halves the interval.
static enum err largest(int64_t *out, struct arena *arena, struct trial *trial, double *value,
                        double unit, int64_t most)
{
    int64_t enough = 0, too_many = most + 1;
    for (int64_t next = 1; enough + 1 < too_many;) {
        struct memory memory;
        *value = (double)next * unit;
        TRY(plan_bytes(&memory, arena, trial));
        *(fits(trial, &memory) ? &enough : &too_many) = next;
        next =
            too_many > most && enough * 2 <= most ? enough * 2 : enough + (too_many - enough) / 2;
        next = next > enough ? next : enough + 1;
    }
    *out = enough;
    return OK;
}

// The first of the usual layouts that fits, or the last of them.
static enum err choose_layout(struct trial *trial, struct arena *arena)
{
    for (size_t i = 0; i < layouts_of(trial); i++) {
        struct memory memory;
        TRY(set_layout(trial, i));
        TRY(plan_bytes(&memory, arena, trial));
        if (fits(trial, &memory))
            break;
    }
    return OK;
}

// The lightest checkpointing that fits, else the heaviest, unless one is given.
static enum err choose_checkpointing(struct trial *trial, struct arena *arena)
{
    bool given = trial->space->recipe.checkpointing != RECIPE_AUTO;
    const struct stack *stack = trial->plan->stack;
    trial->recipe.checkpointing = given               ? trial->space->recipe.checkpointing
                                  : trial->space->gpu ? RECIPE_KEEP_ALL
                                                      : stack->checkpointing;
    TRY(choose_layout(trial, arena));
    while (!given && trial->space->gpu && trial->recipe.checkpointing < RECIPE_RECOMPUTE) {
        struct memory memory;
        TRY(plan_bytes(&memory, arena, trial));
        if (fits(trial, &memory))
            break;
        while (!stack_recomputes(stack, ++trial->recipe.checkpointing))
            ;
    }
    return OK;
}

// Of norms and activations alone every stack is shown: it is what trainers' options can be set to.
bool fit_offers(const struct fit *fit, int checkpointing)
{
    return checkpointing == RECIPE_SELECTIVE || stack_recomputes(fit->stack, checkpointing);
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

// The largest in any of the layouts, with the rows of a step as asked: gradients that accumulate
// lie beside the activations.
static enum err find_largest(struct fit_largest *out, struct arena *arena, struct trial asked,
                             int level)
{
    *out = (struct fit_largest){ 0 };
    asked.recipe.checkpointing = level;
    for (size_t i = 0; i < layouts_of(&asked); i++) {
        TRY(set_layout(&asked, i));
        struct trial rows = asked, context = asked;
        int64_t most_rows, steps;
        TRY(largest(&most_rows, arena, &rows, &rows.rows, 1, MOST_ROWS));
        TRY(largest(&steps, arena, &context, &context.context, FIT_CONTEXT_STEP, MOST_STEPS));
        out->micro_batch = larger(out->micro_batch, most_rows);
        out->context = larger(out->context, steps * FIT_CONTEXT_STEP);
    }
    return OK;
}

// Of answers only the longest rows count here, which are as long as the context: how many there are
// and how long most of them are does not.
static const struct plan_request *with_answers(struct arena *arena,
                                               const struct plan_request *request)
{
    bool known = request->objective != OBJECTIVE_AUTO;
    if (!known || !objective_samples((enum objective_kind)request->objective))
        return request;
    struct plan_request *out = ARENA_NEW(arena, struct plan_request, 1);
    *out = *request;
    out->steps = 1, out->epochs = NAN;
    out->response_length = "1,1,1";
    if (out->context <= 0 && out->response_limit <= 0)
        out->context = (int64_t)workload_rule().context;
    return out;
}

// The plan of a request, and the trial of its configuration.
static enum err begin(struct trial *out, struct plan *plan, struct search_space *space,
                      struct arena *arena, const struct plan_data *data,
                      const struct plan_request *request)
{
    TRY(plan_begin(plan, arena, data, with_answers(arena, request)));
    if (objective_samples(plan->objective.kind))
        plan->rule.shapes = NULL, plan->rule.shape_count = 0;
    TRY(plan_space(space, plan));
    *out = (struct trial){ .plan = plan,
                           .space = space,
                           .recipe = space->recipe,
                           .rows = fmax(1, space->micro_batch),
                           .step_rows = space->global_batch,
                           .context = plan->rule.context };
    return OK;
}

// A number of GPUs that the request cannot be laid out on is skipped.
static void find_fewest(struct fit_fewest *out, struct arena *arena, const struct plan_data *data,
                        const struct plan_request *asked, int method)
{
    *out = (struct fit_fewest){ .gpus = -1 };
    for (int64_t gpus = 1; gpus <= FIT_MOST_GPUS && out->gpus < 1; gpus *= 2) {
        struct plan_request request = *asked;
        struct plan *plan = ARENA_NEW(arena, struct plan, 1);
        struct search_space space;
        struct trial trial;
        struct memory memory;
        request.recipe.method = method;
        request.gpus = gpus;
        request.nodes = PLAN_NOT_GIVEN;
        if (begin(&trial, plan, &space, arena, data, &request))
            continue;
        trial.sure = true;
        if (choose_checkpointing(&trial, arena) || plan_bytes(&memory, arena, &trial))
            continue;
        out->gpus = memory.fits ? gpus : 0;
        out->checkpointing = trial.recipe.checkpointing;
        out->layout = trial.layout;
        out->fit_probability = memory.fit_probability;
    }
}

enum err fit_make(struct fit *out, struct arena *arena, const struct plan_data *data,
                  const struct plan_request *request)
{
    struct plan *plan = ARENA_NEW(arena, struct plan, 1);
    struct search_space space;
    struct trial trial;
    TRY(begin(&trial, plan, &space, arena, data, request));
    trial.sure = true;
    TRY(choose_checkpointing(&trial, arena));
    trial.sure = false;
    struct setup setup = { .stack = plan->stack, .recipe = trial.recipe, .layout = trial.layout };
    *out = (struct fit){ .model = plan->model,
                         .stack = plan->stack,
                         .objective = plan->objective,
                         .gpu = space.gpu,
                         .recipe = estimate_recipe(&setup),
                         .layout = estimate_layout(&setup),
                         .micro_batch = trial.rows,
                         .context = trial.context,
                         .accumulation = workload_of(&trial).accumulation,
                         .chooses = space.recipe.checkpointing == RECIPE_AUTO,
                         .from = request->from };
    TRY(plan_bytes(&out->memory, arena, &trial));
    for (int i = 0; space.gpu && i < RECIPE_METHODS; i++)
        find_fewest(&out->fewest[i], arena, data, request, i);
    for (int level = RECIPE_KEEP_ALL; space.gpu && level <= RECIPE_RECOMPUTE; level++)
        if (fit_offers(out, level))
            TRY(find_largest(&out->largest[level], arena, trial, level));
    return OK;
}
