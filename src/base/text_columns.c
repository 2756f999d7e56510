// SPDX-License-Identifier: Apache-2.0
// How text fills a terminal: characters and their columns, cuts, lines and styles.

#include "base/text.h"

#include <string.h>

// --- characters --------------------------------------------------------------

size_t text_put_utf8(char *out, uint32_t code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xC0 | code >> 6);
        out[1] = (char)(0x80 | (code & 63));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xE0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 63));
        out[2] = (char)(0x80 | (code & 63));
        return 3;
    }
    out[0] = (char)(0xF0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 63));
    out[2] = (char)(0x80 | (code >> 6 & 63));
    out[3] = (char)(0x80 | (code & 63));
    return 4;
}

uint32_t text_next_code(const char **at, const char *end)
{
    const unsigned char *p = (const unsigned char *)*at;
    size_t left = (size_t)(end - *at), size = 0;
    uint32_t code = p[0];
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    if (code < 0x80)
        size = 1;
    else if (code >= 0xC2 && code < 0xE0)
        size = 2, code &= 0x1F;
    else if (code >= 0xE0 && code < 0xF0)
        size = 3, code &= 0x0F;
    else if (code >= 0xF0 && code < 0xF5)
        size = 4, code &= 0x07;
    bool good = size > 0 && size <= left;
    for (size_t i = 1; good && i < size; i++) {
        good = (p[i] & 0xC0) == 0x80;
        code = code << 6 | (p[i] & 0x3F);
    }
    good = good && code >= least[size] && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
    *at += good ? size : 1;
    return good ? code : 0xFFFD;
}

// Ranges of Unicode's East Asian width W and F that fonts show two columns wide.
static bool is_wide(uint32_t c)
{
    return (c >= 0x1100 && c <= 0x115F) || (c >= 0x2E80 && c <= 0x303E) ||
           (c >= 0x3041 && c <= 0xA4CF) || (c >= 0xAC00 && c <= 0xD7A3) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0xFE30 && c <= 0xFE6F) ||
           (c >= 0xFF00 && c <= 0xFF60) || (c >= 0xFFE0 && c <= 0xFFE6) ||
           (c >= 0x1F300 && c <= 0x1FAFF) || (c >= 0x20000 && c <= 0x3FFFD);
}

static bool is_combining(uint32_t c)
{
    return (c >= 0x300 && c <= 0x36F) || (c >= 0x1AB0 && c <= 0x1AFF) ||
           (c >= 0x20D0 && c <= 0x20FF) || (c >= 0xFE00 && c <= 0xFE0F);
}

int text_code_columns(uint32_t code)
{
    return is_combining(code) ? 0 : is_wide(code) ? 2 : 1;
}

// The bytes of an escape sequence "ESC [ … letter" at the beginning of the text; 0: there is none.
static size_t escape_size(const char *at, const char *end)
{
    if (end - at < 2 || at[0] != '\033' || at[1] != '[')
        return 0;
    const char *last = at + 2;
    while (last < end && (*last < '@' || *last > '~'))
        last++;
    return last < end ? (size_t)(last + 1 - at) : 0;
}

// How many bytes fill at most so many columns; *used is how many columns those are.
static size_t measure(struct text text, int columns, int *used)
{
    const char *at = text.at, *end = text.at + text.size;
    *used = 0;
    while (text.size && at < end) {
        size_t escape = escape_size(at, end);
        const char *next = at + escape;
        int wide = escape ? 0 : text_code_columns(text_next_code(&next, end));
        if (*used + wide > columns)
            break;
        *used += wide;
        at = next;
    }
    return (size_t)(at - text.at);
}

int text_columns(struct text text)
{
    int columns;
    measure(text, INT_MAX / 2, &columns);
    return columns;
}

size_t text_fit(struct text text, int columns)
{
    int used;
    return measure(text, columns, &used);
}

const char *text_cut(struct arena *arena, const char *text, int columns)
{
    struct text whole = text_of(text);
    if (text_fit(whole, columns) == whole.size)
        return whole.at;
    struct text kept = { whole.at, text_fit(whole, columns > 1 ? columns - 1 : 0) };
    const char *reset = memchr(whole.at, '\033', whole.size) ? "\033[0m" : "";
    return text_format(arena, "%.*s…%s", TEXT_ARGS(kept), reset);
}

// --- styles ------------------------------------------------------------------

int out_columns(const struct out *out)
{
    return out->columns ? out->columns : 80;
}

const char *out_styled(const struct out *out, enum out_style style, const char *text)
{
    static const char *const codes[] = {
        [OUT_HEADING] = "1", [OUT_NUMBER] = "1",   [OUT_NOTE] = "2",
        [OUT_GOOD] = "32",   [OUT_WARNING] = "33", [OUT_BAD] = "1;31",
    };
    return out->styled && *text ? text_format(out->arena, "\033[%sm%s\033[0m", codes[style], text)
                                : text;
}

void out_heading(struct out *out, const char *title)
{
    out_put(out, "%s\n", out_styled(out, OUT_HEADING, title));
}

// --- lines -------------------------------------------------------------------

static void break_line(struct out *out, int indent)
{
    out_char(out, '\n');
    out_repeat(out, ' ', indent);
}

void out_wrapped(struct out *out, int indent, int column, const char *text)
{
    const int width = out_columns(out);
    struct text rest = text_of(text), word;
    bool first = true;
    while (text_next(&rest, ' ', &word)) {
        int size = text_columns(word);
        if (!first && column + 1 + size > width) {
            break_line(out, indent);
            column = indent;
        } else if (!first) {
            out_char(out, ' ');
            column++;
        }
        if (column + size > width) { // a word longer than a line: an address
            for (size_t piece; (piece = text_fit(word, width - column)) && piece < word.size;) {
                out_bytes(out, word.at, piece);
                word = (struct text){ word.at + piece, word.size - piece };
                break_line(out, indent);
                column = indent;
            }
            size = text_columns(word);
        }
        out_bytes(out, word.at, word.size);
        column += size;
        first = false;
    }
    out_char(out, '\n');
}
