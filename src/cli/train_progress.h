// train_progress: what a person sees of a run: its plan, a line while it goes, its result.
//
//     step 12/300  loss 1.284  812 tok/s trained, 1,204 processed  61 % of the limit
//     0.02 GPU hours of 0.41  3 min left
//
// The limit is what the machine's own matrix product reaches, measured for a moment at the start.
// The line shows on a terminal only; with --json each step is a line on standard output.

#pragma once

#include "cli/command.h"
#include "train/trainer.h"

struct train_progress {
    bool on, json, explain, silent; // silent: not the first of several processes
    double limit_flops_per_s;       // of one process
    double last_seconds;
    int64_t first_step; // of this start
    double seconds;     // of the steps since then
};

struct train_progress train_progress_start(const struct command_line *line, struct device *device,
                                           int rank);
void train_progress_plan(struct train_progress *progress, const struct trainer *trainer);
void train_progress_report(void *progress, const struct trainer *trainer,
                           const struct trainer_report *report);
void train_progress_end(struct train_progress *progress);
void train_progress_result(const struct train_progress *progress, const struct trainer *trainer);
