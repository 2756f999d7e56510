// SPDX-License-Identifier: Apache-2.0
// Draws a chart as text: block characters, at most so many columns, in colour on request.

#include "core/chart/chart_internal.h"

#include "base/markup.h"

#include <math.h>
#include <string.h>

enum { MOST_BINS = 18, GRID_ROWS = 13, GRID_COLUMNS = 200, LABEL = 64 };

struct page {
    struct out *out;
    struct arena *arena;
    const struct chart *chart;
    int columns;
    bool colour;
};

// The palette of the style sheet in the 256 colours of terminals. Each shade and symbol has an
// ASCII letter of its own (base/terminal.c), so that a legend tells them apart there too.
static const int palette[] = { 32, 214, 36, 175, 117, 166, 245, 184 };
static const char *const shades[] = { "█", "▓", "▒", "░", "▚", "▞", "▙", "▖" };
static const char *const symbols[] = { "●", "○", "▲", "△", "■", "□", "◆", "◇" };

static void put_repeated(struct out *out, const char *piece, int count)
{
    for (int i = 0; i < count; i++)
        out_put(out, "%s", piece);
}

static void paint(const struct page *p, size_t series)
{
    if (p->colour)
        out_put(p->out, "\x1b[38;5;%dm", palette[series % 8]);
}

static void unpaint(const struct page *p)
{
    if (p->colour)
        out_put(p->out, "\x1b[0m");
}

static int width_of(const char *plain)
{
    return text_columns(text_of(plain));
}

// Without control characters, and cut with an ellipsis to so many columns.
static const char *cut(const struct page *p, const char *text, int columns)
{
    size_t most = (size_t)columns;
    const char *plain = chart_plain(p->arena, text, most);
    while (width_of(plain) > columns && most > 1)
        plain = chart_plain(p->arena, text, --most);
    return plain;
}

static void put_padded(const struct page *p, const char *text, int columns, bool right)
{
    const char *plain = cut(p, text, columns);
    int space = columns - width_of(plain);
    if (right)
        out_repeat(p->out, ' ', space);
    out_put(p->out, "%s", plain);
    if (!right)
        out_repeat(p->out, ' ', space);
}

void chart_put_bar(struct out *out, double share, int columns)
{
    static const char *const eighths[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
    if (!(share > 0) || columns < 1)
        return;
    int length = (int)ceil(fmin(share, 1) * columns * 8 - 1e-9);
    put_repeated(out, "█", length / 8);
    out_put(out, "%s", eighths[length % 8]);
}

// --- rows --------------------------------------------------------------------

struct columns {
    int label, value, bar;
};

static const char *range_of(const struct page *p, const struct chart_point *point)
{
    enum chart_unit unit = p->chart->x.unit;
    return text_format(p->arena, "%s – %s", chart_spell(p->arena, point->low, unit),
                       chart_spell(p->arena, point->high, unit));
}

static const char *value_of(const struct page *p, size_t row)
{
    const struct chart *chart = p->chart;
    if (chart->kind == CHART_STACKED)
        return chart_spell(p->arena, chart_row_sum(chart, row), chart->x.unit);
    if (row >= chart->series[0].count)
        return "";
    const struct chart_point *point = &chart->series[0].points[row];
    const char *value = chart_spell(p->arena, point->x, chart->x.unit);
    if (!chart_has_range(point))
        return chart->kind == CHART_BARS ? value : "";
    return chart->kind == CHART_TORNADO
               ? range_of(p, point)
               : text_format(p->arena, "%s (%s)", value, range_of(p, point));
}

static struct columns set_columns(const struct page *p, size_t rows)
{
    struct columns c = { 0 };
    for (size_t i = 0; i < rows; i++) {
        int label = width_of(cut(p, chart_row_label(p->chart, i), LABEL));
        int value = width_of(value_of(p, i));
        c.label = label > c.label ? label : c.label;
        c.value = value > c.value ? value : c.value;
    }
    if (c.label > 2 * p->columns / 5)
        c.label = 2 * p->columns / 5;
    if (c.value > p->columns / 2 - 4)
        c.value = p->columns / 2 - 4;
    c.bar = p->columns - 2 - c.label - 2 - c.value - 2;
    return c;
}

static int column_of(const struct chart_scale *scale, double value, int columns)
{
    double share = chart_place(scale, fmax(scale->low, fmin(scale->high, value)));
    return isfinite(share) ? (int)rint(share * (columns - 1)) : -1;
}

// Cells of a row, each with the series that fills it.
static void put_cells(const struct page *p, const char *const *cells, const int *series, int count)
{
    int last = -1;
    while (count > 0 && !strcmp(cells[count - 1], " "))
        count--;
    for (int i = 0; i < count; i++) {
        if (series[i] != last && last >= 0)
            unpaint(p);
        if (series[i] != last && series[i] >= 0)
            paint(p, (size_t)series[i]);
        last = series[i];
        out_put(p->out, "%s", cells[i]);
    }
    if (last >= 0)
        unpaint(p);
}

static void fill_row(const struct page *p, size_t row, const struct chart_scale *scale, int count,
                     const char **cells, int *owners)
{
    const struct chart *chart = p->chart;
    for (int i = 0; i < count; i++)
        cells[i] = " ", owners[i] = -1;
    double sum = 0;
    for (size_t s = 0; s < chart_used_series(chart); s++) {
        if (row >= chart->series[s].count)
            continue;
        const struct chart_point *point = &chart->series[s].points[row];
        bool stacked = chart->kind == CHART_STACKED;
        if (stacked ? !(point->x > 0) || !isfinite(point->x) : !chart_has_range(point))
            continue;
        int from = column_of(scale, stacked ? sum : point->low, count);
        int to = column_of(scale, stacked ? sum + point->x : point->high, count);
        sum += point->x;
        bool fan = chart->kind == CHART_FAN;
        for (int i = from; i >= 0 && i <= to && i < count; i++) {
            cells[i] = fan         ? shades[s < 3 ? 3 - s : 0]
                       : p->colour ? "█"
                                   : shades[stacked ? s % 8 : 0];
            owners[i] = fan ? 0 : (int)s;
        }
    }
    if (chart->kind == CHART_FAN && row < chart->series[0].count) {
        double x = chart->series[0].points[row].x;
        int middle = isfinite(x) ? column_of(scale, x, count) : -1;
        if (middle >= 0)
            cells[middle] = "┃", owners[middle] = -1;
    }
    for (size_t i = 0; i < chart->reference_count; i++) {
        int at = column_of(scale, chart->references[i].at, count);
        if (at >= 0 && isfinite(chart_place(scale, chart->references[i].at)) && owners[at] < 0)
            cells[at] = "│";
    }
}

static void put_legend(const struct page *p, const char *const *glyphs)
{
    const struct chart *chart = p->chart;
    int column = 0;
    for (size_t s = 0; s < chart_used_series(chart) && s < 24; s++) {
        if (!chart->series[s].name)
            continue;
        const char *name = cut(p, chart->series[s].name, p->columns - 6);
        int width = width_of(name) + 4;
        if (column && column + width > p->columns - 2) {
            p->out->size -= 2; // the spaces after the last
            out_char(p->out, '\n');
            column = 0;
        }
        if (!column)
            out_put(p->out, "  ");
        bool fan = chart->kind == CHART_FAN;
        paint(p, fan ? 0 : s);
        out_put(p->out, "%s", fan ? shades[s < 3 ? 3 - s : 0] : glyphs[s % 8]);
        unpaint(p);
        out_put(p->out, " %s  ", name);
        column += width;
    }
    if (column) {
        p->out->size -= 2;
        out_char(p->out, '\n');
    }
}

static void put_row_axis(const struct page *p, const struct chart_scale *scale, struct columns c)
{
    const char *low = chart_spell(p->arena, scale->low, scale->unit);
    const char *high = chart_spell(p->arena, scale->high, scale->unit);
    int space = c.bar - width_of(low) - width_of(high);
    out_repeat(p->out, ' ', c.label + 4);
    out_put(p->out, "%s", low);
    if (space > 0) {
        const char *title = p->chart->x.title ? p->chart->x.title : "";
        const char *middle = space > 6 ? cut(p, title, space - 2) : "";
        int left = (space - width_of(middle)) / 2;
        out_repeat(p->out, ' ', left);
        out_put(p->out, "%s", middle);
        out_repeat(p->out, ' ', space - left - width_of(middle));
    }
    out_put(p->out, "%s\n", high);
}

static void put_rows(const struct page *p)
{
    const struct chart *chart = p->chart;
    size_t rows = chart_rows(chart);
    struct columns c = set_columns(p, rows);
    struct chart_scale scale = chart_fit(chart, true, 8);
    const char *cells[GRID_COLUMNS];
    int owners[GRID_COLUMNS];
    for (size_t i = 0; i < rows; i++) {
        out_put(p->out, "  ");
        put_padded(p, chart_row_label(chart, i), c.label, false);
        out_put(p->out, "  ");
        if (chart->kind == CHART_BARS) {
            const struct chart_point *point = &chart->series[0].points[i];
            struct out bar = { .arena = p->arena };
            chart_put_bar(&bar, chart_place(&scale, point->x), c.bar);
            const char *blocks = out_string(&bar);
            paint(p, 0);
            out_put(p->out, "%s", blocks);
            unpaint(p);
            out_repeat(p->out, ' ', c.bar - width_of(blocks));
            out_put(p->out, "  ");
            put_padded(p, value_of(p, i), c.value, true);
        } else {
            fill_row(p, i, &scale, c.bar, cells, owners);
            int used = c.bar;
            while (used > 0 && !strcmp(cells[used - 1], " "))
                used--;
            put_cells(p, cells, owners, c.bar);
            out_repeat(p->out, ' ', c.bar - used + 2);
            put_padded(p, value_of(p, i), c.value, true);
        }
        out_char(p->out, '\n');
    }
    if (rows)
        put_row_axis(p, &scale, c);
    static const char *const blocks[] = { "█", "█", "█", "█", "█", "█", "█", "█" };
    if (chart->kind == CHART_STACKED || chart->kind == CHART_FAN)
        put_legend(p, p->colour ? blocks : shades);
    for (size_t i = 0; i < chart->reference_count; i++)
        if (chart->references[i].label)
            out_put(p->out, "  │ %s\n", cut(p, chart->references[i].label, p->columns - 4));
}

// --- histograms --------------------------------------------------------------

struct bin {
    double low, high, parts[8];
};

static size_t merge_bins(const struct chart *chart, struct bin *bins)
{
    size_t count = chart->series_count ? chart->series[0].count : 0, used = 0;
    size_t each = (count + MOST_BINS - 1) / MOST_BINS;
    for (size_t i = 0; i < count; i++) {
        size_t at = i / each;
        const struct chart_point *first = &chart->series[0].points[i];
        if (!chart_has_range(first))
            continue;
        if (at >= used)
            bins[at] = (struct bin){ .low = first->low }, used = at + 1;
        bins[at].high = first->high;
        for (size_t s = 0; s < chart->series_count && s < 8; s++)
            if (i < chart->series[s].count && chart->series[s].points[i].y > 0 &&
                isfinite(chart->series[s].points[i].y))
                bins[at].parts[s] += chart->series[s].points[i].y;
    }
    return used;
}

static double bin_sum(const struct bin *bin)
{
    double sum = 0;
    for (int s = 0; s < 8; s++)
        sum += bin->parts[s];
    return sum;
}

// One series to the eighth of a column; several in whole columns, so that their sum is right.
static void put_column(const struct page *p, const struct bin *bin, double most, int room)
{
    double sum = 0;
    int from = 0;
    for (size_t s = 0; s < p->chart->series_count && s < 8 && most > 0; s++) {
        sum += bin->parts[s];
        int to = (int)fmin(room, ceil(sum / most * room - 1e-9));
        if (!(bin->parts[s] > 0))
            continue;
        paint(p, s);
        if (p->chart->series_count == 1)
            chart_put_bar(p->out, sum / most, room);
        else
            put_repeated(p->out, s ? shades[3] : shades[0], to - from);
        unpaint(p);
        from = to;
    }
}

static void put_histogram(const struct page *p)
{
    enum { EDGE = 11, COUNT = 10 };
    struct bin bins[MOST_BINS] = { 0 };
    size_t count = merge_bins(p->chart, bins);
    double most = 0;
    int room = p->columns - EDGE - COUNT - 4;
    for (size_t i = 0; i < count; i++)
        most = fmax(most, bin_sum(&bins[i]));
    put_padded(p, p->chart->x.title ? p->chart->x.title : "", EDGE, true);
    out_put(p->out, "  ");
    out_put(p->out, "%s\n",
            cut(p, p->chart->y.title ? p->chart->y.title : "", p->columns - EDGE - 2));
    for (size_t i = 0; i < count; i++) {
        put_padded(p, chart_spell(p->arena, bins[i].low, p->chart->x.unit), EDGE, true);
        out_put(p->out, "  ");
        put_padded(p, chart_spell(p->arena, bin_sum(&bins[i]), p->chart->y.unit), COUNT, true);
        if (bin_sum(&bins[i]) > 0)
            out_put(p->out, "  ");
        put_column(p, &bins[i], most, room);
        out_char(p->out, '\n');
    }
    if (p->chart->series_count > 1)
        put_legend(p, (const char *const[]){ "█", "░", "░", "░", "░", "░", "░", "░" });
    for (size_t i = 0; i < p->chart->reference_count; i++)
        if (p->chart->references[i].label)
            out_put(p->out, "  %s\n", cut(p, p->chart->references[i].label, p->columns - 2));
}

// --- planes ------------------------------------------------------------------

struct grid {
    struct chart_scale x, y;
    int width;
    const char *cells[GRID_ROWS][GRID_COLUMNS];
    int owners[GRID_ROWS][GRID_COLUMNS];
};

static int row_of(const struct grid *g, double value)
{
    int at = column_of(&g->y, value, GRID_ROWS);
    return at < 0 ? -1 : GRID_ROWS - 1 - at;
}

static void set_cell(struct grid *g, int row, int column, const char *cell, int owner)
{
    if (row < 0 || row >= GRID_ROWS || column < 0 || column >= g->width)
        return;
    g->cells[row][column] = cell;
    g->owners[row][column] = owner;
}

static void draw_curve(struct grid *g, const struct chart_series *series, int owner)
{
    int last_column = -1, last_row = -1;
    for (size_t i = 0; i < series->count; i++) {
        const struct chart_point *p = &series->points[i];
        if (!isfinite(chart_place(&g->x, p->x)) || !isfinite(p->y) || (g->y.log && p->y <= 0))
            continue;
        int column = column_of(&g->x, p->x, g->width), row = row_of(g, p->y);
        if (chart_has_range(p))
            for (int r = row_of(g, p->high); r <= row_of(g, p->low); r++)
                if (r >= 0 && !strcmp(g->cells[r][column], " "))
                    set_cell(g, r, column, "░", owner);
        for (int c = last_column + 1; last_column >= 0 && c < column; c++)
            set_cell(g,
                     (int)rint(last_row + (double)(row - last_row) * (c - last_column) /
                                              (column - last_column)),
                     c, "·", owner);
        set_cell(g, row, column, symbols[owner % 8], owner);
        last_column = column, last_row = row;
    }
}

static void draw_dots(struct grid *g, const struct chart_series *series, int owner)
{
    for (size_t i = 0; i < series->count; i++) {
        const struct chart_point *p = &series->points[i];
        if (isfinite(chart_place(&g->x, p->x)) && isfinite(chart_place(&g->y, p->y)))
            set_cell(g, row_of(g, p->y), column_of(&g->x, p->x, g->width), symbols[owner % 8],
                     owner);
    }
}

static void draw_plane(struct grid *g, const struct chart *chart)
{
    for (int r = 0; r < GRID_ROWS; r++)
        for (int c = 0; c < g->width; c++)
            g->cells[r][c] = " ", g->owners[r][c] = -1;
    for (size_t i = 0; i < chart->reference_count; i++) {
        const struct chart_reference *ref = &chart->references[i];
        if (!isfinite(chart_place(ref->horizontal ? &g->y : &g->x, ref->at)))
            continue;
        for (int c = 0; ref->horizontal && c < g->width; c++)
            set_cell(g, row_of(g, ref->at), c, "┈", -1);
        for (int r = 0; !ref->horizontal && r < GRID_ROWS; r++)
            set_cell(g, r, column_of(&g->x, ref->at, g->width), "┊", -1);
    }
    for (size_t s = 0; s < chart->series_count; s++)
        if (chart->kind == CHART_LINE || (chart->kind == CHART_ROOFLINE && !s))
            draw_curve(g, &chart->series[s], (int)s);
        else
            draw_dots(g, &chart->series[s], (int)s);
}

static void put_ticks(const struct page *p, const struct grid *g, int left)
{
    int end = -1;
    struct out line = { .arena = p->arena };
    for (int i = 0; i < g->x.tick_count; i++) {
        const char *text = chart_spell(p->arena, g->x.ticks[i], g->x.unit);
        int width = width_of(text), at = column_of(&g->x, g->x.ticks[i], g->width) - width / 2;
        at = at < 0 ? 0 : at;
        at = at + width > g->width ? g->width - width : at;
        if (at <= end || at < 0)
            continue;
        out_repeat(&line, ' ', at - (end < 0 ? 0 : end));
        out_put(&line, "%s", text);
        end = at + width;
    }
    out_repeat(p->out, ' ', left + 1);
    out_put(p->out, "%s\n", out_string(&line));
    if (p->chart->x.title)
        out_put(p->out, "%*s%s\n", left + 1, "", cut(p, p->chart->x.title, g->width));
}

static void put_plane(const struct page *p)
{
    struct grid *g = ARENA_NEW(p->arena, struct grid, 1);
    int left = 0;
    g->x = chart_fit(p->chart, true, 7);
    g->y = chart_fit(p->chart, false, 5);
    const char *labels[GRID_ROWS] = { 0 };
    for (int i = 0; i < g->y.tick_count; i++) {
        int row = row_of(g, g->y.ticks[i]);
        const char *text = chart_spell(p->arena, g->y.ticks[i], g->y.unit);
        if (row < 0)
            continue;
        labels[row] = text;
        left = width_of(text) > left ? width_of(text) : left;
    }
    left += 2;
    g->width = p->columns - left - 1 < GRID_COLUMNS ? p->columns - left - 1 : GRID_COLUMNS;
    draw_plane(g, p->chart);
    if (p->chart->y.title)
        out_put(p->out, "  %s\n", cut(p, p->chart->y.title, p->columns - 2));
    for (int r = 0; r < GRID_ROWS; r++) {
        put_padded(p, labels[r] ? labels[r] : "", left, true);
        out_put(p->out, labels[r] ? "┤" : "│");
        put_cells(p, g->cells[r], g->owners[r], g->width);
        out_char(p->out, '\n');
    }
    out_repeat(p->out, ' ', left);
    out_put(p->out, "└");
    put_repeated(p->out, "─", g->width);
    out_char(p->out, '\n');
    put_ticks(p, g, left);
    put_legend(p, symbols);
    for (size_t i = 0; i < p->chart->reference_count; i++)
        if (p->chart->references[i].label)
            out_put(p->out, "  %s %s\n", p->chart->references[i].horizontal ? "┈" : "┊",
                    cut(p, p->chart->references[i].label, p->columns - 4));
}

void chart_text(struct out *out, struct arena *arena, const struct chart *chart, int columns,
                bool colour)
{
    columns = columns < 40 ? 40 : columns > GRID_COLUMNS ? GRID_COLUMNS : columns;
    struct page page = { out, arena, chart, columns, colour };
    size_t points = 0;
    for (size_t s = 0; s < chart->series_count; s++)
        points += chart->series[s].count;
    if (chart->title)
        out_heading(out, cut(&page, chart->title, columns));
    if (!points)
        out_put(out, "  no data\n");
    else if (chart->kind <= CHART_FAN)
        put_rows(&page);
    else if (chart->kind == CHART_HISTOGRAM)
        put_histogram(&page);
    else
        put_plane(&page);
}
