// SPDX-License-Identifier: Apache-2.0
// pilot_engine: the built-in pilot: runs a plan's configuration on the built-in engine.
//
//     struct pilot_engine_request request = pilot_engine_default();
//     request.plan = "plan.json";
//     const struct options groups[] = { { "Engine", pilot_engine_fields, &request },
//                                       { "Data", dataset_fields, &request.data }, … };
//     …
//     struct pilot pilot;
//     TRY(pilot_engine_run(&pilot, line, &request));    // prints only progress
//     pilot_text(&pilot, arena, &out);
//
// Trains on the user's data (words of the command line, or --data) in packs of every composition,
// the longest first; without data, on random tokens with the lengths of the profile or the plan.
// Weights are those of the model's folder, or random. Ends when the rate is known well enough, or
// after the given steps or minutes; SIGINT and SIGTERM end it too, with the result so far.

#pragma once

#include "cli/command.h"
#include "cli/dataset/dataset.h"
#include "core/measured/pilot.h"

#define PILOT_ENGINE_MINUTES 10 // at most, where nothing else is given

struct pilot_engine_request {
    const char *rows;    // data set: file or folder; may be NULL
    const char *plan;    // plan.json; NULL is refused
    const char *profile; // profile.json: lengths without data; may be NULL
    int device;          // of device_kinds
    int64_t steps;       // after the warm-up; 0: until the rate is known well enough
    double minutes;      // at most; NAN: PILOT_ENGINE_MINUTES
    double wanted;       // target of the relative half-width of the interval
    double at_least;     // seconds of steady steps: clocks drop while a GPU heats up
    int64_t seed;
    int64_t ranks;               // processes to start on this host; 0: those of a launcher, or one
    struct dataset_options data; // tokenizer, template, labels
};

// device, profile and seed; the command itself has plan, steps and minutes.
extern const struct field pilot_engine_fields[];

struct pilot_engine_request pilot_engine_default(void);

// ERR_UNAVAILABLE if this machine lacks the device, ERR_MEMORY if the plan does not fit.
// *is_told: another rank has the result, or has said why there is none.
enum err pilot_engine_run(struct pilot *out, struct command_line *line,
                          const struct pilot_engine_request *request, bool *is_told);
