// SPDX-License-Identifier: Apache-2.0
// fit: the byte plan of a request, the largest micro-batch and context that fit, and the fewest
// GPUs.
//
//     struct fit fit;
//     TRY(fit_make(&fit, arena, &data, &request));
//     fit.memory.parts[MEMORY_ACTIVATIONS], fit.largest[RECIPE_RECOMPUTE].micro_batch …
//
// Takes the request of a plan, with the plan's defaults; tokens are not needed. What the request
// leaves open becomes a micro-batch of one row, one GPU, the simplest layout and the lightest
// checkpointing that fit with a probability of memory_sure. Without a GPU there is no limit:
// everything "fits", and no largest micro-batch or context is given.

#pragma once

#include "core/plan/plan.h"

struct fit_largest {     // more likely to fit than not
    int64_t micro_batch; // rows of the request's context; 0: not even one fits
    int64_t context;     // tokens of the request's micro-batch; 0: not even FIT_CONTEXT_STEP fit
};

struct fit_fewest {
    int64_t gpus;      // 1, 2, 4 … FIT_MOST_GPUS; 0: more; below 0: the stack has no such method
    int checkpointing; // the lightest that fits there with a probability of memory_sure, else full
    struct layout layout; // the simplest, likewise
    double fit_probability;
};

struct fit {
    const struct model *model;
    const struct stack *stack;
    const struct gpu *gpu; // NULL: any
    struct objective objective;
    struct recipe recipe; // nothing left on auto
    struct layout layout;
    bool chooses; // nobody said what is recomputed
    double micro_batch, context, accumulation;
    const struct trainer_config *from; // of the request; may be NULL
    struct memory memory;
    struct fit_largest largest[RECIPE_AUTO]; // by checkpointing, of those that the stack has
    struct fit_fewest fewest[RECIPE_METHODS];
};

bool fit_offers(const struct fit *fit, int checkpointing); // whether it has a largest

enum { FIT_CONTEXT_STEP = 256, FIT_MOST_GPUS = 64 }; // the largest context is found to the former

enum err fit_make(struct fit *out, struct arena *arena, const struct plan_data *data,
                  const struct plan_request *request);

void fit_write(const struct fit *fit, struct arena *arena, struct out *out); // JSON
void fit_text(const struct fit *fit, struct arena *arena, struct out *out);
