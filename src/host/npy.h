// SPDX-License-Identifier: Apache-2.0
// npy: one-dimensional arrays in numpy's file format, written as a stream and read in place.
//
//     struct npy ids;
//     TRY(npy_create(&ids, "ids.npy", NPY_INT32));
//     err = npy_append(&ids, tokens, count);
//     err = err ? err : npy_finish(&ids);
//     npy_release(&ids);
//
// The length is known only at the end, so the header reserves space for it. npy_release() removes a
// file that was not finished. Numbers are little-endian, as on every machine that we build for.

#pragma once

#include "base/text.h"

#include <stdio.h>

enum npy_type { NPY_UINT8, NPY_INT32, NPY_INT64 };

struct npy {
    FILE *file;
    const char *path; // kept, not copied
    enum npy_type type;
    int64_t count;
};

enum err npy_create(struct npy *npy, const char *path, enum npy_type type);
enum err npy_append(struct npy *npy, const void *items, size_t count);
enum err npy_finish(struct npy *npy);
void npy_release(struct npy *npy);

// Where the numbers of a whole file begin, and how many there are; the file must stay open.
enum err npy_read(const void **items, int64_t *count, struct text file, enum npy_type type,
                  const char *name);
