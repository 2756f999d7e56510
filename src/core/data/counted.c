// SPDX-License-Identifier: Apache-2.0
// Writes examples without their text as bytes, and reads them back.

#include "core/data/counted.h"

#include <string.h>

// An entry is a byte of flags, then numbers of seven bits per byte, the lowest first.
enum {
    BAD = 1, // a row with a problem; its text follows
    SECOND = 2,
    EMPTY = 4,
    MEDIA = 8,
    PARTS = 16,
    IMAGES = 32,
    OTHER_FILE = 64, // the index of the file comes first
    END = 128,       // no example: the number of lines, shapes and the census follow
};

static const int64_t LONGEST_STEP = (int64_t)1 << 40; // lines between two examples

// --- shapes ------------------------------------------------------------------

struct counted_shape counted_shape_copy(struct arena *arena, const struct counted_shape *shape)
{
    struct counted_shape copy = *shape;
    copy.columns = ARENA_NEW(arena, struct record_column, shape->column_count);
    for (size_t i = 0; i < shape->column_count; i++) {
        copy.columns[i] = shape->columns[i];
        copy.columns[i].name = text_copy(arena, text_of(shape->columns[i].name));
    }
    return copy;
}

void counted_add_shape(struct profile *profile, struct arena *arena, size_t *listed,
                       const struct counted_shape *shape)
{
    if (shape->is_plain) {
        profile->format = profile->format ? profile->format : shape->format;
        return;
    }
    bool other = profile->format && strcmp(profile->format, shape->format);
    profile->format = other ? "mixed" : shape->format;
    if ((*listed)++ < COUNTED_LISTED)
        profile_add_columns(profile, arena, shape->columns, shape->column_count);
}

// --- writing -----------------------------------------------------------------

static void put_number(struct out *out, uint64_t number)
{
    for (; number > 127; number >>= 7)
        out_char(out, (char)(number | 128));
    out_char(out, (char)number);
}

static void put_string(struct out *out, const char *string) // NULL is not ""
{
    size_t size = string ? strlen(string) + 1 : 0;
    put_number(out, size);
    if (size)
        out_bytes(out, string, size);
}

// Small for small steps in either direction.
static uint64_t folded(int64_t step)
{
    return step < 0 ? 2 * (uint64_t)-step - 1 : 2 * (uint64_t)step;
}

static int64_t unfolded(uint64_t number)
{
    return number & 1 ? -(int64_t)(number / 2) - 1 : (int64_t)(number / 2);
}

void counted_put(struct counted_writer *w, size_t file, const struct example *example)
{
    struct out *out = w->out;
    bool parts = example->adapted || example->left_out, images = example->images.images > 0;
    int flags = (example->problem ? BAD : 0) | (example->is_second ? SECOND : 0) |
                (example->is_empty ? EMPTY : 0) | (example->has_media ? MEDIA : 0) |
                (parts ? PARTS : 0) | (images ? IMAGES : 0) | (file != w->file ? OTHER_FILE : 0);
    out_char(out, (char)flags);
    if (file != w->file)
        put_number(out, file);
    put_number(out, folded(example->line - w->line));
    w->file = file;
    w->line = example->line;
    if (example->problem) {
        put_string(out, w->bad++ < PROFILE_SPOTS ? example->problem : "");
        return;
    }
    put_number(out, (uint64_t)example->tokens);
    put_number(out, (uint64_t)example->labelled);
    put_number(out, (uint64_t)example->doubt);
    put_number(out, (uint64_t)example->text_bytes);
    out_bytes(out, (const char *)&example->hash, sizeof example->hash);
    if (parts) {
        put_number(out, (uint64_t)example->adapted);
        put_number(out, (uint64_t)example->left_out);
    }
    if (images)
        out_bytes(out, (const char *)&example->images, sizeof example->images);
}

static void put_census(struct out *out, const struct census *census)
{
    put_number(out, (uint64_t)census->bytes);
    put_number(out, census->count);
    for (size_t i = 0; i < census->count; i++) {
        put_string(out, census->columns[i].name);
        put_string(out, census->columns[i].part);
        put_number(out, (uint64_t)census->columns[i].bytes);
    }
}

void counted_put_end(struct counted_writer *w, const struct counted_shape *shapes, size_t count,
                     const struct census *census, int64_t lines)
{
    struct out *out = w->out;
    out_char(out, (char)END);
    put_number(out, (uint64_t)lines);
    put_number(out, count);
    for (size_t i = 0; i < count; i++) {
        const struct counted_shape *shape = &shapes[i];
        put_number(out, shape->file);
        put_string(out, shape->format);
        put_number(out, shape->is_plain);
        put_number(out, shape->column_count);
        for (size_t k = 0; k < shape->column_count; k++) {
            const struct record_column *column = &shape->columns[k];
            put_string(out, column->name);
            put_string(out, column->part);
            put_number(out, column->is_text);
            out_bytes(out, (const char *)&column->share, sizeof column->share);
        }
    }
    put_census(out, census);
}

// --- reading -----------------------------------------------------------------

static uint64_t get_number(struct counted_reader *r)
{
    uint64_t number = 0;
    for (int shift = 0; r->at < r->end && shift < 64; shift += 7) {
        uint64_t byte = (uint8_t)*r->at++;
        number |= (byte & 127) << shift;
        if (byte < 128)
            return number;
    }
    r->failed = true;
    return 0;
}

static int64_t get_count(struct counted_reader *r)
{
    uint64_t number = get_number(r);
    r->failed = r->failed || number > INT64_MAX / 2;
    return r->failed ? 0 : (int64_t)number;
}

static void get_bytes(struct counted_reader *r, void *to, size_t size)
{
    memset(to, 0, size);
    if ((size_t)(r->end - r->at) < size) {
        r->failed = true;
        return;
    }
    memcpy(to, r->at, size);
    r->at += size;
}

static const char *get_string(struct counted_reader *r)
{
    uint64_t size = get_number(r);
    const char *string = r->at;
    if (r->failed || size > (size_t)(r->end - r->at) || (size && string[size - 1])) {
        r->failed = true;
        return "";
    }
    r->at += size;
    return size ? string : NULL;
}

// A list with at least so many bytes per item: more items cannot be there.
static size_t get_length(struct counted_reader *r, size_t least)
{
    uint64_t count = get_number(r);
    r->failed = r->failed || count > (size_t)(r->end - r->at) / least;
    return r->failed ? 0 : (size_t)count;
}

static const char *kept(struct counted_reader *r, const char *string)
{
    return string ? text_copy(r->arena, text_of(string)) : NULL;
}

static void get_census(struct counted_reader *r)
{
    r->census = (struct census){ .arena = r->arena };
    int64_t bytes = get_count(r);
    size_t count = get_length(r, 4);
    for (size_t i = 0; i < count && !r->failed; i++) {
        const char *name = get_string(r), *part = kept(r, get_string(r));
        int64_t of_column = get_count(r);
        r->failed = r->failed || !name || of_column > bytes;
        if (!r->failed)
            census_add(&r->census, text_of(name), part, of_column);
    }
    r->census.bytes = bytes;
}

static void get_end(struct counted_reader *r)
{
    r->lines = get_count(r);
    size_t count = get_length(r, 4);
    r->shapes = ARENA_NEW(r->arena, struct counted_shape, count);
    for (size_t i = 0; i < count && !r->failed; i++) {
        struct counted_shape *shape = &r->shapes[r->shape_count++];
        shape->file = (size_t)get_number(r);
        shape->format = kept(r, get_string(r));
        shape->is_plain = get_number(r);
        shape->column_count = get_length(r, 11);
        shape->columns = ARENA_NEW(r->arena, struct record_column, shape->column_count);
        r->failed = r->failed || !shape->format;
        for (size_t k = 0; k < shape->column_count && !r->failed; k++) {
            struct record_column *column = &shape->columns[k];
            const char *name = kept(r, get_string(r));
            column->name = name ? name : "?";
            column->part = kept(r, get_string(r));
            column->is_text = get_number(r);
            get_bytes(r, &column->share, sizeof column->share);
        }
    }
    get_census(r);
    r->failed = r->failed || r->at != r->end;
}

bool counted_next(struct counted_reader *r, struct example *example)
{
    *example = (struct example){ 0 };
    uint8_t flags = 0;
    get_bytes(r, &flags, 1);
    if (r->failed)
        return false;
    if (flags == END) {
        get_end(r);
        return false;
    }
    r->failed = flags > END;
    if (flags & OTHER_FILE)
        r->file = (size_t)get_number(r);
    int64_t step = unfolded(get_number(r));
    r->failed = r->failed || step > LONGEST_STEP || step < -LONGEST_STEP;
    r->line += r->failed ? 0 : step;
    example->line = r->line;
    example->is_second = flags & SECOND;
    example->is_empty = flags & EMPTY;
    example->has_media = flags & MEDIA;
    if (flags & BAD) {
        example->problem = get_string(r);
        r->failed = r->failed || !example->problem;
        return !r->failed;
    }
    example->tokens = get_count(r);
    example->labelled = get_count(r);
    example->doubt = get_count(r);
    example->text_bytes = get_count(r);
    get_bytes(r, &example->hash, sizeof example->hash);
    if (flags & PARTS) {
        example->adapted = (int)(get_number(r) & INT32_MAX);
        example->left_out = (int)(get_number(r) & INT32_MAX);
    }
    if (flags & IMAGES)
        get_bytes(r, &example->images, sizeof example->images);
    return !r->failed;
}
