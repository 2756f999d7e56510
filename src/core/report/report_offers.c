// SPDX-License-Identifier: Apache-2.0
// The offers of a hosts document: the recommendation, a chart of time and cost, a table.

#include "core/report/report_internal.h"

#include "core/hosting/offers.h"

#include <math.h>
#include <string.h>

// Columns of the table: hours and cost come first, where a narrow screen shows them.
enum { PROVIDER, HOURS, COST, KIND, GPUS, INSTANCE, AS_OF, COLUMNS };

static const char *offer_name(struct arena *arena, const struct json *row)
{
    return text_format(arena, "%s, %.0f × %s", report_word(arena, row, "provider"),
                       report_number(row, "gpus"), report_word(arena, row, "gpu"));
}

static void draw_offers(struct report_page *page, struct report_section *s, const struct json *rows,
                        double recommended)
{
    enum { KINDS = OFFERS_MANAGED + 1 };
    struct arena *arena = page->arena;
    struct chart_series *series = ARENA_NEW(arena, struct chart_series, KINDS);
    size_t used = 0;
    for (int k = 0; k < KINDS; k++) {
        struct chart_point *points = ARENA_NEW(arena, struct chart_point, report_items(rows));
        size_t count = 0;
        for (size_t i = 0; i < report_items(rows); i++) {
            const struct json *row = &rows->items[i];
            if (strcmp(report_word(arena, row, "kind"), offers_kind_names[k]))
                continue;
            const struct json *pareto = json_get(row, "pareto");
            bool best = (double)i == recommended;
            bool frontier = best || (pareto && pareto->kind == JSON_BOOL && pareto->flag);
            points[count++] = (struct chart_point){
                .label = frontier ? offer_name(arena, row) : NULL,
                .x = report_number(row, "elapsed_hours.p50"),
                .y = report_number(row, "cost_usd.p50"),
                .marked = best,
                .faint = !frontier,
            };
        }
        if (count)
            series[used++] = (struct chart_series){ offers_kind_names[k], points, count };
    }
    report_add_chart(
        page, s,
        (struct chart){
            .kind = CHART_SCATTER,
            .title = "Offers by time and cost; labelled: best trade-offs of time and "
                     "cost",
            .x = { .title = "hours from now to the result", .unit = CHART_HOURS, .log = true },
            .y = { .title = "cost", .unit = CHART_USD, .log = true },
            .series = series,
            .series_count = used });
}

// Whether the table already has this instance and kind, in another region.
static bool has_offer(struct arena *arena, const struct report_table *table, const struct json *row)
{
    const char *instance = report_word(arena, row, "instance");
    const char *kind = report_word(arena, row, "kind");
    const char *provider = report_word(arena, row, "provider");
    for (size_t i = 0; i < table->rows; i++) {
        const char **cells = table->cells + i * table->columns;
        if (!strcmp(cells[PROVIDER], provider) && !strcmp(cells[INSTANCE], instance) &&
            !strcmp(cells[KIND], kind))
            return true;
    }
    return false;
}

// The first offers, each instance and kind once.
static void tabulate_offers(struct report_page *page, struct report_section *s,
                            const struct json *rows, double recommended)
{
    enum { SHOWN = 20 };
    struct arena *arena = page->arena;
    static const char *const heads[COLUMNS] = {
        [PROVIDER] = "provider", [HOURS] = "hours",       [COST] = "cost",        [KIND] = "kind",
        [GPUS] = "GPUs",         [INSTANCE] = "instance", [AS_OF] = "price as of"
    };
    struct report_table *table =
        report_tabulate(page, s, heads, COLUMNS, 1u << HOURS | 1u << COST | 1u << AS_OF);
    for (size_t i = 0; i < rows->count && table->rows < SHOWN; i++) {
        const struct json *row = &rows->items[i];
        if (has_offer(arena, table, row))
            continue;
        if ((double)i == recommended)
            table->marked = table->rows + 1;
        const char *cells[COLUMNS] = {
            [PROVIDER] = report_word(arena, row, "provider"),
            [HOURS] = report_between(arena, report_at(row, "elapsed_hours"), CHART_HOURS),
            [COST] = report_between(arena, report_at(row, "cost_usd"), CHART_USD),
            [KIND] = report_word(arena, row, "kind"),
            [GPUS] = text_format(arena, "%.0f × %s", report_number(row, "gpus"),
                                 report_word(arena, row, "gpu")),
            [INSTANCE] = report_word(arena, row, "instance"),
            [AS_OF] = report_word(arena, row, "price.as_of"),
        };
        report_row(page, table, cells);
    }
}

void report_hosts(struct report_page *page, const struct json *hosts)
{
    struct arena *arena = page->arena;
    const struct json *rows = report_at(hosts, "rows");
    double pick = report_number(hosts, "picks.recommended");
    bool has = pick >= 0 && pick < (double)report_items(rows) && pick == floor(pick);
    if (!report_items(rows))
        return;
    const struct json *best = has ? &rows->items[(size_t)pick] : NULL;
    struct report_section *s =
        report_open(page, "offers", "Where to run it",
                    best ? text_format(arena, "Recommended: %s, %s", offer_name(arena, best),
                                       report_word(arena, best, "kind"))
                         : "No offer meets the limits");
    if (best)
        s->lead =
            text_format(arena, "%s for %s, done in %s: %s.", report_word(arena, best, "instance"),
                        report_between(arena, report_at(best, "cost_usd"), CHART_USD),
                        text_seconds(arena, report_number(best, "elapsed_hours.p50") * 3600),
                        report_word(arena, hosts, "picks.reason"));
    draw_offers(page, s, rows, pick);
    tabulate_offers(page, s, rows, pick);
    const struct json *advice = report_at(hosts, "advice");
    for (size_t i = 0; i < report_items(advice) && i < 8; i++)
        if (advice->items[i].kind == JSON_STRING)
            report_add_text(s, text_copy(arena, advice->items[i].string));
}
