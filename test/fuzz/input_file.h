// SPDX-License-Identifier: Apache-2.0
// input_file: the bytes of a fuzzer's input as a file, for readers that open one.
//
// input_halves: both halves of a table must have all of its rows, each once.

#pragma once

#include <stdint.h>
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

// count gives the rows that begin in a range of the file's bytes, or -1 where it is damaged.
static inline void input_halves(const unsigned char *data, size_t size,
                                int64_t (*count)(const char *path, int64_t from, int64_t to))
{
    const char *path = input_file(data, size);
    int64_t middle = (int64_t)size / 2, whole = count(path, 0, INT64_MAX);
    if (whole >= 0 && whole != count(path, 0, middle) + count(path, middle, (int64_t)size))
        abort();
}
