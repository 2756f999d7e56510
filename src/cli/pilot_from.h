// SPDX-License-Identifier: Apache-2.0
// pilot_from: reads the configuration of a wrapped trainer: its settings and tokens per step.
//
//     struct pilot_from request = { .from = &from, .profile = "profile.json", .gpus = 8 };
//     struct outlook_plan plan;
//     TRY(pilot_from_read(&plan, line, &request));
//     outlook_step_tokens(&plan) …
//
// Of the plan only the configuration and the tokens per step are filled. Packed rows and rows
// padded to the context have context × rows tokens; other batches are simulated on the lengths of a
// profile. Without one the tokens per step are NAN, and the trainer's counters or --tokens-per-step
// are needed.

#pragma once

#include "cli/from.h"
#include "core/forecast/outlook.h"

struct pilot_from {
    struct from *from;
    const char *profile; // profile.json; may be NULL
    int64_t gpus;        // of the command line; PLAN_NOT_GIVEN: of the configuration
};

enum err pilot_from_read(struct outlook_plan *out, struct command_line *line,
                         const struct pilot_from *request);
