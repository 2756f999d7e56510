// SPDX-License-Identifier: Apache-2.0
#include "host/archive.h"
#include "test/files.h"
#include "test/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Reads a file in pieces of that many bytes; NULL if it failed.
static const char *unpacked(const char *path, size_t piece, size_t *size)
{
    struct archive in;
    struct out out = { .arena = &test_arena };
    char *buffer = arena_alloc(&test_arena, piece);
    enum err err = archive_open(&in, path, 0);
    for (size_t got = 1; !err && got;) {
        err = archive_read(&in, buffer, piece, &got);
        if (!err)
            out_bytes(&out, buffer, got);
    }
    archive_close(&in);
    *size = out.size;
    return err ? NULL : out_string(&out);
}

static bool reads(const char *path, const char *wanted)
{
    size_t size;
    for (size_t piece = 1; piece < 100; piece = piece * 3 + 1) {
        const char *found = unpacked(path, piece, &size);
        if (!found || strcmp(found, wanted))
            return false;
    }
    return true;
}

static bool refuses(const char *path, const char *word)
{
    size_t size;
    return !unpacked(path, 4096, &size) && strstr(error_text(), word);
}

TEST(archive_reads_plain_gzip_and_zstd_by_their_first_bytes)
{
    CHECK(reads(files_write("plain.gz", TEXT("not packed")), "not packed"));
    CHECK(reads(files_gzip("one.bin", TEXT("hello gzip")), "hello gzip"));
    CHECK(reads(files_zstd("two.bin", TEXT("hello zstd")), "hello zstd"));
    CHECK(reads(files_write("none", TEXT("")), ""));
    CHECK(reads(files_write("one", TEXT("x")), "x"));
}

TEST(archive_joins_members_and_frames)
{
    files_gzip("joined.gz", TEXT(""));
    files_gzip("joined.gz", TEXT("ab"));
    files_gzip("joined.gz", TEXT(""));
    CHECK(reads(files_gzip("joined.gz", TEXT("cd")), "abcd"));
    files_zstd("joined.zst", TEXT("ab"));
    files_zstd("joined.zst", TEXT(""));
    CHECK(reads(files_zstd("joined.zst", TEXT("cd")), "abcd"));
}

// A file whose last bytes are missing, or that has more bytes after it.
static const char *changed(const char *path, const char *name, size_t drop, struct text append)
{
    char bytes[4096];
    FILE *in = fopen(path, "rb");
    size_t size = fread(bytes, 1, sizeof bytes - append.size, in);
    fclose(in);
    size -= drop;
    memcpy(bytes + size, append.at, append.size);
    return files_write(name, (struct text){ bytes, size + append.size });
}

TEST(archive_refuses_damage_with_a_sentence)
{
    const char *gzip = files_gzip("whole.gz", TEXT("some text to pack"));
    const char *zstd = files_zstd("whole.zst", TEXT("some text to pack"));
    CHECK(refuses(changed(gzip, "cut.gz", 5, TEXT("")), "ends in the middle"));
    CHECK(refuses(changed(zstd, "cut.zst", 3, TEXT("")), "ends in the middle"));
    CHECK(refuses(changed(gzip, "tail.gz", 0, TEXT("tail")), "not gzip"));
    CHECK(reads(changed(gzip, "zeros.gz", 0, TEXT("\0\0\0")), "some text to pack"));
    CHECK(refuses(changed(gzip, "crc.gz", 8, TEXT("12345678")), "damaged"));
    CHECK(refuses(changed(zstd, "tail.zst", 0, TEXT("tail of other bytes")), "zstd data"));
    CHECK(refuses(files_write("short.gz", TEXT("\x1F\x8B")), "ends in the middle"));
}

// "some text to pack" by bzip2 1.0.8 and by xz 5.4.1.
static const char bzip2_bytes[] =
    "\x42\x5A\x68\x39\x31\x41\x59\x26\x53\x59\x37\x2C\xAB\x14\x00\x00\x06\x11\x80\x40\x00\x2A\x0A"
    "\xCC\x40\x20\x00\x22\x0D\x03\x20\x80\x69\xA6\x8C\xA4\x6C\xCE\xE0\x45\x70\x6E\xF1\x77\x24\x53"
    "\x85\x09\x03\x72\xCA\xB1\x40";
static const char xz_bytes[] =
    "\xFD\x37\x7A\x58\x5A\x00\x00\x04\xE6\xD6\xB4\x46\x02\x00\x21\x01\x16\x00\x00\x00\x74\x2F\xE5"
    "\xA3\x01\x00\x10\x73\x6F\x6D\x65\x20\x74\x65\x78\x74\x20\x74\x6F\x20\x70\x61\x63\x6B\x00\x00"
    "\x00\x00\x77\x9F\x21\x29\xA1\x18\xF0\xFF\x00\x01\x29\x11\x32\x0A\x70\x0E\x1F\xB6\xF3\x7D\x01"
    "\x00\x00\x00\x00\x04\x59\x5A";

static const char *twice(const char *name, struct text bytes)
{
    return changed(files_write(name, bytes), name, 0, bytes);
}

TEST(archive_reads_bzip2_and_xz_and_refuses_what_is_cut_or_damaged)
{
    struct text bzip2 = { bzip2_bytes, sizeof bzip2_bytes - 1 };
    struct text xz = { xz_bytes, sizeof xz_bytes - 1 };
    const char *one = files_write("one.bz2", bzip2), *other = files_write("one.xz", xz);
    CHECK(reads(one, "some text to pack") && reads(other, "some text to pack"));
    CHECK(reads(twice("two.bz2", bzip2), "some text to packsome text to pack"));
    CHECK(reads(twice("two.xz", xz), "some text to packsome text to pack"));
    CHECK(refuses(changed(one, "cut.bz2", 5, TEXT("")), "ends in the middle"));
    CHECK(refuses(changed(other, "cut.xz", 5, TEXT("")), "ends in the middle"));
    CHECK(refuses(changed(one, "crc.bz2", 8, TEXT("12345678")), "bzip2 data is damaged"));
    CHECK(refuses(changed(other, "crc.xz", 12, TEXT("123456789012")), "xz data is damaged"));
    CHECK(refuses(changed(one, "tail.bz2", 0, TEXT("tail")), "not bzip2"));
    CHECK(refuses(changed(other, "tail.xz", 0, TEXT("\0\0\0\0tail")), "not xz"));
}

TEST(archive_says_how_to_unpack_what_it_does_not_read)
{
    CHECK(refuses(files_write("a.zip", TEXT("PK\3\4........")), "unzip"));
    CHECK(refuses(files_write("a.jsonl", TEXT("{\0\"\0a\0")), "iconv -f utf-16le"));
    CHECK(refuses(files_write("a.jsonl", TEXT("\0{\0\"\0a")), "iconv -f utf-16be"));
    CHECK(refuses(files_write("a.jsonl", TEXT("\xFF\xFE\0\0{\0\0\0")), "iconv -f utf-32"));
    CHECK(refuses(files_folder(), "is a folder"));
}

TEST(archive_stops_at_a_bomb)
{
    size_t size = 32 << 20;
    char *zeros = calloc(1, size);
    const char *path = NULL;
    for (int i = 0; i < 10; i++)
        path = files_zstd("bomb.zst", (struct text){ zeros, size });
    free(zeros);
    struct archive in;
    CHECK(!archive_open(&in, path, 0));
    char *buffer = arena_alloc(&test_arena, 1 << 20);
    enum err err = OK;
    for (size_t got = 1; !err && got;)
        err = archive_read(&in, buffer, 1 << 20, &got);
    CHECK(err == ERR_INPUT && strstr(error_text(), "times its size"));
    CHECK(in.out_bytes <= ARCHIVE_FREE_BYTES + (1 << 20));
    archive_close(&in);
}
