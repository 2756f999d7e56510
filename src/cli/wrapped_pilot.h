// wrapped_pilot: what a wrapped run measured, as the document of a pilot.

#pragma once

#include "cli/wrapped.h"
#include "core/forecast/outlook.h"

// After wrapped_finish(). The configuration is the plan's, where there is one: plan may be NULL.
void wrapped_pilot_fill(struct pilot *out, struct arena *arena, const struct wrapped *run,
                        const struct outlook_plan *plan);

// The GPUs at work while the steady steps ran.
void wrapped_pilot_gpus(struct pilot *out, struct arena *arena, const struct wrapped *run);
