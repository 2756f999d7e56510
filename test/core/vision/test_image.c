// SPDX-License-Identifier: Apache-2.0
// Sizes read from the headers of image files, whole, cut off and broken.

#include "core/vision/image.h"

#include "test/test.h"

#include <string.h>

#define BYTES(literal) ((struct text){ (literal), sizeof(literal) - 1 })

static const struct {
    const char *what;
    struct text bytes;
    int64_t width, height;
} files[] = {
    { "PNG", BYTES("\x89PNG\r\n\x1A\n\0\0\0\rIHDR\0\0\x04\0\0\0\x03\0\x08\x02\0\0\0"), 1024, 768 },
    { "JPEG after an application segment",
      BYTES("\xFF\xD8\xFF\xE0\0\x06JFIF\xFF\xFF\xC0\0\x11\x08\x01\xE0\x02\x80\x03"), 640, 480 },
    { "JPEG, progressive, of the longest sides",
      BYTES("\xFF\xD8\xFF\xC4\0\x02\xFF\xC2\0\x11\x08\xFF\xFF\xFF\xFF\x03"), 65535, 65535 },
    { "WebP, lossy",
      BYTES("RIFF\x24\0\0\0WEBPVP8 \x18\0\0\0\x30\x01\0\x9D\x01\x2A\x90\x01\x2C\x01"), 400, 300 },
    { "WebP, lossless", BYTES("RIFF\x24\0\0\0WEBPVP8L\x18\0\0\0\x2F\x8F\xC1\x4A\0\0\0\0\0\0"), 400,
      300 },
    { "WebP, extended", BYTES("RIFF\x24\0\0\0WEBPVP8X\x0A\0\0\0\0\0\0\0\x8F\x01\0\x2B\x01\0"), 400,
      300 },
};

TEST(image_sizes_are_read_from_headers_of_png_jpeg_and_webp)
{
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct image_size size;
        CHECK(!image_read(&size, files[i].bytes));
        CHECK(size.width == files[i].width && size.height == files[i].height);
    }
}

TEST(image_headers_that_are_cut_off_are_refused_at_every_byte)
{
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        for (size_t cut = 0; cut < 14; cut++) {
            struct image_size size;
            struct text part = { files[i].bytes.at, cut };
            CHECK(image_read(&size, part) == ERR_INPUT);
            CHECK(strstr(error_text(), "cut off") || strstr(error_text(), "neither PNG"));
        }
}

TEST(image_files_that_are_broken_are_refused_with_one_sentence)
{
    static const struct {
        struct text bytes;
        const char *problem;
    } broken[] = {
        { BYTES("GIF89a\0\0\0\0"), "neither PNG, JPEG nor WebP" },
        { BYTES("\x89PNG\r\n\x1A\n\0\0\0\rIDAT\0\0\x04\0\0\0\x03\0\x08"), "IHDR" },
        { BYTES("\x89PNG\r\n\x1A\n\0\0\0\rIHDR\0\0\0\0\x3B\x9A\xCA\0\x08"), "0 × 1000000000" },
        { BYTES("\xFF\xD8\xFF\xE0\0\0\xFF\xC0\0\x11\x08\x01\xE0\x02\x80"), "segment of 0 bytes" },
        { BYTES("\xFF\xD8\xFF\xDA\0\x08\0\0\0\0\0\0\0\0"), "no frame header" },
        { BYTES("RIFF\x24\0\0\0WEBPVP8Z\x0A\0\0\0\0\0\0\0\x8F\x01\0\x2B\x01\0"), "VP8" },
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        struct image_size size;
        CHECK(image_read(&size, broken[i].bytes) == ERR_INPUT);
        CHECK(strstr(error_text(), broken[i].problem));
    }
}

TEST(image_sizes_are_read_from_base64_and_from_words)
{
    struct image_size size;
    CHECK(!image_read_base64(&size, TEXT("iVBORw0KGgoAAAANSUhEUgAABAAAAAMACAIAAAA=")));
    CHECK(size.width == 1024 && size.height == 768);
    CHECK(image_read_base64(&size, TEXT("iVBORw0KGgo=")) == ERR_INPUT);
    CHECK(!image_read_words(&size, TEXT("1024x768")) && size.width == 1024 && size.height == 768);
    static const char *const wrong[] = { "", "x", "1024", "0x1000000000", "-1x5", "ax5", "5x" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK(image_read_words(&size, text_of(wrong[i])) == ERR_USAGE);
}
