// SPDX-License-Identifier: Apache-2.0
// The rows that ranks read of a dataset's files.

#include "host/source.h"
#include "test/files.h"
#include "test/test.h"
#include "train/data_share.h"

#include <string.h>

// The rows of a file, or of a range of it, each followed by a bar.
static void put_rows(struct out *out, const char *path, int64_t from, int64_t to)
{
    struct source source;
    struct block block = { 0 };
    bool more = true;
    CHECK(!source_open(&source, &test_arena, &path, 1,
                       &(struct source_options){ .from = from, .to = to }));
    while (!source_next(&source, &block, &more) && more) {
        struct lines rows = block.rows;
        for (struct text row; lines_next(&rows, &row);)
            out_put(out, "%.*s|", TEXT_ARGS(row));
    }
    source_block_release(&block);
    source_close(&source);
}

// Lines, a list that cannot be cut, an empty file, lines again.
TEST(shares_of_ranks_are_all_rows_in_the_order_of_the_files)
{
    const char *words[] = {
        files_write("a.jsonl", TEXT("{\"a\":1}\n{\"a\":22222}\n{\"a\":3}\n")),
        files_write("b.json", TEXT("[{\"b\":1},\n{\"b\":2}]\n")),
        files_write("c.jsonl", TEXT("")),
        files_write("d.jsonl", TEXT("{\"d\":1}\n{\"d\":2}\n{\"d\":3}\n{\"d\":4}\n")),
        files_write("e.txt", TEXT("one\ntwo")),
    };
    struct inputs inputs;
    struct out whole = { .arena = &test_arena };
    CHECK(!inputs_find(&inputs, &test_arena, words, 5));
    for (int i = 0; i < 5; i++)
        put_rows(&whole, words[i], 0, 0);
    for (int ranks = 1; ranks <= 9; ranks++) {
        struct out parts = { .arena = &test_arena };
        int64_t bytes = 0, most = 0;
        for (int rank = 0; rank < ranks; rank++) {
            struct manifest_unit *units;
            size_t count = data_share(&units, &test_arena, &inputs, rank, ranks);
            int64_t own = 0;
            for (size_t i = 0; i < count; own += units[i++].bytes)
                for (size_t k = 0; k < units[i].files; k++)
                    put_rows(&parts, words[units[i].file + k], units[i].from, units[i].to);
            bytes += own;
            most = own > most ? own : most;
        }
        CHECK(!strcmp(out_string(&parts), out_string(&whole)));
        CHECK(bytes == inputs.total_bytes);
        CHECK(most <= inputs.total_bytes / ranks + ranks + inputs.sizes[1]);
    }
}
