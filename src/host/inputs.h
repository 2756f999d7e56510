// SPDX-License-Identifier: Apache-2.0
// inputs: the data files that the words of a command line name.
//
// A word is a file, a folder (all data files in it and below, in order of their names), a pattern
// such as "part-*.jsonl", an address, or "-" for standard input. "**" between slashes stands for
// any number of folders, as in Python and in bash with globstar. "s3://" and "gs://" name an
// object, a prefix (as a folder) or a pattern; "https://" a file; "hf://datasets/org/name/path"
// what the local cache of the hub holds. Only the first three use the network. Other files of a
// folder (README.txt and such notes, hidden files, the descriptions that dataset libraries write)
// are skipped, and so are its test and validation splits if it has a train split: nobody trains on
// them. Named by themselves they are read.

#pragma once

#include "remote/object.h"

struct inputs {
    const char **paths;            // in the arena; of an address without its query
    const struct object **objects; // NULL for local files
    int64_t *sizes;                // in bytes; -1: unknown
    size_t count;
    int64_t total_bytes; // of all files; 0: the size of one is unknown
    size_t left_out;     // files of test and validation splits, in folders that have a train split
    const char *left_out_name; // the first of them
};

enum err inputs_find(struct inputs *out, struct arena *arena, const char *const *words,
                     size_t count);
