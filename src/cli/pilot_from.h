// pilot_from: what a trainer's configuration tells a pilot around that trainer.
//
//     struct pilot_from request = { .from = &from, .profile = "profile.json", .gpus = 8 };
//     struct outlook_plan plan;
//     TRY(pilot_from_read(&plan, line, &request));
//     outlook_step_tokens(&plan) …
//
// The plan has the configuration and the tokens of a step alone. Packed rows and rows padded to the
// context have context × rows; other batches are simulated on the lengths of a profile, and without
// one the tokens of a step are NAN: the trainer's own counters or --tokens-per-step say them.

#pragma once

#include "cli/from.h"
#include "core/forecast/outlook.h"

struct pilot_from {
    struct from *from;
    const char *profile; // profile.json; may be NULL
    int64_t gpus;        // of the command line; PLAN_NOT_GIVEN: as the configuration says
};

enum err pilot_from_read(struct outlook_plan *out, struct command_line *line,
                         const struct pilot_from *request);
