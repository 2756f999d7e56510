// SPDX-License-Identifier: Apache-2.0
// Unicode properties against the standard's own examples (UAX 15) and tables.

#include "base/unicode.h"

#include "base/rng.h"
#include "test/test.h"

#include <string.h>

static bool becomes(enum unicode_form form, const char *from, const char *to)
{
    struct unicode_points points = { ARENA_NEW(&test_arena, struct unicode_point, 64), 0 };
    for (const char *at = from, *end = from + strlen(from); at < end;) {
        uint32_t origin = (uint32_t)(at - from);
        points.at[points.count++] = (struct unicode_point){ unicode_next(&at, end), origin };
    }
    points = unicode_normalize(&test_arena, form, points);
    char bytes[512];
    size_t size = 0;
    for (size_t i = 0; i < points.count; i++)
        size += (size_t)unicode_put(bytes + size, points.at[i].code);
    return size == strlen(to) && !memcmp(bytes, to, size);
}

TEST(normal_forms_are_those_of_the_standard)
{
    CHECK(becomes(UNICODE_NFC, "e\u0301", "\u00e9"));
    CHECK(becomes(UNICODE_NFD, "\u00e9", "e\u0301"));
    CHECK(becomes(UNICODE_NFC, "\u212b", "\u00c5"));
    CHECK(becomes(UNICODE_NFD, "\u1e69", "s\u0323\u0307"));
    CHECK(becomes(UNICODE_NFC, "s\u0307\u0323", "\u1e69"));
    CHECK(becomes(UNICODE_NFC, "\u1e9b\u0323", "\u1e9b\u0323"));
    CHECK(becomes(UNICODE_NFKC, "\u1e9b\u0323", "\u1e69"));
    CHECK(becomes(UNICODE_NFKD, "\ufb01", "fi"));
    CHECK(becomes(UNICODE_NFC, "\ufb01", "\ufb01"));
    CHECK(becomes(UNICODE_NFC, "\u1112\u1161\u11ab", "\ud55c"));
    CHECK(becomes(UNICODE_NFD, "\ud55c", "\u1112\u1161\u11ab"));
    CHECK(becomes(UNICODE_NFC, "\u0958", "\u0915\u093c")); // excluded from composition
}

TEST(normal_forms_are_idempotent)
{
    for (uint32_t code = 0x80; code < 0x30000; code++) {
        if (code >= 0xD800 && code < 0xE000)
            continue;
        char bytes[8] = { 0 }, once[256] = { 0 };
        bytes[unicode_put(bytes, code)] = 0;
        struct unicode_point point = { code, 0 };
        struct unicode_points nfc =
            unicode_normalize(&test_arena, UNICODE_NFC, (struct unicode_points){ &point, 1 });
        size_t size = 0;
        for (size_t i = 0; i < nfc.count; i++)
            size += (size_t)unicode_put(once + size, nfc.at[i].code);
        struct unicode_points again = unicode_normalize(&test_arena, UNICODE_NFC, nfc);
        CHECK(again.count == nfc.count && again.at[0].code == nfc.at[0].code);
        // The quick check may be undecided, but never wrong.
        if (unicode_is_nfc(bytes, strlen(bytes)))
            CHECK(size == strlen(bytes) && !memcmp(bytes, once, size));
        if (code % 4096 == 0)
            arena_release(&test_arena);
    }
}

TEST(the_quick_check_of_nfc_is_right_for_long_texts_of_many_scripts)
{
    static const uint32_t starts[] = { 'a',    0xE0,   0x300,  0x410,  0x610,  0x630,  0x650,
                                       0xE30,  0x1100, 0x2000, 0x3020, 0x3040, 0x3090, 0x3130,
                                       0x4E00, 0x9FF0, 0xABE0, 0xAC00, 0xD7A0, 0xFF00, 0xFF90 };
    struct rng rng = rng_seeded(3);
    int calm = 0;
    for (int round = 0; round < 3000; round++) {
        struct unicode_point points[80];
        char text[4 * 80];
        size_t size = 0, rare = rng_below(&rng, 80); // one character of another script
        uint32_t script = starts[rng_below(&rng, sizeof starts / sizeof *starts)];
        for (size_t i = 0; i < 80; i++) {
            uint32_t from =
                i == rare ? starts[rng_below(&rng, sizeof starts / sizeof *starts)] : script;
            points[i] = (struct unicode_point){ from + (uint32_t)rng_below(&rng, 24), 0 };
            size += (size_t)unicode_put(text + size, points[i].code);
        }
        struct unicode_points nfc =
            unicode_normalize(&test_arena, UNICODE_NFC, (struct unicode_points){ points, 80 });
        bool same = nfc.count == 80;
        for (size_t i = 0; same && i < 80; i++)
            same = nfc.at[i].code == points[i].code;
        CHECK(same || !unicode_is_nfc(text, size));
        calm += unicode_is_nfc(text, size);
        arena_release(&test_arena);
    }
    CHECK(calm > 1000);
}

TEST(classes_are_those_of_unicode_16)
{
    CHECK(unicode_is('a', UNICODE_LETTER) && unicode_is(0x4E2D, UNICODE_SET(LO)));
    CHECK(unicode_is(0x1C89, UNICODE_SET(LU))); // new in 16.0
    CHECK(unicode_is(0x2168, UNICODE_SET(NL)) && unicode_is(0xBD, UNICODE_SET(NO)));
    CHECK(unicode_is(0x301, UNICODE_MARK) && unicode_is(0x1F600, UNICODE_SET(SO)));
    static const uint32_t spaces[] = { 9, 0x20, 0x85, 0xA0, 0x1680, 0x2028, 0x3000 };
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        CHECK(unicode_class(spaces[i]) & UNICODE_SPACE);
    CHECK(!(unicode_class(0x200B) & UNICODE_SPACE) && !unicode_class(UNICODE_BAD + 200));
    CHECK(unicode_class('_') & UNICODE_WORD && !(unicode_class('-') & UNICODE_WORD));
}

TEST(case_maps_and_folds)
{
    CHECK(unicode_lower('Q') == 'q' && unicode_lower(0xC9) == 0xE9 &&
          unicode_lower(0x42F) == 0x44F);
    CHECK(unicode_fold(0x17F) == 's' && unicode_fold(0x212A) == 'k' &&
          unicode_fold(0x3C2) == 0x3C3);
}

TEST(bytes_that_are_not_utf8_are_read_one_by_one)
{
    static const char *const bad[] = { "\x80",     "\xC0\x80", "\xC3",         "\xE2\x82",
                                       "\xED\xA0", "\xF5\x80", "\xF4\x90\x80", "\xE0\x80\x80" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *at = bad[i], *end = bad[i] + strlen(bad[i]);
        CHECK(unicode_next(&at, end) == (uint32_t)UNICODE_BAD + (unsigned char)bad[i][0]);
        CHECK(at == bad[i] + 1 && !unicode_valid(bad[i], strlen(bad[i])));
    }
    for (uint32_t code = 0; code < 0x110000; code += 7) {
        if (code >= 0xD800 && code < 0xE000)
            continue;
        char bytes[UNICODE_BYTES];
        const char *at = bytes, *end = bytes + unicode_put(bytes, code);
        CHECK(unicode_before(bytes, end) == code);
        CHECK(unicode_next(&at, end) == code && at == end);
    }
}

TEST(scripts_are_found_by_name_without_regard_to_case)
{
    int han = unicode_script_named("Han", 3);
    CHECK(han > 0 && unicode_script(0x4E2D) == han && unicode_script('a') != han);
    CHECK(unicode_script_named("old-italic", 10) == unicode_script(0x10300));
    CHECK(unicode_script_named("Klingon", 7) < 0 && !unicode_script(0x10FFFF));
}

TEST(clusters_hold_what_a_reader_sees_as_one_character)
{
    static const struct {
        const char *text;
        size_t size;
    } cases[] = {
        { "ab", 1 },
        { "\r\nx", 2 },
        { "\t\xE2\x80\x8D", 1 },                                 // a control character stands alone
        { "B\xE2\x80\x8C", 4 },                                  // U+200C extends
        { "e\xCC\x81x", 3 },                                     // e and an accent
        { "\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8", 9 },           // a Hangul syllable of three
        { "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7x", 11 }, // two people, joined
        { "\xF0\x9F\x87\xA9\xF0\x9F\x87\xAA\xF0\x9F\x87\xAB", 8 }, // a flag, half a flag
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *at = cases[i].text;
        CHECK(unicode_cluster(at, at, at + strlen(at)) == cases[i].size);
    }
}

static bool is_valid_by_characters(const char *at, const char *end)
{
    while (at < end)
        if (unicode_next(&at, end) >= UNICODE_BAD)
            return false;
    return true;
}

// Runs of ASCII, of characters of two, three and four bytes, a byte of which is changed in every
// other text.
TEST(valid_utf8_is_told_64_bytes_at_once_as_by_single_characters)
{
    static const uint32_t first[] = { 0, 0x80, 0x800, 0xD000, 0xE000, 0x10000 };
    static const uint32_t range[] = { 0x80, 0x780, 0xC800, 0x800, 0x2000, 0x100000 };
    struct rng rng = rng_seeded(8);
    int valid = 0, different = 0;
    for (int i = 0; i < 100000 / TEST_CASES_OF; i++) {
        char text[320];
        size_t size = 0, least = i % 4 < 2 ? 40 : 200; // blocks of 64 bytes are checked at once
        while (size < least) {
            size_t kind = rng_below(&rng, 6);
            for (uint64_t run = 1 + rng_below(&rng, 8); run--;)
                size += (size_t)unicode_put(text + size,
                                            first[kind] + (uint32_t)rng_below(&rng, range[kind]));
        }
        if (i % 2) {
            char *at = text + rng_below(&rng, size);
            *at = rng_below(&rng, 2) ? (char)rng_below(&rng, 256)
                                     : (char)(*at ^ (1 << rng_below(&rng, 8)));
        }
        bool now = unicode_valid(text, size);
        valid += now;
        different += now != is_valid_by_characters(text, text + size);
    }
    CHECK(!different && valid > 50000 / TEST_CASES_OF && valid < 80000 / TEST_CASES_OF);
}

TEST(valid_utf8_may_break_and_end_at_every_place_of_a_block)
{
    static const char *const parts[] = {
        "\xC3\xA9",         "\xE4\xB8\xAD", "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF", "\xC3",
        "\xE4\xB8",         "\xE4",         "\xF0\x9F\x98",     "\xF0\x9F",         "\xF0",
        "\xE0\x9F\xBF",     "\xED\xA0\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xC0\x80",
        "\xF5\x80\x80\x80", "\x80",         "\xE0\xA0\x80\x80",
    };
    static const char *const around[] = { "a", "\xE4\xB8\xAD" }; // a block of either is told alone
    for (size_t i = 0; i < 2 * sizeof parts / sizeof *parts; i++)
        for (size_t place = 0; place < 140; place++) {
            char text[320];
            const char *fill = around[i % 2], *part = parts[i / 2];
            size_t size = 0, each = strlen(fill);
            for (; size < place; size += each)
                memcpy(text + size, fill, each);
            memcpy(text + size, part, strlen(part));
            size += strlen(part);
            size_t shortest = size;
            for (; size < 220; size += each)
                memcpy(text + size, fill, each);
            for (; size >= shortest; size--)
                CHECK(unicode_valid(text, size) == is_valid_by_characters(text, text + size));
        }
}

TEST(bytes_that_are_not_utf8_become_replacement_characters_as_python_decodes_them)
{
    static const char *const cases[][2] = {
        // Python's bytes.decode('utf-8', 'replace'), ? for U+FFFD
        { "ok \xC3\xA9", "ok \xC3\xA9" },
        { "\xFFx", "?x" },
        { "\xE4\xB8x", "?x" },
        { "\xF0\x9F\x98", "?" },
        { "\xF0\x80\x80", "???" },
        { "\xED\xA0\x80", "???" },
        { "\xC3(", "?(" },
        { "\xF4\x90", "??" },
        { "\xE4\xB8\xE4\xB8\xAD", "?\xE4\xB8\xAD" },
        { "\xC0\x80", "??" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text got = unicode_repair(&test_arena, text_of(cases[i][0]));
        struct out want = { .arena = &test_arena };
        for (const char *c = cases[i][1]; *c; c++)
            out_bytes(&want, *c == '?' ? "\xEF\xBF\xBD" : c, *c == '?' ? 3 : 1);
        CHECK(text_equal(got, out_view(&want)));
    }
}

TEST(thai_and_arabic_marks_in_order_are_in_nfc_and_others_may_not_be)
{
    static const char right[] =
        "\xE0\xB8\x81\xE0\xB8\xB8\xE0\xB9\x88 \xD8\xA8\xD9\x8E\xD9\x91"; // 103 107, 30 33
    static const char wrong[] = "\xE0\xB8\x81\xE0\xB9\x88\xE0\xB8\xB8";  // 107 103
    static const char other[] = "\xD8\xA8\xD9\x91\xD9\x8E";              // 33 30
    CHECK(unicode_is_nfc(right, sizeof right - 1));
    CHECK(!unicode_is_nfc(wrong, sizeof wrong - 1));
    CHECK(!unicode_is_nfc(other, sizeof other - 1));
}

// Told without the table's search. Classes as in UnicodeData.txt.
TEST(combining_classes_of_arabic_and_thai_are_those_of_the_standard)
{
    for (uint32_t code = 0x620; code < 0x653; code++)
        CHECK(unicode_combining(code) == (code < 0x64B ? 0 : (int)(27 + code - 0x64B)));
    for (uint32_t code = 0xE00; code < 0xE80; code++) {
        bool below = code == 0xE38 || code == 0xE39, tone = code >= 0xE48 && code < 0xE4C;
        CHECK(unicode_combining(code) == (below ? 103 : code == 0xE3A ? 9 : tone ? 107 : 0));
    }
    CHECK(unicode_combining(0x653) == 230 && unicode_combining(0x309A) == 8);
    CHECK(unicode_combining(0x309B) == 0 && unicode_combining(0xA66F) == 230);
}
