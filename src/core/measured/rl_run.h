// SPDX-License-Identifier: Apache-2.0
// rl_run: published steps of reinforcement learning, and what the model forecasts for each.
//
// Rows of data/objectives.csv. A row that does not state what a forecast needs (answers of a step,
// their lengths, GPU, layout) says what is missing and is not compared.
//
//     struct rl_run *runs;
//     TRY(rl_run_read(&runs, &count, arena, embedded_file("objectives.csv"), "objectives.csv"));
//     TRY(rl_run_forecast(&step, arena, &runs[i], &model, &calibration));

#pragma once

#include "core/measured/validate.h"

struct rl_run {
    const char *id, *source, *objective, *model, *stack, *gpu, *metric, *excluded;
    int64_t gpus, sampler_gpus, async_steps;
    double context, answers, mean_tokens; // of a step; with the prompt
    int64_t engine_gpus, tensor, context_parallel, expert, pipeline;
    double measured;
};
extern const struct field rl_run_fields[];

enum err rl_run_read(struct rl_run **out, size_t *count, struct arena *arena, struct text csv,
                     const char *name);

// Seconds of a step. How lengths spread no source states: the logarithm is taken to deviate by 0.6.
enum err rl_run_forecast(struct range *out, struct arena *arena, const struct rl_run *run,
                         const struct validate_model *model, const struct calibration *calibration);

// All rows of the catalog compared, as text: errors by source and by how answers were sampled, and
// what the other rows do not state; rows: a line each.
enum err rl_run_text(struct arena *arena, const struct validate_model *model, bool rows,
                     struct out *out);
