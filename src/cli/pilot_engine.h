// pilot_engine: the built-in pilot: a plan's configuration on the engine of this program.
//
//     struct pilot_engine_request request = pilot_engine_default();
//     request.plan = "plan.json";
//     const struct options groups[] = { { "Engine", pilot_engine_fields, &request },
//                                       { "Data", dataset_fields, &request.data }, … };
//     …
//     struct pilot pilot;
//     TRY(pilot_engine_run(&pilot, line, &request));    // prints progress alone
//     pilot_text(&pilot, arena, &out);
//
// Rows of the user's data (free words of the line, or --data) in packs of every composition, the
// worst first; without data, rows of random tokens with the lengths of the profile or the plan.
// Weights are those of the model's folder, else random. It ends when the rate is known well enough,
// or after the steps or the minutes; SIGINT and SIGTERM end it too, with what was measured by then.

#pragma once

#include "cli/command.h"
#include "cli/dataset.h"
#include "core/measured/pilot.h"

#define PILOT_ENGINE_MINUTES 10 // at most, where nothing else is given

struct pilot_engine_request {
    const char *rows;    // data set: file or folder; may be NULL
    const char *plan;    // plan.json; NULL: not given, which is refused
    const char *profile; // profile.json: lengths without data; may be NULL
    int device;          // of device_kinds
    int64_t steps;       // behind the warm-up; 0: until it is known well enough
    double minutes;      // at most; NAN: PILOT_ENGINE_MINUTES
    double wanted;       // half of the interval over the rate that is good enough
    double at_least;     // seconds of steady steps: clocks fall while a card warms
    int64_t seed;
    struct dataset_options data; // tokenizer, template, labels
};

// device, profile and seed; plan, steps and minutes are the command's own options.
extern const struct field pilot_engine_fields[];

struct pilot_engine_request pilot_engine_default(void);

// ERR_UNAVAILABLE where this machine lacks the device, ERR_DEVICE_MEMORY where the plan does not
// fit it.
enum err pilot_engine_run(struct pilot *out, struct command_line *line,
                          const struct pilot_engine_request *request);
