// SPDX-License-Identifier: Apache-2.0
// Charts on a plane with two axes: histograms, lines, scatter and roofline plots.

#include "core/chart/chart_internal.h"

#include <math.h>

enum { BODY = 12, NARROW = 460, MOST_POINTS = 1200, DOTTED = 12, NAMED = 40, MOST_TRIED = 200 };
enum { FAINT_APART = 11, MOST_FAINT = 150 }; // pixels between faint dots; of one series

static const char *const fills[] = { "f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7" };
static const char *const strokes[] = { "curve s0", "curve s1", "curve s2", "curve s3",
                                       "curve s4", "curve s5", "curve s6", "curve s7" };
static const char *const marks[] = { "mark f0", "mark f1", "mark f2", "mark f3",
                                     "mark f4", "mark f5", "mark f6", "mark f7" };
static const char *const faints[] = { "faint f0", "faint f1", "faint f2", "faint f3",
                                      "faint f4", "faint f5", "faint f6", "faint f7" };
static const char *const bands[] = { "band f0", "band f1", "band f2", "band f3",
                                     "band f4", "band f5", "band f6", "band f7" };

struct plane {
    struct chart_drawing *d;
    const struct chart *chart;
    struct chart_scale x, y;
    double left, right, top, bottom;
};

static double place_x(const struct plane *p, double value)
{
    return p->left + chart_place(&p->x, value) * (p->right - p->left);
}

static double place_y(const struct plane *p, double value)
{
    return p->bottom - chart_place(&p->y, value) * (p->bottom - p->top);
}

static double clamped(const struct chart_scale *scale, double value)
{
    return fmax(scale->low, fmin(scale->high, value));
}

static void put_segment(const struct plane *p, const char *class, double x1, double y1, double x2,
                        double y2)
{
    chart_add(
        p->d,
        (struct chart_mark){
            .kind = CHART_SEGMENT, .class = class, .x = x1, .y = y1, .width = x2, .height = y2 });
}

static void put_axes(const struct plane *p)
{
    struct chart_drawing *d = p->d;
    for (int i = 0; i < p->y.tick_count; i++) {
        double y = place_y(p, p->y.ticks[i]);
        if (!isfinite(y))
            continue;
        put_segment(p, i ? "grid" : "base", p->left, y, p->right, y);
        chart_label(d, "tick", chart_spell(d->arena, p->y.ticks[i], p->y.unit), p->left - 8, y,
                    CHART_END, BODY, 0);
    }
    for (int i = 0; i < p->x.tick_count; i++) {
        double x = place_x(p, p->x.ticks[i]);
        if (!isfinite(x))
            continue;
        const char *text = chart_spell(d->arena, p->x.ticks[i], p->x.unit);
        double half = chart_text_width(text, BODY) / 2;
        put_segment(p, "base", x, p->bottom, x, p->bottom + 4);
        chart_label(d, "tick", text, fmax(half, fmin(x, d->width - half)), p->bottom + 18,
                    CHART_MIDDLE, BODY, 0);
    }
    if (p->chart->x.title)
        chart_label(d, "title", p->chart->x.title, p->right, p->bottom + 36, CHART_END, BODY,
                    d->width);
    if (p->chart->y.title)
        chart_label(d, "title", p->chart->y.title, 0, p->top - 17, CHART_START, BODY, d->width);
}

static void put_columns(const struct plane *p)
{
    const struct chart *chart = p->chart;
    for (size_t s = 0; s < chart->series_count; s++) {
        for (size_t i = 0; i < chart->series[s].count; i++) {
            const struct chart_point *point = &chart->series[s].points[i];
            double below = 0;
            for (size_t k = 0; k < s; k++)
                if (i < chart->series[k].count && chart->series[k].points[i].y > 0)
                    below += chart->series[k].points[i].y;
            double a = place_x(p, clamped(&p->x, point->low));
            double b = place_x(p, clamped(&p->x, point->high));
            double top = place_y(p, clamped(&p->y, below + point->y));
            double foot = place_y(p, clamped(&p->y, below));
            if (!(point->y > 0) || !chart_has_range(point) || !(b > a) || !isfinite(top) ||
                !isfinite(foot))
                continue;
            double gap = b - a > 4 ? 1 : 0;
            chart_add(p->d, (struct chart_mark){ .kind = CHART_RECT,
                                                 .class = point->marked ? "hot" : fills[s % 8],
                                                 .x = a + gap / 2,
                                                 .y = top,
                                                 .width = b - a - gap,
                                                 .height = fmax(foot - top, 0.75) });
        }
    }
}

// The points of a series inside the plane, at most MOST_POINTS, as x, y pairs.
static size_t collect(const struct plane *p, const struct chart_series *series, double *out,
                      double (*pick)(const struct chart_point *))
{
    size_t step = series->count / MOST_POINTS + 1, count = 0;
    for (size_t i = 0; i < series->count; i += step) {
        double x = place_x(p, series->points[i].x);
        double value = pick(&series->points[i]);
        double y = isfinite(value) ? place_y(p, clamped(&p->y, value)) : NAN;
        if (isfinite(x) && isfinite(y))
            out[2 * count] = x, out[2 * count + 1] = y, count++;
    }
    return count;
}

static double pick_y(const struct chart_point *point)
{
    return point->y;
}

static double pick_low(const struct chart_point *point)
{
    return chart_has_range(point) ? point->low : NAN;
}

static double pick_high(const struct chart_point *point)
{
    return chart_has_range(point) ? point->high : NAN;
}

static void put_band(const struct plane *p, const struct chart_series *series, size_t s)
{
    double *points = ARENA_NEW(p->d->arena, double, 4 * (MOST_POINTS + 1));
    size_t up = collect(p, series, points, pick_high);
    size_t down = collect(p, series, points + 2 * up, pick_low);
    if (up < 2 || down != up)
        return;
    for (size_t i = 0; i < down / 2; i++) // reverse the lower edge
        for (int k = 0; k < 2; k++) {
            double *a = &points[2 * (up + i) + (size_t)k];
            double *b = &points[2 * (up + down - 1 - i) + (size_t)k];
            double swap = *a;
            *a = *b, *b = swap;
        }
    chart_add(p->d, (struct chart_mark){ .kind = CHART_AREA,
                                         .class = bands[s % 8],
                                         .points = points,
                                         .count = up + down });
}

static void put_curve(const struct plane *p, const struct chart_series *series, size_t s)
{
    put_band(p, series, s);
    double *points = ARENA_NEW(p->d->arena, double, 2 * (MOST_POINTS + 1));
    size_t count = collect(p, series, points, pick_y);
    if (count > 1)
        chart_add(p->d, (struct chart_mark){ .kind = CHART_CURVE,
                                             .class = strokes[s % 8],
                                             .points = points,
                                             .count = count });
}

// Faint dots no closer than FAINT_APART to each other: a cloud that can be read, whatever the
// count.
static void put_faint_dots(const struct plane *p, const struct chart_series *series, size_t s)
{
    size_t first = p->d->count;
    for (size_t i = 0; i < series->count && p->d->count - first < MOST_FAINT; i++) {
        const struct chart_point *point = &series->points[i];
        double x = place_x(p, point->x), y = place_y(p, point->y);
        bool crowded = !point->faint || !isfinite(x) || !isfinite(y);
        for (size_t k = first; k < p->d->count && !crowded; k++)
            crowded = hypot(p->d->marks[k].x - x, p->d->marks[k].y - y) < FAINT_APART;
        if (!crowded)
            chart_add(p->d, (struct chart_mark){ .kind = CHART_DOT,
                                                 .class = faints[s % 8],
                                                 .x = x,
                                                 .y = y,
                                                 .width = 3,
                                                 .shape = (int)(s % 5) });
    }
}

static void put_dots(const struct plane *p, const struct chart_series *series, size_t s)
{
    size_t step = series->count / MOST_POINTS + 1;
    for (size_t i = 0; i < series->count; i += step) {
        const struct chart_point *point = &series->points[i];
        double x = place_x(p, point->x), y = place_y(p, point->y);
        if (!point->faint && isfinite(x) && isfinite(y))
            chart_add(p->d, (struct chart_mark){
                                .kind = CHART_DOT,
                                .class = point->marked ? "mark hot" : marks[s % 8],
                                .x = x,
                                .y = y,
                                .width = point->marked ? 7 : 4.5,
                                .shape = (int)(s % 5),
                                .text = point->label ? chart_plain(p->d->arena, point->label, 60)
                                                     : NULL });
    }
}

// Puts labels next to, above or below their marks where there is room; else omits them.
static void put_names(const struct plane *p, const struct chart_series *series, bool marked)
{
    static const struct {
        double x, y;
        enum chart_anchor anchor;
    } places[] = { { 9, 0, CHART_START },   { -9, 0, CHART_END },    { 0, -15, CHART_MIDDLE },
                   { 0, 15, CHART_MIDDLE }, { 8, -13, CHART_START }, { 8, 13, CHART_START },
                   { -8, -13, CHART_END },  { -8, 13, CHART_END } };
    size_t named = 0, tried = 0;
    for (size_t i = 0; i < series->count && named < NAMED && tried < MOST_TRIED; i++) {
        const struct chart_point *point = &series->points[i];
        double x = place_x(p, point->x), y = place_y(p, point->y);
        if (!point->label || point->marked != marked || !isfinite(x) || !isfinite(y))
            continue;
        tried++;
        for (size_t k = 0; k < sizeof places / sizeof *places; k++)
            if (chart_label(p->d, marked ? "name on halo" : "name halo", point->label,
                            x + places[k].x, y + places[k].y, places[k].anchor, BODY,
                            0.42 * p->d->width)) {
                named++;
                break;
            }
    }
}

// Right or left of the line, lower if other labels are in the way, shortened only if too long.
static void put_reference_label(const struct plane *p, const struct chart_reference *ref, double x,
                                double y)
{
    enum { LINES = 6 };
    double right = p->d->width - x - 8, left = x - 8, most = fmax(left, right);
    double whole = chart_text_width(chart_plain(p->d->arena, ref->label, 160), BODY);
    for (int line = 0; line < LINES; line++) {
        double at = (ref->horizontal ? y - 10 : y + 8) + 16 * line;
        bool beside = fmin(whole, most) <= right;
        if ((beside &&
             chart_label(p->d, "referred halo", ref->label, x + 6, at, CHART_START, BODY, right)) ||
            (fmin(whole, most) <= left &&
             chart_label(p->d, "referred halo", ref->label, x - 6, at, CHART_END, BODY, left)))
            return;
    }
}

static void put_references(const struct plane *p)
{
    for (size_t i = 0; i < p->chart->reference_count; i++) {
        const struct chart_reference *ref = &p->chart->references[i];
        double x = ref->horizontal ? p->right : place_x(p, ref->at);
        double y = ref->horizontal ? place_y(p, ref->at) : p->top;
        if (!isfinite(x) || !isfinite(y))
            continue;
        put_segment(p, "reference", ref->horizontal ? p->left : x, y, x,
                    ref->horizontal ? y : p->bottom);
        if (ref->label)
            put_reference_label(p, ref, x, y);
    }
}

static void put_series(const struct plane *p)
{
    const struct chart *chart = p->chart;
    if (chart->kind == CHART_HISTOGRAM)
        put_columns(p);
    for (size_t s = 0; s < chart->series_count && chart->kind == CHART_SCATTER; s++)
        put_faint_dots(p, &chart->series[s], s);
    for (size_t s = 0; s < chart->series_count && chart->kind != CHART_HISTOGRAM; s++) {
        const struct chart_series *series = &chart->series[s];
        bool curve = chart->kind == CHART_LINE || (chart->kind == CHART_ROOFLINE && s == 0);
        if (curve)
            put_curve(p, series, s);
        if (!curve || series->count <= DOTTED)
            put_dots(p, series, s);
    }
}

void chart_layout_plane(struct chart_drawing *d, double top)
{
    const struct chart *chart = d->chart;
    struct plane p = { .d = d, .chart = chart, .top = top + (chart->y.title ? 28 : 8) };
    bool narrow = d->width < NARROW;
    p.bottom = p.top + (narrow ? 200 : 270);
    d->height = p.bottom + (chart->x.title ? 46 : 28);
    p.y = chart_fit(chart, false, narrow ? 5 : 6);
    double labels = 0;
    for (int i = 0; i < p.y.tick_count; i++)
        labels =
            fmax(labels, chart_text_width(chart_spell(d->arena, p.y.ticks[i], p.y.unit), BODY));
    p.left = fmin(labels, d->width / 3) + 12;
    p.right = d->width - 16;
    p.x = chart_fit(chart, true, (int)((p.right - p.left) / 74));
    put_axes(&p);
    put_series(&p);
    put_references(&p);
    for (size_t s = 0; s < chart->series_count; s++)
        put_names(&p, &chart->series[s], true);
    for (size_t s = 0; s < chart->series_count; s++)
        put_names(&p, &chart->series[s], false);
    bool empty = true;
    for (size_t s = 0; s < chart->series_count; s++)
        empty &= chart->series[s].count == 0;
    if (empty)
        chart_label(d, "row", "no data", d->width / 2, (p.top + p.bottom) / 2, CHART_MIDDLE, BODY,
                    0);
}
