// SPDX-License-Identifier: Apache-2.0
// transformer_internal: what the files of the transformer share.

#pragma once

#include "train/files/adapter_file.h"
#include "train/transformer.h"

static inline const struct backend *ops(const struct transformer *t)
{
    return t->device->backend;
}

// The rows of this micro-batch; tensors have room for the largest one.
static inline struct tensor first_rows(struct tensor tensor, int64_t rows)
{
    return tensor.at ? tensor_rows(tensor, 0, rows) : tensor;
}

// Whether the value is a copy of the master, in another type or place.
static inline bool parameter_is_copied(const struct parameter *p)
{
    return p->master.at && p->value.at && p->master.at != p->value.at;
}

void transformer_run_forward(struct transformer *t, const struct micro_batch *batch);
void transformer_run_backward(struct transformer *t, const struct micro_batch *batch);

// Lists the parameters and layers of a model, without memory; gives them addresses in the blocks.
enum err transformer_list(struct transformer *t, struct arena *arena);
void transformer_place(struct transformer *t);

struct adapter_file_config transformer_adapter_config(const struct recipe *recipe);

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

// --- projections (transformer_run.c) -----------------------------------------

// y = x Wᵀ + z Bᵀ + bias. x is (rows, in + rank); its last columns become z.
void transformer_project(struct transformer *t, const struct micro_batch *batch,
                         struct projection *p, struct tensor y, struct tensor x);

// dx = dy W + dz A, with dz in the last columns of dy; and the gradients of what is trained.
void transformer_project_backward(struct transformer *t, const struct micro_batch *batch,
                                  struct projection *p, struct tensor dx, struct tensor dy,
                                  struct tensor x);

// What the trace counts of a projection: the adapters' factors apart ("adapter a", "adapter b"),
// without the zeros of the stacked block.
void transformer_note_linears(struct transformer *t, const struct projection *p, int64_t rows);
void transformer_note_adapters(struct transformer *t, const char *name, const struct projection *p,
                               int64_t rows);

// Dropout of adapters: whether there is any, the input of one after it, and the way back, which
// changes `back`.
bool transformer_drops(const struct transformer *t, const struct micro_batch *batch,
                       const struct projection *p);
struct tensor transformer_dropped_input(struct transformer *t, const struct micro_batch *batch,
                                        const struct linear *linear, struct tensor x);
void transformer_add_dropped(struct transformer *t, const struct micro_batch *batch,
                             const struct linear *linear, struct tensor dx, struct tensor back);
// --- magnitudes of DoRA (transformer_magnitudes.c) -----------------------------

// Gives the outputs of a projection their magnitudes; block is the stacked block.
void transformer_magnify(struct transformer *t, const struct projection *p, struct tensor block,
                         struct tensor y);

// From the gradient of the outputs to that of y = x Wᵀ + z Bᵀ, in place. y is computed once more:
// to keep it would take as much memory as all other activations together.
void transformer_magnify_backward(struct transformer *t, const struct projection *p,
                                  struct tensor block, struct tensor dy, struct tensor x,
                                  struct tensor z);

// Magnitudes begin as the lengths that the rows of their linear have.
void transformer_start_magnitude(struct transformer *t, const struct parameter *magnitude);

// --- mixtures of experts (transformer_experts.c) -----------------------------

int64_t transformer_expert_rows(const struct transformer *t); // T · k
int64_t transformer_experts_at_once(const struct transformer *t,
                                    const struct mixture *m); // that are unpacked together

// The feed-forward network of a layer with experts, from middle_normed: route, then gate and up,
// activation, and down into the branch. Recomputation leaves out the route, which is kept.
void transformer_route(struct transformer *t, const struct micro_batch *batch,
                       struct transformer_layer *l);
void transformer_experts_gate(struct transformer *t, const struct micro_batch *batch,
                              struct transformer_layer *l);
void transformer_experts_activate(struct transformer *t, const struct micro_batch *batch,
                                  struct transformer_layer *l);
void transformer_experts_down(struct transformer *t, const struct micro_batch *batch,
                              struct transformer_layer *l);

// Values from masters, after an update.
void transformer_experts_refresh(struct transformer *t, const struct mixture *m);

// Recomputes what a layer below RECOMPUTE_BLOCK did not keep.
void transformer_experts_recompute(struct transformer *t, const struct micro_batch *batch,
                                   struct transformer_layer *l);

// From the gradient of the residual stream to that of middle_normed, in the branch.
void transformer_experts_backward(struct transformer *t, const struct micro_batch *batch,
                                  struct transformer_layer *l);

// Adds the auxiliary loss of a micro-batch, once all its routers have run, and prepares its
// gradient.
void transformer_balance(struct transformer *t, const struct micro_batch *batch, double scale);
