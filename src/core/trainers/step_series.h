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
//     step_series_finish(&series);                     // as often as wanted, then go on adding
//     steady_measure(&steady, arena, series.steps, series.count, &rule);
//
// A run that is followed is timed by the caller's clock. For a log that is read afterwards
// `reads_back` takes the time from what the trainer wrote: time stamps, a bar's elapsed time, or
// the seconds it claims for a step; steps without any have NAN seconds and are left out.

#pragma once

#include "core/trainers/steady.h"
#include "core/trainers/trainer_log.h"

enum step_series_origin { // of the tokens of the steps
    STEP_SERIES_NONE,
    STEP_SERIES_COUNTER, // the trainer counts tokens
    STEP_SERIES_RATE,    // the trainer claims tokens/s
    STEP_SERIES_GIVEN,   // step_tokens
};

struct step_series {
    struct arena *arena;
    int gpus;           // for rates per GPU; 0 means 1
    double step_tokens; // of each step, if the trainer does not say; 0 unknown
    bool reads_back;

    struct steady_step *steps;
    struct step_series_note *notes; // beside each step: what its tokens come from
    size_t count, room;
    enum step_series_origin origin; // set by step_series_finish
    double counter;                 // of tokens, when the steps began; NAN
    double first_step, last_step;   // numbers: steps before the first, the last
    double total;                   // steps of the whole run, NAN if unknown
    double last_seconds;            // clock at the last step
    double loss, rate, epoch;       // the last said; NAN
    double evaluation_loss;
    double tokens;       // as the trainer counts them
    double global_batch; // sequences a step
    double peak_bytes;   // the largest said; NAN
    double run_seconds;  // said at the end; NAN
    int64_t evaluations, saves;
    unsigned flags; // of the step that is under way
    bool out_of_memory, failed, ended;
};

void step_series_init(struct step_series *series, struct arena *arena);
void step_series_add(void *series, const struct trainer_log_event *event);
void step_series_finish(struct step_series *series);

const char *step_series_origin_name(enum step_series_origin origin); // "counter", "rate", "given"
