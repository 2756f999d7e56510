// SPDX-License-Identifier: Apache-2.0
// pilot_rows: loads the training rows of a pilot: the user's data, or random tokens of its lengths.
//
//     struct pilot_rows rows = { .words = line->positional, .count = line->positional_count, … };
//     TRY(pilot_rows_load(&loader, arena, &rows));
//
// A pilot is short, so reading stops after 32 M tokens. Without data, lengths come from a profile,
// or from the plan's mean micro-batch.

#pragma once

#include "cli/dataset/dataset.h"
#include "train/loader.h"

struct pilot_rows {
    const char *const *words; // files and folders; none: random tokens
    size_t count;
    const char *profile; // profile.json; may be NULL
    double mean_length;  // of a document, without data and profile
    double labelled_share;
    struct dataset_options data;
    const char *folder; // of the model; may be NULL
    int64_t vocabulary;
    int64_t window, micro_batch;
    uint64_t seed;
    bool pairs; // of answers, as DPO trains on them
    bool quiet;
};

// The lengths of a profile, as a list.
enum err pilot_rows_lengths(struct lengths *out, struct arena *arena, const char *profile_path,
                            uint64_t seed);

enum err pilot_rows_load(struct loader *out, struct arena *arena, const struct pilot_rows *rows);
