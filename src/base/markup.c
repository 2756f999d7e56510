#include "base/markup.h"

#include <string.h>

// --- reading characters ------------------------------------------------------

// One character of UTF-8; what is none is U+FFFD and one byte long.
static uint32_t next(const char **at, const char *end)
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

// Controls, and what is not seen but changes how the rest is seen.
static bool is_hidden(uint32_t c)
{
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0xAD || c == 0x61C || c == 0x180E ||
           (c >= 0x200B && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) ||
           (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF || (c >= 0xFFF9 && c <= 0xFFFB) ||
           (c & 0xFFFE) == 0xFFFE || (c >= 0xFDD0 && c <= 0xFDEF) || (c >= 0xE0000 && c <= 0xE0FFF);
}

static bool is_space(uint32_t c)
{
    return c == '\n' || c == '\t' || c == '\r';
}

// --- writing them ------------------------------------------------------------

static void put_code(struct out *out, uint32_t code)
{
    char bytes[4];
    out_bytes(out, bytes, text_put_utf8(bytes, code));
}

static void put_html(struct out *out, uint32_t c)
{
    switch (c) {
    case '<': out_put(out, "&lt;"); break;
    case '>': out_put(out, "&gt;"); break;
    case '&': out_put(out, "&amp;"); break;
    case '"': out_put(out, "&quot;"); break;
    case '\'': out_put(out, "&#39;"); break;
    default: put_code(out, c);
    }
}

// HTML's characters as entities, Markdown's own behind a backslash.
static void put_markdown(struct out *out, uint32_t c)
{
    if (c < 0x80 && strchr("<>&", (int)c))
        return put_html(out, c);
    if (c < 0x80 && strchr("\\`*_{}[]()#+!|~@", (int)c))
        out_char(out, '\\');
    put_code(out, c);
}

static void put_one(struct out *out, enum markup_form form, uint32_t c)
{
    if (is_space(c))
        c = ' ';
    if (is_hidden(c)) {
        out_put(out, "⟨%04X⟩", (unsigned)c);
        return;
    }
    switch (form) {
    case MARKUP_HTML: put_html(out, c); break;
    case MARKUP_MARKDOWN: put_markdown(out, c); break;
    case MARKUP_CSV:
        if (c == '"')
            out_char(out, '"');
        put_code(out, c);
        break;
    default: put_code(out, c);
    }
}

void markup_put(struct out *out, enum markup_form form, struct text text, size_t most)
{
    const char *at = text.at, *end = text.at + text.size;
    if (!text.size)
        return;
    bool quoted = form == MARKUP_CSV;
    if (quoted)
        out_char(out, '"');
    if (quoted && strchr("=+-@\t\r", *at)) // what a spreadsheet would compute
        out_char(out, '\'');
    for (size_t i = 0; at < end; i++) {
        if (i + 1 >= most) { // one more fits only if it is the last
            const char *last = at;
            uint32_t c = next(&last, end);
            if (last < end)
                out_put(out, "…");
            else
                put_one(out, form, c);
            break;
        }
        uint32_t c = next(&at, end);
        if (form == MARKUP_MARKDOWN && c == ':' && at < end && *at == '/') // no link by itself
            out_char(out, '\\');
        put_one(out, form, c);
    }
    if (quoted)
        out_char(out, '"');
}

const char *markup_plain(struct arena *arena, struct text text, size_t most)
{
    struct out out = { .arena = arena };
    markup_put(&out, MARKUP_PLAIN, text, most);
    return out_string(&out);
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

int markup_columns(struct text plain)
{
    int columns = 0;
    for (const char *at = plain.at, *end = plain.at + plain.size; plain.size && at < end;) {
        uint32_t c = next(&at, end);
        columns += is_combining(c) ? 0 : is_wide(c) ? 2 : 1;
    }
    return columns;
}
