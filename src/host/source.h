// SPDX-License-Identifier: Apache-2.0
// source: datasets as blocks of whole rows, from files of any supported format.
//
//     struct source source;
//     TRY(source_open(&source, arena, words, count, &(struct source_options){ 0 }));
//     struct block block = { 0 };
//     for (bool more; !(err = source_next(&source, &block, &more)) && more;) {
//         struct lines rows = block.rows;
//         for (struct text row; lines_next(&rows, &row);)
//             … block.name, rows.line, row …
//     }
//     source_block_release(&block);
//     source_close(&source);
//
// Files are read as streams (base/lines cuts them, host/archive unpacks them, host/table reads
// Parquet and Arrow as JSON Lines), never as a whole: memory is one block plus the row
// that crosses its end. They are read, not mapped: a file that shrinks meanwhile ends early instead
// of killing the program, and the resident size stays flat. Other threads may work on blocks while
// source_next() fills further ones (host/pool); only one thread calls it at a time, and the blocks
// are the same on every run. The arena belongs to the source: other threads use their own.
//
// A row longer than the limit, or a list without its closing bracket, becomes a block without rows
// and with a problem: it counts as one bad row at that line.

#pragma once

#include "base/lines.h"
#include "host/archive.h"
#include "host/inputs.h"

struct source_options {
    enum lines_format format;  // LINES_UNKNOWN: guessed for each file
    size_t block_bytes;        // 0: SOURCE_BLOCK_BYTES
    size_t row_limit_bytes;    // 0: SOURCE_ROW_LIMIT_BYTES; at least 64 KiB
    double unpack_ratio_limit; // 0: ARCHIVE_RATIO_LIMIT
    // Of one file: the lines that begin in these bytes, or the row groups of a table; 0, 0: all.
    // Lines are counted from the first of them.
    int64_t from, to;
};

enum { SOURCE_BLOCK_BYTES = 1 << 20, SOURCE_ROW_LIMIT_BYTES = 64 << 20 };

struct block {
    const char *name;   // of the file
    size_t file;        // its index in source.inputs
    struct lines rows;  // to be copied, then walked with lines_next()
    int64_t lines;      // that they take
    bool is_table;      // rows.line counts rows, not lines
    struct text *names; // CSV: the header's cells
    size_t name_count;
    const char *problem; // NULL, or what is wrong with the row at rows.next_line
    int64_t done_bytes;  // of source.inputs.total_bytes, when this block was read
    char *buffer;        // its own; kept for the next block
    size_t room;
};

struct source {
    struct inputs inputs;
    struct source_options options;
    struct arena *arena;
    size_t next_file;     // the one to open next
    int64_t before_bytes; // of files that are done
    int64_t read_bytes;   // of files and ranges that are done; of tables, of all their columns
    bool reading;         // a file is open
    struct archive archive;
    struct table *table; // in place of the archive; NULL if not
    struct lines_cutter cutter;
    int64_t line;      // where the next block begins
    bool ended;        // the open file is read
    bool skipping;     // in a row that is too long
    bool header_taken; // of CSV
    struct text *names;
    size_t name_count;
    char *pending; // the begun row, and bytes that were read to detect the format
    size_t pending_size, pending_room;
    size_t scanned;           // bytes of pending that the cutter has seen
    const char *too_long;     // the problem of a row over the limit
    const char *late_problem; // of the next block
    int64_t late_line;
};

enum err source_open(struct source *source, struct arena *arena, const char *const *words,
                     size_t count, const struct source_options *options);
enum err source_next(struct source *source, struct block *block, bool *more);
void source_close(struct source *source);

// Says which columns of the open file the next blocks need; of a table, others are not read.
enum err source_keep(struct source *source, const struct text *names, size_t count);

// Whether a file can be read in ranges: its rows are lines, or it is a table of many row groups.
bool source_has_ranges(const char *path);

// How many lines or rows of the file come before a range. For error messages: it reads them all.
int64_t source_lines_before(const char *path, int64_t from);

void source_block_release(struct block *block); // accepts a zeroed one
