// SPDX-License-Identifier: Apache-2.0
// rl_run: published steps of preference tuning and reinforcement learning, and what the model
// forecasts for each.
//
// Rows of data/objectives.csv: whole steps, or one of their phases. A row that does not state what
// a forecast needs (answers of a step, their lengths, GPU, layout) says what is missing and is not
// compared.
//
//     struct rl_run *runs;
//     TRY(rl_run_read(&runs, &count, arena, embedded_file("objectives.csv"), "objectives.csv"));
//     TRY(rl_run_forecast(&step, arena, &runs[i], &model, &calibration));

#pragma once

#include "core/measured/validate.h"

struct rl_run {
    const char *id, *source, *objective, *model, *stack, *gpu, *metric, *excluded;
    int64_t gpus, sampler_gpus, async_steps;
    double context, answers, train_batch, mean_tokens; // of a step; of an update; with the prompt
    int64_t engine_gpus, tensor, context_parallel, expert, pipeline;
    int64_t micro_batch;       // rows; 0: answers are packed
    int64_t zero;              // stage of ZeRO
    int64_t models;            // trained in turns on these GPUs: 2 where PPO's critic is among them
    const char *method;        // NULL: full
    const char *checkpointing; // NULL: full
    const char *offload;       // "optimizer" in the host's memory
    double measured;
};
extern const struct field rl_run_fields[];

enum err rl_run_read(struct rl_run **out, size_t *count, struct arena *arena, struct text csv,
                     const char *name);

// What a row measures: a whole step of reinforcement learning, the training alone of such a step,
// or preference tuning.
enum rl_run_group { RL_RUN_STEP, RL_RUN_TRAINING, RL_RUN_PREFERENCE, RL_RUN_GROUPS };
enum rl_run_group rl_run_group(const struct rl_run *run);

// Of the row's metric: seconds, or a share. How lengths spread no source states: the logarithm is
// taken to deviate by 0.6.
enum err rl_run_forecast(struct range *out, struct arena *arena, const struct rl_run *run,
                         const struct validate_model *model, const struct calibration *calibration);

// All rows of the catalog compared, as text: errors by group, by source and by how answers were
// sampled, and what the other rows do not state; rows: a line each. `alone` is of the runs that
// validate() compared: those of a trainer of reinforcement learning without its sampler.
enum err rl_run_text(struct arena *arena, const struct validate_model *model,
                     const struct validate_summary *alone, bool rows, struct out *out);
