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

// Logits of rows of the final norm's output; and back: from the gradient of the logits to that of
// the rows, and to the gradients of what is trained (transformer_head.c).
void transformer_head(struct transformer *t, struct tensor logits, struct tensor rows);
void transformer_head_backward(struct transformer *t, struct tensor drows, struct tensor dlogits,
                               struct tensor rows);

// The losses of labelled tokens into scratch.losses, and the gradient of scale · their sum.
void transformer_score(struct transformer *t, const struct micro_batch *batch, double scale);

// The loss of pairs (transformer_preference.c): transformer_loss() of DPO.
enum err transformer_check_preference(const struct transformer *t);
void transformer_prefer(struct transformer *t, const struct micro_batch *batch, double scale);

// Columns of a projection's adapters in this pass.
static inline int64_t transformer_rank(const struct transformer *t, const struct projection *p)
{
    return t->skips_adapters ? 0 : p->rank;
}

static inline enum step_phase transformer_forward_phase(const struct transformer *t)
{
    return t->skips_adapters ? STEP_WITHOUT_GRADIENTS : STEP_FORWARD;
}

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

// Activations in host memory (transformer_offload.c): offloaded layers have so many places on the
// device in turn.
enum { TRANSFORMER_PLACES = 2 };

// The number of a layer among those that are
// offloaded; −1: it is not.
int64_t transformer_offloaded(const struct transformer *t, int64_t layer);
enum err transformer_offload_init(struct transformer *t); // after the layers have their addresses
void transformer_offload_release(struct transformer *t);
void transformer_plan_host(struct transformer *t); // host_bytes, after placing
void transformer_before_forward(struct transformer *t, int64_t layer);
void transformer_after_forward(struct transformer *t, int64_t layer);
void transformer_before_backward(struct transformer *t, int64_t layer);
void transformer_after_backward(struct transformer *t, int64_t layer);

// The gradients of a piece (transformer_shard.c) are complete: the last micro-batch has passed it.
enum { TRANSFORMER_EMBEDDING = -1 }; // beside the layers, and the number of layers for what follows
void transformer_completed(struct transformer *t, int64_t layer);

const struct parameter_group *transformer_group_of(const struct transformer *t,
                                                   const struct parameter *p);

void transformer_note(struct transformer *t, const char *name, double flops);

// The stacked block [W B; A 0] of a projection; assembled in the workspace if W is in NF4.
struct tensor transformer_stacked(struct transformer *t, const struct projection *p);

// --- projections (transformer_run.c) -----------------------------------------

// Whether backward reads the input of a projection: its weights or its adapters are trained. The
// gradient of the input alone needs the weights.
bool transformer_reads_input(const struct transformer *t, const struct projection *p);

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

// Recomputes the inputs of gate and up, and z beside them, where what they gave was kept.
void transformer_experts_rows(struct transformer *t, const struct micro_batch *batch,
                              struct transformer_layer *l);

// From the gradient of the residual stream to that of middle_normed, in the branch.
void transformer_experts_backward(struct transformer *t, const struct micro_batch *batch,
                                  struct transformer_layer *l);

// Adds the auxiliary loss of a micro-batch, once all its routers have run, and prepares its
// gradient.
void transformer_balance(struct transformer *t, const struct micro_batch *batch, double scale);
