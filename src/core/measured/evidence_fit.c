// SPDX-License-Identifier: Apache-2.0
// Fits how much each level narrows a range, on the errors of forecasts that did not know the
// source.
//
// Errors follow Student's t with four degrees of freedom and the spread s:
//
//     ln density = −ln s − 2.5·ln(1 + k / s²)         k = (error / rescale)² / 4
//     s²         = exp(2η) + step spread²              what the step list is unsure of itself
//     η          = ln widest − Σ share·narrowing      of the run's place
//
// Maximised is Σ weight·ln density − Σ narrowing² / 2·usual² over narrowing ≥ 0. The curvature of
// the density by η is at most 2.5, and so a step of slope over that bound, factor by factor, always
// climbs. A leap after two sweeps need not: the next sweeps climb again, and the fit ends with a
// sweep. Without a step spread the density is concave, with one maximum; with the spreads that
// there are, fits that begin elsewhere end in the same place (test_evidence.c).

#include "core/measured/evidence_internal.h"

#include "base/stats.h"

#include <math.h>
#include <string.h>

// A roofline forecast of which nothing was measured is mostly right within a factor of two: its
// 80 % range then has a spread of ln 2 / STATS_P90. How far the fit may leave that, as a logarithm.
static const double usual_widest = 0.54, doubt = 0.3;
// A level usually narrows a range by up to this much. It matters little: with 0.35, 0.45, 0.55 and
// 0.7 the ranges of likelihood alone hold 87, 87, 87 and 88 % of the runs of sources left out. With
// 0.7 those of MLPerf fall from 74 to 70 %: where much was measured, they get too narrow.
static const double usual = 0.45;
static const double steepest = 2.5; // curvature of ln density by η

// A run: its levels by factor, and where the fit stands.
struct fit_row {
    double k, weight, eta, step_variance;
    size_t source;
    bool is_strange;
    int levels[EVIDENCE_TERMS];
    double shares[EVIDENCE_TERMS];
    size_t begins[EVIDENCE_FACTORS + 1]; // of each factor's terms
};

struct fit {
    struct evidence *out;
    struct fit_row *rows;
    size_t count, source_count;
    double *up, *curve; // slope and curvature by level
};

// --- sources -----------------------------------------------------------------

struct source {
    struct text name;
    double runs, sum, squares; // of errors
};

// The rows that count, by source. An outlier does not decide how alike a source's errors are.
static struct source *take_sources(struct fit *fit, struct arena *arena,
                                   const struct evidence_row *rows, size_t count)
{
    struct source *sources = ARENA_NEW(arena, struct source, count + 1);
    double *sizes = ARENA_NEW(arena, double, count + 1);
    for (size_t i = 0; i < count; i++)
        if (!rows[i].left_out)
            sizes[fit->count++] = fabs(rows[i].error);
    double most = fit->count ? 3 * stats_median(sizes, fit->count) : 0;
    for (size_t i = 0, row = 0; i < count; i++) {
        size_t at = 0;
        if (rows[i].left_out)
            continue;
        while (at < fit->source_count && !text_equal(sources[at].name, rows[i].source))
            at++;
        if (at == fit->source_count)
            sources[fit->source_count++].name = rows[i].source;
        double error = fmin(fmax(rows[i].error, -most), most);
        sources[at].runs++;
        sources[at].sum += error;
        sources[at].squares += error * error;
        fit->rows[row].step_variance = rows[i].step_spread * rows[i].step_spread;
        fit->rows[row].k = pow(rows[i].error / STATS_T4_SCALE, 2) / 4;
        fit->rows[row].is_strange = rows[i].is_strange;
        fit->rows[row++].source = at;
    }
    return sources;
}

// How alike the errors of one source are: the variance between sources over all variance, by the
// analysis of variance. 0: its runs are as independent as any, 1: they are one run. A source of two
// runs says little of it, and counts as two.
static double likeness(const struct source *sources, size_t count)
{
    double inside = 0, means = 0, runs = 0;
    for (size_t s = 0; s < count; s++) {
        double mean = sources[s].sum / sources[s].runs;
        means += sources[s].sum * mean;
        inside += fmax(0, sources[s].squares - sources[s].sum * mean);
        runs += sources[s].runs;
    }
    if (!(runs > (double)count))
        return 0;
    double within = inside / (runs - (double)count);
    double between = fmax(0, (means - (double)count * within) / runs);
    return between + within > 0 ? between / (between + within) : 0;
}

// --- levels ------------------------------------------------------------------

static int take_level(struct evidence *e, const char *kind, const struct evidence_term *term,
                      struct arena *arena)
{
    struct evidence_level *level = evidence_find(e, kind, term);
    if (!level) {
        level = &e->levels[e->count++];
        *level = (struct evidence_level){ .kind = kind,
                                          .factor = term->factor,
                                          .level = term->factor < EVIDENCE_GPUS
                                                       ? term->level
                                                       : text_format(arena, "%.0f", term->number),
                                          .with = term->with,
                                          .number = term->number };
    }
    return (int)(level - e->levels);
}

static void take_row(struct fit_row *row, struct evidence *e, const struct place *place,
                     struct arena *arena)
{
    struct evidence_term terms[EVIDENCE_TERMS];
    size_t count = evidence_terms(terms, place), t = 0;
    for (int f = 0; f < EVIDENCE_FACTORS; f++)
        for (row->begins[f] = t; t < count && terms[t].factor == f; t++) {
            row->levels[t] = take_level(e, place->names[EVIDENCE_KIND], &terms[t], arena);
            row->shares[t] = terms[t].share;
        }
    row->begins[EVIDENCE_FACTORS] = t;
}

// Runs and sources of each level. A run counts for the nearer level of a number.
static void count_levels(struct fit *fit, struct arena *arena)
{
    struct evidence_level *levels = fit->out->levels;
    bool *seen = ARENA_NEW(arena, bool, fit->out->count + 1);
    for (size_t s = 0; s < fit->source_count; s++) {
        memset(seen, 0, fit->out->count * sizeof *seen);
        for (size_t i = 0; i < fit->count; i++) {
            const struct fit_row *row = &fit->rows[i];
            for (size_t t = 0; row->source == s && t < row->begins[EVIDENCE_FACTORS]; t++)
                if (row->shares[t] >= 0.5) {
                    levels[row->levels[t]].runs++;
                    levels[row->levels[t]].sources += !seen[row->levels[t]];
                    seen[row->levels[t]] = true;
                }
        }
    }
}

// --- climbing ----------------------------------------------------------------

// Derivative of ln density by η.
static double slope(const struct fit_row *row)
{
    double place = exp(2 * row->eta), all = place + row->step_variance, q = row->k / all;
    return place / all * (-1 + 5 * q / (1 + q));
}

static double climb_widest(struct fit *fit)
{
    double tight = 1 / (doubt * doubt), up = -(fit->out->log_widest - log(usual_widest)) * tight;
    double curve = tight;
    for (size_t i = 0; i < fit->count; i++) {
        up += fit->rows[i].weight * slope(&fit->rows[i]);
        curve += fit->rows[i].weight * steepest;
    }
    fit->out->log_widest += up / curve;
    for (size_t i = 0; i < fit->count; i++)
        fit->rows[i].eta += up / curve;
    return fabs(up / curve);
}

// Moves all levels of a factor, which share no run but through numbers between two of them; shares
// add up to one, so that the bound of the curvature holds for all together. Returns the longest
// step.
static double climb_factor(struct fit *fit, int factor)
{
    double tight = 1 / (usual * usual), longest = 0;
    size_t levels = fit->out->count;
    memset(fit->up, 0, levels * sizeof *fit->up);
    memset(fit->curve, 0, levels * sizeof *fit->curve);
    for (size_t i = 0; i < fit->count; i++) {
        const struct fit_row *row = &fit->rows[i];
        double up = row->weight * slope(row);
        for (size_t t = row->begins[factor]; t < row->begins[factor + 1]; t++) {
            fit->up[row->levels[t]] -= row->shares[t] * up;
            fit->curve[row->levels[t]] += row->shares[t] * row->weight * steepest;
        }
    }
    for (size_t l = 0; l < levels; l++)
        if (fit->out->levels[l].factor == factor) {
            double u = fit->out->levels[l].narrowing;
            double next = fmax(0, u + (fit->up[l] - u * tight) / (fit->curve[l] + tight));
            fit->out->levels[l].narrowing = next;
            fit->up[l] = next - u;
            longest = fmax(longest, fabs(next - u));
        }
    for (size_t i = 0; i < fit->count; i++) {
        struct fit_row *row = &fit->rows[i];
        for (size_t t = row->begins[factor]; t < row->begins[factor + 1]; t++)
            row->eta -= row->shares[t] * fit->up[row->levels[t]];
    }
    return longest;
}

// Each factor in turn. Returns the longest step.
static double sweep(struct fit *fit)
{
    double longest = climb_widest(fit);
    for (int factor = 0; factor < EVIDENCE_FACTORS; factor++)
        longest = fmax(longest, climb_factor(fit, factor));
    return longest;
}

static void place_rows(struct fit *fit)
{
    const struct evidence *out = fit->out;
    for (size_t i = 0; i < fit->count; i++) {
        struct fit_row *row = &fit->rows[i];
        row->eta = out->log_widest;
        for (size_t t = 0; t < row->begins[EVIDENCE_FACTORS]; t++)
            row->eta -= row->shares[t] * out->levels[row->levels[t]].narrowing;
    }
}

static double *number_of(const struct fit *fit, size_t i)
{
    return i < fit->out->count ? &fit->out->levels[i].narrowing : &fit->out->log_widest;
}

static void remember(const struct fit *fit, double *numbers)
{
    for (size_t i = 0; i <= fit->out->count; i++)
        numbers[i] = *number_of(fit, i);
}

// Goes on in the direction of the last two sweeps, as far as their lengths say that many more like
// them would lead (squared extrapolation: Varadhan and Roland, 2008).
static void leap(struct fit *fit, const double *before, const double *between)
{
    static const double farthest = 16; // in sweeps
    double step = 0, turn = 0;
    for (size_t i = 0; i <= fit->out->count; i++) {
        double first = between[i] - before[i], second = *number_of(fit, i) - between[i];
        step += first * first;
        turn += (second - first) * (second - first);
    }
    double far = turn > 0 ? fmin(fmax(1, sqrt(step / turn)), farthest) : 1;
    for (size_t i = 0; i <= fit->out->count; i++) {
        double first = between[i] - before[i], second = *number_of(fit, i) - between[i];
        double next = before[i] + 2 * far * first + far * far * (second - first);
        *number_of(fit, i) = i < fit->out->count ? fmax(0, next) : next;
    }
    place_rows(fit);
}

static void climb(struct fit *fit, double least_step, struct arena *arena)
{
    double *before = ARENA_NEW(arena, double, fit->out->count + 1);
    double *between = ARENA_NEW(arena, double, fit->out->count + 1);
    for (int pair = 0; pair < 2500; pair++) {
        remember(fit, before);
        sweep(fit);
        remember(fit, between);
        if (sweep(fit) <= least_step)
            return;
        leap(fit, before, between);
    }
}

// Of the weight of runs on familiar cards, the share inside their 80 % ranges if η is moved by so
// much.
static double share_inside(const struct fit *fit, double moved, double weight)
{
    double inside = 0;
    for (size_t i = 0; i < fit->count; i++) {
        const struct fit_row *row = &fit->rows[i];
        double variance = exp(2 * (row->eta + moved)) + row->step_variance;
        double error = 2 * sqrt(row->k) * STATS_T4_SCALE; // its size
        inside += !row->is_strange && error <= STATS_P90 * sqrt(variance) ? row->weight : 0;
    }
    return inside / weight;
}

// The likeliest spreads are those of the whole distribution; what is promised is the 80 % range. By
// likelihood alone 85 % of the weight of familiar cards is inside. All kinds of models that were
// measured are moved so that 80 % of it is, as far as that outweighs the doubt. The widest range is
// that of what nobody measured, and stays.
static void hold_80_percent(struct fit *fit)
{
    double low = -1, high = 1, weight = 0;
    for (size_t i = 0; i < fit->count; i++)
        weight += fit->rows[i].is_strange ? 0 : fit->rows[i].weight;
    if (!(weight > 0))
        return;
    for (int i = 0; i < 40; i++) {
        double moved = (low + high) / 2;
        if (share_inside(fit, moved, weight) < 0.8)
            low = moved;
        else
            high = moved;
    }
    double runs_say = steepest * weight, before_them = 1 / (doubt * doubt); // as in climb_widest()
    for (size_t l = 0; l < fit->out->count; l++) {
        struct evidence_level *level = &fit->out->levels[l];
        if (level->factor == EVIDENCE_KIND)
            level->narrowing =
                fmax(0, level->narrowing - high * runs_say / (runs_say + before_them));
    }
}

// Begins at the narrowings of a similar fit, or at none.
static void begin(struct fit *fit, const struct evidence *similar)
{
    struct evidence *out = fit->out;
    for (size_t l = 0; similar && l < out->count; l++)
        for (size_t s = 0; s < similar->count; s++)
            if (evidence_same(&out->levels[l], &similar->levels[s]))
                out->levels[l].narrowing = similar->levels[s].narrowing;
    out->log_widest = similar ? similar->log_widest : log(usual_widest);
    place_rows(fit);
}

void evidence_fit(struct evidence *out, struct arena *arena, const struct evidence_row *rows,
                  size_t count, const struct evidence *similar)
{
    *out = (struct evidence){ .levels = ARENA_NEW(arena, struct evidence_level,
                                                  count * EVIDENCE_TERMS + 1) };
    struct fit fit = { .out = out, .rows = ARENA_NEW(arena, struct fit_row, count + 1) };
    const struct source *sources = take_sources(&fit, arena, rows, count);
    double alike = likeness(sources, fit.source_count);
    for (size_t i = 0, row = 0; i < count; i++)
        if (!rows[i].left_out)
            take_row(&fit.rows[row++], out, &rows[i].place, arena);
    // A source of n runs weighs as much as n / (1 + (n − 1)·alike) independent ones.
    for (size_t i = 0; i < fit.count; i++)
        fit.rows[i].weight = 1 / (1 + (sources[fit.rows[i].source].runs - 1) * alike);
    count_levels(&fit, arena);
    fit.up = ARENA_NEW(arena, double, out->count + 1);
    fit.curve = ARENA_NEW(arena, double, out->count + 1);
    begin(&fit, similar);
    climb(&fit, similar ? 1e-4 : 1e-6, arena); // validate fits once for each source left out
    hold_80_percent(&fit);
}
