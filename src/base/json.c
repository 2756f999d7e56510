// SPDX-License-Identifier: Apache-2.0
// Reads JSON as a stream or a tree, and writes it.

#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *json_kind_name(enum json_kind kind)
{
    static const char *const names[] = {
        "nothing", "null", "a truth value", "a number", "a string", "a list", "an object",
    };
    return names[kind];
}

// --- stream ------------------------------------------------------------------

struct json_reader json_reader(struct text in)
{
    return (struct json_reader){ .start = in.at, .at = in.at, .end = in.at + in.size };
}

static void stop(struct json_reader *in, const char *problem)
{
    if (!in->problem)
        in->problem = problem;
}

static void skip_space(struct json_reader *in)
{
    while (in->at < in->end &&
           (*in->at == ' ' || *in->at == '\n' || *in->at == '\t' || *in->at == '\r'))
        in->at++;
}

enum json_kind json_peek(struct json_reader *in)
{
    skip_space(in);
    if (in->problem || in->at == in->end)
        return JSON_NONE;
    switch (*in->at) {
    case '{': return JSON_OBJECT;
    case '[': return JSON_ARRAY;
    case '"': return JSON_STRING;
    case 't':
    case 'f': return JSON_BOOL;
    case 'n': return JSON_NULL;
    case '-':
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9': return JSON_NUMBER;
    default: return JSON_NONE;
    }
}

static void enter(struct json_reader *in, char bracket, const char *problem)
{
    skip_space(in);
    if (in->problem || in->at == in->end || *in->at != bracket) {
        stop(in, problem);
        return;
    }
    if (++in->depth > JSON_DEPTH)
        stop(in, "is nested too deeply");
    in->at++;
    in->first = true;
}

void json_array(struct json_reader *in)
{
    enter(in, '[', "expected a list");
}

void json_object(struct json_reader *in)
{
    enter(in, '{', "expected an object");
}

// Moves to the next member of a list or object, or leaves it.
static bool another(struct json_reader *in, char bracket)
{
    skip_space(in);
    if (in->problem)
        return false;
    if (in->at == in->end) {
        stop(in, "ends too early");
        return false;
    }
    if (*in->at == bracket) {
        in->at++;
        in->depth--;
        in->first = false;
        return false;
    }
    if (!in->first) {
        if (*in->at != ',') {
            stop(in, "expected a comma or a closing bracket");
            return false;
        }
        in->at++;
        skip_space(in);
        if (in->at < in->end && *in->at == bracket) {
            stop(in, "has a comma before a closing bracket");
            return false;
        }
    }
    in->first = false;
    return true;
}

bool json_item(struct json_reader *in)
{
    return another(in, ']');
}

bool json_key(struct json_reader *in, struct arena *arena, struct text *key)
{
    if (!another(in, '}'))
        return false;
    if (json_peek(in) != JSON_STRING) {
        stop(in, "expected a quoted key");
        return false;
    }
    *key = json_string(in, arena);
    skip_space(in);
    if (in->problem || in->at == in->end || *in->at != ':') {
        stop(in, "expected a colon after the key");
        return false;
    }
    in->at++;
    return true;
}

// Eight bytes at once: the high bit of each byte that equals c, exact up to the first such byte.
static uint64_t bytes_equal(uint64_t word, unsigned char c)
{
    const uint64_t ones = 0x0101010101010101u;
    uint64_t differs = word ^ (ones * c);
    return (differs - ones) & ~differs & (ones << 7);
}

// Here and where numbers are copied from files: Arrow, Parquet, NumPy, safetensors, work units.
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the processor must be little-endian");

// The number of bytes before the first hit.
static size_t bytes_before(uint64_t hits)
{
    const uint64_t ones = 0x0101010101010101u;
    uint64_t below = ((hits & -hits) >> 7) - 1;
    return (below & ones) * ones >> 56;
}

const char *json_string_stop(const char *at, const char *end)
{
    for (uint64_t word; end - at >= 8; at += 8) {
        memcpy(&word, at, 8);
        uint64_t hits = bytes_equal(word, '"') | bytes_equal(word, '\\');
        if (hits)
            return at + bytes_before(hits);
    }
    while (at < end && *at != '"' && *at != '\\')
        at++;
    return at;
}

enum {
    BLOCK = 64, // bytes that are compared together: one for each bit of a uint64_t
    SHORT = 16, // bytes of a string that are searched before blocks are: most keys end within them
};

static bool has_stop(const char *at)
{
    uint8_t most = 0;
    for (int i = 0; i < BLOCK; i++) { // compilers vectorize this
        uint8_t stops = ((at[i] == '"') | (at[i] == '\\')) ? 0xFF : 0;
        most = stops > most ? stops : most;
    }
    return most;
}

// Which bytes of a block equal c.
static inline uint64_t bits_equal(const char *at, char c)
{
#define EIGHT 1, 2, 4, 8, 16, 32, 64, 128
    static const uint8_t places[BLOCK] = { EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT };
#undef EIGHT
    uint8_t found[BLOCK];
    uint64_t bits = 0, word;
    for (int i = 0; i < BLOCK; i++) // and this
        found[i] = at[i] == c ? places[i] : 0;
    for (int i = 0; i < BLOCK; i += 8) {
        memcpy(&word, found + i, 8);
        bits |= word * 0x0101010101010101u >> 56 << i; // the sum of eight bytes
    }
    return bits;
}

// Which backslashes of a block begin an escape: in a run of them every second. `is_escaped` says
// whether the first byte follows one that does, and becomes that of the next block. A sum carries
// through runs; those that begin at odd places are told apart by their first bit (as in simdjson).
static inline uint64_t escapes_among(uint64_t slashes, uint64_t *is_escaped)
{
    const uint64_t odd = 0xAAAAAAAAAAAAAAAAu;
    uint64_t begun = slashes & ~*is_escaped;
    uint64_t escapes = ((((begun << 1) | odd) - begun) ^ odd) & slashes;
    *is_escaped = escapes >> (BLOCK - 1);
    return escapes;
}

// The closing quote of a string that goes on at `at`, or end. Keys are short: a few words first.
static const char *closing_quote(const char *at, const char *end, bool *escaped)
{
    uint64_t is_escaped = 0, word;
    for (const char *key = at; end - key >= 8 && key - at < SHORT; key += 8) {
        memcpy(&word, key, 8);
        uint64_t stops = bytes_equal(word, '"') | bytes_equal(word, '\\');
        if (stops && key[bytes_before(stops)] == '"')
            return key + bytes_before(stops);
        if (stops)
            break;
    }
    for (; end - at >= BLOCK; at += BLOCK) {
        if (!is_escaped && !has_stop(at))
            continue;
        uint64_t quotes = bits_equal(at, '"'), slashes = bits_equal(at, '\\');
        uint64_t first = is_escaped;
        quotes &= ~(escapes_among(slashes, &is_escaped) << 1 | first);
        uint64_t before = quotes ? (quotes & -quotes) - 1 : UINT64_MAX;
        *escaped = *escaped || slashes & before;
        if (quotes)
            return at + __builtin_ctzll(quotes);
    }
    at += is_escaped && at < end;
    while ((at = json_string_stop(at, end)) < end && *at == '\\') {
        *escaped = true;
        at = end - at > 2 ? at + 2 : end;
    }
    return at;
}

struct text json_raw_string(struct json_reader *in, bool *escaped)
{
    *escaped = false;
    skip_space(in);
    if (in->problem || in->at == in->end || *in->at != '"') {
        stop(in, "expected a string");
        return (struct text){ "", 0 };
    }
    const char *start = in->at + 1, *at = closing_quote(start, in->end, escaped);
    if (at == in->end) {
        stop(in, "has an unclosed string");
        in->at = in->end;
        return (struct text){ "", 0 };
    }
    in->at = at + 1;
    return (struct text){ start, (size_t)(at - start) };
}

static int hex(const char *at)
{
    int value = 0;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

// Copies the bytes before the next backslash; returns their number. Needs room for end - at bytes.
static size_t copy_plain(char *to, const char *at, const char *end)
{
    const char *start = at;
    for (uint64_t word; end - at >= 8; at += 8, to += 8) {
        memcpy(&word, at, 8);
        memcpy(to, &word, 8);
        uint64_t hits = bytes_equal(word, '\\');
        if (hits)
            return (size_t)(at - start) + bytes_before(hits);
    }
    while (at < end && *at != '\\')
        *to++ = *at++;
    return (size_t)(at - start);
}

// Writes what an escape stands for; returns the end of the escape, or NULL if it is none.
static const char *take_escape(char **to, const char *at, const char *end)
{
    static const char simple[256] = { ['n'] = '\n', ['t'] = '\t', ['r'] = '\r',  ['b'] = '\b',
                                      ['f'] = '\f', ['"'] = '"',  ['\\'] = '\\', ['/'] = '/' };
    if (end - at < 2)
        return NULL;
    unsigned char kind = (unsigned char)at[1];
    at += 2;
    if (simple[kind]) {
        *(*to)++ = simple[kind];
        return at;
    }
    int code = kind == 'u' && end - at >= 4 ? hex(at) : -1;
    if (code < 0)
        return NULL;
    at += 4;
    if (code >= 0xD800 && code < 0xDC00 && end - at >= 6 && at[0] == '\\' && at[1] == 'u') {
        int low = hex(at + 2);
        if (low >= 0xDC00 && low < 0xE000) {
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
            at += 6;
        }
    }
    if (code >= 0xD800 && code < 0xE000)
        code = 0xFFFD;
    *to += text_put_utf8(*to, (uint32_t)code);
    return at;
}

// Decodes at least one block; returns where it stopped, or NULL. Whole blocks are copied, because
// that is quicker than to see how much is plain: two blocks must be left.
static const char *unescape_block(char **to, const char *at, const char *end)
{
    const char *next = at + BLOCK, *block = at;
    uint64_t escapes = escapes_among(bits_equal(at, '\\'), &(uint64_t){ 0 });
    while (escapes) {
        const char *escape = block + __builtin_ctzll(escapes);
        memcpy(*to, at, BLOCK);
        *to += escape - at;
        at = take_escape(to, escape, end);
        if (!at)
            return NULL;
        escapes = at < next ? escapes & ~(uint64_t)0 << (at - block) : 0;
    }
    if (at < next) {
        memcpy(*to, at, BLOCK);
        *to += next - at;
        at = next;
    }
    return at;
}

// Returns the size, or SIZE_MAX for an invalid escape.
static size_t unescape(char *out, struct text raw)
{
    const char *at = raw.at, *end = raw.at + raw.size;
    char *to = out;
    while (at && end - at >= 2 * BLOCK)
        at = unescape_block(&to, at, end);
    while (at) {
        size_t plain = copy_plain(to, at, end);
        to += plain;
        at += plain;
        if (at == end)
            return (size_t)(to - out);
        at = take_escape(&to, at, end);
    }
    return SIZE_MAX;
}

struct text json_string(struct json_reader *in, struct arena *arena)
{
    bool escaped;
    struct text raw = json_raw_string(in, &escaped);
    if (!escaped)
        return raw;
    char *out = arena_alloc(arena, raw.size);
    size_t size = unescape(out, raw);
    if (size == SIZE_MAX) {
        stop(in, "has an invalid escape");
        size = 0;
    }
    return (struct text){ out, size };
}

static bool is_digit(const struct json_reader *in)
{
    return in->at < in->end && *in->at >= '0' && *in->at <= '9';
}

static bool skip_digits(struct json_reader *in)
{
    if (!is_digit(in))
        return false;
    while (is_digit(in))
        in->at++;
    return true;
}

static struct text number_text(struct json_reader *in)
{
    skip_space(in);
    const char *start = in->at;
    if (in->at < in->end && *in->at == '-')
        in->at++;
    bool zero = in->at < in->end && *in->at == '0';
    const char *digits = in->at;
    bool good = skip_digits(in) && !(zero && in->at - digits > 1); // 01 is not a number
    if (good && in->at < in->end && *in->at == '.') {
        in->at++;
        good = skip_digits(in);
    }
    if (good && in->at < in->end && (*in->at == 'e' || *in->at == 'E')) {
        in->at++;
        if (in->at < in->end && (*in->at == '+' || *in->at == '-'))
            in->at++;
        good = skip_digits(in);
    }
    if (!good)
        stop(in, "expected a number");
    return (struct text){ start, (size_t)(in->at - start) };
}

double json_number(struct json_reader *in)
{
    if (in->problem)
        return NAN;
    struct text text = number_text(in);
    if (in->problem)
        return NAN;
    // Ids and counts, the common case: up to 15 digits are exact in a double.
    if (text.size <= 15) {
        int64_t whole = 0;
        size_t i = text.at[0] == '-';
        for (; i < text.size && text.at[i] >= '0' && text.at[i] <= '9'; i++)
            whole = whole * 10 + (text.at[i] - '0');
        if (i == text.size)
            return (double)(text.at[0] == '-' ? -whole : whole);
    }
    char digits[400];
    if (text.size >= sizeof digits) {
        stop(in, "has a number with too many digits");
        return NAN;
    }
    memcpy(digits, text.at, text.size);
    digits[text.size] = 0;
    double value = strtod(digits, NULL);
    if (!isfinite(value)) {
        stop(in, "has a number beyond 1e308");
        return NAN;
    }
    return value;
}

static bool take_word(struct json_reader *in, const char *word)
{
    size_t size = strlen(word);
    if ((size_t)(in->end - in->at) < size || memcmp(in->at, word, size))
        return false;
    in->at += size;
    return true;
}

bool json_bool(struct json_reader *in)
{
    skip_space(in);
    if (!in->problem && take_word(in, "true"))
        return true;
    if (in->problem || !take_word(in, "false"))
        stop(in, "expected true or false");
    return false;
}

// Why no value begins here. Python writes numbers that JSON does not have.
static const char *no_value(const struct json_reader *in)
{
    static const char *const words[] = { "NaN", "Infinity" };
    size_t left = (size_t)(in->end - in->at);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (left >= strlen(words[i]) && !memcmp(in->at, words[i], strlen(words[i])))
            return "has NaN or Infinity, which JSON does not know; write null";
    return left ? "expected a JSON value" : "ends too early";
}

struct text json_skip(struct json_reader *in)
{
    skip_space(in);
    const char *start = in->at;
    bool escaped;
    switch (json_peek(in)) {
    case JSON_STRING: json_raw_string(in, &escaped); break;
    case JSON_NUMBER: number_text(in); break;
    case JSON_BOOL: json_bool(in); break;
    case JSON_NULL:
        if (!take_word(in, "null"))
            stop(in, "has an invalid word");
        break;
    case JSON_ARRAY:
        for (json_array(in); json_item(in);)
            json_skip(in);
        break;
    case JSON_OBJECT:
        for (json_object(in); another(in, '}');) {
            json_raw_string(in, &escaped);
            skip_space(in);
            if (in->problem || in->at == in->end || *in->at != ':')
                stop(in, "expected a colon after the key");
            else
                in->at++;
            json_skip(in);
        }
        break;
    case JSON_NONE: stop(in, no_value(in)); break;
    }
    return (struct text){ start, (size_t)(in->at - start) };
}

enum err json_failed(struct json_reader *in, const char *problem)
{
    stop(in, problem);
    return ERR_INPUT;
}

enum err json_end(struct json_reader *in, const char *name)
{
    skip_space(in);
    if (!in->problem && in->at < in->end)
        stop(in, "has text after its end");
    if (!in->problem)
        return OK;
    int line = 1;
    const char *start = in->start;
    for (const char *c = in->start; c < in->at; c++)
        if (*c == '\n')
            line++, start = c + 1;
    return fail(ERR_INPUT, "%s:%d: column %td: %s", name, line, in->at - start + 1, in->problem);
}

// --- tree --------------------------------------------------------------------

struct json json_tree(struct json_reader *in, struct arena *arena)
{
    struct json value = { .kind = json_peek(in) };
    size_t room = 0;
    switch (value.kind) {
    case JSON_NULL:
    case JSON_NONE: json_skip(in); break;
    case JSON_BOOL: value.flag = json_bool(in); break;
    case JSON_NUMBER: value.number = json_number(in); break;
    case JSON_STRING: value.string = json_string(in, arena); break;
    case JSON_ARRAY:
    case JSON_OBJECT: {
        bool keyed = value.kind == JSON_OBJECT;
        struct text key = { 0 };
        (keyed ? json_object : json_array)(in);
        size_t size = 0;
        while (keyed ? json_key(in, arena, &key) : json_item(in)) {
            value.items = arena_room(arena, value.items, sizeof *value.items, size + keyed, &room);
            if (keyed)
                value.items[size++] = (struct json){ .kind = JSON_STRING, .string = key };
            struct json item = json_tree(in, arena);
            value.items[size++] = item;
        }
        value.count = keyed ? size / 2 : size;
        break;
    }
    }
    return value;
}

enum err json_read(struct json *out, struct arena *arena, struct text in, const char *name)
{
    struct json_reader reader = json_reader(text_after_mark(in));
    if (!text_trim(text_after_mark(in)).size)
        return fail(ERR_INPUT, "%s: is empty", name);
    *out = json_tree(&reader, arena);
    return json_end(&reader, name);
}

enum err json_read_document(struct json *out, struct arena *arena, struct text in, const char *name,
                            const char *kind)
{
    name = strcmp(name, "-") ? name : "standard input";
    struct json_reader reader = json_reader(text_after_mark(in));
    if (!text_trim(text_after_mark(in)).size)
        return fail(ERR_INPUT, "%s: is empty", name);
    *out = json_tree(&reader, arena);
    if (!reader.problem && (out->kind != JSON_OBJECT || !text_is(json_get_text(out, "kind"), kind)))
        return fail(ERR_INPUT, "%s: is not a %s; gpuhours %s --json writes one", name, kind, kind);
    TRY(json_end(&reader, name));
    double version = json_get_number(out, "version", 1);
    if (version != 1)
        return fail(ERR_INPUT, "%s: is a %s of version %g; this program reads version 1", name,
                    kind, version);
    return OK;
}

const struct json *json_get(const struct json *object, const char *key)
{
    if (!object || object->kind != JSON_OBJECT)
        return NULL;
    for (size_t i = object->count; i-- > 0;) // of duplicate keys, the last one counts
        if (text_is(object->items[2 * i].string, key)) {
            const struct json *value = &object->items[2 * i + 1];
            return value->kind == JSON_NULL ? NULL : value;
        }
    return NULL;
}

double json_get_number(const struct json *object, const char *key, double otherwise)
{
    const struct json *value = json_get(object, key);
    return value && value->kind == JSON_NUMBER ? value->number : otherwise;
}

bool json_get_bool(const struct json *object, const char *key, bool otherwise)
{
    const struct json *value = json_get(object, key);
    return value && value->kind == JSON_BOOL ? value->flag : otherwise;
}

struct text json_get_text(const struct json *object, const char *key)
{
    const struct json *value = json_get(object, key);
    return value && value->kind == JSON_STRING ? value->string : (struct text){ 0 };
}

const char *json_copy_text(struct arena *arena, const struct json *object, const char *key)
{
    struct text text = json_get_text(object, key);
    return text.at ? text_copy(arena, text) : NULL;
}

int64_t json_get_count(const struct json *object, const char *key)
{
    double number = json_get_number(object, key, 0);
    return number >= 0 && number <= 9e15 ? (int64_t)number : 0;
}

// --- writing -----------------------------------------------------------------

void json_quote(struct out *out, struct text value)
{
    out_char(out, '"');
    size_t plain = 0;
    for (size_t i = 0; i < value.size; i++) {
        unsigned char c = (unsigned char)value.at[i];
        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7F)
            continue;
        out_bytes(out, value.at + plain, i - plain);
        plain = i + 1;
        if (c == '"' || c == '\\')
            out_put(out, "\\%c", c);
        else if (c == '\n')
            out_put(out, "\\n");
        else if (c == '\t')
            out_put(out, "\\t");
        else if (c == '\r')
            out_put(out, "\\r");
        else
            out_put(out, "\\u%04x", c);
    }
    out_bytes(out, value.at + plain, value.size - plain);
    out_char(out, '"');
}

static void before(struct json_writer *w, const char *key)
{
    if (w->filled)
        out_char(w->out, ',');
    if (w->depth && !w->compact) {
        out_char(w->out, '\n');
        out_repeat(w->out, ' ', 2 * w->depth);
    }
    w->filled = true;
    if (key) {
        json_quote(w->out, text_of(key));
        out_put(w->out, w->compact ? ":" : ": ");
    }
}

void json_open(struct json_writer *w, const char *key, char bracket)
{
    before(w, key);
    out_char(w->out, bracket);
    w->depth++;
    w->filled = false;
}

void json_close(struct json_writer *w, char bracket)
{
    w->depth--;
    if (w->filled && !w->compact) {
        out_char(w->out, '\n');
        out_repeat(w->out, ' ', 2 * w->depth);
    }
    out_char(w->out, bracket);
    w->filled = true;
}

void json_put_text(struct json_writer *w, const char *key, struct text value)
{
    before(w, key);
    json_quote(w->out, value);
}

void json_put_string(struct json_writer *w, const char *key, const char *value)
{
    if (value) {
        json_put_text(w, key, text_of(value));
        return;
    }
    before(w, key);
    out_put(w->out, "null");
}

void json_put_number(struct json_writer *w, const char *key, double value)
{
    before(w, key);
    if (!isfinite(value)) {
        out_put(w->out, "null");
        return;
    }
    char digits[40];
    for (int precision = 15; precision <= 17;
         precision++) { // the shortest form that reads back equal
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    out_put(w->out, "%s", digits);
}

void json_put_count(struct json_writer *w, const char *key, int64_t value)
{
    before(w, key);
    out_put(w->out, "%lld", (long long)value);
}

void json_put_bool(struct json_writer *w, const char *key, bool value)
{
    before(w, key);
    out_put(w->out, value ? "true" : "false");
}

void json_put_raw(struct json_writer *w, const char *key, struct text value)
{
    before(w, key);
    out_bytes(w->out, value.at, value.size);
}

// --- ranges ------------------------------------------------------------------

void json_put_range(struct json_writer *w, const char *key, const struct range *range)
{
    json_open(w, key, '{');
    json_put_number(w, "p10", range->low);
    json_put_number(w, "p50", range->mid);
    json_put_number(w, "p90", range->high);
    json_close(w, '}');
}

struct range json_get_range(const struct json *tree, const char *key)
{
    const struct json *in = tree ? json_get(tree, key) : NULL;
    return in ? (struct range){ json_get_number(in, "p10", NAN), json_get_number(in, "p50", NAN),
                                json_get_number(in, "p90", NAN) }
              : (struct range){ NAN, NAN, NAN };
}
