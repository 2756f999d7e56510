// SPDX-License-Identifier: Apache-2.0
// The sections of profiles, pilots and finished runs.

#include "core/report/report_internal.h"

#include <math.h>
#include <string.h>

// --- lengths -----------------------------------------------------------------

enum { BINS = 100 };

struct bins {
    double edges[BINS + 1], kept[BINS], cut[BINS];
    int count;
    bool log;
    double examples, cut_examples, cut_tokens, tokens;
};

static bool is_bin(const struct json *bin)
{
    return report_items(bin) >= 2 && bin->items[0].kind == JSON_NUMBER &&
           bin->items[1].kind == JSON_NUMBER && bin->items[0].number >= 0 &&
           bin->items[1].number > 0;
}

// Round edges; ten per decade if lengths span more than a factor of 40.
static bool set_edges(struct bins *b, const struct json *histogram)
{
    double low = INFINITY, high = 0;
    for (size_t i = 0; i < report_items(histogram); i++)
        if (is_bin(&histogram->items[i])) {
            low = fmin(low, histogram->items[i].items[0].number);
            high = fmax(high, histogram->items[i].items[0].number);
        }
    if (!(high > 0) || high > 1e12)
        return false;
    low = fmax(low, 1);
    b->log = high / low > 40;
    struct chart_scale round = chart_scale(0, high + 1, false, CHART_NUMBER, CHART_TICKS);
    double step = round.tick_count > 1 ? (round.ticks[1] - round.ticks[0]) / 2 : high;
    double decade = floor(10 * log10(low));
    for (int i = 0; i <= BINS; i++) {
        b->edges[i] = b->log ? pow(10, (decade + i) / 10) : step * i;
        b->count = i;
        if (b->edges[i] > high)
            break;
    }
    return b->count > 0;
}

static bool fill_bins(struct bins *b, const struct json *histogram, double window)
{
    if (!set_edges(b, histogram))
        return false;
    for (size_t i = 0; i < report_items(histogram); i++) {
        const struct json *bin = &histogram->items[i];
        if (!is_bin(bin))
            continue;
        double length = bin->items[0].number, examples = bin->items[1].number;
        int at = 0;
        while (at < b->count - 1 && length >= b->edges[at + 1])
            at++;
        bool cut = length > window;
        *(cut ? &b->cut[at] : &b->kept[at]) += examples;
        b->examples += examples, b->tokens += examples * length;
        if (cut)
            b->cut_examples += examples, b->cut_tokens += examples * (length - window);
    }
    return true;
}

static const char *whole(struct arena *arena, double count)
{
    return count >= 0 && count < 1e15 ? text_commas(arena, llround(count)) : "unknown";
}

static void draw_lengths(struct report_page *page, struct report_section *s, const struct bins *b,
                         double window)
{
    struct arena *arena = page->arena;
    struct chart_point *points = ARENA_NEW(arena, struct chart_point, 2 * BINS);
    for (int i = 0; i < b->count; i++) {
        points[i] =
            (struct chart_point){ .low = b->edges[i], .high = b->edges[i + 1], .y = b->kept[i] };
        points[BINS + i] =
            (struct chart_point){ .low = b->edges[i], .high = b->edges[i + 1], .y = b->cut[i] };
    }
    struct chart_series *series = ARENA_NEW(arena, struct chart_series, 2);
    series[0] = (struct chart_series){ "fits the context window", points, (size_t)b->count };
    series[1] = (struct chart_series){ "truncated", points + BINS, (size_t)b->count };
    struct chart_reference *reference = ARENA_NEW(arena, struct chart_reference, 1);
    *reference = (struct chart_reference){
        .at = window, .label = text_format(arena, "context window %s", whole(arena, window))
    };
    bool inside = window >= b->edges[0] && window <= b->edges[b->count];
    report_add_chart(
        page, s,
        (struct chart){ .kind = CHART_HISTOGRAM,
                        .title = "Examples by length",
                        .alt =
                            text_format(arena,
                                        "%s example%s; a context window of %s tokens truncates "
                                        "%s of them.",
                                        text_count(arena, b->examples), text_plural(b->examples),
                                        whole(arena, window), text_count(arena, b->cut_examples)),
                        .x = { .title = "tokens per example", .unit = CHART_COUNT, .log = b->log },
                        .y = { .title = "examples", .unit = CHART_COUNT },
                        .series = series,
                        .series_count = b->cut_examples > 0 ? 2 : 1,
                        .references = reference,
                        .reference_count = inside });
}

static void tabulate_windows(struct report_page *page, struct report_section *s,
                             const struct json *contexts, double window)
{
    struct arena *arena = page->arena;
    static const char *const heads[] = {
        "context", "examples truncated",       "tokens truncated", "padded", "grouped",
        "packed",  "relative cost of an epoch"
    };
    struct report_table *table = report_tabulate(page, s, heads, 7, 0x7f);
    for (size_t i = 0; i < report_items(contexts) && i < 40; i++) {
        const struct json *c = &contexts->items[i];
        if (report_number(c, "context") == window)
            table->marked = table->rows + 1;
        report_row(
            page, table,
            (const char *[]){ whole(arena, report_number(c, "context")),
                              whole(arena, report_number(c, "truncated_examples")),
                              whole(arena, report_number(c, "truncated_tokens")),
                              text_share(arena, report_number(c, "padded_efficiency")),
                              text_share(arena, report_number(c, "grouped_efficiency")),
                              text_share(arena, report_number(c, "packed_efficiency")),
                              text_format(arena, "%.2f", report_number(c, "relative_cost")) });
    }
}

static void add_packing(struct report_page *page, const struct json *profile, double window)
{
    struct arena *arena = page->arena;
    const struct json *contexts = report_at(profile, "contexts"), *row = NULL;
    for (size_t i = 0; i < report_items(contexts); i++)
        if (!row || report_number(&contexts->items[i], "context") <= window)
            row = &contexts->items[i];
    if (!row)
        return;
    struct chart_point *points = ARENA_NEW(arena, struct chart_point, 3);
    static const char *const keys[] = { "padded_efficiency", "grouped_efficiency",
                                        "packed_efficiency" };
    static const char *const names[] = { "padded to the longest row of the batch",
                                         "grouped by length", "packed" };
    for (int i = 0; i < 3; i++)
        points[i] = (struct chart_point){ .label = names[i], .x = report_number(row, keys[i]) };
    struct chart_series *series = ARENA_NEW(arena, struct chart_series, 1);
    *series = (struct chart_series){ .points = points, .count = 3 };
    struct report_section *s = report_open(
        page, "packing", "Padding and packing",
        text_format(arena, "Padded batches are %.0f %% useful tokens, packed ones %.0f %%",
                    100 * points[0].x, 100 * points[2].x));
    s->lead = "Tokens in the data over tokens processed, simulated with the real lengths.";
    report_add_chart(
        page, s,
        (struct chart){ .kind = CHART_BARS,
                        .title = text_format(arena, "Useful share of a batch at a context of %s",
                                             whole(arena, report_number(row, "context"))),
                        .x = { .title = "useful share of processed tokens",
                               .unit = CHART_SHARE,
                               .low = 0,
                               .high = 1 },
                        .series = series,
                        .series_count = 1 });
    tabulate_windows(page, s, contexts, report_number(row, "context"));
    const char *because = report_word(arena, profile, "recommended_because");
    if (*because)
        report_add_text(s, text_format(arena, "Recommended context window: %s; %s.",
                                       whole(arena, report_number(profile, "recommended_context")),
                                       because));
}

void report_profile(struct report_page *page, const struct json *profile, double window)
{
    struct arena *arena = page->arena;
    struct bins bins = { 0 };
    if (!(window > 0))
        window = report_number(profile, "recommended_context");
    if (!(window > 0))
        window = INFINITY;
    const struct json *exact = report_at(profile, "tokenizer.exact");
    if (!fill_bins(&bins, report_at(profile, "length.histogram"), window))
        return;
    struct report_section *s = report_open(
        page, "lengths", "The data",
        bins.cut_examples > 0
            ? text_format(arena, "A context window of %s tokens truncates %s of %s example%s",
                          whole(arena, window), text_count(arena, bins.cut_examples),
                          text_count(arena, bins.examples), text_plural(bins.examples))
        : bins.examples == 1 ? "The one example fits the context window"
                             : text_format(arena, "All %s examples fit the context window",
                                           text_count(arena, bins.examples)));
    s->lead = text_format(
        arena,
        "%s tokens, counted with %s%s. Mean length %s, median %s, 99th percentile %s, longest %s; "
        "%s of the tokens are truncated.",
        text_count(arena, bins.tokens), report_word(arena, profile, "tokenizer.name"),
        exact && exact->kind == JSON_BOOL && exact->flag ? "" : " (estimated)",
        whole(arena, report_number(profile, "length.mean")),
        whole(arena, report_number(profile, "length.p50")),
        whole(arena, report_number(profile, "length.p99")),
        whole(arena, report_number(profile, "length.max")),
        text_share(arena, bins.tokens > 0 ? bins.cut_tokens / bins.tokens : 0));
    draw_lengths(page, s, &bins, window);
    add_packing(page, profile, window);
}

// --- pilots and runs ---------------------------------------------------------

// The time of each step, if the document has it.
static void draw_steps(struct report_page *page, struct report_section *s, const struct json *pilot)
{
    struct arena *arena = page->arena;
    const struct json *series = report_at(pilot, "step_seconds.series");
    size_t count = report_items(series), used = 0;
    double warmup = report_number(pilot, "warmup_steps");
    if (count < 2)
        return;
    struct chart_point *points = ARENA_NEW(arena, struct chart_point, count);
    for (size_t i = 0; i < count; i++)
        if (series->items[i].kind == JSON_NUMBER)
            points[used++] =
                (struct chart_point){ .x = (double)i + 1, .y = series->items[i].number };
    struct chart_series *line = ARENA_NEW(arena, struct chart_series, 1);
    struct chart_reference *refs = ARENA_NEW(arena, struct chart_reference, 2);
    *line = (struct chart_series){ .points = points, .count = used };
    refs[0] = (struct chart_reference){ .at = warmup + 0.5, .label = "warm-up ends" };
    refs[1] = (struct chart_reference){ .at = report_number(pilot, "step_seconds.p50"),
                                        .horizontal = true,
                                        .label = "median" };
    report_add_chart(page, s,
                     (struct chart){ .kind = CHART_LINE,
                                     .title = "Time of each step",
                                     .x = { .title = "step", .unit = CHART_COUNT },
                                     .y = { .title = "step time", .unit = CHART_SECONDS },
                                     .series = line,
                                     .series_count = 1,
                                     .references = refs,
                                     .reference_count = 2 });
}

static void draw_rates(struct report_page *page, struct report_section *s, const struct json *pilot,
                       const struct json *plan)
{
    struct arena *arena = page->arena;
    struct chart_point *points = ARENA_NEW(arena, struct chart_point, 2);
    struct chart_series *series = ARENA_NEW(arena, struct chart_series, 1);
    points[0] = (struct chart_point){ .label = "this pilot, 90 % interval",
                                      .x = report_number(pilot, "tokens_per_second.mean"),
                                      .low = report_number(pilot, "tokens_per_second.low"),
                                      .high = report_number(pilot, "tokens_per_second.high"),
                                      .marked = true };
    points[1] = (struct chart_point){ .label = "the plan, 80 % range",
                                      .x = report_number(plan, "tokens_per_second.p50"),
                                      .low = report_number(plan, "tokens_per_second.p10"),
                                      .high = report_number(plan, "tokens_per_second.p90") };
    *series = (struct chart_series){ .points = points, .count = plan ? 2 : 1 };
    report_add_chart(
        page, s,
        (struct chart){ .kind = CHART_BARS,
                        .title = "Sustained throughput",
                        .x = { .title = "tokens per second, all GPUs", .unit = CHART_COUNT },
                        .series = series,
                        .series_count = 1 });
}

enum reading { SECONDS, SHARE, WATTS, HERTZ, CELSIUS };

static const char *spell_reading(struct arena *arena, double value, enum reading reading)
{
    switch (reading) {
    case SECONDS: return text_seconds(arena, value);
    case SHARE: return text_share(arena, value);
    case WATTS: return text_format(arena, "%.0f W", value);
    case HERTZ: return text_format(arena, "%.0f MHz", value / 1e6);
    default: return text_format(arena, "%.0f °C", value);
    }
}

static void tabulate_readings(struct report_page *page, struct report_section *s,
                              const struct json *pilot)
{
    struct arena *arena = page->arena;
    static const struct {
        const char *name, *path;
        enum reading reading;
    } rows[] = {
        { "median step", "step_seconds.p50", SECONDS },
        { "90th percentile", "step_seconds.p90", SECONDS },
        { "longest step", "step_seconds.max", SECONDS },
        { "waiting for data", "stalls.data_seconds", SECONDS },
        { "evaluation", "stalls.evaluation_seconds", SECONDS },
        { "checkpoints", "stalls.save_seconds", SECONDS },
        { "other stalls", "stalls.other_seconds", SECONDS },
        { "start-up to first step", "apart.startup_seconds", SECONDS },
        { "whole pilot", "elapsed_seconds", SECONDS },
        { "GPU utilization", "gpu.utilisation", SHARE },
        { "power per GPU", "gpu.power_watts", WATTS },
        { "clock", "gpu.clock_hertz", HERTZ },
        { "highest temperature", "gpu.temperature_celsius", CELSIUS },
        { "throttled", "gpu.throttled_share", SHARE },
    };
    static const char *const heads[] = { "reading", "value" };
    struct report_table *table = report_tabulate(page, s, heads, 2, 2);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double value = report_number(pilot, rows[i].path);
        if (!isnan(value))
            report_row(
                page, table,
                (const char *[]){ rows[i].name, spell_reading(arena, value, rows[i].reading) });
    }
    if (!table->rows)
        s->count--;
}

void report_pilot(struct report_page *page, const struct json *pilot, const struct json *plan)
{
    struct arena *arena = page->arena;
    double mean = report_number(pilot, "tokens_per_second.mean");
    double low = report_number(pilot, "tokens_per_second.low");
    double high = report_number(pilot, "tokens_per_second.high");
    struct report_section *s =
        report_open(page, "pilot", "Measured",
                    text_format(arena, "The pilot sustained %s tokens/s", text_count(arena, mean)));
    const char *verdict = report_word(arena, pilot, "verdict");
    s->lead = text_format(
        arena, "Known to ± %.1f %% from %.0f step%s after %.0f warm-up step%s.%s%s%s",
        50 * (high - low) / mean, report_number(pilot, "steps"),
        text_plural(report_number(pilot, "steps")), report_number(pilot, "warmup_steps"),
        text_plural(report_number(pilot, "warmup_steps")), *verdict ? " " : "", verdict,
        report_number(pilot, "peak_bytes") > 0
            ? text_format(arena, " Peak memory: %s.",
                          text_bytes(arena, report_number(pilot, "peak_bytes")))
            : "");
    draw_steps(page, s, pilot);
    draw_rates(page, s, pilot, plan);
    tabulate_readings(page, s, pilot);
}

static double either(const struct json *tree, const char *path, const char *inner)
{
    double number = report_number(tree, path);
    return isnan(number) ? report_number(tree, inner) : number;
}

void report_run(struct report_page *page, const struct json *run)
{
    struct arena *arena = page->arena;
    double hours = report_number(run, "gpu_hours");
    struct report_section *s =
        report_open(page, "actual", "Actual",
                    text_format(arena, "The run took %s GPU hours", text_hours(arena, hours)));
    s->lead =
        text_format(arena, "%s of wall clock at %s tokens/s.",
                    text_seconds(arena, report_number(run, "wall_hours") * 3600),
                    text_count(arena, either(run, "tokens_per_second", "tokens_per_second.mean")));
    const struct json *planned = report_at(run, "planned.gpu_hours");
    if (!planned)
        return;
    struct chart_point *point = ARENA_NEW(arena, struct chart_point, 1);
    struct chart_series *series = ARENA_NEW(arena, struct chart_series, 1);
    struct chart_reference *actual = ARENA_NEW(arena, struct chart_reference, 1);
    *point = (struct chart_point){ .label = "planned, 80 % range",
                                   .x = report_number(planned, "p50"),
                                   .low = report_number(planned, "p10"),
                                   .high = report_number(planned, "p90") };
    *series = (struct chart_series){ "80 % range (P10 – P90)", point, 1 };
    *actual = (struct chart_reference){
        .at = hours, .label = text_format(arena, "actual %s", text_hours(arena, hours))
    };
    report_add_chart(page, s,
                     (struct chart){ .kind = CHART_FAN,
                                     .title = "Forecast and actual",
                                     .x = { .title = "GPU hours", .unit = CHART_HOURS },
                                     .series = series,
                                     .series_count = 1,
                                     .references = actual,
                                     .reference_count = 1 });
}
