// SPDX-License-Identifier: Apache-2.0
// Reads zip archives from memory; every offset and size is checked against the file.

#include "host/zip.h"

#include "host/archive.h"

#include <string.h>
#include <zlib.h>

enum {
    END_BYTES = 22,   // of the end of the central directory, without its comment
    ENTRY_BYTES = 46, // of a file in the central directory, without its names
    LOCAL_BYTES = 30, // of the header before a file's data, without its names
    MOST_COMMENT = 65535,
};

static uint32_t number(const char *at, int bytes)
{
    uint32_t value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | (unsigned char)at[i];
    return value;
}

bool zip_is(struct text bytes)
{
    return bytes.size >= 4 && (!memcmp(bytes.at, "PK\3\4", 4) || !memcmp(bytes.at, "PK\5\6", 4));
}

// The end of the central directory: the last of its marks before a comment.
static const char *find_end(struct text zip)
{
    for (size_t back = END_BYTES; back <= zip.size && back <= END_BYTES + MOST_COMMENT; back++)
        if (!memcmp(zip.at + zip.size - back, "PK\5\6", 4))
            return zip.at + zip.size - back;
    return NULL;
}

struct entry {
    struct text name;
    uint32_t flags, method, crc, packed, size, offset;
};

static enum err broken(const char *name)
{
    return fail(ERR_INPUT, "%s: is no whole zip archive; was it copied whole?", name);
}

static enum err read_entry(struct entry *e, struct text zip, size_t *at, const char *name)
{
    if (*at > zip.size || zip.size - *at < ENTRY_BYTES || memcmp(zip.at + *at, "PK\1\2", 4))
        return broken(name);
    const char *p = zip.at + *at;
    size_t name_size = number(p + 28, 2);
    size_t size = ENTRY_BYTES + name_size + number(p + 30, 2) + number(p + 32, 2);
    if (size > zip.size - *at)
        return broken(name);
    *e = (struct entry){ .name = { p + ENTRY_BYTES, name_size },
                         .flags = number(p + 8, 2),
                         .method = number(p + 10, 2),
                         .crc = number(p + 16, 4),
                         .packed = number(p + 20, 4),
                         .size = number(p + 24, 4),
                         .offset = number(p + 42, 4) };
    *at += size;
    return OK;
}

static enum err check_entry(const struct entry *e, struct text zip, uint64_t total,
                            const char *name)
{
    const char *why = e->flags & 1                       ? "is encrypted"
                      : e->method != 0 && e->method != 8 ? "is packed in another way than deflate"
                      : e->size == UINT32_MAX            ? "is larger than 4 GiB"
                                                         : NULL;
    if (why)
        return fail(ERR_INPUT, "%s: %.*s %s; unpack it with unzip first", name, TEXT_ARGS(e->name),
                    why);
    if (total > (uint64_t)ARCHIVE_FREE_BYTES && total > (uint64_t)ARCHIVE_RATIO_LIMIT * zip.size)
        return fail(ERR_INPUT, "%s: unpacks to more than %d times its size", name,
                    ARCHIVE_RATIO_LIMIT);
    return OK;
}

// The packed bytes of a file: they follow a header with names of its own lengths.
static bool find_data(struct text *out, const struct entry *e, struct text zip)
{
    if (e->offset > zip.size || zip.size - e->offset < LOCAL_BYTES ||
        memcmp(zip.at + e->offset, "PK\3\4", 4))
        return false;
    const char *p = zip.at + e->offset;
    size_t skip = (size_t)e->offset + LOCAL_BYTES + number(p + 26, 2) + number(p + 28, 2);
    if (skip > zip.size || zip.size - skip < e->packed)
        return false;
    *out = (struct text){ zip.at + skip, e->packed };
    return true;
}

static bool unpack(char *out, const struct entry *e, struct text data)
{
    if (!e->method) {
        if (data.size != e->size)
            return false;
        memcpy(out, data.at, data.size);
        return true;
    }
    z_stream z = { .next_in = (Bytef *)(uintptr_t)data.at,
                   .avail_in = (uInt)data.size,
                   .next_out = (Bytef *)out,
                   .avail_out = e->size };
    if (inflateInit2(&z, -15) != Z_OK) // no header
        return false;
    int state = inflate(&z, Z_FINISH);
    inflateEnd(&z);
    return state == Z_STREAM_END && z.total_out == e->size;
}

enum err zip_read(struct zip_file **out, size_t *count, struct arena *arena, struct text zip,
                  const char *name)
{
    const char *end = find_end(zip);
    if (!end)
        return broken(name);
    size_t entries = number(end + 10, 2), at = number(end + 16, 4);
    uint64_t total = 0;
    *count = 0;
    *out = ARENA_NEW(arena, struct zip_file, entries + 1);
    for (size_t i = 0; i < entries; i++) {
        struct entry e = { 0 };
        struct text data = { 0 };
        TRY(read_entry(&e, zip, &at, name));
        if (e.name.size && e.name.at[e.name.size - 1] == '/')
            continue;
        total += e.size;
        TRY(check_entry(&e, zip, total, name));
        char *bytes = arena_alloc(arena, (size_t)e.size + 1);
        if (!find_data(&data, &e, zip) || !unpack(bytes, &e, data) ||
            crc32(0, (const Bytef *)bytes, e.size) != e.crc)
            return broken(name);
        bytes[e.size] = 0;
        (*out)[(*count)++] = (struct zip_file){ text_copy(arena, e.name), { bytes, e.size } };
    }
    return OK;
}
