// SPDX-License-Identifier: Apache-2.0
// input_file: the bytes of a fuzzer's input as a file, for readers that open one.

#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// A path that leads to the bytes until the next call. The file has no name: nothing is left behind.
static inline const char *input_file(const unsigned char *data, size_t size)
{
    static char path[] = "/tmp/gpuhours-fuzz-XXXXXX";
    static int fd = -1;
    if (fd < 0) {
        fd = mkstemp(path);
        if (fd < 0 || unlink(path))
            abort();
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    return path;
}
