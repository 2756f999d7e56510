// SPDX-License-Identifier: Apache-2.0
// validate_fit: holds the probability that a run fits against runs that did and runs that did not.
//
// A run's outcome column says whether it ran on its card. The verdict is right where the
// probability lies on the outcome's side of a half.
//
//     struct validate_fits fits = validate_fits(arena, runs, count, &model);

#pragma once

#include "core/measured/validate.h"

struct validate_fits {
    int64_t n, right;    // runs with an outcome and a card; verdicts that were right
    int64_t failed;      // of n, those that ran out of memory
    int64_t failed_sure; // of failed, those that had more than VALIDATE_FIT_MOST
};

static const double VALIDATE_FIT_MOST = 0.8;

// NAN where the run names no outcome, no card, or is not understood.
double validate_fit_probability(struct arena *arena, const struct run *run,
                                const struct validate_model *model);

struct validate_fits validate_fits(struct arena *arena, const struct run *runs, size_t count,
                                   const struct validate_model *model);
