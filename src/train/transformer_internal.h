// transformer_internal: what the files of the transformer share.

#pragma once

#include "train/transformer.h"

void transformer_run_forward(struct transformer *t, const struct micro_batch *batch);
void transformer_run_backward(struct transformer *t, const struct micro_batch *batch);

// The parameters and layers of a model, without memory; and their places in the blocks.
enum err transformer_list(struct transformer *t, struct arena *arena);
void transformer_place(struct transformer *t);

void transformer_note(struct transformer *t, const char *name, double flops);

// The weight of a linear as a tensor, dequantised into the workspace where it must be.
struct tensor transformer_weight(struct transformer *t, const struct parameter *weight);
