// SPDX-License-Identifier: Apache-2.0
// search: every sensible configuration of a run, which of them fit, and the best per GPU and count.
//
// The search covers GPU type and count, parallel layout, activation checkpointing and micro-batch.
// It compares configurations by their time with the unknowns at their middle values, the lengths of
// the examples at their typical effect; core/plan samples the unknowns for the few configurations
// that it shows.
//
//     struct search search;
//     TRY(search_run(&search, arena, &space));
//     search.best[0].gpu_hours …
//
// A configuration *fits* when its byte plan is within the card's memory, and is *stable* when it
// does so with a probability of memory_sure, by the spread of measured runs. Unless the number of
// GPUs is given, the GPUs fill whole nodes or a part of one. search.c explains what is pruned, and
// why.

#pragma once

#include "core/forecast/prior.h"
#include "core/forecast/forecast.h"
#include "core/forecast/workload.h"

struct search_space {
    const struct catalog *catalog;
    const struct model *model;
    const struct stack *stack;
    struct recipe recipe; // checkpointing RECIPE_AUTO: any
    struct workload_rule rule;
    struct step_passes passes;             // of the objective
    struct efficiency efficiency;          // of the stack
    const struct calibration *calibration; // its spread by configuration; NULL: the same for all
    const struct prior *ledger;            // the user's own runs, which update it; NULL: none
    const struct transfer *transfer;       // of a pilot, which replaces both; NULL: none
    const struct overheads *overheads;     // before overhead_configure()
    const char *parallel;                  // NULL: any
    const struct layout *layout;           // NULL: as parallel says
    bool fills;                            // our engine fills a card, see struct setup
    double micro_batch;                    // 0: any
    double global_batch;                   // rows of an optimizer step; 0: micro_batch × data
    double batch_tolerance;  // how far a step may be from global_batch; 0: exactly that many rows
    double usd_per_gpu_hour; // NAN: by the catalog's offers
    const struct gpu *gpu;   // NULL: all of the vendor that can be rented
    const char *vendor;
    int64_t gpus;         // 0: 1 … 64
    int64_t sampler_gpus; // of these, that only sample; as passes.rollout says
    bool splits;          // how many sample is searched
    int64_t node_gpus;    // 0: as the catalog's node has
};

struct search_result {
    const struct stack *stack;
    const struct gpu *gpu;
    struct node node; // gpus 0: not in the catalog
    int64_t gpus;
    struct recipe recipe;
    bool fills;
    struct layout layout;
    struct workload workload;
    struct step_passes passes;
    struct memory memory;
    double tokens_per_s;                    // with the stack's efficiency
    double wall_hours, gpu_hours, cost_usd; // cost NAN without offers
    bool sampled; // these are medians over samples (core/plan), not middle values
    struct forecast_outcome of_few, of_all; // samples; tokens_per_s is 0 until core/plan asks
    double seconds_per_step;
    bool stable;
};

struct search {
    struct search_result *best; // one per GPU type and count that fits, the fewest GPU hours first
    size_t count;
    size_t considered, fitting, timed; // configurations
    // Of those that do not fit, the one that needs the smallest multiple of its card's memory.
    // Its speed and hours are not computed. closest.gpu is NULL where everything fits.
    struct search_result closest;
};

enum err search_run(struct search *out, struct arena *arena, const struct search_space *space);

// Whether it fits with a probability of memory_sure or more.
bool search_is_stable(const struct memory *memory);

struct setup search_setup(const struct search_result *result, const struct model *model,
                          const struct stack *stack);

// Whether no other result has both less wall time and fewer GPU hours.
bool search_is_pareto(const struct search *search, const struct search_result *result);
