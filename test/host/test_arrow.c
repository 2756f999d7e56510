// SPDX-License-Identifier: Apache-2.0
#include "base/rng.h"
#include "host/arrow.h"
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

TEST(arrow_with_any_byte_changed_neither_crashes_nor_grows)
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
        refused += !rows(files_write("changed.arrow", (struct text){ bytes, whole.size }));
        bytes[at] = was;
        arena_rewind(&test_arena, mark);
    }
    CHECK(refused > 20);
}
