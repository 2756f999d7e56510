// SPDX-License-Identifier: Apache-2.0
// census: the columns of all rows, and how many bytes of text each of them holds.
//
//     struct census census = { .arena = arena };
//     census_add(&census, TEXT("essay"), NULL, 1200);     // a value in a row
//     census_merge(&all, &census);                        // of other rows
//
// Rows may have any number of different keys: of more than CENSUS_NAMES names, those with the
// smallest hashes are kept; names longer than CENSUS_NAME_BYTES are left out. Which ones are kept
// depends on the names alone, so the census is the same in any order of rows, threads and units.

#pragma once

#include "base/arena.h"
#include "base/text.h"

enum { CENSUS_NAMES = 1024, CENSUS_NAME_BYTES = 256 };

struct census_column {
    uint64_t hash; // of the name: two names of one hash count as one
    const char *name;
    const char *part; // what it is read as in some row; NULL: in none
    int64_t bytes;
};

struct census {
    struct arena *arena;
    struct census_column *columns; // in the order of their hashes
    size_t count, room;
    int64_t bytes; // of all columns, also of those whose names are not kept
};

// Adds the bytes of a column's value. Values without text (0 bytes) are not noted.
void census_add(struct census *census, struct text name, const char *part, int64_t bytes);
void census_merge(struct census *to, const struct census *from);

const struct census_column *census_find(const struct census *census, struct text name); // or NULL
