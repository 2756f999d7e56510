// SPDX-License-Identifier: Apache-2.0
// Where the time of a step and of the whole run goes.

#include "core/objective/objective.h"
#include "core/report/report_internal.h"

#include <math.h>
#include <string.h>

// The items of a list that take over 0.1 % of the sum, longest first.
static size_t take_seconds(struct chart_point *out, struct arena *arena, const struct json *list,
                           double *sum)
{
    size_t count = 0;
    *sum = 0;
    for (size_t i = 0; i < report_items(list); i++)
        if (report_number(&list->items[i], "seconds") > 0)
            *sum += report_number(&list->items[i], "seconds");
    for (size_t i = 0; i < report_items(list); i++) {
        double seconds = report_number(&list->items[i], "seconds");
        if (seconds > 0.001 * *sum)
            out[count++] =
                (struct chart_point){ .label = report_word(arena, &list->items[i], "name"),
                                      .x = seconds };
    }
    for (size_t i = 1; i < count && count < 400; i++)
        for (size_t k = i; k > 0 && out[k].x > out[k - 1].x; k--) {
            struct chart_point swap = out[k];
            out[k] = out[k - 1], out[k - 1] = swap;
        }
    return count;
}

static double draw_seconds(struct report_page *page, struct report_section *s,
                           const struct json *list, const char *title, const char *axis)
{
    struct arena *arena = page->arena;
    double sum;
    struct chart_point *points = ARENA_NEW(arena, struct chart_point, report_items(list) + 1);
    struct chart_series *series = ARENA_NEW(arena, struct chart_series, 1);
    *series =
        (struct chart_series){ .points = points, .count = take_seconds(points, arena, list, &sum) };
    for (size_t i = 0; i < series->count; i++) {
        double percent = 100 * points[i].x / sum;
        points[i].label = percent < 0.5
                              ? text_format(arena, "%s, under 1 %%", points[i].label)
                              : text_format(arena, "%s, %.0f %%", points[i].label, percent);
    }
    if (series->count)
        report_add_chart(page, s,
                         (struct chart){ .kind = CHART_BARS,
                                         .title = title,
                                         .x = { .title = axis, .unit = CHART_SECONDS },
                                         .series = series,
                                         .series_count = 1 });
    return sum;
}

static struct chart_series kind_series(struct arena *arena, const struct json *operations,
                                       const char *kind, const char *name)
{
    struct chart_point *points = ARENA_NEW(arena, struct chart_point, report_items(operations) + 1);
    size_t count = 0;
    for (size_t i = 0; i < report_items(operations); i++) {
        const struct json *op = &operations->items[i];
        double flops = report_number(op, "flops"), bytes = report_number(op, "bytes");
        double seconds = report_number(op, "seconds");
        if (!strcmp(report_word(arena, op, "kind"), kind) && flops > 0 && bytes > 0 && seconds > 0)
            points[count++] = (struct chart_point){ .label = report_word(arena, op, "name"),
                                                    .x = flops / bytes,
                                                    .y = flops / seconds };
    }
    return (struct chart_series){ name, points, count };
}

static void draw_roofline(struct report_page *page, struct report_section *s,
                          const struct json *step)
{
    enum { ROOF = 4 };
    struct arena *arena = page->arena;
    double sustained = report_number(step, "sustained_flops_per_second");
    double memory = report_number(step, "memory_bytes_per_second");
    double peak = report_number(step, "peak_flops_per_second");
    const struct json *operations = report_at(step, "operations");
    if (!(sustained > 0) || !(memory > 0) || !report_items(operations))
        return;
    double ridge = sustained / memory, first = ridge, last = ridge * 8;
    struct chart_series *series = ARENA_NEW(arena, struct chart_series, 4);
    series[1] = kind_series(arena, operations, "product", "matrix products");
    series[2] = kind_series(arena, operations, "attention", "attention");
    series[3] = kind_series(arena, operations, "optimizer", "optimizer");
    for (int k = 1; k < 4; k++)
        for (size_t i = 0; i < series[k].count; i++) {
            first = fmin(first, series[k].points[i].x);
            last = fmax(last, series[k].points[i].x);
        }
    first = fmax(first / 2, 1e-3), last *= 1.5;
    struct chart_point *roof = ARENA_NEW(arena, struct chart_point, ROOF);
    roof[0] = (struct chart_point){ .x = first, .y = fmin(sustained, first * memory) };
    roof[1] = (struct chart_point){ .x = ridge, .y = sustained };
    roof[2] = (struct chart_point){ .x = last, .y = sustained };
    series[0] = (struct chart_series){ "sustained limit", roof, 3 };
    struct chart_reference *datasheet = ARENA_NEW(arena, struct chart_reference, 1);
    *datasheet = (struct chart_reference){
        .at = peak,
        .horizontal = true,
        .label = text_format(arena, "datasheet %s", chart_spell(arena, peak, CHART_FLOPS_PER_S)),
    };
    report_add_chart(
        page, s,
        (struct chart){
            .kind = CHART_ROOFLINE,
            .title = "Operations against the roofline of the GPU",
            .alt = text_format(arena,
                               "The memory limit rises to %s at %s FLOP per "
                               "byte; %zu kinds of products and %zu of "
                               "attention are shown under it.",
                               chart_spell(arena, sustained, CHART_FLOPS_PER_S),
                               chart_spell(arena, ridge, CHART_NUMBER), series[1].count,
                               series[2].count),
            .x = { .title = "FLOP per byte moved", .unit = CHART_NUMBER, .log = true },
            .y = { .title = "FLOP/s of one GPU", .unit = CHART_FLOPS_PER_S, .log = true },
            .series = series,
            .series_count = series[3].count   ? 4
                            : series[2].count ? 3
                                              : 2,
            .references = datasheet,
            .reference_count = peak > 0 });
}

static void tabulate_operations(struct report_page *page, struct report_section *s,
                                const struct json *operations)
{
    struct arena *arena = page->arena;
    static const char *const heads[] = { "operation", "kind",  "time of a step",
                                         "FLOP",      "bytes", "FLOP/s" };
    if (!report_items(operations))
        return;
    struct report_table *table = report_tabulate(page, s, heads, 6, 0x3c);
    s->blocks[s->count - 1].folded = "All operations in numbers";
    for (size_t i = 0; i < operations->count && i < 100; i++) {
        const struct json *op = &operations->items[i];
        double flops = report_number(op, "flops"), seconds = report_number(op, "seconds");
        report_row(page, table,
                   (const char *[]){
                       report_word(arena, op, "name"), report_word(arena, op, "kind"),
                       text_seconds(arena, seconds), flops > 0 ? text_count(arena, flops) : "–",
                       text_bytes(arena, report_number(op, "bytes")),
                       flops > 0 ? chart_spell(arena, flops / seconds, CHART_FLOPS_PER_S) : "–" });
    }
}

static void add_overheads(struct report_page *page, const struct json *plan)
{
    const struct json *list = report_at(plan, "overheads");
    double training = NAN, sum = 0;
    for (size_t i = 0; i < report_items(list); i++) {
        double seconds = report_number(&list->items[i], "seconds");
        sum += seconds > 0 ? seconds : 0;
        if (i == 0)
            training = seconds;
    }
    if (!(sum > 0))
        return;
    struct report_section *s =
        report_open(page, "run", "The run",
                    text_format(page->arena, "Training steps are %.0f %% of the wall clock",
                                100 * training / sum));
    s->lead = "With every unknown at its median: what the GPUs are paid for, from start-up to the "
              "last checkpoint.";
    draw_seconds(page, s, list, "Where the wall clock goes", "wall clock");
}

// "8 of 16 GPUs sample with vllm, beside the training of the step before", and how long answers
// are.
static const char *sampling_words(struct arena *arena, const struct json *plan)
{
    double gpus = report_number(plan, "configuration.gpus");
    double own = report_number(plan, "configuration.sampler_gpus");
    double behind = report_number(plan, "configuration.async_steps");
    double generations = report_number(plan, "configuration.generations");
    const struct json *configuration = report_at(plan, "configuration");
    const char *who = own > 0
                          ? text_format(arena, "%.0f of %.0f GPUs only sample%s, the others train",
                                        own, gpus, own == 1 ? "s" : "")
                          : text_format(arena, "all %.0f GPUs sample and train in turns", gpus);
    const char *when = behind > 1   ? "both at once; answers may be "
                       : behind > 0 ? "both at once; answers are "
                                    : "one after the other";
    const char *age = behind > 0 ? text_format(arena, "%.0f step%s behind the weights", behind,
                                               text_plural(behind))
                                 : "";
    return text_format(
        arena,
        "%.0f answers to each prompt by %s: %s, %s%s. Lengths of answers at P10, P50 "
        "and P90: %s tokens.",
        generations, report_word(arena, configuration, "sampler"), who, when, age,
        report_word(arena, configuration, "response_length"));
}

// Of objectives other than supervised tuning: where a step's time goes by what is done.
static void add_phases(struct report_page *page, const struct json *plan)
{
    struct arena *arena = page->arena;
    const struct json *list = report_at(plan, "phases");
    const char *objective = NULL;
    for (int i = OBJECTIVE_SFT + 1; i < OBJECTIVES; i++)
        if (text_is(json_get_text(plan, "objective"), objective_names[i]))
            objective = objective_names[i];
    if (!objective || !report_items(list))
        return;
    double longest = 0;
    struct chart_point *points = ARENA_NEW(arena, struct chart_point, list->count);
    struct chart_series *series = ARENA_NEW(arena, struct chart_series, 1);
    *series = (struct chart_series){ .points = points };
    for (size_t i = 0; i < list->count && series->count < 16; i++) {
        const struct json *phase = &list->items[i], *apart = json_get(phase, "beside");
        double share = report_number(phase, "share"), seconds = report_number(phase, "seconds");
        const char *label = report_word(arena, phase, "name");
        longest = fmax(longest, share);
        if (seconds > 0)
            points[series->count++] =
                (struct chart_point){ .label =
                                          text_format(arena, "%s, %.0f %%%s", label, 100 * share,
                                                      apart ? " (beside the rest)" : ""),
                                      .x = seconds };
    }
    struct report_section *s =
        report_open(page, "phases", "Phases",
                    text_format(arena, "A step of %s: its longest phase takes %.0f %%", objective,
                                100 * longest));
    if (report_number(plan, "configuration.generations") > 0)
        s->lead = sampling_words(arena, plan);
    if (series->count)
        report_add_chart(page, s,
                         (struct chart){ .kind = CHART_BARS,
                                         .title = "Phases of one step",
                                         .x = { .title = "time", .unit = CHART_SECONDS },
                                         .series = series,
                                         .series_count = 1 });
}

void report_step(struct report_page *page, const struct json *plan)
{
    struct arena *arena = page->arena;
    const struct json *step = report_at(plan, "step");
    add_phases(page, plan);
    if (!step) {
        add_overheads(page, plan);
        return;
    }
    double seconds = report_number(step, "seconds"), share = report_number(step, "peak_share");
    double roofline = report_number(step, "roofline_seconds");
    struct report_section *s =
        report_open(page, "step", "A step",
                    text_format(arena, "A step of %s reaches %.0f %% of the datasheet's peak",
                                text_seconds(arena, seconds), 100 * share));
    s->lead = text_format(
        arena,
        "The roofline, the slower of arithmetic and memory traffic for each operation, gives %s; "
        "this stack reaches %.0f %% of that speed. The chart splits the roofline's %s.",
        text_seconds(arena, roofline), 100 * roofline / seconds, text_seconds(arena, roofline));
    draw_seconds(page, s, report_at(step, "parts"), "Time of one optimizer step on each GPU",
                 "time");
    draw_roofline(page, s, step);
    tabulate_operations(page, s, report_at(step, "operations"));
    add_overheads(page, plan);
}
