// SPDX-License-Identifier: Apache-2.0
// Separates the seconds of first sights of widths from steady steps. How many new widths each
// report met is not known, only how many were to be expected; the seconds themselves tell.
//
// A report of a step with M micro-batches met k new widths, 0 to M, with the chances of a binomial
// around the expected number:
//
//     seconds ┤        ●      ●     a + 2c      each dot is a step; where the rows of dots lie
//             │  ●  ●     ●         a + c       gives a and c, and every dot tells its own k
//             │●  ●  ● ●● ●● ●●●    a
//             └─────────────────
//
// For a given cost c of a width, expectation maximisation finds the rest: each round weighs all k
// of all reports by how well they explain the seconds (a stall explains anything, badly), then
// solves for a and b by least squares over all k. This is done for many c. Their likelihoods, times
// what was believed of c before, are the weights with which the results are averaged: where the
// dots form rows one c wins, where they do not, the spread of the plausible ones remains.

#include "core/trainers/transient.h"

#include "base/arena.h"
#include "base/nnls.h"

#include <math.h>
#include <string.h>

enum {
    TERMS = 3,   // steps, tokens and, where its cost is not given, new widths
    LEAST = 8,   // reports needed
    MOST = 2000, // reports told apart; neighbours of longer series are joined
    ROUNDS = 12,
    COUNTS = 25, // values of k weighed for one report
    COSTS = 41,  // values of c weighed at once
    PASSES = 6,  // each around the best of the one before
    STARTS = 9,  // of the search for rows of dots: values of c, each with
    SHIFTS = 3,  // so many steady steps
};
#define TOKENS_VARY 0.02 // least relative deviation of tokens per step that can be fitted
#define MEMORY_MOST 0.8  // cap of the residuals' lag-one autocorrelation
#define STALLS 0.02      // share of reports that nothing explains
#define STALL_WIDTH 4.0  // mean steps over which the seconds of a stall are spread
#define COSTS_LEAST 0.01 // of what is believed of c, or of a tenth of a second
#define COSTS_MOST 6.0
#define ROWS_LEAST 0.2 // of the same: where rows are looked for
#define ROWS_MOST 4.0
#define ROWS_SCALE 0.1 // deviation within a row at the start, of their distance
#define ROWS_REACH 0.3 // around the best c, in the logarithm
#define BLUR_MOST 10.0
#define STEP_DOUBT 1.5 // × what is believed of a step, which the plan counts once more

struct report {
    double seconds, steps, tokens, widths;
    int count;              // of the values of k
    double first, stride;   // of k
    double chances[COUNTS]; // logarithms
};

struct fit {
    struct report *reports;
    size_t count;
    bool tokens;        // the term is fitted
    double unit[TERMS]; // means of the columns, so that all coefficients are of one size
    double *rows, *values;
    double *met;      // new widths of each report, by the last round
    double mean_step; // seconds
    double least_scale;
    // for one c
    double cost, x[TERMS];
    double scale; // standard deviation of a step's seconds that the terms leave
    double likelihood;
    double alike; // reports that tell as much as one, because neighbours' residuals are alike
    double blur;  // deviation with the guessed k over that without, squared
};

// --- reports -----------------------------------------------------------------

static double log_binomial(double k, double trials, double expected)
{
    double p = fmin(fmax(expected / trials, 1e-9), 1 - 1e-9);
    return lgamma(trials + 1) - lgamma(k + 1) - lgamma(trials - k + 1) + k * log(p) +
           (trials - k) * log1p(-p);
}

// The chances of every k; of many micro-batches, of a grid around the expected number.
static void find_chances(struct report *report, double most)
{
    double trials = fmax(ceil(most * report->steps - 1e-6), 1);
    double reach = 4 * sqrt(report->widths * fmax(1 - report->widths / trials, 0)) + 1;
    double high = fmin(trials, ceil(report->widths + reach));
    report->first = fmax(0, floor(report->widths - reach));
    report->stride = fmax(1, ceil((high - report->first) / (COUNTS - 1)));
    for (double k = report->first; k <= high && report->count < COUNTS; k += report->stride)
        report->chances[report->count++] =
            log_binomial(k, trials, report->widths) + log(report->stride);
}

static size_t count_kept(const struct transient_item *items, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        kept += !items[i].left_out;
    return kept;
}

// Joins neighbours of a long series, and finds whether tokens vary enough to tell their cost from
// that of a step.
static void read_reports(struct fit *fit, const struct transient_item *items, size_t count)
{
    size_t each = (count_kept(items, count) + MOST - 1) / MOST, open = 0;
    double sums[TERMS] = { 0 }, square = 0, most = 0, seconds = 0;
    bool known = true;
    for (size_t i = 0; i < count; i++) {
        const struct transient_item *item = &items[i];
        if (item->left_out)
            continue;
        struct report *report = &fit->reports[fit->count];
        report->seconds += item->seconds, report->steps += item->steps;
        report->tokens += item->tokens, report->widths += item->widths;
        fit->count += ++open % each == 0;
        known = known && item->tokens > 0;
        sums[0] += item->steps, sums[1] += item->tokens, seconds += item->seconds;
        square += item->tokens * item->tokens / item->steps;
        most = fmax(most, item->widths / item->steps);
    }
    fit->count += open % each != 0;
    double mean = sums[1] / sums[0], variance = square / sums[0] - mean * mean;
    fit->mean_step = seconds / sums[0];
    fit->tokens = known && variance > TOKENS_VARY * TOKENS_VARY * mean * mean;
    for (int i = 0; i < TERMS; i++)
        fit->unit[i] = sums[i] > 0 ? sums[i] / (double)fit->count : 1;
    for (size_t i = 0; i < fit->count; i++)
        find_chances(&fit->reports[i], most);
}

// --- one cost of a width -----------------------------------------------------

static double steady_seconds(const struct fit *fit, double steps, double tokens)
{
    return fit->x[0] * steps / fit->unit[0] + fit->x[1] * tokens / fit->unit[1];
}

struct belief {    // about k
    double weight; // that the report was no stall
    double mean, variance;
    double log_likelihood;
};

static struct belief believe(const struct fit *fit, const struct report *report)
{
    double scale = fit->scale * sqrt(report->steps), shares[COUNTS];
    double left = report->seconds - steady_seconds(fit, report->steps, report->tokens);
    double density = -log(2.5066282746310002 * scale); // of a normal at its middle
    double stall = log(STALLS / (STALL_WIDTH * fit->mean_step * report->steps)) - density;
    double best = stall;
    for (int i = 0; i < report->count; i++) {
        double k = report->first + i * report->stride, off = (left - fit->cost * k) / scale;
        shares[i] = report->chances[i] - off * off / 2;
        if (shares[i] > best) // fmax() here crashes GCC 12.2 on arm64
            best = shares[i];
    }
    struct belief out = { 0 };
    for (int i = 0; i < report->count; i++) {
        double k = report->first + i * report->stride, share = exp(shares[i] - best);
        out.weight += share;
        out.mean += share * k;
        out.variance += share * k * k;
    }
    double sum = out.weight + exp(stall - best);
    out.log_likelihood = best + density + log(sum);
    if (!(out.weight > 1e-9 * sum))
        return (struct belief){ 0, report->widths, 0, out.log_likelihood };
    out.mean /= out.weight;
    out.variance = fmax(out.variance / out.weight - out.mean * out.mean, 0);
    out.weight /= sum;
    return out;
}

// One round. Σ share · (y − c·k)² over all k = weight · ((y − c·mean)² + c² · variance): c is
// either given, or one more unknown with a second equation c · √variance = 0 for each report.
static void improve(struct fit *fit, bool free_cost)
{
    double freedom = 1e-9, left = 0;
    size_t rows = 0;
    fit->likelihood = 0;
    for (size_t i = 0; i < fit->count; i++) {
        const struct report *report = &fit->reports[i];
        struct belief belief = believe(fit, report);
        double root = sqrt(belief.weight / report->steps), *row = fit->rows + TERMS * rows;
        row[0] = root * report->steps / fit->unit[0];
        row[1] = fit->tokens ? root * report->tokens / fit->unit[1] : 0;
        row[2] = free_cost ? root * belief.mean : 0;
        fit->values[rows++] = root * (report->seconds - (free_cost ? 0 : fit->cost * belief.mean));
        fit->likelihood += belief.log_likelihood;
        freedom += belief.weight;
        left += root * root * belief.variance;
        if (free_cost && belief.variance > 0) {
            fit->values[rows] = 0;
            row[TERMS] = row[TERMS + 1] = 0;
            row[TERMS + 2] = root * sqrt(belief.variance);
            rows++;
        }
    }
    nnls_solve(fit->x, fit->rows, fit->values, rows, TERMS);
    if (free_cost && fit->x[2] > 0)
        fit->cost = fit->x[2];
    double last = 0, square = 1e-12, product = 0, guessed = left * fit->cost * fit->cost;
    for (size_t i = 0; i < rows; i++) {
        const double *row = fit->rows + TERMS * i;
        double off = fit->values[i];
        for (int j = 0; j < TERMS; j++)
            off -= fit->x[j] * row[j];
        square += off * off;
        product += off * last;
        last = off;
    }
    double all = free_cost ? square : square + guessed;
    fit->blur = 1 + guessed / square;
    fit->scale = fmax(sqrt(all / fmax(freedom - TERMS + 1, 1)), fit->least_scale);
    double memory = square > 0 ? product / square - 2 / sqrt(freedom) : 0;
    memory = fmin(fmax(memory, 0), MEMORY_MOST);
    fit->alike = (1 + memory) / (1 - memory);
}

// The steady step and the scale that the medians give, as if every report had met what it expects.
static void begin(struct fit *fit, double cost)
{
    for (size_t i = 0; i < fit->count; i++) {
        const struct report *r = &fit->reports[i];
        fit->values[i] = fmax(r->seconds - cost * r->widths, 0.1 * r->seconds) / r->steps;
    }
    double step = stats_median(fit->values, fit->count);
    for (size_t i = 0; i < fit->count; i++)
        fit->values[i] = fabs(fit->values[i] - step);
    fit->scale = fmax(1.4826 * stats_median(fit->values, fit->count), fit->least_scale);
    fit->cost = cost;
    fit->x[0] = step * fit->unit[0];
    fit->x[1] = 0;
}

// --- all costs ---------------------------------------------------------------

// What is believed of a logarithm, up to a constant.
static double log_prior(const struct range *prior, double value, double doubt)
{
    bool known = prior->mid > 0 && prior->low > 0 && prior->high > prior->low;
    double spread = known ? doubt * log(prior->high / prior->low) / (2 * STATS_P90) : INFINITY;
    double off = known ? (value - log(prior->mid)) / spread : 0;
    return -off * off / 2;
}

static double mean_steady(const struct fit *fit)
{
    double seconds = 0, steps = 0;
    for (size_t i = 0; i < fit->count; i++) {
        seconds += steady_seconds(fit, fit->reports[i].steps, fit->reports[i].tokens);
        steps += fit->reports[i].steps;
    }
    return seconds / steps;
}

struct trial {
    double log_cost, stride; // stride: of the grid that it belongs to
    double likelihood, alike, blur, weight, x[TERMS], scale;
    double log_step; // of the mean steady step
};

static struct trial trial_of(const struct fit *fit)
{
    struct trial out = { .log_cost = log(fit->cost),
                         .likelihood = fit->likelihood,
                         .alike = fit->alike,
                         .blur = fit->blur,
                         .scale = fit->scale,
                         .log_step = log(fmax(mean_steady(fit), 1e-9)) };
    memcpy(out.x, fit->x, sizeof out.x);
    return out;
}

static double log_belief(const struct trial *trial, const struct transient_prior *prior)
{
    return log_prior(&prior->width_seconds, trial->log_cost, 1) +
           log_prior(&prior->step_seconds, trial->log_step, STEP_DOUBT);
}

// The most likely rows of dots: from many starts with narrow rows, c is fitted with the rest. From
// wide ones, rows that lie close would never be told apart.
static struct trial find_rows(struct fit *fit, const struct transient_prior *prior, double middle)
{
    struct trial best = { .likelihood = -INFINITY };
    double top = -INFINITY;
    for (int i = 0; i < STARTS * SHIFTS; i++) {
        double at = (double)(i / SHIFTS) / (STARTS - 1), shift = (double)(i % SHIFTS - 1) / 2;
        double cost = middle * ROWS_LEAST * pow(ROWS_MOST / ROWS_LEAST, at);
        begin(fit, cost);
        fit->x[0] += shift * cost * fit->unit[0];
        fit->scale = fmax(ROWS_SCALE * cost, fit->least_scale);
        if (!(fit->x[0] > 0))
            continue;
        for (int round = 0; round < ROUNDS; round++)
            improve(fit, true);
        struct trial trial = trial_of(fit);
        double value = trial.likelihood + log_belief(&trial, prior);
        if (value > top)
            top = value, best = trial;
    }
    return best;
}

// Fits the rest for each c of a grid; where rows were found, from there.
static void try_costs(struct trial *trials, struct fit *fit, double low, double high,
                      const struct trial *rows)
{
    double stride = (high - low) / (COSTS - 1);
    for (int i = 0; i < COSTS; i++) {
        double cost = exp(low + i * stride);
        begin(fit, cost);
        if (rows) {
            memcpy(fit->x, rows->x, sizeof fit->x);
            fit->scale = rows->scale;
        }
        for (int round = 0; round < ROUNDS; round++)
            improve(fit, false);
        trials[i] = trial_of(fit);
        trials[i].stride = stride;
    }
}

static void weigh(struct trial *trials, int count, const struct transient_prior *prior)
{
    const struct trial *best = trials;
    double top = -INFINITY;
    for (int i = 1; i < count; i++)
        best = trials[i].likelihood > best->likelihood ? &trials[i] : best;
    for (int i = 0; i < count; i++) {
        struct trial *t = &trials[i];
        t->weight = (t->likelihood - best->likelihood) / best->alike + log_belief(t, prior);
        t->weight += log(t->stride);
        top = fmax(top, t->weight);
    }
    for (int i = 0; i < count; i++)
        trials[i].weight = exp(trials[i].weight - top);
}

// Narrows a range to the costs that count. Returns how many do.
static int narrow(const struct trial *trials, double *low, double *high)
{
    int counting = 0;
    *low = INFINITY, *high = -INFINITY;
    for (int i = 0; i < COSTS; i++) {
        const struct trial *t = &trials[i];
        if (t->weight < 1e-3)
            continue;
        counting++;
        *low = fmin(*low, t->log_cost - t->stride);
        *high = fmax(*high, t->log_cost + t->stride);
    }
    return counting;
}

// Weighs a coarse grid over all costs, and a fine one around the best rows.
static void weigh_costs(struct trial *trials, struct fit *fit, const struct transient_prior *prior)
{
    struct trial *fine = trials + COSTS;
    double middle = prior->width_seconds.mid > 0 ? prior->width_seconds.mid : 0.1;
    struct trial rows = find_rows(fit, prior, middle);
    double low = rows.log_cost - ROWS_REACH, high = rows.log_cost + ROWS_REACH;
    try_costs(trials, fit, log(middle * COSTS_LEAST), log(middle * COSTS_MOST), NULL);
    for (int pass = 0; pass < PASSES; pass++) {
        try_costs(fine, fit, low, high, &rows);
        weigh(fine, COSTS, prior);
        if (narrow(fine, &low, &high) > COSTS / 4)
            break;
    }
    low = fine[0].log_cost, high = fine[COSTS - 1].log_cost;
    for (int i = 0; i < COSTS; i++) // each cost once
        if (trials[i].log_cost > low - trials[i].stride / 2 &&
            trials[i].log_cost < high + trials[i].stride / 2)
            trials[i].likelihood = -INFINITY;
    weigh(trials, 2 * COSTS, prior);
}

// Adds the first sights' seconds in each item, by one trial.
static void add_seconds(struct fit *fit, const struct trial *trial, double share,
                        struct transient_item *items, size_t count)
{
    memcpy(fit->x, trial->x, sizeof fit->x);
    fit->cost = exp(trial->log_cost);
    fit->scale = trial->scale;
    size_t each = (count_kept(items, count) + MOST - 1) / MOST, open = 0;
    for (size_t i = 0; i < count; i++) {
        struct transient_item *item = &items[i];
        double met = item->widths;
        if (!item->left_out) {
            const struct report *report = &fit->reports[open++ / each];
            struct belief belief = believe(fit, report);
            met = report->widths > 0 ? belief.mean * item->widths / report->widths : 0;
            if (report->seconds > steady_seconds(fit, report->steps, report->tokens))
                item->stall += share * (1 - belief.weight);
        }
        item->width_seconds += share * fit->cost * met;
    }
}

// The mean over all trials, and what they leave open.
static void average(struct transient *out, struct fit *fit, const struct trial *trials,
                    struct transient_item *items, size_t count)
{
    double sum = 0, square = 0;
    for (int i = 0; i < 2 * COSTS; i++)
        sum += trials[i].weight;
    out->seconds_per_token = out->seconds_per_width = 0;
    for (int i = 0; i < 2 * COSTS; i++) {
        double share = trials[i].weight / sum, cost = exp(trials[i].log_cost);
        out->seconds_per_step += share * trials[i].x[0] / fit->unit[0];
        out->seconds_per_token += share * trials[i].x[1] / fit->unit[1];
        out->seconds_per_width += share * cost;
        out->blur += share * fmin(trials[i].blur, BLUR_MOST);
        square += share * cost * cost;
        if (share > 1e-3)
            add_seconds(fit, &trials[i], share, items, count);
    }
    out->width_error = sqrt(fmax(square - out->seconds_per_width * out->seconds_per_width, 0));
    if (!fit->tokens)
        out->seconds_per_token = NAN;
}

void transient_fit(struct transient *out, struct arena *arena, struct transient_item *items,
                   size_t count, const struct transient_prior *prior)
{
    *out = (struct transient){ .seconds_per_token = NAN,
                               .seconds_per_width = NAN,
                               .width_error = NAN };
    for (size_t i = 0; i < count; i++) {
        out->widths += items[i].widths > 0 ? items[i].widths : 0;
        items[i].width_seconds = items[i].stall = 0;
    }
    size_t kept = count_kept(items, count), room = (kept < MOST ? kept : MOST) + 1;
    if (kept < LEAST || !(out->widths > 0))
        return;
    struct arena_mark mark = arena_mark(arena);
    struct fit fit = { .reports = ARENA_NEW(arena, struct report, room),
                       .rows = ARENA_NEW(arena, double, 2 * TERMS * room),
                       .values = ARENA_NEW(arena, double, 2 * room) };
    struct trial trials[2 * COSTS];
    memset(fit.reports, 0, room * sizeof *fit.reports);
    read_reports(&fit, items, count);
    double rounded = prior->clock_seconds / sqrt(6 * fit.unit[0]); // both ends, each by ± half
    fit.least_scale = fmax(1e-3 * fit.mean_step, rounded);
    weigh_costs(trials, &fit, prior);
    average(out, &fit, trials, items, count);
    arena_rewind(arena, mark);
}
