// SPDX-License-Identifier: Apache-2.0
// Cuts long words where no merge can cross, so that their parts can be merged and cached alone.
//
// Chinese, Japanese and Thai have no spaces: a whole clause is one word, hardly any occurs twice,
// and a word cache is of no use. But byte-pair encoding only ever makes tokens of the vocabulary.
// If no token contains two adjacent characters, nothing merges across them, and both sides merge as
// if they stood alone:
//
//     我们将学习大规模部署系统      no token contains 们将, 习大, 模部 or 署系
//     我们 将学习 大规模 部署 系统   five parts; each of them is met again soon
//
// The pairs of characters inside tokens are bits of a hash table. A stray bit only means a part
// that is longer than it need be. Tokens of a byte-level vocabulary may begin or end inside a
// character: of those characters, the bytes that the token has are hashed.

#include "core/tokenizer/tokenizer_internal.h"

#include <string.h>

struct cuts {
    uint64_t pairs[1 << 14];  // bits, by hash
    uint64_t partial[256][4]; // bit b of a: a token with half a character has byte b after byte a
};

static uint32_t hash_pair(uint32_t left, uint32_t right)
{
    uint64_t hash = (left * UINT64_C(0x9E3779B97F4A7C15)) ^ (right * UINT64_C(0xC2B2AE3D27D4EB4F));
    return (uint32_t)(hash >> 44);
}

static void add_pair(struct cuts *cuts, uint32_t left, uint32_t right)
{
    uint32_t bit = hash_pair(left, right);
    cuts->pairs[bit >> 6] |= UINT64_C(1) << (bit & 63);
}

static bool has_pair(const struct cuts *cuts, uint32_t left, uint32_t right)
{
    uint32_t bit = hash_pair(left, right);
    return cuts->pairs[bit >> 6] >> (bit & 63) & 1;
}

static bool continues(char byte)
{
    return (byte & 0xC0) == 0x80;
}

static size_t size_of(unsigned char lead)
{
    return lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

// Up to four bytes as a number; the number of bytes is part of it, since none of them is 0.
static uint32_t bytes_at(const char *at, size_t size)
{
    uint32_t bytes = 0;
    for (size_t i = 0; i < size; i++)
        bytes = bytes << 8 | (unsigned char)at[i];
    return bytes;
}

static void add_token(struct cuts *cuts, struct text token)
{
    for (size_t at = 1; at < token.size; at++) {
        if (continues(token.at[at]))
            continue;
        size_t left = 1, right = size_of((unsigned char)token.at[at]);
        while (left < 4 && left < at && continues(token.at[at - left]))
            left++;
        bool partial = continues(token.at[at - left]) || at + right > token.size;
        right = at + right > token.size ? token.size - at : right;
        add_pair(cuts, bytes_at(token.at + at - left, left), bytes_at(token.at + at, right));
        unsigned char a = (unsigned char)token.at[at - 1], b = (unsigned char)token.at[at];
        if (partial)
            cuts->partial[a][b >> 6] |= UINT64_C(1) << (b & 63);
    }
}

// Whether a token may have half of one of the two characters next to the other or its half.
static bool joins_partly(const struct cuts *cuts, struct text left, struct text right)
{
    for (size_t i = 1; i <= left.size; i++)
        for (size_t k = 1; k <= right.size; k++)
            if (has_pair(cuts, bytes_at(left.at + left.size - i, i), bytes_at(right.at, k)))
                return true;
    return false;
}

// The character at `at`, as bytes_at() has it; its size is 0 if the bytes there are no character.
struct character {
    uint32_t bytes, size;
};

static inline struct character character_at(const char *at, const char *end)
{
    const unsigned char *s = (const unsigned char *)at;
    ptrdiff_t left = end - at;
    uint32_t lead = s[0];
    if (lead < 0x80)
        return (struct character){ lead, 1 };
    if (left > 2 && lead >= 0xE0 && lead < 0xF0) {
        uint32_t bytes = lead << 16 | (uint32_t)s[1] << 8 | s[2];
        return (struct character){ bytes, (bytes & 0xC0C0) == 0x8080 ? 3 : 0 };
    }
    if (left > 1 && lead >= 0xC0 && lead < 0xE0)
        return (struct character){ lead << 8 | s[1], continues(at[1]) ? 2 : 0 };
    if (left > 3 && lead >= 0xF0) {
        uint32_t bytes = lead << 24 | (uint32_t)s[1] << 16 | (uint32_t)s[2] << 8 | s[3];
        return (struct character){ bytes, (bytes & 0xC0C0C0) == 0x808080 ? 4 : 0 };
    }
    return (struct character){ 0 };
}

// Bytes that are not UTF-8 are no characters: a token may have any of them side by side.
const char *tokenizer_cut(const struct cuts *cuts, const char *at, const char *end)
{
    struct character left = character_at(at, end), right;
    for (at += left.size ? left.size : 1; at < end;
         at += right.size ? right.size : 1, left = right) {
        right = character_at(at, end);
        if (!left.size || !right.size || left.size + right.size == 2 ||
            has_pair(cuts, left.bytes, right.bytes))
            continue;
        unsigned char a = (unsigned char)at[-1], b = (unsigned char)*at;
        bool partial = cuts->partial[a][b >> 6] >> (b & 63) & 1;
        if (!partial || !joins_partly(cuts, (struct text){ at - left.size, left.size },
                                      (struct text){ at, right.size }))
            return at;
    }
    return end;
}

void tokenizer_choose_cuts(struct tokenizer *t, struct arena *arena)
{
    bool knows_all = t->byte_level || t->scan == SCAN_WHOLE;
    for (int byte = 0; t->byte_level && byte < 256; byte++)
        knows_all = knows_all && t->byte_ids[byte] >= 0;
    if (t->model != MODEL_BPE || !knows_all || t->suffix.size || t->continuing.size)
        return;
    struct cuts *cuts = ARENA_NEW(arena, struct cuts, 1);
    for (int32_t id = 0; id < t->vocabulary.size; id++)
        add_token(cuts, t->vocabulary.tokens[id]);
    t->cuts = cuts;
}
