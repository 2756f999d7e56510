// SPDX-License-Identifier: Apache-2.0
#include "host/zip.h"

#include "test/test.h"

#include <string.h>
#include <zlib.h>

static void put(struct out *out, uint32_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        out_bytes(out, &(char){ (char)(value >> 8 * i) }, 1);
}

// Names and sizes, as they stand before the data and, with an offset, in the central directory.
static void put_about(struct out *out, const char *name, struct text text, size_t packed,
                      int method)
{
    put(out, 20, 2);
    put(out, 0, 2);
    put(out, (uint32_t)method, 2);
    put(out, 0, 4);
    put(out, (uint32_t)crc32(0, (const Bytef *)text.at, (uInt)text.size), 4);
    put(out, (uint32_t)packed, 4);
    put(out, (uint32_t)text.size, 4);
    put(out, (uint32_t)strlen(name), 2);
    put(out, 0, 2);
}

static struct text deflated(struct text text)
{
    size_t room = text.size + 1000;
    char *bytes = arena_alloc(&test_arena, room);
    z_stream z = { .next_in = (Bytef *)(uintptr_t)text.at,
                   .avail_in = (uInt)text.size,
                   .next_out = (Bytef *)bytes,
                   .avail_out = (uInt)room };
    CHECK(deflateInit2(&z, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    CHECK(deflate(&z, Z_FINISH) == Z_STREAM_END);
    deflateEnd(&z);
    return (struct text){ bytes, z.total_out };
}

// An archive with a folder, a stored and a deflated file.
static struct text archive(struct text stored, struct text packed)
{
    struct out out = { .arena = &test_arena }, list = { .arena = &test_arena };
    const char *names[] = { "prices/", "prices/aws.csv", "prices/gcp.csv" };
    struct text texts[] = { { "", 0 }, stored, packed };
    for (int i = 0; i < 3; i++) {
        int method = i == 2 ? 8 : 0;
        struct text data = method ? deflated(texts[i]) : texts[i];
        size_t offset = out.size;
        out_bytes(&out, "PK\3\4", 4);
        put_about(&out, names[i], texts[i], data.size, method);
        out_bytes(&out, names[i], strlen(names[i]));
        out_bytes(&out, data.at, data.size);
        out_bytes(&list, "PK\1\2", 4);
        put(&list, 20, 2);
        put_about(&list, names[i], texts[i], data.size, method);
        put(&list, 0, 4);
        put(&list, 0, 4);
        put(&list, 0, 2);
        put(&list, (uint32_t)offset, 4);
        out_bytes(&list, names[i], strlen(names[i]));
    }
    size_t start = out.size;
    out_bytes(&out, list.at, list.size);
    out_bytes(&out, "PK\5\6", 4);
    put(&out, 0, 4);
    put(&out, 3, 2);
    put(&out, 3, 2);
    put(&out, (uint32_t)list.size, 4);
    put(&out, (uint32_t)start, 4);
    put(&out, 0, 2);
    return out_view(&out);
}

static struct text long_text(size_t size)
{
    char *bytes = arena_alloc(&test_arena, size + 1);
    for (size_t i = 0; i < size; i++)
        bytes[i] = "price,gpu\n"[i % 10];
    return (struct text){ bytes, size };
}

TEST(zip_gives_back_what_was_packed)
{
    struct text packed = long_text(100000), zip = archive(TEXT("a,b\n1,2\n"), packed);
    struct zip_file *files;
    size_t count;
    CHECK(zip_is(zip) && !zip_is(TEXT("price,gpu")));
    CHECK(!zip_read(&files, &count, &test_arena, zip, "x.zip"));
    CHECK(count == 2 && !strcmp(files[0].name, "prices/aws.csv"));
    CHECK(text_is(files[0].text, "a,b\n1,2\n") && text_equal(files[1].text, packed));
}

TEST(zip_that_is_cut_or_damaged_is_refused_wherever)
{
    struct text zip = archive(TEXT("a,b\n1,2\n"), long_text(500));
    struct zip_file *files;
    size_t count;
    for (size_t size = 0; size < zip.size; size++)
        CHECK(zip_read(&files, &count, &test_arena, (struct text){ zip.at, size }, "x.zip"));
    for (size_t i = 0; i < zip.size; i++) { // no byte makes it read outside the file
        char *bytes = arena_copy(&test_arena, zip.at, zip.size);
        bytes[i] ^= 0x55;
        if (!zip_read(&files, &count, &test_arena, (struct text){ bytes, zip.size }, "x.zip"))
            CHECK(count <= 3);
    }
}

TEST(zip_bomb_is_refused_before_it_is_unpacked)
{
    struct text zip = archive(TEXT("a"), long_text((size_t)70 << 20));
    struct zip_file *files;
    size_t count;
    CHECK(zip.size * 100 < (size_t)70 << 20);
    CHECK(zip_read(&files, &count, &test_arena, zip, "x.zip") == ERR_INPUT);
    CHECK(strstr(error_text(), "100 times") != NULL);
}
