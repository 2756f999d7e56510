// SPDX-License-Identifier: Apache-2.0
// Rows of JSON, CSV and text, however a stream is divided into chunks.

#include "base/json.h"
#include "base/lines.h"
#include "base/rng.h"
#include "test/test.h"

#include <string.h>

static struct lines whole(enum lines_format format, struct text text)
{
    return (struct lines){ .cutter = { .format = format, .separator = ',' },
                           .at = text.at,
                           .end = text.at + text.size,
                           .next_line = 1 };
}

// All rows with their lines, as one string: "1:a|2:b|".
static const char *spelled(struct lines rows)
{
    struct out out = { .arena = &test_arena };
    for (struct text row; lines_next(&rows, &row);)
        out_put(&out, "%lld:%.*s|", (long long)rows.line, TEXT_ARGS(row));
    return out_string(&out);
}

static bool spells(enum lines_format format, struct text text, const char *wanted)
{
    return !strcmp(spelled(whole(format, text)), wanted);
}

TEST(lines_of_text_are_rows_whatever_ends_them)
{
    CHECK(spells(LINES_TEXT, TEXT("a\nb\r\n\nc"), "1:a|2:b|3:|4:c|"));
    CHECK(spells(LINES_TEXT, TEXT(""), ""));
    CHECK(spells(LINES_TEXT, TEXT("\n"), "1:|"));
    CHECK(spells(LINES_TEXT, TEXT("a\rb"), "1:a\rb|"));
}

TEST(lines_of_json_skip_empty_ones_and_keep_their_numbers)
{
    CHECK(spells(LINES_JSON, TEXT("{}\n\n  \r\n[1]\r\n"), "1:{}|4:[1]|"));
}

TEST(lines_keep_bytes_that_are_not_text)
{
    struct lines rows = whole(LINES_TEXT, TEXT("a\0b\n\xFF\xFE\n"));
    struct text row;
    CHECK(lines_next(&rows, &row) && text_equal(row, TEXT("a\0b")));
    CHECK(lines_next(&rows, &row) && text_equal(row, TEXT("\xFF\xFE")));
    CHECK(!lines_next(&rows, &row));
}

TEST(lines_split_a_list_into_its_values)
{
    CHECK(spells(LINES_LIST, TEXT("[{\"a\": \"}],\\\"\"},\n {\"b\":[1,{}]}, 3 ,\"x\",[],null]"),
                 "1:{\"a\": \"}],\\\"\"}|2:{\"b\":[1,{}]}|2:3|2:\"x\"|2:[]|2:null|"));
    CHECK(spells(LINES_LIST, TEXT(" [ ] "), ""));
    CHECK(spells(LINES_LIST, TEXT("[1][2]"), "1:1|1:2|")); // concatenated files
}

TEST(lines_of_a_broken_list_show_what_is_broken)
{
    CHECK(spells(LINES_LIST, TEXT("[{}, {\"a\": \"b"), "1:{}|1:{\"a\": \"b|"));
    CHECK(spells(LINES_LIST, TEXT("[{}}, {}]"), "1:{}|1:}|1:{}|"));
    CHECK(spells(LINES_LIST, TEXT("[{}] oops"), "1:{}|1:oops|"));
}

TEST(lines_split_values_over_several_lines)
{
    CHECK(spells(LINES_VALUES, TEXT("{\n \"a\": 1\n}\n{\n}\n"), "1:{\n \"a\": 1\n}|4:{\n}|"));
}

TEST(lines_split_csv_outside_quotes_only)
{
    CHECK(spells(LINES_CSV, TEXT("a,\"b\nc\"\"\"\r\n\nd\"x\",e\n\"\""),
                 "1:a,\"b\nc\"\"\"|4:d\"x\",e|5:\"\"|"));
}

TEST(lines_cells_name_what_is_wrong_with_a_row)
{
    struct text cells[2];
    CHECK(!lines_cells(TEXT("a,\"b\"\"c\""), ',', &test_arena, cells, 2));
    CHECK(text_is(cells[0], "a") && text_is(cells[1], "b\"c"));
    CHECK(strstr(lines_cells(TEXT("a"), ',', &test_arena, cells, 2), "fewer"));
    CHECK(strstr(lines_cells(TEXT("a,b,c"), ',', &test_arena, cells, 2), "more"));
    CHECK(strstr(lines_cells(TEXT("a,\"b"), ',', &test_arena, cells, 2), "unclosed"));
    CHECK(strstr(lines_cells(TEXT("a,\"b\"c"), ',', &test_arena, cells, 2), "closing quote"));
}

TEST(lines_separator_is_the_headers_or_the_one_that_excel_names_before_it)
{
    static const struct {
        const char *head;
        char separator;
        size_t skipped;
    } cases[] = {
        { "a;b", ';', 0 },
        { "a,b;c", ',', 0 },
        { "a\tb\n1,2\n", '\t', 0 },
        { "a", ',', 0 },
        { "", ',', 0 },
        { "sep=;\na;b,c\n", ';', 6 },
        { "sep=\t\r\na\tb\r\n", '\t', 7 },
        { "sep=ab\n", ',', 0 },
        { "sep=;", ';', 0 }, // a header: no line follows
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t skipped;
        CHECK(lines_separator(text_of(cases[i].head), &skipped) == cases[i].separator);
        CHECK(skipped == cases[i].skipped);
    }
}

TEST(lines_of_json_begin_after_a_byte_order_mark)
{
    CHECK(spells(LINES_JSON, TEXT("1\n\xEF\xBB\xBF{}\n\xEF\xBB\xBF\n2"), "1:1|2:{}|4:2|"));
    CHECK(spells(LINES_TEXT, TEXT("\xEF\xBB\xBFz"), "1:\xEF\xBB\xBFz|"));
}

TEST(lines_are_guessed_from_name_and_content)
{
    CHECK(lines_guess("a.jsonl", TEXT("{}\n")) == LINES_JSON);
    CHECK(lines_guess("a.jsonl.gz", TEXT("[\n{}]")) == LINES_LIST); // misnamed, and common
    CHECK(lines_guess("a.jsonl", TEXT("[1]\n[2]\n")) == LINES_JSON);
    CHECK(lines_guess("a.json", TEXT(" [{\"a\":1},\n{}]")) == LINES_LIST);
    CHECK(lines_guess("a.json", TEXT("{\"a\":1}\n{}")) == LINES_JSON);
    CHECK(lines_guess("a.json", TEXT("{\n\"a\":1}\n")) == LINES_VALUES);
    CHECK(lines_guess("a.csv.zst", TEXT("{}")) == LINES_CSV);
    CHECK(lines_guess("A.TXT", TEXT("{}")) == LINES_TEXT);
    CHECK(lines_guess("-", TEXT("{\"a\":1}\n")) == LINES_JSON);
    CHECK(lines_guess("-", TEXT("Once upon")) == LINES_TEXT);
    CHECK(lines_guess("a.json", TEXT("")) == LINES_JSON);
    CHECK(lines_guess("a.bin", TEXT("\x7F\0ELF")) == LINES_UNKNOWN);
    CHECK(lines_guess("a.txt", TEXT("a\0b")) == LINES_TEXT);
}

TEST(every_packing_leaves_the_kind_that_the_name_says)
{
    static const char *const packings[] = { ".gz", ".zst", ".zstd", ".bz2", ".xz", ".XZ" };
    for (size_t i = 0; i < sizeof packings / sizeof *packings; i++) {
        const char *csv = text_format(&test_arena, "a.csv%s", packings[i]);
        const char *tsv = text_format(&test_arena, "a.tsv%s", packings[i]);
        const char *txt = text_format(&test_arena, "a.txt%s", packings[i]);
        CHECK(lines_guess(csv, TEXT("text\n{}\n")) == LINES_CSV);
        CHECK(lines_guess(tsv, TEXT("text\n{}\n")) == LINES_CSV);
        CHECK(lines_guess(txt, TEXT("{}\n")) == LINES_TEXT);
    }
}

// Random text of the bytes that the cutters react to.
static struct text nasty(struct rng *rng, size_t size)
{
    static const char bytes[] = "{}[]\"\\,\n\r a1;\t";
    char *text = arena_alloc(&test_arena, size + 1);
    for (size_t i = 0; i < size; i++)
        text[i] = bytes[rng_below(rng, sizeof bytes - 1)];
    return (struct text){ text, size };
}

// The same rows, from a stream divided into chunks of random size.
static const char *spelled_in_pieces(enum lines_format format, struct text text, struct rng *rng)
{
    struct lines_cutter cutter = { .format = format, .separator = ',' };
    struct out out = { .arena = &test_arena };
    int64_t line = 1;
    for (size_t start = 0, size = 0, scanned = 0; start < text.size;) {
        bool open = cutter.open;
        size_t piece = 0;
        while (!piece) {
            size += 1 + rng_below(rng, 9);
            bool ended = start + size >= text.size;
            if (ended)
                size = text.size - start;
            piece = lines_cut(&cutter, (struct text){ text.at + start, size }, scanned);
            scanned = size;
            if (ended)
                piece = size;
        }
        struct lines rows = whole(format, (struct text){ text.at + start, piece });
        rows.cutter.open = open;
        rows.next_line = line;
        line += lines_count((struct text){ text.at + start, piece });
        out_put(&out, "%s", spelled(rows));
        start += piece;
        size -= piece;
        scanned -= piece;
    }
    return out_string(&out);
}

TEST(lines_do_not_depend_on_how_a_stream_was_chunked)
{
    struct rng rng = rng_seeded(7);
    for (int i = 0; i < 4000; i++) {
        struct text text = nasty(&rng, rng_below(&rng, 60));
        for (enum lines_format format = LINES_JSON; format <= LINES_TEXT; format++) {
            const char *once = spelled(whole(format, text));
            const char *pieces = spelled_in_pieces(format, text, &rng);
            CHECK(!strcmp(once, pieces));
        }
        arena_release(&test_arena);
    }
}

TEST(lines_skip_ends_where_the_row_ends)
{
    struct lines_cutter list = { .format = LINES_LIST };
    CHECK(lines_cut(&list, TEXT("[{\"a\": \"x"), 0) == 1);
    CHECK(lines_skip(&list, TEXT("}]")) == SIZE_MAX);
    CHECK(lines_skip(&list, TEXT("\"}, {}]")) == 2);
    struct lines_cutter csv = { .format = LINES_CSV, .separator = ',' };
    CHECK(lines_cut(&csv, TEXT("a,\"b"), 0) == 0);
    CHECK(lines_skip(&csv, TEXT("\n\"\nd,e")) == 3);
    struct lines_cutter text = { .format = LINES_TEXT };
    CHECK(lines_skip(&text, TEXT("abc")) == SIZE_MAX && lines_skip(&text, TEXT("abc\nd")) == 4);
}
