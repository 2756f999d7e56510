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

// A run: its levels by factor.
struct fit_row {
    double k, weight, step_variance;
    size_t source;
    bool is_strange;
    int levels[EVIDENCE_TERMS];
    double shares[EVIDENCE_TERMS];
    size_t begins[EVIDENCE_FACTORS + 1]; // of each factor's terms
};

// A run's share in a level.
struct fit_term {
    int row, level;
    double share;
};

// What each step reads lies close together: fits are most of the time of gpuhours validate.
struct fit {
    struct evidence *out;
    struct fit_row *rows;
    size_t count, source_count, level_room;
    struct fit_term *terms; // by factor, then by run
    size_t begins[EVIDENCE_FACTORS + 1];
    double *k, *weight, *step_variance;  // by run
    double *eta, *place_variance, *pull; // where the fit stands: exp(2η); slope times weight
    double *up, *curve, *shrink;         // by level: slope; curvature; what a step does to exp(2η)
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

// Runs of a source follow each other, and are alike: that of the last run is looked at first.
static int take_level(struct fit *fit, const char *kind, const struct evidence_term *term,
                      const int *last, struct arena *arena)
{
    struct evidence *e = fit->out;
    if (last && evidence_is(&e->levels[*last], kind, term))
        return *last;
    struct evidence_level *level = evidence_find(e, kind, term);
    if (!level) {
        e->levels = arena_room(arena, e->levels, sizeof *e->levels, e->count, &fit->level_room);
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

static void take_row(struct fit *fit, size_t at, const struct place *place, struct arena *arena)
{
    struct fit_row *row = &fit->rows[at], *last = at ? row - 1 : NULL;
    struct evidence_term terms[EVIDENCE_TERMS];
    const char *kind = place->names[EVIDENCE_KIND];
    size_t count = evidence_terms(terms, place), t = 0;
    for (int f = 0; f < EVIDENCE_FACTORS; f++)
        for (row->begins[f] = t; t < count && terms[t].factor == f; t++) {
            bool had = last && t < last->begins[EVIDENCE_FACTORS];
            row->levels[t] = take_level(fit, kind, &terms[t], had ? &last->levels[t] : NULL, arena);
            row->shares[t] = terms[t].share;
        }
    row->begins[EVIDENCE_FACTORS] = t;
}

// Runs and sources of each level. A run counts for the nearer level of a number.
static void count_levels(struct fit *fit, struct arena *arena)
{
    size_t count = fit->out->count;
    bool *seen = ARENA_NEW(arena, bool, fit->source_count *count + 1);
    for (size_t i = 0; i < fit->count; i++) {
        const struct fit_row *row = &fit->rows[i];
        for (size_t t = 0; t < row->begins[EVIDENCE_FACTORS]; t++) {
            struct evidence_level *level = &fit->out->levels[row->levels[t]];
            bool *here = &seen[row->source * count + (size_t)row->levels[t]];
            if (row->shares[t] < 0.5)
                continue;
            level->runs++;
            level->sources += !*here;
            *here = true;
        }
    }
}

// Lays out what the steps read.
static void lay_out(struct fit *fit, struct arena *arena)
{
    double **by_row[] = { &fit->k,   &fit->weight,         &fit->step_variance,
                          &fit->eta, &fit->place_variance, &fit->pull };
    double **by_level[] = { &fit->up, &fit->curve, &fit->shrink };
    for (size_t i = 0; i < sizeof by_row / sizeof *by_row; i++)
        *by_row[i] = ARENA_NEW(arena, double, fit->count + 1);
    for (size_t i = 0; i < sizeof by_level / sizeof *by_level; i++)
        *by_level[i] = ARENA_NEW(arena, double, fit->out->count + 1);
    fit->terms = ARENA_NEW(arena, struct fit_term, fit->count * EVIDENCE_TERMS + 1);
    for (size_t i = 0; i < fit->count; i++) {
        fit->k[i] = fit->rows[i].k;
        fit->weight[i] = fit->rows[i].weight;
        fit->step_variance[i] = fit->rows[i].step_variance;
    }
    size_t count = 0;
    for (int factor = 0; factor < EVIDENCE_FACTORS; factor++) {
        for (size_t i = 0; i < fit->count; i++) {
            const struct fit_row *row = &fit->rows[i];
            for (size_t t = row->begins[factor]; t < row->begins[factor + 1]; t++) {
                fit->terms[count++] = (struct fit_term){ (int)i, row->levels[t], row->shares[t] };
                fit->curve[row->levels[t]] += row->shares[t] * row->weight * steepest;
            }
        }
        fit->begins[factor + 1] = count;
    }
}

// --- climbing ----------------------------------------------------------------

// Derivatives of ln density by η, times the weights.
static void find_pulls(struct fit *fit)
{
    const double *k = fit->k, *weight = fit->weight, *step = fit->step_variance;
    const double *place = fit->place_variance;
    double *restrict pull = fit->pull;
    for (size_t i = 0; i < fit->count; i++) {
        double all = place[i] + step[i];
        pull[i] = weight[i] * place[i] / all * (5 * k[i] / (all + k[i]) - 1);
    }
}

static double climb_widest(struct fit *fit)
{
    double tight = 1 / (doubt * doubt), up = -(fit->out->log_widest - log(usual_widest)) * tight;
    double curve = tight;
    find_pulls(fit);
    for (size_t i = 0; i < fit->count; i++) {
        up += fit->pull[i];
        curve += fit->weight[i] * steepest;
    }
    double step = up / curve, grow = exp(2 * step);
    fit->out->log_widest += step;
    for (size_t i = 0; i < fit->count; i++) {
        fit->eta[i] += step;
        fit->place_variance[i] *= grow;
    }
    return fabs(step);
}

// Moves all levels of a factor, which share no run but through numbers between two of them; shares
// add up to one, so that the bound of the curvature holds for all together. Returns the longest
// step.
static double climb_factor(struct fit *fit, int factor)
{
    double tight = 1 / (usual * usual), longest = 0;
    size_t levels = fit->out->count;
    const struct fit_term *begin = fit->terms + fit->begins[factor];
    const struct fit_term *end = fit->terms + fit->begins[factor + 1];
    memset(fit->up, 0, levels * sizeof *fit->up);
    find_pulls(fit);
    for (const struct fit_term *t = begin; t < end; t++)
        fit->up[t->level] -= t->share * fit->pull[t->row];
    for (size_t l = 0; l < levels; l++)
        if (fit->out->levels[l].factor == factor) {
            double u = fit->out->levels[l].narrowing;
            double next = fmax(0, u + (fit->up[l] - u * tight) / (fit->curve[l] + tight));
            fit->out->levels[l].narrowing = next;
            fit->up[l] = next - u;
            fit->shrink[l] = exp(-2 * fit->up[l]);
            longest = fmax(longest, fabs(next - u));
        }
    for (const struct fit_term *t = begin; t < end; t++) {
        double step = t->share * fit->up[t->level];
        fit->eta[t->row] -= step;
        fit->place_variance[t->row] *= t->share == 1 ? fit->shrink[t->level] : exp(-2 * step);
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
        const struct fit_row *row = &fit->rows[i];
        fit->eta[i] = out->log_widest;
        for (size_t t = 0; t < row->begins[EVIDENCE_FACTORS]; t++)
            fit->eta[i] -= row->shares[t] * out->levels[row->levels[t]].narrowing;
        fit->place_variance[i] = exp(2 * fit->eta[i]);
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
        double variance = exp(2 * (fit->eta[i] + moved)) + fit->step_variance[i];
        double error = 2 * sqrt(fit->k[i]) * STATS_T4_SCALE; // its size
        inside +=
            !fit->rows[i].is_strange && error <= STATS_P90 * sqrt(variance) ? fit->weight[i] : 0;
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
        weight += fit->rows[i].is_strange ? 0 : fit->weight[i];
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
    *out = (struct evidence){ 0 };
    struct fit fit = { .out = out, .rows = ARENA_NEW(arena, struct fit_row, count + 1) };
    const struct source *sources = take_sources(&fit, arena, rows, count);
    double alike = likeness(sources, fit.source_count);
    for (size_t i = 0, row = 0; i < count; i++)
        if (!rows[i].left_out)
            take_row(&fit, row++, &rows[i].place, arena);
    // A source of n runs weighs as much as n / (1 + (n − 1)·alike) independent ones.
    for (size_t i = 0; i < fit.count; i++)
        fit.rows[i].weight = 1 / (1 + (sources[fit.rows[i].source].runs - 1) * alike);
    count_levels(&fit, arena);
    lay_out(&fit, arena);
    begin(&fit, similar);
    climb(&fit, similar ? 1e-4 : 1e-6, arena); // validate fits once for each source left out
    hold_80_percent(&fit);
}
