// SPDX-License-Identifier: Apache-2.0
// Chooses ticks and spells the values of axes.

#include "core/chart/chart_internal.h"

#include <math.h>

// --- spelling ----------------------------------------------------------------

// Three digits, no trailing zeros: "2.5", "120", "0.03", "12,500", "3 M".
static const char *short_number(struct arena *arena, double value)
{
    static const char *const units[] = { "M", "B", "T" };
    double size = fabs(value);
    if (size >= 999.5 && size < 999999.5)
        return text_commas(arena, llround(value));
    for (int i = 0; i < 3; i++)
        if (size >= 999999.5 * pow(1000, i) && size < 999.5e6 * pow(1000, i))
            return text_format(arena, "%.3g %s", value / 1e6 / pow(1000, i), units[i]);
    return text_format(arena, "%.3g", value);
}

static const char *scaled(struct arena *arena, double value, double base, const char *const *units,
                          int count, double first)
{
    int unit = 0;
    for (; unit < count - 1 && fabs(value) >= first; unit++, first = base * 0.9995)
        value /= base;
    return text_format(arena, "%s%s", short_number(arena, value), units[unit]);
}

static const char *spell_seconds(struct arena *arena, double value)
{
    static const struct {
        double from, size;
        const char *unit;
    } steps[] = { { 86400 * 2, 86400, "d" },
                  { 3600, 3600, "h" },
                  { 60, 60, "min" },
                  { 1, 1, "s" },
                  { 1e-3, 1e-3, "ms" } };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (fabs(value) >= steps[i].from * 0.9995)
            return text_format(arena, "%s %s", short_number(arena, value / steps[i].size),
                               steps[i].unit);
    return value == 0 ? "0" : text_format(arena, "%s µs", short_number(arena, value * 1e6));
}

const char *chart_spell(struct arena *arena, double value, enum chart_unit unit)
{
    static const char *const thousands[] = { "", " k", " M", " B", " T" };
    static const char *const binary[] = { " B", " KiB", " MiB", " GiB", " TiB", " PiB" };
    static const char *const rates[] = { "", " k", " M", " G", " T", " P" };
    if (!isfinite(value))
        return "unknown";
    if (value == 0 && unit != CHART_USD && unit != CHART_SHARE)
        return "0";
    switch (unit) {
    case CHART_COUNT: return scaled(arena, value, 1000, thousands, 5, 9999.5);
    case CHART_BYTES: return scaled(arena, value, 1024, binary, 6, 1023.5);
    case CHART_SECONDS: return spell_seconds(arena, value);
    case CHART_USD:
        return text_format(
            arena, "%s$%s", value < 0 ? "−" : "",
            fabs(value) >= 999.5 || value == rint(value)
                ? short_number(arena, fabs(value))
                : text_format(arena, fabs(value) < 0.01 ? "%.3g" : "%.2f", fabs(value)));
    case CHART_SHARE: return text_format(arena, "%s %%", short_number(arena, value * 100));
    case CHART_FLOPS_PER_S:
        return text_format(arena, "%sFLOP/s", scaled(arena, value, 1000, rates, 6, 999.5));
    default: return short_number(arena, value);
    }
}

// --- ticks -------------------------------------------------------------------

static double round_step(double least, double base)
{
    static const double steps[] = { 1, 2, 5 };
    double power = pow(base, floor(log(least) / log(base)));
    if (base == 2)
        return power < least * (1 - 1e-9) ? power * 2 : power;
    for (int i = 0; i < 3; i++)
        if (power * steps[i] >= least * (1 - 1e-9))
            return power * steps[i];
    return power * 10;
}

// Steps of a clock in seconds; beyond two days, multiples of days.
static double clock_step(double least)
{
    static const double steps[] = { 1,   2,    5,    10,   15,    30,    60,    120,   300,   600,
                                    900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800 };
    if (least > 1 - 1e-9)
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
            if (steps[i] >= least * (1 - 1e-9))
                return steps[i];
    return least > 1 ? 86400 * round_step(least / 86400, 10) : round_step(least, 10);
}

static double tick_step(double least, enum chart_unit unit)
{
    return unit == CHART_BYTES     ? round_step(least, 2)
           : unit == CHART_SECONDS ? clock_step(least)
                                   : round_step(least, 10);
}

static void add_tick(struct chart_scale *s, double value)
{
    if (s->tick_count < CHART_TICKS)
        s->ticks[s->tick_count++] = value;
}

static void tick_linear(struct chart_scale *s, int most)
{
    double step = tick_step(fmax((s->high - s->low) / (most > 2 ? most - 1 : 1), 1e-290), s->unit);
    double first = floor(s->low / step + 1e-9), last = ceil(s->high / step - 1e-9);
    while (last - first + 1 > fmax(most, s->low < 0 && s->high > 0 ? 3 : 2)) {
        step = tick_step(step * 1.5, s->unit);
        first = floor(s->low / step + 1e-9), last = ceil(s->high / step - 1e-9);
        if (last - first < 1.5)
            break;
    }
    s->low = first * step;
    s->high = last * step;
    for (double i = first; i <= last; i++)
        add_tick(s, i * step);
}

static void tick_log(struct chart_scale *s, int most)
{
    static const double one[] = { 1 }, two[] = { 1, 3 }, three[] = { 1, 2, 5 }; // per decade
    double base = s->unit == CHART_BYTES ? 2 : 10;
    double decades = (log(s->high) - log(s->low)) / log(base);
    double skip = fmax(1, ceil(decades / fmax(most - 1, 1)));
    const double *steps = one;
    int count = 1;
    if (base == 10 && skip == 1 && 3 * decades + 1 <= most)
        steps = three, count = 3;
    else if (base == 10 && skip == 1 && 2 * decades + 1 <= most)
        steps = two, count = 2;
    double first = floor(log(s->low) / log(base) + 1e-9), ends[2] = { NAN, NAN };
    first = floor(first / skip) * skip;
    double values[128];
    int found = 0;
    for (double power = first; found < 120 && !(ends[1] >= s->high * (1 - 1e-9)); power += skip)
        for (int i = 0; i < count && !(ends[1] >= s->high * (1 - 1e-9)); i++) {
            double value = steps[i] * pow(base, power);
            if (!isfinite(value)) { // overflow: the scale ends with the data
                ends[1] = s->high;
                break;
            }
            if (value < 1e-300)
                continue;
            if (value <=
                s->low * (1 + 1e-9)) // the last tick at or below the data becomes the first
                found = 0, ends[0] = value;
            values[found++] = ends[1] = value;
        }
    s->low = isnan(ends[0]) ? s->low : ends[0];
    s->high = fmax(ends[1], s->high);
    for (int i = 0; i < found; i++)
        add_tick(s, values[i]);
}

struct chart_scale chart_scale(double low, double high, bool log, enum chart_unit unit, int most)
{
    const double huge = 1e280, tiny = 1e-280; // room for products and quotients
    most = most < 2 ? 2 : most > CHART_TICKS ? CHART_TICKS : most;
    low = isnan(low) ? 0 : fmax(-huge, fmin(huge, low));
    high = isnan(high) ? low : fmax(-huge, fmin(huge, high));
    if (low > high) {
        double swap = low;
        low = high, high = swap;
    }
    if (log) {
        high = high > 0 ? fmax(high, tiny) : 1;
        low = low > 0 ? fmax(low, tiny) : high / 1000;
        if (high < low * 1.01)
            low /= 2, high *= 2;
    } else if (!(high - low > 1e-9 * fmax(fabs(low), fabs(high))) || high - low < tiny) {
        double pad = fmax(fabs(low), fabs(high)) > tiny ? fabs(high) / 2 : 1;
        high += pad;
        low = low > 0 ? fmax(0, low - pad) : low < 0 ? low - pad : 0;
    }
    struct chart_scale scale = { .low = low, .high = high, .log = log, .unit = unit };
    if (log)
        tick_log(&scale, most);
    else
        tick_linear(&scale, most);
    return scale;
}

double chart_place(const struct chart_scale *s, double value)
{
    double share = s->log
                       ? value > 0 ? (log(value) - log(s->low)) / (log(s->high) - log(s->low)) : NAN
                       : (value - s->low) / (s->high - s->low);
    return share >= -1e-9 && share <= 1 + 1e-9 ? fmax(0, fmin(1, share)) : NAN;
}
