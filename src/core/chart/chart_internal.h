// chart_internal: what the files of chart share: a drawing is a list of marks with coordinates.

#pragma once

#include "core/chart/chart.h"

enum chart_mark_kind { CHART_RECT, CHART_SEGMENT, CHART_CURVE, CHART_AREA, CHART_DOT, CHART_LABEL };
enum chart_anchor { CHART_START, CHART_MIDDLE, CHART_END };

struct chart_mark {
    enum chart_mark_kind kind;
    const char *class;
    double x, y, width, height; // of a segment: x, y to width, height; of a label: its box
    double opacity;             // 0: as the style says
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

// Places every mark. No two labels touch, and each lies inside the drawing.
void chart_layout(struct chart_drawing *out, struct arena *arena, const struct chart *chart,
                  double width);
void chart_layout_rows(struct chart_drawing *d, double top);
void chart_layout_plane(struct chart_drawing *d, double top);

void chart_add(struct chart_drawing *d, struct chart_mark mark);
double chart_text_width(const char *plain, double size); // an estimate on the wide side

// Adds the label with its anchor at x and its middle at y, unless it would touch another or leave
// the drawing; returns whether it was added. Shortens it to the room where that is above 0.
bool chart_label(struct chart_drawing *d, const char *class, const char *text, double x, double y,
                 enum chart_anchor anchor, double size, double room);

// The scale of an axis: it covers the points, the references and the ends that the axis sets.
struct chart_scale chart_fit(const struct chart *chart, bool horizontal, int ticks);

// A label without control characters, cut to so many characters; reads no more of it than it shows.
const char *chart_plain(struct arena *arena, const char *label, size_t most);

bool chart_has_range(const struct chart_point *point);
size_t chart_used_series(const struct chart *chart);                // bars and tornadoes have one
size_t chart_rows(const struct chart *chart);                       // the longest series
const char *chart_row_label(const struct chart *chart, size_t row); // "" if it has none
double chart_row_sum(const struct chart *chart, size_t row);        // of a stacked row
