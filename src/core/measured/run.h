// SPDX-License-Identifier: Apache-2.0
// run: measured runs, as published, and the setups they correspond to.
//
// A row of a runs file says what was trained, how, on which hardware, and what was measured.
// run_setup() turns it into a setup or says why it cannot. The columns are those of data/runs.csv:
// each fact that the forecast uses has its own. A blank cell is unknown, and the stack's default
// holds. `notes` are for people; nothing is read from them.

#pragma once

#include "core/step/estimate.h"

// Words of a column begin with "unknown"; those of the lists below are in this order.
enum run_answer { RUN_UNSAID, RUN_NO, RUN_YES };
enum run_covers { // what a rate or a wall clock was taken over
    RUN_COVERS_UNSAID,
    RUN_STEPS, // training steps alone, once they run evenly
    RUN_WHOLE, // the whole run, with evaluation
    RUN_START, // training steps from the first one on, which loads kernels
};
enum run_counts { RUN_COUNTS_UNSAID, RUN_PADDED, RUN_REAL }; // tokens with or without padding
enum run_outcome { RUN_OUTCOME_UNSAID, RUN_FITS, RUN_OUT_OF_MEMORY };

struct run {
    const char *id, *source, *model;
    double params_b;
    const char *method, *lora_rank, *lora_targets, *precision;
    int quantization;
    int64_t seq_len;
    const char *packed, *lengths;
    double images; // of a row
    const char *image_size;
    double micro_batch, grad_accum, global_batch_tokens;
    const char *checkpointing, *parallelism, *offload, *framework, *stack;
    // How the stack differs from its default in this run: an index of the column's words.
    int kernels, attention, masks, loss, adapters, weights, autocast, gradients, states, optimizer;
    int optimizer_in_backward, no_sync, trains_embeddings, widens_unquantized, copies_on_save,
        bare_loop, rowwise_scales;
    int sequence_parallel, loss_parallel, cuda_graphs, expert_kernel, balanced_routing;
    const char *series, *gpu;
    double card_gib, context_gib;
    int64_t n_gpus, node_gpus;
    double node_gbit_per_s;
    double tokens_per_s_total, tokens_per_s_per_gpu;
    int rate_covers, counts;
    double tflops_per_gpu, mfu, peak_mem_gib_per_gpu;
    const char *mem_kind;
    double held_gib;
    int outcome;
    double wall_hours;
    int wall_covers;
    double evaluation_hours, total_tokens;
    const char *excluded, *notes;
};

extern const struct field run_fields[];

// Refuses a word that a column does not have, with file, line and column.
enum err run_read(struct run **out, size_t *count, struct arena *arena, struct text csv,
                  const char *name);

// Where the row was published, without the version: what leave-one-source-out leaves out.
struct text run_source(const struct run *run);

// The predicted bytes of the reading that the row quotes: allocated, reserved or the whole device.
double run_memory(const struct run *run, const struct memory *memory);

// Lengths of unpacked rows, or of the documents in packed ones: a mean, or P10, P50 and P90.
struct run_lengths {
    double mean, spread; // the spread is that of the logarithm
};
enum err run_lengths(struct run_lengths *out, const char *cell);

// The runs that a row may mean: itself where it says rank, targets, precision and micro-batch,
// otherwise one for each usual value of what it leaves out, with how often it is meant. Returns how
// many.
size_t run_unsaid(struct run **out, double **weights, struct arena *arena, const struct run *run);

// Tokens per second of training steps over all GPUs, padding included, as an estimate states them:
// evaluation that a rate covers is taken out of it. NAN where the row does not tell.
double run_tokens_per_s(const struct run *run);

// The rate that the row's source would report of steps at this one, and back: lower, where its rate
// covers the start of a run.
double run_reported_rate(const struct run *run, const struct setup *setup, double steady);
double run_steady_rate(const struct run *run, const struct setup *setup, double reported);

// Hours of the row's wall clock that are no steps: evaluation. NAN where the row does not tell.
double run_other_hours(const struct run *run);

// ERR_INPUT with the reason where the row has no setup.
enum err run_setup(struct setup *out, struct arena *arena, const struct run *run,
                   const struct catalog *catalog, const struct stack *stacks, size_t stack_count);
