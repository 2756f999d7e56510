// lines: cuts a stream of text into rows: JSON Lines, a JSON list, CSV records, plain lines.
//
// A stream comes in chunks. lines_cut() says how much of a chunk is whole rows; what is left stands
// at the beginning of the next chunk. The rows of such a piece are then walked, by anyone, later:
//
//     struct lines rows = { cutter, piece.at, piece.at + piece.size, .next_line = 1 };
//     struct text row;
//     while (lines_next(&rows, &row))
//         count(row, rows.line);
//
// Rows are views of the piece, without their line end (\n or \r\n). Empty lines are rows of plain
// text only. What stands between the values of a JSON list is not checked, the values themselves
// are for the reader of rows to judge: a broken one does not hide its neighbours.

#pragma once

#include "base/text.h"

enum lines_format {
    LINES_UNKNOWN,
    LINES_JSON,   // a value on each line
    LINES_LIST,   // one list [ … ] around all values
    LINES_VALUES, // values one after another, each over several lines
    LINES_CSV,    // records; a quoted cell may hold line ends
    LINES_TEXT,   // each line as it is
};

const char *lines_format_name(enum lines_format format); // "JSON Lines", "a JSON list"

// Guesses from the name ("train.jsonl", endings of compression removed) and the first bytes. Where
// neither says text, because there are NUL bytes, it is LINES_UNKNOWN.
enum lines_format lines_guess(const char *name, struct text head);

struct lines_cutter {
    enum lines_format format;
    char separator; // of CSV cells
    // Between rows only `open` is set; the rest says where in a row the last chunk ended.
    bool open;    // the list has begun and not ended
    bool inside;  // a value has begun and not ended
    bool quoted;  // inside a string or a quoted cell
    bool escaped; // behind a backslash; in CSV: behind a quote that may be the first of two
    bool filled;  // the CSV cell has begun
    int64_t depth;
};

// Takes the bytes of chunk from `from` on; those before were taken by an earlier call. Returns how
// many bytes of the chunk are whole rows, 0 when no row ended in the new bytes.
size_t lines_cut(struct lines_cutter *cutter, struct text chunk, size_t from);

// Takes bytes only until the row that began in an earlier chunk ends; returns how many, or SIZE_MAX
// when it goes on behind the chunk. What is too long is skipped with it.
size_t lines_skip(struct lines_cutter *cutter, struct text chunk);

struct lines {
    struct lines_cutter cutter; // as it was where the piece begins
    const char *at, *end;
    int64_t next_line; // of *at, counted from 1
    int64_t line;      // of the row last returned
};

bool lines_next(struct lines *in, struct text *row); // false behind the last row

// The cells of one CSV row, `count` of them, into room for as many. NULL, or what is wrong with it.
const char *lines_cells(struct text row, char separator, struct arena *arena, struct text *cells,
                        size_t count);

// The separator that a CSV header uses: a comma, or what else it has and commas not.
char lines_separator(struct text header);

int64_t lines_count(struct text text); // of line ends
