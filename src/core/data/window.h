// SPDX-License-Identifier: Apache-2.0
// window: compares context lengths by what they cut and cost, and recommends one.
//
//     struct window_plan plan;
//     TRY(window_plan(&plan, arena, &tally, &(struct window_request){ .trainer = trainer }));
//     plan.rows[plan.recommended].context, plan.reason
//
// Candidates are the powers of two from 512 to 32,768 and quantiles of the data's lengths. Each is
// simulated as the batches of a profile are: by the trainer's own rules, in the order of the files
// where it is known, else shuffled by the seed. So a row of the table and the batches at its
// context agree.
//
// The recommendation depends on the data, and ends at the model's positions: the smallest candidate
// that leaves 99 % of the examples whole and keeps 99.5 % of the labelled tokens, which are at the
// end, where cuts happen. If a window that cuts nothing costs at most 2 % more, it is recommended
// instead. With packing, the window is also the length of a packed row and is made large enough to
// fill rows to 95 %.

#pragma once

#include "core/data/packing.h"

struct window {
    int64_t context;
    int64_t truncated_examples, truncated_tokens, truncated_labelled;
    double padded_efficiency;  // useful over processed tokens, padded to the longest of a batch
    double grouped_efficiency; // the same, grouped by length
    double packed_efficiency;  // useful tokens over the capacity of the trainer's packs
    int64_t packs;
    double relative_cost; // of an epoch with the chosen batching; 1: the smallest window that cuts
                          // nothing
};

struct window_request {
    const struct packing_trainer *trainer; // whose packing; NULL: the default
    enum batching batching;                // decides which cost counts
    const struct lengths *list;            // in the order of the files; NULL: shuffled
    int64_t micro_batch;                   // of padded rows; 0 means WINDOW_MICRO_BATCH
    int64_t accumulation, ranks;           // 0: 1
    int64_t context;                       // an additional candidate; 0: none
    int64_t positions;                     // that the model has; 0: not known
    double square_tokens; // length at which attention costs as much as the rest; 0: a default
    uint64_t seed;
};

enum { WINDOW_MICRO_BATCH = 8 };

struct window_plan {
    struct window *rows; // by increasing context
    size_t count;
    size_t recommended;
    const char *reason; // one sentence
};

enum err window_plan(struct window_plan *out, struct arena *arena,
                     const struct lengths_tally *tally, const struct window_request *request);
