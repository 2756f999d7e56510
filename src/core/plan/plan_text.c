// SPDX-License-Identifier: Apache-2.0
// What `gpuhours plan` prints: the answer, what drives it, alternatives and warnings.

#include "core/plan/plan_internal.h"

#include "base/columns.h"
#include "core/chart/chart.h"

#include <math.h>
#include <string.h>

enum { INDENT = 15 };

static void put_line(struct out *out, const char *label, const char *text)
{
    out_put(out, "  %-*s", INDENT - 2, label);
    out_wrapped(out, INDENT, INDENT, text);
}

static const char *method_of(const struct recipe *recipe, struct arena *arena)
{
    static const char *const names[] = { "full fine-tuning", "LoRA", "QLoRA" };
    return recipe->method == RECIPE_FULL
               ? names[0]
               : text_format(arena, "%s of rank %lld", names[recipe->method],
                             (long long)recipe->rank);
}

const char *plan_spell(const struct search_result *result, struct arena *arena)
{
    return text_format(arena, "%lld × %s, %s, micro-batch %.0f, checkpointing %s",
                       (long long)result->gpus, result->gpu->name,
                       layout_spell(&result->layout, arena), result->workload.micro_batch,
                       recipe_checkpointings[result->recipe.checkpointing]);
}

// --- the answer --------------------------------------------------------------

// "; 9 providers, prices of 2024-09-25 to 2026-10-10"
static const char *price_source(const struct plan *plan, struct arena *arena)
{
    const struct price *price = &plan->price;
    if (price->own)
        return "; your own machine";
    if (!price->oldest || !isnan(plan->request->price))
        return "";
    bool same = !strcmp(price->oldest, price->newest);
    return text_format(arena, "; %zu provider%s, prices of %s%s%s", price->offers,
                       text_plural(price->offers), price->oldest, same ? "" : " to ",
                       same ? "" : price->newest);
}

// A limit is kept at the median, and surely kept at P90: the line says which.
static const char *limit_words(struct out *out, bool meets, bool surely, const char *missed,
                               const char *limit)
{
    return !meets ? text_format(out->arena, "; the median %s %s", out_styled(out, OUT_BAD, missed),
                                limit)
                  : text_format(out->arena,
                                surely ? "; within the %s, at P90 too"
                                       : "; the median is within the %s, P90 is not",
                                limit);
}

static const char *deadline_words(const struct plan *plan, struct out *out)
{
    double deadline = plan->request->deadline;
    if (isnan(deadline))
        return "";
    return limit_words(
        out, plan->meets_deadline, plan_wall_hours(plan)->high * 3600 <= deadline, "misses the",
        text_format(out->arena, "deadline of %s", text_seconds(out->arena, deadline)));
}

static const char *budget_words(const struct plan *plan, struct out *out)
{
    double budget = plan->request->budget;
    if (isnan(budget))
        return "";
    return limit_words(out, plan->meets_budget, plan_cost_usd(plan)->high <= budget, "is above the",
                       text_format(out->arena, "budget of %s", text_usd(out->arena, budget)));
}

const char *plan_repeats_words(const struct plan *plan, struct arena *arena)
{
    const struct forecast *f = &plan->forecast;
    const struct overheads *o = &plan->overheads;
    bool fails = o->failed_runs.value.mid > 0, repeats = o->retries.value.mid > 0;
    if (!(f->repeats_gpu_hours > 0))
        return NULL;
    const char *further =
        repeats ? text_format(arena, "%.3g further run%s%s", o->retries.value.mid,
                              text_plural(o->retries.value.mid), fails ? ", and " : "")
                : "";
    const char *failed = !fails    ? ""
                         : repeats ? "attempts that fail and resume from their last checkpoint"
                                   : text_format(arena,
                                                 "%.0f %% of runs fail at least once and resume "
                                                 "from their last checkpoint",
                                                 100 * f->repeats_share);
    // Of what most runs have, the median adds up with that of the first run; of what is rare, it is
    // 0.
    bool usual = o->retries.value.mid >= 1;
    return text_format(arena, "%s%s: %s GPU hours %s, %s at P90, included above%s", further, failed,
                       text_hours(arena, usual ? f->repeats_gpu_hours_mid : f->repeats_gpu_hours),
                       usual ? "at the median" : "on average",
                       text_hours(arena, f->repeats_gpu_hours_high),
                       o->failed_runs.origin != ASSUMPTION_CATALOG ? ""
                       : repeats ? "; --failed-runs 0 leaves the failed attempts out"
                                 : "; --failed-runs 0 leaves them out");
}

// All runs of a sweep together: "20 runs, 4 at a time on 32 GPUs: …".
static void put_sweep(const struct plan *plan, struct arena *arena, struct out *out)
{
    const struct forecast_sweep *s = &plan->sweep;
    if (!s->runs)
        return;
    const char *cost =
        isnan(s->cost_usd.mid)
            ? ""
            : text_format(arena, ", %s (%s – %s)", text_usd(arena, s->cost_usd.mid),
                          text_usd(arena, s->cost_usd.low), text_usd(arena, s->cost_usd.high));
    put_line(
        out, "sweep",
        text_format(arena,
                    "%lld runs, %lld at a time on %.0f GPU%s: %s GPU hours (%s – %s), %s (%s – "
                    "%s)%s%s%s",
                    (long long)s->runs, (long long)s->parallel, s->peak_gpus,
                    text_plural(s->peak_gpus),
                    out_styled(out, OUT_NUMBER, text_hours(arena, s->gpu_hours.mid)),
                    text_hours(arena, s->gpu_hours.low), text_hours(arena, s->gpu_hours.high),
                    text_seconds(arena, s->wall_hours.mid * 3600),
                    text_seconds(arena, s->wall_hours.low * 3600),
                    text_seconds(arena, s->wall_hours.high * 3600), cost, budget_words(plan, out),
                    deadline_words(plan, out)));
}

static void put_hours(const struct plan *plan, struct arena *arena, struct out *out)
{
    const struct forecast *f = &plan->forecast;
    put_line(out, "GPU hours",
             text_format(arena, "%s  (80 %% range %s – %s)",
                         out_styled(out, OUT_NUMBER, text_hours(arena, f->gpu_hours.mid)),
                         text_hours(arena, f->gpu_hours.low),
                         text_hours(arena, f->gpu_hours.high)));
    put_line(out, "wall clock",
             text_format(arena, "%s  (%s – %s)%s", text_seconds(arena, f->wall_hours.mid * 3600),
                         text_seconds(arena, f->wall_hours.low * 3600),
                         text_seconds(arena, f->wall_hours.high * 3600),
                         plan->sweep.runs ? "" : deadline_words(plan, out)));
    const struct price *price = &plan->price;
    const char *from = price_source(plan, arena);
    put_line(out, "cost",
             price->offers
                 ? text_format(arena, "%s  (%s – %s%s)%s", text_usd(arena, f->cost_usd.mid),
                               text_usd(arena, f->cost_usd.low), text_usd(arena, f->cost_usd.high),
                               from, plan->sweep.runs ? "" : budget_words(plan, out))
                 : "unknown: the catalog has no offer of this GPU; --price sets one");
    if (plan_repeats_words(plan, arena))
        put_line(out, plan->overheads.retries.value.mid > 0 ? "further runs" : "failed runs",
                 plan_repeats_words(plan, arena));
    put_sweep(plan, arena, out);
}

const char *plan_moment_words(const struct memory *memory)
{
    static const struct {
        const char *moment, *words;
    } moments[] = { { "loss", "at the loss" },
                    { "checkpoint", "while a checkpoint is saved" },
                    { "backward", "in the backward pass" },
                    { "update", "in the optimizer step" },
                    { "start", "at the start" } };
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++)
        if (!strcmp(memory->moment, moments[i].moment))
            return moments[i].words;
    return memory->moment;
}

const char *plan_memory_words(const struct memory *memory, struct out *out)
{
    struct arena *arena = out->arena;
    const char *allocated = text_bytes(arena, memory->allocated_bytes);
    double needed = memory_needed_bytes(memory);
    if (!memory->fits)
        return text_format(arena, "%s: needs %s (peak %s allocated %s), there are %s",
                           out_styled(out, OUT_BAD, "DOES NOT FIT"),
                           text_bytes_apart(arena, needed, memory->device_bytes), allocated,
                           plan_moment_words(memory),
                           text_bytes_apart(arena, memory->device_bytes, needed));
    return text_format(arena, "%s: peak %s allocated (%s), %s reserved, of %s",
                       out_styled(out, search_is_stable(memory) ? OUT_GOOD : OUT_WARNING,
                                  memory_verdict(memory, arena)),
                       allocated, plan_moment_words(memory),
                       text_bytes(arena, memory->reserved_bytes),
                       text_bytes(arena, memory->device_bytes));
}

const char *plan_filled_words(const struct memory *memory, int planned, const struct model *model,
                              struct arena *arena)
{
    int level = memory->filled.level;
    int64_t lighter = memory->filled.lighter, others = model->layers - lighter;
    if (!(memory->filled.total_bytes > 0) || (level == planned && !lighter))
        return NULL;
    const char *where = !lighter
                            ? text_format(arena, "checkpointing %s", recipe_checkpointings[level])
                            : text_format(arena, "checkpointing %s in %lld layer%s, %s in %lld",
                                          recipe_checkpointings[level - 1], (long long)lighter,
                                          text_plural((double)lighter),
                                          recipe_checkpointings[level], (long long)others);
    return text_format(arena, "gpuhours train %s: %s, %s in all",
                       level > planned ? "recomputes more, to leave the card some room"
                                       : "uses spare memory to recompute less",
                       where, text_bytes(arena, memory->filled.total_bytes));
}

// Of a plan that leaves to our engine what is recomputed; else NULL.
static const char *filled_words(const struct plan *plan, struct arena *arena)
{
    int planned = plan->chosen.recipe.checkpointing;
    return plan->request->recipe.checkpointing == RECIPE_AUTO
               ? plan_filled_words(&plan->estimate.memory, planned, plan->model, arena)
               : NULL;
}

static void put_memory(const struct plan *plan, struct arena *arena, struct out *out)
{
    const char *filled = filled_words(plan, arena);
    put_line(out, "memory",
             text_format(arena, "%s on each GPU%s%s",
                         plan_memory_words(&plan->estimate.memory, out), filled ? "; " : "",
                         filled ? filled : ""));
}

// "fp32", or what an optimizer has instead.
static const char *states_words(const struct recipe *recipe, int dtype)
{
    switch (recipe->optimizer) {
    case RECIPE_ADAMW_8BIT:
    case RECIPE_ADAMW_PAGED_8BIT: return "8 bits";
    case RECIPE_ADAFACTOR: return "factored form";
    default: return recipe_precisions[dtype];
    }
}

// What the bytes of weights, gradients and states are assumed to be: "bf16 weights, gradients and
// optimizer states …".
static const char *precision_words(const struct plan *plan, struct arena *arena)
{
    const struct recipe *recipe = &plan->chosen.recipe;
    const char *const *names = recipe_precisions;
    const char *products = names[recipe->precision];
    const char *adapters = names[recipe->adapter_dtype];
    const char *states = states_words(recipe, recipe->states);
    bool copies = plan->stack->copies_weights || plan->stack->exact_gradients;
    bool master = copies && recipe->weights == RECIPE_FP32 && recipe->adapter_dtype != RECIPE_FP32;
    if (recipe->method != RECIPE_FULL && adapters == states && !master)
        return text_format(arena, "%s compute, adapters and their optimizer states in %s", products,
                           states);
    if (recipe->method != RECIPE_FULL)
        return text_format(arena, "%s compute, adapters in %s%s, their optimizer states in %s",
                           products, adapters, master ? " with an fp32 master copy" : "", states);
    int gradients = stack_gradients(plan->stack, recipe);
    if (recipe->weights == RECIPE_FP32)
        return text_format(arena, "%s compute, fp32 weights, %s gradients, optimizer states in %s",
                           products, names[gradients], states_words(recipe, recipe->states));
    return text_format(arena,
                       "%s compute, weights in %s without an fp32 master copy, optimizer states in "
                       "%s; --weights fp32 --states fp32 plans for mixed precision",
                       products, names[recipe->weights], states_words(recipe, recipe->states));
}

static const char *rows_words(const struct plan *plan, struct arena *arena)
{
    const struct rollout *r = &plan->rollout;
    if (!objective_samples(plan->objective.kind))
        return objective_is_paired(plan->objective.kind) ? "rows are pairs of answers"
                                                         : "single rows";
    const char *where = !(r->gpus > 0)       ? ", in turns with training"
                        : r->async_steps > 1 ? ", beside the training"
                        : r->async_steps > 0 ? ", one step ahead of the training"
                                             : ", while the others wait";
    const char *own = r->gpus > 0 ? text_format(arena, " on %.0f of the GPUs", r->gpus) : "";
    return text_format(
        arena,
        "%.0f prompt%s of %.0f tokens%s × %.0f answer%s of %.0f tokens on average (P10 %.0f, P50 "
        "%.0f, P90 %.0f, at most %.0f) by %s%s%s",
        r->prompts, text_plural(r->prompts), r->prompt_length,
        plan_assumes_prompts(plan->request) ? " (assumed)" : "", r->generations,
        text_plural(r->generations), rollout_mean_length(r), r->p10, r->p50, r->p90, r->limit,
        r->sampler->title, own, where);
}

// What of answers is older than the weights that are trained, and what is sampled in vain.
static const char *sampling_words(const struct plan *plan, struct arena *arena)
{
    const struct rollout *r = &plan->rollout;
    const char *stale = r->async_steps > 0
                            ? text_format(arena, ", answers by weights up to %.0f step%s old",
                                          r->async_steps, text_plural(r->async_steps))
                            : "";
    return r->oversampling > 1 ? text_format(arena, ", %.3g sampled for each that is trained on%s",
                                             r->oversampling, stale)
                               : stale;
}

// "dpo: rows are pairs, reference: the model with adapters switched off; time of a step: …"
static void put_objective(const struct plan *plan, struct arena *arena, struct out *out)
{
    static const char *const references[] = {
        [REFERENCE_ADAPTERS] = ", reference: the model with adapters switched off",
        [REFERENCE_MODEL] = ", reference: a second model",
        [REFERENCE_PRECOMPUTED] = ", reference log-probabilities computed once beforehand",
        [REFERENCE_NONE] = ", no reference",
    };
    enum objective_reference reference =
        objective_reference_of(&plan->objective, &plan->chosen.recipe);
    struct out line = { .arena = arena };
    out_put(&line, "%s%s%s%s; time of a step: ", rows_words(plan, arena),
            sampling_words(plan, arena), references[reference],
            plan->objective.reward == REWARD_MODEL ? ", scored by a model of its own" : "");
    const char *gap = "";
    for (size_t i = 0; i < plan->phases.count; i++) {
        const struct objective_phase *phase = &plan->phases.items[i];
        if (phase->share < 0.005)
            continue;
        out_put(&line, "%s%s %.0f %%%s", gap, phase->name, 100 * phase->share,
                phase->beside ? " (beside the rest)" : "");
        gap = ", ";
    }
    put_line(out, objective_names[plan->objective.kind], out_string(&line));
}

// A run that does not fill its only step takes a part of the time of a full one.
static double step_seconds(const struct plan *plan)
{
    const struct workload *workload = &plan->chosen.workload;
    double full = plan->chosen.seconds_per_step;
    bool one = workload->steps == 1 && !objective_samples(plan->objective.kind);
    return one ? fmin(full, workload->processed_tokens / plan->forecast.tokens_per_s.mid) : full;
}

static void put_run(const struct plan *plan, struct arena *arena, struct out *out)
{
    const struct workload *workload = &plan->chosen.workload;
    const struct forecast *f = &plan->forecast;
    put_line(out, "speed",
             text_format(arena, "%s tokens/s  (%s – %s), %.0f %% of the GPUs' peak",
                         text_commas(arena, llround(f->tokens_per_s.mid)),
                         text_commas(arena, llround(f->tokens_per_s.low)),
                         text_commas(arena, llround(f->tokens_per_s.high)),
                         100 * plan->estimate.timing.peak_share * exp(plan->efficiency.log_mid)));
    if (plan->request->pilot)
        put_line(out, "pilot", plan_pilot_words(plan, arena));
    if (plan_ledger_words(plan, arena))
        put_line(out, "your ledger", plan_ledger_words(plan, arena));
    const char *padding = text_format(arena, "%.0f %% padding (%s)", 100 * workload->padding_share,
                                      batching_names_auto[workload->batching]);
    const char *rows =
        plan->rule.full_rows && plan->rule.shapes ? "rows as in the pilot"
        : plan->rule.full_rows                    ? "assuming every row fills the context"
        : lengths_are_assumed(&plan->rule)
            ? text_format(arena, "assuming rows of %.0f tokens, %s", workload->mean_length, padding)
            : padding;
    const char *passes =
        objective_samples(plan->objective.kind) // steps say how many prompts
            ? ""
            : text_format(arena, " × %s epoch%s", workload_spell_epochs(workload->epochs, arena),
                          text_plural(workload->epochs));
    put_line(out, "run",
             text_format(arena, "%s tokens%s, %s: %s processed in %s step%s of %s",
                         text_count(arena, workload->tokens), passes, rows,
                         text_count(arena, workload->processed_tokens),
                         text_commas(arena, llround(workload->steps)), text_plural(workload->steps),
                         text_seconds(arena, step_seconds(plan))));
    if (plan_images_words(plan, arena))
        put_line(out, "images", plan_images_words(plan, arena));
    if (plan->objective.kind != OBJECTIVE_SFT)
        put_objective(plan, arena, out);
    put_line(out, "precision", precision_words(plan, arena));
    // One level for all layers would be another run than that of an engine that fills the card.
    int checkpointing = filled_words(plan, arena) ? RECIPE_AUTO : plan->chosen.recipe.checkpointing;
    const char *layout = layout_spell(&plan->chosen.layout, arena);
    const char *quote = strchr(layout, ' ') ? "\"" : ""; // one word of a shell
    put_line(out, "settings",
             text_format(arena,
                         "--context %.0f --micro-batch %.0f --global-batch %.0f --checkpointing %s "
                         "--parallel %s%s%s",
                         plan->rule.context, workload->micro_batch, workload->global_batch,
                         recipe_checkpointings[checkpointing], quote, layout, quote));
}

// --- what drives it ----------------------------------------------------------

static void put_drivers(const struct plan *plan, struct arena *arena, struct out *out)
{
    enum { SHOWN = 4, LEAST = 30 }; // a bar under 1/30 of the widest cannot be seen
    const struct forecast *f = &plan->forecast;
    const struct forecast_driver *narrowest = NULL;
    double widest = f->drivers[0].high - f->drivers[0].low;
    struct chart_point points[SHOWN];
    size_t count = 0;
    if (!(widest > 0))
        return;
    for (int i = 0; i < FORECAST_DRIVERS; i++) {
        const struct forecast_driver *d = &f->drivers[i];
        double left = d->gpu_hours_known.high - d->gpu_hours_known.low;
        if (d->measurement &&
            (!narrowest || left < narrowest->gpu_hours_known.high - narrowest->gpu_hours_known.low))
            narrowest = d;
        if (i < SHOWN && LEAST * (d->high - d->low) > widest)
            points[count++] =
                (struct chart_point){ .label = d->name, .low = d->low, .high = d->high };
    }
    struct chart_series series = { .points = points, .count = count };
    out_char(out, '\n');
    chart_text(
        out, arena,
        &(struct chart){ .kind = CHART_TORNADO,
                         .title = "What drives the GPU hours: 80 % range if only this varies",
                         .x = { .title = "GPU hours", .unit = CHART_HOURS },
                         .series = &series,
                         .series_count = 1 },
        out_columns(out) - 1, out->styled);
    if (narrowest)
        out_wrapped(out, 2, 2,
                    text_format(arena, "  Measure first: %s. It would narrow the range to %s – %s.",
                                narrowest->measurement,
                                text_hours(arena, narrowest->gpu_hours_known.low),
                                text_hours(arena, narrowest->gpu_hours_known.high)));
}

static void add_row(struct columns *columns, const char *why, const char *changes,
                    const struct search_result *r)
{
    struct arena *arena = columns->arena;
    columns_add(columns, why);
    columns_add(columns, changes);
    columns_add(columns, text_seconds(arena, r->wall_hours * 3600));
    columns_add(columns, text_hours(arena, r->gpu_hours));
    columns_add(columns, isnan(r->cost_usd) ? "-" : text_usd(arena, r->cost_usd));
}

static void put_alternatives(const struct plan *plan, struct arena *arena, struct out *out)
{
    if (!plan->request->search)
        return;
    struct columns columns = { .arena = arena, .align = "lLrrr", .indent = 2 };
    static const char *const titles[] = { "", "what changes", "wall clock", "GPU h", "cost", NULL };
    columns_add_row(&columns, titles);
    if (plan->fits)
        add_row(&columns, "this plan",
                text_format(arena, "%lld × %s, %s", (long long)plan->chosen.gpus,
                            plan->chosen.gpu->name, layout_spell(&plan->chosen.layout, arena)),
                &plan->chosen);
    for (size_t i = 0; i < plan->alternative_count; i++)
        add_row(&columns, plan->alternatives[i].why, plan->alternatives[i].changes,
                &plan->alternatives[i].result);
    out_char(out, '\n');
    out_heading(out, "Alternatives");
    columns_write(&columns, out);
    out_put(out, "  %s configuration%s considered, %s fit\n",
            text_commas(arena, (int64_t)plan->search.considered),
            text_plural((double)plan->search.considered),
            text_commas(arena, (int64_t)plan->search.fitting));
}

static void put_warnings(const struct plan *plan, struct out *out)
{
    if (plan->advice.count) {
        out_char(out, '\n');
        out_heading(out, "Warnings");
    }
    for (size_t i = 0; i < plan->advice.count; i++) {
        const struct advice_item *item = &plan->advice.items[i];
        int column = (int)strlen(item->code) + 4;
        out_put(out, "  %s: ", out_styled(out, OUT_WARNING, item->code));
        out_wrapped(out, 4, column, item->text);
    }
}

void plan_text(const struct plan *plan, struct arena *arena, struct out *out)
{
    const struct search_result *chosen = &plan->chosen;
    bool supervised = plan->objective.kind == OBJECTIVE_SFT;
    out_wrapped(
        out, 0, 0,
        out_styled(out, OUT_HEADING,
                   text_format(arena, "%s, %s%s%s with %s on %lld × %s", plan->model->name,
                               supervised ? "" : objective_names[plan->objective.kind],
                               supervised ? "" : ", ", method_of(&chosen->recipe, arena),
                               plan->stack->name, (long long)chosen->gpus, chosen->gpu->title)));
    out_char(out, '\n');
    if (!plan->fits)
        put_memory(plan, arena, out);
    put_hours(plan, arena, out);
    if (plan->fits)
        put_memory(plan, arena, out);
    put_run(plan, arena, out);
    put_drivers(plan, arena, out);
    put_alternatives(plan, arena, out);
    put_warnings(plan, out);
    out_put(out,
            "\n--explain shows how each number was computed; --json writes all of it as JSON.\n");
}
