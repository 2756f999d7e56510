#include "core/template_text.h"

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

bool template_text_is_printable(uint32_t c)
{
    static const uint32_t hidden[][2] = {
        { 0, 0x1F },          { 0x7F, 0xA0 },        { 0xAD, 0xAD },       { 0x600, 0x605 },
        { 0x61C, 0x61C },     { 0x6DD, 0x6DD },      { 0x70F, 0x70F },     { 0x890, 0x891 },
        { 0x8E2, 0x8E2 },     { 0x1680, 0x1680 },    { 0x180E, 0x180E },   { 0x2000, 0x200F },
        { 0x2028, 0x202F },   { 0x205F, 0x206F },    { 0x3000, 0x3000 },   { 0xD800, 0xF8FF },
        { 0xFEFF, 0xFEFF },   { 0xFFF0, 0xFFFB },    { 0xFFFE, 0xFFFF },   { 0x110BD, 0x110BD },
        { 0x110CD, 0x110CD }, { 0x13430, 0x1343F },  { 0x1BCA0, 0x1BCA3 }, { 0x1D173, 0x1D17A },
        { 0xE0000, 0xE00FF }, { 0xF0000, 0x10FFFF },
    };
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
        if (c >= hidden[i][0] && c <= hidden[i][1])
            return false;
    return true;
}

size_t template_text_put(char *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t size = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = size - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (c & 0x3F));
        c >>= 6;
    }
    out[0] = (char)((0xF00u >> size & 0xF0) | c);
    return size;
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

size_t template_text_find(struct text text, struct text what, size_t from)
{
    if (!what.size)
        return from <= text.size ? from : SIZE_MAX;
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

// Blocks of Unicode that hold letters with case, apart from ASCII.
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

bool template_text_case(char *out, struct text text, bool upper)
{
    uint32_t code;
    for (size_t at = 0; at < text.size;) {
        size_t size = template_text_step(text, at, &code);
        if (code >= 0x80 && size > 1 && may_have_case(code))
            return false;
        memcpy(out + at, text.at + at, size);
        if (upper && code >= 'a' && code <= 'z')
            out[at] = (char)(code - 32);
        if (!upper && code >= 'A' && code <= 'Z')
            out[at] = (char)(code + 32);
        at += size;
    }
    return true;
}
