// SPDX-License-Identifier: Apache-2.0
// schedule: the learning rate of each step: warm-up, then constant, linear or cosine decay.
//
// As transformers' get_scheduler: step s (from 0) has rate · s / warmup_steps during the warm-up;
// then the rate falls from rate to lowest · rate over the remaining steps.

#pragma once

#include <stdint.h>

enum schedule_kind { SCHEDULE_COSINE, SCHEDULE_LINEAR, SCHEDULE_CONSTANT };
extern const char *const schedule_names[]; // ended by NULL

struct schedule {
    int kind; // enum schedule_kind
    double rate;
    double lowest; // share of rate at the end
    int64_t warmup_steps, steps;
};

double schedule_rate(const struct schedule *schedule, int64_t step);
