// SPDX-License-Identifier: Apache-2.0
// forecast: a run's hours as a range, and what drives the range.
//
// Samples the unknowns (efficiency, lengths, overheads, failures, repeated runs, prices) some
// thousand times with a fixed seed, and takes P10, P50 and P90 of the outcomes. To say which
// unknown makes the range wide, the same samples are run again with one unknown varying and the
// others held, and with one held and the others varying.
//
//     struct forecast_samples samples;
//     forecast_sample(&samples, arena, &overheads, seed);
//     struct forecast forecast;
//     forecast_make(&forecast, arena, &input, &samples);
//     forecast.gpu_hours.mid, forecast.drivers[0].name …
//
// Many configurations of one plan are compared on the same samples:
//
//     struct forecast_outcome outcome;
//     forecast_run(&outcome, arena, &input, &samples, FORECAST_SAMPLES);
//     outcome.wall_hours.mid …  // the same number as forecast_make() gives
//
// Formulas: docs/formulas.md, section forecast.

#pragma once

#include "core/measured/calibration.h"
#include "core/forecast/overhead.h"
#include "core/forecast/price.h"

#ifndef FORECAST_SAMPLES // make check-random takes fewer: its claims hold sample by sample
#define FORECAST_SAMPLES 10000
#endif
enum { FORECAST_PERCENTILES = 19 };

struct forecast_input {
    double roofline_tokens_per_s; // over all GPUs, before the stack's efficiency
    struct efficiency efficiency;
    double processed_tokens;
    // The seconds of the steps, as a factor, where the lengths of the examples are uncertain: from
    // lengths_factor(), with a middle of 1; in a search a single value, from forecast_lengths().
    struct range lengths_factor;
    struct overheads overheads;
    struct price price;
};

// What is unknown about a run and does not depend on its configuration, sampled.
struct forecast_sample;
struct forecast_samples {
    const struct forecast_sample *items;
    size_t count;
    uint64_t seed;
};
void forecast_sample(struct forecast_samples *out, struct arena *arena,
                     const struct overheads *overheads, uint64_t seed);

enum forecast_driver_kind {
    FORECAST_EFFICIENCY,
    FORECAST_LENGTHS,
    FORECAST_STARTUP, // and compilation
    FORECAST_STORAGE,
    FORECAST_EVALUATION,
    FORECAST_FAILURES,
    FORECAST_RETRIES,
    FORECAST_WIDTHS,
    FORECAST_DRIVERS,
};

struct forecast_driver {
    enum forecast_driver_kind kind;
    const char *name;
    const char *measurement; // what would settle it; NULL where nothing does
    // P10 and P90 of GPU hours when only this varies and the others together are as they are at the
    // forecast's median. So low ≤ gpu_hours.mid ≤ high.
    double low, high;
    struct range gpu_hours_known; // the range that would be left if this were known
};

struct forecast {
    struct range tokens_per_s, wall_hours, gpu_hours, cost_usd; // cost NAN without prices
    double gpu_hours_percentiles[FORECAST_PERCENTILES];         // 5, 10, … 95
    struct forecast_driver drivers[FORECAST_DRIVERS];           // the widest first
    struct overhead_times middle;                               // with every unknown at its middle
    // What failed and repeated runs add: how often they add anything, GPU hours on average, at
    // the median and P90.
    double repeats_share, repeats_gpu_hours, repeats_gpu_hours_mid, repeats_gpu_hours_high;
};

void forecast_make(struct forecast *out, struct arena *arena, const struct forecast_input *input,
                   const struct forecast_samples *samples);

// Several runs of one configuration, so many at a time. They share what is unknown about all of
// them (speed, lengths, start-up, storage, rates of failure, prices), so that this does not average
// out over the runs; each has its own failures and repeats. A free place takes the next run.
struct forecast_sweep {
    int64_t runs, parallel; // 0 runs: no sweep
    double peak_gpus;
    struct range wall_hours, gpu_hours, cost_usd; // of all runs together; cost NAN without prices
};
enum { FORECAST_RUNS = 1000 }; // at most
void forecast_sweep(struct forecast_sweep *out, struct arena *arena,
                    const struct forecast_input *input, const struct forecast_samples *samples,
                    int64_t runs, int64_t parallel);

// Wall hours and cost over the first count samples. Over all of them, where the samples are of the
// input's own overheads, they are those of forecast_make().
struct forecast_outcome {
    struct range wall_hours, cost_usd; // cost NAN without prices
    double tokens_per_s;               // median
};
void forecast_run(struct forecast_outcome *out, struct arena *arena,
                  const struct forecast_input *input, const struct forecast_samples *samples,
                  size_t count);

// The factor that uncertain lengths put on the median of the training time, where the logarithm of
// the speed has that deviation. Lengths are skewed: padding can only add. The more the speed
// varies, the more of that skew the median of both together shows; at a deviation of 0 it is
// factor.mid.
double forecast_lengths(const struct range *factor, double log_spread);

// Wall seconds with every unknown at its middle value, which the search compares.
double forecast_middle(struct overhead_times *out, const struct forecast_input *input);
