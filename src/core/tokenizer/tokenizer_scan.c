// SPDX-License-Identifier: Apache-2.0
// Cuts text into words, with hand-written scanners for the patterns that most models use.
//
// A scanner finds the end of the word at `at` exactly as its regular expression would;
// test/core/tokenizer/test_tokenizer.c compares them with the patterns. ASCII is classified by a
// table, eight bytes at once; the rest by Unicode class.
// Scanners are fast only if what they share is compiled into each of them.

#include "core/tokenizer/tokenizer_internal.h"
#include "core/tokenizer/tokenizer_window.h"

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

// The kind of the character at *at; moves *at after it.
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

// Characters of two bytes, the first of which is `lead` or one more: 128 of them. The letters are
// those from `low` to `high`.
struct pairs {
    uint8_t lead, low, high;
};
static const struct pairs cyrillic = { 0xD0, 0x00, 0x7F };       // U+0400 to 047F
static const struct pairs small_cyrillic = { 0xD0, 0x30, 0x5F }; // U+0430 to 045F
static const struct pairs arabic = { 0xD8, 0x20, 0x4A };         // U+0620 to 064A

static inline bool begins(struct pairs pairs, const char *at)
{
    return ((unsigned char)*at & 0xFE) == pairs.lead;
}

// Skips such letters, four at once, as far as eight bytes are left.
static inline const char *skip_pairs(const char *at, const char *end, struct pairs pairs)
{
    const uint64_t ones = UINT64_C(0x0001000100010001);
    for (uint64_t bytes; end - at >= 8; at += 8) {
        memcpy(&bytes, at, 8);
        uint64_t differ = (bytes ^ ones * (0x8000u | pairs.lead)) & ones * 0xC0FE;
        uint64_t code = (bytes & ones) << 6 | (bytes >> 8 & ones * 0x3F);
        uint64_t from_low = code + ones * (0x80u - pairs.low);
        uint64_t above_high = code + ones * (0x7Fu - pairs.high);
        differ |= ~(from_low & ~above_high) & ones * 0x80;
        if (differ)
            return at + (__builtin_ctzll(differ) >> 4 << 1);
    }
    return at;
}

static inline const char *skip_known(const char *at, const char *end)
{
    return begins(arabic, at)     ? skip_pairs(at, end, arabic)
           : begins(cyrillic, at) ? skip_pairs(at, end, cyrillic)
                                  : at;
}

static inline bool is_east_asian(uint32_t code)
{
    return (code >= 0x4E00 && code <= 0x9FA5) || (code >= 0x3040 && code <= 0x30FF);
}

// Skips characters of the categories: east Asian ones, too, or not. Most have two or three bytes.
static inline __attribute__((always_inline)) const char *skip_characters(const char *at,
                                                                         const char *end,
                                                                         uint32_t categories,
                                                                         bool east_asian)
{
    while (at < end) {
        uint32_t bytes = 0, code = 0;
        const char *next = at;
        if (end - at >= 4)
            memcpy(&bytes, at, 4);
        if ((bytes & 0xC0C0F0) == 0x8080E0) {
            code = (bytes & 15) << 12 | (bytes >> 2 & 0xFC0) | (bytes >> 16 & 63);
            next += code >= 0x800 ? 3 : 0;
        } else if ((bytes & 0xC0E0) == 0x80C0) {
            const char *stop = categories & UNICODE_LETTER ? skip_known(at, end) : at;
            if (stop > at) {
                at = stop;
                continue;
            }
            code = (bytes & 31) << 6 | (bytes >> 8 & 63);
            next += code >= 0x80 ? 2 : 0;
        }
        if (next == at) {           // near the end, ASCII, four bytes, or no character
            const char *after = at; // a copy, so that the others stay in registers
            code = unicode_next(&after, end);
            next = after;
        }
        if (!unicode_is(code, categories) || (!east_asian && is_east_asian(code)))
            break;
        at = next;
    }
    return at;
}

static inline bool is_unicode(const char *at)
{
    return (unsigned char)*at >= 0x80;
}

static const char *skip_unicode_letters(const char *at, const char *end)
{
    return skip_characters(at, end, UNICODE_LETTER, true);
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
            return (unsigned char)*at < 0x80 ? at : skip_unicode_letters(at, end);
        }
        at += 8;
    }
    return skip_unicode_letters(at, end);
}

// --- parts shared by the patterns -------------------------------------------

// A contraction after an apostrophe: s, t, m, d, re, ve, ll. Returns its end, or NULL.
static const char *contraction(const char *at, const char *end, bool any_case)
{
    if (at + 1 >= end)
        return NULL;
    unsigned char c = (unsigned char)at[1], d = at + 2 < end ? (unsigned char)at[2] : 0;
    if (any_case) {
        if (c == 0xC5 && d == 0xBF) // ſ: equals s if case is ignored
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

// White space that does not belong to a word: \s*[\r\n]+|\s+(?!\S)|\s+, or without the first part.
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

// --- one word, by pattern ------------------------------------------------

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
static __attribute__((noinline)) const char *word_gpt2(const char *at, const char *end)
{
    if (*at == '\'') {
        const char *stop = contraction(at, end, false);
        if (stop)
            return stop;
    }
    const char *next = at + (*at == ' ' && at + 1 < end), *after = next;
    if (is_unicode(next) && (after = skip_unicode_letters(next, end)) > next)
        return after;
    switch (next_kind(&after, end)) {
    case LETTER: return skip_letters(after, end);
    case NUMBER: return skip_kind(after, end, NUMBER);
    case OTHER: return skip_others(after, end);
    default: return end_of_space(at, end, false);
    }
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
// \s*[\r\n]+|\s+(?!\S)|\s+, with or without {1,3}.
static __attribute__((noinline)) const char *word_cl100k(const char *at, const char *end,
                                                         int digits)
{
    const char *next = at, *after;
    if (is_unicode(at) && (after = skip_unicode_letters(at, end)) > at)
        return after;
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
    if (is_unicode(next) && (after = skip_unicode_letters(next, end)) > next)
        return after;
    after = next;
    enum kind second = next_kind(&after, end);
    if (second == LETTER)
        return skip_letters(after, end);
    if (kind == OTHER)
        return skip_newlines(second == OTHER ? skip_others(after, end) : next, end, false);
    if (*at == ' ' && second == OTHER)
        return skip_newlines(skip_others(after, end), end, false);
    return end_of_space(at, end, true);
}

// Capitals and small letters; the other letters and marks are both.
enum { CAPITAL = 1, SMALL = 2 };

static unsigned case_of(uint32_t code)
{
    if (code < 0x80)
        return code >= 'A' && code <= 'Z' ? CAPITAL : code >= 'a' && code <= 'z' ? SMALL : 0;
    uint32_t set = 1u << (unicode_class(code) & UNICODE_CATEGORY);
    if (set & (UNICODE_SET(LM) | UNICODE_SET(LO) | UNICODE_MARK))
        return CAPITAL | SMALL;
    return set & (UNICODE_SET(LU) | UNICODE_SET(LT)) ? CAPITAL : set & UNICODE_SET(LL) ? SMALL : 0;
}

// [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+ from `at` on; NULL if there is none.
// *capitals is the end of the first run. Without a small letter after it, the run gives back
// characters until the last one may be small.
static const char *cased_word(const char *at, const char *end, const char **capitals)
{
    const char *small = NULL, *next = at;
    unsigned kind = 0;
    while (at < end && (kind = case_of(unicode_next(&next, end))) & CAPITAL) {
        small = kind & SMALL ? next : small;
        at = next;
    }
    *capitals = at;
    if (at == end || !(kind & SMALL))
        return small;
    for (at = next; at < end; at = next) {
        if (begins(small_cyrillic, at))
            next = at = skip_pairs(at, end, small_cyrillic);
        if (at == end || !(case_of(unicode_next(&next, end)) & SMALL))
            break;
    }
    return at;
}

// A word with or without its leading character: first those with small letters, then capitals
// alone.
static const char *led_word(const char *at, const char *lead, const char *end)
{
    const char *led = NULL, *bare = NULL, *stop = NULL;
    if (lead && (stop = cased_word(lead, end, &led)))
        return stop;
    if ((stop = cased_word(at, end, &bare)))
        return stop;
    return lead && led > lead ? led : bare > at ? bare : NULL;
}

// o200k: [^\r\n\p{L}\p{N}]? and letters cut by case, then a contraction; \p{N}{1,3};
// ?[^\s\p{L}\p{N}]+[\r\n/]*; white space. tekken: no contractions, single digits.
static __attribute__((noinline)) const char *word_o200k(const char *at, const char *end, int digits,
                                                        bool contracts)
{
    const char *next = at;
    enum kind kind = next_kind(&next, end);
    if (kind == NUMBER)
        return skip_numbers(next, end, digits - 1);
    bool leads = kind == OTHER || kind == SPACE;
    const char *stop = led_word(at, leads ? next : NULL, end);
    if (stop) {
        const char *more =
            contracts && stop < end && *stop == '\'' ? contraction(stop, end, true) : NULL;
        return more ? more : stop;
    }
    if (kind == OTHER)
        return skip_newlines(skip_others(next, end), end, true);
    const char *after = next;
    if (*at == ' ' && next < end && next_kind(&after, end) == OTHER)
        return skip_newlines(skip_others(after, end), end, true);
    return end_of_space(at, end, true);
}

// --- DeepSeek V3 ---

enum { DS_WORD = UNICODE_LETTER | UNICODE_MARK, DS_SIGN = UNICODE_PUNCTUATION | UNICODE_SYMBOL };

static const char *skip_ds_word(const char *at, const char *end)
{
    return skip_characters(at, end, DS_WORD, false);
}

// Whether the character at `at` is of the categories, and not east Asian.
static bool is_at(const char *at, const char *end, uint32_t categories)
{
    if (at == end)
        return false;
    uint32_t code = unicode_next(&at, end);
    return unicode_is(code, categories) && !is_east_asian(code);
}

static bool is_ascii_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static const char *skip_signs(const char *at, const char *end)
{
    return skip_newlines(skip_characters(at, end, DS_SIGN, false), end, false);
}

// White space before a number or an east Asian character is at the end of its text.
static const char *end_of_ds_space(const char *at, const char *end)
{
    const char *stop = at, *next = at;
    while (next < end && unicode_class(unicode_next(&next, end)) & UNICODE_SPACE)
        stop = next;
    next = stop;
    uint32_t code = stop < end ? unicode_next(&next, end) : 0;
    bool ends = unicode_is(code, UNICODE_NUMBER) || is_east_asian(code);
    return end_of_space(at, ends ? stop : end, true);
}

// How many of 16 characters of three bytes are east Asian letters or marks before the first that is
// not; of the Chinese ones those up to U+9F7F. The loop has no branches and becomes vectors.
static inline size_t count_east_asian(const char *at)
{
    const unsigned char *s = (const unsigned char *)at;
    uint8_t stops[16];
    uint64_t halves[2];
    for (int i = 0; i < 16; i++) {
        uint8_t a = s[3 * i], b = s[3 * i + 1], c = s[3 * i + 2];
        bool kana = (a == 0xE3) & (b >= 0x81) & (b <= 0x83);
        bool other = ((b == 0x81) & (c == 0x80)) | ((b == 0x83) & (c == 0xBB)) |
                     ((b == 0x82) & ((c == 0x97) | (c == 0x98) | (c == 0x9B) | (c == 0x9C) |
                                     (c == 0xA0))); // signs, and codes without a character
        bool chinese =
            ((a > 0xE4) | ((a == 0xE4) & (b >= 0xB8))) & ((a < 0xE9) | ((a == 0xE9) & (b <= 0xBD)));
        bool whole = ((b & 0xC0) == 0x80) & ((c & 0xC0) == 0x80);
        stops[i] = (uint8_t)((((kana & !other) | chinese) & whole) - 1);
    }
    memcpy(halves, stops, 16);
    return halves[0]   ? (size_t)__builtin_ctzll(halves[0]) >> 3
           : halves[1] ? 8 + ((size_t)__builtin_ctzll(halves[1]) >> 3)
                       : 16;
}

// Skips east Asian characters of the categories.
static const char *skip_east_asian(const char *at, const char *end, uint32_t categories)
{
    if (categories == DS_WORD)
        for (size_t count = 16; count == 16 && end - at >= 48; at += 3 * count)
            count = count_east_asian(at);
    for (const char *next = at; at < end; at = next) {
        uint32_t code = unicode_next(&next, end);
        if (!is_east_asian(code) || !unicode_is(code, categories))
            break;
    }
    return at;
}

// In a run of east Asian characters the last pattern finds letters, after a code without a
// character if there is one, and signs: the middle dot of kana.
static const char *word_east_asian(const char *next, const char *end, uint32_t code)
{
    if (unicode_is(code, DS_SIGN))
        return skip_east_asian(next, end, DS_SIGN);
    const char *stop = skip_east_asian(next, end, DS_WORD);
    while (stop == next && !unicode_is(code, DS_WORD) && next < end) {
        const char *here = next; // codes that no letter follows are one word
        code = unicode_next(&next, end);
        if (!is_east_asian(code) || unicode_is(code, DS_SIGN) ||
            skip_east_asian(next, end, DS_WORD) > next)
            return here;
        stop = next;
    }
    return stop;
}

// Numbers, \p{N}{1,3}, and runs of east Asian characters are cut out first. Then in each text
// between them [!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
// ?[\p{P}\p{S}]+[\r\n]*|white space. What matches nothing is a word, too.
static __attribute__((noinline)) const char *word_deepseek(const char *at, const char *end)
{
    const char *next = at;
    uint32_t code = unicode_next(&next, end);
    if (is_east_asian(code))
        return word_east_asian(next, end, code);
    if (unicode_is(code, DS_WORD))
        return skip_ds_word(next, end);
    if (unicode_is(code, UNICODE_NUMBER))
        return skip_numbers(next, end, 2);
    if (code < 0x80 && unicode_is(code, DS_SIGN) && next < end && is_ascii_letter(*next)) {
        while (next < end && is_ascii_letter(*next))
            next++;
        return next;
    }
    if (unicode_is(code, DS_SIGN))
        return skip_signs(next, end);
    const char *stop = code != '\r' && code != '\n' ? skip_ds_word(next, end) : next;
    if (stop > next)
        return stop;
    if (code == ' ' && is_at(next, end, DS_SIGN))
        return skip_signs(next, end);
    if (unicode_class(code) & UNICODE_SPACE)
        return end_of_ds_space(at, end);
    while (next < end) {
        const char *here = next;
        code = unicode_next(&next, end);
        if (is_east_asian(code) || unicode_is(code, DS_WORD | DS_SIGN | UNICODE_NUMBER) ||
            unicode_class(code) & UNICODE_SPACE || is_at(next, end, DS_WORD))
            return here;
    }
    return end;
}

// --- many words --------------------------------------------------------------

struct scanner {
    const struct tokenizer *t;
    const char *end; // of the text
    const char *
        *number; // next digit after the word, if digits are words of their own; NULL: unknown
};

// The word at `at`, if digits are cut out before GPT-2's pattern is applied to the rest.
static const char *word_between_digits(struct scanner *s, const char *at)
{
    const char *next = at;
    if (next_kind(&next, s->end) == NUMBER)
        return next;
    if (!*s->number || *s->number <= at)
        for (*s->number = next; *s->number < s->end; *s->number = next)
            if (next_kind(&next, s->end) == NUMBER)
                break;
    return word_gpt2(at, *s->number);
}

static const char *word_of(struct scanner *s, const char *at)
{
    switch (s->t->scan) {
    case SCAN_GPT2: return word_gpt2(at, s->end);
    case SCAN_GPT2_DIGITS: return word_between_digits(s, at);
    case SCAN_CL100K: return word_cl100k(at, s->end, 3);
    case SCAN_CL100K_1: return word_cl100k(at, s->end, 1);
    case SCAN_O200K: return word_o200k(at, s->end, 3, true);
    case SCAN_TEKKEN: return word_o200k(at, s->end, 1, false);
    case SCAN_DEEPSEEK: return word_deepseek(at, s->end);
    case SCAN_NONE:
    case SCAN_WHOLE: break;
    }
    return s->end;
}

// Word boundaries in a window of 64 bytes, as far as the next byte decides them.
struct borders {
    uint64_t sure;    // a word begins here, or the text ends
    uint64_t odd;     // a word with one of these bytes needs the one-word scanner
    uint64_t breaks;  // the same, except as the first byte of the word
    uint64_t middles; // the same, only as the first byte
};

// The differences between the patterns.
struct manner {
    bool symbols_lead; // letters: "-known" is a word
    bool cased;        // a capital after a small letter begins a word
    int digits;        // most digits in a word, 3 or 1; 0: use the one-word scanner
    bool lines;        // newlines end symbols, or white space before them
    bool slashes;      // slashes after these newlines belong to the symbols
    bool scripts;      // letters of all scripts are alike, or cut by case
};

// Blanks after a newline are a word of their own, unless another newline follows them: then the
// one-word scanner decides. A run that reaches the end of the window may go on after it.
static inline void find_indents(uint64_t newlines, uint64_t blanks, uint64_t known, bool last,
                                uint64_t *sure, uint64_t *odd)
{
    uint64_t indents = blanks & newlines << 1, after = (blanks + indents) & ~blanks, gaps = ~blanks;
    uint64_t ending = last ? UINT64_MAX : gaps ? UINT64_MAX >> __builtin_clzll(gaps) : 0;
    if (after & ~known)
        *odd |= indents;
    else
        *sure |= indents & ending;
}

// The borders of white space that is more than a space before a word. A run of it begins a word,
// and its last character leads the next word if the pattern lets it. By lines, newlines after
// symbols belong to the symbols. solid: letters, symbols and digits, as far as find_borders()
// decides them.
static inline void find_white(const struct window *w, struct manner manner, uint64_t solid,
                              size_t left, struct borders *b)
{
    uint64_t blanks = w->spaces | w->tabs, white = blanks | w->newlines;
    uint64_t end = left < 64 ? UINT64_C(1) << left : 0;
    uint64_t numbers = blanks & blanks << 1 & w->digits >> 1; // the last blank before a digit
    uint64_t attached = manner.lines ? w->newlines & w->symbols << 1 : 0;
    uint64_t odd = (white & ~((solid | white | end) >> 1)) | numbers;
    uint64_t sure = white & solid << 1 & ~attached;
    sure |= (manner.lines ? blanks : white) & solid >> 1;
    sure |= solid & w->newlines << 1;
    sure |= (manner.lines ? solid & ~w->letters : solid) & w->tabs << 1; // a tab leads only letters
    if (manner.lines)
        find_indents(w->newlines, blanks, solid | end, left < 64, &sure, &odd);
    uint64_t joined = manner.slashes ? (w->newlines + attached) & ~w->newlines & w->slashes : 0;
    b->sure = (b->sure | sure) & ~numbers & ~joined;
    b->odd = (b->odd & ~white) | odd | joined;
}

// In all patterns a space before a letter or a symbol begins a word. If digits are words of their
// own, so does a space before a digit, and the digit itself. A symbol after a letter or a digit
// begins a word, and so does a letter after symbols, unless a single symbol leads it.
static inline struct borders find_borders(const struct window *w, struct manner manner, size_t left)
{
    uint64_t digits = manner.digits ? w->digits : 0, plain = w->letters | digits;
    uint64_t first = w->symbols & ~(w->symbols << 1); // first symbols of their runs
    uint64_t leads = manner.symbols_lead ? first & ~(w->spaces << 1) : 0;
    leads |= leads << 1 & w->continuing; // all bytes of the first symbol
    leads |= leads << 1 & w->continuing;
    uint64_t more = digits & digits << 1;
    uint64_t sure = w->spaces & (plain | w->symbols) >> 1;
    sure |= first & (plain << 1 | 1);
    sure |= w->letters & (digits | (w->symbols & ~leads)) << 1;
    sure |= manner.digits == 1 ? digits : digits & ~more;
    uint64_t odd = ~(plain | w->symbols | sure);
    if (manner.digits == 3)
        odd |= more & more << 2; // the fourth and later
    struct borders white = { .sure = sure, .odd = odd };
    if (w->newlines | w->tabs | (w->spaces & w->spaces << 1))
        find_white(w, manner, plain | w->symbols, left, &white);
    // The last byte is undecided, unless the text ends here.
    uint64_t valid = (UINT64_C(1) << (left < 63 ? left : 63)) - 1;
    return (struct borders){
        .sure = (white.sure & valid) | (left < 64 ? UINT64_C(1) << left : 0),
        .odd = white.odd & valid,
        .middles = w->symbols & ~first & valid,
        .breaks = manner.cased ? w->uppers & (w->letters & ~w->uppers) << 1 & valid : 0,
    };
}

static inline uint64_t from_bit(size_t bit)
{
    return bit < 64 ? ~UINT64_C(0) << bit : 0;
}

// Writes adjacent words, given the bits of their ends. Always writes eight at once, so that there
// is no branch on their number; the surplus is overwritten later.
static inline struct span *put_words(struct span *span, uint32_t from, size_t place, uint64_t ends)
{
    struct span *after = span + count_bits(ends);
    uint32_t start = from + (uint32_t)place;
    do {
        for (int i = 0; i < SCAN_UNROLLED; i++, ends &= ends - 1) {
            span->start = start;
            start = from + (uint32_t)__builtin_ctzll(ends | UINT64_C(1) << 63);
            span++->end = start;
        }
    } while (span < after);
    return after;
}

// The words of a window, except one that may continue after it; returns where that one begins.
static inline size_t scan_window(struct scanner *s, const char *start, struct borders b,
                                 uint32_t from, struct span **spans)
{
    struct span *span = *spans;
    size_t place = 0;
    for (;;) {
        uint64_t odd = (b.odd & from_bit(place)) | (b.breaks & from_bit(place + 1)) |
                       (b.middles & UINT64_C(1) << place);
        uint64_t ends = b.sure & from_bit(place + 1) & (odd ^ (odd - 1)); // up to the first odd
        if (ends) {
            span = put_words(span, from, place, ends);
            place = 63 - (size_t)__builtin_clzll(ends);
        }
        if (!odd)
            break;
        size_t first = (size_t)__builtin_ctzll(odd);
        do {
            span->start = from + (uint32_t)place;
            place = (size_t)(word_of(s, start + place) - start);
            span++->end = from + (uint32_t)place;
        } while (place < first);
        if (place >= 63)
            break;
    }
    *spans = span;
    return place;
}

// ASCII letters after a space are by far the most common words. Their starts are computed as bits
// for 64 bytes at once, so finding one word does not wait for the one before. Words with other
// bytes go through the one-word scanner.
static inline __attribute__((always_inline)) size_t scan_words(struct scanner *s,
                                                               struct manner manner,
                                                               const char *base, const char **at,
                                                               struct span *spans, size_t room)
{
    struct span *span = spans, *full = spans + room;
    const char *start = *at, *end = s->end;
    while (start < end && full - span >= SCAN_ROOM) {
        struct window window =
            read_window(start, (size_t)(end - start), manner.scripts, manner.cased);
        struct borders borders = find_borders(&window, manner, (size_t)(end - start));
        uint32_t from = (uint32_t)(start - base);
        size_t place = scan_window(s, start, borders, from, &span);
        if (!place) { // longer than a window
            place = (size_t)(word_of(s, start) - start);
            *span++ = (struct span){ from, from + (uint32_t)place };
        }
        start += place;
    }
    *at = start;
    return (size_t)(span - spans);
}

// --- text without a pre-tokenizer --------------------------------------------

// A word begins where t->borders says that no token has a byte after the one before it. Bit i is
// set if one begins at byte i, or the text ends there; bit 0 is not.
static inline uint64_t whole_borders(const struct tokenizer *t, const char *at, size_t left)
{
    uint8_t rest[SCAN_WINDOW] = { 0 };
    const uint8_t *bytes = (const uint8_t *)at;
    if (left < SCAN_WINDOW)
        bytes = memcpy(rest, at, left);
    uint64_t sure = 0;
    for (size_t i = 0; i < SCAN_WINDOW && i < left; i += 8) {
        uint64_t flags = 0;
        for (size_t k = 0; k < 8; k++)
            flags |= (uint64_t)t->borders[bytes[i + k]][bytes[i + k - (i + k > 0)]] << 8 * k;
        sure |= gather(flags) << i;
    }
    uint64_t valid = left < SCAN_WINDOW ? (UINT64_C(1) << left) - 1 : UINT64_MAX;
    return (sure & valid & ~UINT64_C(1)) | (left < SCAN_WINDOW ? UINT64_C(1) << left : 0);
}

static const char *word_whole(const struct tokenizer *t, const char *at, const char *end)
{
    while (++at < end && !t->borders[(unsigned char)*at][(unsigned char)at[-1]])
        ;
    return at;
}

static size_t scan_whole(const struct tokenizer *t, const char *base, const char **at,
                         const char *end, struct span *spans, size_t room)
{
    struct span *span = spans, *full = spans + room;
    const char *start = *at;
    while (start < end && full - span >= SCAN_ROOM) {
        uint64_t ends = whole_borders(t, start, (size_t)(end - start));
        uint32_t from = (uint32_t)(start - base);
        size_t place;
        if (ends) {
            span = put_words(span, from, 0, ends);
            place = SCAN_WINDOW - 1 - (size_t)__builtin_clzll(ends);
        } else {
            place = (size_t)(word_whole(t, start, end) - start);
            *span++ = (struct span){ from, from + (uint32_t)place };
        }
        start += place;
    }
    *at = start;
    return (size_t)(span - spans);
}

size_t tokenizer_scan(const struct tokenizer *t, struct tokenizer_cache *cache, const char *base,
                      const char **at, const char *end, struct span *spans, size_t room)
{
    struct scanner s = { t, end, &cache->next_number };
    switch (t->scan) {
    case SCAN_GPT2:
    case SCAN_GPT2_DIGITS:
        return scan_words(&s, (struct manner){ .scripts = true }, base, at, spans, room);
    case SCAN_DEEPSEEK: {
        const struct manner manner = { .symbols_lead = true, .digits = 3, .lines = true };
        return scan_words(&s, manner, base, at, spans, room);
    }
    case SCAN_CL100K: {
        const struct manner manner = {
            .symbols_lead = true, .digits = 3, .lines = true, .scripts = true
        };
        return scan_words(&s, manner, base, at, spans, room);
    }
    case SCAN_CL100K_1: {
        const struct manner manner = {
            .symbols_lead = true, .digits = 1, .lines = true, .scripts = true
        };
        return scan_words(&s, manner, base, at, spans, room);
    }
    case SCAN_O200K: {
        const struct manner manner = { .symbols_lead = true,
                                       .cased = true,
                                       .digits = 3,
                                       .lines = true,
                                       .slashes = true,
                                       .scripts = true };
        return scan_words(&s, manner, base, at, spans, room);
    }
    case SCAN_TEKKEN: {
        const struct manner manner = { .symbols_lead = true,
                                       .cased = true,
                                       .digits = 1,
                                       .lines = true,
                                       .slashes = true,
                                       .scripts = true };
        return scan_words(&s, manner, base, at, spans, room);
    }
    case SCAN_WHOLE: return scan_whole(t, base, at, end, spans, room);
    case SCAN_NONE: break;
    }
    return 0;
}
