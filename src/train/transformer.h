// transformer: a decoder laid out in planned memory, run forward and backward over a backend.
//
//     struct transformer t;
//     TRY(transformer_init(&t, arena, &device, &setup));   // plans, allocates once, places
//     transformer_start(&t, seed);                         // random weights; or load them by name
//     TRY(transformer_loss(&t, &batch, scale, &sum));      // forward, loss, gradient of the logits
//     transformer_backward(&t, &batch);                    // adds to the gradients
//     transformer_release(&t);
//
// A layer is a struct of tensors; forward and backward are two plain lists of calls, under the
// names of the core's step list. The trainable set is that of the recipe: everything (full), or
// adapters on the linears it targets, over a frozen base in the compute type (LoRA) or NF4 (QLoRA).
// Per layer, a level of recomputation says what is kept from forward to backward; what is not kept
// lies in one place that all layers share, and is made again by the very same calls, so that every
// level gives the same bits.

#pragma once

#include "core/recipe.h"
#include "core/step.h"
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
    struct tensor z; // (T, rank): what the adapter's first product gave
    int index;       // among all of the model
};

struct transformer_layer {
    struct linear linears[LINEARS];
    struct parameter *attention_norm, *mlp_norm, *q_norm, *k_norm; // the last two may be NULL
    enum recompute level;
    int64_t window;
    struct tensor input, middle;         // (T, C): the residual stream
    struct tensor input_rms, middle_rms; // (T, 1)
    struct tensor normed, middle_normed; // (T, C)
    struct tensor q, k, v; // (T, H · D), (T, K · D): as projected; rotated in place …
    struct tensor q_turned, k_turned;  // … but beside them where q and k are normalised
    struct tensor q_rms, k_rms;        // (T · H, 1), (T · K, 1)
    struct tensor attended, lse;       // (T, H · D), (T, H)
    struct tensor gate, up, activated; // (T, F)
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
    struct tensor branch;                // (T, C): what a residual branch adds, or its gradient
    struct tensor dx;                    // (T, C): gradient of the residual stream
    struct tensor dq, dk, dv, dattended; // as q, k, v, attended
    struct tensor dactivated;            // (T, F)
    struct tensor dz;                    // (T, rank)
    struct tensor dropped, ddropped;     // (T, widest linear's in)
    struct tensor picked, dpicked;       // (labelled, C)
    struct tensor logits;                // (chunk, V)
    struct tensor unpacked;              // the largest linear, dequantised
    void *attention;
};

struct transformer {
    struct device *device;
    struct transformer_setup setup;
    const struct decoder *decoder;
    struct blocks blocks;
    struct parameter *parameters;
    size_t parameter_count, parameter_room;
    struct parameter *embedding, *final_norm, *head; // head may be the embedding
    struct transformer_layer *layers;
    struct tensor last, last_rms, hidden; // (T, C): residual stream behind the layers; its norm
    struct transformer_scratch scratch;
    struct transformer_layer common; // slots that layers share where they keep nothing
    double *losses;                  // (labelled), on the host
    double adapter_scale;
    enum step_phase phase;
    struct transformer_trace *trace; // NULL: none
};

// Chooses levels, plans, allocates and places. ERR_DEVICE_MEMORY where even the last level does not
// meet the budget.
enum err transformer_init(struct transformer *t, struct arena *arena, struct device *device,
                          const struct transformer_setup *setup);
void transformer_release(struct transformer *t);

// Only the plan: what init would allocate.
enum err transformer_plan(struct blocks *out, struct arena *arena, struct device *device,
                          const struct transformer_setup *setup);

struct parameter *transformer_find(struct transformer *t, const char *name); // NULL if none

// Random weights, the same for a seed whatever the method: normal with deviation 0.02, norms one,
// adapters as PEFT starts them.
void transformer_start(struct transformer *t, uint64_t seed);
void transformer_start_adapters(struct transformer *t, uint64_t seed);

// Puts fp32 values into a frozen or trained weight; a quantised one is quantised here.
void transformer_set(struct transformer *t, struct parameter *p, const float *values,
                     struct arena *arena);

// As it is, where the weight is quantised here and has blocks of the usual sizes; else false.
bool transformer_set_nf4(struct transformer *t, struct parameter *p, const struct nf4 *nf4);
void transformer_refresh(struct transformer *t); // values from masters, behind an update

// Σ of the labelled tokens' losses. The gradient of scale · Σ is left for backward; 0 leaves none.
enum err transformer_loss(struct transformer *t, const struct micro_batch *batch, double scale,
                          double *loss);
void transformer_backward(struct transformer *t, const struct micro_batch *batch);
void transformer_logits(struct transformer *t, const struct micro_batch *batch,
                        double *out); // (labelled, V)

struct tensor transformer_gradients(const struct transformer *t); // all of them, as one row
