// SPDX-License-Identifier: Apache-2.0
// JSON: values, errors with line and column, hostile input, and reading back what was written.

#include "base/json.h"
#include "base/rng.h"
#include "test/test.h"

#include <string.h>

static struct json tree(const char *text)
{
    struct json out;
    return json_read(&out, &test_arena, text_of(text), "t") ? (struct json){ 0 } : out;
}

TEST(json_reads_every_kind_of_value)
{
    struct json t =
        tree(" {\"a\": [1, -2.5e3, true, null, \"x\\n\\u00e9\\ud83d\\ude00\"], \"b\": {}} ");
    const struct json *a = json_get(&t, "a");
    CHECK(t.kind == JSON_OBJECT && t.count == 2 && a && a->count == 5);
    CHECK(a->items[0].number == 1 && a->items[1].number == -2500 && a->items[2].flag);
    CHECK(a->items[3].kind == JSON_NULL);
    CHECK(text_is(a->items[4].string, "x\n\xC3\xA9\xF0\x9F\x98\x80"));
}

TEST(json_refuses_what_is_not_json_and_names_line_and_column)
{
    static const char *const bad[] = { "",          "{",    "[1,]",  "{\"a\":1,}", "[1 2]",
                                       "{\"a\" 1}", "nul",  "[NaN]", "\"\\x\"",    "\"\\u12\"",
                                       "01a",       "[1]]", "-",     "1.",         "\"abc",
                                       "[1}",       "01",   "[-01]", "\"\\",       "{\"a\":1]",
                                       "1e999" };
    struct json out;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(json_read(&out, &test_arena, text_of(bad[i]), "t") == ERR_INPUT);
    json_read(&out, &test_arena, TEXT("{\n \"a\": ?}"), "file.json");
    CHECK(!strcmp(error_text(), "file.json:2: column 7: expected a JSON value"));
    json_read(&out, &test_arena, TEXT("{\"a\": NaN}"), "python.json");
    CHECK(strstr(error_text(), "column 7: has NaN or Infinity, which JSON does not know"));
}

TEST(json_finds_the_end_of_strings_at_every_offset)
{
    char text[64];
    for (size_t start = 0; start < 9; start++)
        for (size_t stop = start; stop <= sizeof text; stop++)
            for (int byte = 0; byte < 2; byte++) {
                memset(text, '\xA2', sizeof text); // a quote with its highest bit set
                if (stop < sizeof text)
                    text[stop] = "\"\\"[byte];
                if (stop + 1 < sizeof text)
                    text[stop + 1] = '"';
                CHECK(json_string_stop(text + start, text + sizeof text) == text + stop);
            }
}

// A string decoded byte by byte; SIZE_MAX if it has no end or a wrong escape. at is after its
// quote.
static size_t slow_string(char *out, const char *at, const char *end, const char **stop)
{
    static const char from[] = "ntrbf\"\\/", to[] = "\n\t\r\b\f\"\\/";
    size_t size = 0;
    bool wrong = false;
    for (; at < end && *at != '"'; at++) {
        bool escape = *at == '\\';
        if (escape && ++at == end)
            break;
        const char *known = escape && *at ? strchr(from, *at) : NULL;
        bool code = escape && end - at > 4 && !memcmp(at, "u00e9", 5);
        wrong = wrong || (escape && !known && !code);
        memcpy(out + size, code ? "\xC3\xA9" : known ? &to[known - from] : at, code ? 2 : 1);
        size += code ? 2 : 1;
        at += code ? 4 : 0;
    }
    *stop = at + 1;
    return at < end && !wrong ? size : SIZE_MAX;
}

// Strings of random pieces, so that escapes and runs of backslashes cross every border.
TEST(json_decodes_long_strings_as_byte_by_byte)
{
    static const char *const pieces[] = { "\\\\", "\\n",          "\\\"", "\\u00e9",
                                          "a",    "\xE4\xB8\xAD", "bcd",  "/",
                                          "\\/",  "    ",         "\\t",  "wörter in Zeilen" };
    struct rng rng = rng_seeded(23);
    char text[700], expected[700];
    for (int round = 0; round < 20000; round++) {
        size_t size = 1, most = 2 + rng_below(&rng, 600), kinds = 1 + rng_below(&rng, 12);
        for (text[0] = '"'; size < most;) {
            const char *piece = pieces[rng_below(&rng, kinds)];
            memcpy(text + size, piece, strlen(piece));
            size += strlen(piece);
        }
        if (round % 8 == 0) // a backslash somewhere: what follows it changes
            text[1 + rng_below(&rng, size - 1)] = '\\';
        text[size++] = round % 16 == 1 ? 'x' : '"';
        const char *stop;
        size_t wanted = slow_string(expected, text + 1, text + size, &stop);
        struct text copy = { arena_copy(&test_arena, text, size), size }; // ends where memory does
        struct json_reader in = json_reader(copy);
        struct text found = json_string(&in, &test_arena);
        CHECK((wanted == SIZE_MAX) == (in.problem != NULL));
        if (wanted != SIZE_MAX && !in.problem)
            CHECK(found.size == wanted && !memcmp(found.at, expected, wanted) &&
                  in.at - in.start == stop - text);
    }
}

TEST(json_reads_a_giant_string_of_escapes_in_one_pass)
{
    size_t size = 16 << 20;
    char *text = arena_alloc(&test_arena, size);
    for (size_t i = 0; i < size; i += 2)
        memcpy(text + i, "\\n", 2);
    text[0] = text[size - 1] = '"';
    text[1] = text[size - 2] = 'x';
    struct json_reader in = json_reader((struct text){ text, size });
    struct text found = json_string(&in, &test_arena);
    CHECK(!json_end(&in, "t") && found.size == size / 2 && found.at[1] == '\n');
}

TEST(json_refuses_endless_nesting)
{
    char deep[100000];
    memset(deep, '[', sizeof deep);
    struct json out;
    CHECK(json_read(&out, &test_arena, (struct text){ deep, sizeof deep }, "t") == ERR_INPUT);
}

TEST(json_written_reads_back_equal)
{
    struct out out = { .arena = &test_arena };
    struct json_writer w = { .out = &out };
    json_open(&w, NULL, '{');
    json_put_number(&w, "third", 1.0 / 3);
    json_put_number(&w, "unknown", NAN);
    json_put_text(&w, "quoted", TEXT("a\"b\\\n\x01"));
    json_open(&w, "list", '[');
    json_put_count(&w, NULL, 9007199254740993);
    json_close(&w, ']');
    json_close(&w, '}');
    struct json t = tree(out_string(&out));
    CHECK(json_get_number(&t, "third", 0) == 1.0 / 3);
    CHECK(!json_get(&t, "unknown"));
    CHECK(text_is(json_get_text(&t, "quoted"), "a\"b\\\n\x01"));
    CHECK(strstr(out_string(&out), "9007199254740993"));
}
