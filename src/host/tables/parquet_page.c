// SPDX-License-Identifier: Apache-2.0
// Reads the pages of a Parquet column: levels and values, one entry after another.

#include "host/tables/parquet_internal.h"

#include <stdlib.h>
#include <string.h>

enum {
    ENCODED_PLAIN = 0,
    ENCODED_OLD_DICTIONARY = 2,
    ENCODED_RUNS = 3,
    ENCODED_DELTA = 5,
    ENCODED_DELTA_LENGTHS = 6,
    ENCODED_DELTA_BYTES = 7,
    ENCODED_DICTIONARY = 8,
    ENCODED_SPLIT = 9
};

enum err parquet_column_damaged(const struct parquet_column *c, const char *where)
{
    return fail(ERR_INPUT, "%s: the Parquet file is damaged in %s of column \"%.*s\"", c->path,
                where, TEXT_BRIEF(c->node->name));
}

// Memory of all columns together is bounded.
static enum err make_room(struct parquet_column *c, char **buffer, size_t *room, size_t size)
{
    if (*room >= size)
        return OK;
    *c->held += (int64_t)(size - *room);
    if (*c->held > PARQUET_MOST_HELD_BYTES)
        return fail(
            ERR_INPUT,
            "%s: the pages of its columns need over %lld MiB at once; write it with smaller "
            "pages",
            c->path, (long long)(PARQUET_MOST_HELD_BYTES >> 20));
    char *grown = realloc(*buffer, size);
    if (!grown)
        return fail(ERR_UNAVAILABLE, "%s: a page does not fit in memory", c->path);
    *buffer = grown;
    *room = size;
    return OK;
}

// --- the bytes of a chunk ----------------------------------------------------

void parquet_span_open(struct parquet_span *span, const struct archive *file,
                       const struct parquet_chunk *chunk)
{
    stream_close(span->parts);
    span->file = file;
    span->parts = NULL;
    span->at = chunk->first;
    span->end = chunk->first + chunk->size;
    span->used = span->filled = 0;
}

enum err parquet_span_prefetch(struct parquet_span *span, const struct stream_options *options)
{
    stream_close(span->parts);
    span->parts = NULL;
    return stream_open(&span->parts, span->file->object, span->at, span->end - span->at, options);
}

void parquet_span_close(struct parquet_span *span)
{
    stream_close(span->parts);
    free(span->buffer);
    *span = (struct parquet_span){ 0 };
}

static enum err read_more(struct parquet_span *span, size_t wanted)
{
    while (span->filled - span->used < wanted && span->at < span->end) {
        size_t room = span->room - span->filled, got = 0;
        int64_t left = span->end - span->at;
        room = (int64_t)room > left ? (size_t)left : room;
        if (span->parts) {
            TRY(stream_read(span->parts, span->buffer + span->filled, room, &got));
        } else {
            got = room;
            if (!archive_read_at(span->file, span->at, span->buffer + span->filled, got))
                return span->file->object
                           ? ERR_INPUT // reading the object called fail()
                           : fail(ERR_INPUT, "%s: cannot be read at byte %lld; was it cut off?",
                                  span->file->name, (long long)span->at);
        }
        if (!got)
            return fail(ERR_INPUT, "%s: ended while it was read", span->file->name);
        span->filled += got;
        span->at += (int64_t)got;
    }
    return OK;
}

// Has `size` bytes at *at, or fewer where the chunk ends: *got. They stay until the next call.
static enum err need(struct parquet_span *span, size_t size, const char **at, size_t *got)
{
    enum { STEP_BYTES = 256 * 1024 };
    size_t have = span->filled - span->used;
    if (have < size && span->at < span->end) {
        if (have)
            memmove(span->buffer, span->buffer + span->used, have);
        span->used = 0;
        span->filled = have;
        size_t wanted = size > STEP_BYTES ? size : STEP_BYTES;
        if (span->room < wanted) {
            char *grown = realloc(span->buffer, wanted);
            if (!grown)
                return fail(ERR_UNAVAILABLE, "%s: a page does not fit in memory", span->file->name);
            span->buffer = grown;
            span->room = wanted;
        }
        TRY(read_more(span, size));
        have = span->filled;
    }
    *at = span->buffer + span->used;
    *got = have < size ? have : size;
    return OK;
}

// --- runs and packed groups --------------------------------------------------

static int width_of(uint32_t most)
{
    int width = 0;
    for (; most; most >>= 1)
        width++;
    return width;
}

static bool take_varint(const unsigned char **at, const unsigned char *end, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && *at < end; shift += 7) {
        unsigned char c = *(*at)++;
        *out |= (uint64_t)(c & 127) << shift;
        if (!(c & 128))
            return true;
    }
    return false;
}

static bool next_run(struct parquet_bits *b)
{
    uint64_t head;
    if (!take_varint(&b->at, b->end, &head) || head >> 1 > UINT32_MAX / 8 || head < 2)
        return false;
    if (head & 1) {
        b->packed = (uint32_t)(head >> 1) * 8;
        b->bits = 0;
        b->bit_count = 0;
        return true;
    }
    b->run = (uint32_t)(head >> 1);
    b->value = 0;
    for (int i = 0; i < (b->width + 7) / 8; i++) {
        if (b->at == b->end)
            return false;
        b->value |= (uint32_t)*b->at++ << 8 * i;
    }
    return true;
}

static bool take_bits(struct parquet_bits *b, uint32_t *out)
{
    if (!b->width && b->at == b->end && !b->run && !b->packed) { // all are zero: nothing is stored
        *out = 0;
        return true;
    }
    if (!b->run && !b->packed && !next_run(b))
        return false;
    if (b->run) {
        b->run--;
        *out = b->value;
        return true;
    }
    while (b->bit_count < b->width) {
        if (b->at == b->end)
            return false;
        b->bits |= (uint64_t)*b->at++ << b->bit_count;
        b->bit_count += 8;
    }
    *out = (uint32_t)(b->bits & (((uint64_t)1 << b->width) - 1));
    b->bits >>= b->width;
    b->bit_count -= b->width;
    b->packed--;
    return true;
}

// --- differences -------------------------------------------------------------

static bool start_delta(struct parquet_delta *d, struct text bytes)
{
    *d = (struct parquet_delta){ .at = (const unsigned char *)bytes.at,
                                 .end = (const unsigned char *)bytes.at + bytes.size };
    uint64_t block, minis, count, first;
    if (!take_varint(&d->at, d->end, &block) || !take_varint(&d->at, d->end, &minis) ||
        !take_varint(&d->at, d->end, &count) || !take_varint(&d->at, d->end, &first))
        return false;
    if (!minis || minis > 512 || !block || block > 1 << 20 || block % minis ||
        (block / minis) % 8 || count > INT32_MAX)
        return false;
    d->block = (uint32_t)block;
    d->minis = (uint32_t)minis;
    d->per_mini = d->block / d->minis;
    d->left = count;
    d->mini = d->minis;
    d->last = (int64_t)(first >> 1) ^ -(int64_t)(first & 1);
    return true;
}

// Begins the next mini-block, and the next block where one is used up.
static bool next_mini(struct parquet_delta *d)
{
    if (d->mini == d->minis) {
        uint64_t least;
        if (!take_varint(&d->at, d->end, &least) || (size_t)(d->end - d->at) < d->minis)
            return false;
        d->least = (int64_t)(least >> 1) ^ -(int64_t)(least & 1);
        d->widths = d->at;
        d->at += d->minis;
        d->mini = 0;
    }
    int width = d->widths[d->mini++];
    size_t bytes = (size_t)width * d->per_mini / 8;
    if (width > 64)
        return false;
    d->data = d->at;
    d->bit = 0;
    if (bytes > (size_t)(d->end - d->at))
        bytes = (size_t)(d->end - d->at); // the last may be cut; checked bit by bit
    d->at += bytes;
    d->mini_left = d->per_mini;
    return true;
}

static bool take_delta(struct parquet_delta *d, int64_t *out)
{
    if (!d->left)
        return false;
    d->left--;
    if (!d->begun) {
        d->begun = true;
        *out = d->last;
        return true;
    }
    if (!d->mini_left && !next_mini(d))
        return false;
    d->mini_left--;
    int width = d->widths[d->mini - 1];
    uint64_t value = 0;
    for (int have = 0; have < width;) {
        const unsigned char *at = d->data + d->bit / 8;
        if (at >= d->at)
            return false;
        int shift = (int)(d->bit % 8), take = 8 - shift < width - have ? 8 - shift : width - have;
        value |= (uint64_t)((*at >> shift) & ((1 << take) - 1)) << have;
        have += take;
        d->bit += (size_t)take;
    }
    d->last = (int64_t)((uint64_t)d->last + (uint64_t)d->least + value);
    *out = d->last;
    return true;
}

// Where the bytes after a list of differences begin: reads them all once. Mini-blocks that hold
// nothing are not stored.
static bool end_of_delta(struct parquet_delta d, struct text *rest)
{
    int64_t value;
    while (d.left)
        if (!take_delta(&d, &value))
            return false;
    rest->size -= (size_t)((const char *)d.at - rest->at);
    rest->at = (const char *)d.at;
    return true;
}

// --- a page ------------------------------------------------------------------

struct page_head {
    int type, encoding;
    int64_t packed, size, values, def_bytes, rep_bytes;
    bool is_packed;
};

enum { PAGE_DATA = 0, PAGE_DICTIONARY = 2, PAGE_DATA_2 = 3 };

static void read_page_facts(struct parquet_thrift *t, struct page_head *h, int kind)
{
    for (int id = 0, type; parquet_thrift_field(t, &id, &type);) {
        if (type == 1 || type == 2) {
            if (kind == 8 && id == 7)
                h->is_packed = type == PARQUET_THRIFT_TRUE;
            continue;
        }
        if (type != 5) {
            parquet_thrift_skip(t, type);
            continue;
        }
        int64_t number = parquet_thrift_number(t);
        if (id == 1)
            h->values = number;
        else if (id == (kind == 8 ? 4 : 2))
            h->encoding = (int)number;
        else if (kind == 8 && id == 5)
            h->def_bytes = number;
        else if (kind == 8 && id == 6)
            h->rep_bytes = number;
    }
}

static size_t read_page_head(struct page_head *h, struct text bytes)
{
    struct parquet_thrift t = { (const unsigned char *)bytes.at,
                                (const unsigned char *)bytes.at + bytes.size, false };
    *h = (struct page_head){ .type = -1, .is_packed = true };
    for (int id = 0, type; parquet_thrift_field(&t, &id, &type);) {
        if (type == PARQUET_THRIFT_STRUCT && (id == 5 || id == 7 || id == 8)) {
            read_page_facts(&t, h, id);
        } else if (type == 5 && id >= 1 && id <= 3) {
            int64_t number = parquet_thrift_number(&t);
            *(id == 2 ? &h->size : id == 3 ? &h->packed : &(int64_t){ 0 }) = number;
            if (id == 1)
                h->type = (int)number;
        } else {
            parquet_thrift_skip(&t, type);
        }
    }
    return t.bad ? 0 : (size_t)((const char *)t.at - bytes.at);
}

static enum err unpack(struct parquet_column *c, struct text packed, char *out, size_t size,
                       bool is_packed)
{
    const char *problem = parquet_codec_unpack(is_packed ? c->chunk->codec : 0, packed, out, size);
    if (problem && *problem)
        return fail(
            ERR_INPUT,
            "%s: its pages are packed with %s; only snappy, gzip, zstd and raw lz4 are read",
            c->path, problem);
    return problem ? parquet_column_damaged(c, "a page") : OK;
}

// Levels of a page of the first kind have their length before them.
static bool start_levels(struct parquet_bits *bits, struct text *rest, int most)
{
    uint32_t size;
    *bits = (struct parquet_bits){ .width = width_of((uint32_t)most) };
    if (!most)
        return true;
    if (rest->size < 4)
        return false;
    memcpy(&size, rest->at, 4);
    if (size > rest->size - 4)
        return false;
    bits->at = (const unsigned char *)rest->at + 4;
    bits->end = bits->at + size;
    rest->at += 4 + size;
    rest->size -= 4 + size;
    return true;
}

static bool start_values(struct parquet_column *c)
{
    c->value_index = 0;
    c->bool_bit = 0;
    c->before_size = 0;
    switch (c->encoding) {
    case ENCODED_PLAIN: return true;
    case ENCODED_OLD_DICTIONARY:
    case ENCODED_DICTIONARY:
        c->indexes =
            (struct parquet_bits){ .width = c->values.size ? (unsigned char)*c->values.at : 0 };
        if (c->values.size) {
            c->indexes.at = (const unsigned char *)c->values.at + 1;
            c->indexes.end = (const unsigned char *)c->values.at + c->values.size;
        }
        return c->indexes.width <= 32 && c->words;
    case ENCODED_RUNS:
        return c->node->type == PARQUET_BOOLEAN && start_levels(&c->indexes, &c->values, 1);
    case ENCODED_DELTA:
        return (c->node->type == PARQUET_INT32 || c->node->type == PARQUET_INT64) &&
               start_delta(&c->numbers, c->values);
    case ENCODED_DELTA_LENGTHS:
        return c->node->type == PARQUET_BYTES && start_delta(&c->lengths, c->values) &&
               end_of_delta(c->lengths, &c->values);
    case ENCODED_DELTA_BYTES:
        return (c->node->type == PARQUET_BYTES || c->node->type == PARQUET_FIXED) &&
               start_delta(&c->prefixes, c->values) && end_of_delta(c->prefixes, &c->values) &&
               start_delta(&c->lengths, c->values) && end_of_delta(c->lengths, &c->values);
    case ENCODED_SPLIT: return true;
    default: return false;
    }
}

static size_t fixed_width(const struct parquet_node *node)
{
    static const size_t widths[PARQUET_GROUP] = { [PARQUET_INT32] = 4,
                                                  [PARQUET_INT64] = 8,
                                                  [PARQUET_INT96] = 12,
                                                  [PARQUET_FLOAT] = 4,
                                                  [PARQUET_DOUBLE] = 8 };
    return node->type == PARQUET_FIXED ? node->width : widths[node->type];
}

// Takes a PLAIN value off the front.
static bool take_plain(const struct parquet_node *node, struct text *rest, struct text *value)
{
    uint32_t size;
    size_t head = 0, width;
    if (node->type == PARQUET_BYTES) {
        if (rest->size < 4)
            return false;
        memcpy(&size, rest->at, 4);
        head = 4;
        width = size;
    } else {
        width = fixed_width(node);
    }
    if (width > rest->size - head)
        return false;
    *value = (struct text){ rest->at + head, width };
    rest->at += head + width;
    rest->size -= head + width;
    return true;
}

static enum err read_dictionary(struct parquet_column *c, const struct page_head *h,
                                struct text packed)
{
    if (c->words || c->node->type == PARQUET_BOOLEAN || h->values < 0 || h->values > h->size)
        return h->values || c->words ? parquet_column_damaged(c, "the dictionary") : OK;
    TRY(make_room(c, &c->dictionary, &c->dictionary_room, (size_t)h->size + 1));
    TRY(unpack(c, packed, c->dictionary, (size_t)h->size, true));
    size_t count = (size_t)h->values;
    *c->held += (int64_t)(count * sizeof *c->words);
    c->words = malloc((count + 1) * sizeof *c->words);
    if (!c->words)
        return fail(ERR_UNAVAILABLE, "%s: a dictionary does not fit in memory", c->path);
    c->dictionary_count = count;
    struct text rest = { c->dictionary, (size_t)h->size };
    for (size_t i = 0; i < count; i++)
        if (!take_plain(c->node, &rest, &c->words[i]))
            return parquet_column_damaged(c, "the dictionary");
    return OK;
}

static enum err read_data(struct parquet_column *c, const struct page_head *h, struct text packed)
{
    const struct parquet_node *node = c->node;
    bool second = h->type == PAGE_DATA_2;
    int64_t levels = second ? h->def_bytes + h->rep_bytes : 0;
    if (h->values < 0 || h->values > c->values_left || h->def_bytes < 0 || h->rep_bytes < 0 ||
        levels > h->size || levels > (int64_t)packed.size)
        return parquet_column_damaged(c, "a page");
    TRY(make_room(c, &c->page, &c->page_room, (size_t)h->size + 1));
    if (levels)
        memcpy(c->page, packed.at, (size_t)levels);
    struct text body = { packed.at + levels, packed.size - (size_t)levels };
    size_t size = (size_t)(h->size - levels);
    if (size || body.size)
        TRY(unpack(c, body, c->page + levels, size, h->is_packed));
    c->page_values = h->values;
    c->values_left -= h->values;
    c->encoding = h->encoding;
    bool good = true;
    c->values = (struct text){ c->page + levels, size };
    if (second) {
        const unsigned char *at = (const unsigned char *)c->page;
        c->reps = (struct parquet_bits){ .at = at,
                                         .end = at + h->rep_bytes,
                                         .width = width_of((uint32_t)node->max_rep) };
        c->defs = (struct parquet_bits){ .at = at + h->rep_bytes,
                                         .end = at + levels,
                                         .width = width_of((uint32_t)node->max_def) };
    } else {
        good = start_levels(&c->reps, &c->values, node->max_rep) &&
               start_levels(&c->defs, &c->values, node->max_def);
    }
    c->value_count = fixed_width(node) ? c->values.size / fixed_width(node) : 0;
    return good && start_values(c) ? OK : parquet_column_damaged(c, "a page");
}

static enum err next_page(struct parquet_column *c)
{
    struct page_head head;
    const char *at;
    size_t got, taken = 0;
    for (size_t size = 4096; !taken; size *= 8) { // statistics may be long
        TRY(need(&c->span, size, &at, &got));
        taken = read_page_head(&head, (struct text){ at, got });
        if (!taken && (got < size || size > 16 << 20))
            return parquet_column_damaged(c, "the head of a page");
    }
    if (head.packed < 0 || head.size < 0 || head.packed > PARQUET_MOST_PAGE_BYTES ||
        head.size > PARQUET_MOST_PAGE_BYTES)
        return fail(ERR_INPUT, "%s: column \"%.*s\" has a page of over %d MiB", c->path,
                    TEXT_BRIEF(c->node->name), PARQUET_MOST_PAGE_BYTES >> 20);
    size_t before = c->span.room;
    TRY(need(&c->span, taken + (size_t)head.packed, &at, &got));
    *c->held += (int64_t)(c->span.room - before);
    if (got < taken + (size_t)head.packed)
        return parquet_column_damaged(c, "a page that ends early");
    c->span.used += got;
    struct text packed = { at + taken, (size_t)head.packed };
    if (head.type == PAGE_DICTIONARY)
        return read_dictionary(c, &head, packed);
    return head.type == PAGE_DATA || head.type == PAGE_DATA_2 ? read_data(c, &head, packed) : OK;
}

// --- entries -----------------------------------------------------------------

enum err parquet_column_peek(struct parquet_column *c)
{
    if (c->has_entry)
        return OK;
    while (!c->page_values) {
        if (!c->values_left)
            return parquet_column_damaged(c, "its number of rows");
        TRY(next_page(c));
    }
    uint32_t rep = 0, def = 0;
    if ((c->node->max_rep && !take_bits(&c->reps, &rep)) ||
        (c->node->max_def && !take_bits(&c->defs, &def)) || (int)rep > c->node->max_rep ||
        (int)def > c->node->max_def)
        return parquet_column_damaged(c, "the levels of a page");
    c->rep = (int)rep;
    c->def = (int)def;
    c->has_entry = true;
    c->page_values--;
    return OK;
}

static _Thread_local char scratch[1 << 12]; // a number that is put together

static bool take_bytes_with_prefix(struct parquet_column *c, struct text *value)
{
    int64_t prefix, size;
    if (!take_delta(&c->prefixes, &prefix) || !take_delta(&c->lengths, &size) || prefix < 0 ||
        (size_t)prefix > c->before_size || size < 0 || (uint64_t)size > c->values.size)
        return false;
    size_t whole = (size_t)prefix + (size_t)size;
    if (c->before_room < whole && make_room(c, &c->before, &c->before_room, 2 * whole))
        return false;
    if (size)
        memcpy(c->before + prefix, c->values.at, (size_t)size);
    c->values.at += size;
    c->values.size -= (size_t)size;
    c->before_size = whole;
    *value = (struct text){ c->before ? c->before : "", whole };
    return true;
}

static bool take_split(struct parquet_column *c, struct text *value)
{
    size_t width = fixed_width(c->node);
    if (!width || width > sizeof scratch || c->value_index >= c->value_count)
        return false;
    for (size_t i = 0; i < width; i++)
        scratch[i] = c->values.at[i * c->value_count + c->value_index];
    c->value_index++;
    *value = (struct text){ scratch, width };
    return true;
}

static bool take_value(struct parquet_column *c, struct text *value)
{
    uint32_t index;
    int64_t number;
    switch (c->encoding) {
    case ENCODED_OLD_DICTIONARY:
    case ENCODED_DICTIONARY:
        if (!take_bits(&c->indexes, &index) || index >= c->dictionary_count)
            return false;
        *value = c->words[index];
        return true;
    case ENCODED_RUNS:
        if (!take_bits(&c->indexes, &index))
            return false;
        scratch[0] = (char)index;
        *value = (struct text){ scratch, 1 };
        return true;
    case ENCODED_DELTA:
        if (!take_delta(&c->numbers, &number))
            return false;
        memcpy(scratch, &number, 8);
        *value = (struct text){ scratch, fixed_width(c->node) };
        return true;
    case ENCODED_DELTA_LENGTHS:
        if (!take_delta(&c->lengths, &number) || number < 0 || (uint64_t)number > c->values.size)
            return false;
        *value = (struct text){ c->values.at, (size_t)number };
        c->values.at += number;
        c->values.size -= (size_t)number;
        return true;
    case ENCODED_DELTA_BYTES: return take_bytes_with_prefix(c, value);
    case ENCODED_SPLIT: return take_split(c, value);
    default: break;
    }
    if (c->node->type != PARQUET_BOOLEAN)
        return take_plain(c->node, &c->values, value);
    if (!c->values.size)
        return false;
    scratch[0] = (char)(*c->values.at >> c->bool_bit & 1);
    if (++c->bool_bit == 8) {
        c->bool_bit = 0;
        c->values.at++;
        c->values.size--;
    }
    *value = (struct text){ scratch, 1 };
    return true;
}

enum err parquet_column_take(struct parquet_column *c, struct text *value)
{
    TRY(parquet_column_peek(c));
    c->has_entry = false;
    struct text bytes = { 0 };
    if (c->def == c->node->max_def && !take_value(c, &bytes))
        return parquet_column_damaged(c, "the values of a page");
    if (value)
        *value = bytes;
    return OK;
}

void parquet_column_release(struct parquet_column *c)
{
    parquet_span_close(&c->span);
    free(c->page);
    free(c->dictionary);
    free(c->before);
    free(c->words);
    *c = (struct parquet_column){ 0 };
}
