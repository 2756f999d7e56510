// training: a whole run: steps, schedule, evaluation, metrics, checkpoints, resumption.
//
//     struct training training = { .settings = training_default(), .transformer = &t,
//                                .loader = &loader, .out = "adapters" };
//     TRY(training_plan(&training));            // how many steps
//     TRY(training_resume(&training, arena));   // from the newest checkpoint, if there is one
//     TRY(training_run(&training));
//
// A step sums the loss of its micro-batches and divides once by the labelled tokens of all of them,
// over all processes: how they are split changes nothing but rounding. Between steps the state is
// whole; a signal is answered there, after a checkpoint. metrics.jsonl has one object a step.
// Dropout's masks follow from seed, step and micro-batch: there is no generator to save.

#pragma once

#include "train/checkpoint.h"
#include "train/group.h"
#include "train/loader.h"
#include "train/schedule.h"

struct training_settings {
    double epochs;
    int64_t max_steps;    // 0: as the epochs say
    int64_t accumulation; // micro-batches a step, over all processes
    double rate;          // learning rate
    int schedule;         // enum schedule_kind
    double warmup;        // share of the steps
    double lowest;        // share of the rate at the end
    double decay;         // of weights
    double beta1, beta2, epsilon, momentum;
    double clip; // norm of the gradient; 0: none
    int64_t seed;
    int64_t evaluate_every, save_every; // steps; 0: at the end alone
    int64_t keep;                       // checkpoints
};
extern const struct field training_fields[];

struct training_settings training_default(void);

struct training_report { // of one step
    int64_t step, steps;
    double epoch;
    double loss;            // mean over the labelled tokens
    double held_out_loss;   // NAN where it was not evaluated
    double rate, norm;      // learning rate; of the gradient, before clipping
    int64_t trained_tokens; // of this step, over all processes
    int64_t processed_tokens;
    double seconds; // of this step
    double flops;   // executed in it, by this process
};

struct training {
    struct training_settings settings;
    struct transformer *transformer;
    struct loader *loader;
    struct group group;
    const char *out;         // folder
    const char *fingerprint; // of what was asked for; a checkpoint of another is refused
    void *context;
    void (*report)(void *context, const struct training *training,
                   const struct training_report *report); // may be NULL
    volatile int *stop;                                   // set by a signal; may be NULL
    int64_t epoch_batches, epoch_steps, steps;            // planned
    struct checkpoint_state state;
    struct transformer_trace trace;
    bool is_stopped; // by a signal, before the end
};

enum err training_plan(struct training *training);
enum err training_resume(struct training *training, struct arena *arena);
enum err training_run(struct training *training);

// One step by itself, without evaluation, metrics and checkpoints: what a pilot times. Where *stop
// is set it may end before its update, and has not counted then.
enum err training_step(struct training *training, struct training_report *report);

// Mean loss on what is held out; NAN where nothing is.
enum err training_evaluate(struct training *training, double *loss);
