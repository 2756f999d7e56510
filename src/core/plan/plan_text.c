#include "core/plan/plan_internal.h"

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
    static const char *const names[] = { "full training", "LoRA", "QLoRA" };
    return recipe->method == RECIPE_FULL
               ? names[0]
               : text_format(arena, "%s of rank %lld", names[recipe->method],
                             (long long)recipe->rank);
}

const char *plan_spell(const struct search_result *result, struct arena *arena)
{
    static const char *const again[] = { "nothing recomputed", "selective recomputation",
                                         "full recomputation", "" };
    return text_format(arena, "%lld × %s, %s, micro-batch %.0f, %s", (long long)result->gpus,
                       result->gpu->name, layout_spell(&result->layout, arena),
                       result->workload.micro_batch, again[result->recipe.checkpointing]);
}

// --- the answer --------------------------------------------------------------

// "; 9 providers, prices of 2024-09-25 to 2026-10-10"
static const char *price_source(const struct plan *plan, struct arena *arena)
{
    const struct price *price = &plan->price;
    if (!price->oldest || !isnan(plan->request->price))
        return "";
    bool same = !strcmp(price->oldest, price->newest);
    return text_format(arena, "; %zu provider%s, prices of %s%s%s", price->offers,
                       price->offers == 1 ? "" : "s", price->oldest, same ? "" : " to ",
                       same ? "" : price->newest);
}

static void put_hours(const struct plan *plan, struct arena *arena, struct out *out)
{
    const struct forecast *f = &plan->forecast;
    put_line(out, "GPU hours",
             text_format(arena, "%s  (%s to %s, eight times in ten)",
                         text_hours(arena, f->gpu_hours.mid), text_hours(arena, f->gpu_hours.low),
                         text_hours(arena, f->gpu_hours.high)));
    put_line(out, "wall clock",
             text_format(arena, "%s  (%s to %s)%s", text_seconds(arena, f->wall_hours.mid * 3600),
                         text_seconds(arena, f->wall_hours.low * 3600),
                         text_seconds(arena, f->wall_hours.high * 3600),
                         isnan(plan->request->deadline) ? ""
                         : f->wall_hours.high * 3600 <= plan->request->deadline
                             ? ", within the deadline"
                         : plan->meets_deadline ? ", likely within the deadline"
                                                : ", misses the deadline"));
    const struct price *price = &plan->price;
    const char *from = price_source(plan, arena);
    put_line(out, "cost",
             price->offers
                 ? text_format(arena, "%s  (%s to %s%s)%s", text_usd(arena, f->cost_usd.mid),
                               text_usd(arena, f->cost_usd.low), text_usd(arena, f->cost_usd.high),
                               from, plan->meets_budget ? "" : ", above the budget")
                 : "unknown: the catalog has no offer of this GPU; --price sets one");
}

static void put_memory(const struct plan *plan, struct arena *arena, struct out *out)
{
    const struct memory *memory = &plan->estimate.memory;
    put_line(out, "memory",
             text_format(arena, "%s: %s of %s in use on each GPU at the fullest (%s), %s held",
                         !plan->fits           ? "DOES NOT FIT"
                         : plan->chosen.stable ? "fits"
                                               : "fits, tightly",
                         text_bytes(arena, memory->allocated_bytes),
                         text_bytes(arena, memory->device_bytes), memory->moment,
                         text_bytes(arena, memory->total_bytes)));
}

static void put_run(const struct plan *plan, struct arena *arena, struct out *out)
{
    const struct workload *workload = &plan->chosen.workload;
    const struct forecast *f = &plan->forecast;
    put_line(out, "speed",
             text_format(arena, "%s tokens/s  (%s to %s), %.0f %% of the GPUs' peak",
                         text_commas(arena, llround(f->tokens_per_s.mid)),
                         text_commas(arena, llround(f->tokens_per_s.low)),
                         text_commas(arena, llround(f->tokens_per_s.high)),
                         100 * plan->estimate.timing.peak_share * exp(plan->efficiency.log_mid)));
    if (plan->request->pilot)
        put_line(out, "pilot", plan_pilot_words(plan, arena));
    const char *rows =
        plan->rule.full_rows && plan->rule.shapes ? "rows as in the pilot"
        : plan->rule.full_rows
            ? "rows taken as full"
            : text_format(arena, "%.0f %% padding (%s)", 100 * workload->padding_share,
                          batching_names_auto[workload->batching]);
    put_line(out, "run",
             text_format(arena, "%s tokens × %.6g epoch%s, %s: %s processed in %s steps of %s",
                         text_count(arena, workload->tokens), workload->epochs,
                         workload->epochs == 1 ? "" : "s", rows,
                         text_count(arena, workload->processed_tokens),
                         text_commas(arena, llround(workload->steps)),
                         text_seconds(arena, plan->chosen.seconds_per_step)));
    put_line(out, "settings",
             text_format(arena,
                         "--context %.0f --micro-batch %.0f --global-batch %.0f --checkpointing %s "
                         "--parallel %s",
                         plan->rule.context, workload->micro_batch, workload->global_batch,
                         recipe_checkpointings[plan->chosen.recipe.checkpointing],
                         layout_spell(&plan->chosen.layout, arena)));
}

// --- what drives it ----------------------------------------------------------

static void put_drivers(const struct plan *plan, struct arena *arena, struct out *out)
{
    enum { SHOWN = 4, LEAST = 30 }; // of the widest range a part that can be seen
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
    chart_text(out, arena,
               &(struct chart){ .kind = CHART_TORNADO,
                                .title = "What drives the GPU hours, each alone",
                                .x = { .title = "GPU hours", .unit = CHART_HOURS },
                                .series = &series,
                                .series_count = 1 },
               (out->columns ? out->columns : 80) - 1, false);
    if (narrowest)
        out_wrapped(out, 2, 2,
                    text_format(arena, "  Measure first: %s, which leaves %s to %s.",
                                narrowest->measurement,
                                text_hours(arena, narrowest->gpu_hours_known.low),
                                text_hours(arena, narrowest->gpu_hours_known.high)));
}

static void put_result(const struct search_result *r, const char *why, const struct plan *plan,
                       struct arena *arena, struct out *out)
{
    enum { ROOM = 30 };
    const char *what = text_format(arena, "%lld × %s", (long long)r->gpus, r->gpu->name);
    if (r->recipe.method != plan->chosen.recipe.method)
        what = text_format(arena, "%s, %s", what, recipe_methods[r->recipe.method]);
    const char *spread = text_format(arena, "%s, %s", what, layout_spell(&r->layout, arena));
    if (text_columns(text_of(spread)) <= ROOM)
        what = spread;
    out_put(out, "  %-17s%s", why, what);
    out_repeat(out, ' ', ROOM - text_columns(text_of(what)));
    out_put(out, " %12s %8s %8s\n", text_seconds(arena, r->wall_hours * 3600),
            text_hours(arena, r->gpu_hours),
            isnan(r->cost_usd) ? "-" : text_usd(arena, r->cost_usd));
}

static void put_alternatives(const struct plan *plan, struct arena *arena, struct out *out)
{
    if (!plan->request->search)
        return;
    out_put(out, "\n%-49s %12s %8s %8s\n", "Alternatives", "wall clock", "GPU h", "cost");
    if (plan->fits)
        put_result(&plan->chosen, "this plan", plan, arena, out);
    for (size_t i = 0; i < plan->alternative_count; i++)
        put_result(&plan->alternatives[i].result, plan->alternatives[i].why, plan, arena, out);
    out_put(out, "  of %s configurations looked at, %s fit\n",
            text_commas(arena, (int64_t)plan->search.considered),
            text_commas(arena, (int64_t)plan->search.fitting));
}

static void put_advice(const struct plan *plan, struct out *out)
{
    if (plan->advice.count)
        out_put(out, "\nNoticed\n");
    for (size_t i = 0; i < plan->advice.count; i++) {
        const struct advice_item *item = &plan->advice.items[i];
        int column = (int)strlen(item->code) + 4;
        out_put(out, "  %s: ", item->code);
        out_wrapped(out, 4, column, item->text);
    }
}

void plan_text(const struct plan *plan, struct arena *arena, struct out *out)
{
    const struct search_result *chosen = &plan->chosen;
    out_wrapped(out, 0, 0,
                text_format(arena, "%s, %s with %s on %lld × %s", plan->model->name,
                            method_of(&chosen->recipe, arena), plan->stack->name,
                            (long long)chosen->gpus, chosen->gpu->title));
    out_char(out, '\n');
    if (!plan->fits)
        put_memory(plan, arena, out);
    put_hours(plan, arena, out);
    if (plan->fits)
        put_memory(plan, arena, out);
    put_run(plan, arena, out);
    put_drivers(plan, arena, out);
    put_alternatives(plan, arena, out);
    put_advice(plan, out);
    out_put(out,
            "\n--explain shows how each number came about; --json is the same as a document.\n");
}
