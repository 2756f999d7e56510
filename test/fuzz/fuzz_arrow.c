// SPDX-License-Identifier: Apache-2.0
// Any bytes as an Arrow file: rows, or a refusal; no row longer than the file could make it.

#include "host/arrow.h"
#include "test/fuzz/input_file.h"
#include "test/fuzz/mutate.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
MUTATES_AS(words)

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct arrow *arrow;
    struct text row = { "", 0 };
    if (!arrow_open(&arrow, input_file(data, size), NULL))
        for (int64_t total = 0; total < 64 << 20 && row.at; total += (int64_t)row.size)
            if (arrow_next(arrow, &row))
                break;
    arrow_close(arrow);
    return 0;
}
