// SPDX-License-Identifier: Apache-2.0
// Reads the footer of a Parquet file: Thrift's compact protocol, the schema, the row groups.

#include "host/tables/parquet_internal.h"

#include <string.h>

// --- Thrift ------------------------------------------------------------------

static uint64_t take_varint(struct parquet_thrift *t)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && t->at < t->end; shift += 7) {
        unsigned char c = *t->at++;
        value |= (uint64_t)(c & 127) << shift;
        if (!(c & 128))
            return value;
    }
    t->bad = true;
    return 0;
}

int64_t parquet_thrift_number(struct parquet_thrift *t)
{
    uint64_t value = take_varint(t);
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

bool parquet_thrift_field(struct parquet_thrift *t, int *id, int *type)
{
    if (t->bad || t->at == t->end) {
        t->bad = true;
        return false;
    }
    unsigned char head = *t->at++;
    if (!head)
        return false;
    *type = head & 15;
    *id = head >> 4 ? *id + (head >> 4) : (int)(int16_t)parquet_thrift_number(t);
    return !t->bad;
}

static struct text take_binary(struct parquet_thrift *t)
{
    uint64_t size = take_varint(t);
    struct text bytes = { (const char *)t->at, (size_t)size };
    if (t->bad || size > (uint64_t)(t->end - t->at)) {
        t->bad = true;
        return (struct text){ "", 0 };
    }
    t->at += size;
    return bytes;
}

// How many items a list has, and of which type.
static size_t take_list(struct parquet_thrift *t, int *type)
{
    if (t->at == t->end) {
        t->bad = true;
        return 0;
    }
    unsigned char head = *t->at++;
    *type = head & 15;
    uint64_t count = head >> 4 == 15 ? take_varint(t) : head >> 4;
    t->bad = t->bad || count > (uint64_t)(t->end - t->at); // an item has a byte at least
    return t->bad ? 0 : (size_t)count;
}

static void skip(struct parquet_thrift *t, int type, int depth, bool in_list)
{
    int id = 0, inner;
    if (depth > PARQUET_DEEPEST)
        t->bad = true;
    if (t->bad)
        return;
    switch (type) {
    case 1:
    case 2: // booleans: a byte of their own only in lists
        if (!in_list)
            return;
        // fall through
    case 3:
        t->bad = t->at == t->end;
        t->at += !t->bad;
        return;
    case 4:
    case 5:
    case 6: take_varint(t); return;
    case 7:
        t->bad = t->end - t->at < 8;
        t->at += t->bad ? 0 : 8;
        return;
    case 8: take_binary(t); return;
    case 9:
    case 10:
        for (size_t left = take_list(t, &inner); left && !t->bad; left--)
            skip(t, inner, depth + 1, true);
        return;
    case 12:
        while (parquet_thrift_field(t, &id, &inner))
            skip(t, inner, depth + 1, false);
        return;
    default: t->bad = true; // maps stand nowhere in Parquet
    }
}

void parquet_thrift_skip(struct parquet_thrift *t, int type)
{
    skip(t, type, 0, false);
}

// --- the schema --------------------------------------------------------------

struct element { // one line of the schema, which is a tree written down in order
    int type, length, repetition, children, converted, scale;
    int logical; // field of the union; 0: none
    bool is_unsigned;
    struct text name;
};

static void read_logical(struct parquet_thrift *t, struct element *e)
{
    int id = 0, type;
    while (parquet_thrift_field(t, &id, &type)) {
        e->logical = id;
        if (id != 10 || type != PARQUET_THRIFT_STRUCT) {
            parquet_thrift_skip(t, type);
            continue;
        }
        for (int inner = 0, kind; parquet_thrift_field(t, &inner, &kind);) {
            if (inner == 2)
                e->is_unsigned = kind != PARQUET_THRIFT_TRUE;
            parquet_thrift_skip(t, kind);
        }
    }
}

static void read_element(struct parquet_thrift *t, struct element *e)
{
    int id = 0, type;
    *e = (struct element){ .type = PARQUET_GROUP, .converted = -1 };
    while (parquet_thrift_field(t, &id, &type)) {
        int *numbers[] = { [1] = &e->type,     [2] = &e->length,    [3] = &e->repetition,
                           [5] = &e->children, [6] = &e->converted, [7] = &e->scale };
        if (id == 4 && type == PARQUET_THRIFT_BINARY)
            e->name = take_binary(t);
        else if (id == 10 && type == PARQUET_THRIFT_STRUCT)
            read_logical(t, e);
        else if (id >= 1 && id <= 7 && numbers[id] && type == 5)
            *numbers[id] = (int)parquet_thrift_number(t);
        else
            parquet_thrift_skip(t, type);
    }
}

static enum parquet_meaning meaning_of(const struct element *e)
{
    bool list = e->converted == 3 || e->logical == 3, map = e->converted == 1 || e->logical == 2;
    if (e->children)
        return list ? PARQUET_LIST : map || e->converted == 2 ? PARQUET_MAP : PARQUET_PLAIN;
    static const int texts[] = { 0, 4, 19 }; // UTF8, ENUM, JSON
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (e->converted == texts[i])
            return PARQUET_TEXT;
    if (e->logical == 1 || e->logical == 4 || e->logical == 12)
        return PARQUET_TEXT;
    if (e->converted == 5 || e->logical == 5)
        return PARQUET_DECIMAL;
    if ((e->converted >= 11 && e->converted <= 14) || e->is_unsigned)
        return PARQUET_UNSIGNED;
    return e->logical == 15 ? PARQUET_HALF : PARQUET_PLAIN;
}

struct tree { // the lines of the schema while they become nodes
    struct element *elements;
    size_t count, next;
    struct parquet_footer *footer;
    struct arena *arena;
};

static bool make_node(struct tree *s, struct parquet_node *node, int def, int rep, int depth)
{
    if (s->next == s->count || depth > PARQUET_DEEPEST)
        return false;
    const struct element *e = &s->elements[s->next++];
    bool is_root = !depth;
    node->name = (struct text){ text_copy(s->arena, e->name), e->name.size };
    node->meaning = meaning_of(e);
    node->is_optional = !is_root && e->repetition == 1;
    node->is_repeated = !is_root && e->repetition == 2;
    node->max_def = def + (node->is_optional || node->is_repeated);
    node->max_rep = rep + node->is_repeated;
    node->scale = e->scale;
    node->width = (uint32_t)e->length;
    node->leaf = s->footer->leaf_count;
    node->type = e->children || is_root ? PARQUET_GROUP : (enum parquet_type)e->type;
    if (node->type != PARQUET_GROUP) {
        if (e->type < 0 || e->type > PARQUET_FIXED || e->length < 0 || e->length > 1 << 20 ||
            (e->type == PARQUET_FIXED && !e->length))
            return false;
        s->footer->leaves[s->footer->leaf_count++] = node;
        node->leaf_count = 1;
        return true;
    }
    if (e->children < 1 || (size_t)e->children > s->count - s->next)
        return false;
    node->child_count = (size_t)e->children;
    node->children = ARENA_NEW(s->arena, struct parquet_node, node->child_count);
    for (size_t i = 0; i < node->child_count; i++)
        if (!make_node(s, &node->children[i], node->max_def, node->max_rep, depth + 1))
            return false;
    node->leaf_count = s->footer->leaf_count - node->leaf;
    return true;
}

static bool read_schema(struct parquet_footer *out, struct arena *arena, struct parquet_thrift *t)
{
    int type;
    size_t count = take_list(t, &type);
    if (!count || count > 4 * PARQUET_MOST_COLUMNS || type != PARQUET_THRIFT_STRUCT)
        return false;
    struct tree s = { .count = count, .footer = out, .arena = arena };
    s.elements = ARENA_NEW(arena, struct element, count);
    for (size_t i = 0; i < count && !t->bad; i++)
        read_element(t, &s.elements[i]);
    out->leaves = ARENA_NEW(arena, struct parquet_node *, count);
    return !t->bad && make_node(&s, &out->root, 0, 0, 0) && s.next == count &&
           out->leaf_count <= PARQUET_MOST_COLUMNS;
}

// --- row groups --------------------------------------------------------------

static void read_chunk_facts(struct parquet_thrift *t, struct parquet_chunk *c)
{
    int id = 0, type;
    int64_t data = -1, dictionary = -1;
    while (parquet_thrift_field(t, &id, &type)) {
        int64_t number;
        if (type != 5 && type != 6) {
            parquet_thrift_skip(t, type);
            continue;
        }
        number = parquet_thrift_number(t);
        switch (id) {
        case 4: c->codec = (int)number; break;
        case 5: c->values = number; break;
        case 7: c->size = number; break;
        case 9: data = number; break;
        case 11: dictionary = number; break;
        default: break;
        }
    }
    c->first = dictionary > 0 && dictionary < data ? dictionary : data;
}

static const char *read_chunk(struct parquet_thrift *t, struct parquet_chunk *c, int64_t file_bytes)
{
    const char *problem = NULL;
    *c = (struct parquet_chunk){ .first = -1 };
    for (int id = 0, type; parquet_thrift_field(t, &id, &type);) {
        if (id == 3 && type == PARQUET_THRIFT_STRUCT) {
            read_chunk_facts(t, c);
            continue;
        }
        if (id == 1)
            problem = "has columns in other files, which are not read";
        if (id == 8 || id == 9)
            problem = "is encrypted, which is not supported";
        parquet_thrift_skip(t, type);
    }
    bool inside =
        c->first >= 4 && c->size >= 0 && c->size <= file_bytes - c->first && c->values >= 0;
    return problem ? problem : inside ? NULL : "";
}

// NULL, "" for damage, or what is not supported.
static const char *read_group(struct parquet_footer *out, struct parquet_thrift *t, size_t group,
                              int64_t file_bytes)
{
    size_t chunks = 0;
    for (int id = 0, type, item; parquet_thrift_field(t, &id, &type);) {
        if (id == 3 && type == 6) {
            out->group_rows[group] = parquet_thrift_number(t);
        } else if (id == 1 && type == PARQUET_THRIFT_LIST) {
            chunks = take_list(t, &item);
            if (chunks != out->leaf_count || item != PARQUET_THRIFT_STRUCT)
                return "";
            for (size_t i = 0; i < chunks; i++) {
                const char *problem =
                    read_chunk(t, &out->chunks[group * out->leaf_count + i], file_bytes);
                if (problem)
                    return problem;
            }
        } else {
            parquet_thrift_skip(t, type);
        }
    }
    return chunks == out->leaf_count && out->group_rows[group] >= 0 ? NULL : "";
}

// Where a group begins: the first of its chunks, and not before the group before it.
static int64_t start_of(const struct parquet_footer *footer, size_t group)
{
    const struct parquet_chunk *chunks = &footer->chunks[group * footer->leaf_count];
    int64_t start = chunks[0].first, before = group ? footer->group_starts[group - 1] : 0;
    for (size_t i = 1; i < footer->leaf_count; i++)
        start = chunks[i].first < start ? chunks[i].first : start;
    return start > before ? start : before;
}

static const char *read_groups(struct parquet_footer *out, struct arena *arena,
                               struct parquet_thrift *t, int64_t file_bytes)
{
    int type;
    out->group_count = take_list(t, &type);
    if (!out->leaf_count || out->group_count > PARQUET_MOST_CHUNKS / out->leaf_count ||
        (out->group_count && type != PARQUET_THRIFT_STRUCT))
        return "";
    out->chunks = ARENA_NEW(arena, struct parquet_chunk, out->group_count * out->leaf_count);
    out->group_rows = ARENA_NEW(arena, int64_t, out->group_count);
    out->group_starts = ARENA_NEW(arena, int64_t, out->group_count);
    for (size_t i = 0; i < out->group_count; i++) {
        const char *problem = read_group(out, t, i, file_bytes);
        if (problem)
            return problem;
        out->group_starts[i] = start_of(out, i);
    }
    return NULL;
}

enum err parquet_footer_read(struct parquet_footer *out, struct arena *arena, struct text bytes,
                             int64_t file_bytes, const char *path)
{
    *out = (struct parquet_footer){ 0 };
    struct parquet_thrift t = { (const unsigned char *)bytes.at,
                                (const unsigned char *)bytes.at + bytes.size, false };
    const char *problem = NULL;
    for (int id = 0, type; !problem && parquet_thrift_field(&t, &id, &type);) {
        if (id == 2 && type == PARQUET_THRIFT_LIST && !out->leaves)
            problem = read_schema(out, arena, &t) ? NULL : "";
        else if (id == 4 && type == PARQUET_THRIFT_LIST && !out->chunks)
            problem = read_groups(out, arena, &t, file_bytes);
        else
            parquet_thrift_skip(&t, type);
    }
    if (problem && *problem)
        return fail(ERR_INPUT, "%s: %s", path, problem);
    if (problem || t.bad || !out->leaf_count)
        return fail(ERR_INPUT, "%s: the Parquet file is damaged in its footer", path);
    return OK;
}
