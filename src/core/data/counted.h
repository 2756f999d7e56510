// SPDX-License-Identifier: Apache-2.0
// counted: what a profile needs of each example, in about sixteen bytes; the result of a work unit.
//
//     counted_put(&writer, file, &example); …          // in order
//     counted_put_end(&writer, shapes, count, &census, lines);
//
//     struct counted_reader reader = { .at = text.at, .end = text.at + text.size };
//     while (counted_next(&reader, &example)) …        // example.file is NULL: reader.file says it
//     reader.shapes, reader.census, reader.lines; reader.failed
//
// A profile is made by adding such examples in order (counting.h), whether they come from the data
// or from here: so the merged profile of all units equals the profile of one run to the last byte,
// duplicates and the order of batches included. Nothing of the text is kept but a hash.
//
// Lines are counted from the start of a unit. The line in the file is that plus the lines of the
// units before it in the same file.

#pragma once

#include "core/data/example.h"
#include "core/data/profile.h"

enum { COUNTED_LISTED = 64 }; // files whose columns a profile lists: the first

// How the rows of a file were read.
struct counted_shape {
    size_t file;        // its index
    const char *format; // of the records
    bool is_plain;      // every line is a row
    struct record_column *columns;
    size_t column_count;
};

struct counted_shape counted_shape_copy(struct arena *arena, const struct counted_shape *shape);

// Adds what the shape of the next file says of the data: format and columns.
void counted_add_shape(struct profile *profile, struct arena *arena, size_t *listed,
                       const struct counted_shape *shape);

struct counted_writer {
    struct out *out; // the caller may take its bytes away at any time
    size_t file;     // of the last example
    int64_t line;
    int64_t bad; // rows; a profile shows the problems of the first
};

void counted_put(struct counted_writer *writer, size_t file, const struct example *example);
void counted_put_end(struct counted_writer *writer, const struct counted_shape *shapes,
                     size_t count, const struct census *census, int64_t lines);

struct counted_reader {
    struct arena *arena; // of the shapes and the census
    const char *at, *end;
    size_t file; // of the example that was read
    int64_t line;
    bool failed; // the bytes are not what a writer wrote
    struct counted_shape *shapes;
    size_t shape_count;
    struct census census;
    int64_t lines;
};

// False after the last example, when shapes, census and the number of lines are known, or on
// failure.
bool counted_next(struct counted_reader *reader, struct example *example);
