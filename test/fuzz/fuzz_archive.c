// SPDX-License-Identifier: Apache-2.0
// Any bytes as a packed file: unpacked within bounds, or refused.

#include "host/archive.h"

#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    int ends[2];
    if (size > 60000 || pipe(ends)) // what a pipe holds without a reader
        return 0;
    if (write(ends[1], data, size) != (ssize_t)size)
        abort();
    close(ends[1]);
    dup2(ends[0], STDIN_FILENO);
    close(ends[0]);
    struct archive in;
    static char buffer[65536];
    if (!archive_open(&in, "-", 0)) {
        size_t got = 1;
        for (int64_t total = 0; got && total < 64 << 20; total += (int64_t)got)
            if (archive_read(&in, buffer, 1 + size * 37 % sizeof buffer, &got))
                break;
        archive_close(&in);
    }
    return 0;
}
