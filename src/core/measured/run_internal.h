// SPDX-License-Identifier: Apache-2.0
// run_internal: what the files of run share.

#pragma once

#include "core/measured/run.h"

// Words of columns that have no value of their own in a recipe or a stack.
enum run_loss {
    RUN_LOSS_UNSAID,
    RUN_PLAIN,     // eager, logits in fp32
    RUN_COMPILED,  // the same, compiled
    RUN_FUSED,     // one kernel over whole logits
    RUN_CHUNKED,   // logits in pieces
    RUN_WITH_HEAD, // the head is part of it: Liger, cut cross entropy
};

// The usual spread of the logarithm of lengths, where a source gives the mean alone: the middle of
// the data sets of core/forecast/workload.c, and their ninth decile.
static const double RUN_LENGTH_SPREAD = 0.59, RUN_LONG_TAIL = 1.054;

// Reads "optimizer+activations"; NULL offloads nothing.
enum err run_offload(struct layout *out, const char *cell);
