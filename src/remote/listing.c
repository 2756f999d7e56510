// SPDX-License-Identifier: Apache-2.0
// Reads the XML that object stores answer with: elements by name, text with its entities resolved.

#include "remote/listing.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OBJECTS = 10000 }; // a page has at most 1000

// Finds <name>content</name> from *at on, moves *at past it. Elements of these documents do not
// hold others of their own name.
static bool next_element(struct text *rest, const char *name, struct text *content)
{
    size_t size = strlen(name);
    while (rest->size > size + 1) {
        const char *open = memchr(rest->at, '<', rest->size);
        if (!open)
            return false;
        rest->size -= (size_t)(open + 1 - rest->at);
        rest->at = open + 1;
        if (rest->size <= size || memcmp(rest->at, name, size) || !strchr("> \t\n", rest->at[size]))
            continue;
        const char *start = memchr(rest->at, '>', rest->size);
        if (!start)
            return false;
        start++;
        const char *end = rest->at + rest->size;
        for (const char *at = start; (at = memchr(at, '<', (size_t)(end - at))); at++)
            if ((size_t)(end - at) > size + 2 && at[1] == '/' && !memcmp(at + 2, name, size) &&
                at[2 + size] == '>') {
                *content = (struct text){ start, (size_t)(at - start) };
                rest->at = at + size + 3;
                rest->size = (size_t)(end - rest->at);
                return true;
            }
        return false;
    }
    return false;
}

static struct text element(struct text within, const char *name)
{
    struct text content = { "", 0 };
    next_element(&within, name, &content);
    return content;
}

// One entity after its "&", up to and without ";". Returns 0 for one that is not known.
static uint32_t entity(struct text name)
{
    static const struct {
        const char *name;
        uint32_t code;
    } named[] = { { "amp", '&' }, { "lt", '<' }, { "gt", '>' }, { "quot", '"' }, { "apos", '\'' } };
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (text_is(name, named[i].name))
            return named[i].code;
    if (name.size < 2 || name.size > 9 || name.at[0] != '#')
        return 0;
    bool hex = name.at[1] == 'x' || name.at[1] == 'X';
    uint32_t code = 0;
    for (size_t i = hex ? 2 : 1; i < name.size; i++) {
        int c = tolower((unsigned char)name.at[i]);
        if (!(hex ? isxdigit(c) : isdigit(c)))
            return 0;
        code = code * (hex ? 16 : 10) + (uint32_t)(isdigit(c) ? c - '0' : c - 'a' + 10);
        if (code > 0x10FFFF)
            return 0;
    }
    return code;
}

static const char *plain(struct arena *arena, struct text xml)
{
    struct out out = { .arena = arena };
    for (size_t i = 0; i < xml.size; i++) {
        size_t near = xml.size - i < 12 ? xml.size - i : 12; // no entity is longer
        const char *end = xml.at[i] == '&' ? memchr(xml.at + i, ';', near) : NULL;
        uint32_t code = 0;
        if (end)
            code = entity((struct text){ xml.at + i + 1, (size_t)(end - xml.at) - i - 1 });
        if (!code) {
            out_char(&out, xml.at[i]);
            continue;
        }
        char bytes[4];
        out_bytes(&out, bytes, text_put_utf8(bytes, code));
        i = (size_t)(end - xml.at);
    }
    return out_string(&out);
}

static bool read_object(struct listing_object *out, struct arena *arena, struct text contents)
{
    struct text key = element(contents, "Key"), size = element(contents, "Size");
    char digits[19] = ""; // 18 of them: sums of such sizes do not overflow
    if (!key.size || !size.size || size.size >= sizeof digits)
        return false;
    memcpy(digits, size.at, size.size);
    char *end;
    out->size_bytes = strtoll(digits, &end, 10);
    out->key = plain(arena, key);
    struct text etag = text_of(plain(arena, element(contents, "ETag")));
    if (etag.size >= 2 && etag.at[0] == '"' && etag.at[etag.size - 1] == '"')
        etag = (struct text){ etag.at + 1, etag.size - 2 };
    out->etag = text_copy(arena, etag);
    return !*end && out->size_bytes >= 0 && strlen(out->key) <= 1024;
}

enum err listing_read(struct listing *out, struct arena *arena, struct text xml)
{
    *out = (struct listing){ .next = "" };
    struct text result = element(xml, "ListBucketResult"), rest = result, contents;
    if (!result.size)
        return fail(ERR_INPUT, "the answer is no list of a bucket");
    size_t room = 0;
    while (next_element(&rest, "Contents", &contents)) {
        if (out->count == MOST_OBJECTS)
            return fail(ERR_INPUT, "a page of the list has over %d objects", MOST_OBJECTS);
        out->objects = arena_room(arena, out->objects, sizeof *out->objects, out->count, &room);
        if (!read_object(&out->objects[out->count], arena, contents))
            return fail(ERR_INPUT, "the list has an object without a proper key or size");
        out->count++;
    }
    out->is_truncated = text_is(element(result, "IsTruncated"), "true");
    out->next = plain(arena, element(result, "NextContinuationToken"));
    if (out->is_truncated && !*out->next)
        return fail(ERR_INPUT, "the list says that it goes on, and not where");
    return OK;
}

void listing_error_code(char *out, size_t room, struct text xml)
{
    struct text code = element(xml, "Code");
    bool good = code.size < room;
    for (size_t i = 0; good && i < code.size; i++)
        good = isalnum((unsigned char)code.at[i]);
    if (good)
        memcpy(out, code.at, code.size);
    out[good ? code.size : 0] = 0;
}
