// SPDX-License-Identifier: Apache-2.0
// Prints verdicts of fit against outcomes, and the scaling of jobs against what was published.

#include "cli/validate_more.h"

#include "base/columns.h"

#include <math.h>

// Predicted and published efficiency of a point may differ by this much.
static const double MOST_OFF = 0.10;

// --- fit ---------------------------------------------------------------------

// "LIT-006 (97 %), LIT-010 (81 %)": runs of an outcome whose verdict was wrong.
static void list_wrong(struct out *out, const struct run *runs, size_t count,
                       const struct validate_model *model, enum run_outcome outcome,
                       const char *title)
{
    const char *gap = title;
    for (size_t i = 0; i < count; i++) {
        double share = validate_fit_probability(out->arena, &runs[i], model);
        bool wrong = runs[i].outcome == RUN_FITS ? share < 0.5 : share >= 0.5;
        if (runs[i].outcome != (int)outcome || !wrong)
            continue;
        out_put(out, "%s%s (%.0f %%)", gap, runs[i].id, 100 * share);
        gap = ", ";
    }
    if (gap != title)
        out_char(out, '.');
}

void validate_put_fit(const struct run *runs, size_t count, const struct validate_model *model,
                      struct out *out)
{
    struct validate_fits fits = validate_fits(out->arena, runs, count, model);
    if (!fits.n)
        return;
    struct out line = { .arena = out->arena };
    out_put(&line,
            "Fits or not: %lld of %lld verdicts are right; %lld of the %lld runs that ran out of "
            "memory had a probability above %.0f %%.",
            (long long)fits.right, (long long)fits.n, (long long)fits.failed_sure,
            (long long)fits.failed, 100 * VALIDATE_FIT_MOST);
    list_wrong(&line, runs, count, model, RUN_OUT_OF_MEMORY,
               " Ran out of memory and were said to fit: ");
    list_wrong(&line, runs, count, model, RUN_FITS, " Ran and were said not to fit: ");
    out_char(out, '\n');
    out_wrapped(out, 0, 0, out_string(&line));
}

void validate_write_fit(struct json_writer *w, struct arena *arena, const struct run *runs,
                        size_t count, const struct validate_model *model)
{
    struct validate_fits fits = validate_fits(arena, runs, count, model);
    json_open(w, "fit_verdicts", '{');
    json_put_count(w, "n", fits.n);
    json_put_count(w, "right", fits.right);
    json_put_count(w, "failed", fits.failed);
    json_put_count(w, "failed_above_80_percent", fits.failed_sure);
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
    out_wrapped(out, 0, 0,
                text_format(out->arena,
                            "Scaling: %zu jobs were published on growing numbers of GPUs. Of %zu "
                            "the forecast's tokens/s per GPU, over those of the fewest GPUs, are "
                            "within %.2f at each point.",
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
