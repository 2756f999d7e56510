// trainer_log: recognises training steps in what trainers print.
//
// Takes the bytes of a trainer's output as they come, with the caller's clock, and calls back for
// what is in them: steps, losses, token counters, evaluations, saves, errors. It knows tqdm bars,
// log dicts, JSON lines and the lines of Megatron, NeMo, litgpt, torchtune, Composer and others;
// a format is rows of the tables in trainer_log_tables.c. For the rest the user gives a pattern:
//
//     struct trainer_log log;
//     TRY(trainer_log_init(&log, arena, NULL, on_event, context));
//     trainer_log_feed(&log, bytes, size, seconds);   // as often as something comes
//     trainer_log_end(&log);                          // a last line may lack its end
//
// A step may be seen later than it happened, but its `seconds` are those of the bytes that told
// it. How bytes are cut into calls makes no difference. Memory is bounded whatever comes: a line
// is looked at up to TRAINER_LOG_LINE bytes. `log` must not move; it keeps the arena.
//
// A pattern is as core/pattern.h knows it. Its first capturing group is the step; groups may also
// be named: (?<step>\d+) (?<total>…) (?<loss>…) (?<tokens>…) (?<seconds>…) (?<rate>…) (?<epoch>…).

#pragma once

#include "base/text.h"

enum { TRAINER_LOG_LINE = 16384 };

enum trainer_log_kind {
    TRAINER_LOG_BEGIN,  // steps are counted from `step` on, to `total`; what was counted before
                        // this was no training: forget its steps
    TRAINER_LOG_STEP,   // `step` steps are done; more than the last event said, maybe by several
    TRAINER_LOG_REPORT, // values without a new step: they belong to the steps up to the last
    TRAINER_LOG_EVALUATION_BEGIN,
    TRAINER_LOG_EVALUATION_END,
    TRAINER_LOG_SAVE, // a checkpoint is or was just written
    TRAINER_LOG_OUT_OF_MEMORY,
    TRAINER_LOG_ERROR, // another fatal one: `line` has it
    TRAINER_LOG_END,   // the trainer says that it is done
};

// What was said; NAN where nothing was. Trainers' own units are turned into base units.
struct trainer_log_event {
    enum trainer_log_kind kind;
    int rank;         // of a "[rank3]:" prefix; -1 without
    double seconds;   // the caller's clock at the last byte of it
    struct text line; // valid during the callback

    double step, total; // optimizer steps
    double epoch;       // done, with fractions
    double loss, rate;  // learning rate
    double evaluation_loss;
    double tokens;           // so far, all GPUs
    double step_tokens;      // of one step, all GPUs
    double tokens_per_s;     // as the trainer claims, all GPUs
    double tokens_per_s_gpu; // likewise, of one GPU
    double samples;          // so far
    double global_batch;     // sequences a step
    double step_seconds;     // of one step, as the trainer claims
    double peak_bytes;       // of GPU memory, as the trainer claims
    double elapsed_seconds;  // since the steps began, as the trainer shows
    double run_seconds;      // of the whole training, said at its end
    double clock_seconds;    // the trainer's own time stamp, Unix time
};

typedef void trainer_log_callback(void *context, const struct trainer_log_event *event);

struct trainer_log {
    struct arena *arena;
    struct trainer_log_pattern *pattern; // the user's
    trainer_log_callback *call;
    void *context;

    char line[TRAINER_LOG_LINE];
    size_t size;
    size_t used;         // bytes of the line that have been looked at
    size_t bar;          // behind a "%|" in the line: a bar may be on its way
    int escape;          // state inside an ANSI code
    int rank;            // of this line
    double line_seconds; // when its last byte came

    int source;         // what counts steps: a bar, numbered lines, the user's pattern
    int speaker;        // the rank whose steps count; -1 without ranks
    double step, total; // the last step told; NAN before the first
    double announced;   // total steps said in a banner
    double epochs;      // likewise
    double bar_at, bar_total, bar_offset; // the bar that counts, and the steps of its former rounds
    double other_at, other_total;         // the bar seen beside it
    double evaluation_loss;               // the last
    bool evaluates, reported, ended, in_block, in_traceback;
};

enum err trainer_log_init(struct trainer_log *log, struct arena *arena, const char *pattern,
                          trainer_log_callback *call, void *context);
void trainer_log_feed(struct trainer_log *log, const char *bytes, size_t size, double seconds);
void trainer_log_end(struct trainer_log *log);

const char *trainer_log_kind_name(enum trainer_log_kind kind); // "step", "evaluation_begin"
