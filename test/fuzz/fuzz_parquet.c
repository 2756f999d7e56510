// SPDX-License-Identifier: Apache-2.0
// Any bytes as a Parquet file: rows, or a refusal; no row longer than the limit.

#include "host/parquet.h"
#include "test/fuzz/mutate.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
MUTATES_AS(words)

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    static char path[] = "/tmp/gpuhours-fuzz-XXXXXX";
    static int fd = -1;
    if (fd < 0) { // a file without a name: nothing is left behind
        fd = mkstemp(path);
        if (fd < 0 || unlink(path))
            abort();
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    struct parquet *parquet;
    struct text row = { "", 0 };
    if (!parquet_open(&parquet, path, NULL))
        for (int64_t total = 0; total < 64 << 20 && row.at; total += 1 + (int64_t)row.size)
            if (parquet_next(parquet, &row))
                break;
    parquet_close(parquet);
    return 0;
}
