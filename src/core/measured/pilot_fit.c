// SPDX-License-Identifier: Apache-2.0
// Fits the seconds of a micro-batch to its tokens, squared lengths and labelled tokens.

#include "base/stats.h"
#include "base/nnls.h"
#include "core/measured/pilot.h"

#include <math.h>

enum { FEWEST = 8, TERMS = 4, ROUNDS = 3 };

double pilot_fit_seconds(const struct pilot_fit *fit, double tokens, double squares,
                         double labelled)
{
    return fit->constant_seconds + fit->seconds_per_token * tokens +
           fit->seconds_per_square * squares + fit->seconds_per_labelled * labelled;
}

static double relative_error(const struct pilot_fit *fit, const struct pilot_sample *s)
{
    return s->seconds / pilot_fit_seconds(fit, s->tokens, s->squares, s->labelled) - 1;
}

static void fit_kept(struct pilot_fit *fit, double *rows, double *ones,
                     const struct pilot_sample *samples, const bool *kept, size_t count)
{
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        const struct pilot_sample *s = &samples[i];
        if (!kept[i])
            continue;
        double *row = rows + used * TERMS;
        row[0] = 1 / s->seconds, row[1] = s->tokens / s->seconds;
        row[2] = s->squares / s->seconds, row[3] = s->labelled / s->seconds;
        ones[used++] = 1;
    }
    double x[TERMS];
    fit->spread = nnls_solve(x, rows, ones, used, TERMS) *
                  sqrt((double)used / (double)(used - TERMS)); // degrees of freedom left
    fit->samples = (int64_t)used;
    fit->constant_seconds = x[0], fit->seconds_per_token = x[1];
    fit->seconds_per_square = x[2], fit->seconds_per_labelled = x[3];
}

// Keeps the samples within four robust standard deviations of the fit; false: the same as before.
static bool drop_outliers(bool *kept, double *scratch, const struct pilot_fit *fit,
                          const struct pilot_sample *samples, size_t count)
{
    size_t left = 0;
    bool changed = false;
    for (size_t i = 0; i < count; i++)
        scratch[i] = fabs(relative_error(fit, &samples[i]));
    double deviation = fmax(1.4826 * stats_median(scratch, count), 1e-4);
    for (size_t i = 0; i < count; i++)
        left += fabs(relative_error(fit, &samples[i])) <= 4 * deviation;
    for (size_t i = 0; left >= FEWEST && i < count; i++) {
        bool keeps = fabs(relative_error(fit, &samples[i])) <= 4 * deviation;
        changed |= keeps != kept[i];
        kept[i] = keeps;
    }
    return changed;
}

void pilot_fit_make(struct pilot_fit *out, struct arena *arena, const struct pilot_sample *samples,
                    size_t count)
{
    *out = (struct pilot_fit){ NAN, NAN, NAN, NAN, NAN, 0, NAN, NAN, NAN, NAN };
    if (count < FEWEST)
        return;
    struct arena_mark mark = arena_mark(arena);
    double *rows = ARENA_NEW(arena, double, count *TERMS), *ones = ARENA_NEW(arena, double, count);
    bool *kept = ARENA_NEW(arena, bool, count);
    for (size_t i = 0; i < count; i++)
        kept[i] = samples[i].seconds > 0;
    for (int round = 0; round < ROUNDS; round++) {
        fit_kept(out, rows, ones, samples, kept, count);
        if (!drop_outliers(kept, ones, out, samples, count))
            break;
    }
    for (size_t i = 0; i < count; i++) {
        const struct pilot_sample *s = &samples[i];
        double attended = s->squares / s->tokens;
        if (!kept[i])
            continue;
        out->tokens_low = fmin(out->tokens_low, s->tokens); // fmin ignores NAN
        out->tokens_high = fmax(out->tokens_high, s->tokens);
        out->attended_low = fmin(out->attended_low, attended);
        out->attended_high = fmax(out->attended_high, attended);
    }
    arena_rewind(arena, mark);
}
