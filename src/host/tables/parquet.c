// SPDX-License-Identifier: Apache-2.0
// Puts the entries of Parquet columns together again: rows as JSON text, group by group.

#include "host/tables/parquet.h"

#include "base/half.h"
#include "base/json.h"
#include "host/tables/bytes.h"
#include "host/tables/parquet_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct parquet {
    const char *path;
    struct archive file;
    struct arena arena; // of the footer
    struct parquet_footer footer;
    struct parquet_column *columns; // one for each leaf
    struct parquet_span *ahead;     // of an object: a group's, on their way
    size_t ahead_group;             // plus one; 0: none
    size_t group;                   // the next one to open
    int64_t from, to;               // bytes in which the groups to read begin
    bool knows_columns;             // parquet_keep() was called
    int64_t rows_left;              // of the open one
    int64_t held;
    struct out text; // of the row
    struct arena scratch;
};

// --- opening -----------------------------------------------------------------

static enum err open_file(struct parquet *p, const char *path, const struct object *object)
{
    if (!object)
        return archive_open(&p->file, path, 0);
    // Pages are fetched by themselves: no stream from the beginning is opened.
    p->file = (struct archive){
        .name = object->name, .fd = -1, .object = object, .size_bytes = object->size_bytes
    };
    return OK;
}

static enum err read_footer(struct parquet *p)
{
    enum { MOST_FOOTER_BYTES = 64 << 20, GUESS_BYTES = 64 * 1024 };
    int64_t size = p->file.size_bytes;
    char *tail = arena_alloc(&p->arena, GUESS_BYTES);
    size_t guess = size < GUESS_BYTES ? (size_t)size : GUESS_BYTES;
    uint32_t footer;
    if (size < 12)
        return fail(ERR_INPUT, "%s: is too short for a Parquet file", p->path);
    if (!archive_read_at(&p->file, size - (int64_t)guess, tail, guess))
        return p->file.object ? ERR_INPUT : fail(ERR_INPUT, "%s: cannot be read", p->path);
    if (!memcmp(tail + guess - 4, "PARE", 4))
        return fail(ERR_INPUT, "%s: is encrypted, which is not supported", p->path);
    if (memcmp(tail + guess - 4, "PAR1", 4))
        return fail(ERR_INPUT, "%s: does not end as a Parquet file does; was it copied whole?",
                    p->path);
    memcpy(&footer, tail + guess - 8, 4);
    if (footer > size - 12 || footer > MOST_FOOTER_BYTES)
        return fail(ERR_INPUT, "%s: the Parquet file is damaged in its footer", p->path);
    const char *at = tail + guess - 8 - footer;
    if (footer + 8 > guess) {
        char *whole = arena_alloc(&p->arena, footer);
        if (!archive_read_at(&p->file, size - 8 - footer, whole, footer))
            return p->file.object ? ERR_INPUT : fail(ERR_INPUT, "%s: cannot be read", p->path);
        at = whole;
    }
    return parquet_footer_read(&p->footer, &p->arena, (struct text){ at, footer }, size - 8,
                               p->path);
}

enum err parquet_open(struct parquet **out, const char *path, const struct object *object)
{
    *out = NULL;
    struct parquet *p = calloc(1, sizeof *p);
    if (!p)
        return fail(ERR_MEMORY, "%s: out of memory", path);
    p->path = path;
    p->text.arena = &p->arena;
    p->to = INT64_MAX;
    enum err err = open_file(p, path, object);
    if (!err)
        err = read_footer(p);
    if (!err) {
        p->columns = calloc(p->footer.leaf_count, sizeof *p->columns);
        p->ahead = calloc(p->footer.leaf_count, sizeof *p->ahead);
        if (!p->columns || !p->ahead)
            err = fail(ERR_MEMORY, "%s: out of memory", path);
    }
    if (err)
        parquet_close(p);
    else
        *out = p;
    return err;
}

void parquet_close(struct parquet *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->footer.leaf_count; i++) {
        if (p->columns)
            parquet_column_release(&p->columns[i]);
        if (p->ahead)
            parquet_span_close(&p->ahead[i]);
    }
    free(p->columns);
    free(p->ahead);
    if (p->file.object)
        p->file = (struct archive){ .fd = -1 };
    archive_close(&p->file);
    arena_release(&p->scratch);
    arena_release(&p->arena);
    free(p);
}

// --- row groups --------------------------------------------------------------

// The first group from this one on that begins in the range; group_count: none.
static size_t group_in_range(const struct parquet *p, size_t group)
{
    const int64_t *starts = p->footer.group_starts;
    while (group < p->footer.group_count && (starts[group] < p->from || starts[group] >= p->to))
        group++;
    return group;
}

void parquet_rows(struct parquet *p, int64_t from, int64_t to)
{
    p->from = from;
    p->to = to;
    p->group = group_in_range(p, 0);
}

// What is read ahead of each column of an object: all columns together take at most
// PARQUET_AHEAD_BYTES. While nobody knows which columns are needed, a small part of each.
static struct stream_options read_ahead(const struct parquet *p)
{
    enum { MOST_DEPTH = 4, LEAST_PART = 256 * 1024 };
    size_t kept = 0;
    for (size_t i = 0; i < p->footer.leaf_count; i++)
        kept += !p->footer.leaves[i]->is_dropped;
    int depth = kept <= 4 ? MOST_DEPTH : kept <= 16 ? 2 : 1;
    size_t part = PARQUET_AHEAD_BYTES / ((kept ? kept : 1) * (size_t)depth);
    part = part > STREAM_PART_BYTES ? STREAM_PART_BYTES : part < LEAST_PART ? LEAST_PART : part;
    return p->knows_columns ? (struct stream_options){ part, depth }
                            : (struct stream_options){ LEAST_PART, 1 };
}

static bool reads_ahead(const struct parquet *p)
{
    enum { MOST_STREAMS = 32 };
    return p->file.object && p->footer.leaf_count <= MOST_STREAMS;
}

// Starts the requests for a group of an object.
static enum err fetch_group(struct parquet *p, size_t group)
{
    size_t leaves = p->footer.leaf_count;
    struct stream_options options = read_ahead(p);
    p->ahead_group = group + 1;
    for (size_t i = 0; reads_ahead(p) && group < p->footer.group_count && i < leaves; i++) {
        const struct parquet_chunk *chunk = &p->footer.chunks[group * leaves + i];
        parquet_span_open(&p->ahead[i], &p->file, chunk);
        if (chunk->size && !p->footer.leaves[i]->is_dropped)
            TRY(parquet_span_prefetch(&p->ahead[i], &options));
    }
    return OK;
}

static enum err open_group(struct parquet *p)
{
    size_t group = p->group, leaves = p->footer.leaf_count;
    if (p->ahead_group != group + 1)
        TRY(fetch_group(p, group));
    p->group = group_in_range(p, group + 1);
    p->held = 0;
    for (size_t i = 0; i < leaves; i++) {
        struct parquet_column *c = &p->columns[i];
        const struct parquet_chunk *chunk = &p->footer.chunks[group * leaves + i];
        struct parquet_span span = p->ahead[i];
        parquet_column_release(c);
        if (p->footer.leaves[i]->is_dropped)
            continue;
        *c = (struct parquet_column){ .path = p->path,
                                      .node = p->footer.leaves[i],
                                      .chunk = chunk,
                                      .held = &p->held,
                                      .values_left = chunk->values };
        if (span.parts)
            c->span = span;
        else
            parquet_span_open(&c->span, &p->file, chunk);
        p->ahead[i] = (struct parquet_span){ 0 };
    }
    p->rows_left = p->footer.group_rows[group];
    return p->knows_columns ? fetch_group(p, p->group) : OK;
}

static bool is_among(struct text name, const struct text *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (names[i].at && text_equal(names[i], name))
            return true;
    return false;
}

static void drop_columns(struct parquet *p, const struct text *names, size_t count)
{
    struct parquet_node *root = &p->footer.root;
    for (size_t i = 0; i < root->child_count; i++) {
        struct parquet_node *node = &root->children[i];
        node->is_dropped = node->is_dropped || !is_among(node->name, names, count);
        for (size_t k = node->leaf; node->is_dropped && k < node->leaf + node->leaf_count; k++) {
            p->footer.leaves[k]->is_dropped = true;
            parquet_column_release(&p->columns[k]);
            parquet_span_close(&p->ahead[k]);
        }
    }
}

// Reads on in large parts, now that it is known what is needed.
static enum err read_on(struct parquet *p)
{
    struct stream_options options = read_ahead(p);
    for (size_t i = 0; reads_ahead(p) && i < p->footer.leaf_count; i++)
        if (p->columns[i].span.parts && p->columns[i].span.at < p->columns[i].span.end)
            TRY(parquet_span_prefetch(&p->columns[i].span, &options));
    return p->rows_left ? fetch_group(p, p->group) : OK;
}

enum err parquet_keep(struct parquet *p, const struct text *names, size_t count)
{
    const struct parquet_node *root = &p->footer.root;
    size_t kept = 0;
    for (size_t i = 0; i < root->child_count; i++)
        kept += is_among(root->children[i].name, names, count);
    if (kept)
        drop_columns(p, names, count);
    bool knew = p->knows_columns;
    p->knows_columns = true;
    return knew ? OK : read_on(p);
}

// --- values ------------------------------------------------------------------

// A big-endian number of two's complement, as decimals are stored.
static double big_number(struct text bytes)
{
    double value = 0;
    for (size_t i = 0; i < bytes.size; i++) {
        int byte = (unsigned char)bytes.at[i];
        value = value * 256 + (i == 0 && byte > 127 ? byte - 256 : byte);
    }
    return value;
}

static void put_integer(const struct parquet_node *node, struct text bytes, struct json_writer *w,
                        const char *key)
{
    int64_t value = 0;
    int32_t narrow;
    if (bytes.size == 4) {
        memcpy(&narrow, bytes.at, 4);
        value = node->meaning == PARQUET_UNSIGNED ? (int64_t)(uint32_t)narrow : narrow;
    } else {
        memcpy(&value, bytes.at, 8);
    }
    if (node->meaning == PARQUET_DECIMAL)
        json_put_number(w, key, (double)value / pow(10, node->scale));
    else if (node->meaning == PARQUET_UNSIGNED && value < 0)
        json_put_number(w, key, (double)(uint64_t)value);
    else
        json_put_count(w, key, value);
}

static void put_leaf(const struct parquet_node *node, struct text bytes, struct json_writer *w,
                     const char *key)
{
    float narrow;
    double wide;
    uint16_t half;
    switch (node->type) {
    case PARQUET_BOOLEAN: json_put_bool(w, key, *bytes.at); return;
    case PARQUET_INT32:
    case PARQUET_INT64: put_integer(node, bytes, w, key); return;
    case PARQUET_FLOAT:
        memcpy(&narrow, bytes.at, 4);
        json_put_number(w, key, (double)narrow);
        return;
    case PARQUET_DOUBLE:
        memcpy(&wide, bytes.at, 8);
        json_put_number(w, key, wide);
        return;
    default: break;
    }
    if (node->meaning == PARQUET_DECIMAL) {
        json_put_number(w, key, big_number(bytes) / pow(10, node->scale));
    } else if (node->meaning == PARQUET_HALF && bytes.size == 2) {
        memcpy(&half, bytes.at, 2);
        json_put_number(w, key, (double)half_from_fp16(half));
    } else if (node->meaning == PARQUET_TEXT ||
               (node->type == PARQUET_BYTES && bytes_are_text(bytes))) {
        json_put_text(w, key, bytes);
    } else {
        bytes_put(bytes, w, key);
    }
}

// --- rows --------------------------------------------------------------------

static enum err put_node(struct parquet *p, const struct parquet_node *node, struct json_writer *w,
                         const char *key);

static struct parquet_column *first_of(struct parquet *p, const struct parquet_node *node)
{
    return &p->columns[node->leaf];
}

// An entry that ends above the node: all leaves below have one for it.
static enum err skip_entry(struct parquet *p, const struct parquet_node *node)
{
    for (size_t i = 0; i < node->leaf_count; i++)
        TRY(parquet_column_take(&p->columns[node->leaf + i], NULL));
    return OK;
}

static enum err too_long(const struct parquet *p)
{
    return p->text.size > PARQUET_MOST_ROW_BYTES ? fail(ERR_INPUT, "%s: a row takes over %d MiB",
                                                        p->path, PARQUET_MOST_ROW_BYTES >> 20)
                                                 : OK;
}

// The key of a map's entry, in the scratch arena.
static enum err take_key(struct parquet *p, const struct parquet_node *node, const char **key)
{
    struct text bytes;
    TRY(parquet_column_take(first_of(p, node), &bytes));
    *key = text_copy(&p->scratch, bytes.at ? bytes : TEXT("null"));
    return OK;
}

static enum err put_group(struct parquet *p, const struct parquet_node *node, struct json_writer *w,
                          const char *key)
{
    json_open(w, key, '{');
    for (size_t i = 0; i < node->child_count; i++)
        if (!node->children[i].is_dropped)
            TRY(put_node(p, &node->children[i], w, node->children[i].name.at));
    json_close(w, '}');
    return OK;
}

// What is there of a node, its repetition aside.
static enum err put_content(struct parquet *p, const struct parquet_node *node,
                            struct json_writer *w, const char *key)
{
    struct text bytes;
    if (node->type == PARQUET_GROUP)
        return put_group(p, node, w, key);
    TRY(parquet_column_take(first_of(p, node), &bytes));
    if (!bytes.at) // another column of the group has a value for this entry
        return parquet_column_damaged(first_of(p, node), "the levels of a page");
    put_leaf(node, bytes, w, key);
    return too_long(p);
}

// Current writers have a group around each item of a list; old ones repeat the item itself.
static bool has_item_inside(const struct parquet_node *list, const struct parquet_node *repeated)
{
    return repeated->type == PARQUET_GROUP && repeated->child_count == 1 &&
           !text_is(repeated->name, "array") &&
           !(text_ends(repeated->name, "_tuple") && repeated->name.size == list->name.size + 6);
}

enum items { ITEMS_THEMSELVES, ITEMS_INSIDE, ITEMS_OF_MAP };

static enum err put_items(struct parquet *p, const struct parquet_node *repeated, enum items kind,
                          struct json_writer *w, const char *key)
{
    struct parquet_column *first = first_of(p, repeated);
    TRY(parquet_column_peek(first));
    char bracket = kind == ITEMS_OF_MAP ? '{' : '[';
    json_open(w, key, bracket);
    if (first->def < repeated->max_def) {
        TRY(skip_entry(p, repeated));
    } else {
        do {
            const char *name = NULL;
            if (kind == ITEMS_OF_MAP)
                TRY(take_key(p, &repeated->children[0], &name));
            TRY(kind == ITEMS_THEMSELVES
                    ? put_content(p, repeated, w, NULL)
                    : put_node(p, &repeated->children[kind == ITEMS_OF_MAP], w, name));
            TRY(too_long(p));
            if (first->page_values || first->values_left || first->has_entry)
                TRY(parquet_column_peek(first));
        } while (first->has_entry && first->rep == repeated->max_rep);
    }
    json_close(w, bracket == '{' ? '}' : ']');
    return OK;
}

static enum err put_node(struct parquet *p, const struct parquet_node *node, struct json_writer *w,
                         const char *key)
{
    if (node->is_repeated)
        return put_items(p, node, ITEMS_THEMSELVES, w, key);
    struct parquet_column *first = first_of(p, node);
    TRY(parquet_column_peek(first));
    if (node->is_optional && first->def < node->max_def) {
        json_put_string(w, key, NULL);
        TRY(too_long(p));
        return skip_entry(p, node);
    }
    const struct parquet_node *inner = node->child_count == 1 ? node->children : NULL;
    if (node->meaning == PARQUET_LIST && inner && inner->is_repeated)
        return put_items(p, inner, has_item_inside(node, inner) ? ITEMS_INSIDE : ITEMS_THEMSELVES,
                         w, key);
    bool is_map = node->meaning == PARQUET_MAP && inner && inner->is_repeated &&
                  inner->child_count == 2 && inner->children[0].type == PARQUET_BYTES &&
                  !inner->children[0].is_repeated;
    return is_map ? put_items(p, inner, ITEMS_OF_MAP, w, key) : put_content(p, node, w, key);
}

enum err parquet_next(struct parquet *p, struct text *row)
{
    *row = (struct text){ 0 };
    while (!p->rows_left) {
        if (p->group == p->footer.group_count)
            return OK;
        TRY(open_group(p));
    }
    p->rows_left--;
    for (size_t i = 0; i < p->footer.leaf_count; i++) {
        if (p->footer.leaves[i]->is_dropped)
            continue;
        TRY(parquet_column_peek(&p->columns[i]));
        if (p->columns[i].rep) // a row begins with level 0 in every column
            return parquet_column_damaged(&p->columns[i], "the levels of a page");
    }
    struct arena_mark mark = arena_mark(&p->scratch);
    p->text.size = 0;
    struct json_writer w = { .out = &p->text, .compact = true };
    TRY(put_group(p, &p->footer.root, &w, NULL));
    arena_rewind(&p->scratch, mark);
    *row = out_view(&p->text);
    return OK;
}
