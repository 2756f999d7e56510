// SPDX-License-Identifier: Apache-2.0
// Finds width and height in the headers of image files: PNG's first chunk, JPEG's frame header
// after its other segments, WebP's three kinds of first chunk.

#include "core/vision/image.h"

#include <string.h>

static int64_t big(const unsigned char *at, int bytes)
{
    int64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

static int64_t little(const unsigned char *at, int bytes)
{
    int64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | at[i];
    return value;
}

static enum err cut_off(const char *form)
{
    return fail(ERR_INPUT, "the header of the %s image is cut off", form);
}

enum err image_check(const struct image_size *size)
{
    if (size->width < 1 || size->height < 1 || size->width > IMAGE_LONGEST ||
        size->height > IMAGE_LONGEST)
        return fail(ERR_INPUT, "an image of %lld × %lld pixels: each side must be 1 to %d",
                    (long long)size->width, (long long)size->height, IMAGE_LONGEST);
    return OK;
}

// --- PNG ---------------------------------------------------------------------

static enum err read_png(struct image_size *out, struct text bytes)
{
    const unsigned char *at = (const unsigned char *)bytes.at;
    if (bytes.size < 24)
        return cut_off("PNG");
    if (memcmp(bytes.at + 12, "IHDR", 4))
        return fail(ERR_INPUT, "the PNG image does not begin with an IHDR chunk");
    *out = (struct image_size){ big(at + 16, 4), big(at + 20, 4) };
    return OK;
}

// --- JPEG --------------------------------------------------------------------

// SOF0 to SOF15 are frame headers, but for the tables DHT and DAC and the reserved JPG.
static bool is_frame(int marker)
{
    return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

// Markers that stand alone, without a length after them.
static bool is_alone(int marker)
{
    return marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8);
}

static enum err read_jpeg(struct image_size *out, struct text bytes)
{
    const unsigned char *at = (const unsigned char *)bytes.at;
    for (size_t i = 2;;) {
        while (i < bytes.size && at[i] == 0xFF && i + 1 < bytes.size && at[i + 1] == 0xFF)
            i++; // fill bytes
        if (i + 4 > bytes.size)
            return cut_off("JPEG");
        int marker = at[i + 1];
        if (at[i] != 0xFF || marker == 0xD9 || marker == 0xDA)
            return fail(ERR_INPUT, "the JPEG image has no frame header before its data");
        if (is_alone(marker)) {
            i += 2;
            continue;
        }
        size_t length = (size_t)big(at + i + 2, 2);
        if (length < 2)
            return fail(ERR_INPUT, "the JPEG image has a segment of %zu bytes", length);
        if (!is_frame(marker)) {
            i += 2 + length;
            continue;
        }
        if (i + 9 > bytes.size)
            return cut_off("JPEG");
        *out = (struct image_size){ big(at + i + 7, 2), big(at + i + 5, 2) };
        return OK;
    }
}

// --- WebP --------------------------------------------------------------------

static enum err read_webp(struct image_size *out, struct text bytes)
{
    const unsigned char *at = (const unsigned char *)bytes.at;
    if (bytes.size < 30)
        return cut_off("WebP");
    if (!memcmp(at + 12, "VP8X", 4)) {
        *out = (struct image_size){ little(at + 24, 3) + 1, little(at + 27, 3) + 1 };
        return OK;
    }
    if (!memcmp(at + 12, "VP8L", 4) && at[20] == 0x2F) { // two times 14 bits, less one
        int64_t bits = little(at + 21, 4);
        *out = (struct image_size){ (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1 };
        return OK;
    }
    if (!memcmp(at + 12, "VP8 ", 4) && !memcmp(at + 23, "\x9D\x01\x2A", 3)) { // 14 bits each
        *out = (struct image_size){ little(at + 26, 2) & 0x3FFF, little(at + 28, 2) & 0x3FFF };
        return OK;
    }
    return fail(ERR_INPUT, "the WebP image has no header of VP8, VP8L or VP8X");
}

// --- any ---------------------------------------------------------------------

static bool begins(struct text bytes, const char *with, size_t size)
{
    return bytes.size >= size && !memcmp(bytes.at, with, size);
}

enum err image_read(struct image_size *out, struct text bytes)
{
    *out = (struct image_size){ 0 };
    if (begins(bytes, "\x89PNG\r\n\x1A\n", 8))
        TRY(read_png(out, bytes));
    else if (begins(bytes, "\xFF\xD8", 2))
        TRY(read_jpeg(out, bytes));
    else if (begins(bytes, "RIFF", 4) && bytes.size >= 12 && !memcmp(bytes.at + 8, "WEBP", 4))
        TRY(read_webp(out, bytes));
    else
        return fail(ERR_INPUT, "the image is neither PNG, JPEG nor WebP");
    return image_check(out);
}

static int digit_of(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *found = c ? strchr(digits, c) : NULL;
    return found ? (int)(found - digits) : c == '-' ? 62 : c == '_' ? 63 : -1;
}

enum err image_read_base64(struct image_size *out, struct text digits)
{
    enum { MOST = 1 << 16 }; // of a file: frame headers of JPEG come after colour profiles
    static _Thread_local char bytes[MOST];
    size_t count = 0;
    uint32_t bits = 0;
    int held = 0;
    for (size_t i = 0; i < digits.size && count < MOST; i++) {
        int digit = digit_of(digits.at[i]);
        if (digit < 0)
            break; // padding, or the end
        bits = bits << 6 | (uint32_t)digit;
        held += 6;
        if (held < 8)
            continue;
        held -= 8;
        bytes[count++] = (char)(bits >> held & 0xFF);
    }
    return image_read(out, (struct text){ bytes, count });
}

enum err image_read_words(struct image_size *out, struct text words)
{
    struct text sides[2] = { { words.at, 0 }, { 0 } };
    const char *cross = words.size ? memchr(words.at, 'x', words.size) : NULL;
    if (cross) {
        sides[0].size = (size_t)(cross - words.at);
        sides[1] = (struct text){ cross + 1, words.size - sides[0].size - 1 };
    }
    if (!cross || text_read_count(&out->width, sides[0]) || text_read_count(&out->height, sides[1]))
        return fail(ERR_USAGE,
                    "%.*s is no size of an image; write width x height in pixels, like "
                    "1024x768",
                    TEXT_BRIEF(words));
    return image_check(out) ? ERR_USAGE : OK;
}
