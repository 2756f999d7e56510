// SPDX-License-Identifier: Apache-2.0
// csv: reads a table of comma- or tab-separated values with a header line.
//
//     struct csv csv;
//     TRY(csv_read(&csv, arena, text, "runs.csv", ','));
//     struct text gpu = csv_cell(&csv, row, csv_column(&csv, "gpu"));
//
// Quoted cells may contain separators, newlines and doubled quotes. A row whose number of cells
// differs from the header's is an error. Lines before the header that start with # are comments.

#pragma once

#include "base/text.h"

struct csv {
    const char *name;
    size_t columns, rows;
    struct text *header; // columns
    struct text *cells;  // rows × columns
    int *lines;          // line on which each row begins
};

enum err csv_read(struct csv *out, struct arena *arena, struct text in, const char *name,
                  char separator);
int csv_column(const struct csv *csv, const char *name);             // -1 if there is none
struct text csv_cell(const struct csv *csv, size_t row, int column); // empty for column -1

// Reads one record of cells from a stream of text. Cells are views, except those with doubled
// quotes, which are decoded into the arena. False at the end of the text.
struct csv_reader {
    const char *at, *end;
    char separator;
    int line;
    const char *problem;
};
bool csv_record(struct csv_reader *in, struct arena *arena, struct text *cells, size_t room,
                size_t *count);
