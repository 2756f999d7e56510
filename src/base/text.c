// SPDX-License-Identifier: Apache-2.0
// Views of strings, string building, spelling and reading numbers; see text_columns.c for widths.

#include "base/text.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int text_precision(size_t size, int most)
{
    return size < (size_t)most ? (int)size : most;
}

struct text text_of(const char *string)
{
    return (struct text){ string ? string : "", string ? strlen(string) : 0 };
}

struct text text_after_mark(struct text text)
{
    if (text.size < 3 || memcmp(text.at, "\xEF\xBB\xBF", 3))
        return text;
    return (struct text){ text.at + 3, text.size - 3 };
}

bool text_is(struct text text, const char *string)
{
    return text_equal(text, text_of(string));
}

bool text_equal(struct text a, struct text b)
{
    return a.size == b.size && (!a.size || !memcmp(a.at, b.at, a.size));
}

bool text_ends(struct text text, const char *ending)
{
    size_t size = strlen(ending);
    return text.size >= size && !memcmp(text.at + text.size - size, ending, size);
}

struct text text_trim(struct text text)
{
    while (text.size && isspace((unsigned char)text.at[0]))
        text.at++, text.size--;
    while (text.size && isspace((unsigned char)text.at[text.size - 1]))
        text.size--;
    return text;
}

const char *text_one_line(struct arena *arena, struct text text)
{
    char *line = arena_copy(arena, text.at, text.size);
    for (char *c = line; c < line + text.size; c++)
        if (isspace((unsigned char)*c))
            *c = ' ';
    return line;
}

const char *text_copy(struct arena *arena, struct text text)
{
    return arena_copy(arena, text.at, text.size);
}

bool text_next(struct text *rest, char separator, struct text *piece)
{
    if (!rest->at)
        return false;
    const char *cut = rest->size ? memchr(rest->at, separator, rest->size) : NULL;
    piece->at = rest->at;
    if (!cut) {
        piece->size = rest->size;
        *rest = (struct text){ 0 };
        return true;
    }
    piece->size = (size_t)(cut - rest->at);
    rest->size -= piece->size + 1;
    rest->at = cut + 1;
    return true;
}

// --- building ----------------------------------------------------------------

static void reserve(struct out *out, size_t more)
{
    if (out->room - out->size > more)
        return;
    size_t room = out->room ? out->room * 2 : 256;
    while (room - out->size <= more)
        room *= 2;
    out->at = arena_grow(out->arena, out->at, out->room, room);
    out->room = room;
}

void out_bytes(struct out *out, const char *at, size_t size)
{
    reserve(out, size);
    if (size)
        memcpy(out->at + out->size, at, size);
    out->size += size;
    out->at[out->size] = 0;
}

void out_char(struct out *out, char c)
{
    out_bytes(out, &c, 1);
}

void out_repeat(struct out *out, char c, int count)
{
    for (int i = 0; i < count; i++)
        out_char(out, c);
}

void out_put_args(struct out *out, const char *format, va_list args)
{
    va_list measured;
    va_copy(measured, args);
    int size = vsnprintf(NULL, 0, format, measured);
    va_end(measured);
    if (size < 0)
        return;
    reserve(out, (size_t)size);
    vsnprintf(out->at + out->size, (size_t)size + 1, format, args);
    out->size += (size_t)size;
}

void out_put(struct out *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    out_put_args(out, format, args);
    va_end(args);
}

const char *out_string(struct out *out)
{
    reserve(out, 0);
    out->at[out->size] = 0;
    return out->at;
}

struct text out_view(const struct out *out)
{
    return (struct text){ out->at ? out->at : "", out->size };
}

// --- spelling ----------------------------------------------------------------

void out_labelled(struct out *out, const char *label, const char *text)
{
    out_put(out, "  %-*s", OUT_LABEL - 2, label);
    out_wrapped(out, OUT_LABEL, OUT_LABEL, text);
}

const char *text_format(struct arena *arena, const char *format, ...)
{
    struct out out = { .arena = arena };
    va_list args;
    va_start(args, format);
    out_put_args(&out, format, args);
    va_end(args);
    return out_string(&out);
}

// Three significant digits, never in exponent form for what people read.
static const char *three_digits_and(struct arena *arena, double value, int more)
{
    double size = fabs(value);
    int decimals = size >= 99.95 || size == 0 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3;
    return text_format(arena, "%.*f", decimals + more, value);
}

static const char *three_digits(struct arena *arena, double value)
{
    return three_digits_and(arena, value, 0);
}

const char *text_commas(struct arena *arena, int64_t count)
{
    char digits[32];
    int size = snprintf(digits, sizeof digits, "%lld", (long long)count);
    struct out out = { .arena = arena };
    for (int i = 0; i < size; i++) {
        out_char(&out, digits[i]);
        int left = size - 1 - i;
        if (left && left % 3 == 0 && digits[i] != '-')
            out_char(&out, ',');
    }
    return out_string(&out);
}

// With commas as far as an integer goes.
static const char *whole(struct arena *arena, double value)
{
    return value < 9e18 ? text_commas(arena, llround(value)) : text_format(arena, "%.3g", value);
}

static const char *bytes_and(struct arena *arena, double bytes, int more_digits)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    int unit = 0;
    if (!isfinite(bytes))
        return "unknown";
    while (fabs(bytes) >= 1023.5 && unit < 6)
        bytes /= 1024, unit++;
    return text_format(arena, "%s %s",
                       unit ? three_digits_and(arena, bytes, more_digits)
                            : text_format(arena, "%.0f", bytes),
                       units[unit]);
}

const char *text_bytes(struct arena *arena, double bytes)
{
    return bytes_and(arena, bytes, 0);
}

const char *text_bytes_apart(struct arena *arena, double bytes, double other)
{
    enum { MOST = 6 };
    int more = 0;
    while (bytes != other && more < MOST &&
           !strcmp(bytes_and(arena, bytes, more), bytes_and(arena, other, more)))
        more++;
    return bytes_and(arena, bytes, more);
}

const char *text_count(struct arena *arena, double count)
{
    static const char *const units[] = { "", " k", " M", " B", " T" };
    if (!isfinite(count))
        return "unknown";
    if (fabs(count) < 9999.5)
        return text_commas(arena, (int64_t)llround(count));
    int unit = 0;
    while (fabs(count) >= 999.5 && unit < 4)
        count /= 1000, unit++;
    return text_format(arena, "%s%s", three_digits(arena, count), units[unit]);
}

const char *text_seconds(struct arena *arena, double seconds)
{
    if (!isfinite(seconds))
        return "unknown";
    if (seconds < 0.9995)
        return text_format(arena, "%s ms", three_digits(arena, seconds * 1e3));
    if (seconds < 99.5)
        return text_format(arena, "%s s", three_digits(arena, seconds));
    if (seconds < 3599.5)
        return text_format(arena, "%.0f min %02.0f s", floor(nearbyint(seconds) / 60),
                           fmod(nearbyint(seconds), 60));
    if (seconds < 48 * 3600)
        return text_format(arena, "%.0f h %02.0f min", floor(nearbyint(seconds / 60) / 60),
                           fmod(nearbyint(seconds / 60), 60));
    return text_format(arena, "%s days", text_hours(arena, seconds / 86400));
}

const char *text_hours(struct arena *arena, double hours)
{
    if (!isfinite(hours))
        return "unknown";
    return hours >= 999.5 ? whole(arena, hours) : three_digits(arena, hours);
}

const char *text_usd(struct arena *arena, double usd)
{
    if (!isfinite(usd))
        return "unknown";
    return usd >= 99.5 ? text_format(arena, "$%s", whole(arena, usd))
                       : text_format(arena, "$%.2f", usd);
}

const char *text_share(struct arena *arena, double share)
{
    return isfinite(share * 100) ? text_format(arena, "%.1f %%", share * 100) : "unknown";
}

// --- reading -----------------------------------------------------------------

enum { LONGEST_WORD = 64 };

// Letters and digits only, lower case: how names are compared.
static size_t plain(char *out, struct text word)
{
    size_t size = 0;
    for (size_t i = 0; i < word.size && size < LONGEST_WORD; i++)
        if (isalnum((unsigned char)word.at[i]))
            out[size++] = (char)tolower((unsigned char)word.at[i]);
    return size;
}

bool text_alike(struct text a, struct text b)
{
    char plain_a[LONGEST_WORD], plain_b[LONGEST_WORD];
    size_t size = plain(plain_a, a);
    return size && size == plain(plain_b, b) && !memcmp(plain_a, plain_b, size);
}

// Splits "80 GiB" into 80 and "GiB". Only plain decimal spellings: strtod alone would also take
// "nan", "inf" and hexadecimal.
static enum err split_number(double *value, struct text *unit, struct text text)
{
    text = text_trim(text);
    char digits[64];
    size_t size = 0;
    while (size < text.size && size < sizeof digits - 1) {
        char c = text.at[size];
        bool exponent = (c == 'e' || c == 'E') && size && size + 1 < text.size &&
                        (isdigit((unsigned char)text.at[size + 1]) ||
                         ((text.at[size + 1] == '+' || text.at[size + 1] == '-') &&
                          size + 2 < text.size && isdigit((unsigned char)text.at[size + 2])));
        bool sign =
            (c == '+' || c == '-') && (!size || digits[size - 1] == 'e' || digits[size - 1] == 'E');
        if (!isdigit((unsigned char)c) && c != '.' && !exponent && !sign)
            break;
        digits[size++] = c;
    }
    digits[size] = 0;
    char *end;
    *value = strtod(digits, &end);
    if (!size || *end || !isfinite(*value))
        return fail(ERR_INPUT, "\"%.*s\" is not a number", TEXT_BRIEF(text));
    *unit = text_trim((struct text){ text.at + size, text.size - size });
    return OK;
}

struct spelling {
    const char *unit;
    double factor;
};

static enum err scaled(double *out, struct text text, const struct spelling *spellings,
                       const char *expected)
{
    double value;
    struct text unit = { 0 };
    TRY(split_number(&value, &unit, text));
    for (const struct spelling *s = spellings; s->unit; s++)
        if (text_is(unit, s->unit)) {
            *out = value * s->factor;
            return isfinite(*out) ? OK : fail(ERR_INPUT, "\"%.*s\" is too large", TEXT_BRIEF(text));
        }
    return fail(ERR_INPUT, "\"%.*s\" has an unknown unit, expected %s", TEXT_BRIEF(text), expected);
}

enum err text_read_number(double *out, struct text text)
{
    static const struct spelling spellings[] = {
        { "", 1 },
        { "k", 1e3 },
        { "K", 1e3 },
        { "thousand", 1e3 },
        { "Ki", 1024.0 },
        { "ki", 1024.0 },
        { "M", 1e6 },
        { "m", 1e6 },
        { "million", 1e6 },
        { "Mi", 1048576.0 },
        { "B", 1e9 },
        { "b", 1e9 },
        { "G", 1e9 },
        { "billion", 1e9 },
        { "T", 1e12 },
        { "trillion", 1e12 },
        { 0 },
    };
    return scaled(out, text, spellings, "a number such as 21.4M, 8B or 1e6");
}

// Writes "10,000,000" without its commas, as text_commas() sets them; 0: it is not so spelled. A
// comma elsewhere may mean a point.
static size_t without_commas(char *out, size_t room, struct text text)
{
    size_t size = 0, group = 0, commas = 0;
    for (size_t i = 0; i < text.size && size < room; i++) {
        bool comma = text.at[i] == ',';
        if (comma ? (commas ? group != 3 : !group || group > 3)
                  : !isdigit((unsigned char)text.at[i]))
            return 0;
        if (!comma)
            out[size++] = text.at[i];
        commas += comma;
        group = comma ? 0 : group + 1;
    }
    return commas && group == 3 && size + commas == text.size ? size : 0;
}

// "$2.49", "USD 2.49", "2.49$" and "2.49 USD" without the currency.
static struct text without_currency(struct text text)
{
    static const char *const words[] = { "US$", "$", "USD", "usd", "dollars" };
    text = text_trim(text);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t size = strlen(words[i]);
        bool before = text.size > size && !memcmp(text.at, words[i], size);
        if (before || (text.size > size && text_ends(text, words[i])))
            return (struct text){ text.at + (before ? size : 0), text.size - size };
    }
    return text;
}

enum err text_read_usd(double *out, struct text text)
{
    struct text amount = without_currency(text);
    char digits[32];
    size_t size = without_commas(digits, sizeof digits, text_trim(amount));
    if (text_read_number(out, size ? (struct text){ digits, size } : amount))
        return fail(ERR_INPUT, "\"%.*s\" is not an amount of dollars such as 2.49 or $2.49",
                    TEXT_BRIEF(text));
    return OK;
}

enum err text_read_price(double *usd, bool *per_gpu, struct text text)
{
    static const struct {
        const char *word;
        bool of_gpu;
    } hours[] = { { "gpuh", 1 }, { "gpuhr", 1 }, { "gpuhour", 1 },
                  { "h", 0 },    { "hr", 0 },    { "hour", 0 } };
    struct text unit = text, amount = { 0 };
    text_next(&unit, '/', &amount);
    char word[LONGEST_WORD];
    size_t size = plain(word, unit);
    bool known = amount.size == text.size; // nothing follows: of a GPU
    *per_gpu = true;
    for (size_t i = 0; !known && i < sizeof hours / sizeof *hours; i++) {
        known = text_is((struct text){ word, size }, hours[i].word);
        *per_gpu = hours[i].of_gpu;
    }
    if (!known || text_read_usd(usd, amount))
        return fail(ERR_INPUT,
                    "\"%.*s\" is not a price in dollars per GPU hour such as 2.49 or 2.49/gpu-h",
                    TEXT_BRIEF(text));
    return OK;
}

enum err text_read_count(int64_t *out, struct text text)
{
    double value;
    char digits[32];
    size_t size = without_commas(digits, sizeof digits, text_trim(text));
    TRY(text_read_number(&value, size ? (struct text){ digits, size } : text));
    if (fabs(value) > 9e18)
        return fail(ERR_INPUT, "\"%.*s\" is too large, the limit is 9e18", TEXT_BRIEF(text));
    // 21.4M is whole although 21.4 × 1e6 need not be, in the last bits.
    if (fabs(value - nearbyint(value)) > 1e-12 * fabs(value))
        return fail(ERR_INPUT, "\"%.*s\" is not a whole number", TEXT_BRIEF(text));
    *out = (int64_t)nearbyint(value);
    return OK;
}

enum err text_read_bytes(double *out, struct text text)
{
    static const struct spelling spellings[] = {
        { "", 1 },
        { "B", 1 },
        { "kB", 1e3 },
        { "KB", 1e3 },
        { "MB", 1e6 },
        { "GB", 1e9 },
        { "TB", 1e12 },
        { "KiB", 1024.0 },
        { "MiB", 1048576.0 },
        { "GiB", 1073741824.0 },
        { "TiB", 1099511627776.0 },
        { "K", 1024.0 },
        { "M", 1048576.0 },
        { "G", 1073741824.0 },
        { 0 },
    };
    return scaled(out, text, spellings, "bytes such as 80GiB or 80GB");
}

static enum err read_time(double *out, struct text text)
{
    static const struct spelling spellings[] = {
        { "", 1 },           { "s", 1 },
        { "sec", 1 },        { "seconds", 1 },
        { "ms", 1e-3 },      { "us", 1e-6 },
        { "min", 60 },       { "m", 60 },
        { "minute", 60 },    { "minutes", 60 },
        { "h", 3600 },       { "hr", 3600 },
        { "hrs", 3600 },     { "hour", 3600 },
        { "hours", 3600 },   { "d", 86400 },
        { "day", 86400 },    { "days", 86400 },
        { "w", 604800 },     { "week", 604800 },
        { "weeks", 604800 }, { 0 },
    };
    char plain_text[64];
    size_t size = 0, left;
    while (size < text.size && (isdigit((unsigned char)text.at[size]) || text.at[size] == ','))
        size++;
    left = text.size - size;
    size = without_commas(plain_text, sizeof plain_text, (struct text){ text.at, size });
    if (size && size + left <= sizeof plain_text) { // "2,705 days"
        memcpy(plain_text + size, text.at + text.size - left, left);
        text = (struct text){ plain_text, size + left };
    }
    return scaled(out, text, spellings, "a time");
}

// "4 h" of "4 h 12 min": up to the digit that follows a unit.
static size_t first_time(struct text text)
{
    size_t i = 1;
    for (; i < text.size; i++) {
        unsigned char before = (unsigned char)text.at[i - 1], at = (unsigned char)text.at[i];
        bool exponent = i > 1 && tolower(before) == 'e' && isdigit((unsigned char)text.at[i - 2]);
        if (isdigit(at) && (isalpha(before) || isspace(before)) && !exponent)
            break;
    }
    return i < text.size ? i : text.size;
}

enum err text_read_seconds(double *out, struct text text)
{
    struct text all = text_trim(text), rest = all;
    bool good = true;
    *out = 0;
    do {
        double seconds = 0;
        size_t size = first_time(rest);
        struct text part = text_trim((struct text){ rest.at, size });
        bool has_unit = part.size && isalpha((unsigned char)part.at[part.size - 1]);
        good = !read_time(&seconds, part) && (has_unit || part.size == all.size);
        *out += seconds;
        rest = (struct text){ rest.at + size, rest.size - size };
    } while (good && rest.size);
    return good ? OK
                : fail(ERR_INPUT, "\"%.*s\" is not a time such as 24h, 90min or 1d12h",
                       TEXT_BRIEF(text));
}

enum err text_read_share(double *out, struct text text)
{
    static const struct spelling spellings[] = { { "", 1 }, { "%", 0.01 }, { 0 } };
    return scaled(out, text, spellings, "a share such as 0.2 or 20%");
}

enum err text_read_rate(double *out, struct text text)
{
    static const struct spelling spellings[] = {
        { "", 1 },
        { "FLOP/s", 1 },
        { "GFLOP/s", 1e9 },
        { "TFLOP/s", 1e12 },
        { "PFLOP/s", 1e15 },
        { "B/s", 1 },
        { "MB/s", 1e6 },
        { "GB/s", 1e9 },
        { "TB/s", 1e12 },
        { "MiB/s", 1048576.0 },
        { "GiB/s", 1073741824.0 },
        { "Gb/s", 1.25e8 },
        { "Gbit/s", 1.25e8 },
        { "Mb/s", 1.25e5 },
        { "Gbps", 1.25e8 },
        { "GBps", 1e9 },
        { "MBps", 1e6 },
        { 0 },
    };
    return scaled(out, text, spellings, "a rate such as 989TFLOP/s or 3.35TB/s");
}

// --- nearest word ------------------------------------------------------------

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

// Letters to change, add, leave out or swap with their neighbour.
static int edits(const char *a, size_t a_size, const char *b, size_t b_size)
{
    int rows[3][LONGEST_WORD + 1]; // of this letter of a, the one before and the one before that
    for (size_t j = 0; j <= b_size; j++)
        rows[0][j] = (int)j;
    for (size_t i = 1; i <= a_size; i++) {
        int *row = rows[i % 3], *last = rows[(i - 1) % 3], *older = rows[(i + 1) % 3];
        row[0] = (int)i;
        for (size_t j = 1; j <= b_size; j++) {
            row[j] =
                smaller(last[j - 1] + (a[i - 1] != b[j - 1]), smaller(last[j] + 1, row[j - 1] + 1));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = smaller(row[j], older[j - 2] + 1);
        }
    }
    return rows[a_size % 3][b_size];
}

// What is further away is no suggestion: of two letters, another is another name.
static int most_edits(size_t size)
{
    return size < 3 ? 0 : size < 6 ? 1 : (int)(size / 3);
}

const char *text_nearest(struct text word, const char *const *candidates, size_t count)
{
    char a[LONGEST_WORD], b[LONGEST_WORD];
    size_t a_size = plain(a, word);
    const char *best = NULL;
    int fewest = most_edits(a_size) + 1;
    for (size_t i = 0; i < count; i++) {
        size_t b_size = plain(b, text_of(candidates[i]));
        int n = abs((int)a_size - (int)b_size); // at least so many
        n = n < fewest ? edits(a, a_size, b, b_size) : n;
        if (n < fewest)
            best = candidates[i], fewest = n;
    }
    return best;
}
