// SPDX-License-Identifier: Apache-2.0
// Quotes words for bash and texts for YAML, so that what they contain stays text.

#include "core/launch/launch.h"

#include <string.h>

// A character that YAML may hold unescaped, and that an editor shows: no control character, no line
// break of Unicode, no byte order mark.
static bool is_shown(uint32_t code)
{
    return code >= 0x20 && code != 0x7f && !(code >= 0x80 && code < 0xa0) && code != 0x2028 &&
           code != 0x2029 && code != 0xfeff && !(code >= 0xd800 && code < 0xe000) &&
           (code < 0xfffe || code >= 0x10000);
}

// The next character, or 0xfffd and one byte where there is none in UTF-8.
static uint32_t next(const char **at, const char *end, bool *valid)
{
    const char *from = *at;
    uint32_t code = text_next_code(at, end);
    char again[4];
    size_t size = text_put_utf8(again, code);
    *valid = size == (size_t)(*at - from) && !memcmp(again, from, size);
    if (!*valid)
        *at = from + 1;
    return code;
}

static bool is_among(char c, const char *set)
{
    return c && strchr(set, c);
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

// --- bash --------------------------------------------------------------------

static void put_escaped(struct out *out, const char *word, const char *end)
{
    out_put(out, "$'");
    for (const char *at = word; at < end;) {
        const char *from = at;
        bool valid;
        uint32_t code = next(&at, end, &valid);
        if (*from == '\n')
            out_put(out, "\\n");
        else if (*from == '\t')
            out_put(out, "\\t");
        else if (*from == '\'' || *from == '\\')
            out_put(out, "\\%c", *from);
        else if (valid && is_shown(code))
            out_bytes(out, from, (size_t)(at - from));
        else // three octal digits end by themselves, whatever follows
            for (; from < at; from++)
                out_put(out, "\\%03o", (unsigned char)*from);
    }
    out_char(out, '\'');
}

void launch_shell_word(struct out *out, const char *word)
{
    const char *end = word + strlen(word);
    bool bare = *word && *word != '=', shown = true, quote = false;
    for (const char *at = word; at < end;) {
        bool valid;
        char c = *at;
        uint32_t code = next(&at, end, &valid);
        bare = bare && (is_letter(c) || is_digit(c) || is_among(c, "_./:=,@%+-"));
        shown = shown && valid && is_shown(code);
        quote = quote || c == '\'';
    }
    if (bare)
        out_put(out, "%s", word);
    else if (shown && !quote)
        out_put(out, "'%s'", word);
    else
        put_escaped(out, word, end);
}

// --- YAML --------------------------------------------------------------------

// Words that are no text in YAML 1.1.
static bool is_reserved(struct text text)
{
    static const char *const words[] = {
        "y", "n", "yes", "no", "true", "on", "off", "null", "false"
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t k = 0;
        while (k < text.size && words[i][k] && (text.at[k] | 32) == words[i][k])
            k++;
        if (k == text.size && !words[i][k])
            return true;
    }
    return false;
}

static bool is_plain(struct text text)
{
    bool path = text.size > 1 && text.at[0] == '.' && text.at[1] == '/';
    if (!text.size || (!is_letter(text.at[0]) && text.at[0] != '/' && !path) ||
        text.at[text.size - 1] == ':' || is_reserved(text))
        return false;
    for (size_t i = 0; i < text.size; i++)
        if (!is_letter(text.at[i]) && !is_digit(text.at[i]) && !is_among(text.at[i], "_./:@+-"))
            return false;
    return true;
}

void launch_yaml_text(struct out *out, struct text text)
{
    if (is_plain(text)) {
        out_bytes(out, text.at, text.size);
        return;
    }
    const char *at = text.at, *end = text.at + text.size;
    out_char(out, '"');
    while (at < end) {
        const char *from = at;
        bool valid;
        uint32_t code = next(&at, end, &valid);
        if (*from == '"' || *from == '\\')
            out_put(out, "\\%c", *from);
        else if (*from == '\n')
            out_put(out, "\\n");
        else if (*from == '\t')
            out_put(out, "\\t");
        else if (!valid)
            out_put(out, "\\uFFFD");
        else if (is_shown(code))
            out_bytes(out, from, (size_t)(at - from));
        else if (code < 0x10000)
            out_put(out, "\\u%04X", (unsigned)code);
        else
            out_put(out, "\\U%08X", (unsigned)code);
    }
    out_char(out, '"');
}

// A block keeps its lines as they are, if each character may stand there, the first line is not
// indented and the text ends with one line break.
static bool fits_block(struct text text)
{
    const char *at = text.at, *end = text.at + text.size;
    if (text.size < 2 || is_among(*at, " \t\n") || end[-1] != '\n' || end[-2] == '\n')
        return false;
    while (at < end) {
        char c = *at;
        bool valid;
        uint32_t code = next(&at, end, &valid);
        if (c != '\n' && c != '\t' && (!valid || !is_shown(code)))
            return false;
    }
    return true;
}

void launch_yaml_block(struct out *out, int indent, const char *key, struct text text)
{
    struct text line;
    out_repeat(out, ' ', indent);
    out_put(out, "%s ", key);
    if (!fits_block(text)) {
        launch_yaml_text(out, text);
        out_char(out, '\n');
        return;
    }
    out_put(out, "|\n");
    text.size--; // the last line break
    while (text_next(&text, '\n', &line)) {
        out_repeat(out, ' ', line.size ? indent + 2 : 0);
        out_put(out, "%.*s\n", TEXT_ARGS(line));
    }
}

// --- comments ----------------------------------------------------------------

const char *launch_plain(struct arena *arena, const char *text)
{
    struct out out = { .arena = arena };
    for (const char *at = text, *end = text + strlen(text); at < end;) {
        const char *from = at;
        bool valid;
        uint32_t code = next(&at, end, &valid);
        if (valid && is_shown(code))
            out_bytes(&out, from, (size_t)(at - from));
        else
            out_char(&out, ' ');
    }
    return out_string(&out);
}
