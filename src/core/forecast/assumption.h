// SPDX-License-Identifier: Apache-2.0
// assumption: a number with its range and where it comes from.
//
// Everything that a forecast rests on is one of these. --explain, the document and the page list
// them.

#pragma once

#include "base/json.h"
#include "base/stats.h"

#include <math.h>

enum assumption_origin {
    ASSUMPTION_ASSUMED,   // our judgement
    ASSUMPTION_CATALOG,   // a row with source and date
    ASSUMPTION_MEASURED,  // fitted on measured runs, or measured by a pilot
    ASSUMPTION_GIVEN,     // by the user
    ASSUMPTION_LEDGER,    // learned from the user's own pilots and runs
    ASSUMPTION_ESTIMATED, // from the user's data, by rates measured on other data
    ASSUMPTION_ORIGINS,
};
extern const char *const assumption_origins[];

struct assumption {
    const char *name, *unit;
    struct range value; // P10, P50, P90; three times the same where it is certain
    enum assumption_origin origin;
    const char *source, *as_of;
};

struct assumption assumption_given(struct assumption assumed, double value); // NAN: as it was

// The same with one measured value.
struct assumption assumption_measured(struct assumption assumed, double value, const char *source,
                                      const char *as_of);

// The value for a standard normal sample z: lognormal on both sides of the middle, or
// normal and cut at zero where the low end is zero.
//
//     struct assumption_spread spread = assumption_spread(&assumption);
//     double value = assumption_at(&spread, z); // and so on for many samples
struct assumption_spread {
    struct range value;
    double log_low, log_high; // of the ends over the middle; 0 where the low end is not positive
    bool is_certain;          // the middle alone
};
struct assumption_spread assumption_spread(const struct assumption *assumption);

static inline double assumption_at(const struct assumption_spread *spread, double z)
{
    const struct range *value = &spread->value;
    if (spread->is_certain || z == 0)
        return value->mid;
    double share = fabs(z) / STATS_P90;
    if (value->low > 0)
        return value->mid * exp(share * (z < 0 ? spread->log_low : spread->log_high));
    return fmax(0, value->mid + share * ((z < 0 ? value->low : value->high) - value->mid));
}

void assumption_write(const struct assumption *assumption, struct json_writer *w);
