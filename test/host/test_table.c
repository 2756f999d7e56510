// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"
#include "host/source.h"
#include "host/tables/table.h"
#include "test/files.h"
#include "test/test.h"

#include <string.h>

static const char fixture[] = "test/data/rows.parquet";

static struct table *opened(void)
{
    struct table *table;
    CHECK(!table_open(&table, fixture, NULL, TEXT("PAR1")));
    return table;
}

TEST(table_is_known_by_name_and_first_bytes)
{
    CHECK(table_is_for("a.parquet", TEXT("")) && table_is_for("a.arrow", TEXT("")));
    CHECK(table_is_for("a", TEXT("PAR1....")) && table_is_for("a", TEXT("ARROW1..")));
    CHECK(!table_is_for("a.jsonl", TEXT("{}")) && !table_is_for("a", TEXT("PA")));
}

TEST(table_rows_are_json_of_all_columns)
{
    struct table *table = opened();
    struct text row;
    struct json tree;
    int rows = 0;
    for (; !table_next(table, &row) && row.at; rows++) {
        CHECK(!json_read(&tree, &test_arena, row, "row"));
        const struct json *messages = json_get(&tree, "messages");
        CHECK(messages && messages->kind == JSON_ARRAY && messages->count == 2);
        CHECK(text_is(json_get_text(&messages->items[1], "role"), "assistant"));
        if (rows == 1)
            CHECK(text_is(json_get_text(&tree, "text"), "row 1 \"quoted\" \xC3\xA9\nxxxxxxxxxx"));
        if (rows == 2)
            CHECK(!json_get(&tree, "text"));
        if (rows == 7)
            CHECK(json_get_number(&tree, "id", 0) == 4999 &&
                  json_get_text(&tree, "text").size > 49990);
    }
    CHECK(rows == 8);
    table_close(table);
}

TEST(table_rows_come_through_source_with_row_numbers)
{
    const char *path = fixture;
    struct source source;
    struct block block = { 0 };
    bool more = true;
    int64_t rows = 0;
    CHECK(!source_open(&source, &test_arena, &path, 1,
                       &(struct source_options){ .block_bytes = 100 }));
    while (!source_next(&source, &block, &more) && more)
        for (struct text row; lines_next(&block.rows, &row);)
            CHECK(block.is_table && block.rows.line == ++rows && row.at[0] == '{');
    CHECK(rows == 8);
    source_block_release(&block);
    source_close(&source);
}

TEST(table_refuses_what_is_no_parquet_with_a_sentence)
{
    struct table *table;
    const char *path = files_write("it's.parquet", TEXT("PAR1 but not really"));
    CHECK(table_open(&table, path, NULL, TEXT("PAR1")) == ERR_INPUT);
    CHECK(!table && strstr(error_text(), "does not end as a Parquet file does"));
    CHECK(table_open(&table, files_path("absent.parquet"), NULL, TEXT("")) == ERR_INPUT && !table);
}
