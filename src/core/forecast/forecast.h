// forecast: a run's hours as a range, and what drives the range.
//
// Draws the unknowns (efficiency, lengths, overheads, failures, repeated runs, prices) some
// thousand times with a fixed seed and takes P10, P50 and P90 of the outcomes. The same draws, with
// one unknown after the other held at its middle, say which of them makes the range wide.
//
//     struct forecast forecast;
//     forecast_make(&forecast, arena, &input);
//     forecast.gpu_hours.mid, forecast.drivers[0].name …
//
// Formulas: docs/formulas.md, section forecast.

#pragma once

#include "core/measured/calibration.h"
#include "core/forecast/overhead.h"
#include "core/forecast/price.h"

enum { FORECAST_DRAWS = 10000, FORECAST_PERCENTILES = 19 };

struct forecast_input {
    double roofline_tokens_per_s; // over all GPUs, before the stack's efficiency
    struct efficiency efficiency;
    double processed_tokens;
    struct range processed_factor; // by what is not known of the lengths
    struct overheads overheads;
    struct price price;
    uint64_t seed;
};

enum forecast_driver_kind {
    FORECAST_EFFICIENCY,
    FORECAST_LENGTHS,
    FORECAST_STARTUP, // and compilation
    FORECAST_STORAGE,
    FORECAST_EVALUATION,
    FORECAST_FAILURES,
    FORECAST_RETRIES,
    FORECAST_DRIVERS,
};

struct forecast_driver {
    enum forecast_driver_kind kind;
    const char *name;
    const char *measurement;      // what would settle it; NULL where nothing does
    double low, high;             // P10 and P90 of GPU hours when only this varies
    struct range gpu_hours_known; // the range that would be left if this were known
};

struct forecast {
    struct range tokens_per_s, wall_hours, gpu_hours, cost_usd; // cost NAN without prices
    double gpu_hours_percentiles[FORECAST_PERCENTILES];         // 5, 10, … 95
    struct forecast_driver drivers[FORECAST_DRIVERS];           // the widest first
    struct overhead_times middle;                               // with every unknown at its middle
};

void forecast_make(struct forecast *out, struct arena *arena, const struct forecast_input *input);

// The medians of wall hours and cost alone.
void forecast_medians(double *wall_hours, double *cost_usd, struct arena *arena,
                      const struct forecast_input *input);

// One outcome with every unknown at its middle: what the search compares. Wall seconds.
double forecast_middle(struct overhead_times *out, const struct forecast_input *input);
