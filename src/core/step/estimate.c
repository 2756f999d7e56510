// SPDX-License-Identifier: Apache-2.0
// Fills in a recipe from the stack, lists the step, and adds up its bytes and seconds.

#include "core/step/estimate.h"

#include <math.h>

// PyTorch's optimizers make states of the weights' data type; one with master copies has its own.
static int states_of_full(const struct stack *stack, const struct recipe *recipe)
{
    bool own = stack->copies_weights || stack->exact_gradients || recipe->weights == RECIPE_FP8;
    return own ? stack->states : recipe->weights;
}

struct recipe estimate_recipe(const struct setup *setup)
{
    const struct stack *stack = setup->stack;
    struct recipe recipe = setup->recipe;
    if (recipe.checkpointing == RECIPE_AUTO)
        recipe.checkpointing = stack->checkpointing;
    if (recipe.experts == RECIPE_EXPERTS_AUTO)
        recipe.experts = setup->model ? stack_experts(stack, setup->model) : stack->experts;
    bool one_tensor = setup->model && setup->model->experts && setup->model->fused_gate_up;
    recipe.skips_experts = one_tensor && stack->adapts_modules;
    if (recipe.adapter_dtype == RECIPE_DTYPE_AUTO)
        recipe.adapter_dtype = stack->adapter_dtype;
    // An optimizer with a master copy has one of adapters too (DeepSpeed, Megatron, our engine).
    bool as_full = recipe.method == RECIPE_FULL || stack->copies_weights || stack->exact_gradients;
    if (recipe.weights == RECIPE_DTYPE_AUTO)
        recipe.weights = as_full ? stack->weights : recipe.adapter_dtype;
    if (recipe.states == RECIPE_DTYPE_AUTO)
        recipe.states = as_full ? states_of_full(stack, &recipe) : recipe.adapter_dtype;
    if (stack_is_engine(stack) && recipe.states == RECIPE_BF16)
        recipe.weights = RECIPE_BF16; // our engine has no masters then
    if (isnan(recipe.dropout))
        recipe.dropout = stack->dropout;
    if (recipe.precision == RECIPE_FP32)
        recipe.weights = recipe.states = recipe.adapter_dtype = RECIPE_FP32;
    return recipe;
}

struct layout estimate_unsharded(const struct layout *layout, const struct stack *stack)
{
    struct layout out = *layout;
    bool offloads = layout->offload_optimizer || layout->offload_weights;
    if (layout_gpus(layout) == 1 && stack->fetches == STACK_FETCHES_UNITS && !offloads) {
        out.zero = 0;
        out.shard_group = 0;
        out.sync_each_batch = false;
    }
    return out;
}

struct layout estimate_layout(const struct setup *setup)
{
    struct layout layout = estimate_unsharded(&setup->layout, setup->stack);
    if (layout.zero == 0 && layout.data > 1)
        layout.zero = (int)setup->stack->zero;
    bool recomputes = estimate_recipe(setup).checkpointing == RECIPE_RECOMPUTE;
    layout.offload_activations |= recomputes && setup->stack->offloads_checkpoints;
    return layout;
}

static struct step_request request_of(const struct setup *setup, const struct recipe *recipe,
                                      const struct layout *layout)
{
    return (struct step_request){
        .model = setup->model,
        .recipe = recipe,
        .layout = layout,
        .stack = setup->stack,
        .batch = setup->batch,
        .accumulation = setup->accumulation,
        .passes = setup->passes,
        .lighter_share = setup->lighter_share,
    };
}

// What the engine recomputes where nobody says: by what fits, as memory has it.
static void take_filled(struct recipe *recipe, struct step_request *request,
                        const struct memory *memory)
{
    if (!(memory->filled.total_bytes > 0))
        return;
    recipe->checkpointing = memory->filled.level;
    request->lighter_share = (double)memory->filled.lighter / (double)request->model->layers;
}

enum err estimate_memory(struct memory *out, struct arena *arena, const struct setup *setup)
{
    struct arena_mark mark = arena_mark(arena);
    struct recipe recipe = estimate_recipe(setup);
    struct layout layout = estimate_layout(setup);
    struct step_request request = request_of(setup, &recipe, &layout);
    if (setup->worst.tokens > 0)
        request.batch = setup->worst;
    struct memory_device device = memory_device(setup->gpu, setup->varied_widths);
    struct step step;
    TRY(step_list(&step, arena, &request));
    memory_plan(out, &step, &request, &device);
    memory_fill(out, &request, &device);
    arena_rewind(arena, mark);
    return OK;
}

enum err estimate_make(struct estimate *out, struct arena *arena, const struct setup *setup)
{
    struct recipe recipe = estimate_recipe(setup);
    TRY(recipe_check(&recipe, setup->model));
    struct layout layout = estimate_layout(setup);
    struct step_request request = request_of(setup, &recipe, &layout);
    TRY(estimate_memory(&out->memory, arena, setup));
    if (setup->fills)
        take_filled(&recipe, &request, &out->memory);
    if (!setup->gpu && setup->worst.tokens > 0)
        request.batch = setup->worst;
    TRY(step_list(&out->step, arena, &request));
    out->timing = (struct timing){ .evaluation_share = NAN };
    out->tokens_per_s = NAN;
    if (!setup->gpu)
        return OK;
    struct links links = network_links(setup->gpu, setup->node);
    compute_time(&out->timing, &out->step, &request, setup->gpu, &links);
    out->tokens_per_s = compute_tokens_per_s(&out->timing, &request);
    return OK;
}
