// SPDX-License-Identifier: Apache-2.0
// pilot_steps: times the steps of a run, and between them micro-batches of varied composition.
//
//     struct pilot_steps steps;
//     pilot_steps_init(&steps, arena, &training);        // after training_plan()
//     TRY(pilot_steps_worst(&steps));                   // the micro-batch that needs most memory
//     while (…) {
//         TRY(pilot_steps_step(&steps));                // as in the run itself
//         TRY(pilot_steps_probe(&steps));               // a single micro-batch
//     }
//     TRY(pilot_steps_evaluate(&steps, &seconds_per_token));
//
// A step is training_step(): it waits for nothing that a run does not wait for. A probe is forward
// and backward of one micro-batch on an idle device: tokens of the data in documents of other
// lengths, in full and partly filled micro-batches, with many or few labelled tokens, or a
// micro-batch of the last step repeated. The next step clears the gradients that a probe adds.

#pragma once

#include "core/measured/pilot.h"
#include "core/trainers/steady.h"
#include "train/training.h"

struct pilot_steps {
    struct training *training;
    struct arena *arena;
    struct steady_step *steps; // on a clock that stops during probes
    size_t step_count, step_room;
    struct pilot_sample *of_steps; // composition of each step, over all its micro-batches
    double *micro_batches;         // of each step
    size_t of_room, micro_room;
    struct pilot_sample *samples; // probes
    size_t sample_count, sample_room;
    double clock_seconds, probe_seconds;
    struct group_seconds between; // ranks, in all steps
    int64_t next_probe, next_token;
    int64_t last_micro_batch; // of the last step; -1: none yet, or a new epoch began
    // The micro-batch of a probe.
    int32_t *ids, *positions, *rows, *targets;
    struct span *spans;
};

void pilot_steps_init(struct pilot_steps *steps, struct arena *arena, struct training *training);

enum err pilot_steps_worst(struct pilot_steps *steps); // also timed
enum err pilot_steps_step(struct pilot_steps *steps);
enum err pilot_steps_probe(struct pilot_steps *steps);

// Seconds per evaluated token: forward only, over micro-batches of the epoch.
enum err pilot_steps_evaluate(struct pilot_steps *steps, double *seconds_per_token);

// Seconds of a step beyond its micro-batches, as the fit predicts them: the median over the steps
// after the warm-up; at least 0; NAN without a fit.
double pilot_steps_update(const struct pilot_steps *steps, const struct pilot_fit *fit,
                          int64_t warmup, struct arena *arena);
