// SPDX-License-Identifier: Apache-2.0
// Files cut into work units, and the rows of their ranges.

#include "host/manifest.h"

#include "base/rng.h"
#include "host/source.h"
#include "test/files.h"
#include "test/test.h"

#include <stdio.h>
#include <string.h>

// The units as "first+files@from-to|".
static const char *spelled(const char *const *words, size_t count, int64_t bytes)
{
    struct manifest manifest;
    struct out out = { .arena = &test_arena };
    if (manifest_make(&manifest, &test_arena, words, count, bytes))
        return error_text();
    for (size_t i = 0; i < manifest.count; i++) {
        const struct manifest_unit *unit = &manifest.units[i];
        out_put(&out, "%zu+%zu@%lld-%lld|", unit->file, unit->files, (long long)unit->from,
                (long long)unit->to);
    }
    return out_string(&out);
}

TEST(manifest_cuts_large_files_of_lines_and_puts_small_files_together)
{
    const char *words[] = {
        files_write("a.jsonl", TEXT("{\"a\":1}\n")),
        files_write("b.jsonl", TEXT("{\"a\":1}\n")),
        files_write("c.jsonl", TEXT("{\"a\":11111}\n{\"a\":2}\n{\"a\":3}\n")),
        files_write("d.csv", TEXT("x,y\n1,\"2\n3\"\n4,\"5\n6\"\n7,8\n")),
        files_write("e.json", TEXT("[{\"a\":1},\n{\"a\":2},\n{\"a\":3}]\n")),
        files_write("f.txt", TEXT("one\n")),
    };
    const char *found = spelled(words, 6, 20);
    CHECK(!strcmp(found, "0+2@0-0|2+1@0-14|2+1@14-28|3+1@0-0|4+1@0-0|5+1@0-0|"));
    CHECK(strstr(spelled((const char *const[]){ "-" }, 1, 20), "standard input: work units need"));
}

TEST(manifest_notices_a_file_that_changed)
{
    struct manifest manifest;
    const char *path = files_write("a.jsonl", TEXT("{\"a\":1}\n"));
    CHECK(!manifest_make(&manifest, &test_arena, &path, 1, 100));
    CHECK(!manifest_check(&manifest, &manifest.units[0]));
    files_write("a.jsonl", TEXT("{\"a\":1}\n{\"a\":2}\n"));
    CHECK(manifest_check(&manifest, &manifest.units[0]) == ERR_INPUT);
}

// The rows of a file, or of a range of it, each followed by a bar.
static void put_rows(struct out *out, const char *path, int64_t from, int64_t to)
{
    struct source source;
    struct block block = { 0 };
    struct source_options options = { .from = from, .to = to, .block_bytes = 16 };
    bool more = true;
    enum err err = source_open(&source, &test_arena, &path, 1, &options);
    while (!err && !(err = source_next(&source, &block, &more)) && more) {
        struct lines rows = block.rows;
        for (struct text row; lines_next(&rows, &row);)
            out_put(out, "%.*s|", TEXT_ARGS(row));
    }
    if (err)
        out_put(out, "error %d", err);
    source_block_release(&block);
    source_close(&source);
}

TEST(ranges_of_a_file_give_each_row_once)
{
    struct rng rng = rng_seeded(3);
    for (int round = 0; round < 60; round++) {
        struct out text = { .arena = &test_arena }, whole = text, parts = text;
        if (round % 3 == 0)
            out_put(&text, "\xEF\xBB\xBF");
        for (int64_t i = (int64_t)rng_below(&rng, 30); i >= 0; i--) {
            out_repeat(&text, 'x', (int)rng_below(&rng, 30));
            out_put(&text, "%s", rng_below(&rng, 4) ? "\n" : "\r\n");
        }
        out_put(&text, "%s", round % 2 ? "the end" : "");
        const char *path = files_write("rows.txt", out_view(&text));
        put_rows(&whole, path, 0, 0);
        int64_t size = (int64_t)text.size, from = 0;
        while (from < size) {
            int64_t to = from + 1 + (int64_t)rng_below(&rng, 40);
            to = to < size ? to : size;
            put_rows(&parts, path, from, to);
            from = to;
        }
        CHECK(text_equal(out_view(&whole), out_view(&parts)));
    }
}

TEST(ranges_of_a_table_give_each_row_once)
{
    static const char *const files[] = { "test/data/rows.arrow", "test/data/rows.feather",
                                         "test/data/rows.parquet",
                                         "test/data/parquet/snappy_v1.parquet" };
    struct rng rng = rng_seeded(5);
    for (size_t i = 0; i < 4 * sizeof files / sizeof *files; i++) {
        const char *path = files[i / 4];
        struct out whole = { .arena = &test_arena }, parts = whole;
        struct manifest manifest;
        CHECK(!manifest_make(&manifest, &test_arena, &path, 1, 1 << 20));
        put_rows(&whole, path, 0, 0);
        for (int64_t from = 0, to, size = manifest.files[0].bytes; from < size; from = to) {
            to = from + 1 + (int64_t)rng_below(&rng, 2000);
            to = to < size ? to : size;
            put_rows(&parts, path, from, to);
        }
        CHECK(whole.size > 0 && text_equal(out_view(&whole), out_view(&parts)));
    }
    CHECK(!strncmp(spelled(files, 1, 2000), "0+1@0-", 6)); // cut, not whole
}
