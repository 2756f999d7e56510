// transformer: a decoder laid out in planned memory, run forward and backward over a backend.
//
//     struct transformer t;
//     TRY(transformer_init(&t, arena, &device, &setup));   // plans, allocates once, places
//     transformer_random_weights(&t, seed);                         // random weights; or load them
//     by name transformer_begin(&t);                               // no gradient and no loss yet
//     transformer_loss(&t, &batch, scale);                 // forward, loss, gradient of the logits
//     transformer_backward(&t, &batch);                    // adds to the gradients
//     TRY(transformer_sums(&t, &sums));                    // waits: the loss, and any error
//     transformer_release(&t);
//
// A layer is a struct of tensors; forward and backward are two plain lists of calls, under the
// names of the core's step list. The trainable set is that of the recipe: everything (full), or
// adapters on the linears it targets, over a frozen base in the compute type (LoRA), fp8 or NF4
// (QLoRA). Per layer, a level of recomputation says what is kept from forward to backward; what is
// not kept lies in one place that all layers share, and is made again by the very same calls, so
// that every level gives the same bits.
//
// Linears that read the same input are one product, a projection. Its adapters ride in it: behind
// the input's columns stand those of z = s · x Aᵀ, and the weights are the block [W B; A 0], so
// that y = [x z] × [W B]ᵀ and dx = [dy dz] × [W; A] cost no pass over y or dx of their own.

#pragma once

#include "core/step/recipe.h"
#include "core/step/step.h"
#include "train/blocks.h"
#include "train/decoder.h"
#include "train/nf4.h"

enum recompute {
    RECOMPUTE_NONE,
    RECOMPUTE_NORMS, // norms and activations
    RECOMPUTE_GATE,  // and gate and up
    RECOMPUTE_BLOCK, // the whole layer but the down projection
    RECOMPUTE_LEVELS,
};
extern const char *const recompute_names[]; // "none", "norms", "gate", "block", NULL

struct transformer_setup {
    const struct decoder *decoder;
    const struct recipe *recipe; // method, rank, alpha, targets, dropout, optimizer
    enum dtype compute;          // fp64 computes and keeps everything in fp64
    int64_t tokens, labelled;    // of a micro-batch, at most
    int64_t longest;             // document, at most
    double budget_bytes;         // for the whole; levels are raised to meet it. 0: none
    enum recompute level;        // at least
    bool has_momentum;           // of SGD
    bool only_forward;           // neither gradients nor optimizer
    bool fp8;                    // frozen linears of the layers, and what is multiplied with them
    bool bf16_states;            // gradients and moments too are bf16, and there are no masters
};

// A weight. Trained ones have a gradient and states; what is updated is the master, which is the
// value itself unless that has fewer bits.
struct parameter {
    const char *name; // as in a weight file; of adapters, as in PEFT's
    struct tensor value, master, gradient, m, v;
    struct quantized quantized; // in the place of a value
    enum parameter_start {
        PARAMETER_ZERO,
        PARAMETER_ONE,
        PARAMETER_NORMAL,
        PARAMETER_KAIMING
    } start;
    bool is_adapter;
    bool decays; // weight decay leaves norms and biases alone
};

// Parameters that lie end to end, row upon row: linears of a projection, their first factors, or
// one alone. What is trained lies in this order in each kind of memory.
struct parameter_group {
    const char *label;
    struct parameter *parts[3];
    int count;
    int64_t rows, columns; // of all, and of adapters' padding
    bool is_trained;
    struct projection *projection; // of its linears or adapters; else NULL
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
    const char *name;                        // of the step list
    struct parameter *weight, *bias, *a, *b; // the last three may be NULL
    int64_t in, out;
    int64_t first;   // its first column in the projection's output
    int64_t first_z; // and in z
    int index;       // among all of the model
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
    int64_t rank;                       // of its adapters together, rounded up; 0: none
    struct tensor stacked;              // [W B; A 0]; none where W is quantised
    struct tensor a, b;                 // (rank, in), (out, rank): views of joined, or apart
    struct tensor a_master;             // (rank, in)
    struct tensor gradient, a_gradient; // (out, in), (rank, in); may be none
    struct scaled forward, backward;    // in fp8: (out, in), (in, out)
    struct tensor z;                    // (T, rank), where the input's own columns do not last
};

struct transformer_layer {
    struct linear linears[LINEARS];
    struct projection projections[PROJECTIONS];
    struct parameter *attention_norm, *mlp_norm, *q_norm, *k_norm; // the last two may be NULL
    enum recompute level;
    int64_t window;
    struct tensor input, middle;         // (T, C): the residual stream
    struct tensor input_rms, middle_rms; // (T, 1)
    struct tensor normed, middle_normed; // (T, C + rank): inputs of qkv and of gate and up
    struct tensor qkv;                   // (T, Q + 2 K): as projected; q, k rotated in place …
    struct tensor rotated;               // (T, Q + K): … but here where they are normalised
    struct tensor q_rms, k_rms;          // (T, heads)
    struct tensor attended, lse;         // (T, Q + rank), (T, H)
    struct tensor gate_up;               // (T, 2 F + rank): room for the adapters' gradient
    struct tensor activated;             // (T, F + rank)
};

// A micro-batch: documents end to end. Arrays are the caller's, on the host.
struct micro_batch {
    int64_t tokens;
    const int32_t *ids, *positions;
    const struct span *spans; // documents, in order, without gaps
    int64_t span_count;
    const int32_t *rows, *targets; // tokens that carry loss, rising; what each must predict
    int64_t labelled;
    uint64_t key; // of dropout
};

// What was run, by name and phase, when asked for.
struct transformer_trace {
    struct transformer_traced {
        const char *name;
        enum step_phase phase;
        double flops;
        int64_t count;
    } items[96];
    int count;
};

// What lies in the workspace: nothing of it outlives a micro-batch.
struct transformer_scratch {
    struct tensor branch;            // (T, C): what a residual branch adds, or its gradient
    struct tensor dx;                // (T, C + rank): gradient of the residual stream
    struct tensor dqkv;              // (T, Q + 2 K + rank)
    struct tensor dattended;         // (T, Q)
    struct tensor dactivated;        // (T, F)
    struct tensor dropped, ddropped; // (T, widest projection's in)
    struct tensor picked, dpicked;   // (labelled, C)
    struct tensor logits;            // (chunk, V)
    struct tensor losses;            // (labelled, 1)
    struct tensor unpacked;          // the largest projection, dequantised; of dense rows
    struct scaled input;             // in fp8: (T, widest)
    void *attention;
    int32_t *ids, *positions, *rows, *targets; // of the micro-batch, on the device
    struct span *spans;
};

struct transformer {
    struct device *device;
    struct transformer_setup setup;
    const struct decoder *decoder;
    struct blocks blocks;
    struct parameter *parameters;
    size_t parameter_count, parameter_room;
    struct parameter_group *groups;
    size_t group_count, group_room;
    struct parameter *embedding, *final_norm, *head; // head may be the embedding
    struct transformer_layer *layers;
    struct tensor last, last_rms, hidden; // (T, C): residual stream behind the layers; its norm
    struct transformer_scratch scratch;
    struct transformer_layer common;        // slots that layers share where they keep nothing
    struct tensor frequencies;              // (1, D/2) in fp64
    struct tensor loss, squared_norm, clip; // (1, 1) in fp64: of the step so far
    bool is_fresh; // no micro-batch yet: products set the gradients of linears, later ones add
    double adapter_scale;
    int64_t attention_bytes;
    int64_t chunk_bytes; // of logits alive at once
    enum step_phase phase;
    struct transformer_trace *trace; // NULL: none
};

// Chooses levels, plans, allocates and places. ERR_DEVICE_MEMORY where even the last level does not
// meet the budget.
enum err transformer_init(struct transformer *t, struct arena *arena, struct device *device,
                          const struct transformer_setup *setup);
void transformer_release(struct transformer *t);

// Only the plan: what init would allocate, and the highest level that a layer has.
enum err transformer_plan(struct blocks *out, enum recompute *level, struct arena *arena,
                          struct device *device, const struct transformer_setup *setup);

struct parameter *transformer_find(struct transformer *t, const char *name); // NULL if none

// Random weights, the same for a seed whatever the method: normal with deviation 0.02, norms one,
// adapters as PEFT starts them.
void transformer_random_weights(struct transformer *t, uint64_t seed);
void transformer_random_adapters(struct transformer *t, uint64_t seed);

// Puts values into a frozen or trained weight, from the host and in the type they are stored in; a
// quantised weight is quantised on the way, on the device.
void transformer_set(struct transformer *t, struct parameter *p, enum storage type,
                     const void *values);

// As it is, where the weight is quantised here and has blocks of the usual sizes; else false.
bool transformer_set_nf4(struct transformer *t, struct parameter *p, const struct nf4 *nf4);
void transformer_get(struct transformer *t, struct tensor in, float *out); // to the host
void transformer_refresh(struct transformer *t); // values from masters, behind an update

// Lets the device try its ways to compute the products of a full micro-batch, once.
void transformer_tune(struct transformer *t);

// A step: begin, then loss and backward for each micro-batch, queued; then the sums, which waits.
// The gradient of scale · Σ losses is left for backward; scale 0 leaves none.
struct transformer_sums {
    double loss;         // Σ of the labelled tokens' losses since begin
    double squared_norm; // of the gradients, as transformer_clip() found them
};
void transformer_begin(struct transformer *t);
void transformer_clear(struct transformer *t); // all gradients: a step without a micro-batch
void transformer_loss(struct transformer *t, const struct micro_batch *batch, double scale);
void transformer_backward(struct transformer *t, const struct micro_batch *batch);
void transformer_clip(struct transformer *t, double limit); // sets squared_norm and clip

// One step of the optimizer on all that is trained, with the gradients as transformer_clip() left
// them. decay is of weights, not of norms and biases; momentum is of SGD, beta1 … epsilon of AdamW.
struct update {
    struct adamw adamw;
    double momentum;
};
void transformer_update(struct transformer *t, const struct update *update);
enum err transformer_sums(struct transformer *t, struct transformer_sums *out);
void transformer_logits(struct transformer *t, const struct micro_batch *batch,
                        double *out); // (labelled, V)

struct tensor transformer_gradients(const struct transformer *t); // all of them, as one row
