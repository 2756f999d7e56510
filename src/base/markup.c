// SPDX-License-Identifier: Apache-2.0
// Escapes text for HTML, Markdown, CSV and terminals, one character at a time.

#include "base/markup.h"

#include <string.h>

bool markup_is_hidden(uint32_t c)
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

// --- escaping ------------------------------------------------------------

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

// HTML's special characters as entities, Markdown's with a backslash.
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
    if (markup_is_hidden(c)) {
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
    if (quoted && strchr("=+-@\t\r", *at)) // a spreadsheet would compute it
        out_char(out, '\'');
    for (size_t i = 0; at < end; i++) {
        if (i + 1 >= most) { // full: one more only if it is the last
            const char *last = at;
            uint32_t c = text_next_code(&last, end);
            if (last < end)
                out_put(out, "…");
            else
                put_one(out, form, c);
            break;
        }
        uint32_t c = text_next_code(&at, end);
        if (form == MARKUP_MARKDOWN && c == ':' && at < end &&
            *at == '/') // prevents automatic links
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
