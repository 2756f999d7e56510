// pilot_steps: the steps of a run, timed, and between them micro-batches of other compositions.
//
//     struct pilot_steps steps;
//     pilot_steps_init(&steps, arena, &training);        // planned by training_plan()
//     TRY(pilot_steps_worst(&steps));                   // first what takes most memory
//     while (…) {
//         TRY(pilot_steps_step(&steps));                // as the run itself would
//         TRY(pilot_steps_probe(&steps));               // one micro-batch, by itself
//     }
//     TRY(pilot_steps_evaluate(&steps, &seconds_per_token));
//
// A step is the training's own, nothing in it is waited for that a run does not wait for. A probe
// is forward and backward of one micro-batch from a standing start to its end: tokens of the data
// in documents of other lengths, in full and half-full micro-batches, with many or few labelled, or
// a micro-batch of the last step once more. What a probe adds to the gradients the next step
// forgets.

#pragma once

#include "core/measured/pilot.h"
#include "core/trainers/steady.h"
#include "train/training.h"

struct pilot_steps {
    struct training *training;
    struct arena *arena;
    struct steady_step *steps; // on a clock that stands still while probes run
    size_t step_count, step_room;
    struct pilot_sample *of_steps; // what was in each step, all its micro-batches together
    double *micro_batches;         // of each step
    size_t of_room, micro_room;
    struct pilot_sample *samples; // probes
    size_t sample_count, sample_room;
    double clock_seconds, probe_seconds;
    int64_t next_probe, next_token;
    int64_t last_micro_batch; // of the last step; -1: none yet, or the epoch is over
    // The micro-batch of a probe.
    int32_t *ids, *positions, *rows, *targets;
    struct span *spans;
};

void pilot_steps_init(struct pilot_steps *steps, struct arena *arena, struct training *training);

enum err pilot_steps_worst(struct pilot_steps *steps); // is timed too
enum err pilot_steps_step(struct pilot_steps *steps);
enum err pilot_steps_probe(struct pilot_steps *steps);

// Seconds of an evaluated token: forward alone, over micro-batches of the epoch.
enum err pilot_steps_evaluate(struct pilot_steps *steps, double *seconds_per_token);

// Seconds of a step beyond what the fit says of its micro-batches: the median over the steps behind
// the first so many; not below zero, NAN without a fit.
double pilot_steps_update(const struct pilot_steps *steps, const struct pilot_fit *fit,
                          int64_t warmup, struct arena *arena);
