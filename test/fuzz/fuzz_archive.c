// SPDX-License-Identifier: Apache-2.0
// Any bytes as a packed file: unpacked within bounds, or refused.

#define _GNU_SOURCE

#include "host/archive.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    static bool is_open;
    if (!is_open && dup2(memfd_create("input", 0), STDIN_FILENO))
        abort();
    is_open = true;
    if (ftruncate(STDIN_FILENO, 0) || pwrite(STDIN_FILENO, data, size, 0) != (ssize_t)size ||
        lseek(STDIN_FILENO, 0, SEEK_SET))
        abort();
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
