// SPDX-License-Identifier: Apache-2.0
// tokenizer_window: the classes of the next 64 bytes of a text, one bit each.
//
// For the scanners of tokenizer_scan.c, which compute from them where words begin:
//
//     text      "the cat, "
//     letters    111011100
//     spaces     000100001
//     symbols    000000010

#pragma once

#include "core/tokenizer/tokenizer_internal.h"

#include <string.h>

// Classes of the next 64 bytes, one bit each; bits after the end are 0.
struct window {
    uint64_t letters;
    uint64_t uppers;
    uint64_t spaces;
    uint64_t digits;
    uint64_t symbols; // all that is no letter, number or white space, except the apostrophe
    uint64_t newlines, tabs, slashes;
    uint64_t continuing; // bytes of a character after its first
};
enum { WINDOW_READ = SCAN_WINDOW + 2 }; // the last character may end after the window

// Gathers the lowest bits of eight bytes.
static inline uint64_t gather(uint64_t word)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    return (word & ones) * UINT64_C(0x0102040810204080) >> 56;
}

// The number of bits that are set. Plain x86-64 has no instruction for it, and the compiler's own
// function is a call in the hottest loop.
static inline size_t count_bits(uint64_t bits)
{
    bits -= bits >> 1 & UINT64_C(0x5555555555555555);
    bits = (bits & UINT64_C(0x3333333333333333)) + (bits >> 2 & UINT64_C(0x3333333333333333));
    bits = (bits + (bits >> 4)) & UINT64_C(0x0F0F0F0F0F0F0F0F);
    return bits * UINT64_C(0x0101010101010101) >> 56;
}

// Swaps bits of two numbers: those of `low` in b with those `shift` places higher in a.
static inline void swap_bits(uint64_t *a, uint64_t *b, int shift, uint64_t low)
{
    uint64_t differ = (*a >> shift ^ *b) & low;
    *b ^= differ;
    *a ^= differ << shift;
}

// 64 bytes of eight bits become eight rows of 64 bits: row r has bit r of every byte. Compilers
// vectorize this: first the 8 by 8 bits of each number change rows and columns, then the bytes.
static inline void transpose(const uint8_t bytes[64], uint64_t rows[8])
{
    memcpy(rows, bytes, 64);
    for (int i = 0; i < 8; i++) {
        uint64_t x = rows[i], differ;
        differ = (x ^ x >> 7) & UINT64_C(0x00AA00AA00AA00AA);
        x ^= differ ^ differ << 7;
        differ = (x ^ x >> 14) & UINT64_C(0x0000CCCC0000CCCC);
        x ^= differ ^ differ << 14;
        differ = (x ^ x >> 28) & UINT64_C(0x00000000F0F0F0F0);
        rows[i] = x ^ differ ^ differ << 28;
    }
    for (int i = 0; i < 4; i++)
        swap_bits(&rows[i], &rows[i + 4], 32, UINT64_C(0x00000000FFFFFFFF));
    for (int i = 0; i < 8; i += 4)
        for (int k = i; k < i + 2; k++)
            swap_bits(&rows[k], &rows[k + 2], 16, UINT64_C(0x0000FFFF0000FFFF));
    for (int i = 0; i < 8; i += 2)
        swap_bits(&rows[i], &rows[i + 1], 8, UINT64_C(0x00FF00FF00FF00FF));
}

// Adds the letters and marks of scripts with short words: Hangul syllables, Thai and Arabic. Other
// characters are left to the one-word scanner, those of Chinese and Japanese because their words
// seldom end in the window they begin in. If the pattern cuts by case, marks and Thai are left,
// too: marks are letters or symbols by what is before them, and words of Thai are long. Compilers
// vectorize the loop.
static inline void add_scripts(struct window *w, const uint8_t bytes[WINDOW_READ], bool cased)
{
    uint8_t flags[SCAN_WINDOW];
    uint64_t rows[8];
    for (int i = 0; i < SCAN_WINDOW; i++) {
        uint8_t a = bytes[i], b = bytes[i + 1], c = bytes[i + 2];
        uint8_t two = (uint8_t)(b - 0x80) < 0x40, three = two & ((uint8_t)(c - 0x80) < 0x40);
        uint8_t hangul =
            ((uint8_t)(a - 0xEB) < 2) | ((a == 0xEA) & (b >= 0xB0)) | ((a == 0xED) & (b < 0x9E));
        uint8_t thai = (a == 0xE0) & ((b & 0xFE) == 0xB8), code = (uint8_t)(b << 6 | (c & 0x3F));
        uint8_t mark =
            (uint8_t)((code == 0x31) + ((uint8_t)(code - 0x34) < 7) + ((uint8_t)(code - 0x47) < 8));
        uint8_t other = (uint8_t)(((uint8_t)(code - 1) < 0x33) + ((uint8_t)(code - 0x40) < 7));
        uint8_t arabic = ((a == 0xD8) & (b >= 0xA0)) | ((a == 0xD9) & (b <= 0x8A));
        uint8_t vowel = (a == 0xD9) & ((uint8_t)(b - 0x8B) < 0x15);
        flags[i] = (uint8_t)((hangul & three) | (thai & other & ~mark & three) << 1 |
                             (thai & mark & three) << 2 | (arabic & two) << 3 | (vowel & two) << 4 |
                             ((a & 0xC0) == 0x80) << 5);
    }
    transpose(flags, rows);
    uint64_t threes = cased ? rows[0] : rows[0] | rows[1];
    w->letters |= threes | threes << 1 | threes << 2 | rows[3] | rows[3] << 1;
    w->continuing = rows[5];
    if (!cased)
        w->symbols |= rows[2] | rows[2] << 1 | rows[2] << 2 | rows[4] | rows[4] << 1;
}

// Reads the classes of the bytes at `at`; the text ends after `left`. scripts: those of Hangul,
// Thai and Arabic, too.
static inline struct window read_window(const char *at, size_t left, bool scripts, bool cased)
{
    uint8_t rest[WINDOW_READ] = { 0 }, flags[SCAN_WINDOW];
    const uint8_t *bytes = (const uint8_t *)at;
    if (left < WINDOW_READ)
        bytes = memcpy(rest, at, left);
    for (int i = 0; i < SCAN_WINDOW; i++) { // compilers vectorize this
        uint8_t c = bytes[i];
        uint8_t letter = (uint8_t)((c | 32) - 'a') < 26, upper = (uint8_t)(c - 'A') < 26;
        uint8_t digit = (uint8_t)(c - '0') < 10, visible = (uint8_t)(c - '!') < '~' - '!' + 1;
        uint8_t symbol = visible & ~letter & ~digit & (c != '\'');
        uint8_t newline = (c == '\n') | (c == '\r');
        uint8_t script = ((uint8_t)(c - 0xEA) < 4) | ((c == 0xE0) & !cased) | ((c & 0xFE) == 0xD8);
        flags[i] = (uint8_t)(letter | (upper | script) << 1 | (c == ' ') << 2 | digit << 3 |
                             symbol << 4 | newline << 5 | (c == '\t') << 6 | (c == '/') << 7);
    }
    uint64_t rows[8];
    transpose(flags, rows);
    struct window w = { .letters = rows[0],
                        .uppers = rows[1] & rows[0],
                        .spaces = rows[2],
                        .digits = rows[3],
                        .symbols = rows[4],
                        .newlines = rows[5],
                        .tabs = rows[6],
                        .slashes = rows[7] };
    if (scripts && rows[1] & ~rows[0])
        add_scripts(&w, bytes, cased);
    return w;
}
