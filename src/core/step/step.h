// step: the operations of one training step on one GPU: what runs, FLOPs, bytes moved, bytes kept.
//
// One description, three readers: memory adds up what is kept, compute times what runs, the trainer
// executes it under the same names. The list is made for one GPU's share of one micro-batch, plus
// what happens once per optimizer step (phase STEP_UPDATE). Layers of one kind are alike, so an
// operation stands once with the number of times it runs. Formulas: docs/formulas.md, section step.
//
//     struct step step;
//     TRY(step_list(&step, arena, &(struct step_request){ model, &recipe, &layout, stack, batch
//     }));

#pragma once

#include "core/step/layout.h"
#include "core/step/stack.h"

// One micro-batch as one data-parallel rank sees it.
struct step_batch {
    double rows, width;
    double tokens;   // processed: rows × width, padding in it
    double squares;  // Σ l² over the pieces that attend to themselves
    double labelled; // tokens that carry loss
    bool padded;     // rows end before the width: a mask has to hide the rest
};

struct step_batch step_batch(double rows, double width); // full rows, every token labelled

struct step_request {
    const struct model *model;
    const struct recipe *recipe; // no AUTO left but checkpointing NONE, SELECTIVE or FULL
    const struct layout *layout;
    const struct stack *stack;
    struct step_batch batch;
    double accumulation; // micro-batches per optimizer step
};

enum step_phase { STEP_FORWARD, STEP_RECOMPUTE, STEP_BACKWARD, STEP_UPDATE };
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
    double flops, bytes;         // of one of them; bytes read and written
    double rows, columns, depth; // of a product: (rows × depth) · (depth × columns)
    double launches;             // kernels started by the host
    double kept_bytes;           // held from forward to backward when nothing is recomputed
    bool cheap;                  // what selective recomputation computes again
    bool fp32;                   // runs on the 32-bit units: adapters held in fp32
    bool fp8;                    // runs on the 8-bit units
    bool masked;                 // attention over the whole square, half of it hidden by a mask
};

struct step {
    struct step_op *ops;
    size_t count;
    double layers;            // on this GPU, of both kinds
    double layer_input_bytes; // kept per layer under full recomputation
    double layer_kept_bytes;  // of one layer, nothing recomputed (the largest kind)
    double layer_lean_bytes;  // of one layer under selective recomputation
    double head_kept_bytes;   // hidden states around the final norm
    double loss_peak_bytes;   // logits and what the loss holds beside them
    double trained_weights;   // on this GPU before sharding
    double frozen_weights;    // 16-bit, on this GPU before sharding
    double quantized_weights;
    double largest_layer_weights; // of one layer: what FSDP gathers at a time
};

enum { STEP_OPS = 768 };

enum err step_list(struct step *out, struct arena *arena, const struct step_request *request);

double step_flops(const struct step *step); // executed per micro-batch, recomputation included
double step_model_flops(const struct step *step); // without recomputation
