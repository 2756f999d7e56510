// SPDX-License-Identifier: Apache-2.0
// lines: cuts a stream of text into rows: JSON Lines, a JSON list, CSV records, plain lines.
//
// A stream arrives in chunks. lines_cut() returns how much of a chunk is complete rows; the caller
// puts the rest at the start of the next chunk. Any thread can then iterate over the rows of a
// piece:
//
//     struct lines rows = { cutter, piece.at, piece.at + piece.size, .next_line = 1 };
//     struct text row;
//     while (lines_next(&rows, &row))
//         count(row, rows.line);
//
// Rows are views of the piece, without their line end (\n or \r\n); those of JSON also without a
// byte order mark, as files that were joined have one in the middle. Empty lines are rows only in
// plain text. Text between the values of a JSON list is not checked, and values are not validated
// here, so a broken row does not hide its neighbours.

#pragma once

#include "base/text.h"

enum lines_format {
    LINES_UNKNOWN,
    LINES_JSON,   // a value on each line
    LINES_LIST,   // one list [ … ] around all values
    LINES_VALUES, // values one after another, each on several lines
    LINES_CSV,    // records; a quoted cell may contain line ends
    LINES_TEXT,   // every line is a row
};

// The name without the ending of a packed file: "train.csv" of "train.csv.xz".
struct text lines_unpacked_name(struct text name);

// Guesses from the name ("train.jsonl", with or without a packing's ending) and the first bytes.
// LINES_UNKNOWN if it is not text (NUL bytes).
enum lines_format lines_guess(const char *name, struct text head);

// Whether the first bytes are those of a web page (HTML), as servers send in place of a file.
bool lines_is_page(struct text head);

// Whether they are those of an XML document with the root <Error>, which object stores send.
bool lines_is_store_error(struct text head);

struct lines_cutter {
    enum lines_format format;
    char separator; // of CSV cells
    // Between rows only `open` is set; the rest is the state within a row at the end of a chunk.
    bool open;    // inside the list
    bool inside;  // inside a value
    bool quoted;  // inside a string or a quoted cell
    bool escaped; // after a backslash; in CSV: after a quote that may be the first of two
    bool filled;  // inside a CSV cell
    int64_t depth;
};

// Reads the bytes of chunk from `from` on; an earlier call read those before. Returns how many
// bytes of the chunk are complete rows; 0 if no row ended in the new bytes.
size_t lines_cut(struct lines_cutter *cutter, struct text chunk, size_t from);

// Reads to the end of the row that began in an earlier chunk; returns the number of bytes, or
// SIZE_MAX if it continues after the chunk. Used to skip rows that are too long.
size_t lines_skip(struct lines_cutter *cutter, struct text chunk);

struct lines {
    struct lines_cutter cutter; // its state at the start of the piece
    const char *at, *end;
    int64_t next_line; // of *at, counted from 1
    int64_t line;      // of the row last returned
};

bool lines_next(struct lines *in, struct text *row); // false after the last row

// Reads the `count` cells of one CSV row. Returns NULL, or what is wrong with the row.
const char *lines_cells(struct text row, char separator, struct arena *arena, struct text *cells,
                        size_t count);

// The separator of CSV, from its first bytes: what the line "sep=;" names, as Excel writes it
// before the header (*skipped: its bytes), else what the header has: a comma, else a tab, semicolon
// or bar.
char lines_separator(struct text head, size_t *skipped);

int64_t lines_count(struct text text); // number of line ends
