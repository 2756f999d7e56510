// pilot_rows: what a pilot trains on: rows of the user's data, or random tokens of its lengths.
//
//     struct pilot_rows rows = { .words = line->positional, .count = line->positional_count, … };
//     TRY(pilot_rows_load(&loader, arena, &rows));
//
// A pilot needs no more rows than it can see in its time: reading ends after so many tokens.
// Lengths without data come from a profile, else from the plan's own average micro-batch.

#pragma once

#include "cli/dataset.h"
#include "train/loader.h"

struct pilot_rows {
    const char *const *words; // files and folders; none: lengths alone
    size_t count;
    const char *profile; // profile.json; may be NULL
    double mean_length;  // where there is neither: of a document
    double labelled_share;
    struct dataset_options data;
    const char *folder; // of the model; may be NULL
    int64_t vocabulary;
    int64_t window, micro_batch;
    uint64_t seed;
    bool quiet;
};

// The lengths that a profile holds, as a list.
enum err pilot_rows_lengths(struct lengths *out, struct arena *arena, const char *profile_path,
                            uint64_t seed);

enum err pilot_rows_load(struct loader *out, struct arena *arena, const struct pilot_rows *rows);
