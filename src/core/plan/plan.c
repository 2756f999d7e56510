// SPDX-License-Identifier: Apache-2.0
// Makes a plan: searches, chooses a configuration by the stated goal, and forecasts it.

#include "core/plan/plan_internal.h"

#include <math.h>
#include <string.h>

// A step of reinforcement learning is sampled and trained by different programs: the pilot's rate
// becomes that of the training alone, and the other phases are carried to the run each by its own
// ratio of measured to planned seconds. The time to sample is taken to grow with the answers.
static enum err part_phases(struct pilot *out, struct plan *plan)
{
    const struct pilot_phases *measured = &out->phases, *planned = &out->planned;
    struct rollout *r = &plan->rollout;
    double trainer = pilot_trainer_seconds(out);
    if (!(trainer > 0))
        return fail(ERR_INPUT,
                    "%s: does not tell the phases of its steps apart (verl, NeMo-RL and OpenRLHF "
                    "print them, TRL does not); plan without --pilot, and follow the run with "
                    "gpuhours watch",
                    plan->request->pilot_name);
    if (!(planned->rollout > 0))
        return fail(
            ERR_INPUT,
            "%s: was measured without --plan, so the forecast time of sampling is not known; "
            "run the pilot again with --plan plan.json",
            plan->request->pilot_name);
    double faster = out->step_seconds.mean / trainer;
    out->tokens_per_s.mean *= faster;
    out->tokens_per_s.low *= faster;
    out->tokens_per_s.high *= faster;
    out->step_seconds.mean = trainer;
    double longer = out->answer_tokens > 0 ? out->answer_tokens / rollout_mean_length(r) : 1;
    r->measured = measured->rollout / (planned->rollout * longer);
    if (measured->weight_update > 0 && planned->weight_update > 0)
        r->transfer_measured = measured->weight_update / planned->weight_update;
    return OK;
}

// Until a configuration is chosen, the efficiency is that of the pilot's own configuration.
static enum err open_pilot(struct plan *plan, struct arena *arena)
{
    const struct plan_request *request = plan->request;
    const struct plan_data *data = plan->data;
    plan->efficiency = plan->prior;
    if (!request->pilot)
        return OK;
    struct pilot *pilot = ARENA_NEW(arena, struct pilot, 1);
    *pilot = *request->pilot;
    TRY(objective_check_pilot(plan->objective.kind, pilot->objective, request->pilot_name));
    if (objective_samples(plan->objective.kind))
        TRY(part_phases(pilot, plan));
    struct step_passes passes = plan_passes(plan, &pilot->configuration.recipe);
    passes.rollout = NULL, passes.sampling = NULL;
    TRY(transfer_open(&plan->transfer, arena,
                      &(struct transfer_source){ .pilot = pilot,
                                                 .passes = passes,
                                                 .name = request->pilot_name,
                                                 .catalog = &data->catalog,
                                                 .stacks = data->stacks,
                                                 .stack_count = data->stack_count,
                                                 .calibration = &data->calibration,
                                                 .model = plan->model,
                                                 .stack = plan->stack,
                                                 .rule = &plan->rule }));
    struct transferred own;
    transfer_to(&own, &plan->transfer, arena, &plan->transfer.setup);
    if (plan->transfer.setup.stack == plan->stack)
        plan->efficiency = own.efficiency;
    plan->rollout.efficiency = exp(plan->efficiency.log_mid);
    return OK;
}

// --- choosing ----------------------------------------------------------------

// Where nothing is stable: the result most likely to fit, with the most room on its card.
static const struct search_result *roomiest(const struct search *search)
{
    const struct search_result *best = &search->best[0];
    double least = INFINITY;
    for (size_t i = 0; i < search->count; i++) {
        const struct memory *memory = &search->best[i].memory;
        double needed = memory_needed_bytes(memory) / memory->device_bytes;
        if (needed < least)
            least = needed, best = &search->best[i];
    }
    return best;
}

// The fewest GPU hours, and of those that need no more the fewest GPUs.
static enum err leanest(struct search_result *out, bool *found, struct plan *plan,
                        struct arena *arena, const struct search *search)
{
    const double no_more = 1.01; // the search compares times to about as much
    TRY(plan_least(out, found, plan, arena, search, PLAN_FEWEST_GPU_HOURS));
    double least = out->gpu_hours;
    for (size_t i = 0; *found && i < search->count; i++) {
        struct search_result *r = &search->best[i], fewer;
        if (!r->stable || r->gpus >= out->gpus || r->gpu_hours > 1.1 * least)
            continue;
        TRY(plan_sample(&fewer, plan, arena, r));
        if (fewer.gpu_hours <= no_more * least)
            *out = fewer;
    }
    return OK;
}

// The search keeps one configuration of each card and number of GPUs by middle values. Of the GPUs
// that were chosen, the settings that a search of them alone finds, where their median is less.
static enum err refine(struct plan *plan, struct arena *arena, const struct search_space *space)
{
    struct search_space own = *space;
    struct search search;
    own.gpu = plan->chosen.gpu;
    own.gpus = plan->chosen.gpus;
    own.global_batch = plan->chosen.workload.global_batch;
    TRY(search_run(&search, arena, &own));
    if (!search.count || !search.best[0].stable)
        return OK;
    TRY(plan_settle(plan, arena, &search.best[0]));
    if (search.best[0].gpu_hours < plan->chosen.gpu_hours)
        plan->chosen = search.best[0];
    return OK;
}

// By the goal: within deadline and budget where they are given, else the cheapest, or the fewest
// GPU hours where a GPU was named or nothing has a price. All of these are stable.
static enum err choose_result(struct plan *plan, struct arena *arena, const struct search *search,
                              const struct search_space *space)
{
    const struct plan_request *request = plan->request;
    bool found = false;
    bool limited = !isnan(request->deadline) || !isnan(request->budget);
    if (limited) {
        TRY(plan_within(&plan->chosen, &found, plan, arena, search, request->deadline,
                        request->budget));
        if (!found && !isnan(request->deadline) && !isnan(request->budget)) // the deadline first
            TRY(plan_within(&plan->chosen, &found, plan, arena, search, request->deadline, NAN));
        if (!found)
            TRY(plan_least(&plan->chosen, &found, plan, arena, search,
                           isnan(request->deadline) ? PLAN_CHEAPEST : PLAN_FASTEST));
    } else if (!space->gpu) {
        TRY(plan_least(&plan->chosen, &found, plan, arena, search, PLAN_CHEAPEST));
    }
    if (!found)
        TRY(leanest(&plan->chosen, &found, plan, arena, search));
    bool open = !space->gpu || !space->gpus;
    if (found && open && !limited) // limits are kept by P90, which a lower median does not promise
        return refine(plan, arena, space);
    if (!found)
        plan->chosen = *roomiest(search);
    return OK;
}

static enum err choose(struct plan *plan, struct arena *arena, const struct search_space *space)
{
    const struct plan_request *request = plan->request;
    struct search search;
    TRY(search_run(&search, arena, space));
    if (!search.considered) { // no number of GPUs makes exactly the global batch that was given
        struct search_space any_batch = *space;
        any_batch.batch_tolerance = INFINITY;
        TRY(search_run(&search, arena, &any_batch));
    }
    plan->fits = search.count > 0;
    if (!plan->fits && !search.closest.gpu)
        return fail(
            ERR_USAGE,
            "--parallel %s: cannot be spread over 1, 2, 4 … or 64 GPUs; --gpus sets another "
            "number",
            space->parallel ? space->parallel : "auto");
    if (!plan->fits)
        plan->chosen = search.closest;
    else
        TRY(choose_result(plan, arena, &search, space));
    if (request->search && !space->gpu && !space->gpus)
        plan->search = search;
    if (plan->chosen.passes.rollout)
        plan->rollout = *plan->chosen.passes.rollout;
    return OK;
}

// --- the forecast of what was chosen -----------------------------------------

static struct transferred transferred_to(const struct plan *plan, struct arena *arena,
                                         const struct setup *setup)
{
    struct transferred to = { 0 };
    if (plan->request->pilot)
        transfer_to(&to, &plan->transfer, arena, setup);
    struct efficiency published = calibration_at(&plan->data->calibration, setup);
    if (!to.same_stack)
        to.efficiency = prior_at(&plan->data->ledger, &published, setup);
    // A pilot that tells the phases apart leaves how answers change while the run learns: assumed.
    bool samples = objective_samples(plan->objective.kind);
    double spread = !to.same_stack ? objective_spread(plan->objective.kind) : samples ? 0.1 : 0;
    efficiency_widen(&to.efficiency, spread);
    return to;
}

enum err plan_input(struct forecast_input *out, const struct plan *plan, struct arena *arena,
                    const struct search_result *result, const struct setup *setup,
                    const struct estimate *estimate)
{
    struct transferred to = transferred_to(plan, arena, setup);
    *out = (struct forecast_input){
        .roofline_tokens_per_s = estimate->tokens_per_s,
        .efficiency = to.efficiency,
        .processed_tokens = result->workload.processed_tokens,
        .overheads = plan->overheads,
    };
    if (plan->prompts[0].length > 0)
        TRY(plan_prompts_factor(&out->lengths_factor, plan, arena, setup, &result->workload));
    else
        TRY(lengths_factor(&out->lengths_factor, arena, &plan->rule, setup, &result->workload));
    overhead_pace(&out->overheads, result->workload.epochs, result->workload.steps);
    overhead_configure(&out->overheads, setup, &estimate->step, estimate->timing.evaluation_share);
    plan_take_measured(&out->overheads, plan, &to);
    return OK;
}

struct price plan_price(const struct plan *plan, struct arena *arena,
                        const struct search_result *result)
{
    return isnan(plan->request->price)
               ? price_find(arena, &plan->data->catalog, result->gpu, (double)result->gpus)
               : price_given(arena, plan->request->price);
}

const struct range *plan_wall_hours(const struct plan *plan)
{
    return plan->sweep.runs ? &plan->sweep.wall_hours : &plan->forecast.wall_hours;
}

const struct range *plan_cost_usd(const struct plan *plan)
{
    return plan->sweep.runs ? &plan->sweep.cost_usd : &plan->forecast.cost_usd;
}

// The pilot that is proposed takes as long as this plan's steps do.
static void name_pilot(struct plan *plan, struct arena *arena)
{
    for (int i = 0; i < FORECAST_DRIVERS; i++) {
        struct forecast_driver *driver = &plan->forecast.drivers[i];
        if (driver->kind == FORECAST_EFFICIENCY && driver->measurement)
            driver->measurement =
                text_format(arena, "the speed, with %s", plan_pilot_length(plan, arena));
    }
}

static enum err forecast(struct plan *plan, struct arena *arena)
{
    struct setup setup = search_setup(&plan->chosen, plan->model, plan->stack);
    TRY(estimate_make(&plan->estimate, arena, &setup));
    TRY(plan_check_sampler(plan));
    plan->price = plan_price(plan, arena, &plan->chosen);
    plan->place = calibration_place(&plan->data->calibration, &setup);
    plan->prior = calibration_at(&plan->data->calibration, &setup);
    plan->transferred = transferred_to(plan, arena, &setup);
    plan->efficiency = plan->transferred.efficiency;
    struct forecast_input input;
    TRY(plan_input(&input, plan, arena, &plan->chosen, &setup, &plan->estimate));
    input.price = plan->price;
    plan->lengths_factor = input.lengths_factor;
    plan->overheads = input.overheads;
    forecast_make(&plan->forecast, arena, &input, &plan->samples);
    if (plan->request->runs > 1)
        forecast_sweep(&plan->sweep, arena, &input, &plan->samples, plan->request->runs,
                       plan->request->parallel_runs > 0 ? plan->request->parallel_runs : 1);
    plan->gpu_hours_without_ledger = plan->forecast.gpu_hours;
    if (plan->efficiency.own) {
        struct forecast *without = ARENA_NEW(arena, struct forecast, 1);
        input.efficiency = plan->prior;
        forecast_make(without, arena, &input, &plan->samples);
        plan->gpu_hours_without_ledger = without->gpu_hours;
    }
    struct search_result *chosen = &plan->chosen;
    chosen->sampled = true;
    chosen->wall_hours = plan->forecast.wall_hours.mid;
    chosen->gpu_hours = plan->forecast.gpu_hours.mid;
    chosen->cost_usd = plan->forecast.cost_usd.mid;
    chosen->tokens_per_s = plan->estimate.tokens_per_s * exp(plan->efficiency.log_mid);
    chosen->seconds_per_step = plan->estimate.timing.step_seconds / exp(plan->efficiency.log_mid);
    name_pilot(plan, arena);
    TRY(objective_phases(&plan->phases, arena, &setup, exp(plan->efficiency.log_mid)));
    plan->meets_deadline = !(plan_wall_hours(plan)->mid * 3600 > plan->request->deadline);
    plan->meets_budget = !(plan_cost_usd(plan)->mid > plan->request->budget);
    return OK;
}

enum err plan_verdict(const struct plan *plan)
{
    bool yes = plan->fits && plan->meets_deadline && plan->meets_budget;
    return yes ? OK : fail(ERR_ANSWER, "%s", ""); // the answer itself says why not
}

// Without tokens there is no run. A pilot may know those of the plan that it measured.
static enum err check_tokens(const struct plan *plan)
{
    const struct plan_request *request = plan->request;
    if (plan->rule.tokens >= 1 || !request->pilot)
        return workload_check(&plan->rule);
    return fail(ERR_USAGE,
                "%s was not made from a plan and does not say how many tokens there are to train "
                "on; add the data, --profile profile.json, --plan plan.json or --tokens 21.4M",
                request->pilot_name ? request->pilot_name : "the pilot");
}

enum err plan_make(struct plan *out, struct arena *arena, const struct plan_data *data,
                   const struct plan_request *request)
{
    TRY(plan_begin(out, arena, data, request));
    TRY(check_tokens(out));
    TRY(open_pilot(out, arena));
    struct search_space space;
    TRY(plan_space(&space, out));
    forecast_sample(&out->samples, arena, &out->overheads, (uint64_t)request->seed);
    TRY(choose(out, arena, &space));
    TRY(forecast(out, arena));
    TRY(plan_compare(out, arena, &space));
    plan_assume(out);
    advice_give(&out->advice, out);
    return OK;
}
