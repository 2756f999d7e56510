// SPDX-License-Identifier: Apache-2.0
// What `gpuhours plan --explain` prints: each number with how it was computed, section by section.

#include "core/plan/plan_internal.h"
#include "core/trainers/trainer_config.h"

#include <math.h>
#include <string.h>

// One number and how it was computed. A name that leaves no room for it has a line of its own.
static void put(struct out *out, const char *name, const char *value, const char *how)
{
    const int both = 39;
    int rest = both - text_columns(text_of(value)), room = rest - text_columns(text_of(name));
    bool apart = room < 1;
    out_put(out, "  %s%s%*s%s  ", name, apart ? "\n  " : "", apart ? rest : room, "", value);
    out_wrapped(out, both + 4, both + 4, how);
}

static void put_model(const struct plan *plan, struct arena *a, struct out *out)
{
    const struct step *step = &plan->estimate.step;
    double parameters = (double)model_parameters(plan->model);
    out_put(out, "\n1 Model and recipe\n");
    put(out, "parameters", text_count(a, parameters),
        text_format(a, "shapes of %s, every weight listed", plan->model->name));
    put(out, "trained on a GPU", text_count(a, step->trained_weights),
        text_format(a, "%s, before sharding", recipe_methods[plan->chosen.recipe.method]));
    put(out, "frozen on a GPU", text_count(a, step->frozen_weights), "16 bits each");
    if (step->quantized_weights > 0)
        put(out, "quantized on a GPU", text_count(a, step->quantized_weights),
            text_format(a, "%.4g bytes each with statistics",
                        recipe_weight_bytes(&plan->chosen.recipe)));
}

static const struct assumption *assumption_of(const struct plan *plan, const char *name)
{
    for (size_t i = 0; i < plan->assumption_count; i++)
        if (!strcmp(plan->assumptions[i].name, name))
            return &plan->assumptions[i];
    return NULL;
}

// "given", "assumed: one pass"
static const char *origin_words(const struct assumption *s, struct arena *a)
{
    return text_format(a, "%s%s%s", assumption_origins[s->origin], s->source ? ": " : "",
                       s->source ? s->source : "");
}

static void put_workload(const struct plan *plan, struct arena *a, struct out *out)
{
    const struct workload *w = &plan->chosen.workload;
    out_put(out, "\n2 Workload\n");
    put(out, "tokens", text_count(a, w->tokens),
        text_format(a, "of one epoch; %s", origin_words(assumption_of(plan, "tokens"), a)));
    put(out, "examples", text_count(a, w->examples),
        text_format(a, "tokens / mean length of %.0f", w->mean_length));
    const struct range *padding = &assumption_of(plan, "padding")->value;
    const char *range = padding->low < padding->high
                            ? text_format(a, "; 80 %% range %s – %s", text_share(a, padding->low),
                                          text_share(a, padding->high))
                            : "";
    put(out, "padding", text_share(a, w->padding_share),
        text_format(a, "%s, micro-batch %.0f%s", batching_names_auto[w->batching], w->micro_batch,
                    range));
    put(out, "processed tokens", text_count(a, w->processed_tokens),
        "tokens / (1 - padding) × epochs");
    put(out, "average micro-batch", text_format(a, "%.0f × %.0f", w->batch.rows, w->batch.width),
        text_format(a, "rows × width; attention spans %.0f tokens",
                    w->batch.tokens > 0 ? w->batch.squares / w->batch.tokens : 0));
    put(out, "largest micro-batch", text_format(a, "%.0f × %.0f", w->worst.rows, w->worst.width),
        "memory is planned for this one");
    put(out, "global batch", text_format(a, "%.0f", w->global_batch),
        text_format(a, "micro-batch × %.0f accumulated × %lld data-parallel ranks", w->accumulation,
                    (long long)plan->chosen.layout.data));
    put(out, "steps", text_commas(a, llround(w->steps)),
        plan->request->steps > 0 ? "as given, in place of epochs" : "rows / global batch × epochs");
}

static void put_memory(const struct plan *plan, struct arena *a, struct out *out)
{
    const struct memory *m = &plan->estimate.memory;
    out_put(out, "\n3 Memory of the fullest GPU, at its peak, %s\n", plan_moment_words(m));
    for (int i = 0; i < MEMORY_PARTS; i++)
        if (m->parts[i] > 0)
            put(out, memory_part_names[i], text_bytes(a, m->parts[i]),
                text_share(a, m->parts[i] / m->total_bytes));
    put(out, "allocated", text_bytes(a, m->allocated_bytes), "torch.cuda.max_memory_allocated()");
    put(out, "reserved", text_bytes(a, m->reserved_bytes), "torch.cuda.max_memory_reserved()");
    struct range range = memory_range(m);
    put(out, "total", text_bytes(a, m->total_bytes),
        text_format(a, "what nvidia-smi shows; 80 %% range %s – %s, the card has %s",
                    text_bytes(a, range.low), text_bytes(a, range.high),
                    text_bytes(a, m->device_bytes)));
    put(out, "host", text_bytes(a, m->host_bytes), "per process, while weights load");
}

static bool has_mask(const struct step *step)
{
    for (size_t i = 0; i < step->count; i++)
        if (step->ops[i].masked)
            return true;
    return false;
}

static void put_step(const struct plan *plan, struct arena *a, struct out *out)
{
    const struct timing *t = &plan->estimate.timing;
    const struct step *step = &plan->estimate.step;
    const double pass = t->micro_seconds, n = plan->chosen.workload.accumulation;
    const struct {
        const char *name;
        double seconds;
        const char *how;
    } rows[] = {
        { "matrix products", t->matmul_seconds, "FLOPs over the sustained rate of each shape" },
        { "attention", t->attention_seconds,
          has_mask(step) ? "padded rows need a mask: the whole square, in a slower kernel"
                         : "FLOPs over the kernel's own rate" },
        { "elementwise", t->elementwise_seconds, "bytes over sustained bandwidth" },
        { "dequantization", t->dequantize_seconds, "bytes over sustained bandwidth" },
        { "host", t->host_seconds, "launching kernels, in parallel to the above" },
        { "of which the GPU is idle", t->pause_seconds, "the trainer between micro-batches" },
        { "exposed communication", t->exposed_seconds, "what does not overlap with compute" },
        { "waiting for longer rows", t->uneven_seconds, "GPUs wait for the one with most tokens" },
    };
    out_put(out, "\n4 Time of a step by the roofline (%zu operations)\n", step->count);
    put(out, "work of a pass", text_format(a, "%.4g FLOP", step_flops(step)),
        text_format(a, "%.4g without recomputation", step_model_flops(step)));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].seconds > 0)
            put(out, rows[i].name, text_seconds(a, rows[i].seconds),
                text_format(a, "%s; %s", text_share(a, rows[i].seconds / pass), rows[i].how));
    put(out, "one pass", text_seconds(a, pass), "forward and backward of a micro-batch");
    if (t->bubble_seconds > 0)
        put(out, "pipeline bubbles", text_seconds(a, t->bubble_seconds), "per step");
    if (t->reduce_seconds > 0)
        put(out, "gradient reduction", text_seconds(a, t->reduce_seconds), "not hidden, per step");
    put(out, "optimizer", text_seconds(a, t->update_seconds), "bytes over bandwidth, per step");
    if (t->offload_seconds > 0)
        put(out, "offload", text_seconds(a, t->offload_seconds), "over PCIe and in the host");
    if (t->sampling_seconds > 0)
        put(out, "sampling", text_seconds(a, t->sampling_seconds),
            "of answers, with their scores and the weights' way to the sampler");
    put(out, "one step", text_seconds(a, t->step_seconds),
        text_format(a, "%.0f passes and the rest; %s of the datasheet's peak", n,
                    text_share(a, t->peak_share)));
    for (size_t i = 0; plan->objective.kind != OBJECTIVE_SFT && i < plan->phases.count; i++)
        put(out, plan->phases.items[i].name, text_seconds(a, plan->phases.items[i].seconds),
            text_format(a, "%s of a step, as forecast",
                        text_share(a, plan->phases.items[i].share)));
}

static void put_speed(const struct plan *plan, struct arena *a, struct out *out)
{
    const struct efficiency *e = &plan->efficiency;
    out_put(out, "\n5 Speed\n");
    put(out, "by the roofline", text_format(a, "%s/s", text_count(a, plan->estimate.tokens_per_s)),
        "tokens of a step over its time");
    put(out, "efficiency", text_format(a, "%.3f", exp(e->log_mid)),
        e->is_piloted
            ? text_format(a, "exp(%.3f ± %.3f): %s", e->log_mid, e->log_spread,
                          plan_pilot_words(plan, a))
            : text_format(a,
                          "exp(%.3f ± %.3f): measured over roofline, %lld run%s of %lld source%s "
                          "(%s)%s%s",
                          e->log_mid, e->log_spread, (long long)e->runs, text_plural(e->runs),
                          (long long)e->sources, text_plural(e->sources), e->stack,
                          e->own ? "; your ledger: " : "",
                          e->own ? plan_ledger_words(plan, a) : ""));
    if (!e->is_piloted)
        put(out, "evidence",
            text_format(a, "± %.0f %%", 100 * expm1(STATS_P90 * plan->prior.log_spread)),
            plan_evidence_words(plan, a));
    put(out, "expected", text_format(a, "%s/s", text_count(a, plan->forecast.tokens_per_s.mid)),
        "their product, median of the samples");
}

static void put_overheads(const struct plan *plan, struct arena *a, struct out *out)
{
    const struct overheads *o = &plan->overheads;
    const struct overhead_times *t = &plan->forecast.middle;
    const char *how[OVERHEAD_KINDS] = {
        [OVERHEAD_TRAINING] = "processed tokens / expected speed",
        [OVERHEAD_STARTUP] = origin_words(&o->startup_seconds, a),
        [OVERHEAD_COMPILATION] = origin_words(&o->compile_seconds, a),
        [OVERHEAD_WIDTHS] = text_format(a, "%.0f new batch width%s, %s each; the first steps %s",
                                        o->new_widths, text_plural(o->new_widths),
                                        text_seconds(a, o->first_width_seconds.value.mid),
                                        text_seconds(a, o->first_steps_seconds.value.mid)),
        [OVERHEAD_LOADING] =
            text_format(a, "%s of 16-bit weights at %s/s", text_bytes(a, o->load_bytes),
                        text_bytes(a, o->storage_bytes_per_s.value.mid)),
        [OVERHEAD_STALLS] = "storage is slower than training",
        [OVERHEAD_RECURRING] = text_format(
            a, "%s of the steps' time (%s to %s), as the pilot measured",
            text_share(a, o->stall_share.value.mid), text_share(a, o->stall_share.value.low),
            text_share(a, o->stall_share.value.high)),
        [OVERHEAD_EVALUATION] =
            o->evaluation_seconds.value.mid > 0
                ? text_format(a, "%.3g per epoch, %s each, as the pilot measured",
                              o->evals_per_epoch.value.mid,
                              text_seconds(a, o->evaluation_seconds.value.mid))
                : text_format(a,
                              "%s of the data, %.3g per epoch, at %.2f of a trained token's cost",
                              text_share(a, o->eval_share.value.mid), o->evals_per_epoch.value.mid,
                              o->eval_cost),
        [OVERHEAD_SAVES] = text_format(a, "%.0f of %s, every %s", t->saves,
                                       o->save_seconds.value.mid > 0
                                           ? text_format(a, "%s, as the pilot measured",
                                                         text_seconds(a, o->save_seconds.value.mid))
                                           : text_bytes(a, o->save_bytes),
                                       text_seconds(a, t->save_interval_seconds)),
        [OVERHEAD_FAILURES] =
            text_format(a, "%.2g expected: a restart and half a save interval each", t->failures),
        [OVERHEAD_RETRIES] =
            text_format(a, "%.3g whole runs, %.2g attempts that fail because of user errors",
                        o->retries.value.mid, t->failed_runs),
    };
    out_put(out, "\n6 The run, with every unknown at its middle value\n");
    for (int i = 0; i < OVERHEAD_KINDS; i++)
        if (t->seconds[i] > 0)
            put(out, overhead_names[i], text_seconds(a, t->seconds[i]), how[i]);
    put(out, "wall clock", text_seconds(a, t->wall_seconds), "their sum");
}

static void put_forecast(const struct plan *plan, struct arena *a, struct out *out)
{
    const struct forecast *f = &plan->forecast;
    out_put(out, "\n7 Forecast: %s samples, seed %lld\n", text_commas(a, FORECAST_SAMPLES),
            (long long)plan->request->seed);
    put(out, "", "",
        "80 % range of the GPU hours if only this varies; and if only this were known");
    for (int i = 0; i < FORECAST_DRIVERS; i++) {
        const struct forecast_driver *d = &f->drivers[i];
        put(out, d->name, "",
            text_format(a, "%s – %s; %s – %s", text_hours(a, d->low), text_hours(a, d->high),
                        text_hours(a, d->gpu_hours_known.low),
                        text_hours(a, d->gpu_hours_known.high)));
    }
}

// Rows with the plan's micro-batch and checkpointing compare their speed per GPU; others only tell
// what they change.
static void put_scaling(const struct plan *plan, struct arena *a, struct out *out)
{
    const struct search_result *own = &plan->chosen, *first = NULL;
    if (!plan->scaling_count)
        return;
    out_put(out, "\n8 The same GPU in other numbers, %.0f row%s per optimizer step\n",
            own->workload.global_batch, text_plural(own->workload.global_batch));
    for (size_t i = 0; i < plan->scaling_count; i++) {
        const struct search_result *r = &plan->scaling[i];
        bool alike = plan->fits && r->workload.micro_batch == own->workload.micro_batch &&
                     r->recipe.checkpointing == own->recipe.checkpointing;
        double each = r->tokens_per_s / (double)r->gpus;
        if (alike && !first)
            first = r;
        const char *how =
            alike ? text_format(a, "%s of the speed per GPU of %lld, %s",
                                text_share(a, each * (double)first->gpus / first->tokens_per_s),
                                (long long)first->gpus, layout_spell(&r->layout, a))
                  : plan_changes(plan, r, a);
        put(out, text_format(a, "%lld × %s", (long long)r->gpus, r->gpu->name),
            text_seconds(a, r->wall_hours * 3600),
            text_format(a, "%s GPU hours; %s", text_hours(a, r->gpu_hours), how));
    }
}

static void put_assumptions(const struct plan *plan, struct arena *a, struct out *out)
{
    out_put(out, "\n9 Assumptions\n");
    for (size_t i = 0; i < plan->assumption_count; i++) {
        const struct assumption *s = &plan->assumptions[i];
        const char *range = s->value.low == s->value.high
                                ? ""
                                : text_format(a, " (%.4g – %.4g)", s->value.low, s->value.high);
        put(out, s->name, text_format(a, "%.6g", s->value.mid),
            text_format(a, "%s%s, %s%s%s", s->unit, range, origin_words(s, a), s->as_of ? ", " : "",
                        s->as_of ? s->as_of : ""));
    }
}

void plan_explain(const struct plan *plan, struct arena *arena, struct out *out)
{
    out_put(out, "How each number was computed; docs/formulas.md has the formulas by section\n");
    if (plan->request->from) {
        out_put(out, "\n");
        trainer_config_text(plan->request->from, out);
    }
    put_model(plan, arena, out);
    put_workload(plan, arena, out);
    put_memory(plan, arena, out);
    put_step(plan, arena, out);
    put_speed(plan, arena, out);
    put_overheads(plan, arena, out);
    put_forecast(plan, arena, out);
    put_scaling(plan, arena, out);
    put_assumptions(plan, arena, out);
}
