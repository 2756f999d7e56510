// SPDX-License-Identifier: Apache-2.0
// Cuts a template's source into tokens and applies its white space control.

#include "core/template/template_internal.h"

#include "core/template/template_text.h"
#include "base/unicode.h"

#include <string.h>

struct lexer {
    struct arena *arena;
    const char *name;
    struct text source;
    size_t at;
    int line;
    struct tokens *tokens;
    size_t room;
    enum err err;
};

static void stop(struct lexer *in, const char *what)
{
    if (!in->err)
        in->err = fail(ERR_INPUT, "%s:%d: %s", in->name, in->line, what);
    in->at = in->source.size;
}

static void add(struct lexer *in, enum token_kind kind, struct text text)
{
    in->tokens->items = arena_room(in->arena, in->tokens->items, sizeof *in->tokens->items,
                                   in->tokens->count, &in->room);
    in->tokens->items[in->tokens->count++] = (struct token){ kind, in->line, text };
}

static bool looking_at(const struct lexer *in, size_t at, const char *word)
{
    size_t size = strlen(word);
    return at + size <= in->source.size && !memcmp(in->source.at + at, word, size);
}

static void move(struct lexer *in, size_t to)
{
    for (; in->at < to; in->at++)
        in->line += in->source.at[in->at] == '\n';
}

static size_t after_space(const struct lexer *in, size_t at)
{
    uint32_t code;
    while (at < in->source.size) {
        size_t size = template_text_step(in->source, at, &code);
        if (!template_text_is_space(code))
            break;
        at += size;
    }
    return at;
}

static char char_at(const struct lexer *in, size_t at)
{
    return at < in->source.size ? in->source.at[at] : 0;
}

// Where the text continues after a closing tag, which starts at `at` with '-', '+' or nothing.
static size_t after_close(const struct lexer *in, size_t at, size_t size, bool trims_newline)
{
    char sign = char_at(in, at);
    if (sign == '-')
        return after_space(in, at + 1 + size);
    if (sign == '+')
        return at + 1 + size;
    at += size;
    return trims_newline && char_at(in, at) == '\n' ? at + 1 : at;
}

// Strips white space before a tag, as its - or + sign and lstrip_blocks require.
static struct text strip_before(const struct lexer *in, struct text data, char sign, bool output)
{
    if (sign == '-')
        return template_text_strip(data, (struct text){ 0 }, false, true);
    if (sign == '+' || output)
        return data;
    size_t start = data.size;
    while (start > 0 && data.at[start - 1] != '\n')
        start--;
    size_t begun = (size_t)(data.at - in->source.at);
    if (start == 0 && begun > 0 && in->source.at[begun - 1] != '\n')
        return data;
    struct text line = { data.at + start, data.size - start };
    if (!template_text_strip(line, (struct text){ 0 }, true, false).size)
        data.size = start;
    return data;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

static int hex_digit(char c)
{
    return is_digit(c)            ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

// Decodes an escape of a Python string; at is after the backslash. Returns the bytes read.
static size_t unescape(struct lexer *in, struct text raw, size_t at, struct out *out)
{
    static const char letters[] = "abfnrtv\\'\"\n", meanings[] = "\a\b\f\n\r\t\v\\'\"";
    char c = raw.at[at];
    const char *known = c ? strchr(letters, c) : NULL;
    if (known) {
        if (c != '\n')
            out_char(out, meanings[known - letters]);
        return 1;
    }
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint32_t code = 0;
    size_t i = 0;
    if (digits) {
        for (i = 1; i <= digits; i++) {
            int digit = at + i < raw.size ? hex_digit(raw.at[at + i]) : -1;
            if (digit < 0) {
                stop(in, "an escape in a string has too few digits");
                return 1;
            }
            code = code << 4 | (uint32_t)digit;
        }
    } else if (c >= '0' && c < '8') {
        for (; i < 3 && at + i < raw.size && raw.at[at + i] >= '0' && raw.at[at + i] < '8'; i++)
            code = code * 8 + (uint32_t)(raw.at[at + i] - '0');
    } else if (c == 'N') {
        stop(in, "the escape \\N{…} is not supported");
        return 1;
    } else {
        out_char(out, '\\');
        return 0;
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
        stop(in, "an escape in a string is not a valid character");
        return i;
    }
    char utf8[4];
    out_bytes(out, utf8, (size_t)unicode_put(utf8, code));
    return i;
}

static void read_string(struct lexer *in)
{
    char quote = in->source.at[in->at];
    size_t end = in->at + 1;
    bool escaped = false;
    while (end < in->source.size && in->source.at[end] != quote) {
        escaped = escaped || in->source.at[end] == '\\';
        end += in->source.at[end] == '\\' ? 2 : 1;
    }
    if (end >= in->source.size) {
        stop(in, "a string is not closed");
        return;
    }
    struct text raw = { in->source.at + in->at + 1, end - in->at - 1 };
    struct out out = { .arena = in->arena };
    for (size_t at = 0; escaped && at < raw.size;) {
        const char *slash = memchr(raw.at + at, '\\', raw.size - at);
        size_t plain = slash ? (size_t)(slash - raw.at) - at : raw.size - at;
        out_bytes(&out, raw.at + at, plain);
        at += plain;
        if (slash)
            at += 1 + unescape(in, raw, at + 1, &out);
    }
    if (in->err)
        return;
    add(in, TOKEN_STRING, escaped ? out_view(&out) : raw);
    move(in, end + 1);
}

static size_t after_digits(const struct lexer *in, size_t at)
{
    while (is_digit(char_at(in, at)) || (char_at(in, at) == '_' && is_digit(char_at(in, at + 1))))
        at++;
    return at;
}

static void read_number(struct lexer *in)
{
    size_t end = after_digits(in, in->at);
    enum token_kind kind = TOKEN_WHOLE;
    char mark = char_at(in, in->at + 1);
    if (char_at(in, in->at) == '0' && mark && strchr("xXoObB", mark)) {
        stop(in, "numbers that are not decimal are not supported");
        return;
    }
    if (char_at(in, end) == '.' && is_digit(char_at(in, end + 1))) {
        kind = TOKEN_REAL;
        end = after_digits(in, end + 1);
    }
    size_t digits = end + 1 + (char_at(in, end + 1) == '+' || char_at(in, end + 1) == '-');
    if ((char_at(in, end) | 32) == 'e' && is_digit(char_at(in, digits))) {
        kind = TOKEN_REAL;
        end = after_digits(in, digits);
    }
    add(in, kind, (struct text){ in->source.at + in->at, end - in->at });
    in->at = end;
}

static bool read_sign(struct lexer *in)
{
    static const char *const signs[] = { "//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                         "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                         ">",  "<",  "=",  ".",  ":",  "|",  ",", ";" };
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (looking_at(in, in->at, signs[i])) {
            add(in, TOKEN_SIGN, (struct text){ in->source.at + in->at, strlen(signs[i]) });
            in->at += strlen(signs[i]);
            return true;
        }
    return false;
}

// The tokens of one tag up to its end; brackets hide an end such as }} within a dict.
static void read_tag(struct lexer *in, const char *close, enum token_kind closing)
{
    int nested = 0;
    for (;;) {
        move(in, after_space(in, in->at));
        if (in->at >= in->source.size) {
            stop(in, "a tag is not closed");
            return;
        }
        char c = in->source.at[in->at];
        size_t sign = c == '-' || (c == '+' && closing == TOKEN_CLOSE_BLOCK);
        if (!nested && looking_at(in, in->at + sign, close)) {
            add(in, closing, (struct text){ 0 });
            move(in, after_close(in, in->at, 2, closing == TOKEN_CLOSE_BLOCK));
            return;
        }
        if (is_digit(c)) {
            read_number(in);
        } else if (c == '"' || c == '\'') {
            read_string(in);
        } else if (is_letter(c)) {
            size_t end = in->at;
            while (is_letter(char_at(in, end)) || is_digit(char_at(in, end)))
                end++;
            add(in, TOKEN_NAME, (struct text){ in->source.at + in->at, end - in->at });
            in->at = end;
        } else if (read_sign(in)) {
            nested += c == '(' || c == '[' || c == '{';
            nested -= c == ')' || c == ']' || c == '}';
            if (nested < 0)
                stop(in, "a closing bracket has no opening one");
        } else {
            stop(in, "unexpected character");
        }
        if (in->err)
            return;
    }
}

// After "{%", a sign and white space: is this a raw block, and where does its text start?
static bool opens_raw(const struct lexer *in, size_t at, size_t *text)
{
    at = after_space(in, at);
    if (!looking_at(in, at, "raw"))
        return false;
    at = after_space(in, at + 3);
    if (looking_at(in, at, "-%}"))
        *text = after_space(in, at + 3);
    else if (looking_at(in, at, "%}"))
        *text = at + 2;
    else
        return false;
    return true;
}

static void read_raw(struct lexer *in, size_t text)
{
    for (size_t at = text; at < in->source.size; at++) {
        if (!looking_at(in, at, "{%"))
            continue;
        char sign = char_at(in, at + 2);
        bool signed_ = sign == '-' || sign == '+';
        size_t word = after_space(in, at + 2 + signed_);
        if (!looking_at(in, word, "endraw"))
            continue;
        size_t close = after_space(in, word + 6);
        char closing = char_at(in, close);
        if (!looking_at(in, close + (closing == '-' || closing == '+'), "%}"))
            continue;
        struct text data = { in->source.at + text, at - text };
        data = strip_before(in, data, signed_ ? sign : 0, false);
        if (data.size)
            add(in, TOKEN_DATA, data);
        move(in, after_close(in, close, 2, true));
        return;
    }
    stop(in, "a raw block has no endraw");
}

static void read_comment(struct lexer *in)
{
    size_t end = template_text_find(in->source, TEXT("#}"), in->at);
    if (end == SIZE_MAX) {
        stop(in, "a comment is not closed");
        return;
    }
    char before = end > in->at ? in->source.at[end - 1] : 0;
    bool signed_ = before == '-' || before == '+';
    move(in, after_close(in, end - signed_, 2, true));
}

// The next tag at or after at, or the end of the source.
static size_t next_tag(const struct lexer *in, size_t at)
{
    for (; at < in->source.size; at++) {
        const char *brace = memchr(in->source.at + at, '{', in->source.size - at);
        if (!brace)
            break;
        at = (size_t)(brace - in->source.at);
        char kind = char_at(in, at + 1);
        if (kind == '%' || kind == '{' || kind == '#')
            return at;
    }
    return in->source.size;
}

static void read_text(struct lexer *in)
{
    size_t tag = next_tag(in, in->at), raw;
    struct text data = { in->source.at + in->at, tag - in->at };
    char kind = char_at(in, tag + 1), sign = char_at(in, tag + 2);
    bool ends = tag >= in->source.size;
    bool signed_ = !ends && (sign == '-' || sign == '+');
    if (!ends)
        data = strip_before(in, data, signed_ ? sign : 0, kind == '{');
    if (data.size)
        add(in, TOKEN_DATA, data);
    move(in, ends ? tag : tag + 2 + signed_);
    if (ends)
        return;
    if (kind == '#') {
        read_comment(in);
    } else if (kind == '{') {
        add(in, TOKEN_OPEN_OUTPUT, (struct text){ 0 });
        read_tag(in, "}}", TOKEN_CLOSE_OUTPUT);
    } else if (opens_raw(in, in->at, &raw)) {
        move(in, raw);
        read_raw(in, raw);
    } else {
        add(in, TOKEN_OPEN_BLOCK, (struct text){ 0 });
        read_tag(in, "%}", TOKEN_CLOSE_BLOCK);
    }
}

// Converts line ends to \n and drops one at the end of the source.
static struct text normal_lines(struct arena *arena, struct text source)
{
    char *out = arena_alloc(arena, source.size + 1);
    size_t size = 0;
    for (size_t i = 0; i < source.size; i++) {
        bool pair = source.at[i] == '\r' && i + 1 < source.size && source.at[i + 1] == '\n';
        out[size++] = source.at[i] == '\r' ? '\n' : source.at[i];
        i += pair;
    }
    if (size && out[size - 1] == '\n')
        size--;
    return (struct text){ out, size };
}

enum err template_lex(struct tokens *out, struct arena *arena, struct text source, const char *name)
{
    *out = (struct tokens){ 0 };
    struct lexer in = { .arena = arena, .name = name, .line = 1, .tokens = out };
    in.source = normal_lines(arena, source);
    while (!in.err && in.at < in.source.size)
        read_text(&in);
    add(&in, TOKEN_END, (struct text){ 0 });
    return in.err;
}
