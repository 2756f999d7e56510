// step_series: what trainers report, as a series of steps with seconds and tokens.
//
// Takes the events of trainer_log (or of trainer_files) in order, forgets bars that turn out to be
// no training, gives each step its time and its tokens, and notes which held an evaluation or a
// save. core/steady.h says what the series means.
//
//     struct step_series series;
//     step_series_init(&series, arena);
//     series.gpus = 8, series.step_tokens = 65536;     // where known
//     … step_series_add(&series, event);               // is a trainer_log_callback, too
//     step_series_finish(&series);                     // tokens by the trainer's own counters
//     steady_measure(&steady, arena, series.steps, series.count, &rule);

#pragma once

#include "core/steady.h"
#include "core/trainer_log.h"

enum step_series_origin { // where the tokens of the steps come from, best first
    STEP_SERIES_NONE,
    STEP_SERIES_COUNTER, // the trainer counts tokens
    STEP_SERIES_RATE,    // the trainer claims tokens/s
    STEP_SERIES_GIVEN,   // step_tokens
};

struct step_series {
    struct arena *arena;
    int gpus;           // for rates per GPU; 0 means 1
    double step_tokens; // of each step, if the trainer does not say; 0 unknown

    struct steady_step *steps;
    size_t count, room;
    double *counters;               // the trainer's count of tokens at the end of each; NAN
    double *rates;                  // the trainer's tokens/s in each; NAN
    enum step_series_origin origin; // set by step_series_finish
    double first_step, last_step;   // numbers
    double total;                   // steps of the whole run, NAN if unknown
    double last_seconds;            // clock at the last step
    double loss, rate, epoch;       // the last said
    double peak_bytes;              // the largest said; NAN
    double run_seconds;             // said at the end; NAN
    int64_t evaluations, saves;
    unsigned flags; // of the step that is under way
    bool out_of_memory, failed, ended;
};

void step_series_init(struct step_series *series, struct arena *arena);
void step_series_add(void *series, const struct trainer_log_event *event);
void step_series_finish(struct step_series *series);
