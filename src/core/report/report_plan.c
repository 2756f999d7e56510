// SPDX-License-Identifier: Apache-2.0
// The sections of a plan: the answer, its range, GPU counts, alternatives, assumptions, warnings.

#include "core/report/report_internal.h"

#include "core/forecast/workload.h"

#include <math.h>
#include <string.h>

static const char *spell(struct arena *arena, double value, enum chart_unit unit)
{
    return chart_spell(arena, value, unit);
}

// --- the answer --------------------------------------------------------------

static void add_fact(struct report_section *s, struct report_fact fact)
{
    if (s->fact_count < REPORT_FACTS)
        s->facts[s->fact_count++] = fact;
}

static void add_range_fact(struct report_page *page, struct report_section *s,
                           const struct json *plan, const char *key, const char *name,
                           enum chart_unit unit)
{
    struct arena *arena = page->arena;
    const struct json *range = report_at(plan, key);
    double mid = report_number(range, "p50");
    if (isnan(mid))
        return;
    const char *value =
        unit == CHART_HOURS ? text_seconds(arena, mid * 3600) : spell(arena, mid, unit);
    const char *between = report_between(arena, range, unit);
    if (unit == CHART_HOURS)
        between =
            text_format(arena, "%s – %s", text_seconds(arena, report_number(range, "p10") * 3600),
                        text_seconds(arena, report_number(range, "p90") * 3600));
    add_fact(s, (struct report_fact){ .name = name, .value = value, .range = between });
}

static const char *describe(struct report_page *page, const struct json *plan)
{
    struct arena *arena = page->arena;
    const struct json *c = report_at(plan, "configuration");
    return text_format(arena,
                       "%s tokens × %s epoch%s with %s: %s, %s, context %s, micro-batch %.0f, "
                       "global batch %.0f, batching %s, activation checkpointing %s.",
                       spell(arena, report_number(plan, "workload.tokens"), CHART_COUNT),
                       workload_spell_epochs(report_number(plan, "workload.epochs"), arena),
                       text_plural(report_number(plan, "workload.epochs")),
                       report_word(arena, c, "stack"), report_word(arena, c, "precision"),
                       report_word(arena, c, "parallel"),
                       spell(arena, report_number(c, "context"), CHART_COUNT),
                       report_number(c, "micro_batch"), report_number(c, "global_batch"),
                       report_word(arena, c, "batching"), report_word(arena, c, "checkpointing"));
}

// Whether the pilot measured the configuration of the plan.
static bool is_same_run(struct arena *arena, const struct json *plan, const struct json *pilot)
{
    static const char *const keys[] = { "configuration.model", "configuration.method",
                                        "configuration.stack", "configuration.gpu" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(report_word(arena, plan, keys[i]), report_word(arena, pilot, keys[i])) != 0)
            return false;
    return report_number(plan, "configuration.gpus") == report_number(pilot, "configuration.gpus");
}

// NAN where the plan was told another, which comes first.
static double measured_start(const struct json *plan, const struct json *pilot)
{
    bool told = !isnan(report_number(plan, "request.startup"));
    return told ? NAN : report_number(pilot, "apart.startup_seconds");
}

// The plan's median GPU hours if training ran at the pilot's rate: training and evaluation scale.
// A start that the pilot measured, weights included, takes the place of the plan's, as with plan
// --pilot; the other parts of the wall clock stay.
static double hours_as_measured(struct arena *arena, const struct json *plan,
                                const struct json *pilot)
{
    const struct json *list = report_at(plan, "overheads");
    double sum = 0, training = NAN, scaled = 0, start = 0;
    double measured = measured_start(plan, pilot);
    for (size_t i = 0; i < report_items(list); i++) {
        double seconds = report_number(&list->items[i], "seconds");
        const char *name = report_word(arena, &list->items[i], "name");
        sum += seconds;
        if (!strcmp(name, "training"))
            training = seconds;
        if (!strcmp(name, "training") || !strcmp(name, "evaluation"))
            scaled += seconds;
        if (!strcmp(name, "start-up") || !strcmp(name, "loading weights"))
            start += seconds;
    }
    double rate = report_number(pilot, "tokens_per_second.mean");
    double factor = report_number(plan, "workload.processed_tokens") / rate / training;
    double change = scaled * (factor - 1) + (measured > 0 ? measured - start : 0);
    return report_number(plan, "gpu_hours.p50") * (sum + change) / sum;
}

// A pilot that the plan does not use: what it would change, and the command that uses it.
static void add_pilot(struct report_page *page, struct report_section *s, const struct json *plan,
                      const struct report_companions *with)
{
    struct arena *arena = page->arena;
    double rate = report_number(with->pilot, "tokens_per_second.mean");
    double hours = hours_as_measured(arena, plan, with->pilot);
    double start = measured_start(plan, with->pilot);
    bool same = is_same_run(arena, plan, with->pilot);
    if (same && hours > 0 && isfinite(hours))
        add_fact(
            s,
            (struct report_fact){
                .name = "As the pilot measured",
                .value = text_format(arena, "%s GPU h", text_hours(arena, hours)),
                .range = text_format(
                    arena, "%s tokens/s%s measured, %s tokens/s planned", text_count(arena, rate),
                    start > 0 ? text_format(arena, " and a start of %s", text_seconds(arena, start))
                              : "",
                    text_count(arena, report_number(plan, "tokens_per_second.p50"))) });
    report_add_text(
        s, text_format(arena,
                       "The plan was made before the pilot%s. gpuhours plan --plan %s --pilot %s "
                       "makes the forecast with the pilot, with its range.",
                       same ? "" : ", which ran another configuration", with->plan_name,
                       with->pilot_name));
}

static void add_repeats(struct report_page *page, struct report_section *s, const struct json *plan)
{
    struct arena *arena = page->arena;
    const struct json *repeats = report_at(plan, "failed_runs");
    double mean = report_number(repeats, "gpu_hours_mean");
    if (mean > 0)
        add_fact(
            s, (struct report_fact){
                   .name = "Further runs",
                   .value = text_format(arena, "%s GPU h", text_hours(arena, mean)),
                   .range = text_format(
                       arena, "failed and repeated ones: on average, %s at P90; in the hours above",
                       text_hours(arena, report_number(repeats, "gpu_hours_p90"))) });
}

static void add_sweep(struct report_page *page, struct report_section *s, const struct json *plan)
{
    struct arena *arena = page->arena;
    const struct json *sweep = report_at(plan, "sweep");
    if (!sweep)
        return;
    const char *name =
        text_format(arena, "%.0f runs, %.0f at a time on %.0f GPUs", report_number(sweep, "runs"),
                    report_number(sweep, "parallel_runs"), report_number(sweep, "peak_gpus"));
    const struct json *hours = report_at(sweep, "gpu_hours");
    add_fact(s, (struct report_fact){
                    .name = name,
                    .value = text_format(arena, "%s GPU h",
                                         text_hours(arena, report_number(hours, "p50"))),
                    .range = report_between(arena, hours, CHART_HOURS) });
    add_range_fact(page, s, sweep, "wall_hours", "Wall clock of all", CHART_HOURS);
    add_range_fact(page, s, sweep, "cost_usd", "Cost of all", CHART_USD);
}

static void add_answer(struct report_page *page, const struct json *plan,
                       const struct report_companions *with)
{
    struct arena *arena = page->arena;
    const struct json *hours = report_at(plan, "gpu_hours");
    const struct json *fit = report_at(plan, "memory.fits");
    bool fits = fit && fit->kind == JSON_BOOL && fit->flag;
    bool piloted = report_at(plan, "pilot") != NULL;
    struct report_section *s =
        report_open(page, "answer", "The answer",
                    fits ? "How many GPU hours it will take" : "It does not fit as configured");
    s->big = text_hours(arena, report_number(hours, "p50"));
    s->unit = fits ? "GPU hours" : "GPU hours if it fit";
    s->device = text_format(arena, "%.0f × %s", report_number(plan, "configuration.gpus"),
                            report_word(arena, plan, "configuration.gpu"));
    s->range = text_format(arena, "80 %% range %s%s", report_between(arena, hours, CHART_HOURS),
                           piloted       ? ", with the pilot"
                           : with->pilot ? ", planned before the pilot"
                                         : "");
    s->lead = describe(page, plan);
    if (with->pilot && !piloted)
        add_pilot(page, s, plan, with);
    add_range_fact(page, s, plan, "wall_hours", "Wall clock", CHART_HOURS);
    add_range_fact(page, s, plan, "cost_usd", "Cost", CHART_USD);
    add_repeats(page, s, plan);
    add_sweep(page, s, plan);
    add_fact(s, report_memory_fact(arena, plan));
    add_range_fact(page, s, plan, "tokens_per_second", "Tokens per second", CHART_COUNT);
}

// --- the range ---------------------------------------------------------------

static double percentile(const struct json *list, double which)
{
    for (size_t i = 0; i < report_items(list); i++)
        if (report_number(&list->items[i], "percentile") == which)
            return report_number(&list->items[i], "gpu_hours");
    return NAN;
}

// The cumulative distribution of the GPU hours.
static void draw_chances(struct report_page *page, struct report_section *s,
                         const struct json *plan)
{
    struct arena *arena = page->arena;
    const struct json *list = report_at(plan, "gpu_hours_percentiles");
    size_t count = report_items(list);
    if (count < 2)
        return;
    struct chart_point *points = ARENA_NEW(arena, struct chart_point, count);
    struct chart_series *series = ARENA_NEW(arena, struct chart_series, 1);
    for (size_t i = 0; i < count; i++)
        points[i] = (struct chart_point){ .x = report_number(&list->items[i], "gpu_hours"),
                                          .y = report_number(&list->items[i], "percentile") / 100 };
    *series = (struct chart_series){ .points = points, .count = count };
    struct chart_reference *refs = ARENA_NEW(arena, struct chart_reference, 3);
    static const struct {
        const char *key, *name;
    } ends[] = { { "gpu_hours.p10", "P10" },
                 { "gpu_hours.p50", "P50" },
                 { "gpu_hours.p90", "P90" } };
    for (int i = 0; i < 3; i++) {
        refs[i].at = report_number(plan, ends[i].key);
        refs[i].label = text_format(arena, "%s %s", ends[i].name, text_hours(arena, refs[i].at));
    }
    report_add_chart(
        page, s,
        (struct chart){ .kind = CHART_LINE,
                        .title = "Probability that the run ends within a number of GPU hours",
                        .alt = text_format(arena,
                                           "10 %% of runs end within %s GPU hours, "
                                           "half within %s, 90 %% within %s.",
                                           text_hours(arena, refs[0].at),
                                           text_hours(arena, refs[1].at),
                                           text_hours(arena, refs[2].at)),
                        .x = { .title = "GPU hours", .unit = CHART_HOURS },
                        .y = { .title = "probability", .unit = CHART_SHARE, .low = 0, .high = 1 },
                        .series = series,
                        .series_count = 1,
                        .references = refs,
                        .reference_count = 3 });
}

static double width_of(const struct json *driver)
{
    return report_number(driver, "gpu_hours_high") - report_number(driver, "gpu_hours_low");
}

// The range now, and the range that would remain after each measurement.
static void draw_fan(struct report_page *page, struct report_section *s, const struct json *plan)
{
    struct arena *arena = page->arena;
    const struct json *drivers = report_at(plan, "drivers");
    const struct json *percentiles = report_at(plan, "gpu_hours_percentiles");
    size_t count = 1;
    struct chart_point *outer = ARENA_NEW(arena, struct chart_point, report_items(drivers) + 1);
    struct chart_point *inner = ARENA_NEW(arena, struct chart_point, 1);
    outer[0] = (struct chart_point){ .label = "now",
                                     .x = report_number(plan, "gpu_hours.p50"),
                                     .low = report_number(plan, "gpu_hours.p10"),
                                     .high = report_number(plan, "gpu_hours.p90") };
    inner[0] = (struct chart_point){ .x = outer[0].x,
                                     .low = percentile(percentiles, 25),
                                     .high = percentile(percentiles, 75) };
    for (size_t i = 0; i < report_items(drivers); i++) {
        const struct json *known = report_at(&drivers->items[i], "gpu_hours_if_known");
        const char *how = report_word(arena, &drivers->items[i], "measurement");
        if (!*how || !(width_of(&drivers->items[i]) > 0))
            continue;
        outer[count++] = (struct chart_point){ .label = text_format(arena, "after %s", how),
                                               .x = report_number(known, "p50"),
                                               .low = report_number(known, "p10"),
                                               .high = report_number(known, "p90") };
    }
    struct chart_series *series = ARENA_NEW(arena, struct chart_series, 2);
    series[0] = (struct chart_series){ "80 % range (P10 – P90)", outer, count };
    series[1] = (struct chart_series){ "50 % range (P25 – P75)", inner, 1 };
    report_add_chart(page, s,
                     (struct chart){ .kind = CHART_FAN,
                                     .title = "GPU hours now, and after measuring",
                                     .x = { .title = "GPU hours", .unit = CHART_HOURS },
                                     .series = series,
                                     .series_count = 2 });
}

static void draw_tornado(struct report_page *page, struct report_section *s,
                         const struct json *plan)
{
    struct arena *arena = page->arena;
    const struct json *drivers = report_at(plan, "drivers");
    struct chart_point *points = ARENA_NEW(arena, struct chart_point, report_items(drivers) + 1);
    size_t count = 0;
    for (size_t i = 0; i < report_items(drivers); i++)
        if (width_of(&drivers->items[i]) > 0)
            points[count++] = (struct chart_point){
                .label = report_word(arena, &drivers->items[i], "name"),
                .x = report_number(plan, "gpu_hours.p50"),
                .low = report_number(&drivers->items[i], "gpu_hours_low"),
                .high = report_number(&drivers->items[i], "gpu_hours_high"),
            };
    struct chart_series *series = ARENA_NEW(arena, struct chart_series, 1);
    struct chart_reference *reference = ARENA_NEW(arena, struct chart_reference, 1);
    *series = (struct chart_series){ .points = points, .count = count };
    reference->at = report_number(plan, "gpu_hours.p50");
    reference->label = text_format(arena, "P50 %s", text_hours(arena, reference->at));
    if (count)
        report_add_chart(page, s,
                         (struct chart){ .kind = CHART_TORNADO,
                                         .title =
                                             "What drives the range: GPU hours from P10 to P90 "
                                             "when only one unknown varies",
                                         .x = { .title = "GPU hours", .unit = CHART_HOURS },
                                         .series = series,
                                         .series_count = 1,
                                         .references = reference,
                                         .reference_count = 1 });
}

static void add_range(struct report_page *page, const struct json *plan)
{
    struct arena *arena = page->arena;
    const struct json *drivers = report_at(plan, "drivers");
    const struct json *best = NULL;
    double least = INFINITY;
    for (size_t i = 0; i < report_items(drivers); i++) {
        const struct json *known = report_at(&drivers->items[i], "gpu_hours_if_known");
        double left = report_number(known, "p90") - report_number(known, "p10");
        if (*report_word(arena, &drivers->items[i], "measurement") && left < least)
            least = left, best = &drivers->items[i];
    }
    bool any = report_items(drivers) && width_of(&drivers->items[0]) > 0;
    struct report_section *s =
        report_open(page, "range", "The range",
                    any ? text_format(arena, "Most of the range comes from %s",
                                      report_word(arena, &drivers->items[0], "name"))
                        : "The range");
    if (best)
        s->lead = text_format(
            arena, "Measure first: %s. It would narrow the range to %s GPU hours, from %s now.",
            report_word(arena, best, "measurement"),
            report_between(arena, report_at(best, "gpu_hours_if_known"), CHART_HOURS),
            report_between(arena, report_at(plan, "gpu_hours"), CHART_HOURS));
    draw_chances(page, s, plan);
    draw_fan(page, s, plan);
    draw_tornado(page, s, plan);
}

// --- device counts -----------------------------------------------------------

// The first count from which the next larger one shortens the run by less than 10 %; 0: none.
static double last_useful(const struct json *scaling)
{
    for (size_t i = 0; i + 1 < report_items(scaling); i++) {
        const struct json *a = &scaling->items[i], *b = &scaling->items[i + 1];
        if (report_number(b, "wall_hours") > 0.9 * report_number(a, "wall_hours"))
            return report_number(a, "configuration.gpus");
    }
    return 0;
}

static void add_scaling(struct report_page *page, const struct json *plan)
{
    struct arena *arena = page->arena;
    const struct json *scaling = report_at(plan, "scaling");
    size_t count = report_items(scaling);
    if (count < 2)
        return;
    double useful = last_useful(scaling), own = report_number(plan, "configuration.gpus");
    const char *gpu = report_word(arena, plan, "configuration.gpu");
    struct report_section *s = report_open(
        page, "scaling", "How many GPUs",
        useful > 0 ? text_format(arena, "More than %.0f × %s hardly shorten the run", useful, gpu)
                   : text_format(arena, "More %s shorten the run", gpu));
    s->lead = "More GPUs end the run sooner and cost more GPU hours: start-up, communication and "
              "small batches are paid for on each of them.";
    struct chart_point *wall = ARENA_NEW(arena, struct chart_point, count);
    struct chart_point *hours = ARENA_NEW(arena, struct chart_point, count);
    static const char *const heads[] = { "GPUs", "layout", "wall clock", "GPU hours", "cost" };
    for (size_t i = 0; i < count; i++) {
        const struct json *r = &scaling->items[i];
        double gpus = report_number(r, "configuration.gpus");
        wall[i] = (struct chart_point){ .x = gpus,
                                        .y = report_number(r, "wall_hours"),
                                        .marked = gpus == own };
        hours[i] = (struct chart_point){ .x = gpus,
                                         .y = report_number(r, "gpu_hours"),
                                         .marked = gpus == own };
    }
    struct chart_series *series = ARENA_NEW(arena, struct chart_series, 2);
    series[0] = (struct chart_series){ "wall hours", wall, count };
    series[1] = (struct chart_series){ "GPU hours", hours, count };
    struct chart_reference *reference = ARENA_NEW(arena, struct chart_reference, 1);
    *reference = (struct chart_reference){ .at = useful, .label = "more hardly helps" };
    report_add_chart(page, s,
                     (struct chart){ .kind = CHART_LINE,
                                     .title = "Wall hours and GPU hours by number of GPUs",
                                     .x = { .title = "GPUs", .unit = CHART_COUNT, .log = true },
                                     .y = { .title = "hours", .unit = CHART_HOURS, .log = true },
                                     .series = series,
                                     .series_count = 2,
                                     .references = reference,
                                     .reference_count = useful > 0 });
    struct report_table *table = report_tabulate(page, s, heads, 5, 0x1d);
    for (size_t i = 0; i < count; i++) {
        const struct json *r = &scaling->items[i];
        if (report_number(r, "configuration.gpus") == own)
            table->marked = table->rows + 1;
        report_row(
            page, table,
            (const char *[]){ text_format(arena, "%.0f", report_number(r, "configuration.gpus")),
                              report_word(arena, r, "configuration.parallel"),
                              text_seconds(arena, report_number(r, "wall_hours") * 3600),
                              text_hours(arena, report_number(r, "gpu_hours")),
                              text_usd(arena, report_number(r, "cost_usd")) });
    }
}

// --- alternatives, padding ---------------------------------------------------

static void add_alternatives(struct report_page *page, const struct json *plan)
{
    struct arena *arena = page->arena;
    const struct json *list = report_at(plan, "alternatives");
    size_t count = report_items(list);
    if (!count)
        return;
    struct report_section *s =
        report_open(page, "alternatives", "Alternatives", "Other ways to run it");
    struct chart_point *points = ARENA_NEW(arena, struct chart_point, count + 1);
    points[0] = (struct chart_point){ .label = "this plan",
                                      .x = report_number(plan, "gpu_hours.p50"),
                                      .marked = true };
    static const char *const heads[] = { "",           "GPUs",      "method", "layout",
                                         "wall clock", "GPU hours", "cost" };
    for (size_t i = 0; i < count; i++)
        points[i + 1] = (struct chart_point){
            .label = text_format(arena, "%s: %.0f × %s", report_word(arena, &list->items[i], "why"),
                                 report_number(&list->items[i], "configuration.gpus"),
                                 report_word(arena, &list->items[i], "configuration.gpu")),
            .x = report_number(&list->items[i], "gpu_hours"),
        };
    struct chart_series *series = ARENA_NEW(arena, struct chart_series, 1);
    *series = (struct chart_series){ .points = points, .count = count + 1 };
    report_add_chart(page, s,
                     (struct chart){ .kind = CHART_BARS,
                                     .title = "GPU hours of each, at the median",
                                     .x = { .title = "GPU hours", .unit = CHART_HOURS },
                                     .series = series,
                                     .series_count = 1 });
    struct report_table *table = report_tabulate(page, s, heads, 7, 0x70);
    for (size_t i = 0; i < count; i++) {
        const struct json *r = &list->items[i];
        report_row(page, table,
                   (const char *[]){ report_word(arena, r, "why"),
                                     text_format(arena, "%.0f × %s",
                                                 report_number(r, "configuration.gpus"),
                                                 report_word(arena, r, "configuration.gpu")),
                                     report_word(arena, r, "configuration.method"),
                                     report_word(arena, r, "configuration.parallel"),
                                     text_seconds(arena, report_number(r, "wall_hours") * 3600),
                                     text_hours(arena, report_number(r, "gpu_hours")),
                                     text_usd(arena, report_number(r, "cost_usd")) });
    }
}

static void add_padding(struct report_page *page, const struct json *plan)
{
    struct arena *arena = page->arena;
    double share = report_number(plan, "workload.padding_share");
    double processed = report_number(plan, "workload.processed_tokens");
    const struct json *list = report_at(plan, "alternatives"), *packed = NULL;
    for (size_t i = 0; i < report_items(list); i++)
        if (!strcmp(report_word(arena, &list->items[i], "why"), "packed"))
            packed = &list->items[i];
    if (!(share > 0.005) || !(processed > 0))
        return;
    struct report_section *s = report_open(
        page, "padding", "Padding",
        text_format(arena, "%s of the processed tokens are padding", text_share(arena, share)));
    s->lead = packed ? text_format(arena, "Packing would take %s GPU hours instead of %s.",
                                   text_hours(arena, report_number(packed, "gpu_hours")),
                                   text_hours(arena, report_number(plan, "gpu_hours.p50")))
                     : text_format(arena, "Batching: %s.",
                                   report_word(arena, plan, "configuration.batching"));
    struct chart_point *points = ARENA_NEW(arena, struct chart_point, 2);
    points[0] = (struct chart_point){ .label = "this plan", .x = processed * (1 - share) };
    points[1] = (struct chart_point){ .label = "this plan", .x = processed * share };
    struct chart_series *series = ARENA_NEW(arena, struct chart_series, 2);
    series[0] = (struct chart_series){ "tokens of the data", &points[0], 1 };
    series[1] = (struct chart_series){ "padding", &points[1], 1 };
    report_add_chart(
        page, s,
        (struct chart){ .kind = CHART_STACKED,
                        .title = "Tokens processed over the whole run",
                        .alt = text_format(arena, "%s tokens of the data and %s of padding.",
                                           text_count(arena, points[0].x),
                                           text_count(arena, points[1].x)),
                        .x = { .title = "tokens", .unit = CHART_COUNT },
                        .series = series,
                        .series_count = 2 });
}

// --- assumptions and warnings ------------------------------------------------

// The value with a prefix that suits its unit: "1.2 GiB", "3 ms".
static const char *spell_unit(struct arena *arena, double value, const char *unit)
{
    if (!strcmp(unit, "bytes"))
        return chart_spell(arena, value, CHART_BYTES);
    if (!strcmp(unit, "bytes/s"))
        return text_format(arena, "%s/s", chart_spell(arena, value, CHART_BYTES));
    if (!strcmp(unit, "FLOP/s"))
        return chart_spell(arena, value, CHART_FLOPS_PER_S);
    if (!strcmp(unit, "s"))
        return chart_spell(arena, value, CHART_SECONDS);
    return chart_spell(arena, value, CHART_NUMBER);
}

static const char *value_of(struct arena *arena, const struct json *a)
{
    const char *unit = report_word(arena, a, "unit");
    double value = report_number(a, "value"), low = report_number(a, "low");
    double high = report_number(a, "high");
    const char *middle = spell_unit(arena, value, unit);
    return isnan(low) || isnan(high) || low == high
               ? middle
               : text_format(arena, "%s  (%s – %s)", middle, spell_unit(arena, low, unit),
                             spell_unit(arena, high, unit));
}

static void add_assumptions(struct report_page *page, const struct json *plan)
{
    struct arena *arena = page->arena;
    const struct json *list = report_at(plan, "assumptions");
    if (!report_items(list))
        return;
    struct report_section *s = report_open(page, "assumptions", "Assumptions",
                                           "Every assumption, and where it comes from");
    static const char *const heads[] = {
        "assumption", "value", "unit", "origin", "source", "as of"
    };
    struct report_table *table = report_tabulate(page, s, heads, 6, 0x20);
    for (size_t i = 0; i < list->count; i++) {
        const struct json *a = &list->items[i];
        report_row(page, table,
                   (const char *[]){ report_word(arena, a, "name"), value_of(arena, a),
                                     report_word(arena, a, "unit"), report_word(arena, a, "origin"),
                                     report_word(arena, a, "source"),
                                     report_word(arena, a, "as_of") });
    }
}

static void add_warnings(struct report_page *page, const struct json *plan)
{
    struct arena *arena = page->arena;
    const struct json *list = report_at(plan, "warnings");
    if (!report_items(list))
        return;
    struct report_section *s = report_open(
        page, "mistakes", "Warnings",
        list->count == 1 ? "One warning" : text_format(arena, "%zu warnings", list->count));
    static const char *const heads[] = { "what", "remedy" };
    struct report_table *table = report_tabulate(page, s, heads, 2, 0);
    s->blocks[s->count - 1].kind = REPORT_WARNINGS;
    for (size_t i = 0; i < list->count; i++) {
        struct text word = json_get_text(&list->items[i], "code");
        char *code = arena_copy(arena, word.at ? word.at : "", word.size < 80 ? word.size : 80);
        for (char *c = code; *c; c++)
            if (*c == '_')
                *c = ' ';
        report_row(page, table,
                   (const char *[]){ code, report_word(arena, &list->items[i], "text") });
    }
}

void report_plan(struct report_page *page, const struct json *plan,
                 const struct report_companions *with)
{
    add_answer(page, plan, with);
    add_warnings(page, plan);
    add_range(page, plan);
    if (with->profile)
        report_profile(page, with->profile, report_number(plan, "configuration.context"));
    add_padding(page, plan);
    report_memory(page, plan);
    report_step(page, plan);
    add_scaling(page, plan);
    add_alternatives(page, plan);
    add_assumptions(page, plan);
}
