// SPDX-License-Identifier: Apache-2.0
// step: the operations of one training step on one GPU: what runs, FLOPs, bytes moved, bytes kept.
//
// One description, two readers: memory adds up what is kept, compute times what runs. Our own
// engine does not execute the list: it has its own code, and a test compares the operations that it
// runs, by name, phase and FLOPs, with this list
// (transformer_runs_the_operations_of_the_step_list).
//
// The list is made for one GPU's share of one micro-batch, plus what happens once per optimizer
// step (phase STEP_UPDATE). Layers of one kind are alike, so an operation is listed once with the
// number of times that it runs. What it keeps lives from its forward to its backward:
//
//            forward                                backward
//     layer  1    2    3   …   n    head, loss    n   …   3    2    1       update
//            ▪────┼────┼───────┼────────┼─────────┼───────┼────┼────▪         all weights
//                 ▪────┼───────┼────────┼─────────┼───────┼────▪
//                      ▪───────┼────────┼─────────┼───────▪        kept_bytes of layer 3
//                              ▪────────┼─────────▪
//                                    logits
//
// With full recomputation a layer keeps its input alone, and its forward operations are listed a
// second time (phase STEP_RECOMPUTE), just before its backward; with selective recomputation only
// the cheap ones are: norms, positions, activation functions. Formulas: docs/formulas.md, section
// step.
//
//     struct step step;
//     struct step_request request = { model, &recipe, &layout, stack, batch, accumulation };
//     TRY(step_list(&step, arena, &request));

#pragma once

#include "core/step/layout.h"
#include "core/step/stack.h"

// One micro-batch as one data-parallel rank sees it.
struct step_batch {
    double rows, width;
    double tokens;             // processed: rows × width, padding included
    double squares;            // sum of squared lengths of the pieces that attend to themselves
    double labelled;           // tokens that have a label and so a loss
    bool padded;               // some rows are shorter than the width: a mask hides the rest
    bool packed;               // rows lie end to end: attention takes pieces of any length
    double spread;             // deviation of the logarithm of tokens between ranks; 0: none
    double varies;             // the same among the micro-batches of a run
    double fullest;            // tokens of the fullest micro-batch of a run; 0: unknown
    struct vision_load images; // among the rows; their tokens are among these
};

struct step_batch step_batch(double rows, double width); // full rows, every token labelled

// The spread of micro-batches of so many rows, when lengths of rows are lognormal of that spread:
// of the longest where rows are padded to it, of their sum where they lie end to end.
double step_batch_spread(double lengths, double rows, bool padded);

// What an objective other than supervised tuning does to a micro-batch beside training on it:
// passes without gradients, which list the forward operations once more. core/objective fills it
// in; zero is supervised tuning.
struct step_request;
struct gpu;
struct links;
struct rollout;
struct step_passes {
    double reference; // through the frozen reference: without adapters, or another copy
    double policy;    // through the model that is trained
    double reward;    // through a frozen model of its size that scores answers
    double critic;    // models of its size that are trained beside it and judge each token; 0 or 1
    double frozen_copies;   // of the model in the GPUs' memory: the reference, the reward model
    bool scores_rows;       // a head of one value per row: there are no logits
    double switch_launches; // of the host, to switch each adapter's product off and on; 0: none
    double loss_bytes, loss_moved_bytes; // per logit, in place of the stack's; 0: as the stack
    double loss_row_bytes;               // per logit of one row, which the loss has at work
    // Seconds that sampling of answers adds to a step whose training takes training_seconds
    // (core/objective/rollout.h); NULL: none are sampled.
    double (*sampling)(const struct step_request *request, const struct gpu *gpu,
                       const struct links *links, double training_seconds);
    const struct rollout *rollout;
    double updates; // of the weights in a step, each by its share of the micro-batches; 0: one
    double
        rounds; // of training over the micro-batches of a step, with as many updates each; 0: one
};

struct step_request {
    const struct model *model;
    const struct recipe *recipe; // nothing left on AUTO (estimate_recipe)
    const struct layout *layout;
    const struct stack *stack;
    struct step_batch batch;
    double accumulation; // micro-batches per optimizer step
    struct step_passes passes;
    double lighter_share; // of the layers, which recompute one level less (our engine)
};

// Whether weights are fp32 and products, in 16 bits, read copies that autocast makes. Embedding,
// norms and so the residual stream are fp32 then.
bool step_autocasts(const struct step_request *request);
// Under a pipeline PyTorch's FSDP leaves the weights of a stage gathered and sums whole gradients,
// so as not to gather and reduce for each piece (torchtitan's default, reshard_after_forward).
bool step_stays_gathered(const struct step_request *request);

double step_rounds(const struct step_request *request);  // at least one
double step_updates(const struct step_request *request); // at most one for each that is trained on

// Bytes, at most 16, at whose multiples the rows of matrices of these widths begin.
int step_alignment(double element_bytes, double width, double other_width);

enum step_phase {
    STEP_FORWARD,
    STEP_RECOMPUTE,
    STEP_BACKWARD,
    STEP_UPDATE,
    STEP_WITHOUT_GRADIENTS, // the passes of step_passes
};
static inline bool step_trains(enum step_phase phase)
{
    return phase == STEP_FORWARD || phase == STEP_RECOMPUTE || phase == STEP_BACKWARD;
}

enum step_kind {
    STEP_MATMUL,
    STEP_ATTENTION,
    STEP_ELEMENTWISE, // bound by memory traffic
    STEP_DEQUANTIZE,
    STEP_OPTIMIZER,
};

struct step_op {
    const char *name; // "q", "norm", "attention"
    enum step_phase phase;
    enum step_kind kind;
    double repeats;              // per micro-batch; per step in STEP_UPDATE
    double flops, bytes;         // of one run; bytes read and written
    double rows, columns, depth; // of a product: (rows × depth) · (depth × columns)
    // Of products' or of a copy's rate, 0: by the shape, the stack's; of attention's with the
    // decoder's heads, 0: all of it.
    double share;
    double launches;     // kernels started by the host
    double groups;       // products in one launch, where the card has a kernel for them; 0: one
    double kept_bytes;   // kept from forward to backward when nothing is recomputed
    double output_bytes; // of its result, of products and attention
    double score_bytes;  // of kept_bytes, eager attention's scores
    bool cheap;          // selective recomputation recomputes it
    bool fp32;           // runs on the 32-bit units: fp32 adapters
    double weighs;       // tensors of weights that it reads, which ZeRO-3 fetches for it
    bool small;          // runs on the 8- or 4-bit units
    bool masked;         // attention over the whole matrix of scores, half of it masked
    double length;       // of what attends to itself; 0: as the batch has it
    bool of_images;      // of their encoder and projector, or attention to them
    int aligned;         // bytes at whose multiples its rows begin; 0: 16 or more
    bool graphless;      // nothing before it has gradients: no graph is built
    bool adapter;        // of LoRA: a reference without adapters leaves it out
};

struct step {
    struct step_op *ops;
    size_t count;
    double layers;            // on this GPU, of both kinds
    double layer_input_bytes; // kept per layer under full recomputation
    double layer_kept_bytes;  // of one layer, nothing recomputed (the largest kind)
    double layer_lean_bytes;  // of one layer under selective recomputation
    double score_bytes;       // of one layer's backward pass, beside what it kept: eager attention
    double head_kept_bytes;   // hidden states around the final norm
    double loss_peak_bytes;   // logits and what the loss keeps beside them
    double trained_weights;   // on this GPU before sharding
    double frozen_weights;    // 16-bit, on this GPU before sharding
    double quantized_weights;
    // Of these, what routed experts hold: shared by fewer GPUs than the rest.
    double expert_trained_weights, expert_frozen_weights, expert_quantized_weights;
    double trained_tensors;       // as the optimizer has them
    double sparse_layers;         // of layers, those with experts
    double largest_layer_weights; // of one layer: what FSDP gathers at a time
    double images_kept_bytes;     // pixels, and what a trained encoder keeps for its backward
};

enum { STEP_OPS = 1024 };

// What starting an operation without a module around it costs the host, in launches.
#define STEP_PLAIN_LAUNCH (1.0 / 3)

enum err step_list(struct step *out, struct arena *arena, const struct step_request *request);

double step_flops(const struct step *step); // executed per micro-batch, recomputation included
double step_model_flops(const struct step *step); // without recomputation
