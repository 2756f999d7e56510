// SPDX-License-Identifier: Apache-2.0
// Any bytes as a Parquet file: rows, or a refusal; no row longer than the limit; and the halves of
// the file have the rows of the whole.

#include "host/tables/parquet.h"
#include "test/fuzz/input_file.h"
#include "test/fuzz/mutate.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
MUTATES_AS(words)

// -1: refused, or more than is worth reading.
static int64_t count_rows(const char *path, int64_t from, int64_t to)
{
    struct parquet *parquet;
    struct text row = { "", 0 };
    int64_t rows = 0, total = 0;
    enum err err = parquet_open(&parquet, path, NULL);
    if (!err)
        parquet_rows(parquet, from, to);
    for (; !err && row.at && total < 64 << 20;
         total += 1 + (int64_t)row.size, rows += row.at != NULL)
        err = parquet_next(parquet, &row);
    parquet_close(parquet);
    return err || row.at ? -1 : rows;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    input_halves(data, size, count_rows);
    return 0;
}
