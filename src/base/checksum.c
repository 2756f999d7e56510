// SPDX-License-Identifier: Apache-2.0
// XXH64, after its specification (https://github.com/Cyan4973/xxHash): four lanes of 8 bytes, then
// the rest, then a final mix.

#include "base/checksum.h"

#include <string.h>

#define PRIME_1 UINT64_C(0x9E3779B185EBCA87)
#define PRIME_2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define PRIME_3 UINT64_C(0x165667B19E3779F9)
#define PRIME_4 UINT64_C(0x85EBCA77C2B2AE63)
#define PRIME_5 UINT64_C(0x27D4EB2F165667C5)

static inline uint64_t rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static inline uint64_t load(const char *at, size_t size)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++) // little endian; one load after optimization
        value |= (uint64_t)(unsigned char)at[i] << (8 * i);
    return value;
}

static inline uint64_t round_of(uint64_t lane, uint64_t value)
{
    return rotate(lane + value * PRIME_2, 31) * PRIME_1;
}

static uint64_t sum_of_lanes(const char **at, size_t stripes, uint64_t seed)
{
    static const int turns[] = { 1, 7, 12, 18 };
    uint64_t lanes[4] = { seed + PRIME_1 + PRIME_2, seed + PRIME_2, seed, seed - PRIME_1 };
    for (size_t i = 0; i < stripes; i++, *at += 32)
        for (int lane = 0; lane < 4; lane++)
            lanes[lane] = round_of(lanes[lane], load(*at + 8 * lane, 8));
    uint64_t sum = 0;
    for (int lane = 0; lane < 4; lane++)
        sum += rotate(lanes[lane], turns[lane]);
    for (int lane = 0; lane < 4; lane++)
        sum = (sum ^ round_of(0, lanes[lane])) * PRIME_1 + PRIME_4;
    return sum;
}

uint64_t checksum(struct text bytes, uint64_t seed)
{
    const char *at = bytes.at, *end = at + bytes.size;
    uint64_t sum = bytes.size >= 32 ? sum_of_lanes(&at, bytes.size / 32, seed) : seed + PRIME_5;
    sum += bytes.size;
    for (; end - at >= 8; at += 8)
        sum = rotate(sum ^ round_of(0, load(at, 8)), 27) * PRIME_1 + PRIME_4;
    for (; end - at >= 4; at += 4)
        sum = rotate(sum ^ load(at, 4) * PRIME_1, 23) * PRIME_2 + PRIME_3;
    for (; at < end; at++)
        sum = rotate(sum ^ load(at, 1) * PRIME_5, 11) * PRIME_1;
    sum = (sum ^ sum >> 33) * PRIME_2;
    sum = (sum ^ sum >> 29) * PRIME_3;
    return sum ^ sum >> 32;
}

const char *checksum_text(struct arena *arena, uint64_t sum)
{
    return text_format(arena, "xxh64:%016llx", (unsigned long long)sum);
}
