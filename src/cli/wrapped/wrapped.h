// SPDX-License-Identifier: Apache-2.0
// wrapped: runs a trainer, turns its output and files into steps, and samples its GPUs.
//
//     struct wrapped run;
//     struct wrapped_settings settings = { .command = line->rest, .pattern = …, .log = … };
//     TRY(wrapped_start(&run, arena, &settings));
//     while (wrapped_poll(&run))                   // about ten times a second
//         if (enough(wrapped_steady(&run)))
//             wrapped_stop(&run);
//     wrapped_finish(&run);                        // then see run.how, run.child, run.steady
//     …
//     wrapped_end(&run);
//
// Steps come from the printed output and from the files of --log; the source with the most steps is
// used, the output in a tie. Times are those at which the bytes arrived here.

#pragma once

#include "cli/terminal/status_line.h"
#include "core/data/packing.h"
#include "core/trainers/step_series.h"
#include "host/follow.h"
#include "host/gpu.h"

struct wrapped_settings {
    char **command;
    const char *pattern; // given by the user, for unknown trainers; may be NULL
    const char *log;     // file or folder to follow; may be NULL
    enum child_manner manner;
    double grace_seconds;
    double silent_seconds;  // without output and steps before it is stopped; INFINITY: never
    double sample_seconds;  // between samples of the GPUs
    double step_tokens;     // NAN: as the trainer reports, else as planned
    double planned_tokens;  // per step, on average; 0 or NAN: no plan
    double planned_rows;    // per step, over all GPUs; 0 or NAN: unknown
    double accumulation;    // of the plan, for bars that count micro-batches; 0 or NAN: unknown
    double steps_per_epoch; // of the plan, for logs without a count of steps; 0 or NAN: unknown
    int gpus;               // that train; 0: those seen in use
    struct steady_rule rule;
    const struct packing_sights *sights; // of widths, by steps; NULL: unknown
    bool json, quiet; // json: the trainer does not write to standard output; quiet: no status line
};

enum wrapped_how { WRAPPED_ENDED, WRAPPED_STOPPED, WRAPPED_SILENT, WRAPPED_INTERRUPTED };

struct wrapped_source { // the printed output, or a file
    struct trainer_log log;
    struct step_series series;
    double begin_seconds;  // of the first step, if the trainer reports it; NAN
    double offset_seconds; // from its clock to ours
    const char *path;      // NULL: the printed output
    char *pending;         // an incomplete record
    size_t pending_size;
};

struct wrapped {
    struct wrapped_settings settings;
    struct arena *arena;
    struct child child;
    struct status_line status;
    struct follow follow;
    struct gpu_monitor *gpu; // NULL: none, for the reason in no_gpu
    const char *no_gpu;
    struct wrapped_source *printed, *files[FOLLOW_FILES];
    const struct wrapped_source *source; // the one whose steps are used
    struct steady steady;
    struct arena scratch; // of the newest steady
    int last_stream;
    bool line_open; // the last stream's last byte was not a newline
    double looked_seconds, allowance_bytes, unseen_bytes; // of output, see afford()
    double began_seconds, ended_seconds, step_seconds, followed_seconds;
    bool follow_told;                           // that there are too many logs
    double measured_seconds, measuring_seconds; // time of the last measurement, and its duration
    enum wrapped_how how;
};

enum err wrapped_start(struct wrapped *run, struct arena *arena,
                       const struct wrapped_settings *settings);

// Reads the log of a run that is over, in place of everything from start to finish. The times are
// the log's own; GPUs, start-up and processes are unknown.
enum err wrapped_read(struct wrapped *run, struct arena *arena,
                      const struct wrapped_settings *settings);

bool wrapped_poll(struct wrapped *run); // false: no process of the trainer is left
void wrapped_stop(struct wrapped *run); // the measurement is good enough

// The newest measurement; renewed at most twice a second.
const struct steady *wrapped_steady(struct wrapped *run);

void wrapped_finish(struct wrapped *run); // the last measurement, over all steps
void wrapped_end(struct wrapped *run);

double wrapped_steps(const struct wrapped *run); // completed, as the trainer counts them
double wrapped_begun(const struct wrapped *run); // of them, before it resumed there
int wrapped_gpus(const struct wrapped *run);     // in use on this machine; 0: none seen
bool wrapped_uses(const struct wrapped *run, int device);
double wrapped_elapsed(const struct wrapped *run);

// Whether steps have so many tokens that they are not the plan's. Batches of random rows differ by
// a smaller factor.
#define WRAPPED_DEPARTS 1.5
bool wrapped_departs(const struct wrapped *run, double step_tokens);

// Messages about how it ended: had to be killed, left processes …
void wrapped_remarks(const struct wrapped *run, struct arena *arena, struct out *out);

// Says that steps may be micro-batches, where nothing tells how many make a step.
void wrapped_remark_batches(const struct wrapped *run, struct out *out);
