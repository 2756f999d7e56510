// SPDX-License-Identifier: Apache-2.0
// Any bytes as CSV, separated by the first of them.

#include "base/csv.h"
#include "test/fuzz/mutate.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
MUTATES_AS(lines)

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    static const char separators[] = { ',', '\t', ';', '|' };
    if (!size)
        return 0;
    struct arena arena = { 0 };
    struct csv csv;
    struct text in = { (const char *)data + 1, size - 1 };
    if (!csv_read(&csv, &arena, in, "fuzz", separators[data[0] % 4])) {
        size_t bytes = 0;
        for (size_t row = 0; row < csv.rows; row++)
            for (size_t column = 0; column < csv.columns; column++)
                bytes += csv_cell(&csv, row, (int)column).size;
        if (bytes > size)
            abort(); // cells hold no more than the file
    }
    arena_release(&arena);
    return 0;
}
