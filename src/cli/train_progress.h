// SPDX-License-Identifier: Apache-2.0
// train_progress: what train prints: the plan of the run, a progress line, the result.
//
//     step 12/300  loss 1.284  16,400 tok/s  558 TFLOP/s, 71 %  89.5 GiB  690 W  1,410 MHz
//     0.02 of 0.41 GPU hours  3 min left
//
// Tokens are processed tokens; the percentage is of the speed of a large matrix product, measured
// at the start. Memory, power and clock come from NVML where it exists. The line is shown on
// terminals only. On a CPU the hours are called device hours.
//
// With --json all is lines on standard output: {"kind":"train", …} with the plan of the run, an
// object per step, and {"kind":"trained", …} at the end, also when a signal stopped the run.

#pragma once

#include "cli/command.h"
#include "host/gpu.h"
#include "train/training.h"

// Seconds of a start until its first step is done.
struct train_start {
    double prepare; // model files checked, data read, device opened
    double weights; // memory allocated, weights on the device
    double tuning;
    double first_step;
};

struct train_progress {
    bool on, json, explain, silent; // silent: not the first of several processes
    double limit_flops_per_s;       // of one process
    struct gpu_monitor *monitor;    // NULL: no NVML, or no GPU
    int gpu;
    double last_seconds;
    int64_t read_bytes, most_bytes;     // of data files: by all ranks, by the one that read most
    int64_t first_step;                 // of this start
    double seconds;                     // of the steps since then
    struct group_seconds between;       // ranks, in these steps
    struct training_report first, last; // of this start that had a loss
    bool reported;                      // first and last are set
    struct train_start start;
};

// Call before the device's memory is allocated: measuring the limit needs some.
struct train_progress train_progress_start(const struct command_line *line, struct device *device,
                                           int rank);
void train_progress_plan(struct train_progress *progress, const struct training *training);
void train_progress_report(void *progress, const struct training *training,
                           const struct training_report *report);
void train_progress_end(struct train_progress *progress);
double train_progress_start_seconds(const struct train_start *start); // of all parts
// Of a run that a signal stopped, with --json only.
void train_progress_result(const struct train_progress *progress, const struct training *training);
