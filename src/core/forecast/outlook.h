// SPDX-License-Identifier: Apache-2.0
// outlook: forecasts the end of a run that is under way, and compares it with its plan.
//
//     struct outlook_plan plan;
//     TRY(outlook_plan_read(&plan, arena, document, "plan.json"));
//     struct outlook_progress progress = { .elapsed_seconds = 5400, .steps = 700, .total = 2022,
//                                          .steady = &steady };
//     struct outlook now = outlook_make(&plan, &progress);
//     now.gpu_hours.low, .mid, .high …
//
// The remaining steps take as long as the measured ones, by their tokens, and with the new widths
// that are left. Evaluations, saves and stalls keep their frequency; before the first has happened,
// the plan's is used. Failures are the plan's. Until the rate is known, the plan's range is used
// for the rest. Repeated runs are in the plan's range, not
// in this one. Formulas: docs/formulas.md.

#pragma once

#include "core/forecast/overhead.h"
#include "core/forecast/workload.h"
#include "core/measured/pilot.h"
#include "core/trainers/steady.h"

struct outlook_plan {
    const char *name;
    struct text document; // the text that it was read from
    double processed_tokens, steps, gpus;
    double steps_per_epoch; // NAN: unknown
    struct range tokens_per_s, wall_hours, gpu_hours, cost_usd;
    double usd_per_gpu_hour;        // NAN without prices
    double width, longest_width;    // of a micro-batch: mean, and of the longest rows; NAN: unknown
    struct packing_sights sights;   // of widths, by steps; count 0: unknown
    struct range width_seconds;     // of the first sight of a width, as assumed; mid 0: unknown
    double labelled_share;          // of processed tokens; NAN: unknown
    double evaluation_share;        // of the data; 0: unknown
    double seconds[OVERHEAD_KINDS]; // of the whole run, expected
    double failures_high_seconds;   // beyond the expected ones, at P90
    struct pilot_configuration configuration;
    const char *objective;      // NULL: supervised tuning
    struct pilot_phases phases; // of one step
};

// Reads what gpuhours plan --json wrote.
enum err outlook_plan_read(struct outlook_plan *out, struct arena *arena, struct text document,
                           const char *name);

double outlook_step_tokens(const struct outlook_plan *plan); // processed, over all GPUs; NAN

// First sights of widths, by steps; NULL: unknown, or all batches are of one width.
const struct packing_sights *outlook_sights(const struct outlook_plan *plan);

// What the plan believes of the steps that are measured now.
struct steady_rule outlook_rule(const struct outlook_plan *plan);

// The plan's configuration on the GPUs that a run is placed on (NULL, 0: the plan's), whose layout
// is not known where they are others: then it returns true.
bool outlook_elsewhere(struct pilot_configuration *ran, const struct outlook_plan *plan,
                       const char *gpu, int64_t gpus);

struct outlook_progress {
    double elapsed_seconds;      // since the start
    double steps, total;         // done; of the whole run, NAN: as planned
    double begun;                // of the steps done, those before the start: a run resumed there
    const struct steady *steady; // the measurement; NULL: none yet
    double gpus;                 // NAN: as planned
    double usd_per_gpu_hour;     // NAN: as planned
};

enum outlook_place { OUTLOOK_UNKNOWN, OUTLOOK_BELOW, OUTLOOK_INSIDE, OUTLOOK_ABOVE };

struct outlook {
    bool measured;            // the rate was measured; false: the range is the plan's
    double total;             // steps
    double remaining_seconds; // expected
    double used_gpu_hours, used_usd;
    struct range wall_hours, gpu_hours, cost_usd; // at the end, since the start
    struct {                                      // the plan's, for the steps since the start
        struct range wall_hours, gpu_hours, cost_usd;
    } planned;
    enum outlook_place place; // of the expected GPU hours in that 80 % range
};

struct outlook outlook_make(const struct outlook_plan *plan,
                            const struct outlook_progress *progress);
