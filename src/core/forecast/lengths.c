// SPDX-License-Identifier: Apache-2.0
// Times one configuration at other mean lengths than it assumes.

#include "core/forecast/lengths.h"

#include <math.h>

bool lengths_are_assumed(const struct workload_rule *rule)
{
    return !rule->shapes && isnan(workload_known_mean(rule));
}

enum err lengths_seconds(double *out, struct arena *arena, const struct setup *setup,
                         const struct workload *workload)
{
    struct arena_mark mark = arena_mark(arena);
    struct setup own = *setup;
    struct estimate estimate;
    own.batch = workload->batch;
    own.accumulation = workload->accumulation;
    TRY(estimate_make(&estimate, arena, &own));
    *out = workload->processed_tokens / estimate.tokens_per_s;
    arena_rewind(arena, mark);
    return OK;
}

// The same with rows of that mean length.
static enum err seconds_at(double *seconds, struct range *padding, struct arena *arena,
                           const struct workload_rule *rule, const struct setup *setup,
                           const struct workload *workload, double mean)
{
    double ranks = rint(workload->global_batch / (workload->micro_batch * workload->accumulation));
    struct workload_rule like = *rule;
    struct workload other;
    like.full_rows = false;
    like.mean_length = mean;
    workload_make(&other, &like, workload->micro_batch, ranks, workload->global_batch);
    *padding = other.processed_factor;
    return lengths_seconds(seconds, arena, setup, &other);
}

// Rows fill the context, or they are like those of the assumed data sets. Packed rows fill it
// anyway, but attention stays within each of their examples.
static enum err of_full_rows(struct range *out, struct arena *arena,
                             const struct workload_rule *rule, const struct setup *setup,
                             const struct workload *workload, double full)
{
    double typical = 0, mean = workload_assumed_lengths(rule->context).mid;
    bool packed = rule->batching == BATCHING_PACKED;
    struct range padding, own = packed ? workload->processed_factor : (struct range){ 1, 1, 1 };
    TRY(seconds_at(&typical, &padding, arena, rule, setup, workload, fmax(1, mean)));
    *out = (struct range){ fmin(own.low, typical / full * padding.low), 1,
                           fmax(own.high, typical / full * padding.high) };
    return OK;
}

// The mean and the spread of lengths are unknown apart from each other.
static enum err of_assumed_rows(struct range *out, struct arena *arena,
                                const struct workload_rule *rule, const struct setup *setup,
                                const struct workload *workload, double middle)
{
    struct range mean = workload_mean_lengths(rule), padding = workload->processed_factor, other;
    double of_short = 0, of_long = 0;
    TRY(seconds_at(&of_short, &other, arena, rule, setup, workload, mean.low));
    TRY(seconds_at(&of_long, &other, arena, rule, setup, workload, mean.high));
    double least = fmin(1, fmin(of_short, of_long) / middle);
    double most = fmax(1, fmax(of_short, of_long) / middle);
    *out = (struct range){ exp(-hypot(log(least), log(padding.low))), 1,
                           exp(hypot(log(most), log(padding.high))) };
    return OK;
}

enum err lengths_factor(struct range *out, struct arena *arena, const struct workload_rule *rule,
                        const struct setup *setup, const struct workload *workload)
{
    bool one_width = rule->batching == BATCHING_MAX; // its padding has all that the mean decides
    *out = workload->processed_factor;
    if (!lengths_are_assumed(rule) || one_width || !setup->gpu || setup->passes.rollout)
        return OK;
    double seconds = 0;
    TRY(lengths_seconds(&seconds, arena, setup, workload));
    return (rule->full_rows ? of_full_rows : of_assumed_rows)(out, arena, rule, setup, workload,
                                                              seconds);
}
