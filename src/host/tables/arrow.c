// SPDX-License-Identifier: Apache-2.0
// Reads Arrow IPC: flatbuffer metadata, then record batches, then rows as JSON text.

#include "host/tables/arrow.h"

#include "base/json.h"
#include "host/archive.h"
#include "host/tables/bytes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_COLUMNS = 4096,
    DEEPEST_COLUMN = 32,
    LONGEST_METADATA_BYTES = 64 << 20,
};

// --- flatbuffers: the tables that describe a message -------------------------

struct flat {
    const unsigned char *at;
    size_t size;
};

// A little-endian number of so many bytes; 0 outside the buffer.
static uint64_t number_at(struct flat f, size_t at, size_t bytes)
{
    uint64_t value = 0;
    if (at > f.size || f.size - at < bytes)
        return 0;
    memcpy(&value, f.at + at, bytes);
    return value;
}

// Where a table's member lies; 0 when it is absent.
static size_t member_at(struct flat f, size_t table, unsigned index)
{
    int32_t back = (int32_t)number_at(f, table, 4);
    int64_t vtable = (int64_t)table - back;
    if (!table || vtable < 0 || (size_t)vtable >= f.size)
        return 0;
    size_t size = number_at(f, (size_t)vtable, 2), slot = 4 + 2 * (size_t)index;
    size_t offset = slot + 2 <= size ? number_at(f, (size_t)vtable + slot, 2) : 0;
    return offset && table + offset < f.size ? table + offset : 0;
}

static uint64_t number_of(struct flat f, size_t table, unsigned index, size_t bytes)
{
    size_t at = member_at(f, table, index);
    return at ? number_at(f, at, bytes) : 0;
}

// Where a member that is itself a table, vector or string begins; 0 when absent.
static size_t child_of(struct flat f, size_t table, unsigned index)
{
    size_t at = member_at(f, table, index);
    size_t child = at ? at + number_at(f, at, 4) : 0;
    return child < f.size ? child : 0;
}

// The elements of a vector of so many bytes each: where they begin, and how many.
static size_t vector_of(struct flat f, size_t table, unsigned index, size_t bytes, size_t *count)
{
    size_t at = child_of(f, table, index);
    *count = at ? number_at(f, at, 4) : 0;
    if (!at || *count > (f.size - at) / bytes || f.size - at < 4 + *count * bytes)
        *count = 0;
    return at + 4;
}

// --- columns -----------------------------------------------------------------

enum type { // as the format numbers them
    TYPE_NULL = 1,
    TYPE_INT = 2,
    TYPE_FLOAT = 3,
    TYPE_BINARY = 4,
    TYPE_UTF8 = 5,
    TYPE_BOOL = 6,
    TYPE_DECIMAL = 7,
    TYPE_DATE = 8,
    TYPE_TIME = 9,
    TYPE_TIMESTAMP = 10,
    TYPE_LIST = 12,
    TYPE_STRUCT = 13,
    TYPE_FIXED_BINARY = 15,
    TYPE_FIXED_LIST = 16,
    TYPE_MAP = 17,
    TYPE_DURATION = 18,
    TYPE_LARGE_BINARY = 19,
    TYPE_LARGE_UTF8 = 20,
    TYPE_LARGE_LIST = 21,
};

struct column {
    struct text name;
    enum type type;
    size_t width; // bytes of a number, of an offset, or items of a fixed list
    bool is_signed;
    struct column *children;
    size_t child_count;
    bool is_dropped; // a column of the table that is not wanted
    // Of the batch at hand:
    int64_t length;
    struct flat valid, offsets, values; // empty where the type has none
};

struct piece { // a buffer of a batch that is wanted
    struct flat *to;
    int64_t first, size; // bytes of the body
};

struct arrow {
    const char *path;
    struct archive in;
    struct arena arena;    // of the schema
    struct column root;    // a struct of all columns
    size_t columns;        // in the whole tree
    int64_t at;            // in the file
    int64_t from, to;      // bytes in which the batches to read begin
    char *metadata, *body; // of the message at hand; of a batch's body, the pieces
    size_t metadata_room, body_room;
    struct piece *pieces; // room for those of all columns
    size_t piece_count;
    int64_t row, row_count; // of the batch
    struct out text;        // of the row
};

static enum err refuse(const struct arrow *a, const char *why)
{
    return fail(ERR_INPUT, "%s: %s; convert it to Parquet", a->path, why);
}

static enum err damaged(const struct arrow *a, const char *where)
{
    return fail(ERR_INPUT, "%s: the Arrow file is damaged or cut off in %s", a->path, where);
}

static enum err set_type(struct arrow *a, struct column *c, struct flat f, size_t field)
{
    size_t type = child_of(f, field, 3);
    c->type = (enum type)number_of(f, field, 2, 1);
    switch (c->type) {
    case TYPE_INT:
        c->width = number_of(f, type, 0, 4) / 8;
        c->is_signed = number_of(f, type, 1, 1);
        break;
    case TYPE_FLOAT: c->width = (size_t)2 << number_of(f, type, 0, 2) % 4; break;
    case TYPE_DATE: c->width = number_of(f, type, 0, 2) || !member_at(f, type, 0) ? 8 : 4; break;
    case TYPE_TIME: c->width = member_at(f, type, 1) ? number_of(f, type, 1, 4) / 8 : 4; break;
    case TYPE_TIMESTAMP:
    case TYPE_DURATION: c->width = 8; break;
    case TYPE_BINARY:
    case TYPE_UTF8:
    case TYPE_LIST:
    case TYPE_MAP: c->width = 4; break;
    case TYPE_LARGE_BINARY:
    case TYPE_LARGE_UTF8:
    case TYPE_LARGE_LIST: c->width = 8; break;
    case TYPE_FIXED_LIST: c->width = number_of(f, type, 0, 4); break;
    case TYPE_NULL:
    case TYPE_BOOL:
    case TYPE_DECIMAL:
    case TYPE_STRUCT:
    case TYPE_FIXED_BINARY: break;
    default:
        return fail(ERR_INPUT,
                    "%s: column \"%.*s\" has an Arrow type (%d) that is not supported; convert it "
                    "to Parquet",
                    a->path, TEXT_BRIEF(c->name), (int)c->type);
    }
    c->is_signed = c->is_signed || c->type != TYPE_INT;
    if (c->type == TYPE_FLOAT && c->width == 2)
        return refuse(a, "it has half-precision numbers");
    bool number = c->type == TYPE_INT || c->type == TYPE_TIME || c->type == TYPE_FLOAT;
    bool odd = c->width != 1 && c->width != 2 && c->width != 4 && c->width != 8;
    return (number && odd) || c->width > 1 << 24 ? damaged(a, "its schema") : OK;
}

static enum err read_column(struct arrow *a, struct column *c, struct flat f, size_t field,
                            int depth)
{
    size_t name = child_of(f, field, 0), name_size = name ? number_at(f, name, 4) : 0;
    c->name = TEXT("");
    if (name && name_size <= f.size - name - 4)
        c->name = (struct text){ arena_copy(&a->arena, (const char *)f.at + name + 4, name_size),
                                 name_size };
    if (depth > DEEPEST_COLUMN || ++a->columns > MOST_COLUMNS)
        return refuse(a, "its columns are nested too deeply or too many");
    if (child_of(f, field, 4))
        return refuse(a, "it has dictionary-encoded columns");
    TRY(set_type(a, c, f, field));
    size_t at = vector_of(f, field, 5, 4, &c->child_count);
    c->children = ARENA_NEW(&a->arena, struct column, c->child_count);
    for (size_t i = 0; i < c->child_count; i++)
        TRY(read_column(a, &c->children[i], f, at + 4 * i + number_at(f, at + 4 * i, 4),
                        depth + 1));
    bool list = c->type == TYPE_LIST || c->type == TYPE_LARGE_LIST || c->type == TYPE_MAP ||
                c->type == TYPE_FIXED_LIST;
    return list && c->child_count != 1 ? damaged(a, "its schema") : OK;
}

static enum err read_schema(struct arrow *a, struct flat f, size_t schema)
{
    if (number_of(f, schema, 0, 2))
        return refuse(a, "its numbers are big-endian");
    a->root = (struct column){ .type = TYPE_STRUCT };
    size_t at = vector_of(f, schema, 1, 4, &a->root.child_count);
    a->root.children = ARENA_NEW(&a->arena, struct column, a->root.child_count);
    for (size_t i = 0; i < a->root.child_count; i++)
        TRY(read_column(a, &a->root.children[i], f, at + 4 * i + number_at(f, at + 4 * i, 4), 0));
    a->pieces = ARENA_NEW(&a->arena, struct piece, 3 * a->columns); // at most three of a column
    return a->root.child_count ? OK : refuse(a, "it has no columns");
}

enum { KIND_SCHEMA = 1, KIND_BATCH = 3 }; // of messages

// --- batches -----------------------------------------------------------------

struct layout { // of a batch: what its columns take, one after another
    struct flat metadata;
    int64_t body_size;
    size_t nodes, node_count, buffers, buffer_count;
    bool skips; // the column at hand is not wanted
};

// The next buffer, if it is wanted; NULL: it is not.
static enum err take_buffer(struct arrow *a, struct layout *l, struct flat *out)
{
    if (!l->buffer_count--)
        return damaged(a, "a batch");
    uint64_t first = number_at(l->metadata, l->buffers, 8), all = (uint64_t)l->body_size;
    uint64_t size = number_at(l->metadata, l->buffers + 8, 8);
    l->buffers += 16;
    if (first > all || size > all - first)
        return damaged(a, "a batch");
    if (size && out && !l->skips)
        a->pieces[a->piece_count++] = (struct piece){ out, (int64_t)first, (int64_t)size };
    return OK;
}

// Whether the offsets never fall: otherwise a small file could expand to endless text.
static bool rises(const struct column *c)
{
    int64_t before = 0;
    for (size_t at = 0; c->offsets.size - at >= c->width && c->offsets.size; at += c->width) {
        int64_t offset = (int64_t)number_at(c->offsets, at, c->width);
        if (at / c->width > (uint64_t)c->length) // padding
            break;
        if (offset < before)
            return false;
        before = offset;
    }
    return true;
}

static enum err take_column(struct arrow *a, struct layout *l, struct column *c)
{
    if (!l->node_count--)
        return damaged(a, "a batch");
    c->length = (int64_t)number_at(l->metadata, l->nodes, 8);
    bool has_nulls = number_at(l->metadata, l->nodes + 8, 8);
    l->nodes += 16;
    if (c->length < 0 || (uint64_t)c->length > 8 * ((uint64_t)l->body_size + 1))
        return damaged(a, "a batch"); // not even a bit for each row
    c->valid = c->offsets = c->values = (struct flat){ 0 };
    if (c->type != TYPE_NULL)
        TRY(take_buffer(a, l, has_nulls ? &c->valid : NULL));
    bool nested = c->type == TYPE_STRUCT || c->type == TYPE_FIXED_LIST || c->type == TYPE_NULL;
    bool listed = c->type == TYPE_LIST || c->type == TYPE_LARGE_LIST || c->type == TYPE_MAP;
    bool varied = c->type == TYPE_UTF8 || c->type == TYPE_LARGE_UTF8 || c->type == TYPE_BINARY ||
                  c->type == TYPE_LARGE_BINARY;
    if (listed || varied)
        TRY(take_buffer(a, l, &c->offsets));
    if (!nested && !listed)
        TRY(take_buffer(a, l, &c->values));
    for (size_t i = 0; i < c->child_count; i++)
        TRY(take_column(a, l, &c->children[i]));
    return OK;
}

// Fills `size` bytes; *got is less only at the end of the file.
static enum err read_bytes(struct arrow *a, char *out, size_t size, size_t *got)
{
    *got = 0;
    for (size_t chunk = 1; chunk && *got < size; *got += chunk)
        TRY(archive_read(&a->in, out + *got, size - *got, &chunk));
    a->at += (int64_t)*got;
    return OK;
}

// Adds `size` bytes to the `have` that are there. Memory grows with the bytes that are really
// there: a length in the file may be wrong.
static enum err read_claimed(struct arrow *a, char **out, size_t *room, size_t have, size_t size)
{
    enum { STEP_BYTES = 16 << 20 };
    for (size_t end = have + size; have < end;) {
        size_t step = end - have < STEP_BYTES ? end - have : STEP_BYTES, got;
        if (*room < have + step) {
            char *grown = realloc(*out, have + step);
            if (!grown)
                return fail(ERR_UNAVAILABLE, "%s: a batch does not fit in memory", a->path);
            *out = grown;
            *room = have + step;
        }
        TRY(read_bytes(a, *out + have, step, &got));
        if (got < step)
            return damaged(a, "a message");
        have += step;
    }
    return OK;
}

static enum err skip_to(struct arrow *a, int64_t at)
{
    TRY(archive_skip(&a->in, at - a->at));
    a->at = at;
    return OK;
}

// Reads the wanted pieces of a body and skips the rest of it. They lie in order.
static enum err read_pieces(struct arrow *a, int64_t body)
{
    size_t have = 0;
    for (size_t i = 0; i < a->piece_count; i++) {
        const struct piece *piece = &a->pieces[i];
        if (body + piece->first < a->at)
            return damaged(a, "a batch");
        if (piece->size > ARROW_MOST_BATCH_BYTES - (int64_t)have)
            return fail(ERR_INPUT,
                        "%s: a batch takes over %d MiB in memory; write it in smaller batches",
                        a->path, ARROW_MOST_BATCH_BYTES >> 20);
        TRY(skip_to(a, body + piece->first));
        TRY(read_claimed(a, &a->body, &a->body_room, have, (size_t)piece->size));
        have += (size_t)piece->size;
    }
    const unsigned char *at = (const unsigned char *)a->body; // does not move any more
    for (size_t i = 0; i < a->piece_count; at += a->pieces[i++].size)
        *a->pieces[i].to = (struct flat){ at, (size_t)a->pieces[i].size };
    return OK;
}

static bool all_rise(const struct column *c)
{
    bool rise = rises(c);
    for (size_t i = 0; i < c->child_count && rise; i++)
        rise = all_rise(&c->children[i]);
    return rise;
}

static enum err read_batch(struct arrow *a, struct flat f, size_t batch, int64_t body_size)
{
    if (child_of(f, batch, 3))
        return refuse(a, "its batches are compressed");
    struct layout l = { .metadata = f, .body_size = body_size };
    int64_t rows = (int64_t)number_of(f, batch, 0, 8);
    l.nodes = vector_of(f, batch, 1, 16, &l.node_count);
    l.buffers = vector_of(f, batch, 2, 16, &l.buffer_count);
    a->piece_count = 0;
    for (size_t i = 0; i < a->root.child_count; i++) {
        struct column *column = &a->root.children[i];
        l.skips = column->is_dropped;
        TRY(take_column(a, &l, column));
        if (column->length != rows || rows < 0)
            return damaged(a, "a batch");
    }
    TRY(read_pieces(a, a->at));
    if (!all_rise(&a->root))
        return damaged(a, "a batch");
    a->row = 0;
    a->row_count = rows;
    return OK;
}

// Reads the next message; *ended at the end of the stream.
static enum err read_message(struct arrow *a, bool *ended)
{
    uint32_t head[2] = { 0 };
    int64_t start = a->at;
    size_t got;
    TRY(read_bytes(a, (char *)head, 4, &got));
    *ended = !got;
    if (*ended)
        return OK;
    bool marked = head[0] == 0xFFFFFFFF; // since format version 0.15
    if (marked)
        TRY(read_bytes(a, (char *)head + 4, 4, &got));
    uint32_t size = head[marked];
    *ended = (got == 4 && !size) || start >= a->to;
    if (*ended)
        return OK;
    if (got < 4 || size > LONGEST_METADATA_BYTES)
        return damaged(a, "a message");
    TRY(read_claimed(a, &a->metadata, &a->metadata_room, 0, size));
    struct flat f = { (const unsigned char *)a->metadata, size };
    size_t message = number_at(f, 0, 4), header = child_of(f, message, 2);
    int64_t body_size = (int64_t)number_of(f, message, 3, 8), body = a->at;
    uint64_t kind = number_of(f, message, 1, 1);
    if (!header || body_size < 0 || (a->in.size_bytes > 0 && body_size > a->in.size_bytes - body))
        return damaged(a, "a message");
    if (kind != KIND_SCHEMA && kind != KIND_BATCH)
        return refuse(a, "it holds dictionaries or tensors");
    if (kind == KIND_SCHEMA && !a->root.child_count) // repeated after the footer's
        TRY(read_schema(a, f, header));
    if (kind == KIND_BATCH && start >= a->from)
        TRY(read_batch(a, f, header, body_size));
    return skip_to(a, body + body_size);
}

// The file format has its schema at the end, and some writers have it only there.
static enum err read_footer(struct arrow *a)
{
    char tail[10], skipped[8];
    int64_t end = (int64_t)a->in.size_bytes - (int64_t)sizeof tail;
    uint32_t size;
    size_t got;
    if (end < 8 || !archive_read_at(&a->in, end, tail, sizeof tail) ||
        memcmp(tail + 4, "ARROW1", 6))
        return damaged(a, "its end");
    memcpy(&size, tail, 4);
    if (size > LONGEST_METADATA_BYTES || (int64_t)size > end)
        return damaged(a, "its end");
    struct flat f = { arena_alloc(&a->arena, size), size };
    if (!archive_read_at(&a->in, end - (int64_t)size, (void *)f.at, size))
        return damaged(a, "its end");
    TRY(read_schema(a, f, child_of(f, number_at(f, 0, 4), 1)));
    return read_bytes(a, skipped, sizeof skipped, &got); // the magic word and its padding
}

// --- rows --------------------------------------------------------------------

static bool is_valid(const struct column *c, int64_t i)
{
    return !c->valid.size || number_at(c->valid, (size_t)i / 8, 1) >> i % 8 & 1;
}

// What item i of a list or text takes of its values; false where the offsets are damaged.
static bool extent(const struct column *c, int64_t i, int64_t *start, int64_t *end)
{
    if (c->type == TYPE_FIXED_LIST) {
        *start = i * (int64_t)c->width;
        *end = *start + (int64_t)c->width;
    } else if (!c->offsets.size && !c->length) {
        *start = *end = 0;
    } else {
        if ((uint64_t)i + 2 > c->offsets.size / c->width)
            return false;
        *start = (int64_t)number_at(c->offsets, (size_t)i * c->width, c->width);
        *end = (int64_t)number_at(c->offsets, ((size_t)i + 1) * c->width, c->width);
    }
    return *start >= 0 && *end >= *start;
}

static enum err put_number(struct arrow *a, const struct column *c, int64_t i,
                           struct json_writer *w, const char *key)
{
    if ((uint64_t)i >= c->values.size / c->width)
        return damaged(a, "a batch");
    uint64_t bits = number_at(c->values, (size_t)i * c->width, c->width);
    if (c->type == TYPE_FLOAT) {
        double wide;
        float narrow;
        memcpy(&wide, &bits, 8);
        memcpy(&narrow, &bits, 4);
        json_put_number(w, key, c->width == 4 ? (double)narrow : wide);
    } else {
        int spare = 64 - 8 * (int)c->width;
        int64_t value = (int64_t)(bits << spare);
        char digits[24];
        int size = c->is_signed ? snprintf(digits, sizeof digits, "%" PRId64, value >> spare)
                                : snprintf(digits, sizeof digits, "%" PRIu64, bits);
        json_put_raw(w, key, (struct text){ digits, (size_t)size });
    }
    return OK;
}

static enum err put_value(struct arrow *a, const struct column *c, int64_t i,
                          struct json_writer *w);

static enum err put_list(struct arrow *a, const struct column *c, int64_t i, struct json_writer *w,
                         const char *key)
{
    int64_t start, end;
    if (!extent(c, i, &start, &end) || end > c->children[0].length)
        return damaged(a, "a batch");
    json_open(w, key, '[');
    for (int64_t item = start; item < end; item++) {
        struct column child = c->children[0];
        child.name = (struct text){ 0 }; // items have none
        TRY(put_value(a, &child, item, w));
    }
    json_close(w, ']');
    return OK;
}

static enum err put_struct(struct arrow *a, const struct column *c, int64_t i,
                           struct json_writer *w, const char *key)
{
    json_open(w, key, '{');
    for (size_t child = 0; child < c->child_count; child++) {
        if (c->children[child].is_dropped)
            continue;
        if (i >= c->children[child].length)
            return damaged(a, "a batch");
        TRY(put_value(a, &c->children[child], i, w));
    }
    json_close(w, '}');
    return OK;
}

static enum err put_value(struct arrow *a, const struct column *c, int64_t i, struct json_writer *w)
{
    const char *key = c->name.at;
    int64_t start, end;
    if (!is_valid(c, i)) {
        json_put_string(w, key, NULL);
        return OK;
    }
    switch (c->type) {
    case TYPE_UTF8:
    case TYPE_LARGE_UTF8:
        if (!extent(c, i, &start, &end) || (uint64_t)end > c->values.size)
            return damaged(a, "a batch");
        json_put_text(w, key,
                      (struct text){ (const char *)c->values.at + start, (size_t)(end - start) });
        return OK;
    case TYPE_BINARY:
    case TYPE_LARGE_BINARY:
        if (!extent(c, i, &start, &end) || (uint64_t)end > c->values.size)
            return damaged(a, "a batch");
        bytes_put((struct text){ (const char *)c->values.at + start, (size_t)(end - start) }, w,
                  key);
        return OK;
    case TYPE_BOOL:
        json_put_bool(w, key, number_at(c->values, (size_t)i / 8, 1) >> i % 8 & 1);
        return OK;
    case TYPE_INT:
    case TYPE_FLOAT:
    case TYPE_DATE:
    case TYPE_TIME:
    case TYPE_TIMESTAMP:
    case TYPE_DURATION: return put_number(a, c, i, w, key);
    case TYPE_LIST:
    case TYPE_LARGE_LIST:
    case TYPE_FIXED_LIST:
    case TYPE_MAP: return put_list(a, c, i, w, key);
    case TYPE_STRUCT: return put_struct(a, c, i, w, key);
    default: json_put_string(w, key, NULL); return OK;
    }
}

enum err arrow_next(struct arrow *a, struct text *row)
{
    *row = (struct text){ 0 };
    for (bool ended = false; a->row == a->row_count;) {
        TRY(read_message(a, &ended));
        if (ended)
            return OK;
    }
    a->text.size = 0;
    struct json_writer w = { .out = &a->text, .compact = true };
    TRY(put_struct(a, &a->root, a->row++, &w, NULL));
    *row = out_view(&a->text);
    return OK;
}

void arrow_rows(struct arrow *a, int64_t from, int64_t to)
{
    a->from = from;
    a->to = to;
}

bool arrow_has_ranges(const struct arrow *a)
{
    return !a->in.object && archive_has_places(&a->in);
}

void arrow_keep(struct arrow *a, const struct text *names, size_t count)
{
    bool among[MOST_COLUMNS] = { 0 }, any = false;
    for (size_t i = 0; i < a->root.child_count; i++)
        for (size_t k = 0; k < count; k++)
            if (names[k].at && text_equal(names[k], a->root.children[i].name))
                among[i] = any = true;
    for (size_t i = 0; any && i < a->root.child_count; i++)
        a->root.children[i].is_dropped = !among[i];
}

enum err arrow_open(struct arrow **out, const char *path, const struct object *object)
{
    *out = NULL;
    struct arrow *a = calloc(1, sizeof *a);
    if (!a)
        return fail(ERR_MEMORY, "%s: out of memory", path);
    a->path = path;
    a->text.arena = &a->arena;
    a->to = INT64_MAX;
    enum err err = object ? archive_open_object(&a->in, object, 0) : archive_open(&a->in, path, 0);
    bool ended = false;
    if (!err && a->in.filled >= 8 && !memcmp(a->in.buffer, "ARROW1", 6))
        err = read_footer(a);
    else if (!err)
        err = read_message(a, &ended);
    if (!err && !a->root.child_count)
        err = damaged(a, "its schema");
    if (err)
        arrow_close(a);
    else
        *out = a;
    return err;
}

void arrow_close(struct arrow *a)
{
    if (!a)
        return;
    archive_close(&a->in);
    arena_release(&a->arena);
    free(a->metadata);
    free(a->body);
    free(a);
}
