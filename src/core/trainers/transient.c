// SPDX-License-Identifier: Apache-2.0
// Fits steps, tokens and first sights of widths to measured seconds: iteratively reweighted least
// squares with Huber's weights, coefficients not negative, and a prior on the cost of a width.

#include "core/trainers/transient.h"

#include "base/arena.h"
#include "base/nnls.h"

#include <math.h>

enum { TERMS = 3, ROUNDS = 12, LEAST = 8 };
#define HUBER 2.0        // deviations from which an item weighs less
#define TOKENS_VARY 0.02 // least relative deviation of tokens per step that can be fitted
#define MEMORY 2.0       // residuals of neighbours are alike: as if there were half as many

struct fit {
    const struct transient_item *items;
    size_t count;
    bool tokens;        // the term is fitted
    double unit[TERMS]; // means of the columns, so that all coefficients are of one size
    double x[TERMS];
    double most;  // new widths of a step: where all its micro-batches bring one
    double scale; // robust standard deviation of the residuals, in seconds
    double *rows, *values, *scratch, *weights;
};

static void put_row(const struct fit *fit, const struct transient_item *item, double *row)
{
    row[0] = item->steps / fit->unit[0];
    row[1] = fit->tokens ? item->tokens / fit->unit[1] : 0;
    row[2] = item->widths / fit->unit[2];
}

static double residual(const struct fit *fit, const struct transient_item *item)
{
    double row[TERMS], sum = 0;
    put_row(fit, item, row);
    for (int i = 0; i < TERMS; i++)
        sum += fit->x[i] * row[i];
    return item->seconds - sum;
}

// The columns' means, and whether tokens vary enough to tell their cost from that of a step.
static size_t prepare(struct fit *fit)
{
    size_t used = 0;
    double sums[TERMS] = { 0 }, square = 0;
    bool known = true;
    for (size_t i = 0; i < fit->count; i++) {
        const struct transient_item *item = &fit->items[i];
        if (item->left_out)
            continue;
        used++;
        known = known && item->tokens > 0;
        sums[0] += item->steps, sums[1] += item->tokens, sums[2] += item->widths;
        square += item->tokens * item->tokens / item->steps;
        fit->most = fmax(fit->most, item->widths / item->steps);
    }
    double mean = sums[1] / sums[0], variance = square / sums[0] - mean * mean;
    fit->tokens = known && variance > TOKENS_VARY * TOKENS_VARY * mean * mean;
    for (int i = 0; i < TERMS; i++)
        fit->unit[i] = sums[i] > 0 ? sums[i] / (double)used : 1;
    return used;
}

// One weighted fit; the prior is one more row: its deviation is to an item's as the scale.
static size_t solve(struct fit *fit, const struct range *prior)
{
    size_t used = 0;
    for (size_t i = 0; i < fit->count; i++) {
        if (fit->items[i].left_out)
            continue;
        double *row = fit->rows + TERMS * used, weight = sqrt(fit->weights[i]);
        put_row(fit, &fit->items[i], row);
        for (int j = 0; j < TERMS; j++)
            row[j] *= weight;
        fit->values[used++] = weight * fit->items[i].seconds;
    }
    double deviation = (prior->high - prior->low) / (2 * STATS_P90);
    if (prior->mid > 0 && deviation > 0 && fit->scale > 0) {
        double *row = fit->rows + TERMS * used;
        row[0] = row[1] = 0;
        row[2] = sqrt(MEMORY) * fit->scale / deviation / fit->unit[2];
        fit->values[used++] = row[2] * prior->mid * fit->unit[2];
    }
    nnls_solve(fit->x, fit->rows, fit->values, used, TERMS);
    return used;
}

// Widths are only expected: each micro-batch of a step brings a new one or not, so that a step with
// a rare new width is no outlier. Far ones are stalls.
static void weigh(struct fit *fit, const struct range *prior)
{
    size_t used = 0;
    double width = fmax(fit->x[2] / fit->unit[2], prior->mid);
    for (size_t i = 0; i < fit->count; i++)
        if (!fit->items[i].left_out)
            fit->scratch[used++] = fabs(residual(fit, &fit->items[i]));
    fit->scale = fmax(1.4826 * stats_median(fit->scratch, used), 1e-9);
    for (size_t i = 0; i < fit->count; i++) {
        double most = fit->most * fit->items[i].steps, widths = fit->items[i].widths;
        double chance = width * sqrt(widths * fmax(1 - widths / most, 0)),
               scale = hypot(fit->scale, chance);
        double off = fabs(residual(fit, &fit->items[i])) / (HUBER * scale);
        double share = fit->scale / scale;
        fit->weights[i] = off > 3 ? 0 : share * share * (off > 1 ? 1 / off : 1);
    }
}

// Variance of the last coefficient: the inverse of what the other columns leave of its square sum.
static double last_variance(const struct fit *fit, size_t used)
{
    double a[TERMS][TERMS] = { { 0 } };
    for (size_t i = 0; i < used; i++)
        for (int j = 0; j < TERMS; j++)
            for (int k = 0; k < TERMS; k++)
                a[j][k] += fit->rows[TERMS * i + (size_t)j] * fit->rows[TERMS * i + (size_t)k];
    for (int p = 0; p + 1 < TERMS; p++) {
        if (!(a[p][p] > 1e-12) || fit->x[p] <= 0)
            continue;
        for (int j = p + 1; j < TERMS; j++)
            for (int k = TERMS - 1; k >= p; k--)
                a[j][k] -= a[j][p] / a[p][p] * a[p][k];
    }
    double left = a[TERMS - 1][TERMS - 1];
    return left > 0 ? MEMORY * fit->scale * fit->scale / left : INFINITY;
}

void transient_fit(struct transient *out, struct arena *arena, const struct transient_item *items,
                   size_t count, const struct range *prior)
{
    struct arena_mark mark = arena_mark(arena);
    struct fit fit = { .items = items,
                       .count = count,
                       .rows = ARENA_NEW(arena, double, TERMS *(count + 1)),
                       .values = ARENA_NEW(arena, double, count + 1),
                       .scratch = ARENA_NEW(arena, double, count + 1),
                       .weights = ARENA_NEW(arena, double, count + 1) };
    *out = (struct transient){ NAN, NAN, NAN, NAN, 0 };
    for (size_t i = 0; i < count; i++)
        out->widths += items[i].widths > 0 ? items[i].widths : 0;
    if (prepare(&fit) >= LEAST && out->widths > 0) {
        size_t used = 0;
        for (size_t i = 0; i < count; i++) // relative errors at first: a stall weighs little
            fit.weights[i] = items[i].seconds > 0 ? 1 / (items[i].seconds * items[i].seconds) : 0;
        for (int round = 0; round < ROUNDS; round++) {
            used = solve(&fit, prior);
            if (round + 1 < ROUNDS)
                weigh(&fit, prior);
        }
        out->seconds_per_step = fit.x[0] / fit.unit[0];
        out->seconds_per_token = fit.tokens ? fit.x[1] / fit.unit[1] : NAN;
        out->seconds_per_width = fit.x[2] / fit.unit[2];
        out->width_error = sqrt(last_variance(&fit, used)) / fit.unit[2];
    }
    arena_rewind(arena, mark);
}
