// SPDX-License-Identifier: Apache-2.0
// The page's reader of dropped files, compiled natively so that sanitizers see it too.
#include "web/dropped.c"

#include "base/rng.h"
#include "test/test.h"

static struct dropped dropped;

// Counts one file given in pieces of 1 to `most` bytes.
static enum err count(const char *name, struct text text, size_t most, uint64_t seed)
{
    struct dropped_options options = { .model = "llama-3.1-8b",
                                       .date = { .year = 2026, .month = 11, .day = 15 } };
    struct rng rng = rng_seeded(seed);
    TRY(dropped_open(&dropped, &options));
    TRY(dropped_file(&dropped, name, (int64_t)text.size));
    for (size_t at = 0, size; at < text.size; at += size) {
        size = 1 + (size_t)rng_below(&rng, most);
        size = size < text.size - at ? size : text.size - at;
        memcpy(dropped_room(&dropped, size), text.at + at, size);
        TRY(dropped_push(&dropped, size, false));
    }
    TRY(dropped_push(&dropped, 0, true));
    return dropped_close(&dropped);
}

static int64_t tokens(void)
{
    int64_t sum = 0;
    for (size_t i = 0; i < dropped.lengths.count; i++)
        sum += dropped.lengths.items[i].tokens;
    return sum;
}

static struct text rows_of(const char *before, const char *row, const char *between, int count)
{
    struct out out = { .arena = &test_arena };
    out_put(&out, "%s", before);
    for (int i = 0; i < count; i++)
        out_put(&out, "%s%s", i ? between : "", row);
    return out_view(&out);
}

TEST(dropped_files_count_the_same_however_they_are_cut)
{
    static const struct {
        const char *name, *before, *row, *between;
    } files[] = {
        { "a.jsonl", "", "{\"instruction\":\"one \\\"two\\\"\",\"output\":\"three\"}", "\n" },
        { "a.json", "[", "{\"instruction\":\"one [two]\",\n\"output\":\"{three\"}", ",\n" },
        { "a.csv", "question,answer\n", "\"one, \"\"two\"\"\nmore\",three", "\r\n" },
        { "a.txt", "\xEF\xBB\xBF", "one two three", "\n" },
    };
    enum { ROWS = 6000 }; // many more than are read to detect the format
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct text text = rows_of(files[i].before, files[i].row, files[i].between, ROWS);
        CHECK(count(files[i].name, text, text.size, 1) == OK);
        size_t whole = dropped.lengths.count;
        int64_t sum = tokens();
        CHECK(whole == ROWS && sum >= 3 * ROWS);
        CHECK(count(files[i].name, text, 300, 2) == OK);
        CHECK(dropped.lengths.count == whole && tokens() == sum);
    }
    dropped_release(&dropped);
}

TEST(dropped_files_without_rows_are_refused_with_a_reason)
{
    CHECK(count("a.jsonl", TEXT(""), 9, 1) == ERR_INPUT);
    CHECK(strstr(error_text(), "a.jsonl"));
    CHECK(count("a.jsonl", TEXT("1\n2\n"), 9, 1) == ERR_INPUT);
    CHECK(count("a.bin", TEXT("\0\0\0"), 9, 1) == ERR_INPUT);
    CHECK(strstr(error_text(), "NUL bytes"));
    CHECK(count("a.csv", TEXT("question,\"answer\n"), 9, 1) == ERR_INPUT);
    dropped_release(&dropped);
}

TEST(dropped_bad_rows_are_skipped_and_counted)
{
    struct text text = TEXT("{\"text\":\"one\"}\n{\"text\":5}\n{\"te\n\n{\"text\":\"two\"}");
    CHECK(count("a.jsonl", text, 5, 3) == OK);
    CHECK(dropped.profile.rows == 4 && dropped.lengths.count == 2);
    CHECK(dropped.profile.spots[PROFILE_BAD].count == 2);
    CHECK(dropped.profile.spots[PROFILE_BAD].spots[0].line == 2);
    dropped_release(&dropped);
}
