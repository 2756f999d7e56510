// SPDX-License-Identifier: Apache-2.0
// Cuts an input into the pieces of its form, and moves, removes, doubles or overwrites one.

#include "test/fuzz/mutate.h"

#include <stdbool.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room); // libFuzzer's own

enum { PIECES = 4096, DEPTH = 64, LARGEST = 1 << 16 };

struct piece {
    size_t at, size;
};

struct pieces {
    struct piece items[PIECES];
    size_t count;
};

// A form: how it is cut, and what its pieces can be overwritten with.
struct form {
    void (*cut)(struct pieces *pieces, const uint8_t *data, size_t size);
    const char *const *words; // up to NULL
};

static struct pieces found; // too large for a stack

static uint32_t next(uint32_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 17;
    return *random ^= *random << 5;
}

static size_t below(uint32_t *random, size_t limit)
{
    return limit ? next(random) % limit : 0;
}

static void add(struct pieces *pieces, size_t from, size_t to)
{
    if (to > from && pieces->count < PIECES)
        pieces->items[pieces->count++] = (struct piece){ from, to - from };
}

// --- the forms ---------------------------------------------------------------

static const char *const json_words[] = {
    "0",           "-0",          "1",          "-1",
    "65536",       "2147483648",  "4294967295", "9223372036854775807",
    "1e308",       "1e-308",      "1e19",       "0.5",
    "null",        "true",        "false",      "\"\"",
    "[]",          "{}",          "[[]]",       "[0]",
    "\"\\ud800\"", "\"\\u0000\"", "\"NaN\"",    "99999999999999999999",
    NULL,
};

static bool is_scalar(uint8_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '+' || c == '.' ||
           c == 'E';
}

static size_t string_end(const uint8_t *data, size_t size, size_t at)
{
    for (at++; at < size && data[at] != '"'; at++)
        at += data[at] == '\\';
    return at < size ? at + 1 : size;
}

// Scalars, objects and arrays, and members with the comma after them.
static void cut_json(struct pieces *pieces, const uint8_t *data, size_t size)
{
    size_t opened[DEPTH], member[DEPTH + 1] = { 0 }, depth = 0;
    for (size_t at = 0; at < size;) {
        uint8_t c = data[at];
        size_t start = at++;
        if (c == '"')
            add(pieces, start, at = string_end(data, size, start));
        else if (is_scalar(c)) {
            while (at < size && is_scalar(data[at]))
                at++;
            add(pieces, start, at);
        } else if ((c == '{' || c == '[') && depth < DEPTH) {
            opened[depth++] = start;
            member[depth] = at;
        } else if (c == ',') {
            add(pieces, member[depth], at);
            member[depth] = at;
        } else if ((c == '}' || c == ']') && depth) {
            size_t last = member[depth];
            add(pieces, last > opened[depth - 1] + 1 ? last - 1 : last, start);
            add(pieces, opened[--depth], at);
        }
    }
}

static const char *const line_words[] = {
    "0",    "-1",    "1e308",      "9223372036854775808",
    "-0",   "nan",   "inf",        "null",
    "true", "~",     "[]",         "{}",
    "- ",   "&a",    "*a",         "<<",
    "!!",   "|",     ">",          "? ",
    "---",  "...",   "\"",         "'",
    "\t",   ",",     ": ",         "%",
    "1,2",  "1_000", "0x7fffffff", "2026-11-15T11:20:05Z",
    NULL,
};

// Lines, lines with the deeper ones that follow, and words.
static void cut_lines(struct pieces *pieces, const uint8_t *data, size_t size)
{
    size_t start[DEPTH], indent[DEPTH], depth = 0, word = 0;
    for (size_t at = 0, line = 0, in = 0; at <= size; at++) {
        uint8_t c = at < size ? data[at] : '\n';
        if (c == '\n') {
            add(pieces, line, at < size ? at + 1 : at);
            while (depth && indent[depth - 1] >= in)
                add(pieces, start[--depth], line);
            if (depth < DEPTH)
                start[depth] = line, indent[depth++] = in;
            line = at + 1;
            in = 0;
        } else if (c == ' ' && at == line + in)
            in++;
        if (c <= ' ' || c == ':' || c == ',' || c == '=' || c == '{' || c == '}') {
            add(pieces, word, at);
            word = at + 1;
        }
    }
}

static const char *const template_words[] = {
    "{% for m in messages %}",
    "{% endfor %}",
    "{% if m %}",
    "{% elif loop.first %}",
    "{% else %}",
    "{% endif %}",
    "{% set x = messages %}",
    "{% set ns = namespace(a=1) %}",
    "{{ messages[0] }}",
    "{% macro f(a, b=1) %}",
    "{% endmacro %}",
    "{{- ",
    "-}}",
    "{# #}",
    " | length ",
    " | tojson ",
    " | join(',') ",
    " | trim ",
    " is defined ",
    " not in ",
    " and ",
    " ~ ",
    " // ",
    " % ",
    "**",
    "[::-1]",
    "[1:]",
    "[-9223372036854775808]",
    "9223372036854775807",
    "1e308",
    ".items()",
    ".split('')",
    ".replace('', 'a')",
    "range(99999)",
    "raise_exception('')",
    "'' * 99999",
    "{% generation %}",
    "{% endgeneration %}",
    "{% break %}",
    "loop.index0",
    "none",
    NULL,
};

// Tags, the text between them, words, and what stands in brackets.
static void cut_template(struct pieces *pieces, const uint8_t *data, size_t size)
{
    size_t opened[DEPTH], depth = 0, word = 0;
    for (size_t at = 0, tag = 0; at < size; at++) {
        uint8_t c = data[at];
        bool opens = c == '{' && at + 1 < size && memchr("{%#", data[at + 1], 3);
        bool closes = c == '}' && at && memchr("}%#", data[at - 1], 3);
        if (opens || closes) {
            add(pieces, tag, at + closes);
            tag = at + closes;
        }
        if ((c == '(' || c == '[') && depth < DEPTH)
            opened[depth++] = at;
        if ((c == ')' || c == ']') && depth)
            add(pieces, opened[--depth], at + 1);
        if (c <= ' ' || memchr("()[]|.,'\"", c, 9)) {
            add(pieces, word, at);
            word = at + 1;
        }
    }
}

// --- what is done with a piece -----------------------------------------------

// Puts bytes in the place of a piece; the size is unchanged where there is no room.
static size_t put(uint8_t *data, size_t size, size_t room, struct piece old, const void *bytes,
                  size_t count)
{
    if (size - old.size + count > room)
        return size;
    memmove(data + old.at + count, data + old.at + old.size, size - old.at - old.size);
    memcpy(data + old.at, bytes, count);
    return size - old.size + count;
}

static size_t mutate(uint8_t *data, size_t size, size_t room, unsigned seed,
                     const struct form *form)
{
    static uint8_t copy[LARGEST];
    uint32_t random = seed * 2654435761u + 1;
    next(&random);
    if (next(&random) % 2)
        return LLVMFuzzerMutate(data, size, room);
    found.count = 0;
    form->cut(&found, data, size);
    if (!found.count)
        return LLVMFuzzerMutate(data, size, room);
    struct piece a = found.items[below(&random, found.count)];
    struct piece b = found.items[below(&random, found.count)];
    struct piece nothing = { b.at, 0 };
    size_t words = 0;
    while (form->words[words])
        words++;
    const char *word = form->words[below(&random, words)];
    if (a.size > sizeof copy || b.size > sizeof copy)
        return LLVMFuzzerMutate(data, size, room);
    memcpy(copy, data + a.at, a.size);
    switch (next(&random) % 6) {
    case 0: return size > a.size ? put(data, size, room, a, "", 0) : size;
    case 1: return put(data, size, room, a, word, strlen(word));
    case 2: return put(data, size, room, nothing, word, strlen(word));
    case 3: return put(data, size, room, nothing, copy, a.size); // doubled, elsewhere
    case 4: return put(data, size, room, b, copy, a.size);       // in the place of another
    default: {                                                   // changed inside
        size_t grown = LLVMFuzzerMutate(copy, a.size, sizeof copy);
        return put(data, size, room, a, copy, grown);
    }
    }
}

size_t mutate_json(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    return mutate(data, size, room, seed, &(struct form){ cut_json, json_words });
}

size_t mutate_lines(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    return mutate(data, size, room, seed, &(struct form){ cut_lines, line_words });
}

size_t mutate_template(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    return mutate(data, size, room, seed, &(struct form){ cut_template, template_words });
}

// --- binary files ------------------------------------------------------------

// A number as a length or an offset could be: small, near the size, a step away, or extreme.
static uint64_t interesting(uint32_t *random, uint64_t old, size_t size)
{
    static const uint64_t extremes[] = { 0,          1,          8,         0x7FFFFFFF,
                                         0x80000000, 0xFFFFFFFF, INT64_MAX, UINT64_MAX };
    switch (next(random) % 4) {
    case 0: return extremes[below(random, sizeof extremes / sizeof *extremes)];
    case 1: return size - 8 + below(random, 17);
    case 2: return old + (uint64_t)4 * below(random, 17) - 32;
    default: return below(random, size + 1);
    }
}

// Overwrites one aligned number of 1, 2, 4 or 8 bytes, or copies one to another place.
size_t mutate_words(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    uint32_t random = seed * 2654435761u + 1;
    next(&random);
    size_t width = (size_t)1 << below(&random, 4);
    if (next(&random) % 2 || size < 16)
        return LLVMFuzzerMutate(data, size, room);
    uint8_t *at = data + below(&random, size / width) * width;
    uint64_t number = 0;
    if (next(&random) % 4 == 0) {
        memmove(at, data + below(&random, size / width) * width, width);
        return size;
    }
    memcpy(&number, at, width); // little endian, as the files are
    number = interesting(&random, number, size);
    memcpy(at, &number, width);
    return size;
}

// The header is mutated as JSON and the length before it follows, mostly.
size_t mutate_safetensors(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    uint64_t length = 0;
    uint32_t random = seed * 2246822519u + 1;
    next(&random);
    if (size >= 8)
        memcpy(&length, data, 8);
    if (size < 8 || length > size - 8 || next(&random) % 4 == 0 || room > LARGEST)
        return mutate_words(data, size, room, seed);
    static uint8_t header[LARGEST];
    memcpy(header, data + 8, length);
    size_t tail = size - 8 - length;
    size_t grown = mutate_json(header, length, room - 8 - tail, seed);
    size = put(data, size, room, (struct piece){ 8, length }, header, grown);
    length = grown;
    if (next(&random) % 16)
        memcpy(data, &length, 8);
    return size;
}

size_t mutate_adapter_file(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    size_t config = zero ? (size_t)(zero - data) : size;
    if (!zero || room > LARGEST || seed % 8 == 0)
        return LLVMFuzzerMutate(data, size, room);
    if (seed % 2) {
        size_t grown =
            mutate_safetensors(data + config + 1, size - config - 1, room - config - 1, seed / 2);
        return config + 1 + grown;
    }
    static uint8_t json[LARGEST];
    memcpy(json, data, config);
    size_t grown = mutate_json(json, config, room - (size - config), seed / 2);
    return put(data, size, room, (struct piece){ 0, config }, json, grown);
}
