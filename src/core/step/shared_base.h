// SPDX-License-Identifier: Apache-2.0
// shared_base: the frozen base of adapters, of which every GPU keeps a part of each layer.
//
// Our own engine's ZeRO-3 (src/train/transformer_base.c): the linears of the layers are divided
// among the GPUs, and two layers are gathered at any time. Every GPU has all of the embedding,
// head, norms and routers, and of the adapters with their gradients; moments of adapters are
// divided, unless the embedding is trained too. Gradients are summed once a step, as under DDP.

#pragma once

#include "core/step/step.h"

bool shared_base(const struct step_request *request); // whether this step runs so

double shared_base_weights(const struct step_request *request); // of the linears of one layer
double shared_base_bytes(const struct step_request *request);   // of each of them
