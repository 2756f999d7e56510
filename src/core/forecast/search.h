// search: all sensible configurations, those that fit, and which of them to prefer.
//
// Goes over GPU type and count, parallel scheme, recomputation and micro-batch. A step's list does
// not depend on the GPU, so that it is made once and held against every card. Compared are outcomes
// with every unknown at its middle; the forecast draws only for what is shown.
//
//     struct search search;
//     TRY(search_run(&search, arena, &space));
//     search.best[0].gpu_hours …
//
// A configuration is stable when it fits even if memory turns out as large as the byte plan's
// range allows. Pruned are heavier recomputation where a lighter one fits, larger micro-batches
// that gain under 2 %, and everything behind a micro-batch that fits nowhere. Unless the number of
// GPUs is given, they fill whole nodes or a part of one.

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
    struct efficiency efficiency;      // the catalog's row of the stack
    const struct prior *ledger;        // updates it by the user's own runs; NULL: does not
    const struct transfer *carry;      // a pilot, which takes the place of both; NULL: none
    const struct overheads *overheads; // before overhead_configure()
    const char *parallel;              // NULL: any
    double micro_batch;                // 0: any
    double global_batch;               // 0: micro_batch × data
    double usd_per_gpu_hour;           // NAN: by the catalog's offers
    const struct gpu *gpu;             // NULL: all of the vendor
    const char *vendor;
    int64_t gpus;      // 0: 1 … 64
    int64_t node_gpus; // 0: as the catalog's node has
};

struct search_result {
    const struct gpu *gpu;
    struct node node; // gpus 0: not in the catalog
    int64_t gpus;
    struct recipe recipe;
    struct layout layout;
    struct workload workload;
    struct memory memory;
    double tokens_per_s;                    // with the stack's efficiency
    double wall_hours, gpu_hours, cost_usd; // cost NAN without offers
    double seconds_per_step;
    bool stable;
};

struct search {
    struct search_result *best; // one per GPU type and count that fits, the fewest GPU hours first
    size_t count;
    size_t considered, fitting, timed; // configurations
};

enum err search_run(struct search *out, struct arena *arena, const struct search_space *space);

struct setup search_setup(const struct search_result *result, const struct model *model,
                          const struct stack *stack);

// Whether no other result has both less wall time and fewer GPU hours.
bool search_is_pareto(const struct search *search, const struct search_result *result);

// The result with the fewest GPUs, then the lowest cost, that ends within the wall hours and the
// budget; NULL if none does. NAN is no limit.
const struct search_result *search_smallest(const struct search *search, double wall_hours,
                                            double budget_usd);
