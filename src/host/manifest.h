// SPDX-License-Identifier: Apache-2.0
// manifest: the files of a dataset, and the work units that they are cut into.
//
//     struct manifest manifest;
//     TRY(manifest_make(&manifest, arena, words, count, 256 << 20));
//     manifest.units[i].file, .files, .from, .to
//
// The units follow from the names, sizes and kinds of the files alone, not from the number of
// workers: every machine that sees the same files finds the same units, and the number of workers
// may change at any time. A large file is cut into parts of equal size: a part has the lines, or
// the row groups of a Parquet and the record batches of an Arrow file, that begin in it. Large
// files that cannot be cut (packed ones, JSON lists, CSV, whose quoted cells may hold line ends,
// Arrow in an object store) are a unit each; small files are put together until they are about as
// large as a unit.

#pragma once

#include "host/inputs.h"

struct manifest_file {
    int64_t bytes;      // -1: not known
    int64_t changed_ns; // when it was last changed; 0: not known
};

struct manifest_unit {
    size_t file, files; // the first of them, and how many
    int64_t from, to;   // of a part of one file: the rows that begin there; 0, 0: whole files
    int64_t bytes;
};

struct manifest {
    struct inputs inputs;
    struct manifest_file *files; // of inputs.paths
    struct manifest_unit *units;
    size_t count;
};

enum err manifest_make(struct manifest *out, struct arena *arena, const char *const *words,
                       size_t count, int64_t unit_bytes);

// ERR_INPUT if a file of the unit is no longer what it was when the manifest was made.
enum err manifest_check(const struct manifest *manifest, const struct manifest_unit *unit);

// "part-3.jsonl, bytes 0 to 1048576", "part-3.jsonl and 4 more files".
const char *manifest_name(struct arena *arena, const struct manifest *manifest,
                          const struct manifest_unit *unit);
