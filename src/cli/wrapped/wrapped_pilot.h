// SPDX-License-Identifier: Apache-2.0
// wrapped_pilot: makes the document of a pilot from a wrapped run.

#pragma once

#include "cli/wrapped/wrapped.h"
#include "core/forecast/outlook.h"

// Call after wrapped_finish(). The configuration is the plan's; plan may be NULL. as_of stays open.
void wrapped_pilot_fill(struct pilot *out, struct arena *arena, const struct wrapped *run,
                        const struct outlook_plan *plan);
