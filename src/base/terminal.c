// SPDX-License-Identifier: Apache-2.0
// Folds long lines and spells characters in ASCII, without moving what is already laid out.

#include "base/terminal.h"

#include "base/markup.h"
#include "base/unicode.h"

#include <string.h>

// --- folding -----------------------------------------------------------------

static size_t skip(struct text line, size_t at, bool blanks)
{
    while (at < line.size && (line.at[at] == ' ') == blanks)
        at++;
    return at;
}

// The column where a line goes on: below the text after its label, or its indentation and two.
static int hanging_indent(struct text line, int columns)
{
    size_t start = skip(line, 0, true);
    for (size_t at = start; at < line.size;) {
        size_t end = skip(line, at, false), next = skip(line, end, true);
        int column = text_columns((struct text){ line.at, next });
        if (column > columns / 2)
            break;
        if (next - end >= 2 && next < line.size)
            return column;
        at = next;
    }
    return start ? (int)start + 2 : 0;
}

static void fold_line(struct out *out, struct text line, int columns)
{
    int indent = hanging_indent(line, columns), column = 0;
    int left = (int)skip(line, 0, true) + 2; // for a word that is too long to start at the indent
    for (size_t at = 0; at < line.size;) {
        size_t start = skip(line, at, true), end = skip(line, start, false);
        struct text word = { line.at + start, end - start };
        int gap = (int)(start - at), width = text_columns(word);
        int next = indent + width > columns && left < indent ? left : indent;
        if (column + gap > next && column + gap + width > columns) {
            out_char(out, '\n');
            column = 0;
            gap = next;
        }
        out_repeat(out, ' ', gap);
        out_bytes(out, word.at, word.size);
        column += gap + width;
        at = end;
    }
}

void terminal_fold(struct out *out, struct text text, int columns)
{
    struct text line;
    for (bool first = true; text_next(&text, '\n', &line); first = false) {
        if (!first)
            out_char(out, '\n');
        if (text_columns(line) <= columns)
            out_bytes(out, line.at, line.size);
        else
            fold_line(out, line, columns);
    }
}

// --- ASCII -------------------------------------------------------------------

struct spelling {
    uint32_t code;
    char alone;      // one column
    const char *two; // with the blank after it; NULL: alone is good enough
};

static const struct spelling spellings[] = {
    { 0xA0, ' ', NULL },    // no-break space
    { 0xB0, 'o', NULL },    // °
    { 0xB1, '~', "+-" },    // ±
    { 0xB2, '2', NULL },    // ²
    { 0xB3, '3', NULL },    // ³
    { 0xB5, 'u', NULL },    // µ
    { 0xB7, '*', NULL },    // ·
    { 0xD7, 'x', NULL },    // ×
    { 0xF7, '/', NULL },    // ÷
    { 0x3A3, 'S', NULL },   // Σ
    { 0x3BB, 'L', NULL },   // λ
    { 0x3BC, 'u', NULL },   // μ
    { 0x3C3, 's', NULL },   // σ
    { 0x2009, ' ', NULL },  // thin space
    { 0x2010, '-', NULL },  // hyphens and dashes
    { 0x2011, '-', NULL },  //
    { 0x2013, '-', NULL },  // –
    { 0x2014, '-', NULL },  // —
    { 0x2018, '\'', NULL }, // quotation marks
    { 0x2019, '\'', NULL }, //
    { 0x201C, '"', NULL },  //
    { 0x201D, '"', NULL },  //
    { 0x2022, '*', NULL },  // •
    { 0x2026, '~', NULL },  // …
    { 0x202F, ' ', NULL },  // narrow no-break space
    { 0x2190, '<', "<-" },  // ←
    { 0x2192, '>', "->" },  // →
    { 0x2212, '-', NULL },  // −
    { 0x221A, 'v', NULL },  // √
    { 0x221E, '@', NULL },  // ∞
    { 0x2248, '~', NULL },  // ≈
    { 0x2260, '#', "!=" },  // ≠
    { 0x2264, '<', "<=" },  // ≤
    { 0x2265, '>', ">=" },  // ≥
    { 0x2500, '-', NULL },  // ─  lines of charts
    { 0x2502, '|', NULL },  // │
    { 0x2503, '|', NULL },  // ┃
    { 0x2508, '.', NULL },  // ┈
    { 0x250A, ':', NULL },  // ┊
    { 0x2514, '+', NULL },  // └
    { 0x2524, '+', NULL },  // ┤
    { 0x2588, '#', NULL },  // █  full and partial blocks of bars
    { 0x2589, '#', NULL },  // ▉
    { 0x258A, '#', NULL },  // ▊
    { 0x258B, '#', NULL },  // ▋
    { 0x258C, '#', NULL },  // ▌
    { 0x258D, '#', NULL },  // ▍
    { 0x258E, '#', NULL },  // ▎
    { 0x258F, '#', NULL },  // ▏
    { 0x2591, '-', NULL },  // ░  shades, each its own letter: a legend tells them apart
    { 0x2592, '+', NULL },  // ▒
    { 0x2593, '=', NULL },  // ▓
    { 0x2596, ',', NULL },  // ▖
    { 0x2599, 'L', NULL },  // ▙
    { 0x259A, 'x', NULL },  // ▚
    { 0x259E, '/', NULL },  // ▞
    { 0x25A0, 'M', NULL },  // ■  marks of points
    { 0x25A1, 'W', NULL },  // □
    { 0x25B2, 'A', NULL },  // ▲
    { 0x25B3, '^', NULL },  // △
    { 0x25C6, 'X', NULL },  // ◆
    { 0x25C7, '%', NULL },  // ◇
    { 0x25CB, 'O', NULL },  // ○
    { 0x25CF, 'o', NULL },  // ●
    { 0x27E8, '<', NULL },  // ⟨
    { 0x27E9, '>', NULL },  // ⟩
};

static const struct spelling *spelling_of(uint32_t code)
{
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++)
        if (spellings[i].code == code)
            return &spellings[i];
    return NULL;
}

void terminal_ascii(struct out *out, struct text text)
{
    for (const char *at = text.at, *end = text.at + text.size; text.size && at < end;) {
        uint32_t code = text_next_code(&at, end);
        const struct spelling *spelling = code < 0x80 ? NULL : spelling_of(code);
        if (code < 0x80) {
            out_char(out, (char)code);
        } else if (!spelling) {
            out_repeat(out, '?', text_code_columns(code));
        } else if (spelling->two && at + 1 < end && at[0] == ' ' && at[1] != ' ') {
            out_put(out, "%s", spelling->two);
            at++;
        } else {
            out_char(out, spelling->alone);
        }
    }
}

// The size of the sequence of a colour or weight at `at`; 0: there is none.
static size_t style_size(const char *at, const char *end)
{
    const char *from = at;
    if (end - at < 3 || at[0] != '\033' || at[1] != '[')
        return 0;
    for (at += 2; at < end && ((*at >= '0' && *at <= '9') || *at == ';'); at++)
        ;
    return at < end && *at == 'm' ? (size_t)(at + 1 - from) : 0;
}

void terminal_disarm(struct out *out, struct text text, bool styled)
{
    const char *at = text.at, *end = text.at + text.size;
    while (at < end) {
        const char *start = at;
        size_t style = styled ? style_size(at, end) : 0;
        uint32_t code = unicode_next(&at, end);
        at = style ? start + style : at;
        size_t size = (size_t)(at - start);
        bool plain = style || code == '\n' || code == '\t' ||
                     (!markup_is_hidden(code) && unicode_valid(start, size));
        out_bytes(out, plain ? start : "?", plain ? size : 1);
    }
}
