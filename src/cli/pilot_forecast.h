// pilot_forecast: how a pilot changes the forecast of the plan it was made for.
//
//     pilot_forecast_put(&out, line, "plan.json", &pilot, "pilot.json");
//
//       before   12.4 GPU hours (9.1 to 17.0), 12 h 24 min
//       after    10.9 GPU hours (10.6 to 11.3), 10 h 54 min
//
// Before is what the document says; after, the plan made again from it with the pilot. Where that
// cannot be done, the line says why: a measurement is not lost to it.

#pragma once

#include "cli/command.h"
#include "core/measured/pilot.h"

void pilot_forecast_put(struct out *out, struct command_line *line, const char *plan_path,
                        const struct pilot *pilot, const char *pilot_name);
