// SPDX-License-Identifier: Apache-2.0
// What all charts share: their data, alternative texts, labels and their widths in pixels.

#include "core/chart/chart_internal.h"

#include "base/markup.h"

#include <math.h>
#include <string.h>

enum { HEAD = 14, BODY = 12, MOST_ROWS = 40, LABEL = 64 };

const char *chart_plain(struct arena *arena, const char *label, size_t most)
{
    size_t size = 0;
    while (label && size < 4 * most + 4 && label[size])
        size++;
    return markup_plain(arena, (struct text){ label, size }, most);
}

// --- reading the description -------------------------------------------------

bool chart_has_range(const struct chart_point *point)
{
    return (point->low != 0 || point->high != 0) && isfinite(point->low) && isfinite(point->high);
}

size_t chart_used_series(const struct chart *chart)
{
    bool one = chart->kind == CHART_BARS || chart->kind == CHART_TORNADO;
    return one && chart->series_count ? 1 : chart->series_count;
}

size_t chart_rows(const struct chart *chart)
{
    size_t rows = 0;
    for (size_t s = 0; s < chart_used_series(chart); s++)
        rows = chart->series[s].count > rows ? chart->series[s].count : rows;
    return rows < MOST_ROWS ? rows : MOST_ROWS;
}

const char *chart_row_label(const struct chart *chart, size_t row)
{
    for (size_t s = 0; s < chart_used_series(chart); s++)
        if (row < chart->series[s].count && chart->series[s].points[row].label)
            return chart->series[s].points[row].label;
    return "";
}

double chart_row_sum(const struct chart *chart, size_t row)
{
    double sum = 0;
    for (size_t s = 0; s < chart->series_count; s++)
        if (row < chart->series[s].count && chart->series[s].points[row].x > 0 &&
            isfinite(chart->series[s].points[row].x))
            sum += chart->series[s].points[row].x;
    return sum;
}

struct ends {
    double low, high;
    bool log;
};

static void take(struct ends *ends, double value)
{
    if (!isfinite(value) || (ends->log && !(value > 0)))
        return;
    ends->low = isnan(ends->low) ? value : fmin(ends->low, value);
    ends->high = isnan(ends->high) ? value : fmax(ends->high, value);
}

static void take_point(struct ends *ends, const struct chart *chart, const struct chart_point *p,
                       bool horizontal)
{
    bool histogram = chart->kind == CHART_HISTOGRAM;
    bool ranged = chart_has_range(p);
    if (chart->kind <= CHART_FAN) {
        if (chart->kind != CHART_TORNADO)
            take(ends, p->x);
        if (ranged)
            take(ends, p->low), take(ends, p->high);
    } else if (horizontal) {
        if (histogram)
            take(ends, p->low), take(ends, p->high);
        else
            take(ends, p->x);
    } else {
        take(ends, p->y);
        if (ranged && !histogram)
            take(ends, p->low), take(ends, p->high);
    }
}

// The height of a histogram's column i, all series stacked.
static double column_sum(const struct chart *chart, size_t i)
{
    double sum = 0;
    for (size_t s = 0; s < chart->series_count; s++)
        if (i < chart->series[s].count && chart->series[s].points[i].y > 0)
            sum += chart->series[s].points[i].y;
    return sum;
}

struct chart_scale chart_fit(const struct chart *chart, bool horizontal, int ticks)
{
    const struct chart_axis *axis = horizontal ? &chart->x : &chart->y;
    bool row_kind = chart->kind <= CHART_FAN;
    struct ends ends = { NAN, NAN, axis->log };
    if (axis->low != 0 || axis->high != 0)
        return chart_scale(axis->low, axis->high, axis->log, axis->unit, ticks);
    for (size_t s = 0; s < chart_used_series(chart); s++)
        for (size_t i = 0; i < chart->series[s].count; i++)
            take_point(&ends, chart, &chart->series[s].points[i], horizontal);
    for (size_t i = 0; i < chart->reference_count; i++)
        if (chart->references[i].horizontal != horizontal)
            take(&ends, chart->references[i].at);
    if (chart->kind == CHART_STACKED)
        for (size_t i = 0; i < chart_rows(chart); i++)
            take(&ends, chart_row_sum(chart, i));
    if (chart->kind == CHART_HISTOGRAM && !horizontal)
        for (size_t s = 0; s < chart->series_count; s++)
            for (size_t i = 0; i < chart->series[s].count; i++)
                take(&ends, column_sum(chart, i));
    bool from_zero = chart->kind == CHART_BARS || chart->kind == CHART_STACKED ||
                     (chart->kind == CHART_HISTOGRAM && !horizontal) ||
                     (!row_kind && !horizontal && ends.low > 0 && ends.low < 0.6 * ends.high);
    if (from_zero)
        take(&ends, 0);
    return chart_scale(ends.low, ends.high, axis->log, axis->unit, ticks);
}

// --- the text alternative ----------------------------------------------------

static void put_rows(struct out *out, struct arena *arena, const struct chart *chart)
{
    enum { LISTED = 8 };
    size_t rows = chart_rows(chart);
    for (size_t i = 0; i < rows && i < LISTED; i++) {
        const struct chart_series *series = &chart->series[0];
        if (i >= series->count)
            break;
        const struct chart_point *p = &series->points[i];
        const char *label = chart_plain(arena, chart_row_label(chart, i), LABEL);
        double value = chart->kind == CHART_STACKED ? chart_row_sum(chart, i) : p->x;
        out_put(out, "%s%s", i ? "; " : " ", label);
        if (chart->kind != CHART_TORNADO)
            out_put(out, " %s", chart_spell(arena, value, chart->x.unit));
        if (chart_has_range(p))
            out_put(out, ", %s – %s", chart_spell(arena, p->low, chart->x.unit),
                    chart_spell(arena, p->high, chart->x.unit));
    }
    if (rows > LISTED)
        out_put(out, "; and %zu more", rows - LISTED);
    out_char(out, '.');
}

const char *chart_alt(const struct chart *chart, struct arena *arena)
{
    static const char *const kinds[] = { "Bars:",        "Stacked bars:", "Ranges:",
                                         "Ranges:",      "Histogram",     "Lines",
                                         "Scatter plot", "Roofline plot" };
    if (chart->alt)
        return chart->alt;
    struct out out = { .arena = arena };
    out_put(&out, "%s", kinds[chart->kind]);
    if (!chart_rows(chart))
        out_put(&out, " without data.");
    else if (chart->kind <= CHART_FAN)
        put_rows(&out, arena, chart);
    else
        out_put(&out, " of %s against %s, %zu points.", chart->y.title ? chart->y.title : "y",
                chart->x.title ? chart->x.title : "x", chart->series[0].count);
    return out_string(&out);
}

// --- the drawing -------------------------------------------------------------

void chart_add(struct chart_drawing *d, struct chart_mark mark)
{
    d->marks = arena_room(d->arena, d->marks, sizeof *d->marks, d->count, &d->room);
    d->marks[d->count++] = mark;
}

// Measured on DejaVu Sans, the widest of the common fonts.
static double letter_width(unsigned char c)
{
    if (strchr("iljI|!.,:;'", c))
        return 0.34;
    if (strchr("ftr()[]-/ ", c))
        return 0.42;
    if (strchr("mwMW@%", c))
        return 1.0;
    return c >= 'A' && c <= 'Z' ? 0.74 : 0.64;
}

double chart_text_width(const char *plain, double size)
{
    double width = 0;
    for (const char *at = plain; *at;) {
        size_t bytes = 1;
        while ((at[bytes] & 0xC0) == 0x80)
            bytes++;
        width += bytes == 1 ? letter_width((unsigned char)*at)
                            : 0.84 * text_columns((struct text){ at, bytes });
        at += bytes;
    }
    return width * size * (size > BODY ? 1.1 : 1); // titles are bold
}

static const char *shortened(struct arena *arena, const char *text, double size, double room)
{
    if (!(room > 0) || chart_text_width(text, size) <= room)
        return text;
    size_t length = strlen(text);
    char *cut = arena_copy(arena, text, length + 3);
    do {
        while (length > 0 && (cut[--length] & 0xC0) == 0x80)
            ;
        memcpy(cut + length, "…", 4);
    } while (length > 0 && chart_text_width(cut, size) > room);
    return cut;
}

static bool touches(const struct chart_mark *m, double x, double y, double width, double height)
{
    if (m->kind == CHART_DOT) // a label may cover faint dots, the smallest
        return m->width > 3 && x < m->x + 6 && m->x - 6 < x + width && y < m->y + 6 &&
               m->y - 6 < y + height;
    return m->kind == CHART_LABEL && x < m->x + m->width + 3 && m->x < x + width + 3 &&
           y < m->y + m->height && m->y < y + height;
}

bool chart_label(struct chart_drawing *d, const char *class, const char *text, double x, double y,
                 enum chart_anchor anchor, double size, double room)
{
    const char *plain = chart_plain(d->arena, text, 160);
    plain = shortened(d->arena, plain, size, room);
    double width = chart_text_width(plain, size), height = size * 1.3;
    double left = anchor == CHART_START ? x : anchor == CHART_MIDDLE ? x - width / 2 : x - width;
    double top = y - height / 2;
    if (!*plain || left < 0 || left + width > d->width || top < 0 || top + height > d->height)
        return false;
    for (size_t i = 0; i < d->count; i++)
        if (touches(&d->marks[i], left, top, width, height))
            return false;
    chart_add(d, (struct chart_mark){ .kind = CHART_LABEL,
                                      .class = class,
                                      .x = left,
                                      .y = top,
                                      .width = width,
                                      .height = height,
                                      .text = plain,
                                      .anchor = anchor,
                                      .size = size });
    return true;
}

// The title, wrapped to at most three lines; returns the y after it.
static double put_title(struct chart_drawing *d)
{
    const char *plain = chart_plain(d->arena, d->chart->title, 160);
    struct text rest = text_of(plain), word;
    double y = 10;
    struct out line = { .arena = d->arena };
    int lines = 0;
    while (lines < 3 && text_next(&rest, ' ', &word)) {
        const char *longer = text_format(d->arena, "%s%s%.*s", line.size ? out_string(&line) : "",
                                         line.size ? " " : "", TEXT_ARGS(word));
        if (line.size && chart_text_width(longer, HEAD) > d->width) {
            chart_label(d, "head", out_string(&line), 0, y, CHART_START, HEAD, d->width);
            y += HEAD * 1.35, lines++;
            longer = text_copy(d->arena, word);
        }
        line = (struct out){ .arena = d->arena };
        out_put(&line, "%s", longer);
    }
    if (line.size && lines < 3) {
        chart_label(d, "head", out_string(&line), 0, y, CHART_START, HEAD, d->width);
        y += HEAD * 1.35;
    }
    return *plain ? y + 2 : 4;
}

// The legend, a swatch and a name per series; returns the y after it.
static double put_legend(struct chart_drawing *d, double y)
{
    static const char *const fills[] = { "f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7" };
    const struct chart *chart = d->chart;
    size_t named = 0;
    double x = 0;
    for (size_t s = 0; s < chart_used_series(chart); s++)
        named += chart->series[s].name != NULL;
    if (named < 1 || (named < 2 && chart->kind != CHART_FAN && chart->kind != CHART_HISTOGRAM))
        return y;
    for (size_t s = 0; s < chart_used_series(chart) && s < 24; s++) {
        if (!chart->series[s].name)
            continue;
        const char *name = chart_plain(d->arena, chart->series[s].name, LABEL);
        name = shortened(d->arena, name, BODY, d->width - 22);
        double width = chart_text_width(name, BODY) + 36;
        if (x > 0 && x + width - 16 > d->width)
            x = 0, y += 19;
        bool fan = chart->kind == CHART_FAN;
        bool dot = chart->kind == CHART_SCATTER || (chart->kind == CHART_ROOFLINE && s);
        chart_add(d, (struct chart_mark){ .kind = dot ? CHART_DOT : CHART_RECT,
                                          .class = fills[fan ? 0 : s % 8],
                                          .x = dot ? x + 6 : x,
                                          .y = dot ? y + 8 : y + 3,
                                          .width = 12,
                                          .height = 10,
                                          .shape = (int)(s % 5),
                                          .opacity = fan ? 0.28 + 0.3 * (double)s : 0 });
        chart_label(d, "name", name, x + 18, y + 8, CHART_START, BODY, 0);
        x += width;
    }
    return y + 26;
}

void chart_layout(struct chart_drawing *out, struct arena *arena, const struct chart *chart,
                  double width)
{
    width = width >= 240 && width <= 4000 ? width : CHART_WIDE;
    *out = (struct chart_drawing){ .arena = arena, .chart = chart, .width = width, .height = 1e6 };
    double top = put_legend(out, put_title(out));
    if (chart->kind <= CHART_FAN)
        chart_layout_rows(out, top);
    else
        chart_layout_plane(out, top);
}
