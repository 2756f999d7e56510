// wrapped: a trainer under watch: what it prints and writes becomes steps, its GPUs are sampled.
//
//     struct wrapped run;
//     struct wrapped_settings settings = { .command = line->rest, .pattern = …, .log = … };
//     TRY(wrapped_start(&run, arena, &settings));
//     while (wrapped_poll(&run))                   // about ten times a second
//         if (enough(wrapped_steady(&run)))
//             wrapped_stop(&run);
//     wrapped_finish(&run);                        // run.end, run.child, run.steady tell
//     …
//     wrapped_end(&run);
//
// Steps come from what is printed and from the files of --log; the source that has told most
// steps speaks, what is printed before files. Times are those at which bytes were read here.

#pragma once

#include "cli/status_line.h"
#include "core/trainers/step_series.h"
#include "host/follow.h"
#include "host/gpu.h"

struct wrapped_settings {
    char **command;
    const char *pattern; // of the user, for trainers that are not known; may be NULL
    const char *log;     // file or folder to follow; may be NULL
    enum child_manner manner;
    double grace_seconds;
    double silent_seconds; // without output and steps, until it is stopped; INFINITY: never
    double sample_seconds; // between looks at the GPUs
    double step_tokens;    // NAN: as the trainer says
    int gpus;              // that train; 0: those seen at work
    struct steady_rule rule;
    bool json, quiet; // standard output is ours alone; no status line
};

enum wrapped_how { WRAPPED_ENDED, WRAPPED_STOPPED, WRAPPED_SILENT, WRAPPED_INTERRUPTED };

struct wrapped_source { // what is printed, or a file
    struct trainer_log log;
    struct step_series series;
    double begin_seconds;  // of the first step, where the trainer shows it; NAN
    double offset_seconds; // from its clock to ours
    const char *path;      // NULL: what is printed
    char *pending;         // the begin of a record that is not yet whole
    size_t pending_size;
};

struct wrapped {
    struct wrapped_settings settings;
    struct arena *arena;
    struct child child;
    struct status_line status;
    struct follow follow;
    struct gpu_monitor *gpu; // NULL: there is none, and no_gpu says why
    const char *no_gpu;
    struct wrapped_source *printed, *files[FOLLOW_FILES];
    const struct wrapped_source *speaker;
    struct steady steady;
    struct arena scratch; // of the newest steady
    int last_stream;
    bool line_open; // the last stream's last byte ended no line
    double looked_seconds, allowance_bytes, unseen_bytes; // of output, see afford()
    double began_seconds, ended_seconds, step_seconds, followed_seconds;
    double measured_seconds, measuring_seconds; // when last, and how long it took
    enum wrapped_how how;
};

enum err wrapped_start(struct wrapped *run, struct arena *arena,
                       const struct wrapped_settings *settings);
bool wrapped_poll(struct wrapped *run); // false when nothing of the trainer is left
void wrapped_stop(struct wrapped *run); // enough is known

// The newest measurement, at most twice a second a new one.
const struct steady *wrapped_steady(struct wrapped *run);

void wrapped_finish(struct wrapped *run); // the last measurement, over everything
void wrapped_end(struct wrapped *run);

double wrapped_steps(const struct wrapped *run); // done, as the trainer counts them
int wrapped_gpus(const struct wrapped *run);     // at work on this machine; 0: none seen
bool wrapped_uses(const struct wrapped *run, int device);
double wrapped_elapsed(const struct wrapped *run);

// Sentences on what a person should know of how it ended: had to be killed, left processes …
void wrapped_remarks(const struct wrapped *run, struct arena *arena, struct out *out);
