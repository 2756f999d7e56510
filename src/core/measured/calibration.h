// SPDX-License-Identifier: Apache-2.0
// calibration: how fast stacks run against their own step list's roofline, fitted on measured runs.
//
// A run's residual is the logarithm of measured over predicted tokens/s. Rows of one source are not
// independent, so a source counts once per stack: the fit takes medians of sources, shrinks a stack
// towards its family and a family towards all. That is the middle. The spread depends on what was
// measured near the configuration (core/measured/evidence.h), and is fitted on the errors of that
// middle for sources it did not know.
//
//     struct efficiency efficiency = calibration_at(&calibration, &setup);
//     tokens_per_s = roofline * exp(efficiency_at(&efficiency, evidence_tail(z)))

#pragma once

#include "core/measured/evidence.h"
#include "core/step/estimate.h"

#include <math.h>

struct efficiency {
    const char *stack; // its name
    const char *family;
    int64_t own;       // runs of the user's own ledger that it includes; no column
    double log_mid;    // of measured over roofline tokens/s
    double log_spread; // standard deviation for a source not seen yet; no column, by the place
    double slow_tail;  // by how much more it is below the middle, 0.5 half as much again; no column
    int64_t runs, sources;
    bool is_piloted; // transferred from a pilot (core/forecast/transfer.h); no column
};

// ln of measured over roofline tokens/s, so many deviations from its middle.
static inline double efficiency_at(const struct efficiency *e, double deviations)
{
    return e->log_mid + e->log_spread * (deviations < 0 ? 1 + e->slow_tail : 1) * deviations;
}

// How many times as long as at the middle a run takes at the slow end of the 80 % range.
static inline double efficiency_slowdown(const struct efficiency *e)
{
    return exp(e->log_mid - efficiency_at(e, -STATS_P90));
}

// Adds a spread of its own to both sides, as the root of squares.
static inline void efficiency_widen(struct efficiency *e, double spread)
{
    if (!(spread > 0))
        return;
    double slow = hypot(e->log_spread * (1 + e->slow_tail), spread);
    e->log_spread = hypot(e->log_spread, spread);
    e->slow_tail = slow / e->log_spread - 1;
}

extern const struct field efficiency_fields[]; // columns of data/efficiency.csv

struct calibration {
    const struct efficiency *stacks; // one row each, without spreads
    size_t stack_count;
    struct evidence evidence;
    bool knows_trainers; // fitted for runs left out, with which their trainers were described
};

// One measured run against its estimate.
struct residual {
    const struct stack *stack;
    struct text source;
    double log_ratio;
    double step_spread; // calibration_step_spread() of its setup
    struct place place;
    bool left_out;
};

// Fits both, stacks in their order; residuals marked left_out do not count. A similar calibration,
// or NULL, makes it faster and changes nothing.
void calibration_fit(struct calibration *out, struct arena *arena, const struct stack *stacks,
                     size_t stack_count, const struct residual *residuals, size_t count,
                     const struct calibration *similar);

// Reads efficiency.csv and evidence.csv; the paths are for error messages.
enum err calibration_read(struct calibration *out, struct arena *arena, struct text efficiency,
                          const char *efficiency_path, struct text evidence,
                          const char *evidence_path);

// The stack's row, without a spread. A user's own stack has none: the row of the stack it is
// "like", else the first of its family, else the first of all.
struct efficiency calibration_of(const struct calibration *calibration, const struct stack *stack);

// What evidence tells the setup apart by. Of a user's own stack it is the one it is "like", as
// above. A setup without a GPU is measured nowhere.
struct place calibration_place(const struct calibration *calibration, const struct setup *setup);

// What no recipe tells of a speed, however well its place is measured: a spread of ln tokens/s.
extern const double calibration_untold;

// How unsure a step is wherever it stands, as a deviation of ln tokens/s: that; measured runs of
// shared experts, and of loops over them, are few and of few hosts; hosts differ, where they set
// the time; and networks do, as far as GPUs wait for them.
double calibration_step_spread(const struct setup *setup);

// The stack's row with the spread of the setup: of its place, of the step list, and of a card or a
// trainer that few have measured.
struct efficiency calibration_at(const struct calibration *calibration, const struct setup *setup);

// What a card, or a trainer, may hide of which runs of so many independent sources were measured: a
// deviation of ln tokens/s. The built-in engine hides nothing: its description is its code.
double calibration_strangeness(int64_t sources);
double calibration_strange_card(const struct calibration *calibration, const struct gpu *gpu);
double calibration_strange_trainer(const struct calibration *calibration,
                                   const struct stack *stack);
