// SPDX-License-Identifier: Apache-2.0
// Prints verdicts of fit against outcomes, and the scaling of jobs against what was published.

#include "core/measured/validate_outcomes.h"

#include "base/columns.h"

#include <math.h>

// Predicted and published efficiency of a point may differ by this much.
static const double MOST_OFF = 0.10;

// --- fit ---------------------------------------------------------------------

// "LIT-006, LIT-010": the rows whose verdict was wrong in that way.
static void list_wrong(struct out *out, const struct validate_row *rows, size_t count, bool fits)
{
    const char *gap = "";
    for (size_t i = 0; i < count; i++) {
        bool fitted = rows[i].run->outcome == RUN_FITS;
        if (!rows[i].judged || rows[i].fits == fitted || rows[i].fits != fits)
            continue;
        out_put(out, "%s%s", gap, rows[i].run->id);
        gap = ", ";
    }
}

static void put_likely(const struct validate_row *rows, size_t count, struct out *out)
{
    static const char *const titles[] = { "probability", "runs", "fitted", "expected", NULL };
    struct validate_likely groups[VALIDATE_LIKELIES];
    struct columns columns = { .arena = out->arena, .align = "lrrr", .spare = "0000", .indent = 2 };
    validate_likely(groups, rows, count);
    columns_add_row(&columns, titles);
    for (int i = VALIDATE_LIKELIES; i-- > 0;)
        if (groups[i].n) {
            const struct validate_likely *g = &groups[i];
            struct arena *arena = out->arena;
            columns_add(&columns,
                        text_format(arena, "%.0f to %.0f %%", 100 * g->from, 100 * g->to));
            columns_add(&columns, text_format(arena, "%lld", (long long)g->n));
            columns_add(&columns, text_format(arena, "%lld", (long long)g->fitted));
            columns_add(&columns, text_format(arena, "%.1f", g->expected));
        }
    out_char(out, '\n');
    columns_write(&columns, out);
}

void validate_put_fit(const struct validate_row *rows, size_t count, struct out *out)
{
    struct validate_verdicts v = validate_verdicts(rows, count);
    if (!v.n)
        return;
    struct out line = { .arena = out->arena };
    out_put(&line,
            "Fit: %lld runs state whether they fitted; the forecast is right for %lld (%.0f %%).",
            (long long)v.n, (long long)v.right, 100.0 * (double)v.right / (double)v.n);
    if (v.unsafe) {
        out_put(&line, " Forecast to fit but ran out of memory: ");
        list_wrong(&line, rows, count, true);
        out_put(&line, "; for %lld of them the probability was above %.0f %%.",
                (long long)v.surely_wrong, 100 * VALIDATE_FIT_MOST);
    }
    if (v.tight) {
        out_put(&line, " Forecast not to fit but ran: ");
        list_wrong(&line, rows, count, false);
        out_put(&line, ".");
    }
    out_char(out, '\n');
    out_wrapped(out, 0, 0, out_string(&line));
    put_likely(rows, count, out);
}

void validate_write_fit(struct json_writer *w, const struct validate_row *rows, size_t count)
{
    struct validate_verdicts v = validate_verdicts(rows, count);
    struct validate_likely groups[VALIDATE_LIKELIES];
    validate_likely(groups, rows, count);
    json_open(w, "fit", '{');
    json_put_count(w, "n", v.n);
    json_put_count(w, "right", v.right);
    json_put_count(w, "unsafe", v.unsafe);
    json_put_count(w, "surely_wrong", v.surely_wrong);
    json_put_count(w, "tight", v.tight);
    json_open(w, "by_probability", '[');
    for (int i = 0; i < VALIDATE_LIKELIES; i++) {
        json_open(w, NULL, '{');
        json_put_number(w, "from", groups[i].from);
        json_put_number(w, "to", groups[i].to);
        json_put_count(w, "n", groups[i].n);
        json_put_count(w, "fitted", groups[i].fitted);
        json_put_number(w, "expected", groups[i].expected);
        json_close(w, '}');
    }
    json_close(w, ']');
    json_close(w, '}');
}

// --- scaling -----------------------------------------------------------------

static void add_series(struct columns *columns, const struct validate_series *series)
{
    struct arena *arena = columns->arena;
    for (size_t i = 0; i < series->count; i++) {
        const struct validate_point *point = &series->points[i];
        bool off = fabs(point->predicted - point->published) > MOST_OFF;
        columns_add(columns, i ? "" : series->name);
        columns_add(columns, point->row->run->id);
        columns_add(columns, text_format(arena, "%lld", (long long)point->row->run->n_gpus));
        columns_add(columns, text_format(arena, "%.2f", point->published));
        columns_add(columns, text_format(arena, "%.2f", point->predicted));
        columns_add(columns, off ? "off" : "");
    }
}

void validate_put_series(const struct validate_row *rows, size_t count, bool all, struct out *out)
{
    static const char *const titles[] = { "", "run", "GPUs", "published", "forecast", "", NULL };
    struct validate_series *series;
    size_t found = validate_series(&series, out->arena, rows, count), near = 0;
    if (!found)
        return;
    struct columns columns = {
        .arena = out->arena, .align = "LLrrrl", .spare = "010000", .indent = 2
    };
    columns_add_row(&columns, titles);
    for (size_t i = 0; i < found; i++) {
        near += series[i].worst <= MOST_OFF;
        if (all || series[i].worst > MOST_OFF)
            add_series(&columns, &series[i]);
    }
    out_char(out, '\n');
    out_wrapped(
        out, 0, 0,
        text_format(out->arena,
                    "Scaling: %zu jobs were published at several GPU counts. For %zu of them "
                    "the forecast scaling efficiency (tokens/s per GPU relative to the "
                    "smallest count) is within %.2f of the published one at every count.",
                    found, near, MOST_OFF));
    if (!all && near == found)
        return;
    out_char(out, '\n');
    columns_write(&columns, out);
}

void validate_write_series(struct json_writer *w, struct arena *arena,
                           const struct validate_row *rows, size_t count)
{
    struct validate_series *series;
    size_t found = validate_series(&series, arena, rows, count);
    json_open(w, "series", '[');
    for (size_t i = 0; i < found; i++) {
        json_open(w, NULL, '{');
        json_put_string(w, "name", series[i].name);
        json_put_number(w, "worst", series[i].worst);
        json_open(w, "points", '[');
        for (size_t k = 0; k < series[i].count; k++) {
            const struct validate_point *point = &series[i].points[k];
            json_open(w, NULL, '{');
            json_put_string(w, "id", point->row->run->id);
            json_put_count(w, "gpus", point->row->run->n_gpus);
            json_put_number(w, "published", point->published);
            json_put_number(w, "predicted", point->predicted);
            json_close(w, '}');
        }
        json_close(w, ']');
        json_close(w, '}');
    }
    json_close(w, ']');
}
