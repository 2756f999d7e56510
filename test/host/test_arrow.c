// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"
#include "base/rng.h"
#include "host/tables/arrow.h"
#include "host/file.h"
#include "test/files.h"
#include "test/test.h"

#include <string.h>

// All rows, a line each; NULL if the file was refused.
static const char *rows(const char *path)
{
    struct arrow *arrow;
    struct out out = { .arena = &test_arena };
    enum err err = arrow_open(&arrow, path, NULL);
    struct text row = { 0 };
    while (!err && !(err = arrow_next(arrow, &row)) && row.at)
        out_put(&out, "%.*s\n", TEXT_ARGS(row));
    arrow_close(arrow);
    return err ? NULL : out_string(&out);
}

// The rows whose batches begin in a range; -1 if it was refused.
static int64_t rows_in(const char *path, int64_t from, int64_t to)
{
    struct arrow *arrow;
    int64_t count = 0;
    enum err err = arrow_open(&arrow, path, NULL);
    if (!err)
        arrow_rows(arrow, from, to);
    struct text row = { 0 };
    for (; !err && !(err = arrow_next(arrow, &row)) && row.at; count++)
        ;
    arrow_close(arrow);
    return err ? -1 : count;
}

static struct text content(const char *path)
{
    struct file file;
    CHECK(!file_open(&file, path));
    struct text copy = { text_copy(&test_arena, file.text), file.text.size };
    file_close(&file);
    return copy;
}

TEST(arrow_rows_are_those_that_the_javascript_library_reads)
{
    const char *wanted = content("test/data/rows.arrow.jsonl").at;
    const char *stream = rows("test/data/rows.arrow"), *file = rows("test/data/rows.feather");
    CHECK(stream && !strcmp(stream, wanted));
    CHECK(file && !strcmp(file, wanted));
}

// The column "id" has 64 bits and a sign; one byte of the schema says so.
TEST(arrow_numbers_without_a_sign_are_not_negative)
{
    struct text whole = content("test/data/rows.arrow");
    char *changed = arena_copy(&test_arena, whole.at, whole.size);
    bool found = false;
    for (size_t i = 0; i < whole.size && !found; i++) {
        if (whole.at[i] != 1)
            continue;
        changed[i] = 0;
        const char *all = rows(files_write("sign.arrow", (struct text){ changed, whole.size }));
        found = all && strstr(all, "\"id\":18446744073709551611"); // -5
        changed[i] = 1;
    }
    CHECK(found);
}

TEST(arrow_refuses_what_is_cut_off_or_none)
{
    struct text whole = content("test/data/rows.arrow");
    CHECK(!rows(files_write("text.arrow", TEXT("this is no arrow file at all"))));
    CHECK(strstr(error_text(), "text.arrow: the Arrow file is damaged or cut off"));
    CHECK(!rows(files_write("empty.arrow", TEXT(""))));
    for (size_t size = 1; size < whole.size - 8; size += 37) {
        const char *path = files_write("cut.arrow", (struct text){ whole.at, size });
        const char *found = rows(path);
        // Cut between two messages it is a shorter stream, which the format allows.
        CHECK(!found || strlen(found) < 3408);
    }
    CHECK(!rows(
        files_write("cut.feather", (struct text){ content("test/data/rows.feather").at, 500 })));
}

TEST(arrow_with_any_byte_changed_is_refused_or_its_ranges_have_all_rows)
{
    struct text whole = content("test/data/rows.arrow");
    struct rng rng = rng_seeded(3);
    char *bytes = arena_copy(&test_arena, whole.at, whole.size);
    int refused = 0;
    for (int i = 0; i < 600; i++) {
        struct arena_mark mark = arena_mark(&test_arena);
        size_t at = rng_below(&rng, i % 2 ? whole.size : 2000);
        char was = bytes[at];
        bytes[at] = (char)rng_next(&rng);
        const char *path = files_write("changed.arrow", (struct text){ bytes, whole.size });
        int64_t middle = (int64_t)rng_below(&rng, whole.size), all = rows_in(path, 0, INT64_MAX);
        CHECK(all < 0 || all == rows_in(path, 0, middle) + rows_in(path, middle, INT64_MAX));
        refused += all < 0;
        bytes[at] = was;
        arena_rewind(&test_arena, mark);
    }
    CHECK(refused > 20);
}

TEST(arrow_keeps_some_columns_and_their_values_are_the_same)
{
    const struct text names[] = { TEXT("text"), TEXT("messages"), TEXT("absent") };
    static const char *const files[] = { "test/data/rows.arrow", "test/data/rows.feather" };
    for (int i = 0; i < 2; i++) {
        struct arrow *arrow;
        struct text row, rest = content("test/data/rows.arrow.jsonl"), line;
        CHECK(!arrow_open(&arrow, files[i], NULL));
        arrow_keep(arrow, names, 3);
        int same = 0;
        while (!arrow_next(arrow, &row) && row.at && text_next(&rest, '\n', &line)) {
            struct json kept;
            CHECK(!json_read(&kept, &test_arena, row, "kept"));
            const char *wanted = strstr(text_copy(&test_arena, line), "\"text\":");
            const char *end = wanted ? strstr(wanted, ",\"tags\"") : NULL;
            same += kept.count == 2 && end && row.size == (size_t)(end - wanted) + 2 &&
                    !memcmp(row.at + 1, wanted, row.size - 2);
        }
        CHECK(same == 12);
        arrow_close(arrow);
    }
}
