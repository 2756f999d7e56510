// SPDX-License-Identifier: Apache-2.0
// train_data: the examples of a run, of which each rank reads and tokenizes its share.
//
//     struct train_data data = { .options = &options, .words = words, .count = 2 };
//     TRY(train_data_read(&data, &loader, arena, &group));
//
// The files are cut into as many stretches of bytes as there are ranks (train/data_share). What the
// ranks have read is then gathered once, as tokens: every rank has all examples, in the order of
// the files, so that the order of training is the same for any number of ranks.

#pragma once

#include "cli/dataset/dataset.h"
#include "train/loader.h"

struct train_data {
    const struct dataset_options *options;
    const char *const *words; // files and folders
    size_t count;
    int64_t vocabulary; // of the model
    bool quiet;
    // found
    int64_t read_bytes, most_bytes; // by all ranks; by the one that read most
};

enum err train_data_read(struct train_data *data, struct loader *loader, struct arena *arena,
                         struct group *group); // up to loader_start()
