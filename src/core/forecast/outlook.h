// outlook: the hours and cost of a run at its end, forecast while it runs, against its plan.
//
//     struct outlook_plan plan;
//     TRY(outlook_plan_read(&plan, arena, document, "plan.json"));
//     struct outlook_progress progress = { .elapsed_seconds = 5400, .steps = 700, .total = 2022,
//                                          .steady = &steady };
//     struct outlook now = outlook_make(&plan, &progress);
//     now.gpu_hours.low, .mid, .high …
//
// The remaining steps take as long as the measured ones. Evaluations, saves and stalls occur as
// often as so far, or as the plan says where none has occurred yet. Failures are as the plan
// expects. Until the rate is known, the plan's own range stands for the rest. Repeated runs are in
// the plan's range, not in this run's. Formulas: docs/formulas.md.

#pragma once

#include "core/forecast/overhead.h"
#include "core/measured/pilot.h"
#include "core/trainers/steady.h"

struct outlook_plan {
    const char *name;
    struct text document; // that it was read from
    double processed_tokens, steps, gpus;
    struct range tokens_per_s, wall_hours, gpu_hours, cost_usd;
    double usd_per_gpu_hour;        // NAN without prices
    double seconds[OVERHEAD_KINDS]; // of the whole run, expected
    double failures_high_seconds;   // beyond what is expected, at P90
    struct pilot_configuration configuration;
};

// Reads what gpuhours plan --json wrote.
enum err outlook_plan_read(struct outlook_plan *out, struct arena *arena, struct text document,
                           const char *name);

double outlook_step_tokens(const struct outlook_plan *plan); // processed, over all GPUs; NAN

struct outlook_progress {
    double elapsed_seconds;      // since the start
    double steps, total;         // done; of the run as the trainer says, NAN: as planned
    const struct steady *steady; // what was measured; NULL: nothing
    double gpus;                 // NAN: as planned
    double usd_per_gpu_hour;     // NAN: as planned
};

enum outlook_place { OUTLOOK_UNKNOWN, OUTLOOK_BELOW, OUTLOOK_INSIDE, OUTLOOK_ABOVE };

struct outlook {
    bool measured;            // the rate is; else the range is the plan's
    double total;             // steps
    double remaining_seconds; // expected
    double used_gpu_hours, used_usd;
    struct range wall_hours, gpu_hours, cost_usd; // at the end
    enum outlook_place place; // of the expected GPU hours, in the plan's P10–P90
};

struct outlook outlook_make(const struct outlook_plan *plan,
                            const struct outlook_progress *progress);
