// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE // posix_fadvise
#include "host/file.h"
#include "test/files.h"
#include "test/test.h"
#include "train/files/direct.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIZE = 3 << 20, PARTS = 200 };

static char byte_at(size_t i)
{
    return (char)(i * 2654435761u >> 13);
}

static const char *make_file(const char *name)
{
    char *content = arena_alloc(&test_arena, SIZE);
    for (size_t i = 0; i < SIZE; i++)
        content[i] = byte_at(i);
    return files_write(name, (struct text){ content, SIZE });
}

// Drops a file from memory, so that it has to be read from the disk; where a file system does not
// do that, the parts are used where they are mapped.
static void drop(const char *path)
{
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0 && !fdatasync(fd));
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

static const char *map(const char *path)
{
    int fd = open(path, O_RDONLY);
    void *at = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE, fd, 0);
    CHECK(at != MAP_FAILED);
    close(fd);
    return at;
}

static bool is_right(const struct direct_part *part, const char *bytes)
{
    for (size_t i = 0; i < part->bytes; i++)
        if (bytes[i] != byte_at(part->offset + i))
            return false;
    return true;
}

TEST(direct_reads_every_part_whatever_its_place_and_size)
{
    const char *paths[] = { make_file("direct_a"), make_file("direct_b") };
    const char *mapped[] = { map(paths[0]), map(paths[1]) };
    struct direct_part *parts = ARENA_NEW(&test_arena, struct direct_part, PARTS);
    uint32_t seed = 1;
    for (size_t i = 0; i < PARTS; i++) {
        seed = seed * 1664525u + 1013904223u;
        size_t size = i % 9 ? seed >> 14 : i % 2 ? SIZE : 0; // up to 256 KiB, all, or nothing
        size_t offset = size == SIZE ? 0 : (seed * 7919u >> 8) % (SIZE - size);
        const char *path = i % 11 ? paths[i % 2] : NULL; // some are only mapped
        parts[i] = (struct direct_part){ path, offset, size, mapped[i % 2] + offset };
    }
    parts[PARTS - 1] = (struct direct_part){ paths[0], SIZE - 5, 5, mapped[0] + SIZE - 5 };
    for (int round = 0; round < 2; round++) { // from the disk, then from memory
        if (!round)
            drop(paths[0]), drop(paths[1]);
        struct direct *direct = direct_open(parts, PARTS);
        for (size_t i = 0; i < PARTS; i++)
            CHECK(is_right(&parts[i], direct_next(direct)));
        direct_close(direct);
    }
}

TEST(direct_uses_the_mapping_where_a_file_cannot_be_read)
{
    const char *path = make_file("direct_gone"), *mapped = map(path);
    struct direct_part parts[] = { { path, 0, SIZE, mapped }, { path, 4095, 3, mapped + 4095 } };
    drop(path);
    unlink(path);
    struct direct *direct = direct_open(parts, 2);
    CHECK(direct_next(direct) == mapped && direct_next(direct) == mapped + 4095);
    direct_close(direct);
}

TEST(direct_can_be_closed_before_everything_is_used)
{
    const char *path = make_file("direct_early"), *mapped = map(path);
    struct direct_part parts[] = { { path, 0, SIZE, mapped }, { path, 0, SIZE, mapped } };
    drop(path);
    for (size_t used = 0; used < 2; used++) {
        struct direct *direct = direct_open(parts, 2);
        for (size_t i = 0; i < used; i++)
            CHECK(is_right(&parts[i], direct_next(direct)));
        direct_close(direct);
    }
    direct_close(NULL);
}
