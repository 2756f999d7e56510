// The sections of a plan.

#include "core/report/report_internal.h"

#include <math.h>
#include <string.h>

static const char *spell(struct arena *arena, double value, enum chart_unit unit)
{
    return chart_spell(arena, value, unit);
}

// --- the answer --------------------------------------------------------------

static void add_fact(struct report_section *s, const char *name, const char *value,
                     const char *range, int mood)
{
    if (s->fact_count < REPORT_FACTS)
        s->facts[s->fact_count++] = (struct report_fact){ name, value, range, mood };
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
            text_format(arena, "%s to %s", text_seconds(arena, report_number(range, "p10") * 3600),
                        text_seconds(arena, report_number(range, "p90") * 3600));
    add_fact(s, name, value, between, 0);
}

static const char *describe(struct report_page *page, const struct json *plan)
{
    struct arena *arena = page->arena;
    const struct json *c = report_at(plan, "configuration");
    return text_format(arena,
                       "%s tokens × %.6g epoch%s with %s: %s, %s, context %s, micro-batch %.0f, "
                       "global batch %.0f, %s batches, recomputation %s.",
                       spell(arena, report_number(plan, "workload.tokens"), CHART_COUNT),
                       report_number(plan, "workload.epochs"),
                       report_number(plan, "workload.epochs") == 1 ? "" : "s",
                       report_word(arena, c, "stack"), report_word(arena, c, "precision"),
                       report_word(arena, c, "parallel"),
                       spell(arena, report_number(c, "context"), CHART_COUNT),
                       report_number(c, "micro_batch"), report_number(c, "global_batch"),
                       report_word(arena, c, "batching"), report_word(arena, c, "checkpointing"));
}

static void add_answer(struct report_page *page, const struct json *plan)
{
    struct arena *arena = page->arena;
    const struct json *hours = report_at(plan, "gpu_hours");
    const struct json *fit = report_at(plan, "memory.fits");
    bool fits = fit && fit->kind == JSON_BOOL && fit->flag;
    struct report_section *s =
        report_open(page, "answer", "The answer",
                    fits ? "How many GPU hours it will take" : "It does not fit as configured");
    s->big = text_hours(arena, report_number(hours, "p50"));
    s->unit = fits ? "GPU hours" : "GPU hours if it did";
    s->range =
        text_format(arena, "%s in eight runs of ten", report_between(arena, hours, CHART_HOURS));
    add_range_fact(page, s, plan, "wall_hours", "Wall clock", CHART_HOURS);
    add_range_fact(page, s, plan, "cost_usd", "Cost", CHART_USD);
    double total = report_number(plan, "memory.total_bytes");
    add_fact(s, "Memory on each GPU", text_bytes(arena, total),
             text_format(arena, fits ? "fits into %s" : "does not fit into %s",
                         text_bytes(arena, report_number(plan, "memory.device_bytes"))),
             fits ? 1 : -1);
    add_range_fact(page, s, plan, "tokens_per_second", "Tokens per second", CHART_COUNT);
    s->lead = describe(page, plan);
}

// --- the range ---------------------------------------------------------------

static double percentile(const struct json *list, double which)
{
    for (size_t i = 0; i < report_items(list); i++)
        if (report_number(&list->items[i], "percentile") == which)
            return report_number(&list->items[i], "gpu_hours");
    return NAN;
}

// How likely the run ends within so many hours.
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
    report_draw(page, s,
                (struct chart){
                    .kind = CHART_LINE,
                    .title = "The chance that the run ends within so many GPU hours",
                    .alt = text_format(arena,
                                       "One run in ten ends within %s GPU "
                                       "hours, half within %s, nine in ten "
                                       "within %s.",
                                       text_hours(arena, refs[0].at), text_hours(arena, refs[1].at),
                                       text_hours(arena, refs[2].at)),
                    .x = { .title = "GPU hours", .unit = CHART_HOURS },
                    .y = { .title = "chance", .unit = CHART_SHARE, .low = 0, .high = 1 },
                    .series = series,
                    .series_count = 1,
                    .references = refs,
                    .reference_count = 3 });
}

static double width_of(const struct json *driver)
{
    return report_number(driver, "gpu_hours_high") - report_number(driver, "gpu_hours_low");
}

// The range as it is, and what each measurement would leave of it.
static void draw_fan(struct report_page *page, struct report_section *s, const struct json *plan)
{
    struct arena *arena = page->arena;
    const struct json *drivers = report_at(plan, "drivers");
    const struct json *percentiles = report_at(plan, "gpu_hours_percentiles");
    size_t count = 1;
    struct chart_point *outer = ARENA_NEW(arena, struct chart_point, report_items(drivers) + 1);
    struct chart_point *inner = ARENA_NEW(arena, struct chart_point, 1);
    outer[0] = (struct chart_point){ .label = "as known now",
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
    series[0] = (struct chart_series){ "eight runs of ten (P10 to P90)", outer, count };
    series[1] = (struct chart_series){ "half of the runs (P25 to P75)", inner, 1 };
    report_draw(page, s,
                (struct chart){ .kind = CHART_FAN,
                                .title = "GPU hours now, and what would be left after measuring",
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
        report_draw(page, s,
                    (struct chart){ .kind = CHART_TORNADO,
                                    .title = "What drives the range: GPU hours from P10 to P90 "
                                             "when one unknown alone varies",
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
            arena, "Measure first: %s. It would leave %s GPU hours of the %s that are open now.",
            report_word(arena, best, "measurement"),
            report_between(arena, report_at(best, "gpu_hours_if_known"), CHART_HOURS),
            report_between(arena, report_at(plan, "gpu_hours"), CHART_HOURS));
    draw_chances(page, s, plan);
    draw_fan(page, s, plan);
    draw_tornado(page, s, plan);
}

// --- memory ------------------------------------------------------------------

struct part {
    const char *name;
    double bytes;
};

enum { PARTS = 64, SHOWN_PARTS = 7 };

// The largest first; those of no bytes are left out.
static size_t sort_parts(struct part *out, struct arena *arena, const struct json *list)
{
    size_t count = 0;
    for (size_t i = 0; i < report_items(list) && count < PARTS; i++) {
        struct part part = { report_word(arena, &list->items[i], "name"),
                             report_number(&list->items[i], "bytes") };
        if (!(part.bytes > 0))
            continue;
        size_t at = count++;
        for (; at > 0 && out[at - 1].bytes < part.bytes; at--)
            out[at] = out[at - 1];
        out[at] = part;
    }
    return count;
}

static const char *describe_memory(struct arena *arena, const struct json *plan)
{
    const struct json *memory = report_at(plan, "memory"), *step = report_at(plan, "step");
    const char *moment = report_word(arena, memory, "moment");
    const char *batch = "";
    if (report_number(step, "worst_batch.rows") > 0)
        batch = text_format(
            arena, ", with the worst batch: %.0f row%s of %s tokens where the average row has %s",
            report_number(step, "worst_batch.rows"),
            report_number(step, "worst_batch.rows") == 1 ? "" : "s",
            spell(arena, report_number(step, "worst_batch.width"), CHART_COUNT),
            spell(arena, rint(report_number(step, "batch.width")), CHART_COUNT));
    return text_format(
        arena,
        "The peak is %s %s%s. The allocator reports %s allocated and %s reserved; in eight runs of "
        "ten nvidia-smi shows %s.",
        strcmp(moment, "loss") ? "in" : "at the", moment, batch,
        text_bytes(arena, report_number(memory, "allocated_bytes")),
        text_bytes(arena, report_number(memory, "reserved_bytes")),
        report_between(arena, report_at(memory, "total_range_bytes"), CHART_BYTES));
}

static void draw_memory(struct report_page *page, struct report_section *s,
                        const struct part *parts, size_t count, double device)
{
    struct arena *arena = page->arena;
    struct chart_series *series = ARENA_NEW(arena, struct chart_series, SHOWN_PARTS + 1);
    struct chart_point *points = ARENA_NEW(arena, struct chart_point, SHOWN_PARTS + 1);
    struct chart_reference *card = ARENA_NEW(arena, struct chart_reference, 1);
    struct out alt = { .arena = arena };
    size_t shown = 0;
    double rest = 0;
    for (size_t i = SHOWN_PARTS; i < count; i++)
        rest += parts[i].bytes;
    for (; shown < count && shown <= SHOWN_PARTS; shown++) {
        bool last = shown == SHOWN_PARTS;
        points[shown] =
            (struct chart_point){ .label = "at the peak", .x = last ? rest : parts[shown].bytes };
        series[shown] =
            (struct chart_series){ text_format(arena, "%s %s", last ? "other" : parts[shown].name,
                                               text_bytes(arena, points[shown].x)),
                                   &points[shown], 1 };
        out_put(&alt, "%s%s", shown ? ", " : "", series[shown].name);
    }
    out_put(&alt, "; the card has %s.", text_bytes(arena, device));
    *card = (struct chart_reference){
        .at = device, .label = text_format(arena, "the card: %s", text_bytes(arena, device))
    };
    report_draw(page, s,
                (struct chart){ .kind = CHART_STACKED,
                                .title = "Memory by part against the card",
                                .alt = out_string(&alt),
                                .x = { .title = "bytes on the fullest GPU", .unit = CHART_BYTES },
                                .series = series,
                                .series_count = shown,
                                .references = card,
                                .reference_count = 1 });
}

static void add_memory(struct report_page *page, const struct json *plan)
{
    struct arena *arena = page->arena;
    struct part parts[PARTS];
    size_t count = sort_parts(parts, arena, report_at(plan, "memory.parts"));
    double total = report_number(plan, "memory.total_bytes");
    double device = report_number(plan, "memory.device_bytes");
    if (!count || !(total > 0))
        return;
    struct report_section *s =
        report_open(page, "memory", "Memory",
                    text_format(arena,
                                total <= device ? "%s of %s in use on the fullest GPU"
                                                : "%s needed on the fullest GPU, the card has %s",
                                text_bytes(arena, total), text_bytes(arena, device)));
    s->lead = describe_memory(arena, plan);
    draw_memory(page, s, parts, count, device);
    static const char *const heads[] = { "part", "bytes", "share" };
    struct report_table *table = report_tabulate(page, s, heads, 3, 6);
    s->blocks[s->count - 1].folded = "Every part in numbers";
    for (size_t i = 0; i < count; i++)
        report_row(page, table,
                   (const char *[]){ parts[i].name, text_bytes(arena, parts[i].bytes),
                                     text_share(arena, parts[i].bytes / total) });
}

// --- device counts -----------------------------------------------------------

// The first count from which twice as many shorten the run by less than a tenth; 0: none.
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
        useful > 0
            ? text_format(arena, "Beyond %.0f × %s more GPUs hardly shorten the run", useful, gpu)
            : text_format(arena, "Each doubling of %s shortens the run", gpu));
    s->lead = "Wall clock and GPU hours are two goals: more devices end sooner and cost more "
              "hours, because start-up, communication and small batches are paid on each.";
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
    report_draw(page, s,
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
        report_open(page, "alternatives", "Alternatives", "What could be done instead");
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
    report_draw(page, s,
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
        text_format(arena, "%s of what is processed is padding", text_share(arena, share)));
    s->lead = packed ? text_format(arena, "Packed rows would bring %s GPU hours to %s.",
                                   text_hours(arena, report_number(plan, "gpu_hours.p50")),
                                   text_hours(arena, report_number(packed, "gpu_hours")))
                     : text_format(arena, "Rows are made as \"%s\".",
                                   report_word(arena, plan, "configuration.batching"));
    struct chart_point *points = ARENA_NEW(arena, struct chart_point, 2);
    points[0] = (struct chart_point){ .label = "as planned", .x = processed * (1 - share) };
    points[1] = (struct chart_point){ .label = "as planned", .x = processed * share };
    struct chart_series *series = ARENA_NEW(arena, struct chart_series, 2);
    series[0] = (struct chart_series){ "tokens of the data", &points[0], 1 };
    series[1] = (struct chart_series){ "padding", &points[1], 1 };
    report_draw(page, s,
                (struct chart){ .kind = CHART_STACKED,
                                .title = "Tokens processed over the whole run",
                                .alt = text_format(
                                    arena, "%s tokens of the data and %s of padding.",
                                    text_count(arena, points[0].x), text_count(arena, points[1].x)),
                                .x = { .title = "tokens", .unit = CHART_COUNT },
                                .series = series,
                                .series_count = 2 });
}

// --- what it rests on --------------------------------------------------------

// Units that numbers of many digits are spelled with.
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
               : text_format(arena, "%s  (%s to %s)", middle, spell_unit(arena, low, unit),
                             spell_unit(arena, high, unit));
}

static void add_assumptions(struct report_page *page, const struct json *plan)
{
    struct arena *arena = page->arena;
    const struct json *list = report_at(plan, "assumptions");
    if (!report_items(list))
        return;
    struct report_section *s = report_open(page, "assumptions", "Assumptions",
                                           "Every number this rests on, and where it comes from");
    static const char *const heads[] = { "what", "value", "unit", "origin", "source", "as of" };
    struct report_table *table = report_tabulate(page, s, heads, 6, 0x22);
    for (size_t i = 0; i < list->count; i++) {
        const struct json *a = &list->items[i];
        report_row(page, table,
                   (const char *[]){ report_word(arena, a, "name"), value_of(arena, a),
                                     report_word(arena, a, "unit"), report_word(arena, a, "origin"),
                                     report_word(arena, a, "source"),
                                     report_word(arena, a, "as_of") });
    }
}

static void add_mistakes(struct report_page *page, const struct json *plan)
{
    struct arena *arena = page->arena;
    const struct json *list = report_at(plan, "warnings");
    if (!report_items(list))
        return;
    struct report_section *s =
        report_open(page, "mistakes", "Noticed",
                    list->count == 1 ? "One thing to look at"
                                     : text_format(arena, "%zu things to look at", list->count));
    static const char *const heads[] = { "what", "remedy" };
    struct report_table *table = report_tabulate(page, s, heads, 2, 0);
    s->blocks[s->count - 1].kind = REPORT_MISTAKES;
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

void report_plan(struct report_page *page, const struct json *plan, const struct json *profile)
{
    add_answer(page, plan);
    add_mistakes(page, plan);
    add_range(page, plan);
    if (profile)
        report_profile(page, profile, report_number(plan, "configuration.context"));
    add_padding(page, plan);
    add_memory(page, plan);
    report_step(page, plan);
    add_scaling(page, plan);
    add_alternatives(page, plan);
    add_assumptions(page, plan);
}
