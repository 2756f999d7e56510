// SPDX-License-Identifier: Apache-2.0
// chart: draws a chart as SVG or as text, from one description.
//
// Kinds with rows (bars, stacked, tornado, fan) have one category per row and values along x; kinds
// on a plane (histogram, line, scatter, roofline) have two axes. The drawing puts ticks at 1, 2 and
// 5 times powers of ten (powers of two for bytes), omits labels that would overlap, and adds a text
// alternative:
//
//     struct chart_point rows[] = { { .label = "weights", .x = 15e9 }, … };
//     struct chart chart = { .kind = CHART_BARS, .title = "Memory by part", .x = { "bytes",
//         CHART_BYTES }, .series = &(struct chart_series){ .points = rows, .count = 8 },
//         .series_count = 1 };
//     chart_svg(out, arena, &chart, 720);
//     chart_text(out, arena, &chart, 80, false);
//
// Points that are not finite, or not positive on a logarithmic axis, are left out. Labels may be
// any text: they are shortened and escaped. Keeps no pointer.

#pragma once

#include "base/text.h"

enum chart_kind {
    CHART_BARS,    // a bar from 0 to x in each row, with a whisker from low to high
    CHART_STACKED, // point i of every series side by side in row i
    CHART_TORNADO, // a bar from low to high in each row, around the reference
    CHART_FAN,     // nested bands: row i of each series is one band from low to high, with x in it
    CHART_HISTOGRAM, // columns from low to high along x, y tall; series stand on each other
    CHART_LINE,      // lines through x, y, over a band from low to high (of y)
    CHART_SCATTER,   // marks at x, y
    CHART_ROOFLINE,  // series 0 is a line, the others are marks
};

enum chart_unit {
    CHART_NUMBER,
    CHART_COUNT, // 12 k, 3.4 M
    CHART_BYTES, // KiB, MiB
    CHART_SECONDS,
    CHART_HOURS,
    CHART_USD,
    CHART_SHARE,       // %
    CHART_FLOPS_PER_S, // GFLOP/s, TFLOP/s
};

struct chart_axis {
    const char *title;
    enum chart_unit unit;
    bool log;
    double low, high; // ends; both 0: from the data
};

struct chart_point {
    const char *label; // of a row, or next to a mark; NULL: none
    double x, y;
    double low, high; // both 0: none
    bool marked;      // drawn in the accent colour
    bool faint;       // a scatter plot's background: drawn light, and left out where crowded
};

struct chart_series {
    const char *name; // in the legend; NULL: not in it
    const struct chart_point *points;
    size_t count;
};

struct chart_reference { // a reference line
    double at;
    bool horizontal; // at y; else at x
    const char *label;
};

struct chart {
    enum chart_kind kind;
    const char *title;
    const char *alt; // text alternative; NULL: made from the data
    struct chart_axis x, y;
    const struct chart_series *series;
    size_t series_count;
    const struct chart_reference *references;
    size_t reference_count;
};

enum { CHART_WIDE = 720, CHART_NARROW = 344 }; // width in CSS pixels

// An <svg> element; its styles are in data/page.css.
void chart_svg(struct out *out, struct arena *arena, const struct chart *chart, double width);

// At most `columns` wide (at least 40); colour: with 256-colour escapes.
void chart_text(struct out *out, struct arena *arena, const struct chart *chart, int columns,
                bool colour);

// A bar in eighths of a block character; share 1 is `columns` long.
void chart_put_bar(struct out *out, double share, int columns);

// The alternative text.
const char *chart_alt(const struct chart *chart, struct arena *arena);

// --- scales, also for callers that draw by themselves --------------------------

enum { CHART_TICKS = 12 };

struct chart_scale {
    double low, high; // of the data, extended to ticks
    bool log;
    enum chart_unit unit;
    double ticks[CHART_TICKS];
    int tick_count;
};

// A scale with at most `most` ticks at round values; drawable for any input.
struct chart_scale chart_scale(double low, double high, bool log, enum chart_unit unit, int most);
double chart_place(const struct chart_scale *scale, double value); // 0 to 1; NAN if outside
const char *chart_spell(struct arena *arena, double value, enum chart_unit unit); // "12 k", "$40"
