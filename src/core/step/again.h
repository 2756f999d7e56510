// SPDX-License-Identifier: Apache-2.0
// again: which operations of a layer an engine with levels of recomputation runs once more.
//
// Levels are those of recipe_checkpointing, none to full. Each recomputes what the one before does,
// and more: norms and activation functions, then gate and up, then the other products, then
// attention. What backward does not read is never recomputed for its own sake: the input of a
// frozen linear, which the next product alone reads.
//
//     int level = again_level(request, "mlp_norm"); // RECIPE_SELECTIVE, or RECIPE_GATE

#pragma once

#include "core/step/step.h"

enum { AGAIN_NEVER = RECIPE_AUTO }; // above all levels

// The lightest level that runs an operation of a layer again, by its name in the step list.
int again_level(const struct step_request *request, const char *name);
