// SPDX-License-Identifier: Apache-2.0
// Any bytes as an Arrow file: rows, or a refusal; no row longer than the file could make it; and
// the halves of the file have the rows of the whole.

#include "host/tables/arrow.h"
#include "test/fuzz/input_file.h"
#include "test/fuzz/mutate.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
MUTATES_AS(words)

// -1: refused, or more than is worth reading.
static int64_t count_rows(const char *path, int64_t from, int64_t to)
{
    struct arrow *arrow;
    struct text row = { "", 0 };
    int64_t rows = 0, total = 0;
    enum err err = arrow_open(&arrow, path, NULL);
    if (!err)
        arrow_rows(arrow, from, to);
    for (; !err && row.at && total < 64 << 20; total += (int64_t)row.size, rows += row.at != NULL)
        err = arrow_next(arrow, &row);
    arrow_close(arrow);
    return err || row.at ? -1 : rows;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    input_halves(data, size, count_rows);
    return 0;
}
