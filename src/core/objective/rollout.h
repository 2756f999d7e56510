// SPDX-License-Identifier: Apache-2.0
// rollout: how long a sampler takes to write the answers of one step of reinforcement learning.
//
// From first principles. A decode step reads the weights once, whatever the number of rows, and the
// cache of keys and values of every live row; rows end one by one as the distribution of lengths
// says, new ones take their place while there are some (continuous batching), and a synchronous
// step waits for the longest of all. With answers that may be one step old, the trainer works on
// the last step's answers meanwhile; with older ones the sampler never drains, because answers of
// later steps follow:
//
//     rows   cap ┤▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▅▃
//                │  the queue feeds   ▅▃▂▁▁        ▁▁▁▁  ← waiting: most GPUs idle
//                └──────────────────┴─────────────┴────▶ time
//                   full             drain          longest of all rows
//
//     struct rollout rollout = { .sampler = sampler, .prompts = 32, .generations = 16, … };
//     rollout_time(&seconds, &rollout, model, gpu, &links, trainer_gpus);
//
// Formulas: docs/formulas.md, section rollout.

#pragma once

#include "core/step/network.h"

struct sampler {
    const char *name, *title;
    double bandwidth_share; // of the GPU's sustained memory rate that a decode step reaches
    double step_seconds;    // of the host, per decode step, while the GPU waits: scheduling
    double layer_seconds; // of the host, to launch a layer's kernels beside the GPU; 0: CUDA graphs
    double token_seconds; // of the host, per token: its bookkeeping and text
    double memory_share;  // of the card, for weights and cache, where it samples alone
    double shared_share;  // the same where the trainer's states stay beside it
    double most_rows;     // live on one engine
    double cache_moves;   // bytes moved for each byte of the cache: 1 where it is only read
    bool continuous;      // a new row takes the place of one that ended
    bool tensor;          // an engine may span GPUs
    const char *source;
};
extern const struct sampler samplers[];
extern const char *const sampler_names[]; // "vllm", "sglang", "hf", NULL

// Of the sampler's copy of the weights; its cache stays in 16 bits.
enum sampler_precision { SAMPLER_BF16, SAMPLER_FP8 };
extern const char *const sampler_precisions[]; // "bf16", "fp8", NULL

struct rollout {
    const struct sampler *sampler;
    double prompts, generations; // of one step
    double prompt_length;        // on average
    double p10, p50, p90;        // lengths of answers
    double limit;                // an answer ends there: at most the context less the prompt
    double gpus;                 // of their own; 0: the trainer's, in turns
    double tensor;               // GPUs of one engine; 0: the fewest that hold weights and cache
    double oversampling;         // answers sampled for each that is trained on
    double async_steps;          // that answers may be behind; 0: sampler and trainer take turns
    double measured;             // a pilot's seconds of sampling over those forecast; 0: no pilot
    double transfer_measured;    // likewise of the weights' way to the sampler
    enum sampler_precision precision;
    double efficiency; // of the trainer's stack, which these seconds do not share
};

// The length that this share of answers does not exceed, and the mean.
double rollout_quantile(const struct rollout *rollout, double share);
double rollout_mean_length(const struct rollout *rollout);

struct rollout_seconds {
    double tensor;          // GPUs of one engine
    double engines;         // that sample side by side
    double rows;            // that fit one of them at a time
    double prefill, decode; // until an average engine ends
    double waiting;         // from then until the last one ends
    double transfer;        // of the new weights, with sleep and wake where GPUs are shared
    double reward;          // by a rule
};

// Seconds are NAN where the weights fit no engine.
void rollout_time(struct rollout_seconds *out, const struct rollout *rollout,
                  const struct model *model, const struct gpu *gpu, const struct links *links,
                  double trainer_gpus);

double rollout_total(const struct rollout_seconds *seconds);

// What sampling adds to a step whose training takes that long: all of it in turns; when the next
// answers are sampled beside it, what the sampler is slower by. New weights interrupt both.
double rollout_added(const struct rollout_seconds *seconds, const struct rollout *rollout,
                     double training_seconds);

// The hook of struct step_passes.
double rollout_sampling(const struct step_request *request, const struct gpu *gpu,
                        const struct links *links, double training_seconds);
