// SPDX-License-Identifier: Apache-2.0
// transformer: a decoder laid out in planned memory, run forward and backward over a backend.
//
//     struct transformer t;
//     TRY(transformer_init(&t, arena, &device, &setup));   // plans, allocates once, places
//     transformer_random_weights(&t, seed);                // or transformer_load()
//     transformer_begin(&t);                               // clears gradients and loss
//     transformer_loss(&t, &batch, scale);                 // forward, loss, gradient of the logits
//     transformer_backward(&t, &batch);                    // adds to the gradients
//     TRY(transformer_sums(&t, &sums));                    // waits: the loss, and any error
//     transformer_release(&t);
//
// A layer is a struct of tensors; forward and backward are two plain lists of calls, under the
// names of the core's step list. The recipe says what is trained: everything (full), or adapters on
// the targeted linears, over a frozen base in the compute type (LoRA), fp8 or NF4 (QLoRA). Each
// layer has a level of recomputation that says what is kept from forward to backward; what is not
// kept shares one place with all other layers and is recomputed by the same calls, so that every
// level gives the same bits. The input of a frozen linear without adapters is neither kept nor
// recomputed: its gradient needs the weights alone.
//
// Linears that read the same input are one matrix product, a projection. Its adapters are part of
// the product: the weights are the stacked block [W B; A 0], which transformer_place.c draws.

#pragma once

#include "core/step/recipe.h"
#include "core/step/step.h"
#include "train/blocks.h"
#include "train/decoder.h"
#include "train/group/group.h"
#include "train/nf4.h"
#include "train/preference.h"

enum recompute {
    RECOMPUTE_NONE,
    RECOMPUTE_NORMS,       // norms and activations
    RECOMPUTE_GATE,        // and gate and up
    RECOMPUTE_PROJECTIONS, // and the other projections: all but attention and down
    RECOMPUTE_BLOCK,       // and attention: the whole layer but the down projection
    RECOMPUTE_LEVELS,
};
extern const char *const recompute_names[]; // "none", "norms", … "block", NULL

struct transformer_setup {
    const struct decoder *decoder;
    const struct recipe *recipe; // method, rank, alpha, targets, dropout, optimizer
    enum dtype compute;          // fp64 computes and keeps everything in fp64
    int64_t tokens, labelled;    // of the largest micro-batch
    int64_t longest;             // tokens of the longest document
    double budget_bytes;         // for all blocks; levels are raised to meet it. 0: no limit
    enum recompute level;        // the lowest level of a layer
    bool has_momentum;           // of SGD
    bool only_forward;           // neither gradients nor optimizer
    int64_t offloaded;           // layers whose activations wait in host memory for backward
    bool fp8;                    // frozen linears of the layers, and their inputs, in fp8
    bool any_order;              // of sums in attention's backward pass, see struct attention
    bool bf16_states;            // gradients and moments in bf16, and no fp32 masters
    int rank, ranks;             // of the group; 0 or 1: alone
    bool shards_base; // of LoRA and QLoRA: ranks share the layers' frozen linears, and moments
    double beta;      // of DPO: documents 2i and 2i + 1 are a pair of answers; 0: supervised tuning
};

// A weight. Trained ones have a gradient and optimizer states. The optimizer updates the master,
// which is the value itself unless the value has fewer bits.
struct parameter {
    const char *name; // as in weight files; adapters as in PEFT's files
    struct tensor value, master, gradient, m, v;
    struct quantized quantized; // in place of a value
    enum parameter_start {
        PARAMETER_ZERO,
        PARAMETER_ONE,
        PARAMETER_NORMAL,
        PARAMETER_KAIMING,
        PARAMETER_NORMS // of the rows of its linear
    } start;
    bool is_adapter;
    bool is_of_expert; // copied together with those of the other experts
    bool decays;       // weight decay does not apply to norms and biases
};

// Parameters that lie end to end in memory, row after row: the linears of a projection, the first
// factors of its adapters, or a single parameter. Masters, gradients and moments lie in the same
// order, so that the optimizer updates neighbouring groups in one call (transformer_update.c).
struct parameter_group {
    const char *label;
    struct parameter *parts[3];
    int count;
    int64_t rows, columns; // of all parts together
    bool is_trained;
    struct projection *projection; // that these linears or adapters belong to; NULL: none
    int64_t layer;                 // that it belongs to; −1: none
    struct tensor master, gradient, m, v;
};

enum transformer_linear {
    LINEAR_Q,
    LINEAR_K,
    LINEAR_V,
    LINEAR_O,
    LINEAR_GATE,
    LINEAR_UP,
    LINEAR_DOWN,
    LINEARS
};

struct linear {
    const char *name;                        // as in the step list
    struct parameter *weight, *bias, *a, *b; // the last three may be NULL
    struct parameter *magnitude;             // (1, out), of DoRA; NULL: none
    int64_t in, out;
    int64_t first;   // its first column in the projection's output
    int64_t first_z; // its first column in z
    int index;       // among all linears of the model
};

struct scaled { // fp8 codes with a scale per row
    struct tensor codes, scales;
};

enum transformer_projection { PROJECTION_QKV, PROJECTION_O, PROJECTION_GATE, PROJECTION_DOWN };
enum { PROJECTIONS = PROJECTION_DOWN + 1, PROJECTION_LINEARS = 3 };

struct projection {
    struct linear *linears[PROJECTION_LINEARS];
    int count;
    int64_t in, out;
    int64_t z_columns;                  // that adapters fill: the sum of their ranks; 0: no adapter
    int64_t rank;                       // the same, padded
    struct tensor stacked;              // [W B; A 0]; none if W is quantised
    struct tensor a, b;                 // (rank, in), (out, rank): views of stacked, or separate
    struct tensor a_master;             // (rank without padding, in)
    struct tensor gradient, a_gradient; // (out, in), as a_master; may be none
    struct scaled forward, backward;    // in fp8: (out, in), (in, out); adapters after them
    struct tensor z; // (T, rank): a copy of z for layers that recompute their input
};

// A feed-forward network of its own for the tokens that a router sends to it.
enum expert_linear { EXPERT_GATE, EXPERT_UP, EXPERT_DOWN, EXPERT_LINEARS };
struct expert {
    struct linear linears[EXPERT_LINEARS];
    struct projection gate, down;
};

// The mixture of experts of a layer (transformer_experts.c). N: T · k rows, a token's k copies.
struct mixture {
    struct expert *experts;      // E; NULL: the layer has one feed-forward network for all
    struct parameter *router;    // (E, C)
    struct parameter *bias;      // (1, E) of the router; NULL: none
    struct routing routing;      // on the device, kept from forward to backward
    struct tensor probabilities; // (T, E)
    struct tensor weights;       // (N, 1) of the rows, which sum to their tokens
    struct tensor rows;          // (N, C + rank): copies of the tokens, sorted by expert
    struct tensor gate_up;       // (N, 2 F + rank)
    struct tensor activated;     // (N, F + rank), times the weight of the row
};

// Norms of a layer; a model has the first two, and of the others some.
enum transformer_norm {
    NORM_ATTENTION,
    NORM_MLP,
    NORM_ATTENTION_OUT, // of what attention adds to the residual stream
    NORM_MLP_OUT,       // of what the feed-forward network adds
    NORM_Q,
    NORM_K,
    NORMS
};

struct transformer_layer {
    struct linear linears[LINEARS];
    struct projection projections[PROJECTIONS];
    struct parameter *norms[NORMS]; // NULL: the model has none
    struct parameter *sinks;        // (1, H) of attention; NULL: none
    enum recompute level;
    int64_t window;
    char *kept;                  // all that it keeps for backward; NULL until it is allocated
    int64_t kept_bytes;          //
    char *kept_by_host;          // meanwhile, of an offloaded layer; NULL: it stays
    struct tensor input, middle; // (T, C): the residual stream before attention, and before the MLP
    struct tensor input_rms, middle_rms;  // (T, 1)
    struct tensor normed, middle_normed;  // (T, C + rank): inputs of qkv and of gate and up
    struct tensor qkv;                    // (T, Q + 2 K): projected; q, k are rotated in place …
    struct tensor rotated;                // (T, Q + K): … or into this, if they have a norm
    struct tensor q_rms, k_rms;           // (T, heads)
    struct tensor attended, lse;          // (T, Q + rank), (T, H)
    struct tensor attention_out, mlp_out; // (T, C): what the layer adds, before its norm
    struct tensor attention_out_rms, mlp_out_rms; // (T, 1)
    struct tensor gate_up;                        // (T, 2 F + rank): the last columns take dz
    struct tensor activated;                      // (T, F + rank)
    struct mixture mixture;                       // in place of the last two; may have no experts
};

// A micro-batch: documents end to end. The arrays are on the host and belong to the caller.
struct micro_batch {
    int64_t tokens;
    const int32_t *ids, *positions;
    const struct span *spans; // documents, in order, without gaps
    int64_t span_count;
    const int32_t *rows, *targets; // tokens that carry loss, ascending; their target ids
    int64_t labelled;
    uint64_t key; // of dropout
};

// Executed operations by name and phase, when tracing is on.
struct transformer_trace {
    struct transformer_traced {
        const char *name;
        enum step_phase phase;
        double flops;
        int64_t count;
    } items[128];
    int count;
};

// Tensors in the workspace; none is needed after the micro-batch.
struct transformer_scratch {
    struct tensor branch;            // (T, C): what a residual branch adds, or its gradient
    struct tensor dx;                // (T, C + rank): gradient of the residual stream
    struct tensor dadded;            // (T, C + rank): … of what a layer adds, before its norm or
                                     // magnitudes; none: the same
    struct tensor dqkv;              // (T, Q + 2 K + rank)
    struct tensor dattended;         // (T, Q)
    struct tensor dactivated;        // (T, F)
    struct tensor dropped, ddropped; // (T, widest projection's in)
    struct tensor picked, dpicked;   // (labelled, C)
    struct tensor logits;            // (chunk, V)
    struct tensor losses;            // (labelled, 1)
    struct tensor head_z, dhead_z;   // (chunk, rank): of an adapter on the head
    struct tensor unmagnified;       // (T, widest out): outputs before their magnitudes (DoRA)
    struct tensor row_norms;         // (1, widest out)
    struct tensor unpacked;    // the largest projection, or those of some experts, dequantised
    struct scaled input;       // in fp8: (T, widest)
    struct tensor shifts;      // (1, most z_columns): of adapters beside fp8
    struct tensor expert_rows; // (N, C + rank): what experts give, or its gradient
    struct tensor dexpert_activated; // (N, F)
    struct tensor dexpert_weights;   // (N, 1)
    struct tensor router_logits;     // (T, E), or their gradient
    struct tensor load;              // (2, E) in fp64: rows and probabilities of all routers
    struct tensor dprobabilities;    // (1, E) in fp64: of the auxiliary loss
    void *attention;
    int32_t *ids, *positions, *rows, *targets; // of the micro-batch, on the device
    struct span *spans;
};

// What the optimizer keeps of a weight.
enum transformer_state { TRANSFORMER_MASTER, TRANSFORMER_M, TRANSFORMER_V, TRANSFORMER_STATES };

// A stretch of the row of all gradients: the embedding, a layer, or what comes after the layers.
struct transformer_piece {
    int64_t first, count;
    struct group_part own; // this rank's part, in the row
    int64_t kept;          // where it begins in the states
};

// The part of the masters and moments of all weights that this rank keeps, if ranks share them
// (transformer_shard.c).
struct transformer_shard {
    struct transformer_piece *pieces; // in the order of the row
    int64_t piece_count;
    struct tensor states[TRANSFORMER_STATES]; // all own parts; none: kept whole, or not at all
    struct group *reducing; // sums each piece when the backward pass has completed it; NULL: none
};

// The frozen linears of the layers, if ranks share them (transformer_base.c). Their bytes are
// counted in words of fp32, and never computed with.
struct transformer_base {
    struct tensor own;         // (layers, part): this rank's part of each layer
    struct tensor gathered[2]; // whole layers: this one, and the next
    int64_t layers[2];         // that lie there; −1: none
    int64_t held;              // the layer whose weights are being set; −1: none
    struct group *group;       // NULL: what lies there is used as it is
};

struct transformer {
    struct device *device;
    struct transformer_setup setup;
    const struct decoder *decoder;
    struct blocks blocks;
    struct parameter *parameters;
    size_t parameter_count, parameter_room;
    size_t found; // the parameter that transformer_find() gave last
    struct parameter_group *groups;
    size_t group_count, group_room;
    struct parameter *embedding, *final_norm, *head; // head may be the embedding
    struct parameter *head_a, *head_b;               // of an adapter on the head; NULL: none
    struct transformer_shard shard;
    struct transformer_base base;
    struct transformer_layer *layers;
    struct tensor last, last_rms, hidden; // (T, C): residual stream after the layers; its norm
    struct transformer_scratch scratch;
    char *host;                             // of offloaded layers, pinned; NULL: none
    int64_t host_bytes;                     // planned
    struct transformer_layer common;        // tensors shared by layers that do not keep their own
    struct tensor frequencies;              // (rotations, R/2) in fp64
    struct tensor loss, squared_norm, clip; // (1, 1) in fp64: of the current step
    bool is_fresh; // first micro-batch of a step: products overwrite the gradients, later ones add
    double adapter_scale;
    bool skips_adapters;                // in this pass: DPO's reference is the model without them
    struct preference_sums preferences; // of the current step
    int64_t attention_bytes;
    int64_t chunk_bytes; // of logits that exist at once
    enum step_phase phase;
    struct transformer_trace *trace; // NULL: none
    bool waits_for_tuning;           // see transformer_tune_some()
};

// Chooses levels, plans, allocates and places. ERR_MEMORY if even the highest level does not
// meet the budget.
enum err transformer_init(struct transformer *t, struct arena *arena, struct device *device,
                          const struct transformer_setup *setup);
void transformer_release(struct transformer *t);

// Only the plan: what init would allocate, and the highest level of any layer.
enum err transformer_plan(struct blocks *out, enum recompute *level, struct arena *arena,
                          struct device *device, const struct transformer_setup *setup);

struct parameter *transformer_find(struct transformer *t,
                                   const char *name); // NULL: none of that name

// Random weights, the same for a seed with any method: normal with standard deviation 0.02, norms
// one, adapters as PEFT initializes them.
void transformer_random_weights(struct transformer *t, uint64_t seed);
void transformer_random_adapters(struct transformer *t, uint64_t seed); // after the weights are set

// Copies values from the host, in their stored type, into a frozen or trained weight; a quantised
// weight is quantised on the device.
void transformer_set(struct transformer *t, struct parameter *p, enum storage type,
                     const void *values);

// Copies NF4 codes as they are; false if the weight is not NF4 here or has other block sizes.
bool transformer_set_nf4(struct transformer *t, struct parameter *p, const struct nf4 *nf4);
void transformer_get(struct transformer *t, struct tensor in, float *out); // to the host
void transformer_refresh(struct transformer *t); // values from masters, after an update

// Lets the device time its algorithms on the products of a full micro-batch: now, or later by
// transformer_tune_some(), which goes on for about so many seconds between two steps. Which
// algorithm runs does not change the bits, so it does not matter when one is chosen. Where these
// products were tuned before, nothing is done.
void transformer_tune(struct transformer *t, enum tuning when);
void transformer_tune_some(struct transformer *t, double seconds);

// A step: begin, then loss and backward for each micro-batch, which are queued, then sums, which
// waits. transformer_loss() prepares the gradient of scale · Σ losses for backward; with scale 0 it
// prepares none. The losses are those of labelled tokens, or of pairs; pairs are waited for.
struct transformer_sums {
    double loss;         // Σ of the losses since begin
    double squared_norm; // of all gradients, set by transformer_norm()
    struct preference_sums preferences;
};
void transformer_begin(struct transformer *t);
void transformer_clear(struct transformer *t); // all gradients, for a step without a micro-batch
void transformer_loss(struct transformer *t, const struct micro_batch *batch, double scale);
void transformer_backward(struct transformer *t, const struct micro_batch *batch);
// Sums the gradients over ranks. If transformer_reduce_in() was called before the last backward
// pass, that pass has begun it: gradients that ranks share are summed layer by layer, as they are
// done.
void transformer_reduce_in(struct transformer *t, struct group *group);
void transformer_reduce(struct transformer *t, struct group *group);

// Sums the squares of the gradients, of this rank's part if ranks share the states: then the sum
// over ranks is still to be made. Clip makes the scale of the update from it.
void transformer_norm(struct transformer *t);
void transformer_clip(struct transformer *t, double limit);

// One optimizer step on everything that is trained, or on this rank's part of it, with the scale of
// transformer_clip(). decay
// does not apply to norms and biases; momentum is for SGD, beta1 … epsilon are for AdamW.
struct update {
    struct adamw adamw;
    double momentum;
};
void transformer_update(struct transformer *t, const struct update *update);
enum err transformer_sums(struct transformer *t, struct transformer_sums *out);
void transformer_logits(struct transformer *t, const struct micro_batch *batch,
                        double *out); // (labelled, V)

struct tensor transformer_gradients(const struct transformer *t); // all gradients as one row

// --- shared states -----------------------------------------------------------

bool transformer_is_sharded(const struct transformer *t);
// If sharded, all weights, or masters of adapters, as one row: what ranks gather after an update.
struct tensor transformer_values(const struct transformer *t);
void transformer_gather_values(struct transformer *t, struct group *group);

// A state of a weight: its own tensor, or, if ranks share the states, where the whole state lies
// after transformer_gather_state() and before transformer_keep_state(): the memory of the
// gradients, which a step does not need between its update and the next. None: it is not kept.
struct tensor transformer_state(const struct transformer *t, const struct parameter *p,
                                enum transformer_state state);
void transformer_gather_state(struct transformer *t, struct group *group,
                              enum transformer_state state);
void transformer_keep_state(struct transformer *t, enum transformer_state state);

// After the last weight was set, and before the first step: each rank keeps its part of the base,
// or of the masters, and the gradients are cleared.
void transformer_loaded(struct transformer *t);

// --- a shared base -----------------------------------------------------------

bool transformer_shares_base(const struct transformer *t);

// From now on, layers are gathered from these ranks. Before, the layers that were set last are used
// for all: transformer_tune() needs no other ranks.
void transformer_join(struct transformer *t, struct group *group);

// Takes part in gathering the layers of a micro-batch that only other ranks have.
void transformer_attend(struct transformer *t, bool backward);
