// SPDX-License-Identifier: Apache-2.0
// trainer_log: recognises training steps in the output of trainers.
//
// Takes a trainer's output byte by byte, with the caller's clock, and calls back for each event:
// steps, losses, token counters, evaluations, saves, errors. It knows tqdm bars, log dicts, JSON
// lines and the lines of Megatron, NeMo, litgpt, torchtune, Composer and others; a format is rows
// of the tables in trainer_log_tables.c. For other formats the user gives a pattern:
//
//     struct trainer_log log;
//     TRY(trainer_log_init(&log, arena, NULL, on_event, context));
//     trainer_log_feed(&log, bytes, size, seconds);   // whenever output arrives
//     trainer_log_end(&log);                          // the last line may lack its newline
//
// An event's `seconds` are those of the bytes that reported it. How the output is split into calls
// makes no difference. Memory is bounded: of a line only TRAINER_LOG_LINE bytes are read. `log`
// must not move; it keeps the arena.
//
// A pattern follows base/pattern.h. Its first capturing group is the step; groups may have names:
// (?<step>\d+) (?<total>…) (?<loss>…) (?<tokens>…) (?<seconds>…) (?<rate>…) (?<epoch>…).

#pragma once

#include "base/text.h"

enum { TRAINER_LOG_LINE = 16384 };

enum trainer_log_kind {
    TRAINER_LOG_BEGIN,  // steps count from `step` to `total`; steps before this event were not
                        // training: forget them
    TRAINER_LOG_STEP,   // `step` steps are done, one or several more than at the last event
    TRAINER_LOG_REPORT, // values without a new step: they belong to the steps up to the last
    TRAINER_LOG_EVALUATION_BEGIN,
    TRAINER_LOG_EVALUATION_END,
    TRAINER_LOG_SAVE, // a checkpoint is or was just written
    TRAINER_LOG_OUT_OF_MEMORY,
    TRAINER_LOG_ERROR, // another fatal error, in `line`
    TRAINER_LOG_END,   // the trainer reports that it is done
};

// What trainers of reinforcement learning time within a step. Some report sums of others: verl and
// NeMo-RL the passes one by one, OpenRLHF all that score answers as one.
enum trainer_log_phase {
    TRAINER_PHASE_ROLLOUT,
    TRAINER_PHASE_REWARD,
    TRAINER_PHASE_REFERENCE,
    TRAINER_PHASE_LOG_PROBABILITIES,
    TRAINER_PHASE_SCORING, // the two before and more, as one
    TRAINER_PHASE_VALUES,  // of the critic, before it is trained
    TRAINER_PHASE_CRITIC,
    TRAINER_PHASE_TRAINING,
    TRAINER_PHASE_WEIGHTS, // to the sampler
    TRAINER_PHASES,
};

// The values of an event, in base units; NAN: not reported.
struct trainer_log_event {
    enum trainer_log_kind kind;
    int rank;         // of a "[rank3]:" prefix; -1 without
    double seconds;   // the caller's clock at the last byte of it
    struct text line; // valid during the callback

    double step, total; // optimizer steps
    bool repeated;      // a second line of the same step
    double epoch;       // completed, with fraction
    double loss, rate;  // learning rate
    double evaluation_loss;
    double tokens;                 // so far, all GPUs
    double step_tokens;            // of one step, all GPUs
    double tokens_per_s;           // as the trainer reports, all GPUs
    double tokens_per_s_gpu;       // likewise, per GPU
    double samples;                // so far
    double global_batch;           // sequences per step
    double micro_batch;            // sequences of one GPU at a time
    double step_seconds;           // of one step, as the trainer reports
    double phases[TRAINER_PHASES]; // seconds of one step
    double answer_tokens;          // mean length of a sampled answer
    double peak_bytes;             // of GPU memory, as the trainer reports
    double elapsed_seconds;        // since the first step, as the trainer reports
    double run_seconds;            // of the whole training, reported at its end
    double clock_seconds;          // the trainer's own time stamp, Unix time
};

typedef void trainer_log_callback(void *context, const struct trainer_log_event *event);

struct trainer_log {
    struct arena *arena;
    struct trainer_log_pattern *pattern; // the user's
    trainer_log_callback *call;
    void *context;

    char line[TRAINER_LOG_LINE];
    size_t size;
    size_t used;         // bytes of the line already read
    size_t bar;          // position after a "%|": a bar may follow
    int escape;          // state inside an ANSI code
    int rank;            // of this line
    double line_seconds; // time of its last byte

    int source;         // of step numbers: a bar, numbered lines, the user's pattern
    int counted_rank;   // the rank whose steps count; -1 without ranks
    double step, total; // the last step reported; NAN before the first
    double stride;      // the most steps from one number to the next; 0 before the second
    double held;        // a number far beyond that, until the next one confirms it; NAN
    double former;      // the last step before a number that was less than half of it; NAN
    bool ranks_apart;   // such numbers are of ranks that are behind
    int64_t behind;     // how many came since the last step
    double announced;   // total steps given in a banner
    double rows, ranks; // likewise: sequences per step; GPUs that share them
    double micro_batch; // likewise
    double gathered;    // likewise: micro-batches of a step
    double
        steps_per_epoch; // as planned, for logs that count neither; NAN: unknown. Set by the caller
    double epochs;       // likewise
    double
        accumulation; // micro-batches of a step, for bars that count them; NAN: unknown. Likewise
    bool in_batches;  // such a bar counts
    double bar_at, bar_total, bar_offset; // the training bar, and the steps of earlier epochs
    double bar_seconds;                   // that it shows as elapsed; NAN
    double other_at, other_total;         // another bar seen meanwhile
    double other_seconds;   // likewise; NAN: there is none of the training bar's total
    double heading;         // step named above the block of its values; NAN
    double evaluation_loss; // the last
    bool evaluates, reported, ended, in_block, in_traceback;
};

enum err trainer_log_init(struct trainer_log *log, struct arena *arena, const char *pattern,
                          trainer_log_callback *call, void *context);
void trainer_log_feed(struct trainer_log *log, const char *bytes, size_t size, double seconds);
void trainer_log_end(struct trainer_log *log);

const char *trainer_log_kind_name(enum trainer_log_kind kind); // "step", "evaluation_begin"
