// SPDX-License-Identifier: Apache-2.0
// transformer_internal: what the files of the transformer share.

#pragma once

#include "train/transformer.h"

void transformer_run_forward(struct transformer *t, const struct micro_batch *batch);
void transformer_run_backward(struct transformer *t, const struct micro_batch *batch);

// Lists the parameters and layers of a model, without memory; gives them addresses in the blocks.
enum err transformer_list(struct transformer *t, struct arena *arena);
void transformer_place(struct transformer *t);

// The linears of a layer, before they are used, and the layer after it, which is gathered meanwhile
// (transformer_base.c); does nothing unless ranks share the base.
void transformer_fetch(struct transformer *t, int64_t layer, int64_t next);
// Before a weight is set: its layer gets a place that weights can be set in.
void transformer_hold(struct transformer *t, int64_t layer); // −1: only ends the last one
bool transformer_is_in_base(const struct transformer *t, const struct parameter_group *group);

// The gradients of a piece (transformer_shard.c) are complete: the last micro-batch has passed it.
enum { TRANSFORMER_EMBEDDING = -1 }; // beside the layers, and the number of layers for what follows
void transformer_completed(struct transformer *t, int64_t layer);

const struct parameter_group *transformer_group_of(const struct transformer *t,
                                                   const struct parameter *p);

void transformer_note(struct transformer *t, const char *name, double flops);

// The stacked block [W B; A 0] of a projection; assembled in the workspace if W is in NF4.
struct tensor transformer_stacked(struct transformer *t, const struct projection *p);
