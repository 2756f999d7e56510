// SPDX-License-Identifier: Apache-2.0
// parquet_internal: what the files of parquet share: the footer, column chunks, pages and values.

#pragma once

#include "host/archive.h"
#include "host/tables/parquet.h"

enum {
    PARQUET_MOST_COLUMNS = 4096,
    PARQUET_MOST_CHUNKS = 1 << 20,
    PARQUET_DEEPEST = 32,
    PARQUET_MOST_PAGE_BYTES = 256 << 20,
    PARQUET_MOST_ROW_BYTES = 256 << 20,
    PARQUET_AHEAD_BYTES = 64 << 20, // of a row group on a server, read before they are needed
};
#define PARQUET_MOST_HELD_BYTES ((int64_t)768 << 20) // by all pages of a row group together

enum parquet_type { // as the format numbers them
    PARQUET_BOOLEAN,
    PARQUET_INT32,
    PARQUET_INT64,
    PARQUET_INT96,
    PARQUET_FLOAT,
    PARQUET_DOUBLE,
    PARQUET_BYTES,
    PARQUET_FIXED,
    PARQUET_GROUP, // ours: a node with children
};

enum parquet_meaning { // what a type stands for
    PARQUET_PLAIN,
    PARQUET_TEXT,
    PARQUET_LIST,
    PARQUET_MAP,
    PARQUET_DECIMAL,
    PARQUET_UNSIGNED,
    PARQUET_HALF,
};

struct parquet_node {
    struct text name; // followed by a NUL
    enum parquet_type type;
    enum parquet_meaning meaning;
    bool is_optional, is_repeated;
    bool is_dropped;      // a column that is not wanted
    int max_def, max_rep; // levels of an entry that has this node
    int scale;            // of decimals
    uint32_t width;       // bytes of PARQUET_FIXED
    struct parquet_node *children;
    size_t child_count;
    size_t leaf, leaf_count; // the leaves below, or itself
};

struct parquet_chunk {   // one column of one row group
    int64_t first, size; // bytes in the file
    int64_t values;
    int codec;
};

struct parquet_footer {
    struct parquet_node root;
    struct parquet_node **leaves;
    size_t leaf_count;
    struct parquet_chunk *chunks; // leaf_count for each group
    int64_t *group_rows;
    int64_t *group_starts; // the first byte of each; never falls, whatever the order in the file
    size_t group_count;
};

// Reads the footer, whose bytes are the file's between its last row group and its last eight.
enum err parquet_footer_read(struct parquet_footer *out, struct arena *arena, struct text bytes,
                             int64_t file_bytes, const char *path);

// --- Thrift's compact protocol, as far as Parquet uses it --------------------

struct parquet_thrift {
    const unsigned char *at, *end;
    bool bad; // damaged, or cut off
};

enum {
    PARQUET_THRIFT_TRUE = 1,
    PARQUET_THRIFT_BINARY = 8,
    PARQUET_THRIFT_LIST = 9,
    PARQUET_THRIFT_STRUCT = 12
};

// The next field of a struct; *id begins at 0. False at its end, or when it is bad.
bool parquet_thrift_field(struct parquet_thrift *t, int *id, int *type);
int64_t parquet_thrift_number(struct parquet_thrift *t);
void parquet_thrift_skip(struct parquet_thrift *t, int type);

// --- the bytes of a chunk ----------------------------------------------------

struct parquet_span {
    const struct archive *file;
    struct stream *parts; // of an object; NULL: read from the file
    int64_t at, end;      // the next byte to read into the buffer, and the end of the chunk
    char *buffer;
    size_t used, filled, room;
};

void parquet_span_open(struct parquet_span *span, const struct archive *file,
                       const struct parquet_chunk *chunk);

// Requests what is not in the buffer yet, of an object.
enum err parquet_span_prefetch(struct parquet_span *span, const struct stream_options *options);
void parquet_span_close(struct parquet_span *span);

// --- a column while its pages are read ---------------------------------------

struct parquet_bits { // runs and packed groups of small numbers: levels, indexes
    const unsigned char *at, *end;
    int width;
    uint32_t run; // values left of a run
    uint32_t value;
    uint32_t packed; // values left of packed ones
    uint64_t bits;   // not taken yet
    int bit_count;
};

struct parquet_delta { // numbers as differences
    const unsigned char *at, *end;
    uint32_t block, minis, per_mini;
    uint64_t left, mini_left; // values of all, and of the mini-block
    uint32_t mini;
    const unsigned char *widths, *data;
    size_t bit;
    int64_t last, least;
    bool begun, bad;
};

struct parquet_column {
    const char *path; // of the file, for sentences
    const struct parquet_node *node;
    const struct parquet_chunk *chunk;
    struct parquet_span span;
    int64_t *held;       // bytes of all columns
    int64_t values_left; // of the chunk, beyond this page
    // The page at hand:
    char *page;
    size_t page_room;
    int64_t page_values; // entries left
    int encoding;
    struct parquet_bits reps, defs, indexes;
    struct text values; // what is left of them
    size_t value_index, value_count;
    struct parquet_delta lengths, prefixes, numbers;
    char *before; // DELTA_BYTE_ARRAY: the value before
    size_t before_size, before_room;
    int bool_bit;
    // The dictionary of the chunk:
    char *dictionary;
    size_t dictionary_room, dictionary_count;
    struct text *words;
    // The entry at hand:
    bool has_entry;
    int rep, def;
};

// Has the next entry's levels in rep and def. Fails at the end of the chunk.
enum err parquet_column_peek(struct parquet_column *column);

// Takes the entry; *value, where it is not NULL and the entry has one, are its bytes.
enum err parquet_column_take(struct parquet_column *column, struct text *value);
void parquet_column_release(struct parquet_column *column);
enum err parquet_column_damaged(const struct parquet_column *column, const char *where);

// Unpacks a page into exactly `size` bytes; NULL, or what is wrong.
const char *parquet_codec_unpack(int codec, struct text packed, char *out, size_t size);
