// SPDX-License-Identifier: Apache-2.0
// Charts with one category per row: bars, stacked bars, tornadoes, fans.

#include "core/chart/chart_internal.h"

#include "base/markup.h"

#include <math.h>

enum { BODY = 12, NARROW = 460 };

static const char *const fills[] = { "f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7" };

struct rows {
    struct chart_drawing *d;
    const struct chart *chart;
    struct chart_scale scale;
    size_t count;
    double left, right, top, pitch, bar; // of the plot; of a row
    bool narrow;                         // labels are above their bars
    bool any_marked;                     // rows that are not marked are lighter
};

static const char *value_of(const struct rows *r, size_t row)
{
    struct arena *arena = r->d->arena;
    const struct chart_series *series = &r->chart->series[0];
    enum chart_unit unit = r->chart->x.unit;
    if (r->chart->kind == CHART_STACKED)
        return chart_spell(arena, chart_row_sum(r->chart, row), unit);
    if (row >= series->count)
        return "";
    const struct chart_point *p = &series->points[row];
    if (!chart_has_range(p))
        return r->chart->kind == CHART_BARS ? chart_spell(arena, p->x, unit) : "";
    const char *low = chart_spell(arena, p->low, unit), *high = chart_spell(arena, p->high, unit);
    if (r->chart->kind == CHART_TORNADO)
        return text_format(arena, "%s – %s", low, high);
    return text_format(arena, "%s  (%s – %s)", chart_spell(arena, p->x, unit), low, high);
}

static double place(const struct rows *r, double value)
{
    return r->left + chart_place(&r->scale, value) * (r->right - r->left);
}

// Values outside the scale are placed at its ends.
static double place_inside(const struct rows *r, double value)
{
    return place(r, fmax(r->scale.low, fmin(r->scale.high, value)));
}

static void put_bar(const struct rows *r, double y, double from, double to, const char *class,
                    double opacity)
{
    if (!isfinite(from) || !isfinite(to))
        return;
    double a = place_inside(r, fmin(from, to)), b = place_inside(r, fmax(from, to));
    chart_add(r->d, (struct chart_mark){ .kind = CHART_RECT,
                                         .class = class,
                                         .x = a,
                                         .y = y,
                                         .width = fmax(b - a, 0.75),
                                         .height = r->bar,
                                         .opacity = opacity });
}

static void put_segment(const struct rows *r, const char *class, double x1, double y1, double x2,
                        double y2)
{
    chart_add(
        r->d,
        (struct chart_mark){
            .kind = CHART_SEGMENT, .class = class, .x = x1, .y = y1, .width = x2, .height = y2 });
}

static void put_whisker(const struct rows *r, double y, const struct chart_point *p)
{
    double a = place_inside(r, p->low), b = place_inside(r, p->high), middle = y + r->bar / 2;
    if (!isfinite(a) || !isfinite(b))
        return;
    put_segment(r, "whisker", a, middle, b, middle);
    put_segment(r, "whisker", a, middle - 4, a, middle + 4);
    put_segment(r, "whisker", b, middle - 4, b, middle + 4);
}

static void put_stack(const struct rows *r, double y, size_t row)
{
    double sum = 0;
    for (size_t s = 0; s < r->chart->series_count; s++) {
        if (row >= r->chart->series[s].count)
            continue;
        double value = r->chart->series[s].points[row].x;
        if (!(value > 0) || !isfinite(value))
            continue;
        put_bar(r, y, sum, sum + value, fills[s % 8], 0);
        sum += value;
        if (place(r, sum) < r->right - 1) // a gap that also prints
            put_segment(r, "halo", place(r, sum), y, place(r, sum), y + r->bar);
    }
}

static void put_row(const struct rows *r, double y, size_t row)
{
    const struct chart *chart = r->chart;
    if (chart->kind == CHART_STACKED) {
        put_stack(r, y, row);
        return;
    }
    for (size_t s = 0; s < chart_used_series(chart); s++) {
        if (row >= chart->series[s].count)
            continue;
        const struct chart_point *p = &chart->series[s].points[row];
        if (chart->kind == CHART_BARS) {
            put_bar(r, y, r->scale.log ? r->scale.low : 0, p->x, p->marked ? "hot" : fills[s % 8],
                    r->any_marked && !p->marked ? 0.5 : 0);
            if (chart_has_range(p))
                put_whisker(r, y, p);
        } else if (chart_has_range(p)) {
            bool fan = chart->kind == CHART_FAN;
            put_bar(r, y, p->low, p->high, fills[fan ? 0 : s % 8],
                    fan ? 0.28 + 0.3 * (double)s : 0);
        }
    }
    if (chart->kind == CHART_FAN && row < chart->series[0].count) {
        double middle = place(r, chart->series[0].points[row].x);
        if (isfinite(middle))
            put_segment(r, "median", middle, y - 3, middle, y + r->bar + 3);
    }
}

static void put_axis(const struct rows *r, double bottom)
{
    struct chart_drawing *d = r->d;
    for (int i = 0; i < r->scale.tick_count; i++) {
        double x = place(r, r->scale.ticks[i]);
        if (!isfinite(x))
            continue;
        put_segment(r, i || r->scale.log ? "grid" : "base", x, r->top, x, bottom);
        const char *text = chart_spell(d->arena, r->scale.ticks[i], r->scale.unit);
        double half = chart_text_width(text, BODY) / 2;
        chart_label(d, "tick", text, fmax(half, fmin(x, d->width - half)), bottom + 12,
                    CHART_MIDDLE, BODY, 0);
    }
    if (r->chart->x.title)
        chart_label(d, "title", r->chart->x.title, r->left, bottom + 30, CHART_START, BODY,
                    d->width - r->left);
}

static void put_references(const struct rows *r, double bottom)
{
    for (size_t i = 0; i < r->chart->reference_count; i++) {
        const struct chart_reference *ref = &r->chart->references[i];
        double x = place(r, ref->at);
        if (!isfinite(x) || ref->horizontal)
            continue;
        put_segment(r, "reference", x, r->top - 4, x, bottom);
        if (ref->label &&
            !chart_label(r->d, "referred", ref->label, x, r->top - 12, CHART_MIDDLE, BODY,
                         r->d->width) &&
            !chart_label(r->d, "referred", ref->label, x + 4, r->top - 12, CHART_END, BODY, x))
            chart_label(r->d, "referred", ref->label, x - 4, r->top - 12, CHART_START, BODY,
                        r->d->width - x);
    }
}

// How wide the labels and the values are at most.
static void set_columns(struct rows *r)
{
    double width = r->d->width, labels = 0, values = 0;
    r->narrow = width < NARROW;
    r->left = 0, r->right = width;
    for (size_t i = 0; i < r->count && !r->narrow; i++) {
        const char *label = chart_plain(r->d->arena, chart_row_label(r->chart, i), 64);
        labels = fmax(labels, chart_text_width(label, BODY));
        values = fmax(values, chart_text_width(value_of(r, i), BODY));
    }
    if (r->narrow) {
        r->left = 2, r->right = width - 4;
        return;
    }
    r->left = labels > 0 ? fmin(labels, 0.4 * width) + 14 : 2;
    r->right = width - fmin(values, 0.3 * width) - 14;
}

void chart_layout_rows(struct chart_drawing *d, double top)
{
    struct rows r = { .d = d, .chart = d->chart, .count = chart_rows(d->chart) };
    bool labelled = false;
    for (size_t i = 0; i < d->chart->reference_count; i++)
        labelled |= d->chart->references[i].label != NULL;
    for (size_t i = 0; r.count && i < d->chart->series[0].count; i++)
        r.any_marked |= d->chart->series[0].points[i].marked;
    set_columns(&r);
    r.scale = chart_fit(d->chart, true, (int)((r.right - r.left) / 78));
    r.top = top + (labelled ? 22 : 2);
    r.bar = r.count <= 2 ? 26 : 16;
    r.pitch = r.bar + (r.narrow ? 26 : 12);
    double bottom = r.top + 6 + r.pitch * (double)(r.count ? r.count : 1);
    d->height = bottom + (d->chart->x.title ? 42 : 24);
    put_axis(&r, bottom);
    for (size_t i = 0; i < r.count; i++) {
        double y = r.top + 6 + r.pitch * (double)i + (r.narrow ? 18 : 0);
        double text_y = r.narrow ? y - 9 : y + r.bar / 2;
        put_row(&r, y, i);
        const char *value = value_of(&r, i);
        double value_width = chart_text_width(value, BODY);
        chart_label(d, r.narrow ? "value halo" : "value", value, d->width, text_y, CHART_END, BODY,
                    0.62 * d->width);
        chart_label(d, r.narrow ? "row halo" : "row", chart_row_label(d->chart, i),
                    r.narrow ? 0 : r.left - 12, text_y, r.narrow ? CHART_START : CHART_END, BODY,
                    r.narrow ? d->width - value_width - 10 : r.left - 12);
    }
    if (!r.count)
        chart_label(d, "row", "no data", d->width / 2, r.top + 18, CHART_MIDDLE, BODY, 0);
    put_references(&r, bottom);
}
