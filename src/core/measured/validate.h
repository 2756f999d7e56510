// SPDX-License-Identifier: Apache-2.0
// validate: compares predictions with measured runs, leaving out each run's own source.
//
// Each row is predicted with stack efficiencies fitted on the reference runs without those of the
// row's source, so that no row helps to predict itself. Errors are factors,
// max(predicted/measured, measured/predicted): 1.08 is 8 % off. A measured step is compared with a
// forecast step, a measured wall-clock time with forecast steps plus the evaluation that the source
// states. What a row does not tell is not compared.

#pragma once

#include "core/measured/calibration.h"
#include "core/measured/run.h"

struct validate_value {
    struct range predicted;
    double measured; // NAN: not in the row, or not predicted
    double error;    // a factor
    bool inside;     // the range
};

struct validate_row {
    const struct run *run;
    const struct setup *setup; // NULL where the row was not understood
    const char *reason;        // why it was not
    struct validate_value tokens_per_s, memory_bytes, wall_hours;
    bool judged; // the row names an outcome, and the card's memory is known
    bool fits;   // the verdict then: at least as likely as not
    double fit_probability;
};

struct validate_summary {
    double median_error, p90_error, coverage;
    double bias;    // median of measured over predicted
    int64_t unsafe; // measured above the range
    int64_t n;
};

// Groups of fewer rows say little.
enum { VALIDATE_GROUP_ROWS = 15 };

enum validate_quantity { VALIDATE_TOKENS, VALIDATE_MEMORY, VALIDATE_WALL };

// Everything the model knows apart from the runs themselves.
struct validate_model {
    const struct catalog *catalog;
    const struct stack *stacks;
    size_t stack_count;
};

// The residuals of the runs with a measured throughput, for calibration_fit().
size_t validate_residuals(struct residual **out, struct arena *arena, const struct run *runs,
                          size_t count, const struct validate_model *model);

// Predicts every run; efficiencies are fitted on the reference runs.
enum err validate_runs(struct validate_row **out, struct arena *arena, const struct run *runs,
                       size_t count, const struct run *reference, size_t reference_count,
                       const struct validate_model *model);

// Summarises the rows that keep() accepts; NULL: all.
struct validate_summary validate_summarize(const struct validate_row *rows, size_t count,
                                           enum validate_quantity quantity, struct arena *arena,
                                           bool (*keep)(const struct validate_row *, const char *),
                                           const char *key);

// Whether a group that is large enough is covered too rarely, or biased to one side.
bool validate_is_off(const struct validate_summary *summary);

// Verdicts of fit against the outcomes that rows name.
struct validate_verdicts {
    int64_t n, right;
    int64_t unsafe;       // ran out of memory where the verdict was that it fits
    int64_t surely_wrong; // of unsafe, those with more than VALIDATE_FIT_MOST
    int64_t tight;        // ran where the verdict was that it does not fit
};
static const double VALIDATE_FIT_MOST = 0.8; // the most that a run which fails may have had
struct validate_verdicts validate_verdicts(const struct validate_row *rows, size_t count);

// How honest probabilities of fit are: of the runs that got from one to another, so many should
// have fitted, and did.
struct validate_likely {
    double from, to; // the first included
    int64_t n, fitted;
    double expected; // sum of the probabilities
};
enum { VALIDATE_LIKELIES = 5 };
void validate_likely(struct validate_likely out[VALIDATE_LIKELIES], const struct validate_row *rows,
                     size_t count);

// One job of one source on more and more GPUs: tokens/s per GPU over that of its fewest GPUs. Runs
// of one series name are one job where they differ in layout and results alone.
struct validate_point {
    const struct validate_row *row;
    double published, predicted;
};
struct validate_series {
    const char *name;
    struct validate_point *points; // by number of GPUs; the first is 1 by definition
    size_t count;
    double worst; // largest distance of a point
};
size_t validate_series(struct validate_series **out, struct arena *arena,
                       const struct validate_row *rows, size_t count);
