// SPDX-License-Identifier: Apache-2.0
// The offers of a hosts document: the recommendation, charts of time and cost and of the cost of a
// run by the number of runs, the best offer of each kind, a table.

#include "core/report/report_internal.h"

#include "core/hosting/offers.h"

#include <math.h>
#include <string.h>

// Columns of the table: hours and cost come first, where a narrow screen shows them.
enum { PROVIDER, HOURS, COST, KIND, GPUS, INSTANCE, AS_OF, COLUMNS };

static const char *offer_name(struct arena *arena, const struct json *row)
{
    const char *provider = report_word(arena, row, "provider");
    double gpus = report_number(row, "gpus");
    if (!(gpus > 0))
        return text_format(arena, "%s, by the token", provider);
    return text_format(arena, "%s, %.0f × %s", provider, gpus, report_word(arena, row, "gpu"));
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

// --- the best of each kind ---------------------------------------------------

// Rows are ranked: the first of a kind that can be recommended, else the first of it; NULL: none.
static const struct json *best_of(struct arena *arena, const struct json *rows, int kind)
{
    const struct json *best = NULL;
    for (size_t i = 0; i < report_items(rows); i++) {
        const struct json *row = &rows->items[i];
        const struct json *against = json_get(row, "not_recommended");
        if (strcmp(report_word(arena, row, "kind"), offers_kind_names[kind]))
            continue;
        if (!against || against->kind != JSON_STRING)
            return row;
        best = best ? best : row;
    }
    return best;
}

// A month of an owned server at a share of its hours in use: the document has what an hour costs at
// 10 % and at 100 % of use, and a month is a line in the use.
static double owned_month(const struct json *row, double use)
{
    const struct json *by_use = report_at(row, "ownership.usd_per_gpu_hour_by_use");
    if (report_items(by_use) < 10)
        return NAN;
    double gpu_hours = 730 * report_number(row, "instance_gpus");
    double low = report_number(&by_use->items[0], "usd.typical") * gpu_hours * 0.1;
    double high = report_number(&by_use->items[9], "usd.typical") * gpu_hours;
    return low + (high - low) * (use - 0.1) / 0.9;
}

// Dollars of a run where `runs` of them, one after another, share what is paid by the month.
static double run_usd(struct arena *arena, const struct json *row, double runs)
{
    const char *kind = report_word(arena, row, "kind");
    bool owned = !strcmp(kind, offers_kind_names[OFFERS_COLOCATION]);
    if (!owned && strncmp(kind, "reserved", 8))
        return report_number(row, "cost_usd.p50");
    double run = report_number(row, "run_hours.p50");
    double hours = run + report_number(row, "move.in_hours") + report_number(row, "move.out_hours");
    double sets = fmax(1, ceil(runs * hours / 730 - 1e-9));
    double month = owned ? owned_month(row, fmin(1, runs * run / sets / 730))
                         : report_number(row, "price.usd_per_instance_hour") * 730;
    return sets * month * report_number(row, "instances") / runs +
           report_number(row, "move.in_usd") + report_number(row, "move.out_usd") +
           report_number(row, "storage.usd.p50");
}

enum { STEPS = 60 };

// The cost of a run over the runs of a month, one line per kind: lines cross where a commitment
// begins to pay.
static void draw_break_even(struct report_page *page, struct report_section *s,
                            const struct json *hosts)
{
    struct arena *arena = page->arena;
    const struct json *rows = report_at(hosts, "rows");
    struct chart_series *series = ARENA_NEW(arena, struct chart_series, OFFERS_MANAGED + 1);
    size_t used = 0, committed = 0;
    double longest = 0, now = report_number(hosts, "runs_per_month");
    for (int k = 0; k <= OFFERS_COLOCATION; k++) {
        const struct json *row = best_of(arena, rows, k);
        longest = row ? fmax(longest, report_number(row, "run_hours.p50")) : longest;
    }
    if (!(longest > 0) || !(now > 0))
        return;
    double most = fmin(1e5, fmax(10, fmax(2 * now, 2 * 730 / longest)));
    for (int k = 0; k <= OFFERS_COLOCATION; k++) {
        const struct json *row = best_of(arena, rows, k);
        if (!row)
            continue;
        struct chart_point *points = ARENA_NEW(arena, struct chart_point, STEPS + 1);
        for (int i = 0; i <= STEPS; i++) {
            double runs = exp(log(most) * i / STEPS);
            points[i] = (struct chart_point){ .x = runs, .y = run_usd(arena, row, runs) };
        }
        committed += k >= OFFERS_RESERVED_1Y;
        series[used++] = (struct chart_series){ text_format(arena, "%s: %s", offers_kind_names[k],
                                                            offer_name(arena, row)),
                                                points, STEPS + 1 };
    }
    if (!committed || used < 2)
        return;
    struct chart_reference *here = ARENA_NEW(arena, struct chart_reference, 1);
    *here = (struct chart_reference){ .at = now, .label = "your runs" };
    report_add_chart(
        page, s,
        (struct chart){
            .kind = CHART_LINE,
            .title = "Cost of a run by the runs of a month, best offer of each kind",
            .x = { .title = "runs a month, one after another", .unit = CHART_NUMBER, .log = true },
            .y = { .title = "cost of a run", .unit = CHART_USD, .log = true },
            .series = series,
            .series_count = used,
            .references = here,
            .reference_count = 1 });
}

static const char *commitment(struct arena *arena, double usd, const char *pays)
{
    return usd > 0 ? text_format(arena, "%s, %s", chart_spell(arena, usd, CHART_USD), pays) : "";
}

static void tabulate_kinds(struct report_page *page, struct report_section *s,
                           const struct json *rows)
{
    static const char *const heads[] = { "kind", "hours", "cost", "offer", "commitment" };
    enum { KIND_COLUMNS = sizeof heads / sizeof *heads };
    struct arena *arena = page->arena;
    struct report_table *table = report_tabulate(page, s, heads, KIND_COLUMNS, 1u << 1 | 1u << 2);
    for (int k = 0; k <= OFFERS_MANAGED; k++) {
        const struct json *row = best_of(arena, rows, k);
        if (!row)
            continue;
        double committed = report_number(row, "commitment.usd");
        double from = report_number(row, "commitment.break_even_runs_per_month");
        double use = report_number(row, "ownership.break_even_use");
        if (k == OFFERS_COLOCATION)
            committed = report_number(row, "ownership.server_usd.typical") *
                        report_number(row, "instances");
        const char *pays = from > 0 ? text_format(arena, "pays from %.3g runs a month", from)
                           : use > 0
                               ? text_format(arena, "pays from %.0f %% of its hours", 100 * use)
                               : "never pays";
        const char *cells[] = {
            offers_kind_names[k],
            report_between(arena, report_at(row, "elapsed_hours"), CHART_HOURS),
            report_between(arena, report_at(row, "cost_usd"), CHART_USD),
            offer_name(arena, row),
            commitment(arena, committed, pays),
        };
        report_row(page, table, cells);
    }
}

// --- all offers --------------------------------------------------------------

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
    draw_break_even(page, s, hosts);
    tabulate_kinds(page, s, rows);
    tabulate_offers(page, s, rows, pick);
    const struct json *advice = report_at(hosts, "advice");
    for (size_t i = 0; i < report_items(advice) && i < 8; i++)
        if (advice->items[i].kind == JSON_STRING)
            report_add_text(s, text_copy(arena, advice->items[i].string));
}
