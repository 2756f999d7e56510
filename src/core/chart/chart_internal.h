// SPDX-License-Identifier: Apache-2.0
// chart_internal: what the files of chart share: a drawing is a list of marks with coordinates.

#pragma once

#include "core/chart/chart.h"

enum chart_mark_kind { CHART_RECT, CHART_SEGMENT, CHART_CURVE, CHART_AREA, CHART_DOT, CHART_LABEL };
enum chart_anchor { CHART_START, CHART_MIDDLE, CHART_END };

struct chart_mark {
    enum chart_mark_kind kind;
    const char *class;
    double x, y, width, height; // of a segment: x, y to width, height; of a label: its box
    double opacity;             // 0: from the style
    const double *points;       // of a curve or area: x, y, x, y
    size_t count;
    int shape;        // of a dot
    const char *text; // of a label, plain; of others a tooltip or NULL
    enum chart_anchor anchor;
    double size; // of a label's letters
};

struct chart_drawing {
    struct arena *arena;
    const struct chart *chart;
    struct chart_mark *marks;
    size_t count, room;
    double width, height;
};

// Places all marks. Labels do not overlap and lie inside the drawing.
void chart_layout(struct chart_drawing *out, struct arena *arena, const struct chart *chart,
                  double width);
void chart_layout_rows(struct chart_drawing *d, double top);
void chart_layout_plane(struct chart_drawing *d, double top);

void chart_add(struct chart_drawing *d, struct chart_mark mark);
double chart_text_width(const char *plain, double size); // an upper estimate

// Adds the label with its anchor at x and its middle at y, unless it would overlap another or leave
// the drawing; returns whether it was added. room > 0: shortens it to that width.
bool chart_label(struct chart_drawing *d, const char *class, const char *text, double x, double y,
                 enum chart_anchor anchor, double size, double room);

// The scale of an axis, from its own ends or from the points and references.
struct chart_scale chart_fit(const struct chart *chart, bool horizontal, int ticks);

// The label as safe text of at most `most` characters; reads no more of it than that.
const char *chart_plain(struct arena *arena, const char *label, size_t most);

bool chart_has_range(const struct chart_point *point);
size_t chart_used_series(const struct chart *chart);                // 1 for bars and tornadoes
size_t chart_rows(const struct chart *chart);                       // of the longest series
const char *chart_row_label(const struct chart *chart, size_t row); // "" if there is none
double chart_row_sum(const struct chart *chart, size_t row);        // of a stacked row
