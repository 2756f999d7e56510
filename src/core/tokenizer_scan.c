// Cuts text into words by scanners written by hand for the patterns that most models use.
//
// Each scanner finds the end of the word that starts at `at` just as its regular expression would;
// test/core/test_tokenizer.c holds them against the patterns themselves. ASCII goes by a table and
// by eight bytes at once, the rest by Unicode class.

#include "core/tokenizer_internal.h"

#include <string.h>

enum kind { OTHER, LETTER, NUMBER, SPACE, NEWLINE };

static enum kind kind_of(uint32_t code)
{
    unsigned class = unicode_class(code);
    if (class & UNICODE_SPACE)
        return code == '\r' || code == '\n' ? NEWLINE : SPACE;
    uint32_t set = 1u << (class & UNICODE_CATEGORY);
    return set & UNICODE_LETTER ? LETTER : set & UNICODE_NUMBER ? NUMBER : OTHER;
}

#define O OTHER
#define L LETTER
#define N NUMBER
#define S SPACE
#define R NEWLINE
static const uint8_t ascii_kinds[128] = {
    O, O, O, O, O, O, O, O, O, S, R, S, S, R, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O,
    S, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, N, N, N, N, N, N, N, N, N, N, O, O, O, O, O, O,
    O, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, O, O, O, O, O,
    O, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, O, O, O, O, O,
};
#undef O
#undef L
#undef N
#undef S
#undef R

// The kind of the character at *at, which is moved behind it.
static inline enum kind next_kind(const char **at, const char *end)
{
    unsigned char c = (unsigned char)**at;
    if (c < 0x80) {
        ++*at;
        return ascii_kinds[c];
    }
    return kind_of(unicode_next(at, end));
}

static const char *skip_kind(const char *at, const char *end, enum kind kind)
{
    while (at < end) {
        const char *next = at;
        if (next_kind(&next, end) != kind)
            break;
        at = next;
    }
    return at;
}

// Top bits of the bytes of a word that are not ASCII letters.
static inline uint64_t not_letters(uint64_t word)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones * 0x80;
    uint64_t lower = (word | ones * 0x20) & ~tops;
    uint64_t from_a = lower + ones * (0x80 - 'a'), above_z = lower + ones * (0x80 - 'z' - 1);
    return ~(from_a & ~above_z & ~word) & tops;
}

static inline const char *skip_letters(const char *at, const char *end)
{
    while (end - at >= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        uint64_t stops = not_letters(word);
        if (stops) {
            at += __builtin_ctzll(stops) >> 3;
            return (unsigned char)*at < 0x80 ? at : skip_kind(at, end, LETTER);
        }
        at += 8;
    }
    return skip_kind(at, end, LETTER);
}

// --- parts that the patterns share -------------------------------------------

// What stands behind an apostrophe: s, t, m, d, re, ve, ll. Returns its end, or NULL.
static const char *contraction(const char *at, const char *end, bool any_case)
{
    if (at + 1 >= end)
        return NULL;
    unsigned char c = (unsigned char)at[1], d = at + 2 < end ? (unsigned char)at[2] : 0;
    if (any_case) {
        if (c == 0xC5 && d == 0xBF) // ſ, which is an s but for its case
            return at + 3;
        c |= c >= 'A' && c <= 'Z' ? 32 : 0;
        d |= d >= 'A' && d <= 'Z' ? 32 : 0;
    }
    if (c == 's' || c == 't' || c == 'm' || c == 'd')
        return at + 2;
    if ((c == 'r' && d == 'e') || (c == 'v' && d == 'e') || (c == 'l' && d == 'l'))
        return at + 3;
    return NULL;
}

// White space that no letter or symbol takes: \s*[\r\n]+|\s+(?!\S)|\s+, or without the first.
static const char *end_of_space(const char *at, const char *end, bool by_lines)
{
    const char *last = at, *line = NULL, *next = at;
    while (next < end) {
        const char *start = next;
        enum kind kind = next_kind(&next, end);
        if (kind == NEWLINE)
            line = next;
        else if (kind != SPACE) {
            next = start;
            break;
        }
        last = start;
    }
    if (by_lines && line)
        return line;
    if (next == end || last == at)
        return next;
    return last;
}

static const char *skip_others(const char *at, const char *end)
{
    return skip_kind(at, end, OTHER);
}

static const char *skip_newlines(const char *at, const char *end, bool slashes)
{
    while (at < end && (*at == '\r' || *at == '\n' || (slashes && *at == '/')))
        at++;
    return at;
}

static const char *skip_numbers(const char *at, const char *end, int most)
{
    for (const char *next = at; most-- > 0 && next < end; at = next)
        if (next_kind(&next, end) != NUMBER)
            break;
    return at;
}

// --- one word of each pattern ------------------------------------------------

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
static inline const char *word_gpt2(const char *at, const char *end)
{
    if (*at == '\'') {
        const char *stop = contraction(at, end, false);
        if (stop)
            return stop;
    }
    const char *next = at + (*at == ' ' && at + 1 < end), *behind = next;
    switch (next_kind(&behind, end)) {
    case LETTER: return skip_letters(behind, end);
    case NUMBER: return skip_kind(behind, end, NUMBER);
    case OTHER: return skip_others(behind, end);
    default: return end_of_space(at, end, false);
    }
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
// \s*[\r\n]+|\s+(?!\S)|\s+, with {1,3} or without.
static inline const char *word_cl100k(const char *at, const char *end, int digits)
{
    const char *next = at;
    enum kind kind = next_kind(&next, end);
    if (kind == LETTER)
        return skip_letters(next, end);
    if (kind == NUMBER)
        return skip_numbers(next, end, digits - 1);
    if (*at == '\'') {
        const char *stop = contraction(at, end, true);
        if (stop)
            return stop;
    }
    if (kind == NEWLINE || next == end)
        return kind == OTHER ? next : end_of_space(at, end, true);
    const char *behind = next;
    enum kind second = next_kind(&behind, end);
    if (second == LETTER)
        return skip_letters(behind, end);
    if (kind == OTHER)
        return skip_newlines(second == OTHER ? skip_others(behind, end) : next, end, false);
    if (*at == ' ' && second == OTHER)
        return skip_newlines(skip_others(behind, end), end, false);
    return end_of_space(at, end, true);
}

static size_t scan_gpt2(const char *base, const char **at, const char *end, struct span *spans,
                        size_t room)
{
    size_t count = 0;
    const char *start = *at;
    while (start < end && count < room) {
        const char *stop = word_gpt2(start, end);
        spans[count++] = (struct span){ (uint32_t)(start - base), (uint32_t)(stop - base) };
        start = stop;
    }
    *at = start;
    return count;
}

static inline size_t scan_cl100k(const char *base, const char **at, const char *end,
                                 struct span *spans, size_t room, int digits)
{
    size_t count = 0;
    const char *start = *at;
    while (start < end && count < room) {
        const char *stop = word_cl100k(start, end, digits);
        spans[count++] = (struct span){ (uint32_t)(start - base), (uint32_t)(stop - base) };
        start = stop;
    }
    *at = start;
    return count;
}

size_t tokenizer_scan(const struct tokenizer *t, const char *base, const char **at, const char *end,
                      struct span *spans, size_t room)
{
    switch (t->scan) {
    case SCAN_GPT2: return scan_gpt2(base, at, end, spans, room);
    case SCAN_CL100K: return scan_cl100k(base, at, end, spans, room, 3);
    case SCAN_CL100K_1: return scan_cl100k(base, at, end, spans, room, 1);
    default: return 0;
    }
}

// --- choosing a scanner ------------------------------------------------------

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define CL100K_TAIL "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct {
    const char *source;
    enum scan_kind scan;
} known_patterns[] = {
    { CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" CL100K_TAIL, SCAN_CL100K },
    { CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" CL100K_TAIL, SCAN_CL100K_1 },
};

// A pattern that matches everywhere cuts the same whether matches are isolated or kept alone.
static bool keeps_matches(const struct split_step *step)
{
    return (step->behavior == SPLIT_ISOLATED && !step->inverted) ||
           (step->behavior == SPLIT_REMOVED && step->inverted);
}

void tokenizer_choose_scan(struct tokenizer *t)
{
    const struct split_step *steps = t->split_steps;
    if (!t->split_count || steps[t->split_count - 1].kind != SPLIT_BYTE_LEVEL ||
        steps[t->split_count - 1].prefix_space)
        return;
    if (t->split_count == 1 && steps[0].splits)
        t->scan = SCAN_GPT2;
    if (t->split_count != 2 || steps[0].kind != SPLIT_PATTERN || !steps[0].pattern ||
        steps[1].splits || !keeps_matches(&steps[0]))
        return;
    for (size_t i = 0; i < sizeof known_patterns / sizeof *known_patterns; i++)
        if (text_is(steps[0].literal, known_patterns[i].source))
            t->scan = known_patterns[i].scan;
}
