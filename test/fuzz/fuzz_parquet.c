// SPDX-License-Identifier: Apache-2.0
// Any bytes as a Parquet file: rows, or a refusal; no row longer than the limit.

#include "host/parquet.h"
#include "test/fuzz/input_file.h"
#include "test/fuzz/mutate.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
MUTATES_AS(words)

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct parquet *parquet;
    struct text row = { "", 0 };
    if (!parquet_open(&parquet, input_file(data, size), NULL))
        for (int64_t total = 0; total < 64 << 20 && row.at; total += 1 + (int64_t)row.size)
            if (parquet_next(parquet, &row))
                break;
    parquet_close(parquet);
    return 0;
}
