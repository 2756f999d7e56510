// SPDX-License-Identifier: Apache-2.0
// calibration: how fast stacks run against their own step list's roofline, fitted on measured runs.
//
// A run's residual is the logarithm of measured over predicted tokens/s. Rows of one source are not
// independent, so a source counts once per stack: the fit takes medians of sources, shrinks a stack
// towards its family and a family towards all, and estimates the spread that a new source would
// have.
//
//     struct efficiency efficiency = calibration_of(calibration, count, stack);
//     tokens_per_s = roofline * exp(efficiency.log_mid + efficiency.log_spread * normal)

#pragma once

#include "core/step/estimate.h"

struct efficiency {
    const char *stack; // its name
    const char *family;
    int64_t own;       // runs of the user's own ledger that it includes; no column
    double log_mid;    // of measured over roofline tokens/s
    double log_spread; // standard deviation for a source not seen yet
    int64_t runs, sources;
    bool is_piloted; // transferred from a pilot (core/forecast/transfer.h); no column
};

extern const struct field efficiency_fields[]; // columns of data/efficiency.csv

// One measured run against its estimate.
struct residual {
    const struct stack *stack;
    struct text source;
    double log_ratio;
    bool left_out;
};

// One row per stack, in the order of stacks; residuals marked left_out do not count.
struct efficiency *calibration_fit(struct arena *arena, const struct stack *stacks,
                                   size_t stack_count, const struct residual *residuals,
                                   size_t count);

enum err calibration_read(struct efficiency **out, size_t *count, struct arena *arena,
                          struct text csv, const char *name);

// The stack's row. A user's own stack has none: the row of the stack it is "like", else the first
// of its family, else the first of all.
struct efficiency calibration_of(const struct efficiency *rows, size_t count,
                                 const struct stack *stack);
