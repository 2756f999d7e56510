// SPDX-License-Identifier: Apache-2.0
// inputs: the data files that the words of a command line name.
//
// A word is a file, a folder (all data files in it and below, in order of their names), a pattern
// such as "part-*.jsonl", a remote address ("hf://", "s3://", "https://"), or "-" for standard
// input. Other files of a folder (notes, hidden files, the descriptions that dataset
// libraries write) are skipped, and so are its test and validation splits if it has a train split:
// nobody trains on them. Named by themselves they are read.

#pragma once

#include "base/text.h"

struct inputs {
    const char **paths; // in the arena
    size_t count;
    int64_t total_bytes; // of all files; 0: the size of one is unknown
    size_t left_out;     // files of test and validation splits, in folders that have a train split
    const char *left_out_name; // the first of them
};

enum err inputs_find(struct inputs *out, struct arena *arena, const char *const *words,
                     size_t count);
bool inputs_is_remote(const char *path);
