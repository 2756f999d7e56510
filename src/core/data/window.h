// window: what each context window cuts and costs, and which one the data asks for.
//
//     struct window_plan plan;
//     TRY(window_plan(&plan, arena, &tally, &(struct window_request){ .trainer = trainer }));
//     plan.rows[plan.recommended].context, plan.reason
//
// Candidates are the powers of two from 512 to 32,768 and the data's own quantiles. Everything
// comes from the histogram of lengths, shuffled by the seed, so that merged profiles give what the
// profile of all the data gives.
//
// The recommendation is the data's and the task's, not the model's maximum: the smallest candidate
// that leaves 99 % of the examples whole and keeps 99.5 % of the labelled tokens, which stand at
// the end where cuts happen. If a window that cuts nothing costs hardly more, it is that one. Where
// rows are packed, the window is a row too, and is made wide enough for rows to fill well.

#pragma once

#include "core/data/packing.h"

struct window {
    int64_t context;
    int64_t truncated_examples, truncated_tokens, truncated_labelled;
    double padded_efficiency;  // useful over processed tokens, padded to the longest of a batch
    double grouped_efficiency; // the same, grouped by length
    double packed_efficiency;  // useful tokens over the slots of the trainer's packs
    int64_t packs;
    double relative_cost; // of an epoch, batched as asked; 1 is the first window that cuts nothing
};

struct window_request {
    const struct packing_trainer *trainer; // whose packing; NULL is the default one
    enum batching batching;                // whose cost counts
    int64_t micro_batch;                   // of padded rows; 0 is WINDOW_MICRO_BATCH
    int64_t context;                       // one more candidate; 0: none
    double square_tokens; // the length at which attention costs as much as all else; 0: a guess
    uint64_t seed;
};

enum { WINDOW_MICRO_BATCH = 8 };

struct window_plan {
    struct window *rows; // by rising context
    size_t count;
    size_t recommended;
    const char *reason; // one sentence
};

enum err window_plan(struct window_plan *out, struct arena *arena,
                     const struct lengths_tally *tally, const struct window_request *request);
