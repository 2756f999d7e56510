// SPDX-License-Identifier: Apache-2.0
#include "core/chart/chart_internal.h"

#include "base/rng.h"
#include "base/markup.h"
#include "test/core/wellformed.h"

#include <math.h>

static const struct chart_point parts[] = {
    { .label = "weights", .x = 15e9 },
    { .label = "activations", .x = 40e9 },
    { .label = "optimizer", .x = 2e9 },
};

static struct chart bars(void)
{
    static const struct chart_series series = { NULL, parts, 3 };
    return (struct chart){ .kind = CHART_BARS,
                           .title = "Memory by part",
                           .x = { .title = "bytes on each GPU", .unit = CHART_BYTES },
                           .series = &series,
                           .series_count = 1 };
}

static struct text svg(const struct chart *chart, double width)
{
    struct out out = { .arena = &test_arena };
    chart_svg(&out, &test_arena, chart, width);
    return out_view(&out);
}

static const char *written(const struct chart *chart, int columns, bool colour)
{
    struct out out = { .arena = &test_arena };
    chart_text(&out, &test_arena, chart, columns, colour);
    return out_string(&out);
}

static bool holds(struct text text, const char *piece)
{
    size_t size = strlen(piece);
    for (size_t i = 0; i + size <= text.size; i++)
        if (!memcmp(text.at + i, piece, size))
            return true;
    return false;
}

static void check_wellformed(struct text text)
{
    struct wellformed w;
    const char *problem = wellformed_check(&w, text);
    test_check(!problem, problem ? problem : "", __FILE__, __LINE__);
    CHECK(w.links == 0);
}

// --- ticks -------------------------------------------------------------------

static bool is_round(double value, double base)
{
    if (value == 0)
        return true;
    double power = pow(base, floor(log(fabs(value)) / log(base) + 1e-9));
    double digit = fabs(value) / power;
    return base == 2 ? fabs(digit - 1) < 1e-6 : fabs(digit - rint(digit)) < 1e-6;
}

TEST(chart_ticks_are_round_numbers_and_hold_the_data)
{
    struct rng rng = rng_seeded(3);
    for (int i = 0; i < 3000; i++) {
        double low = (rng_uniform(&rng) - 0.3) * pow(10, rng_uniform(&rng) * 12 - 6);
        double high = low + fmax(fabs(low) / 1e4, 1e-6) * pow(10, rng_uniform(&rng) * 8);
        struct chart_scale s =
            chart_scale(low, high, false, CHART_NUMBER, 3 + (int)(rng_uniform(&rng) * 8));
        double slack = 1e-8 * (high - low);
        CHECK(s.low <= low + slack && s.high >= high - slack);
        CHECK(s.tick_count >= 2);
        double step = s.ticks[1] - s.ticks[0];
        double digit = step / pow(10, floor(log10(step) + 1e-9));
        CHECK(fabs(digit - 1) < 1e-3 || fabs(digit - 2) < 1e-3 || fabs(digit - 5) < 1e-3);
    }
}

TEST(chart_log_ticks_are_one_two_five_of_decades_and_hold_the_data)
{
    struct rng rng = rng_seeded(4);
    for (int i = 0; i < 3000; i++) {
        double low = pow(10, rng_uniform(&rng) * 20 - 10);
        double high = low * pow(10, 0.1 + rng_uniform(&rng) * 12);
        struct chart_scale s = chart_scale(low, high, true, CHART_NUMBER, 8);
        CHECK(s.low <= low * (1 + 1e-9) && s.high >= high * (1 - 1e-9));
        CHECK(s.tick_count >= 2 && s.low > 0);
        for (int t = 0; t < s.tick_count; t++)
            CHECK(is_round(s.ticks[t], 10) && (!t || s.ticks[t] > s.ticks[t - 1]));
    }
}

TEST(chart_ticks_of_bytes_are_powers_of_two_apart)
{
    struct chart_scale s = chart_scale(0, 80.0 * (1 << 30), false, CHART_BYTES, 6);
    CHECK(is_round(s.ticks[1] - s.ticks[0], 2));
    CHECK(!strcmp(chart_spell(&test_arena, s.ticks[1], CHART_BYTES), "16 GiB"));
}

TEST(chart_scale_can_be_drawn_whatever_comes_in)
{
    static const double odd[] = { NAN,   INFINITY, -INFINITY, 0,      -0.0, 1,   -1,
                                  1e308, -1e308,   5e-324,    1e-300, 42,   1e15 };
    size_t count = sizeof odd / sizeof *odd;
    for (size_t a = 0; a < count; a++)
        for (size_t b = 0; b < count; b++)
            for (int log = 0; log < 2; log++)
                for (int unit = CHART_NUMBER; unit <= CHART_FLOPS_PER_S; unit++) {
                    struct chart_scale s = chart_scale(odd[a], odd[b], log, unit, (int)a);
                    CHECK(isfinite(s.low) && isfinite(s.high) && s.high > s.low);
                    CHECK(s.tick_count >= 1 && s.tick_count <= CHART_TICKS);
                    CHECK(!log || s.low > 0);
                }
}

TEST(chart_spells_units_as_people_do)
{
    const struct {
        double value;
        enum chart_unit unit;
        const char *text;
    } said[] = {
        { 12500, CHART_COUNT, "12.5 k" },      { 512, CHART_COUNT, "512" },
        { 0.25, CHART_SHARE, "25 %" },         { 90, CHART_SECONDS, "1.5 min" },
        { 0.004, CHART_SECONDS, "4 ms" },      { 40, CHART_USD, "$40" },
        { 1.5, CHART_USD, "$1.50" },           { 989e12, CHART_FLOPS_PER_S, "989 TFLOP/s" },
        { NAN, CHART_HOURS, "unknown" },       { 1234, CHART_HOURS, "1,234" },
        { 3221225472.0, CHART_BYTES, "3 GiB" }
    };
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        CHECK(!strcmp(chart_spell(&test_arena, said[i].value, said[i].unit), said[i].text));
}

// --- labels ------------------------------------------------------------------

static double any(struct rng *rng)
{
    static const double odd[] = { NAN, INFINITY, -INFINITY, 0, -3, 1e300, 1e-300, 5e-324 };
    double u = rng_uniform(rng);
    return u < 0.1 ? odd[(int)(u * 80)] : pow(10, rng_uniform(rng) * 9 - 3);
}

static const char *any_label(struct rng *rng)
{
    static const char *const labels[] = { "a",
                                          "8 × h100-sxm",
                                          "zero2 dp8, full recomputation",
                                          "<script>alert(1)</script>",
                                          "javascript:alert(1)",
                                          "‮evil‬",
                                          "数据集 データ",
                                          "\x01\x1b[31m",
                                          "\xff\xfe",
                                          "A label that goes on for far longer than any column of "
                                          "a chart could ever have room for, and then some more" };
    return rng_uniform(rng) < 0.1 ? NULL : labels[(int)(rng_uniform(rng) * 10)];
}

// A chart of anything.
static struct chart any_chart(struct rng *rng, struct arena *arena)
{
    struct chart chart = { .kind = (enum chart_kind)(rng_uniform(rng) * 8),
                           .title = any_label(rng),
                           .x = { .title = any_label(rng),
                                  .unit = (enum chart_unit)(rng_uniform(rng) * 8),
                                  .log = rng_uniform(rng) < 0.4 },
                           .y = { .title = any_label(rng),
                                  .unit = (enum chart_unit)(rng_uniform(rng) * 8),
                                  .log = rng_uniform(rng) < 0.4 },
                           .series_count = (size_t)(rng_uniform(rng) * 5),
                           .reference_count = (size_t)(rng_uniform(rng) * 4) };
    struct chart_series *series = ARENA_NEW(arena, struct chart_series, 5);
    struct chart_reference *references = ARENA_NEW(arena, struct chart_reference, 4);
    for (size_t s = 0; s < chart.series_count; s++) {
        size_t count = (size_t)(rng_uniform(rng) * rng_uniform(rng) * 60);
        struct chart_point *points = ARENA_NEW(arena, struct chart_point, count);
        for (size_t i = 0; i < count; i++)
            points[i] = (struct chart_point){ .label = any_label(rng),
                                              .x = any(rng),
                                              .y = any(rng),
                                              .low = any(rng),
                                              .high = any(rng),
                                              .marked = rng_uniform(rng) < 0.1 };
        series[s] = (struct chart_series){ any_label(rng), points, count };
    }
    for (size_t i = 0; i < chart.reference_count; i++)
        references[i] =
            (struct chart_reference){ any(rng), rng_uniform(rng) < 0.5, any_label(rng) };
    chart.series = series;
    chart.references = references;
    return chart;
}

static bool overlap(const struct chart_mark *a, const struct chart_mark *b)
{
    return a->x < b->x + b->width && b->x < a->x + a->width && a->y < b->y + b->height &&
           b->y < a->y + a->height;
}

TEST(chart_labels_never_touch_and_stay_inside)
{
    struct rng rng = rng_seeded(11);
    for (int i = 0; i < 600; i++) {
        struct arena arena = { 0 };
        struct chart chart = any_chart(&rng, &arena);
        struct chart_drawing d;
        chart_layout(&d, &arena, &chart, i % 2 ? CHART_WIDE : CHART_NARROW);
        int touching = 0, outside = 0;
        for (size_t a = 0; a < d.count; a++) {
            const struct chart_mark *m = &d.marks[a];
            if (m->kind != CHART_LABEL)
                continue;
            outside += m->x < 0 || m->y < 0 || m->x + m->width > d.width + 1e-9 ||
                       m->y + m->height > d.height + 1e-9;
            // The box is the text's own, whatever the anchor.
            CHECK(fabs(m->width - chart_text_width(m->text, m->size)) < 1e-9);
            for (size_t b = 0; b < a; b++)
                touching += d.marks[b].kind == CHART_LABEL && overlap(m, &d.marks[b]);
        }
        CHECK(touching == 0);
        CHECK(outside == 0);
        arena_release(&arena);
    }
}

TEST(chart_marks_have_places_inside_the_drawing)
{
    struct rng rng = rng_seeded(12);
    for (int i = 0; i < 600; i++) {
        struct arena arena = { 0 };
        struct chart chart = any_chart(&rng, &arena);
        struct chart_drawing d;
        chart_layout(&d, &arena, &chart, CHART_WIDE);
        int bad = 0;
        for (size_t a = 0; a < d.count; a++) {
            const struct chart_mark *m = &d.marks[a];
            double right = m->kind == CHART_RECT ? m->x + m->width : m->x;
            bad += !(m->x >= -1 && right <= d.width + 1 && m->y >= -1 && m->y <= d.height + 1);
            for (size_t k = 0; m->points && k < 2 * m->count; k++)
                bad += !(m->points[k] >= -1 && m->points[k] <= fmax(d.width, d.height) + 1);
        }
        CHECK(bad == 0);
        arena_release(&arena);
    }
}

TEST(chart_svg_of_anything_is_wellformed_and_leads_nowhere)
{
    struct rng rng = rng_seeded(13);
    for (int i = 0; i < 400; i++) {
        struct chart chart = any_chart(&rng, &test_arena);
        struct text text = svg(&chart, i % 2 ? CHART_WIDE : CHART_NARROW);
        check_wellformed(text);
        CHECK(!holds(text, "<script") && !holds(text, "nan") && !holds(text, "inf\""));
    }
}

TEST(chart_text_of_anything_keeps_its_columns_and_sends_no_controls)
{
    struct rng rng = rng_seeded(14);
    for (int i = 0; i < 600; i++) {
        struct chart chart = any_chart(&rng, &test_arena);
        int columns = i % 3 ? 80 : 40 + i % 40;
        struct text rest = text_of(written(&chart, columns, false)), line;
        while (text_next(&rest, '\n', &line)) {
            test_check(text_columns(line) <= columns, text_copy(&test_arena, line), __FILE__,
                       __LINE__);
            for (size_t k = 0; k < line.size; k++)
                CHECK((unsigned char)line.at[k] >= 0x20 && line.at[k] != 0x7F);
        }
    }
}

TEST(chart_colours_change_nothing_but_escapes)
{
    struct rng rng = rng_seeded(15);
    for (int i = 0; i < 200; i++) {
        struct chart chart = any_chart(&rng, &test_arena);
        if (chart.kind == CHART_STACKED) // there the colour takes the place of the shade
            continue;
        const char *plain = written(&chart, 80, false), *colour = written(&chart, 80, true);
        struct out out = { .arena = &test_arena };
        for (; *colour; colour++) {
            if (*colour == 0x1b)
                while (*colour != 'm')
                    colour++;
            else
                out_char(&out, *colour);
        }
        CHECK(!strcmp(plain, out_string(&out)));
    }
}

TEST(chart_of_a_million_points_and_a_megabyte_of_label_stays_small)
{
    enum { MANY = 1000000 / TEST_CASES_OF };
    char *label = arena_alloc(&test_arena, MANY + 1);
    memset(label, 'W', MANY);
    struct chart_point *points = ARENA_NEW(&test_arena, struct chart_point, MANY);
    for (int i = 0; i < MANY; i++)
        points[i] = (struct chart_point){
            .label = label, .x = i, .y = fabs(sin(i)), .low = 0.1, .high = 2
        };
    struct chart_series series = { label, points, MANY };
    for (int kind = CHART_BARS; kind <= CHART_ROOFLINE; kind++) {
        if (kind == CHART_HISTOGRAM) // columns have no labels
            continue;
        struct chart chart = { .kind = kind, .title = label, .series = &series, .series_count = 1 };
        struct text text = svg(&chart, CHART_WIDE);
        CHECK(text.size < 300000);
        CHECK(strlen(written(&chart, 80, false)) < 20000);
    }
}

// --- what is said ------------------------------------------------------------

TEST(chart_says_its_title_axes_and_values)
{
    struct chart chart = bars();
    struct text text = svg(&chart, CHART_WIDE);
    check_wellformed(text);
    CHECK(holds(text, "role=\"img\""));
    CHECK(holds(text, "<title>Memory by part</title>"));
    CHECK(holds(text,
                "<desc>Bars: weights 14 GiB; activations 37.3 GiB; optimizer 1.86 GiB.</desc>"));
    CHECK(holds(text, "aria-label=\"Memory by part. Bars:"));
    CHECK(holds(text, ">bytes on each GPU</text>"));
    CHECK(holds(text, ">16 GiB</text>"));
    CHECK(holds(text, ">weights</text>"));
}

TEST(chart_bars_are_as_long_as_their_values)
{
    struct chart chart = bars();
    struct chart_drawing d;
    chart_layout(&d, &test_arena, &chart, CHART_WIDE);
    double widths[3];
    int found = 0;
    for (size_t i = 0; i < d.count; i++)
        if (d.marks[i].kind == CHART_RECT && found < 3)
            widths[found++] = d.marks[i].width;
    CHECK(found == 3);
    CHECK_NEAR(widths[0] / widths[1], 15.0 / 40, 1e-9);
    CHECK_NEAR(widths[2] / widths[1], 2.0 / 40, 1e-9);
}

TEST(chart_text_of_bars_is_what_people_read)
{
    struct chart chart = bars();
    const char *text = written(&chart, 60, false);
    CHECK(strstr(text, "Memory by part\n"));
    CHECK(strstr(text, "weights"));
    CHECK(strstr(text, "37.3 GiB\n"));
    CHECK(!strchr(text, 0x1b));
    CHECK(strchr(written(&chart, 60, true), 0x1b));
}

TEST(chart_without_data_says_so)
{
    for (int kind = CHART_BARS; kind <= CHART_ROOFLINE; kind++) {
        struct chart chart = { .kind = kind, .title = "Nothing" };
        struct text text = svg(&chart, CHART_WIDE);
        check_wellformed(text);
        CHECK(holds(text, "no data"));
        CHECK(strstr(written(&chart, 80, false), "no data"));
    }
}
