// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE // memmem

#include "base/json.h"
#include "host/file.h"
#include "host/tables/parquet.h"
#include "test/files.h"
#include "test/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// All rows of a file; NULL if it was refused.
static const char *rows_of(const char *path)
{
    struct parquet *parquet;
    struct out out = { .arena = &test_arena };
    struct text row = { "", 0 };
    enum err err = parquet_open(&parquet, path, NULL);
    while (!err && !(err = parquet_next(parquet, &row)) && row.at) {
        out_bytes(&out, row.at, row.size);
        out_char(&out, '\n');
    }
    parquet_close(parquet);
    return err ? NULL : out_string(&out);
}

static bool equal(const struct json *a, const struct json *b)
{
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case JSON_BOOL: return a->flag == b->flag;
    case JSON_NUMBER: return fabs(a->number - b->number) <= 1e-6 * fabs(b->number);
    case JSON_STRING: return text_equal(a->string, b->string);
    case JSON_ARRAY:
    case JSON_OBJECT: break;
    default: return true;
    }
    size_t items = a->count * (a->kind == JSON_OBJECT ? 2 : 1);
    for (size_t i = 0; a->count == b->count && i < items; i++)
        if (!equal(&a->items[i], &b->items[i]))
            return false;
    return a->count == b->count;
}

static bool equal_rows(const char *found, struct text wanted)
{
    struct text rest = text_of(found), a, b;
    int rows = 0;
    for (; text_next(&wanted, '\n', &b) && b.size; rows++) {
        struct json left, right;
        if (!text_next(&rest, '\n', &a) || json_read(&left, &test_arena, a, "ours") ||
            json_read(&right, &test_arena, b, "DuckDB's") || !equal(&left, &right))
            return false;
    }
    return rows == 40 && !rest.size;
}

TEST(parquet_rows_equal_those_of_duckdb_in_every_codec_and_encoding)
{
    static const char *const names[] = { "snappy_v1", "gzip_v2", "zstd_v1", "lz4_raw_v2",
                                         "uncompressed_v2" };
    struct text wanted;
    CHECK(!file_read(&wanted, &test_arena, "test/data/parquet/rows.jsonl"));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *rows =
            rows_of(text_format(&test_arena, "test/data/parquet/%s.parquet", names[i]));
        CHECK(rows && equal_rows(rows, wanted));
    }
}

TEST(parquet_pages_of_the_second_kind_and_differences_of_texts_are_read)
{
    const char *rows = rows_of("test/data/parquet/second_pages.parquet");
    struct out wanted = { .arena = &test_arena };
    for (int i = 0; i < 40; i++) {
        const char *text = i % 5 ? text_format(&test_arena, "\"prefix shared %d\"", i) : "null";
        out_put(&wanted, "{\"id\":%d,\"text\":%s,\"len\":%s,\"num\":%g}\n", i, text, text, i / 4.0);
    }
    CHECK(rows && !strcmp(rows, out_string(&wanted)));
}

// A group of two required columns, of which one says that the group is there and the other not.
TEST(parquet_columns_that_contradict_each_other_are_refused)
{
    CHECK(!rows_of("test/data/parquet/contradicting_levels.parquet"));
    CHECK(strstr(error_text(), "is damaged in the levels of a page of column \"b\""));
}

// The file with one byte changed, or cut there.
static const char *broken(struct text whole, size_t at, bool cut)
{
    char *bytes = arena_copy(&test_arena, whole.at, whole.size);
    bytes[at] = (char)~bytes[at];
    return files_write("broken.parquet", (struct text){ bytes, cut ? at : whole.size });
}

TEST(parquet_that_is_damaged_anywhere_is_read_or_refused_by_name)
{
    struct text whole;
    CHECK(!file_read(&whole, &test_arena, "test/data/parquet/snappy_v1.parquet"));
    for (size_t at = 0; at < whole.size; at += 13) {
        struct arena_mark mark = arena_mark(&test_arena);
        if (!rows_of(broken(whole, at, false)))
            CHECK(strstr(error_text(), "broken.parquet: "));
        CHECK(!rows_of(broken(whole, at, true)));
        arena_rewind(&test_arena, mark);
    }
}

TEST(parquet_columns_that_are_not_kept_are_not_read)
{
    struct text whole;
    CHECK(!file_read(&whole, &test_arena, "test/data/parquet/uncompressed_v2.parquet"));
    char *bytes = arena_copy(&test_arena, whole.at, whole.size);
    const char *last = memmem(bytes, whole.size, "cfcd2084", 8); // a value of the last column
    CHECK(last);
    memset(bytes + (last - bytes) - 60, 0xAA, 60); // the head of its page
    const char *path = files_write("hole.parquet", (struct text){ bytes, whole.size });
    struct text names[] = { TEXT("text"), TEXT("absent"), { 0 }, TEXT("id") }, row;
    struct parquet *parquet;
    CHECK(!rows_of(path));
    CHECK(!parquet_open(&parquet, path, NULL));
    CHECK(!parquet_keep(parquet, names, 4));
    CHECK(!parquet_next(parquet, &row) && text_is(row, "{\"id\":0,\"text\":null}"));
    CHECK(!parquet_next(parquet, &row) &&
          text_is(row, "{\"id\":1,\"text\":\"row 1 \\\"quoted\\\" \xC3\xA9\\n\"}"));
    for (int i = 2; i < 41; i++)
        CHECK(!parquet_next(parquet, &row));
    CHECK(!row.at);
    parquet_close(parquet);
}
