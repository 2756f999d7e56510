// SPDX-License-Identifier: Apache-2.0
// plan_from: the options of a plan, filled from a trainer's configuration.
//
//     struct trainer_config config = { .arena = arena };
//     TRY(trainer_config_add(&config, &tree, "axolotl.yml"));
//     TRY(plan_from(&config, &request, PLAN_NOT_GIVEN));

#pragma once

#include "core/plan/plan.h"
#include "core/trainers/trainer_config.h"

// Replaces the request's defaults by the configuration's values, and notes contradictions. gpus is
// --gpus of the command line, which overrides the files, or PLAN_NOT_GIVEN.
enum err plan_from(struct trainer_config *config, struct plan_request *request, int64_t gpus);
