// SPDX-License-Identifier: Apache-2.0
// The document that `gpuhours plan --json` writes.

#include "core/plan/plan_internal.h"
#include "core/trainers/trainer_config.h"

#include <math.h>

static void put_batch(struct json_writer *w, const char *key, const struct step_batch *batch)
{
    json_open(w, key, '{');
    json_put_number(w, "rows", batch->rows);
    json_put_number(w, "width", batch->width);
    json_put_number(w, "tokens", batch->tokens);
    json_put_number(w, "squares", batch->squares);
    json_put_number(w, "labelled", batch->labelled);
    json_put_number(w, "spread", batch->spread);
    json_put_number(w, "varies", batch->varies);
    json_close(w, '}');
}

static void write_workload(const struct plan *plan, struct json_writer *w)
{
    const struct workload *workload = &plan->chosen.workload;
    json_open(w, "workload", '{');
    json_put_number(w, "examples", workload->examples);
    json_put_number(w, "tokens", workload->tokens);
    json_put_number(w, "labelled_tokens", workload->labelled_tokens);
    json_put_number(w, "epochs", workload->epochs);
    json_put_number(w, "processed_tokens", workload->processed_tokens);
    json_put_number(w, "padding_share", workload->padding_share);
    json_put_number(w, "steps", workload->steps);
    json_put_number(w, "mean_length", workload->mean_length);
    const struct packing_loss *loss = &plan->rule.loss;
    double known = loss->examples > 0 ? 1 : NAN;
    json_put_number(w, "cut_examples", known * loss->cut); // at the context
    json_put_number(w, "dropped_examples", known * loss->dropped);
    json_put_number(w, "lost_tokens", known * loss->lost);
    put_batch(w, "batch", &workload->batch); // a micro-batch of one rank, on average
    put_batch(w, "worst", &workload->worst);
    json_put_number(w, "distinct_widths", workload->distinct_widths); // met in the whole run
    workload_write_widths(workload, w);
    json_put_number(w, "token_spread", plan->request->token_spread); // 0: they were counted exactly
    json_put_number(w, "sample_spread", plan->request->sample_spread);
    json_put_bool(w, "measured", plan_knows_batches(plan));
    plan_put_shapes(w, plan);
    json_close(w, '}');
}

static void write_phases(const struct plan *plan, struct json_writer *w)
{
    json_open(w, "phases", '[');
    for (size_t i = 0; i < plan->phases.count; i++) {
        json_open(w, NULL, '{');
        json_put_string(w, "name", plan->phases.items[i].name);
        json_put_number(w, "seconds", plan->phases.items[i].seconds);
        json_put_number(w, "share", plan->phases.items[i].share);
        if (plan->phases.items[i].beside)
            json_put_bool(w, "beside", true);
        json_close(w, '}');
    }
    json_close(w, ']');
}

void plan_put_memory(struct json_writer *w, const struct memory *memory, bool fits, bool chooses)
{
    json_open(w, "memory", '{');
    json_put_bool(w, "fits", fits);
    json_put_number(w, "fit_probability", memory->fit_probability);
    json_put_number(w, "allocated_bytes", memory->allocated_bytes);
    json_put_number(w, "reserved_bytes", memory->reserved_bytes);
    json_put_number(w, "total_bytes", memory->total_bytes);
    json_put_number(w, "device_bytes", memory->device_bytes);
    json_put_number(w, "host_bytes", memory->host_bytes);
    struct range range = memory_range(memory);
    json_put_range(w, "total_range_bytes", &range);
    json_put_string(w, "moment", memory->moment);
    if (chooses && memory->filled.total_bytes > 0) {
        json_open(w, "filled", '{');
        json_put_number(w, "total_bytes", memory->filled.total_bytes);
        json_put_string(w, "checkpointing", recipe_checkpointings[memory->filled.level]);
        json_put_count(w, "lighter_layers", memory->filled.lighter);
        json_close(w, '}');
    }
    json_open(w, "parts", '[');
    for (int i = 0; i < MEMORY_PARTS; i++) {
        json_open(w, NULL, '{');
        json_put_string(w, "name", memory_part_names[i]);
        json_put_number(w, "bytes", memory->parts[i]);
        json_close(w, '}');
    }
    json_close(w, ']');
    json_close(w, '}');
}

// As options of a request, so that `hosts` prices the same job. Of supervised tuning nothing is
// said.
static void put_objective(struct json_writer *w, const struct plan *plan,
                          const struct search_result *result)
{
    const struct rollout *r = result->passes.rollout;
    if (plan->objective.kind == OBJECTIVE_SFT)
        return;
    json_put_string(w, "objective", objective_names[plan->objective.kind]);
    json_put_string(w, "reference", objective_reference_names[plan->objective.reference]);
    if (!objective_samples(plan->objective.kind))
        return;
    json_put_number(w, "generations", r->generations);
    json_put_string(w, "response_length", plan->request->response_length);
    json_put_string(w, "sampler", r->sampler->name);
    json_put_string(w, "sampler_precision", sampler_precisions[r->precision]);
    json_put_number(w, "sampler_gpus", r->gpus);
    json_put_number(w, "async_steps", r->async_steps);
    json_put_string(w, "reward", objective_reward_names[plan->objective.reward]);
    json_put_number(w, "steps", result->workload.steps);
    json_put_number(w, "mean_length", r->prompt_length);
}

static void put_configuration(struct json_writer *w, const struct plan *plan,
                              const struct search_result *result, struct arena *arena)
{
    const struct workload *workload = &result->workload;
    json_put_string(w, "model", plan->model->name);
    json_put_string(w, "stack", result->stack->name);
    json_put_string(w, "gpu", result->gpu->name);
    json_put_count(w, "gpus", result->gpus);
    json_put_count(
        w, "nodes",
        result->node.gpus > 0 ? (result->gpus + result->node.gpus - 1) / result->node.gpus : 1);
    json_put_string(w, "parallel", layout_spell(&result->layout, arena));
    json_put_number(w, "context", plan->rule.context);
    json_put_string(w, "batching", batching_names_auto[workload->batching]);
    json_put_number(w, "micro_batch", workload->micro_batch);
    json_put_number(w, "accumulation", workload->accumulation);
    json_put_number(w, "global_batch", workload->global_batch);
    json_put_number(w, "micro_batch_tokens", workload->batch.tokens);
    json_put_number(w, "attended_tokens", workload->batch.squares / workload->batch.tokens);
    field_write(recipe_fields, &result->recipe, w);
    put_objective(w, plan, result);
}

static void write_result(struct json_writer *w, const char *why, const struct plan *plan,
                         const struct search_result *result, struct arena *arena)
{
    json_open(w, NULL, '{');
    json_put_string(w, "why", why);
    json_put_string(w, "changes", plan_changes(plan, result, arena));
    json_put_number(w, "wall_hours", result->wall_hours);
    json_put_number(w, "gpu_hours", result->gpu_hours);
    json_put_number(w, "cost_usd", result->cost_usd);
    json_put_number(w, "tokens_per_second", result->tokens_per_s);
    json_put_number(w, "total_bytes", result->memory.total_bytes);
    json_put_bool(w, "stable", result->stable);
    json_open(w, "configuration", '{');
    put_configuration(w, plan, result, arena);
    json_close(w, '}');
    json_close(w, '}');
}

static void write_repeats(const struct plan *plan, struct json_writer *w)
{
    json_open(w, "failed_runs", '{');
    json_put_number(w, "share", plan->forecast.repeats_share);
    json_put_number(w, "gpu_hours_mean", plan->forecast.repeats_gpu_hours);
    json_put_number(w, "gpu_hours_p90", plan->forecast.repeats_gpu_hours_high);
    json_close(w, '}');
}

static void write_sweep(const struct plan *plan, struct json_writer *w)
{
    const struct forecast_sweep *sweep = &plan->sweep;
    if (!sweep->runs)
        return;
    json_open(w, "sweep", '{');
    json_put_count(w, "runs", sweep->runs);
    json_put_count(w, "parallel_runs", sweep->parallel);
    json_put_number(w, "peak_gpus", sweep->peak_gpus);
    json_put_range(w, "wall_hours", &sweep->wall_hours);
    json_put_range(w, "gpu_hours", &sweep->gpu_hours);
    json_put_range(w, "cost_usd", &sweep->cost_usd);
    json_close(w, '}');
}

static void write_drivers(const struct plan *plan, struct json_writer *w)
{
    json_open(w, "drivers", '[');
    for (int i = 0; i < FORECAST_DRIVERS; i++) {
        const struct forecast_driver *driver = &plan->forecast.drivers[i];
        json_open(w, NULL, '{');
        json_put_string(w, "name", driver->name);
        json_put_number(w, "gpu_hours_low", driver->low);
        json_put_number(w, "gpu_hours_high", driver->high);
        json_put_range(w, "gpu_hours_if_known", &driver->gpu_hours_known);
        json_put_string(w, "measurement", driver->measurement);
        json_close(w, '}');
    }
    json_close(w, ']');
}

static void write_overheads(const struct plan *plan, struct json_writer *w)
{
    const struct overhead_times *times = &plan->forecast.middle;
    json_open(w, "overheads", '[');
    for (int i = 0; i < OVERHEAD_KINDS; i++) {
        json_open(w, NULL, '{');
        json_put_string(w, "name", overhead_names[i]);
        json_put_number(w, "seconds", times->seconds[i]);
        json_close(w, '}');
    }
    json_close(w, ']');
}

static void write_alternatives(const struct plan *plan, struct arena *arena, struct json_writer *w)
{
    json_open(w, "alternatives", '[');
    for (size_t i = 0; i < plan->alternative_count; i++)
        write_result(w, plan->alternatives[i].why, plan, &plan->alternatives[i].result, arena);
    json_close(w, ']');
    json_open(w, "scaling", '[');
    for (size_t i = 0; i < plan->scaling_count; i++)
        write_result(w, "scaling", plan, &plan->scaling[i], arena);
    json_close(w, ']');
    json_open(w, "pareto", '[');
    for (size_t i = 0; i < plan->pareto_count; i++)
        write_result(w, "pareto", plan, &plan->pareto[i], arena);
    json_close(w, ']');
    json_open(w, "search", '{');
    json_put_count(w, "considered", (int64_t)plan->search.considered);
    json_put_count(w, "fitting", (int64_t)plan->search.fitting);
    json_close(w, '}');
}

void plan_write(const struct plan *plan, struct arena *arena, struct out *out)
{
    struct json_writer w = { .out = out };
    json_open(&w, NULL, '{');
    json_put_string(&w, "kind", "plan");
    json_put_count(&w, "version", 1);
    plan_request_write(plan->request, arena, "request", &w);
    json_put_string(&w, "objective", objective_names[plan->objective.kind]);
    write_phases(plan, &w);
    write_workload(plan, &w);
    plan_put_images(&w, plan);
    plan_put_memory(&w, &plan->estimate.memory, plan->fits,
                    plan->request->recipe.checkpointing == RECIPE_AUTO);
    json_put_range(&w, "tokens_per_second", &plan->forecast.tokens_per_s);
    json_put_number(&w, "roofline_tokens_per_second", plan->estimate.tokens_per_s);
    json_put_range(&w, "wall_hours", &plan->forecast.wall_hours);
    json_put_range(&w, "gpu_hours", &plan->forecast.gpu_hours);
    json_put_range(&w, "cost_usd", &plan->forecast.cost_usd);
    write_repeats(plan, &w);
    write_sweep(plan, &w);
    json_open(&w, "configuration", '{');
    put_configuration(&w, plan, &plan->chosen, arena);
    json_close(&w, '}');
    plan_put_model(&w, plan);
    plan_put_step(&w, plan, arena);
    plan_put_evidence(&w, plan, arena);
    plan_put_pilot(&w, plan);
    plan_put_ledger(&w, plan, arena);
    if (plan->request->from)
        trainer_config_write(plan->request->from, &w);
    write_drivers(plan, &w);
    write_overheads(plan, &w);
    write_alternatives(plan, arena, &w);
    json_open(&w, "assumptions", '[');
    for (size_t i = 0; i < plan->assumption_count; i++)
        assumption_write(&plan->assumptions[i], &w);
    json_close(&w, ']');
    json_open(&w, "warnings", '[');
    for (size_t i = 0; i < plan->advice.count; i++) {
        json_open(&w, NULL, '{');
        json_put_string(&w, "code", plan->advice.items[i].code);
        json_put_string(&w, "text", plan->advice.items[i].text);
        json_close(&w, '}');
    }
    json_close(&w, ']');
    json_close(&w, '}');
    out_char(out, '\n');
}
