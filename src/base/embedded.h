// SPDX-License-Identifier: Apache-2.0
// embedded: the files of data/, compiled into the program by tools/embed.c.

#pragma once

#include "base/text.h"

struct embedded {
    const char *name; // "gpus.csv"
    const char *at;   // followed by a NUL, which size does not include
    size_t size;
};

extern const struct embedded embedded_files[]; // ended by a NULL name

// The text of a file by name; .at is NULL if there is none.
struct text embedded_file(const char *name);
