// SPDX-License-Identifier: Apache-2.0
// Reading of a weight file that is not in memory, as the engine reads it, against plain reads.
//
//     build/fast/bench/weights FILE [GB]      writes FILE of that size (default 2) if it is not
//     there
//
// Each line: the way of reading, GB/s and CPU time, best of three; the file's pages are dropped
// from memory before each. "dd" is what `dd bs=8M` does; with iflag=direct it goes past the page
// cache. The engine copies each tensor out of the mapped file into a buffer of pinned memory.

#define _GNU_SOURCE // O_DIRECT

#include "host/file.h"
#include "train/files/direct.h"
#include "train/storage.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 8 << 20, TENSOR = 32 << 20, SLOT = 16 << 20, REPEATS = 3, WAYS = 4 };

static char *slot; // stands for the pinned memory

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void drop(const char *path)
{
    int fd = open(path, O_RDONLY);
    fdatasync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

static size_t read_plainly(const char *path, int flags)
{
    size_t size = 0;
    int fd = open(path, O_RDONLY | flags);
    for (ssize_t got = 1; fd >= 0 && got > 0; size += got > 0 ? (size_t)got : 0)
        got = read(fd, slot, BLOCK);
    close(fd);
    return size;
}

// What the engine does: checks each tensor and copies it. Before, it read mapped files.
static size_t read_tensors(const char *path, bool is_direct)
{
    struct file file;
    if (file_open(&file, path))
        return 0;
    size_t size = file.text.size, count = size / TENSOR;
    struct direct_part *parts = calloc(count, sizeof *parts);
    for (size_t i = 0; i < count; i++)
        parts[i] = (struct direct_part){ is_direct ? path : NULL, i * TENSOR, TENSOR,
                                         file.text.at + i * TENSOR };
    struct direct *direct = direct_open(parts, count);
    for (size_t i = 0; i < count; i++) {
        const char *stored = direct_next(direct);
        if (storage_first_not_finite(STORAGE_BF16, stored, TENSOR / 2) < TENSOR / 2)
            printf("not finite\n");
        for (size_t at = 0; at < TENSOR; at += SLOT)
            memcpy(slot, stored + at, SLOT);
    }
    direct_close(direct);
    free(parts);
    file_close(&file);
    return size;
}

static size_t read_by(const char *path, int way)
{
    return way < 2 ? read_plainly(path, way ? O_DIRECT : 0) : read_tensors(path, way == 3);
}

static void make(const char *path, double gigabytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    uint64_t *words = (uint64_t *)slot, seed = 1;
    for (double left = gigabytes * 1e9; fd >= 0 && left > 0; left -= BLOCK) {
        for (size_t i = 0; i < BLOCK / sizeof *words; i++)
            words[i] = (seed = seed * 6364136223846793005u + 1) & 0x3fff3fff3fff3fff;
        if (write(fd, slot, BLOCK) != BLOCK)
            break;
    }
    close(fd);
}

int main(int argc, char **argv)
{
    double best[WAYS] = { 0 }, least[WAYS] = { 0 };
    static const char *const ways[WAYS] = { "dd", "dd, direct", "engine, mapped",
                                            "engine, direct" };
    const char *path = argc > 1 ? argv[1] : "build/weights.bin";
    slot = aligned_alloc(4096, SLOT);
    if (!slot)
        return 1;
    make(path, argc > 2 ? strtod(argv[2], NULL) : 2);
    for (int i = 0; i < REPEATS * WAYS; i++) { // in turn: other load comes and goes
        int way = i % WAYS;
        drop(path);
        double began = now(CLOCK_MONOTONIC), worked = now(CLOCK_PROCESS_CPUTIME_ID);
        double gigabytes = (double)read_by(path, way) / 1e9;
        double rate = gigabytes / (now(CLOCK_MONOTONIC) - began);
        double cost = (now(CLOCK_PROCESS_CPUTIME_ID) - worked) / gigabytes;
        best[way] = rate > best[way] ? rate : best[way];
        least[way] = !least[way] || cost < least[way] ? cost : least[way];
    }
    for (int way = 0; way < WAYS; way++)
        printf("%-16s %6.2f GB/s, %.2f CPU seconds per GB\n", ways[way], best[way], least[way]);
    free(slot);
    return 0;
}
