// SPDX-License-Identifier: Apache-2.0
// pilot_forecast: shows how a pilot changes the forecast of its plan.
//
//     pilot_forecast_put(&out, line, "plan.json", &pilot, "pilot.json");
//
//       before   12.4 GPU hours (80 % range 9.1 – 17.0), 12 h 24 min
//       after    10.9 GPU hours (80 % range 10.6 – 11.3), 10 h 54 min
//
// Before: from the plan's document. After: the same plan with the pilot. If that is not possible,
// the line tells why; the measurement is not lost.

#pragma once

#include "cli/command.h"
#include "core/measured/pilot.h"

void pilot_forecast_put(struct out *out, struct command_line *line, const char *plan_path,
                        const struct pilot *pilot, const char *pilot_name);
