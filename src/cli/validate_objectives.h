// SPDX-License-Identifier: Apache-2.0
// validate_objectives: how far forecasts of reinforcement learning are from published steps.

#pragma once

#include "core/measured/rl_run.h"

enum err validate_put_objectives(struct arena *arena, const struct validate_model *model, bool rows,
                                 struct out *out);
