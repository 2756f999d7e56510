// SPDX-License-Identifier: Apache-2.0
// columns: a table for people, fitted to the width of the out that it is written to.
//
//     struct columns columns = { .arena = arena, .align = "Lrrl", .spare = "0021" };
//     columns_add_row(&columns, (const char *[]){ "GPU", "memory", "watts", "as of", NULL });
//     columns_add(&columns, gpu->name); columns_add(&columns, memory); …
//     columns_write(&columns, &out);
//
// The first row is the heading. Two blanks separate the columns; blanks at a line's end are left
// out. align has a letter per column: l left, r right; in capitals, the column may be cut ("…").
// Where the table is wider than the out:
//
//   1. capital columns are cut, the widest first, down to .least and not below their title;
//   2. then spare columns are left out, the digit 1 first, 9 last, 0 never; a line below the table
//      names them;
//   3. then capital columns are cut as far as it takes.

#pragma once

#include "base/text.h"

enum { COLUMNS_LEAST = 16, COLUMNS_MOST = 64 };

struct columns {
    struct arena *arena;
    const char *align; // at most COLUMNS_MOST letters
    const char *spare; // a digit per column; NULL: none is spare
    int least;         // columns that a cut leaves as long as others can be left out; 0: 16
    int indent;        // blanks before each row
    size_t marked;     // this row has "> " in its indent; 0: none
    const char **cells;
    size_t count, room;
};

void columns_add(struct columns *columns, const char *cell);             // NULL is empty
void columns_add_row(struct columns *columns, const char *const *cells); // ended by NULL
void columns_write(const struct columns *columns, struct out *out);
