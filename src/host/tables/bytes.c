// SPDX-License-Identifier: Apache-2.0
// Tells text from bytes, and writes the beginning of an image as base64.

#include "host/tables/bytes.h"

#include <string.h>

// How many bytes follow the first of a character; -1 for one that begins none.
static int tail_of(unsigned char c)
{
    return c < 0x80                ? 0
           : c >= 0xC2 && c < 0xE0 ? 1
           : c >= 0xE0 && c < 0xF0 ? 2
           : c >= 0xF0 && c < 0xF5 ? 3
                                   : -1;
}

bool bytes_are_text(struct text bytes)
{
    for (size_t i = 0; i < bytes.size; i++) {
        unsigned char c = (unsigned char)bytes.at[i];
        int tail = tail_of(c);
        if (tail < 0 || (size_t)tail >= bytes.size - i || (c < ' ' && !strchr("\t\n\r\f", c)) || !c)
            return false;
        for (; tail; tail--)
            if ((bytes.at[++i] & 0xC0) != 0x80)
                return false;
    }
    return true;
}

void bytes_put(struct text bytes, struct json_writer *w, const char *key)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static const char *const starts[] = { "\x89PNG", "\xFF\xD8\xFF", "RIFF" };
    enum { MOST = 3 << 14 };
    bool image = false;
    for (int k = 0; k < 3; k++)
        image |= bytes.size > 12 && !memcmp(bytes.at, starts[k], strlen(starts[k]));
    if (!image) {
        json_put_string(w, key, NULL);
        return;
    }
    struct arena scratch = { 0 };
    size_t size = bytes.size < MOST ? bytes.size : MOST;
    char *out = ARENA_NEW(&scratch, char, size / 3 * 4);
    for (size_t i = 0; i < size / 3; i++) {
        const unsigned char *at = (const unsigned char *)bytes.at + 3 * i;
        uint32_t bits = (uint32_t)at[0] << 16 | (uint32_t)at[1] << 8 | at[2];
        for (int d = 0; d < 4; d++)
            out[4 * i + (size_t)d] = digits[bits >> (18 - 6 * d) & 63];
    }
    json_put_text(w, key, (struct text){ out, size / 3 * 4 });
    arena_release(&scratch);
}
