// csv: reads a table of comma- or tab-separated values with a header line.
//
//     struct csv csv;
//     TRY(csv_read(&csv, arena, text, "runs.csv", ','));
//     struct text gpu = csv_cell(&csv, row, csv_column(&csv, "gpu"));
//
// Quoted cells may hold separators, newlines and doubled quotes. Each row has as many cells as the
// header or the file is refused with its line. Lines that start with # before the header are notes.

#pragma once

#include "base/text.h"

struct csv {
    const char *name;
    size_t columns, rows;
    struct text *header; // columns
    struct text *cells;  // rows × columns
    int *lines;          // rows: where each began
};

enum err csv_read(struct csv *out, struct arena *arena, struct text in, const char *name,
                  char separator);
int csv_column(const struct csv *csv, const char *name);             // -1 if there is none
struct text csv_cell(const struct csv *csv, size_t row, int column); // empty for column -1

// Pulls one record of cells from a stream of text: what csv_read is made of. Decoded cells go to
// the arena only where they had doubled quotes. False at the end of the text.
struct csv_reader {
    const char *at, *end;
    char separator;
    int line;
    const char *problem;
};
bool csv_record(struct csv_reader *in, struct arena *arena, struct text *cells, size_t room,
                size_t *count);
