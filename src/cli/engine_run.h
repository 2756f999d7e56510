// SPDX-License-Identifier: Apache-2.0
// engine_run: describes a run of the built-in engine as a plan would, so that later plans can learn
// from it.
//
//     struct engine_run run = { .transformer = &t, .group = &group, .device = &device, … };
//     configuration.model = …;                            // what the caller knows stays
//     TRY(engine_run_describe(&configuration, &run, line));
//     TRY(engine_run_roofline(&tokens_per_s, &configuration, &run, line));
//
// The ledger and plans compare runs by model, GPU, layout, recipe and lengths. Pilots and runs of
// the engine take them from here.

#pragma once

#include "cli/command.h"
#include "core/measured/pilot.h"
#include "core/step/step.h"
#include "train/arrange.h"
#include "train/device.h"
#include "train/group/group.h"

struct engine_run {
    const struct transformer *transformer;
    const struct group *group;
    const struct device *device;
    const struct arrangement *arrangement;
    double accumulation;     // micro-batches of a step, over all ranks
    struct step_batch batch; // the mean micro-batch
};

// What ran, which may differ from what was asked for: the GPUs here, and settings that fit their
// memory.
enum err engine_run_describe(struct pilot_configuration *out, const struct engine_run *run,
                             const struct command_line *line);

// Tokens/s by the roofline of a supervised run; NAN on a CPU and on GPUs that are not in the
// catalog.
enum err engine_run_roofline(double *out, const struct pilot_configuration *configuration,
                             const struct engine_run *run, const struct command_line *line);
