#include "core/plan/plan_internal.h"

#include <math.h>
#include <string.h>

enum { USUAL_GLOBAL_BATCH = 64 }; // rows per optimizer step where nothing is said

// --- reading the request -----------------------------------------------------

static enum err find_stack(struct plan *plan)
{
    const struct plan_request *request = plan->request;
    plan->stack = request->own_stack;
    if (plan->stack)
        return OK;
    return stack_find(&plan->stack, plan->data->stacks, plan->data->stack_count,
                      request->stack ? request->stack : stack_default(request->recipe.method));
}

static enum err find_batching(int *out, const struct plan *plan)
{
    const struct plan_request *request = plan->request;
    *out = request->batching;
    if (*out != BATCHING_AUTO)
        return OK;
    const char *packing = request->packing;
    if (packing && (!strcmp(packing, "on") || !strcmp(packing, "true")))
        return *out = BATCHING_PACKED, OK;
    if (packing && (!strcmp(packing, "off") || !strcmp(packing, "false")))
        return *out = BATCHING_LONGEST, OK;
    if (packing)
        return fail(ERR_USAGE, "--packing is \"%s\", must be on or off", packing);
    *out = plan->stack->batching;
    return OK;
}

static enum err make_rule(struct plan *plan, struct arena *arena)
{
    const struct plan_request *request = plan->request;
    struct workload_rule *rule = &plan->rule;
    *rule = workload_rule();
    rule->tokens = request->tokens > 0 ? (double)request->tokens : 0;
    rule->mean_length = request->mean_length;
    if (request->examples > 0)
        rule->examples = (double)request->examples;
    if (request->tokens < 0 && !isnan(rule->examples) && !isnan(request->mean_length))
        rule->tokens = rint(rule->examples * rule->mean_length);
    if (request->tokens < 0 && !isnan(rule->examples) && isnan(request->mean_length))
        return fail(ERR_USAGE, "--examples says how many rows, not how long they are; add --tokens "
                               "or --mean-length");
    if (!isnan(request->epochs))
        rule->epochs = request->epochs;
    if (request->context > 0)
        rule->context = (double)request->context;
    else if (plan->model->max_positions > 0)
        rule->context = fmin(rule->context, (double)plan->model->max_positions);
    if (!isnan(request->labelled_share))
        rule->labelled_share = request->labelled_share;
    TRY(find_batching(&rule->batching, plan));
    bool known = request->examples > 0 || !isnan(request->mean_length);
    bool said = request->batching != BATCHING_AUTO || request->packing;
    rule->full_rows = !known && (!said || rule->batching == BATCHING_PACKED);
    rule->token_spread = request->token_spread;
    if (request->lengths)
        TRY(workload_measure(rule, arena, request->lengths, plan->stack->trainer,
                             (uint64_t)request->seed));
    else if (request->shape_known)
        rule->shapes = request->shape_known, rule->shape_count = 1, rule->full_rows = false;
    else if (request->pilot && rule->full_rows)
        plan_rows_of_pilot(rule, arena, plan);
    return workload_check(rule);
}

static enum err make_overheads(struct plan *plan, const struct gpu *gpu)
{
    const struct plan_request *request = plan->request;
    const struct node *node = gpu ? catalog_node_of(&plan->data->catalog, gpu) : NULL;
    struct overheads *o = &plan->overheads;
    TRY(overhead_assume(o, &plan->data->catalog, node));
    const struct {
        struct assumption *assumption;
        double value;
        const char *option;
        bool positive; // zero would divide
    } settable[] = {
        { &o->startup_seconds, request->startup, "startup", false },
        { &o->compile_seconds, request->compile, "compile", false },
        { &o->storage_bytes_per_s, request->storage, "storage", true },
        { &o->eval_share, request->eval_share, "eval-share", false },
        { &o->evals_per_epoch, request->evals_per_epoch, "evals-per-epoch", false },
        { &o->retries, request->retries, "retries", false },
        { &o->failed_runs, request->failed_runs, "failed-runs", false },
        { &o->save_interval_seconds, request->save_interval, "save-interval", true },
        { &o->failures_per_gpu_hour, request->failures_per_gpu_hour, "failures-per-gpu-hour",
          false },
    };
    for (size_t i = 0; i < sizeof settable / sizeof *settable; i++) {
        double value = settable[i].value;
        if (value < 0 || (value == 0 && settable[i].positive) || value > 1e18)
            return fail(ERR_USAGE, "--%s is %g, must be %s", settable[i].option, value,
                        value > 1e18           ? "smaller"
                        : settable[i].positive ? "above 0"
                                               : "0 or more");
        *settable[i].assumption = assumption_given(*settable[i].assumption, value);
    }
    return OK;
}

// How many GPUs in all; 0 is left to the search.
static enum err count_gpus(struct search_space *space, const struct plan_request *request)
{
    space->gpus = request->gpus > 0 ? request->gpus : 0;
    if (request->nodes == PLAN_NOT_GIVEN)
        return OK;
    const struct node *node = space->gpu ? catalog_node_of(space->catalog, space->gpu) : NULL;
    if (!space->gpus)
        space->gpus = request->nodes * (node ? node->gpus : 8);
    if (space->gpus % request->nodes || space->gpus > PLAN_MOST_GPUS)
        return fail(ERR_USAGE, "--nodes is %lld, must divide the %lld GPUs of --gpus",
                    (long long)request->nodes, (long long)space->gpus);
    space->node_gpus = space->gpus / request->nodes;
    return OK;
}

// Whether the layout that the user asks for can split the model.
static enum err check_parallel(const struct search_space *space)
{
    const struct model *model = space->model;
    struct layout layout;
    if (!space->parallel || !space->gpus)
        return OK;
    TRY(layout_read(&layout, text_of(space->parallel), space->gpus));
    if (model->heads % layout.tensor)
        return fail(ERR_USAGE, "--parallel %s: the %lld heads of %s do not divide by %lld",
                    space->parallel, (long long)model->heads, model->name,
                    (long long)layout.tensor);
    if (layout.pipeline > model->layers)
        return fail(ERR_USAGE, "--parallel %s: %s has %lld layers", space->parallel, model->name,
                    (long long)model->layers);
    return OK;
}

static enum err make_space(struct search_space *out, struct plan *plan)
{
    const struct plan_request *request = plan->request;
    *out = (struct search_space){
        .catalog = &plan->data->catalog,
        .model = plan->model,
        .stack = plan->stack,
        .recipe = request->recipe,
        .rule = plan->rule,
        .efficiency = plan->prior,
        .carry = request->pilot ? &plan->carry : NULL,
        .overheads = &plan->overheads,
        .global_batch = request->global_batch > 0 ? (double)request->global_batch : 0,
        .usd_per_gpu_hour = request->price,
        .vendor = "nvidia",
    };
    if (request->gpu)
        TRY(catalog_gpu(&out->gpu, out->catalog, request->gpu));
    if (out->gpu)
        out->vendor = out->gpu->vendor;
    if (request->parallel && strcmp(request->parallel, "auto"))
        out->parallel = request->parallel;
    TRY(plan_request_rows(&out->micro_batch, request));
    if (!out->global_batch && !out->micro_batch)
        out->global_batch = USUAL_GLOBAL_BATCH;
    TRY(count_gpus(out, request));
    return check_parallel(out);
}

// Until a configuration is chosen, the efficiency is that of the pilot's own.
static enum err open_pilot(struct plan *plan, struct arena *arena)
{
    const struct plan_request *request = plan->request;
    const struct plan_data *data = plan->data;
    plan->efficiency = plan->prior;
    if (!request->pilot)
        return OK;
    TRY(transfer_open(&plan->carry, arena,
                      &(struct transfer_source){ .pilot = request->pilot,
                                                 .name = request->pilot_name,
                                                 .catalog = &data->catalog,
                                                 .stacks = data->stacks,
                                                 .stack_count = data->stack_count,
                                                 .efficiencies = data->efficiencies,
                                                 .efficiency_count = data->efficiency_count,
                                                 .model = plan->model,
                                                 .stack = plan->stack,
                                                 .rule = &plan->rule }));
    struct transferred own;
    transfer_to(&own, &plan->carry, arena, &plan->carry.setup);
    if (plan->carry.setup.stack == plan->stack)
        plan->efficiency = own.efficiency;
    return OK;
}

// --- choosing ----------------------------------------------------------------

// What comes nearest to fitting: as the request says, else one row, everything computed again and
// spread as widely as it goes.
static enum err nearest(struct search_result *out, struct arena *arena,
                        const struct search_space *space, const struct plan *plan)
{
    int64_t gpus = space->gpus ? space->gpus : 1;
    const struct gpu *gpu = space->gpu;
    for (size_t i = 0; !gpu && i < space->catalog->gpu_count; i++)
        if (!strcmp(space->catalog->gpus[i].vendor, space->vendor) &&
            (!gpu || space->catalog->gpus[i].memory_bytes > gpu->memory_bytes))
            gpu = &space->catalog->gpus[i];
    const struct node *node = catalog_node_of(space->catalog, gpu);
    *out = (struct search_result){ .gpu = gpu, .gpus = gpus, .recipe = space->recipe };
    if (node)
        out->node = *node;
    TRY(layout_read(&out->layout,
                    text_of(space->parallel ? space->parallel
                            : gpus > 1      ? "fsdp"
                                            : "single"),
                    gpus));
    if (out->recipe.checkpointing == RECIPE_AUTO)
        out->recipe.checkpointing = RECIPE_RECOMPUTE;
    workload_make(&out->workload, &plan->rule, fmax(1, space->micro_batch),
                  (double)out->layout.data, space->global_batch);
    struct setup setup = search_setup(out, space->model, space->stack);
    struct estimate estimate;
    TRY(estimate_make(&estimate, arena, &setup));
    out->memory = estimate.memory;
    out->tokens_per_s = estimate.tokens_per_s * exp(plan->efficiency.log_mid);
    return OK;
}

static const struct search_result *cheapest(const struct search *search)
{
    const struct search_result *best = NULL;
    for (size_t i = 0; i < search->count; i++) {
        const struct search_result *r = &search->best[i];
        bool better = !best || (r->stable && !best->stable) ||
                      (r->stable == best->stable && !isnan(r->cost_usd) &&
                       (isnan(best->cost_usd) || r->cost_usd < best->cost_usd));
        if (better && !(best && best->stable && !r->stable))
            best = r;
    }
    return best;
}

static enum err choose(struct plan *plan, struct arena *arena, const struct search_space *space)
{
    const struct plan_request *request = plan->request;
    struct search search;
    TRY(search_run(&search, arena, space));
    const struct search_result *best = NULL;
    double wall_hours = request->deadline / 3600;
    plan->fits = search.count > 0;
    if (!plan->fits)
        return nearest(&plan->chosen, arena, space, plan);
    bool limits = !isnan(request->deadline) || !isnan(request->budget);
    // First one that is in time even if the stack is slow, then one that is at its middle.
    double slow = exp(STATS_P90 * plan->efficiency.log_spread);
    if (limits || (space->gpu && !space->gpus))
        best = search_smallest(&search, wall_hours / slow, request->budget);
    if (!best && limits)
        best = search_smallest(&search, wall_hours, request->budget);
    if (!best && limits) // none keeps them: the one that ends first
        for (size_t i = 0; i < search.count; i++)
            if (!best || search.best[i].wall_hours < best->wall_hours)
                best = &search.best[i];
    plan->chosen = best ? *best : *cheapest(&search);
    if (request->search && !space->gpu && !space->gpus)
        plan->search = search;
    return OK;
}

// --- the forecast of what was chosen -----------------------------------------

static struct transferred carried_to(const struct plan *plan, struct arena *arena,
                                     const struct setup *setup)
{
    struct transferred carried = { .efficiency = plan->prior };
    if (!plan->request->pilot)
        return carried;
    transfer_to(&carried, &plan->carry, arena, setup);
    if (!carried.same_stack)
        carried.efficiency = plan->prior;
    return carried;
}

struct forecast_input plan_input(const struct plan *plan, struct arena *arena,
                                 const struct search_result *result, const struct setup *setup,
                                 const struct estimate *estimate)
{
    struct transferred carried = carried_to(plan, arena, setup);
    struct forecast_input input = {
        .roofline_tokens_per_s = estimate->tokens_per_s,
        .efficiency = carried.efficiency,
        .processed_tokens = result->workload.processed_tokens,
        .processed_factor = result->workload.processed_factor,
        .overheads = plan->overheads,
        .seed = (uint64_t)plan->request->seed,
    };
    input.overheads.epochs = result->workload.epochs;
    overhead_configure(&input.overheads, setup, &estimate->step);
    const struct pilot *pilot = plan->request->pilot;
    if (pilot && carried.weight == 1 && pilot->apart.evaluation_seconds_per_token > 0)
        input.overheads.eval_cost =
            pilot->apart.evaluation_seconds_per_token * pilot->tokens_per_s.mean;
    // On an H200 6.7 of 14 s for new widths were in four stalls and the first step, which a pilot
    // sets apart; the rest is in its ordinary steps, and so in its rate.
    if (pilot && carried.weight == 1 && plan->carry.setup.varied_widths)
        input.overheads.allocation_seconds *= 0.5;
    return input;
}

struct price plan_price(const struct plan *plan, struct arena *arena,
                        const struct search_result *result)
{
    return isnan(plan->request->price)
               ? price_find(arena, &plan->data->catalog, result->gpu, (double)result->gpus)
               : price_given(arena, plan->request->price);
}

static enum err forecast(struct plan *plan, struct arena *arena)
{
    struct setup setup = search_setup(&plan->chosen, plan->model, plan->stack);
    TRY(estimate_make(&plan->estimate, arena, &setup));
    plan->price = plan_price(plan, arena, &plan->chosen);
    plan->carried = carried_to(plan, arena, &setup);
    plan->efficiency = plan->carried.efficiency;
    struct forecast_input input = plan_input(plan, arena, &plan->chosen, &setup, &plan->estimate);
    input.price = plan->price;
    plan->overheads = input.overheads;
    forecast_make(&plan->forecast, arena, &input);
    struct search_result *chosen = &plan->chosen;
    chosen->wall_hours = plan->forecast.wall_hours.mid;
    chosen->gpu_hours = plan->forecast.gpu_hours.mid;
    chosen->cost_usd = plan->forecast.cost_usd.mid;
    chosen->seconds_per_step = plan->estimate.timing.step_seconds / exp(plan->efficiency.log_mid);
    plan->meets_deadline = !(plan->forecast.wall_hours.mid * 3600 > plan->request->deadline);
    plan->meets_budget = !(plan->forecast.cost_usd.mid > plan->request->budget);
    return OK;
}

enum err plan_make(struct plan *out, struct arena *arena, const struct plan_data *data,
                   const struct plan_request *request)
{
    *out = (struct plan){ .request = request, .data = data, .model = request->shape };
    out->advice.arena = arena;
    TRY(plan_request_check(request));
    if (!out->model)
        TRY(catalog_model(&out->model, &data->catalog, request->model));
    TRY(recipe_check(&request->recipe, out->model));
    TRY(find_stack(out));
    out->prior = calibration_of(data->efficiencies, data->efficiency_count, out->stack);
    TRY(make_rule(out, arena));
    TRY(open_pilot(out, arena));
    struct search_space space;
    TRY(make_overheads(out, NULL));
    TRY(make_space(&space, out));
    if (space.gpu)
        TRY(make_overheads(out, space.gpu));
    TRY(choose(out, arena, &space));
    TRY(forecast(out, arena));
    TRY(plan_compare(out, arena, &space));
    plan_assume(out);
    advice_give(&out->advice, out);
    return OK;
}
