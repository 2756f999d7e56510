// SPDX-License-Identifier: Apache-2.0
// Writes a drawing as an SVG element.

#include "core/chart/chart_internal.h"

#include "base/markup.h"

#include <math.h>

// With one decimal: a tenth of a pixel.
static void put_number(struct out *out, double value)
{
    double tenths = rint(value * 10);
    if (fmod(tenths, 10) == 0)
        out_put(out, "%.0f", tenths / 10 + 0.0);
    else
        out_put(out, "%.1f", tenths / 10);
}

static void put_attribute(struct out *out, const char *name, double value)
{
    out_put(out, " %s=\"", name);
    put_number(out, value);
    out_char(out, '"');
}

static void put_points(struct out *out, const double *points, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        out_put(out, i ? "L" : "M");
        put_number(out, points[2 * i]);
        out_char(out, ' ');
        put_number(out, points[2 * i + 1]);
    }
}

// Series also differ in shape, for readers who cannot tell the colours apart.
static void put_dot(struct out *out, const struct chart_mark *m)
{
    double r = m->width > 7 ? 5 : m->width, x = m->x, y = m->y;
    const double square[] = { x - r, y - r, x + r, y - r, x + r, y + r, x - r, y + r };
    const double triangle[] = {
        x, y - 1.2 * r, x + 1.1 * r, y + 0.8 * r, x - 1.1 * r, y + 0.8 * r
    };
    const double diamond[] = { x, y - 1.3 * r, x + 1.3 * r, y, x, y + 1.3 * r, x - 1.3 * r, y };
    const double drop[] = { x - 1.1 * r, y - 0.8 * r, x + 1.1 * r, y - 0.8 * r, x, y + 1.2 * r };
    static const size_t corners[] = { 0, 4, 3, 4, 3 };
    const double *const shapes[] = { NULL, square, triangle, diamond, drop };
    int shape = m->shape % 5;
    if (!shape) {
        out_put(out, "<circle class=\"%s\"", m->class);
        put_attribute(out, "cx", x);
        put_attribute(out, "cy", y);
        put_attribute(out, "r", r);
    } else {
        out_put(out, "<path class=\"%s\" d=\"", m->class);
        put_points(out, shapes[shape], corners[shape]);
        out_put(out, "Z\"");
    }
    if (m->text) {
        out_put(out, "><title>");
        markup_put(out, MARKUP_HTML, text_of(m->text), MARKUP_NAME);
        out_put(out, "</title></%s>", shape ? "path" : "circle");
    } else {
        out_put(out, "/>");
    }
}

static void put_label(struct out *out, const struct chart_mark *m)
{
    static const char *const anchors[] = { "", " mid", " end" };
    double x = m->anchor == CHART_START    ? m->x
               : m->anchor == CHART_MIDDLE ? m->x + m->width / 2
                                           : m->x + m->width;
    out_put(out, "<text class=\"%s%s\"", m->class, anchors[m->anchor]);
    put_attribute(out, "x", x);
    put_attribute(out, "y", m->y + m->height / 2 + 0.36 * m->size);
    out_put(out, " direction=\"ltr\" unicode-bidi=\"isolate\">");
    markup_put(out, MARKUP_HTML, text_of(m->text), 200);
    out_put(out, "</text>");
}

static void put_rect(struct out *out, const struct chart_mark *m)
{
    out_put(out, "<rect class=\"%s\"", m->class);
    put_attribute(out, "x", m->x);
    put_attribute(out, "y", m->y);
    put_attribute(out, "width", m->width);
    put_attribute(out, "height", m->height);
    if (m->opacity > 0)
        out_put(out, " fill-opacity=\"%.2f\"", fmin(m->opacity, 1));
    out_put(out, "/>");
}

static void put_mark(struct out *out, const struct chart_mark *m)
{
    switch (m->kind) {
    case CHART_RECT: put_rect(out, m); break;
    case CHART_SEGMENT:
        out_put(out, "<line class=\"%s\"", m->class);
        put_attribute(out, "x1", m->x);
        put_attribute(out, "y1", m->y);
        put_attribute(out, "x2", m->width);
        put_attribute(out, "y2", m->height);
        out_put(out, "/>");
        break;
    case CHART_CURVE:
    case CHART_AREA:
        out_put(out, "<path class=\"%s\" d=\"", m->class);
        put_points(out, m->points, m->count);
        out_put(out, m->kind == CHART_AREA ? "Z\"/>" : "\"/>");
        break;
    case CHART_DOT: put_dot(out, m); break;
    case CHART_LABEL: put_label(out, m); break;
    }
}

void chart_svg(struct out *out, struct arena *arena, const struct chart *chart, double width)
{
    struct chart_drawing d;
    chart_layout(&d, arena, chart, width);
    struct text alt = text_of(chart_alt(chart, arena)), title = text_of(chart->title);
    out_put(out,
            "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" "
            "viewBox=\"0 0 %.0f %.0f\" aria-label=\"",
            d.width, ceil(d.height));
    markup_put(out, MARKUP_HTML, title, MARKUP_SENTENCE);
    out_put(out, ". ");
    markup_put(out, MARKUP_HTML, alt, MARKUP_SENTENCE);
    out_put(out, "\"><title>");
    markup_put(out, MARKUP_HTML, title, MARKUP_SENTENCE);
    out_put(out, "</title><desc>");
    markup_put(out, MARKUP_HTML, alt, MARKUP_SENTENCE);
    out_put(out, "</desc>\n");
    for (size_t i = 0; i < d.count; i++) {
        put_mark(out, &d.marks[i]);
        out_char(out, '\n');
    }
    out_put(out, "</svg>\n");
}
