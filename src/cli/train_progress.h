// train_progress: what a person sees of a run: its plan, a line while it goes, its result.
//
//     step 12/300  loss 1.284  16,400 tok/s  558 TFLOP/s, 71 %  89.5 GiB  690 W  1,410 MHz
//     0.02 of 0.41 GPU hours  3 min left
//
// Tokens are those processed; the share is of what the device's own matrix product reaches,
// measured for a moment at the start. Memory, power and clock are the driver's (NVML), where there
// is one. The line shows on a terminal only; with --json each step is a line on standard output.

#pragma once

#include "cli/command.h"
#include "host/gpu.h"
#include "train/training.h"

struct train_progress {
    bool on, json, explain, silent; // silent: not the first of several processes
    double limit_flops_per_s;       // of one process
    struct gpu_monitor *monitor;    // NULL: no NVML, or no GPU
    int gpu;
    double last_seconds;
    int64_t first_step; // of this start
    double seconds;     // of the steps since then
};

// Before the device's memory is taken: the limit needs some for a moment.
struct train_progress train_progress_start(const struct command_line *line, struct device *device,
                                           int rank);
void train_progress_plan(struct train_progress *progress, const struct training *training);
void train_progress_report(void *progress, const struct training *training,
                           const struct training_report *report);
void train_progress_end(struct train_progress *progress);
void train_progress_result(const struct train_progress *progress, const struct training *training);
