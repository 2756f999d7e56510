// SPDX-License-Identifier: Apache-2.0
// Two or more plans side by side, differences first.

#include "core/report/report_internal.h"

#include <math.h>
#include <string.h>

struct plans {
    const struct report_document *items[REPORT_DOCUMENTS];
    size_t count;
};

static const struct {
    const char *name, *path; // a number, or a range with p50
    enum chart_unit unit;
} measures[] = {
    { "GPU hours", "gpu_hours", CHART_HOURS },
    { "Wall clock hours", "wall_hours", CHART_HOURS },
    { "Cost", "cost_usd", CHART_USD },
    { "Tokens per second", "tokens_per_second", CHART_COUNT },
    { "Peak memory allocated per GPU", "memory.allocated_bytes", CHART_BYTES },
    { "Memory reserved per GPU", "memory.reserved_bytes", CHART_BYTES },
    { "Tokens in the data", "workload.tokens", CHART_COUNT },
    { "Tokens processed", "workload.processed_tokens", CHART_COUNT },
    { "Padding", "workload.padding_share", CHART_SHARE },
    { "Steps", "workload.steps", CHART_COUNT },
    { "Epochs", "workload.epochs", CHART_NUMBER },
};

static double median_of(const struct json *plan, const char *path)
{
    const struct json *at = report_at(plan, path);
    return at && at->kind == JSON_OBJECT ? report_number(at, "p50") : report_number(plan, path);
}

// Any value of a document as the text of a cell.
static const char *spell(struct arena *arena, const struct json *value)
{
    if (!value)
        return "–";
    switch (value->kind) {
    case JSON_BOOL: return value->flag ? "yes" : "no";
    case JSON_NUMBER: return chart_spell(arena, value->number, CHART_NUMBER);
    case JSON_STRING:
        return arena_copy(arena, value->string.at,
                          value->string.size < 400 ? value->string.size : 400);
    default: return "–";
    }
}

static const char *measure_cell(struct arena *arena, const struct plans *plans, size_t plan,
                                size_t measure)
{
    const struct json *tree = &plans->items[plan]->tree;
    double value = median_of(tree, measures[measure].path);
    double base = median_of(&plans->items[0]->tree, measures[measure].path);
    if (isnan(value))
        return "–";
    const char *text = chart_spell(arena, value, measures[measure].unit);
    return plan && base > 0 && value != base
               ? text_format(arena, "%s  (× %.2f)", text, value / base)
               : text;
}

static struct report_table *open_table(struct report_page *page, struct report_section *s,
                                       const struct plans *plans, const char *first)
{
    const char *heads[REPORT_DOCUMENTS + 1] = { first };
    for (size_t i = 0; i < plans->count; i++)
        heads[i + 1] = plans->items[i]->name;
    return report_tabulate(page, s, heads, plans->count + 1, 0);
}

// Rows that differ first, then those that do not.
static void tabulate_measures(struct report_page *page, struct report_section *s,
                              const struct plans *plans)
{
    struct report_table *table = open_table(page, s, plans, "median");
    table->numeric = UINT32_MAX & ~1u;
    for (int same = 0; same < 2; same++)
        for (size_t m = 0; m < sizeof measures / sizeof *measures; m++) {
            const char *cells[REPORT_DOCUMENTS + 1] = { measures[m].name };
            bool differs = false;
            for (size_t i = 0; i < plans->count; i++) {
                cells[i + 1] = measure_cell(page->arena, plans, i, m);
                differs |= strcmp(cells[i + 1], cells[1]) != 0;
            }
            if (differs == !same)
                report_row(page, table, cells);
        }
}

static bool tabulate_configuration(struct report_page *page, struct report_section *s,
                                   const struct plans *plans)
{
    const struct json *first = report_at(&plans->items[0]->tree, "configuration");
    struct report_table *table = open_table(page, s, plans, "setting");
    for (size_t k = 0; first && first->kind == JSON_OBJECT && k < first->count && k < 200; k++) {
        struct text key = first->items[2 * k].string;
        const char *name = arena_copy(page->arena, key.at, key.size < 60 ? key.size : 60);
        const char *cells[REPORT_DOCUMENTS + 1] = { name };
        bool differs = false;
        for (size_t i = 0; i < plans->count; i++) {
            const struct json *c = report_at(&plans->items[i]->tree, "configuration");
            cells[i + 1] = spell(page->arena, c ? json_get(c, name) : NULL);
            differs |= strcmp(cells[i + 1], cells[1]) != 0;
        }
        if (differs)
            report_row(page, table, cells);
    }
    return table->rows > 0;
}

static const struct json *assumption(const struct json *plan, const char *name)
{
    const struct json *list = report_at(plan, "assumptions");
    for (size_t i = 0; i < report_items(list); i++)
        if (text_is(json_get_text(&list->items[i], "name"), name))
            return json_get(&list->items[i], "value");
    return NULL;
}

static bool tabulate_assumptions(struct report_page *page, struct report_section *s,
                                 const struct plans *plans)
{
    const struct json *list = report_at(&plans->items[0]->tree, "assumptions");
    struct report_table *table = open_table(page, s, plans, "assumption");
    for (size_t k = 0; k < report_items(list) && k < 200; k++) {
        const char *name = report_word(page->arena, &list->items[k], "name");
        const char *cells[REPORT_DOCUMENTS + 1] = { name };
        bool differs = false;
        for (size_t i = 0; i < plans->count; i++) {
            cells[i + 1] = spell(page->arena, assumption(&plans->items[i]->tree, name));
            differs |= strcmp(cells[i + 1], cells[1]) != 0;
        }
        if (differs)
            report_row(page, table, cells);
    }
    return table->rows > 0;
}

static void draw_measure(struct report_page *page, struct report_section *s,
                         const struct plans *plans, const char *title, const char *axis,
                         const char *path, enum chart_unit unit)
{
    struct arena *arena = page->arena;
    struct chart_point *points = ARENA_NEW(arena, struct chart_point, plans->count);
    struct chart_series *series = ARENA_NEW(arena, struct chart_series, 1);
    for (size_t i = 0; i < plans->count; i++) {
        const struct json *range = report_at(&plans->items[i]->tree, path);
        points[i] = (struct chart_point){ .label = plans->items[i]->name,
                                          .x = report_number(range, "p50"),
                                          .low = report_number(range, "p10"),
                                          .high = report_number(range, "p90") };
    }
    *series = (struct chart_series){ "80 % range (P10 – P90)", points, plans->count };
    report_add_chart(page, s,
                     (struct chart){ .kind = CHART_FAN,
                                     .title = title,
                                     .x = { .title = axis, .unit = unit },
                                     .series = series,
                                     .series_count = 1 });
}

void report_compare(struct report_page *page, const struct report_input *input)
{
    struct plans plans = { .count = 0 };
    size_t least = 0, most = 0;
    for (size_t i = 0; i < input->count; i++)
        if (input->documents[i].kind == REPORT_PLAN)
            plans.items[plans.count++] = &input->documents[i];
    for (size_t i = 0; i < plans.count; i++) {
        double hours = median_of(&plans.items[i]->tree, "gpu_hours");
        if (hours < median_of(&plans.items[least]->tree, "gpu_hours"))
            least = i;
        if (hours > median_of(&plans.items[most]->tree, "gpu_hours"))
            most = i;
    }
    double low = median_of(&plans.items[least]->tree, "gpu_hours");
    double high = median_of(&plans.items[most]->tree, "gpu_hours");
    struct report_section *s = report_open(
        page, "compare", "Side by side",
        least == most ? "The plans take the same GPU hours"
                      : text_format(page->arena,
                                    "%s takes the fewest GPU hours, %s takes %.2f "
                                    "times as many",
                                    plans.items[least]->name, plans.items[most]->name, high / low));
    s->lead = "Differences come first; factors are relative to the first plan.";
    tabulate_measures(page, s, &plans);
    if (!tabulate_configuration(page, s, &plans))
        s->count--;
    draw_measure(page, s, &plans, "GPU hours of each plan", "GPU hours", "gpu_hours", CHART_HOURS);
    draw_measure(page, s, &plans, "Wall-clock hours of each plan", "hours", "wall_hours",
                 CHART_HOURS);
    draw_measure(page, s, &plans, "Cost of each plan", "US dollars", "cost_usd", CHART_USD);
    if (!tabulate_assumptions(page, s, &plans))
        s->count--;
}
