// SPDX-License-Identifier: Apache-2.0
#include "test/files.h"
#include "test/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>
#include <zstd.h>

static char folder[64];

static void remove_folder(void)
{
    char command[160];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (system(command))
        fprintf(stderr, "tests: %s is left behind\n", folder);
}

const char *files_folder(void)
{
    if (!*folder) {
        snprintf(folder, sizeof folder, "/tmp/gpuhours-tests-XXXXXX");
        if (!mkdtemp(folder)) {
            perror("tests: no folder for files");
            exit(70);
        }
        atexit(remove_folder);
    }
    return folder;
}

const char *files_path(const char *name)
{
    size_t size = strlen(files_folder()) + strlen(name) + 2;
    char *path = arena_alloc(&test_arena, size);
    snprintf(path, size, "%s/%s", folder, name);
    for (char *slash = strchr(path + strlen(folder) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
    return path;
}

static const char *put(const char *name, const char *mode, const void *at, size_t size)
{
    const char *path = files_path(name);
    FILE *out = fopen(path, mode);
    bool good = out && fwrite(at, 1, size, out) == size;
    if (out)
        good = !fclose(out) && good;
    CHECK(good);
    return path;
}

const char *files_write(const char *name, struct text content)
{
    return put(name, "wb", content.at, content.size);
}

const char *files_gzip(const char *name, struct text content)
{
    z_stream z = { 0 };
    deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
    size_t room = deflateBound(&z, content.size) + 64;
    unsigned char *packed = arena_alloc(&test_arena, room);
    z.next_in = (unsigned char *)content.at;
    z.avail_in = (unsigned)content.size;
    z.next_out = packed;
    z.avail_out = (unsigned)room;
    CHECK(deflate(&z, Z_FINISH) == Z_STREAM_END);
    const char *path = put(name, "ab", packed, room - z.avail_out);
    deflateEnd(&z);
    return path;
}

const char *files_zstd(const char *name, struct text content)
{
    size_t room = ZSTD_compressBound(content.size);
    char *packed = malloc(room); // not of the arena: tests of memory pack hundreds of pieces
    size_t size = packed ? ZSTD_compress(packed, room, content.at, content.size, 3) : 0;
    CHECK(packed && !ZSTD_isError(size));
    const char *path = put(name, "ab", packed, size);
    free(packed);
    return path;
}
