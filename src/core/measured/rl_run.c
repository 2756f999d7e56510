// SPDX-License-Identifier: Apache-2.0
// Reads published steps of preference tuning and reinforcement learning, and forecasts them as they
// were laid out.

#include "core/measured/rl_run.h"

#include "base/stats.h"
#include "core/objective/objective.h"
#include "core/objective/rollout.h"

#include <math.h>
#include <string.h>

static const double prompt_tokens = 150, length_spread = 0.6; // assumed: math questions
enum { GENERATIONS = 16 };

const struct field rl_run_fields[] = {
    FIELD_NEEDED(rl_run, id, TEXT, "name of the row"),
    FIELD_NEEDED(rl_run, source, TEXT, "where it was published"),
    FIELD_NEEDED(rl_run, objective, TEXT, "what was optimised"),
    FIELD(rl_run, model, TEXT, "as in the catalog"),
    FIELD(rl_run, stack, TEXT, "as in stacks.json"),
    FIELD(rl_run, gpu, TEXT, "card"),
    FIELD(rl_run, gpus, COUNT, "cards"),
    FIELD(rl_run, sampler_gpus, COUNT, "of these, that only sampled"),
    FIELD(rl_run, async_steps, COUNT, "steps that answers were behind"),
    FIELD(rl_run, context, NUMBER, "most tokens of prompt and answer"),
    FIELD(rl_run, answers, NUMBER, "sampled in a step"),
    FIELD(rl_run, train_batch, NUMBER, "answers of one update of the weights"),
    FIELD(rl_run, mean_tokens, NUMBER, "of prompt and answer"),
    FIELD(rl_run, engine_gpus, COUNT, "of one engine that samples"),
    FIELD(rl_run, tensor, COUNT, "tensor parallelism of the trainer"),
    FIELD(rl_run, context_parallel, COUNT, "context parallelism of the trainer"),
    FIELD(rl_run, expert, COUNT, "expert parallelism of the trainer"),
    FIELD(rl_run, pipeline, COUNT, "pipeline stages of the trainer"),
    FIELD(rl_run, micro_batch, COUNT, "rows, each padded to the context"),
    FIELD(rl_run, method, TEXT, "full unless given"),
    FIELD(rl_run, checkpointing, TEXT, "full unless given"),
    FIELD(rl_run, zero, COUNT, "stage of ZeRO"),
    FIELD(rl_run, offload, TEXT, "what lies in the host's memory: optimizer"),
    FIELD(rl_run, models, COUNT, "trained in turns on these GPUs"),
    FIELD(rl_run, metric, TEXT, "what was measured"),
    FIELD(rl_run, measured, NUMBER, "value of the metric"),
    FIELD(rl_run, excluded, TEXT, "why the row is not compared"),
    { 0 },
};

enum err rl_run_read(struct rl_run **out, size_t *count, struct arena *arena, struct text csv,
                     const char *name)
{
    void *rows;
    TRY(field_read_csv(rl_run_fields, sizeof(struct rl_run), &rows, count, arena, csv, name));
    *out = rows;
    return OK;
}

// Answers of that mean, cut at the context.
static struct rollout rollout_of(const struct rl_run *run, double efficiency)
{
    struct rollout r = { .sampler = &samplers[0],
                         .generations = GENERATIONS,
                         .prompts = run->answers / GENERATIONS,
                         .prompt_length = prompt_tokens,
                         .tensor = (double)run->engine_gpus,
                         .limit = run->context - prompt_tokens,
                         .gpus = (double)run->sampler_gpus,
                         .async_steps = (double)run->async_steps,
                         .efficiency = efficiency };
    double low = 1, high = 1e6;
    for (int i = 0; i < 60; i++) {
        r.p50 = sqrt(low * high);
        r.p10 = r.p50 * exp(-length_spread * STATS_P90);
        r.p90 = r.p50 * exp(length_spread * STATS_P90);
        *(rollout_mean_length(&r) < run->mean_tokens - prompt_tokens ? &low : &high) = r.p50;
    }
    return r;
}

// The objective that a row names; grpo's settings are told apart by their rows' own numbers.
static enum objective_kind kind_of(const struct rl_run *run)
{
    int kind = 0;
    while (kind < OBJECTIVES && strcmp(objective_names[kind], run->objective) != 0)
        kind++;
    return kind < OBJECTIVES ? (enum objective_kind)kind : OBJECTIVE_GRPO;
}

enum rl_run_group rl_run_group(const struct rl_run *run)
{
    if (!objective_samples(kind_of(run)))
        return RL_RUN_PREFERENCE;
    return strcmp(run->metric, "training_s") ? RL_RUN_STEP : RL_RUN_TRAINING;
}

static enum err setup_of(struct setup *out, const struct rl_run *run,
                         const struct validate_model *model)
{
    *out = (struct setup){ .recipe = recipe_default(), .layout = layout_single() };
    TRY(catalog_model(&out->model, model->catalog, run->model));
    TRY(catalog_gpu(&out->gpu, model->catalog, run->gpu));
    TRY(stack_find(&out->stack, model->stacks, model->stack_count, run->stack));
    out->node = catalog_node_of(model->catalog, out->gpu);
    out->recipe.method = run->method ? RECIPE_LORA : RECIPE_FULL;
    out->recipe.checkpointing = run->checkpointing ? RECIPE_KEEP_ALL : RECIPE_RECOMPUTE;
    out->layout.tensor = run->tensor;
    out->layout.context = run->context_parallel;
    out->layout.expert = run->expert;
    out->layout.pipeline = run->pipeline;
    out->layout.data =
        (run->gpus - run->sampler_gpus) / (run->tensor * run->context_parallel * run->pipeline);
    if (out->layout.data < 1)
        return fail(ERR_INPUT, "%s: its layout needs more GPUs than train", run->id);
    out->layout.zero = run->zero > 0 ? (int)run->zero : 1;
    out->layout.offload_optimizer = run->offload != NULL;
    out->batch = step_batch(run->micro_batch > 0 ? (double)run->micro_batch : 1, run->context);
    out->batch.squares = out->batch.tokens * run->mean_tokens; // packed answers
    out->accumulation =
        fmax(1, run->answers * run->mean_tokens / out->batch.tokens / (double)out->layout.data);
    return OK;
}

static double seconds_of(const struct objective_phases *phases, const char *name)
{
    for (size_t i = 0; i < phases->count; i++)
        if (!strcmp(phases->items[i].name, name))
            return phases->items[i].seconds;
    return 0;
}

// Training of one model, with its update and what it waits for.
static double training_of(const struct objective_phases *phases)
{
    return seconds_of(phases, "training") + seconds_of(phases, "weight update") +
           seconds_of(phases, "waiting");
}

static enum err forecast_phase(double *out, struct arena *arena, const struct setup *setup,
                               const struct rl_run *run, double efficiency)
{
    struct objective_phases phases;
    TRY(objective_phases(&phases, arena, setup, efficiency));
    double training = training_of(&phases);
    *out = strcmp(run->metric, "reference_share") ? (double)run->models * training
                                                  : seconds_of(&phases, "reference") / training;
    return OK;
}

static enum err forecast_step(double *out, struct arena *arena, struct setup *setup,
                              const struct rl_run *run, double efficiency)
{
    struct estimate estimate;
    struct rollout rollout;
    if (objective_samples(kind_of(run))) {
        rollout = rollout_of(run, efficiency);
        setup->passes.rollout = &rollout;
        setup->passes.sampling = rollout_sampling;
    }
    TRY(estimate_make(&estimate, arena, setup));
    *out = estimate.timing.step_seconds / efficiency;
    return OK;
}

enum err rl_run_forecast(struct range *out, struct arena *arena, const struct rl_run *run,
                         const struct validate_model *model, const struct calibration *calibration)
{
    struct setup setup;
    if (run->excluded)
        return fail(ERR_INPUT, "%s: %s", run->id, run->excluded);
    TRY(setup_of(&setup, run, model));
    struct efficiency efficiency = calibration_at(calibration, &setup);
    struct objective objective = { .kind = kind_of(run) };
    setup.passes = objective_passes(&objective, &setup.recipe, setup.stack, 1);
    setup.passes.critic = 0;        // trained as another model
    setup.passes.frozen_copies = 0; // swapped in from the host's memory
    setup.passes.updates = run->train_batch > 0 ? run->answers / run->train_batch : 1;
    bool whole = !strcmp(run->metric, "step_time_s");
    double mid;
    if (whole)
        TRY(forecast_step(&mid, arena, &setup, run, exp(efficiency.log_mid)));
    else
        TRY(forecast_phase(&mid, arena, &setup, run, exp(efficiency.log_mid)));
    efficiency_widen(&efficiency, objective_spread(objective.kind));
    *out = (struct range){ mid / exp(STATS_P90 * efficiency.log_spread), mid,
                           mid * efficiency_slowdown(&efficiency) };
    return OK;
}
