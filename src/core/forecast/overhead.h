// SPDX-License-Identifier: Apache-2.0
// overhead: the time that a run takes besides its training steps.
//
// Start-up and compilation, loading weights, evaluation, saves, stalls of the data loader, failures
// with the work they undo, repeated runs. Each unknown is an assumption with a range: the forecast
// samples it, the search takes its middle value.
//
//     struct overheads overheads;
//     TRY(overhead_assume(&overheads, catalog, node));
//     struct overhead_draw middle = overhead_middle(&overheads);
//     struct overhead_times times;
//     overhead_run(&times, &overheads, &middle, train_seconds, processed_tokens);
//     times.wall_seconds …
//
// Formulas: docs/formulas.md, section overheads.

#pragma once

#include "core/forecast/assumption.h"
#include "core/step/estimate.h"

// Whether the trainer's kernels are in the file cache of the machine that it starts on.
enum overhead_cache { CACHE_COLD, CACHE_WARM };
extern const char *const overhead_cache_names[]; // "cold", "warm", NULL

struct overheads {
    struct assumption startup_seconds;     // container, imports, process groups, tokenized data
    bool startup_loads;                    // and the weights: a pilot measured all of it at once
    struct assumption compile_seconds;     // of stacks that compile
    struct assumption storage_bytes_per_s; // of weights in, saves out and data in
    struct assumption eval_share;          // of the data, held out and evaluated
    struct assumption evals_per_epoch;
    struct assumption failures_per_gpu_hour; // job-ending ones
    struct assumption save_interval_seconds; // NAN: Young–Daly, at most an epoch
    struct assumption retries;               // further whole runs; of a fraction, so many expected
    struct assumption failed_runs;           // expected number of attempts that fail by an error
    struct assumption data_bytes_per_token;  // read while training
    enum overhead_cache file_cache;
    struct assumption evaluation_seconds; // of one, as a pilot measured it; mid 0: by share
    struct assumption save_seconds;       // likewise; mid 0: by bytes
    struct assumption stall_share;        // of the steps' time, on top, as a pilot measured it
    double evaluate_every, save_every;    // steps, in place of the above; 0: at the end; NAN: not
    double saves_per_epoch;               // from which overhead_pace() makes save_every; NAN: not
    double epochs, steps;                 // set by overhead_pace()
    // Set by overhead_configure().
    double gpus;
    double load_bytes, save_bytes; // on each machine; shards of a save are written side by side
    double eval_cost;              // seconds of an evaluated token over those of a trained one
    struct assumption first_width_seconds;      // at the first sight of a width: kernels, attention
                                                // plans, memory
    struct assumption first_steps_seconds;      // of a process: kernels are loaded
    struct assumption first_evaluation_seconds; // likewise
    double evaluation_load_seconds;             // of its kernels, on a machine that never did
    double new_widths;                          // that a rank meets in the run
    bool compiles;
    struct assumption compilations; // of stacks that compile: more than one where widths vary
};

enum overhead_kind {
    OVERHEAD_TRAINING,
    OVERHEAD_STARTUP,
    OVERHEAD_COMPILATION,
    OVERHEAD_LOADING,
    OVERHEAD_WIDTHS,    // first sights of widths, and the first steps
    OVERHEAD_STALLS,    // the data is read too slowly
    OVERHEAD_RECURRING, // stalls that a pilot saw
    OVERHEAD_EVALUATION,
    OVERHEAD_SAVES,
    OVERHEAD_FAILURES,
    OVERHEAD_RETRIES, // and failed attempts
    OVERHEAD_KINDS,
};
extern const char *const overhead_names[];

// One sample of the unknowns. The chance is uniform in [0, 1); NAN means the expected value.
struct overhead_draw {
    double startup_seconds, compile_seconds, storage_bytes_per_s;
    double evaluation;   // of overhead_evaluation()
    double save_seconds; // 0: by bytes
    double stall_share;  // of the steps' time
    double failures_per_gpu_hour;
    double failed_runs, retries; // how many
    double first_width_seconds, first_steps_seconds, first_evaluation_seconds, compilations;
    double failure_chance, lost_share;
};

struct overhead_times {
    double seconds[OVERHEAD_KINDS];
    double wall_seconds; // their sum
    double saves, failures, failed_runs, save_interval_seconds;
};

// Fills in assumptions. ERR_INPUT where operations.csv lacks a fact. node may be NULL.
enum err overhead_assume(struct overheads *out, const struct catalog *catalog,
                         const struct node *node);

static inline bool overhead_evaluates(const struct overheads *o)
{
    return o->eval_share.value.mid > 0 && o->evals_per_epoch.value.mid > 0;
}

// What is unknown of evaluations: the seconds of one where they were measured, else the share.
static inline const struct assumption *overhead_evaluation(const struct overheads *o)
{
    return o->evaluation_seconds.value.mid > 0 ? &o->evaluation_seconds : &o->eval_share;
}

// What the first sight of a width and the first steps cost this stack on this GPU (may be NULL), in
// micro-batches of this kind.
void overhead_first_sights(struct overheads *out, const struct stack *stack, const struct gpu *gpu,
                           const struct step_batch *batch, double layers, double alignments);

// Sets how long the run is, and how often it evaluates where that is a number of steps.
void overhead_pace(struct overheads *out, double epochs, double steps);

// Fills in what depends on the configuration: bytes of weights and saves, cost of evaluation (as
// struct estimate has it).
void overhead_configure(struct overheads *out, const struct setup *setup, const struct step *step,
                        double evaluation_share);

struct overhead_draw overhead_middle(const struct overheads *overheads);
void overhead_run(struct overhead_times *out, const struct overheads *overheads,
                  const struct overhead_draw *draw, double train_seconds, double tokens);
double overhead_wall(const struct overheads *overheads, const struct overhead_draw *draw,
                     double train_seconds, double tokens); // wall_seconds alone, faster

// Many outcomes, a column for each unknown; first sights and compilations at their middle.
struct overhead_columns {
    const double *train_seconds, *tokens;
    const double *startup_seconds, *compile_seconds, *storage_bytes_per_s;
    const double *evaluation, *save_seconds, *stall_share; // as in struct overhead_draw
    const double *failures_per_gpu_hour, *failed_runs, *retries, *failure_chance, *lost_share;
};
void overhead_walls(double *wall_seconds, const struct overheads *overheads,
                    const struct overhead_columns *columns, size_t count);

// Young and Daly's interval between saves: √(2 · save time · time between failures).
double overhead_save_interval(double save_seconds, double mean_seconds_between_failures);

// The quantile at that chance of a Poisson distribution with that mean; the mean itself for NAN.
double overhead_count(double mean, double chance);

// Further whole runs: 5 are five. The fraction of 0.5 or 2.5 is what is expected beyond, and drawn.
double overhead_further_runs(double retries, double chance);
