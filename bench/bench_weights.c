// SPDX-License-Identifier: Apache-2.0
// Reading of a weight file that is not in memory, as the engine reads it, against plain reads.
//
//     build/fast/bench/weights FILE [GB]      writes FILE of that size (default 2) if it is not
//     there
//
// Each line: the way of reading and GB/s of wall time, best of three; the file's pages are dropped
// from memory before each. "dd" is what `dd bs=8M` does; with iflag=direct it goes past the page
// cache. The engine copies each tensor out of the mapped file into a buffer of pinned memory.

#define _GNU_SOURCE // O_DIRECT

#include "host/file.h"
#include "train/files/weights.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 8 << 20, TENSOR = 32 << 20, SLOT = 16 << 20, REPEATS = 3 };

static char *slot; // stands for the pinned memory

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
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

// What the engine does: checks that every weight is finite, which reads them all with several
// threads, then copies them.
static size_t read_weights(const char *path, bool is_checked)
{
    struct file file;
    struct arena arena = { 0 };
    if (file_open(&file, path))
        return 0;
    size_t size = file.text.size, count = size / TENSOR;
    struct weights weights = { .folder = path, .count = count };
    struct safetensors_tensor *tensors = ARENA_NEW(&arena, struct safetensors_tensor, count);
    weights.items = ARENA_NEW(&arena, struct weights_item, count);
    for (size_t i = 0; i < count; i++) {
        tensors[i] = (struct safetensors_tensor){ .type = STORAGE_BF16,
                                                  .at = file.text.at + i * TENSOR,
                                                  .bytes = TENSOR };
        weights.items[i] = (struct weights_item){ .slot = { .rank = 1, .shape = { TENSOR / 2 } },
                                                  .tensor = &tensors[i] };
    }
    if (is_checked && weights_check_finite(&weights))
        printf("%s\n", error_text());
    for (size_t i = 0; i < count * (TENSOR / SLOT); i++)
        memcpy(slot, file.text.at + i * SLOT, SLOT);
    arena_release(&arena);
    file_close(&file);
    return size;
}

static size_t read_by(const char *path, int way)
{
    return way < 2 ? read_plainly(path, way ? O_DIRECT : 0) : read_weights(path, way == 3);
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
    static const char *const ways[] = { "dd", "dd, direct", "mapped",
                                        "mapped, checked in parallel first" };
    const char *path = argc > 1 ? argv[1] : "build/weights.bin";
    slot = aligned_alloc(4096, SLOT);
    if (!slot)
        return 1;
    make(path, argc > 2 ? strtod(argv[2], NULL) : 2);
    for (int way = 0; way < 4; way++) {
        double best = 0;
        for (int i = 0; i < REPEATS; i++) {
            drop(path);
            double began = now(), size = (double)read_by(path, way);
            double rate = size / (now() - began) / 1e9;
            best = rate > best ? rate : best;
        }
        printf("%-33s %6.2f GB/s\n", ways[way], best);
    }
    free(slot);
    return 0;
}
