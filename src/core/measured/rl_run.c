// SPDX-License-Identifier: Apache-2.0
// Reads published steps of reinforcement learning, and forecasts them as they were laid out.

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
    FIELD(rl_run, mean_tokens, NUMBER, "of prompt and answer"),
    FIELD(rl_run, engine_gpus, COUNT, "of one engine that samples"),
    FIELD(rl_run, tensor, COUNT, "tensor parallelism of the trainer"),
    FIELD(rl_run, context_parallel, COUNT, "context parallelism of the trainer"),
    FIELD(rl_run, expert, COUNT, "expert parallelism of the trainer"),
    FIELD(rl_run, pipeline, COUNT, "pipeline stages of the trainer"),
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

static enum err setup_of(struct setup *out, const struct rl_run *run,
                         const struct validate_model *model)
{
    *out = (struct setup){ .recipe = recipe_default(), .layout = layout_single() };
    TRY(catalog_model(&out->model, model->catalog, run->model));
    TRY(catalog_gpu(&out->gpu, model->catalog, run->gpu));
    TRY(stack_find(&out->stack, model->stacks, model->stack_count, run->stack));
    out->node = catalog_node_of(model->catalog, out->gpu);
    out->recipe.method = RECIPE_FULL;
    out->recipe.checkpointing = RECIPE_RECOMPUTE;
    out->layout.tensor = run->tensor;
    out->layout.context = run->context_parallel;
    out->layout.expert = run->expert;
    out->layout.pipeline = run->pipeline;
    out->layout.data =
        (run->gpus - run->sampler_gpus) / (run->tensor * run->context_parallel * run->pipeline);
    if (out->layout.data < 1)
        return fail(ERR_INPUT, "%s: its layout needs more GPUs than train", run->id);
    out->layout.zero = 1;
    out->batch = step_batch(1, run->context);
    out->batch.squares = out->batch.tokens * run->mean_tokens; // packed answers
    out->accumulation =
        fmax(1, run->answers * run->mean_tokens / run->context / (double)out->layout.data);
    return OK;
}

enum err rl_run_forecast(struct range *out, struct arena *arena, const struct rl_run *run,
                         const struct validate_model *model, const struct calibration *calibration)
{
    struct setup setup;
    struct estimate estimate;
    if (run->excluded)
        return fail(ERR_INPUT, "%s: %s", run->id, run->excluded);
    TRY(setup_of(&setup, run, model));
    struct efficiency efficiency = calibration_at(calibration, &setup);
    struct rollout rollout = rollout_of(run, exp(efficiency.log_mid));
    struct objective objective = { .kind = OBJECTIVE_GRPO };
    setup.passes = objective_passes(&objective, &setup.recipe, setup.stack, 1);
    setup.passes.frozen_copies = 0; // swapped in from the host's memory
    setup.passes.rollout = &rollout;
    setup.passes.sampling = rollout_sampling;
    TRY(estimate_make(&estimate, arena, &setup));
    double seconds = estimate.timing.step_seconds / exp(efficiency.log_mid);
    double spread = exp(STATS_P90 * hypot(efficiency.log_spread, objective_spread(objective.kind)));
    *out = (struct range){ seconds / spread, seconds, seconds * spread };
    return OK;
}
