// SPDX-License-Identifier: Apache-2.0
// training: a whole training run: steps, schedule, evaluation, metrics, checkpoints, resuming.
//
//     struct training training = { .settings = training_default(), .transformer = &t,
//                                .loader = &loader, .out = "adapters" };
//     TRY(training_plan(&training));            // how many steps
//     TRY(training_resume(&training, arena));   // from the newest checkpoint, if there is one
//     TRY(training_run(&training));
//
// A step sums the losses of its micro-batches and divides once by their labelled tokens, or by
// their pairs in preference tuning, over all ranks: how a batch is split changes only rounding.
// Signals are handled between steps, after a checkpoint. metrics.jsonl has one object per step.
// Dropout masks depend only on seed, epoch and micro-batch: there is no generator state to save.
// Products that wait for their tuning are tried between steps, for at most a fifth of the steps'
// time: tuning that takes 10 s is spread over the first 50.

#pragma once

#include "train/checkpoint.h"
#include "train/group/group.h"
#include "train/loader.h"
#include "train/schedule.h"

struct training_settings {
    double epochs;
    int64_t max_steps;    // 0: given by epochs
    int64_t accumulation; // micro-batches per step, over all ranks
    double rate;          // learning rate
    int schedule;         // enum schedule_kind
    double warmup;        // share of the steps
    double lowest;        // final rate as a share of rate
    double decay;         // of weights
    double beta1, beta2, epsilon, momentum;
    double clip; // largest norm of the gradient; 0: no clipping
    int64_t seed;
    int64_t evaluate_every, save_every; // steps; 0: only at the end
    int64_t keep;                       // checkpoints
};
extern const struct field training_fields[];

struct training_settings training_default(void);
enum err training_check(const struct training_settings *settings); // ERR_USAGE: out of range

struct training_report { // of one step
    int64_t step, steps;
    double epoch;
    double loss;            // mean over the labelled tokens, or pairs; NAN: there are none
    double held_out_loss;   // NAN: not evaluated at this step
    double rate, norm;      // learning rate; of the gradient, before clipping; NAN: no labels
    int64_t trained_tokens; // of this step, over all ranks
    int64_t processed_tokens;
    double seconds;                               // of this step
    double communication_seconds, waited_seconds; // see group_seconds()
    double flops;                                 // executed by this rank
    // Of pairs, on average; NAN: there are none. The reward of an answer is what its
    // log-probability gained over the reference's, times beta.
    double reward_chosen, reward_rejected, reward_margin;
    double reward_accuracy; // pairs whose chosen answer has the larger reward, as a share
};

struct training {
    struct training_settings settings;
    struct transformer *transformer;
    struct loader *loader;
    struct group *group;
    const char *out; // folder
    const char
        *fingerprint; // options that a resumed run must share, as JSON; see training_resume()
    void *context;
    void (*report)(void *context, const struct training *training,
                   const struct training_report *report); // may be NULL
    volatile int *stop;                                   // set by a signal; may be NULL
    int64_t epoch_batches, epoch_steps, steps;            // planned
    double step_seconds, tuning_seconds; // of this start: in steps; between them, in trials
    struct checkpoint_state state;
    struct transformer_trace trace;
    const char *note; // of training_resume(): which checkpoints were damaged; NULL: none
    bool is_stopped;  // by a signal, before the end
};

enum err training_plan(struct training *training);
// Continues from the newest checkpoint in `out`, if there is one. A checkpoint of a run with other
// options is refused, and the options that differ are named.
enum err training_resume(struct training *training, struct arena *arena);
enum err training_run(struct training *training);

// A single step without evaluation, metrics and checkpoints, as a pilot times it. If *stop is set,
// it may end before the update and then does not count.
enum err training_step(struct training *training, struct training_report *report);

// Mean loss on the held-out examples; NAN: there are none.
enum err training_evaluate(struct training *training, double *loss);
