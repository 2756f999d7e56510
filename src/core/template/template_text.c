// SPDX-License-Identifier: Apache-2.0
// String operations by code point over UTF-8: length, search, strip, case.

#include "core/template/template_text.h"

#include "base/unicode.h"

#include <string.h>

static bool follows(struct text text, size_t at)
{
    return at < text.size && ((unsigned char)text.at[at] & 0xC0) == 0x80;
}

size_t template_text_step(struct text text, size_t at, uint32_t *code)
{
    unsigned char c = (unsigned char)text.at[at];
    *code = c;
    if (c < 0x80)
        return 1;
    size_t size = c >= 0xF0 && c < 0xF5 ? 4 : c >= 0xE0 && c < 0xF0 ? 3 : c >= 0xC2 ? 2 : 1;
    if (size == 1 || c >= 0xF5)
        return 1;
    uint32_t value = c & (0x7Fu >> size);
    for (size_t i = 1; i < size; i++) {
        if (!follows(text, at + i))
            return 1;
        value = value << 6 | ((unsigned char)text.at[at + i] & 0x3F);
    }
    *code = value;
    return size;
}

size_t template_text_count(struct text text)
{
    size_t count = 0;
    uint32_t code;
    for (size_t at = 0; at < text.size; count++)
        at += (unsigned char)text.at[at] < 0x80 ? 1 : template_text_step(text, at, &code);
    return count;
}

size_t template_text_offset(struct text text, size_t index)
{
    size_t at = 0;
    uint32_t code;
    while (index-- > 0 && at < text.size)
        at += template_text_step(text, at, &code);
    return at;
}

bool template_text_is_space(uint32_t c)
{
    if (c < 0x80)
        return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool template_text_is_printable(uint32_t code)
{
    return code == ' ' || !unicode_is(code, UNICODE_SEPARATOR | UNICODE_OTHER);
}

static bool strips(uint32_t code, struct text what)
{
    if (!what.at)
        return template_text_is_space(code);
    uint32_t other;
    for (size_t at = 0; at < what.size;) {
        at += template_text_step(what, at, &other);
        if (other == code)
            return true;
    }
    return false;
}

struct text template_text_strip(struct text text, struct text what, bool left, bool right)
{
    uint32_t code;
    while (left && text.size) {
        size_t size = template_text_step(text, 0, &code);
        if (!strips(code, what))
            break;
        text.at += size;
        text.size -= size;
    }
    while (right && text.size) {
        size_t at = text.size - 1;
        while (at > 0 && text.size - at < 4 && follows(text, at))
            at--;
        if (template_text_step(text, at, &code) != text.size - at)
            at = text.size - 1, code = (unsigned char)text.at[at];
        if (!strips(code, what))
            break;
        text.size = at;
    }
    return text;
}

// Searches by rolling hash: for long strings, comparing at every position could be quadratic.
static size_t find_long(struct text text, struct text what, size_t from, bool last)
{
    const uint64_t base = 0x9E3779B97F4A7C15u;
    uint64_t wanted = 0, seen = 0, highest = 1;
    size_t found = SIZE_MAX;
    if (from + what.size > text.size)
        return SIZE_MAX;
    for (size_t i = 0; i < what.size; i++) {
        wanted = wanted * base + (unsigned char)what.at[i];
        seen = seen * base + (unsigned char)text.at[from + i];
        highest = i ? highest * base : 1;
    }
    for (size_t at = from;; at++) {
        if (seen == wanted && !memcmp(text.at + at, what.at, what.size)) {
            found = at;
            if (!last)
                return found;
        }
        if (at + what.size >= text.size)
            return found;
        seen = (seen - highest * (unsigned char)text.at[at]) * base +
               (unsigned char)text.at[at + what.size];
    }
}

enum { SHORT = 32 };

size_t template_text_find(struct text text, struct text what, size_t from)
{
    if (!what.size)
        return from <= text.size ? from : SIZE_MAX;
    if (what.size > SHORT)
        return find_long(text, what, from, false);
    while (from + what.size <= text.size) {
        const char *hit = memchr(text.at + from, what.at[0], text.size - what.size - from + 1);
        if (!hit)
            break;
        if (!memcmp(hit, what.at, what.size))
            return (size_t)(hit - text.at);
        from = (size_t)(hit - text.at) + 1;
    }
    return SIZE_MAX;
}

size_t template_text_find_last(struct text text, struct text what)
{
    if (what.size > SHORT)
        return find_long(text, what, 0, true);
    for (size_t at = text.size - what.size + 1; what.size <= text.size && at-- > 0;)
        if (!memcmp(text.at + at, what.at, what.size))
            return at;
    return SIZE_MAX;
}

// Unicode blocks beyond ASCII that have letters with case.
static bool may_have_case(uint32_t c)
{
    static const uint32_t blocks[][2] = {
        { 0xAA, 0x58F },      { 0x10A0, 0x10FF },   { 0x13A0, 0x13FF },   { 0x1C80, 0x1CBF },
        { 0x1D00, 0x1FFF },   { 0x2071, 0x209C },   { 0x2100, 0x218F },   { 0x24B6, 0x24E9 },
        { 0x2C00, 0x2D2F },   { 0xA640, 0xA7FF },   { 0xAB30, 0xABBF },   { 0xFB00, 0xFB17 },
        { 0xFF21, 0xFF5A },   { 0x10400, 0x104FF }, { 0x10570, 0x105BF }, { 0x10780, 0x107BF },
        { 0x10C80, 0x10CFF }, { 0x118A0, 0x118DF }, { 0x16E40, 0x16E7F }, { 0x1D400, 0x1D7FF },
        { 0x1DF00, 0x1DFFF }, { 0x1E030, 0x1E06F }, { 0x1E900, 0x1E943 },
    };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (c >= blocks[i][0] && c <= blocks[i][1])
            return true;
    return false;
}

size_t template_text_case(char *out, struct text text, bool upper)
{
    enum { CAPITAL_I_DOT = 0x130, CAPITAL_SIGMA = 0x3A3 }; // two letters; one of two, by its place
    uint32_t code;
    size_t size = 0;
    for (size_t at = 0; at < text.size;) {
        size_t step = template_text_step(text, at, &code);
        if (step == 1) {
            bool changes = upper ? code >= 'a' && code <= 'z' : code >= 'A' && code <= 'Z';
            out[size++] = (char)(changes ? code ^ 32 : code);
        } else if (upper && may_have_case(code)) {
            return SIZE_MAX;
        } else if (code == CAPITAL_I_DOT || code == CAPITAL_SIGMA) {
            return SIZE_MAX;
        } else {
            size += (size_t)unicode_put(out + size, upper ? code : unicode_lower(code));
        }
        at += step;
    }
    return size;
}
