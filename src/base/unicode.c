// SPDX-License-Identifier: Apache-2.0
// UTF-8, character classes, case and normal forms, by lookup in generated tables.

#include "base/unicode.h"
#include "base/unicode_tables.h"

#include "base/text.h"

#include <string.h>

enum { // Hangul syllables are composed of jamos by arithmetic
    S_BASE = 0xAC00,
    L_BASE = 0x1100,
    V_BASE = 0x1161,
    T_BASE = 0x11A7,
    L_COUNT = 19,
    V_COUNT = 21,
    T_COUNT = 28,
    S_COUNT = L_COUNT * V_COUNT * T_COUNT,
};

#define COUNT(table) (sizeof(table) / sizeof *(table))

static bool follows(const char *at)
{
    return (*at & 0xC0) == 0x80;
}

uint32_t unicode_next_rare(const char **at, const char *end)
{
    const char *s = *at;
    size_t left = (size_t)(end - s);
    uint32_t c = (unsigned char)*s;
    *at = s + 1;
    if (c >= 0xF0 && c < 0xF5 && left > 3 && follows(s + 1) && follows(s + 2) && follows(s + 3)) {
        uint32_t code =
            (c & 7) << 18 | (uint32_t)(s[1] & 63) << 12 | (uint32_t)(s[2] & 63) << 6 | (s[3] & 63);
        if (code >= 0x10000 && code < 0x110000) {
            *at = s + 4;
            return code;
        }
    }
    return UNICODE_BAD + c;
}

uint32_t unicode_before(const char *start, const char *at)
{
    for (int size = 1; size <= UNICODE_BYTES && at - start >= size; size++) {
        const char *from = at - size;
        if (follows(from))
            continue;
        uint32_t code = unicode_next(&from, at);
        if (from == at)
            return code;
        break;
    }
    return UNICODE_BAD + (unsigned char)at[-1];
}

int unicode_put(char *out, uint32_t code)
{
    if (code >= UNICODE_BAD) {
        out[0] = (char)(code - UNICODE_BAD);
        return 1;
    }
    return (int)text_put_utf8(out, code);
}

enum { VALID_BLOCK = 64, VALID_BEFORE = 3 }; // bytes checked at once, and those before them

static bool is_ascii_block(const uint8_t *bytes)
{
    uint8_t any = 0;
    for (int i = 0; i < VALID_BEFORE + VALID_BLOCK; i++)
        any |= bytes[i];
    return any < 0x80;
}

// Whether the block goes on with what the three bytes before it begin, as UTF-8 does. A byte must
// continue a character exactly if one of the three before it begins one that is long enough; the
// second byte of some has limits.
static bool is_valid_block(const uint8_t *bytes)
{
    uint8_t bad = 0;
    for (int i = VALID_BEFORE; i < VALID_BEFORE + VALID_BLOCK; i++) { // compilers vectorize this
        uint8_t c = bytes[i], last = bytes[i - 1];
        uint8_t must = (last >= 0xC0) | (bytes[i - 2] >= 0xE0) | (bytes[i - 3] >= 0xF0);
        uint8_t continues = (c & 0xC0) == 0x80;
        bad |= must ^ continues;
        bad |= (c == 0xC0) | (c == 0xC1) | (c > 0xF4);
        bad |= ((last == 0xE0) & (c < 0xA0)) | ((last == 0xED) & (c > 0x9F)); // long, surrogate
        bad |= ((last == 0xF0) & (c < 0x90)) | ((last == 0xF4) & (c > 0x8F)); // long, too large
    }
    return !bad;
}

// The same, for blocks without characters of four bytes: false for others.
static bool is_usual_block(const uint8_t *bytes)
{
    uint8_t bad = 0;
    for (int i = VALID_BEFORE; i < VALID_BEFORE + VALID_BLOCK; i++) { // and this
        uint8_t c = bytes[i], last = bytes[i - 1];
        uint8_t must = (last >= 0xC0) | (bytes[i - 2] >= 0xE0);
        uint8_t continues = (int8_t)c < -64;
        bad |= (must ^ continues) | ((c & 0xFE) == 0xC0) | (c >= 0xF0);
        bad |= ((last == 0xE0) & (c < 0xA0)) | ((last == 0xED) & (c > 0x9F));
    }
    return !bad && bytes[0] < 0xF0 && bytes[1] < 0xF0 && bytes[2] < 0xF0;
}

static bool is_good_block(const uint8_t *bytes)
{
    return is_ascii_block(bytes) || is_usual_block(bytes) || is_valid_block(bytes);
}

// Skips blocks that are good, up to the character that is not complete in them. The bytes before
// `at` are whole characters.
static const char *skip_valid(const char *at, const char *end)
{
    while (end - at >= VALID_BLOCK && is_good_block((const uint8_t *)at - VALID_BEFORE))
        at += VALID_BLOCK;
    for (int back = 1; back <= VALID_BEFORE; back++)
        if (!follows(at - back))
            return (unsigned char)at[-back] >= 0xC0 ? at - back : at;
    return at;
}

static bool is_valid_until(const char **at, const char *stop, const char *end)
{
    while (*at < stop)
        if (unicode_next(at, end) >= UNICODE_BAD)
            return false;
    return true;
}

bool unicode_valid(const char *at, size_t size)
{
    const char *end = at + size;
    if (size < VALID_BEFORE + VALID_BLOCK)
        return is_valid_until(&at, end, end);
    if (!is_valid_until(&at, at + VALID_BEFORE, end))
        return false;
    at = skip_valid(at, end);
    bool whole = (uint8_t)end[-1] < 0xC0 && (uint8_t)end[-2] < 0xE0 && (uint8_t)end[-3] < 0xF0;
    if (end - at < VALID_BLOCK && whole &&
        is_good_block((const uint8_t *)end - VALID_BLOCK - VALID_BEFORE)) // the rest, with more
        return true;
    return is_valid_until(&at, end, end);
}

// The bytes of a broken character: as many as begin one, at least one.
static size_t broken_size(const char *at, const char *end)
{
    unsigned char lead = (unsigned char)*at, second = at + 1 < end ? (unsigned char)at[1] : 0;
    unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (lead < 0xE0 || lead > 0xF4 || second < low || second > high)
        return 1;
    return lead >= 0xF0 && at + 2 < end && follows(at + 2) ? 3 : 2;
}

struct text unicode_repair(struct arena *arena, struct text text)
{
    if (unicode_valid(text.at, text.size))
        return text;
    struct out out = { .arena = arena };
    for (const char *at = text.at, *end = at + text.size; at < end;) {
        const char *start = at;
        bool bad = unicode_next(&at, end) >= UNICODE_BAD;
        at = bad ? start + broken_size(start, end) : at;
        out_bytes(&out, bad ? "\xEF\xBF\xBD" : start, bad ? 3 : (size_t)(at - start));
    }
    return out_view(&out);
}

static uint32_t find_case(const struct unicode_case *table, size_t count, uint32_t code)
{
    size_t low = 0;
    for (size_t high = count; low < high;) {
        size_t middle = (low + high) / 2;
        if (table[middle].code < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && table[low].code == code ? table[low].to : code;
}

uint32_t unicode_lower(uint32_t code)
{
    if (code < 0x80)
        return code >= 'A' && code <= 'Z' ? code + 32 : code;
    return find_case(lower_cases, COUNT(lower_cases), code);
}

uint32_t unicode_fold(uint32_t code)
{
    uint32_t to = find_case(other_folds, COUNT(other_folds), code);
    return to != code ? to : unicode_lower(code);
}

int unicode_combining(uint32_t code)
{
    // Common scripts without the search: letters of Arabic, kana, Chinese; Arabic vowels, each with
    // a class of its own; Thai's vowels below a letter, its dot below and its tones.
    if (code < 0x300 || (code >= 0x620 && code < 0x64B) || (code >= 0x309B && code < 0xA66F))
        return 0;
    if (code >= 0x64B && code < 0x653)
        return (int)(code - 0x64B) + 27;
    if (code >= 0xE00 && code < 0xE80)
        return code >= 0xE48 && code <= 0xE4B   ? 107
               : code == 0xE38 || code == 0xE39 ? 103
               : code == 0xE3A                  ? 9
                                                : 0;
    size_t low = 0, high = COUNT(combining_classes);
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (combining_classes[middle] >> 8 < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low < COUNT(combining_classes) && combining_classes[low] >> 8 == code
               ? (int)(combining_classes[low] & 255)
               : 0;
}

// --- normal forms ------------------------------------------------------------

// The code points of the mapping; none if there is no mapping.
static size_t find_rule(const struct unicode_rule *rules, size_t count, uint32_t code, size_t *at)
{
    size_t low = 0;
    for (size_t high = count - 1; low < high;) { // the last entry is a sentinel
        size_t middle = (low + high) / 2;
        if (rules[middle].code < code)
            low = middle + 1;
        else
            high = middle;
    }
    *at = rules[low].at;
    return low < count - 1 && rules[low].code == code ? rules[low + 1].at - rules[low].at : 0;
}

static size_t decomposition(uint32_t code, bool compatible, uint32_t hangul[3],
                            const uint32_t **mapping)
{
    if (code < 0xA0)
        return 0;
    if (code >= S_BASE && code < S_BASE + S_COUNT) {
        uint32_t index = code - S_BASE;
        hangul[0] = L_BASE + index / (V_COUNT * T_COUNT);
        hangul[1] = V_BASE + index / T_COUNT % V_COUNT;
        hangul[2] = T_BASE + index % T_COUNT;
        *mapping = hangul;
        return index % T_COUNT ? 3 : 2;
    }
    size_t at,
        count = compatible ? find_rule(compatible_rules, COUNT(compatible_rules), code, &at) : 0;
    if (count) {
        *mapping = compatible_pool + at;
        return count;
    }
    if (code >= 0x627 && code < 0x6C0) // Arabic, without the search
        return 0;
    count = find_rule(canonical_rules, COUNT(canonical_rules), code, &at);
    *mapping = canonical_pool + at;
    return count;
}

// Sorts marks by combining class (stable). Their origins are not moved: the n-th mark after sorting
// has the n-th origin, as in the library.
static void order_marks(struct arena *arena, struct unicode_point *at, size_t count)
{
    if (count < 2)
        return;
    struct arena_mark mark = arena_mark(arena);
    uint32_t *sorted = ARENA_NEW(arena, uint32_t, count);
    size_t starts[257] = { 0 };
    for (size_t i = 0; i < count; i++)
        starts[unicode_combining(at[i].code) + 1]++;
    for (int i = 0; i < 256; i++)
        starts[i + 1] += starts[i];
    for (size_t i = 0; i < count; i++)
        sorted[starts[unicode_combining(at[i].code)]++] = at[i].code;
    for (size_t i = 0; i < count; i++)
        at[i].code = sorted[i];
    arena_rewind(arena, mark);
}

static void order_all(struct arena *arena, struct unicode_points points)
{
    for (size_t i = 0; i < points.count;) {
        if (!unicode_combining(points.at[i].code)) {
            i++;
            continue;
        }
        size_t start = i;
        while (i < points.count && unicode_combining(points.at[i].code))
            i++;
        order_marks(arena, points.at + start, i - start);
    }
}

// The character that the two compose, or 0.
static uint32_t composition(uint32_t first, uint32_t second)
{
    if (first >= L_BASE && first < L_BASE + L_COUNT && second >= V_BASE &&
        second < V_BASE + V_COUNT)
        return S_BASE + ((first - L_BASE) * V_COUNT + (second - V_BASE)) * T_COUNT;
    if (first >= S_BASE && first < S_BASE + S_COUNT && (first - S_BASE) % T_COUNT == 0 &&
        second > T_BASE && second < T_BASE + T_COUNT)
        return first + (second - T_BASE);
    if (second < 0x300 || (second > 0x345 && second < 0x653)) // no mark that composes
        return 0;
    size_t low = 0, high = COUNT(compositions);
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct unicode_composition *c = &compositions[middle];
        if (c->first < first || (c->first == first && c->second < second))
            low = middle + 1;
        else
            high = middle;
    }
    return low < COUNT(compositions) && compositions[low].first == first &&
                   compositions[low].second == second
               ? compositions[low].whole
               : 0;
}

static size_t compose_all(struct unicode_point *at, size_t count)
{
    size_t written = 0, starter = SIZE_MAX;
    int last = 0; // combining class of the last mark kept after the starter
    for (size_t i = 0; i < count; i++) {
        int combining = unicode_combining(at[i].code);
        bool blocked = starter == SIZE_MAX || (written > starter + 1 && last >= combining);
        uint32_t whole = blocked ? 0 : composition(at[starter].code, at[i].code);
        if (whole) {
            at[starter].code = whole;
            // The origin that is dropped is the one next to the starter: those between move up.
            uint32_t origin = at[i].origin;
            for (size_t k = written; k-- > starter + 1;) {
                uint32_t before = at[k].origin;
                at[k].origin = origin;
                origin = before;
            }
            continue;
        }
        if (!combining)
            starter = written;
        last = combining;
        at[written++] = at[i];
    }
    return written;
}

struct unicode_points unicode_normalize(struct arena *arena, enum unicode_form form,
                                        struct unicode_points in)
{
    bool compatible = form == UNICODE_NFKC || form == UNICODE_NFKD;
    uint32_t hangul[3];
    const uint32_t *mapping;
    struct unicode_points out = { 0 };
    size_t total = 0;
    for (size_t i = 0; i < in.count; i++) {
        size_t count = decomposition(in.at[i].code, compatible, hangul, &mapping);
        total += count ? count : 1;
    }
    out.at = ARENA_NEW(arena, struct unicode_point, total);
    for (size_t i = 0; i < in.count; i++) {
        size_t count = decomposition(in.at[i].code, compatible, hangul, &mapping);
        if (!count)
            out.at[out.count++] = in.at[i];
        for (size_t k = 0; k < count; k++)
            out.at[out.count++] = (struct unicode_point){ mapping[k], in.at[i].origin };
    }
    order_all(arena, out);
    if (form == UNICODE_NFC || form == UNICODE_NFKC)
        out.count = compose_all(out.at, out.count);
    return out;
}

// Whether a character above U+0300 may change in NFC or combine with its neighbours.
static bool is_unstable(uint32_t code)
{
    // Common scripts whose letters neither combine nor decompose.
    if ((code >= 0x3400 && code < 0xA000) || (code >= 0x3041 && code < 0x3099) ||
        (code >= 0x309B && code < 0x3100) || (code >= S_BASE && code < S_BASE + S_COUNT) ||
        (code >= 0x400 && code < 0x483) || (code >= 0x620 && code < 0x64B) ||
        (code >= 0x2010 && code < 0x2120))
        return false;
    if (code >= UNICODE_BAD)
        return false;
    if (unicode_is(code, UNICODE_MARK) || (code >= V_BASE && code < T_BASE + T_COUNT))
        return true;
    uint32_t hangul[3];
    const uint32_t *mapping;
    size_t count = decomposition(code, false, hangul, &mapping);
    if (!count)
        return false;
    struct unicode_point parts[8];
    if (count > COUNT(parts))
        return true;
    for (size_t i = 0; i < count; i++)
        parts[i].code = mapping[i];
    return compose_all(parts, count) != 1 || parts[0].code != code;
}

// Whether no character that begins in the first CALM_BYTES bytes is unstable or has an order, told
// from their bytes: those below U+0300, Cyrillic, Arabic letters, Chinese, Korean, kana and the
// punctuation around them. Two more bytes are read.
enum { CALM_BYTES = 32 };

static bool is_calm(const char *at)
{
    const uint8_t *s = (const uint8_t *)at;
    uint8_t highest = 0, other = 0;
    for (int i = 0; i < CALM_BYTES; i++) // compilers vectorize this
        highest = s[i] > highest ? s[i] : highest;
    if (highest < 0xCC) // U+0300
        return true;
    for (int i = 0; i < CALM_BYTES; i++) { // and this
        uint8_t c = s[i], second = s[i + 1], third = s[i + 2];
        uint8_t low = c < 0xCC, cyrillic = (c & 0xFE) == 0xD0;
        uint8_t han = (uint8_t)(c - 0xE4) < 6, hangul = (uint8_t)(c - 0xEB) < 2;
        uint8_t ea = c == 0xEA, from_ac00 = second >= 0xB0;
        uint8_t ed = c == 0xED, to_d77f = second < 0x9E;
        uint8_t d8 = c == 0xD8, honorific = (uint8_t)(second - 0x90) < 11;
        uint8_t d9 = c == 0xD9, letter = second < 0x8B;
        uint8_t e3 = c == 0xE3, to_30ff = second < 0x84, first = second == 0x80;
        uint8_t kana = second == 0x82, tone = (uint8_t)(third - 0xAA) < 6;
        uint8_t voice = (uint8_t)(third - 0x99) < 2;
        uint8_t e2 = c == 0xE2, from_2010 = third >= 0x90;
        uint8_t ef = c == 0xEF, wide = (uint8_t)(second - 0xBC) < 2;
        uint8_t marks = (uint8_t)(first & tone) | (uint8_t)(kana & voice); // U+302A …, U+3099 …
        uint8_t calm = low | cyrillic | han | hangul | (ea & from_ac00) | (ed & to_d77f);
        calm |= (d8 & ~honorific) | (d9 & letter) | (e3 & to_30ff & ~marks);
        calm |= (e2 & first & from_2010) | (ef & wide);
        other |= (uint8_t)~calm & 1;
    }
    return !other;
}

bool unicode_is_nfc(const char *at, size_t size)
{
    const char *end = at + size;
    int last = 0; // combining class of the character before
    while (at < end) {
        for (; end - at >= CALM_BYTES + 2 && is_calm(at); at += CALM_BYTES)
            last = 0;
        for (const char *stop = end - at > CALM_BYTES ? at + CALM_BYTES : end; at < stop;) {
            uint32_t code = unicode_next(&at, end);
            // Marks of Thai and vowels of Arabic do not compose, but have an order.
            bool ordered = (code >= 0xE00 && code < 0xE80) || (code >= 0x64B && code < 0x653);
            int class = ordered ? unicode_combining(code) : 0;
            if ((class && class < last) || (code >= 0x300 && !ordered && is_unstable(code)))
                return false;
            last = class;
        }
    }
    return true;
}

// --- scripts -----------------------------------------------------------------

static uint32_t range_value(const struct unicode_range *ranges, size_t count, uint32_t code)
{
    size_t low = 0, high = count; // ranges[low].first <= code < ranges[high].first
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        *(ranges[middle].first <= code ? &low : &high) = middle;
    }
    return code < UNICODE_BAD ? ranges[low].value : 0;
}

#define RANGE_VALUE(ranges, code) range_value(ranges, sizeof ranges / sizeof *ranges, code)

int unicode_script(uint32_t code)
{
    return (int)RANGE_VALUE(script_ranges, code);
}

unsigned unicode_traits(uint32_t code)
{
    return RANGE_VALUE(trait_ranges, code);
}

// Names are compared as regular expressions do: without regard to case, spaces, - and _.
int unicode_script_named(const char *name, size_t size)
{
    for (size_t i = 1; i < sizeof script_names / sizeof *script_names; i++) {
        const char *want = script_names[i], *end = name + size, *at = name;
        for (; at < end && (*want || strchr(" -_", *at)); at++) {
            if (strchr(" -_", *at))
                continue;
            want += *want == '_';
            if ((*at | 32) != (*want | 32))
                break;
            want++;
        }
        if (at == end && !*want)
            return (int)i;
    }
    return -1;
}

const char *unicode_script_name(int script)
{
    bool known = script >= 0 && (size_t)script < sizeof script_names / sizeof *script_names;
    return known ? script_names[script] : NULL;
}

// --- older versions ----------------------------------------------------------

// Characters whose category changed after Unicode 8.
static const struct unicode_case old_categories[] = {
    { 0x166D, UNICODE_PO }, { 0x1734, UNICODE_MN },  { 0x1885, UNICODE_LO },
    { 0x1886, UNICODE_LO }, { 0x1CF2, UNICODE_MC },  { 0x1CF3, UNICODE_MC },
    { 0xA9BD, UNICODE_MC }, { 0x111C9, UNICODE_PO }, { 0x1171E, UNICODE_MN },
};

bool unicode_was(uint32_t code, uint32_t categories)
{
    for (size_t i = 0; i < sizeof old_categories / sizeof *old_categories; i++)
        if (old_categories[i].code == code)
            return categories >> old_categories[i].to & 1;
    return unicode_class(code) & UNICODE_OLD && unicode_is(code, categories);
}

bool unicode_was_mark(uint32_t code)
{
    return unicode_was(code, UNICODE_MARK) || code == 0x1885 || code == 0x1886 ||
           RANGE_VALUE(young_marks, code);
}

bool unicode_was_assigned(uint32_t code)
{
    static const uint32_t added[][2] = {
        // by Unicode 9
        { 0x8B6, 0x8BD },     { 0x8D4, 0x8E2 },     { 0xC80, 0xC80 },     { 0xD4F, 0xD4F },
        { 0xD54, 0xD56 },     { 0xD58, 0xD5E },     { 0xD76, 0xD78 },     { 0x1C80, 0x1C88 },
        { 0x1DFB, 0x1DFB },   { 0x23FB, 0x23FE },   { 0x2E43, 0x2E44 },   { 0xA8C5, 0xA8C5 },
        { 0x1018D, 0x1018E }, { 0x104B0, 0x104D3 }, { 0x104D8, 0x104FB }, { 0x1123E, 0x1123E },
        { 0x11400, 0x11459 }, { 0x1145B, 0x1145B }, { 0x1145D, 0x1145D }, { 0x11660, 0x1166C },
        { 0x11C00, 0x11C08 }, { 0x11C0A, 0x11C36 }, { 0x11C38, 0x11C45 }, { 0x11C50, 0x11C6C },
        { 0x11C70, 0x11C8F }, { 0x11C92, 0x11CA7 }, { 0x11CA9, 0x11CB6 }, { 0x16FE0, 0x16FE0 },
        { 0x17000, 0x187EC }, { 0x18800, 0x18AF2 }, { 0x1E000, 0x1E006 }, { 0x1E008, 0x1E018 },
        { 0x1E01B, 0x1E021 }, { 0x1E023, 0x1E024 }, { 0x1E026, 0x1E02A }, { 0x1E900, 0x1E94A },
        { 0x1E950, 0x1E959 }, { 0x1E95E, 0x1E95F }, { 0x1F19B, 0x1F1AC }, { 0x1F23B, 0x1F23B },
        { 0x1F57A, 0x1F57A }, { 0x1F5A4, 0x1F5A4 }, { 0x1F6D1, 0x1F6D2 }, { 0x1F6F4, 0x1F6F6 },
        { 0x1F919, 0x1F91E }, { 0x1F920, 0x1F927 }, { 0x1F930, 0x1F930 }, { 0x1F933, 0x1F93E },
        { 0x1F940, 0x1F94B }, { 0x1F950, 0x1F95E }, { 0x1F985, 0x1F991 },
    };
    for (size_t i = 0; i < sizeof added / sizeof *added; i++)
        if (code >= added[i][0] && code <= added[i][1])
            return true;
    return unicode_class(code) & UNICODE_OLD;
}

// --- clusters ----------------------------------------------------------------

// Grapheme_Cluster_Break, and Extended_Pictographic; the order of tools/unicode.mjs.
enum part { OTHER, CONTROL, EXTEND, JOINER, REGION, PREPEND, SPACING, L, V, T, LV, LVT, PICTURE };

static enum part part_of(uint32_t code)
{
    if (code < 0x300)
        return code < ' ' || (code >= 0x7F && code < 0xA0) || code == 0xAD ? CONTROL
               : code == 0xA9 || code == 0xAE                              ? PICTURE
                                                                           : OTHER;
    if (code >= 0x3400 && code < 0xA000) // ideographs
        return OTHER;
    return (enum part)RANGE_VALUE(part_ranges, code);
}

// What the rules need of the cluster so far.
struct cluster {
    enum part last;
    bool picture;  // a picture and marks
    bool odd;      // an odd number of regional indicators
    uint32_t code; // the last character
};

static bool joins(const struct cluster *c, uint32_t code, enum part part)
{
    if (c->code == '\r' && code == '\n')
        return true;
    if (c->last == CONTROL || part == CONTROL)
        return false;
    if (part == EXTEND || part == JOINER || part == SPACING || c->last == PREPEND)
        return true;
    switch (c->last) {
    case L: return part == L || part == V || part == LV || part == LVT;
    case LV:
    case V: return part == V || part == T;
    case LVT:
    case T: return part == T;
    case JOINER: return c->picture && part == PICTURE;
    case REGION: return c->odd && part == REGION;
    default: return false;
    }
}

// What precedes a cluster that begins in the middle of one.
static void look_back(struct cluster *c, const char *start, const char *at)
{
    bool marks = c->last == EXTEND || c->last == JOINER;
    while (at > start && (marks || c->last == REGION)) {
        char bytes[UNICODE_BYTES];
        uint32_t code = unicode_before(start, at);
        enum part part = part_of(code);
        at -= unicode_put(bytes, code);
        c->picture = marks && part == PICTURE;
        if (part != REGION && part != EXTEND && part != JOINER)
            break;
        if (marks != (part != REGION))
            break;
        c->odd = !marks && !c->odd;
    }
}

size_t unicode_cluster(const char *start, const char *at, const char *end)
{
    const char *first = at;
    uint32_t code = unicode_next(&at, end);
    enum part part = part_of(code);
    struct cluster c = { part, part == PICTURE, part == REGION, code };
    look_back(&c, start, first);
    for (const char *next = at; at < end; at = next) {
        code = unicode_next(&next, end);
        part = part_of(code);
        if (!joins(&c, code, part))
            break;
        c.picture = part == PICTURE || (c.picture && (part == EXTEND || part == JOINER));
        c.odd = part == REGION && !c.odd;
        c.last = part;
        c.code = code;
    }
    return (size_t)(at - first);
}
