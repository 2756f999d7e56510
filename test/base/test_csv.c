// SPDX-License-Identifier: Apache-2.0
// CSV: quotes, line ends, comments and errors with file and line.

#include "base/csv.h"
#include "test/test.h"

#include <stdlib.h>
#include <string.h>

static struct csv table(struct text text)
{
    struct csv csv;
    CHECK(!csv_read(&csv, &test_arena, text, "t.csv", ','));
    return csv;
}

static bool refuses(struct text text, const char *sentence)
{
    struct csv csv;
    return csv_read(&csv, &test_arena, text, "t.csv", ',') == ERR_INPUT &&
           !strcmp(error_text(), sentence);
}

TEST(csv_reads_quotes_line_ends_and_comments)
{
    struct csv csv = table(TEXT("\xEF\xBB\xBF# a note\na,b\r\n1,\"x, \"\"y\"\"\nz\"\r\n\n,\n"));
    CHECK(csv.columns == 2 && csv.rows == 2);
    CHECK(text_is(csv_cell(&csv, 0, csv_column(&csv, "b")), "x, \"y\"\nz"));
    CHECK(csv.lines[0] == 3 && csv.lines[1] == 6);
    CHECK(!csv_cell(&csv, 1, 0).size && !csv_cell(&csv, 1, 1).size);
    CHECK(csv_column(&csv, "c") == -1 && !csv_cell(&csv, 0, -1).size);
}

TEST(csv_reads_a_header_without_rows_and_a_last_row_without_line_end)
{
    CHECK(table(TEXT("a,b")).rows == 0);
    struct csv csv = table(TEXT("a\nlast"));
    CHECK(csv.rows == 1 && text_is(csv_cell(&csv, 0, 0), "last"));
    csv = table(TEXT("a,b\nx,"));
    CHECK(csv.rows == 1 && csv_cell(&csv, 0, 1).size == 0);
}

TEST(csv_refuses_with_file_and_line)
{
    CHECK(refuses(TEXT(""), "t.csv: has no header line"));
    CHECK(refuses(TEXT("# only a note"), "t.csv: has no header line"));
    CHECK(refuses(TEXT("a,\"b"), "t.csv:1: has an unclosed quoted cell"));
    CHECK(refuses(TEXT("a,b\n1,2\n3\n"), "t.csv:3: has 1 cells, but the header has 2"));
    CHECK(refuses(TEXT("a\n1\n\"x\n\n\n"), "t.csv:3: has an unclosed quoted cell"));
    CHECK(refuses(TEXT("a\n\"x\"y\n"), "t.csv:2: has text after a closing quote"));
}

TEST(csv_keeps_bytes_that_are_not_text)
{
    struct csv csv = table(TEXT("a,b\n\0\xFF,\"\0\"\n"));
    CHECK(text_equal(csv_cell(&csv, 0, 0), TEXT("\0\xFF")));
    CHECK(text_equal(csv_cell(&csv, 0, 1), TEXT("\0")));
}

TEST(csv_reads_giant_cells_and_refuses_too_many_columns)
{
    size_t size = 8 << 20;
    char *text = malloc(size);
    memset(text, 'x', size);
    memcpy(text, "a\n", 2);
    struct csv csv = table((struct text){ text, size });
    CHECK(csv.rows == 1 && csv_cell(&csv, 0, 0).size == size - 2);
    memset(text, ',', size);
    struct csv out;
    CHECK(csv_read(&out, &test_arena, (struct text){ text, size }, "t", ',') == ERR_INPUT);
    memset(text, '"', size);
    csv_read(&out, &test_arena, (struct text){ text, size }, "t", ',');
    free(text);
}
