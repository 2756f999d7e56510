// SPDX-License-Identifier: Apache-2.0
// transformer_internal: what the files of the transformer share.

#pragma once

#include "train/transformer.h"

void transformer_run_forward(struct transformer *t, const struct micro_batch *batch);
void transformer_run_backward(struct transformer *t, const struct micro_batch *batch);

// Lists the parameters and layers of a model, without memory; gives them addresses in the blocks.
enum err transformer_list(struct transformer *t, struct arena *arena);
void transformer_place(struct transformer *t);

void transformer_note(struct transformer *t, const char *name, double flops);

// The stacked block [W B; A 0] of a projection; assembled in the workspace if W is in NF4.
struct tensor transformer_stacked(struct transformer *t, const struct projection *p);
