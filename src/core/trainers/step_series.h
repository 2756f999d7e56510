// SPDX-License-Identifier: Apache-2.0
// step_series: turns the events of a trainer into a series of steps with seconds and tokens.
//
// Takes the events of trainer_log (or of trainer_files) in order, drops bars that turn out not to
// be training, gives each step its time and its tokens, and flags steps with an evaluation or a
// save. core/trainers/steady.h evaluates the series.
//
//     struct step_series series;
//     step_series_init(&series, arena);
//     series.gpus = 8, series.step_tokens = 65536;     // if known
//     … step_series_add(&series, event);               // is a trainer_log_callback, too
//     step_series_finish(&series);                     // at any time; adding may go on
//     steady_measure(&steady, arena, series.steps, series.count, &rule);
//
// A running trainer is timed by the caller's clock. For a log read afterwards, `reads_back` takes
// the time from the log: time stamps, a bar's elapsed time, or the reported seconds per step; steps
// without any of these are left out.

#pragma once

#include "core/trainers/steady.h"
#include "core/trainers/trainer_log.h"

enum step_series_origin { // of the token counts
    STEP_SERIES_NONE,
    STEP_SERIES_COUNTER, // the trainer counts tokens
    STEP_SERIES_RATE,    // the trainer reports tokens/s
    STEP_SERIES_GIVEN,   // step_tokens
};

struct step_series {
    struct arena *arena;
    int gpus;           // for rates per GPU; 0 means 1
    double step_tokens; // per step, if the trainer reports none; 0: unknown
    bool reads_back;

    struct steady_step *steps;
    struct step_series_note *notes;  // parallel to steps: their token figures
    struct step_series_note *first;  // of what was before the first step
    struct step_series_note *report; // the last step's before the newest report, and its own
    double report_seconds;           // when that came; NAN: a step came since
    size_t count, room;
    enum step_series_origin origin; // set by step_series_finish
    double first_step, last_step;   // completed before the first, and at the last
    double begun;                   // completed before this run, which resumed there; NAN: no steps
    double total;                   // steps of the whole run, NAN if unknown
    double last_seconds;            // clock at the last step
    double loss, rate, epoch;       // last reported; NAN
    double evaluation_loss;
    double tokens;       // counted by the trainer
    double global_batch; // sequences per step; NAN
    double micro_batch;  // sequences of one GPU at a time; NAN
    double peak_bytes;   // largest reported; NAN
    double run_seconds;  // reported at the end; NAN
    double rate_sum;     // of the tokens/s that it reports
    double rate_most;    // the highest of them
    int64_t rate_count;
    int64_t evaluations, saves;
    int64_t begins;     // of training: more than a few are of several ranks or runs
    int64_t times_back; // steps that came before the last one's time: not measured
    int64_t negatives;  // lines with negative tokens or tokens/s: not used
    double left_out;    // counter of the last of times_back; NAN
    double counts[2];   // of one step, which two lines tell differently; NAN
    unsigned flags;     // of the step in progress
    bool out_of_memory, failed, ended;
};

void step_series_init(struct step_series *series, struct arena *arena);
void step_series_add(void *series, const struct trainer_log_event *event);
void step_series_finish(struct step_series *series);

// What the times of a log are rounded to: 1 where all are whole seconds, as bars print them; 0:
// less.
double step_series_clock(const struct step_series *series);

// Tokens/s over all steps, with warm-up and whatever else is in their time: of the steps, else of
// the whole run, else the mean that the trainer reports. NAN: unknown.
double step_series_mean_rate(const struct step_series *series);

// Means over the steps after the warm-up that have no evaluation or save; NAN: not reported.
struct step_series_phases {
    double seconds[TRAINER_PHASES], answer_tokens;
};
struct step_series_phases step_series_phases(const struct step_series *series, int64_t warmup);

// What in the trainer's output contradicts itself or the rate that was measured from it, as a
// sentence; NULL: nothing. Some trainers report only the tokens that have a loss: counted_share is
// their share of the processed ones, 1 where it is not known.
const char *step_series_doubts(const struct step_series *series, struct arena *arena,
                               double tokens_per_s, double counted_share);

const char *step_series_origin_name(enum step_series_origin origin); // "counter", "rate", "given"
