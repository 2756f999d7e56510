// SPDX-License-Identifier: Apache-2.0
// run: measured runs, as published, and the setups they correspond to.
//
// A row of a runs file says what was trained, how, on which hardware, and what was measured.
// run_setup() turns it into a setup or says why it cannot. The columns are those of data/runs.csv.

#pragma once

#include "core/step/estimate.h"

struct run {
    const char *id, *source, *model;
    double params_b;
    const char *method, *lora_rank, *lora_targets, *precision;
    int64_t seq_len;
    const char *packed;
    double micro_batch, grad_accum, global_batch_tokens;
    const char *checkpointing, *parallelism, *framework, *gpu;
    int64_t n_gpus;
    double tokens_per_s_total, tokens_per_s_per_gpu, tflops_per_gpu, mfu, peak_mem_gib_per_gpu;
    const char *mem_kind;
    double wall_hours, total_tokens;
    const char *notes;
};

extern const struct field run_fields[];

enum err run_read(struct run **out, size_t *count, struct arena *arena, struct text csv,
                  const char *name);

// Where the row was published, without the version: what leave-one-source-out leaves out.
struct text run_source(const struct run *run);

// The predicted bytes of the reading that the row quotes: allocated, reserved or the whole device.
double run_memory(const struct run *run, const struct memory *memory);

// ERR_INPUT with the reason where the row has no setup.
enum err run_setup(struct setup *out, struct arena *arena, const struct run *run,
                   const struct catalog *catalog, const struct stack *stacks, size_t stack_count);
