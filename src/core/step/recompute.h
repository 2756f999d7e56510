// SPDX-License-Identifier: Apache-2.0
// recompute: which operations of a layer each level of recomputation computes again in backward.
//
// Levels are those of recipe_checkpointing, none to full. Each recomputes what the one before does,
// and more: norms and activation functions, then gate and up, then the other products, then
// attention. An output that backward does not read is not recomputed for its own sake: the input of
// a frozen linear, for example, is read by the forward product alone. This is for stacks with all
// of these levels (struct stack, partial); others have two.
//
//     int level = recompute_level(request, "mlp_norm"); // RECIPE_SELECTIVE, or RECIPE_GATE

#pragma once

#include "core/step/step.h"

enum { RECOMPUTE_NEVER = RECIPE_AUTO }; // above all levels

// The lightest level that runs an operation of a layer again, by its name in the step list.
int recompute_level(const struct step_request *request, const char *name);

// Whether selective recomputation computes a forward operation again. products: how many the layer
// has had with it, those of experts left out.
bool recompute_again(const struct step_request *request, const struct step_op *op, bool of_experts,
                     int products);

// Bytes that it keeps of an operation. A compiler leaves out the output of the layer's last
// product, which backward does not read.
double recompute_kept(const struct step_request *request, const struct step_op *op, bool again,
                      bool is_last);

// Hidden states that it keeps of a layer beside these.
double recompute_states(const struct step_request *request);
