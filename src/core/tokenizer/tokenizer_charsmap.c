// SPDX-License-Identifier: Apache-2.0
// SentencePiece's compiled normalization (precompiled_charsmap): a map from strings to
// replacements.
//
//     | size of the trie in bytes, 4 bytes | trie: units of 32 bits | replacements, each ends with
//     NUL |
//
// The trie is a double array. A unit is a node; its children lie at (its index XOR offset) XOR
// byte:
//
//     bit 31        this unit is a value: the other bits are an offset into the replacements
//     bits 30 .. 10 offset of the children; shifted left by 8 more if bit 9 is set
//     bit 8         the node ends a key; its value is the child for byte 0
//     bits 7 .. 0   the byte that leads to this node, to check that it is this node's child
//
// A step is one XOR and one comparison. The file may be hostile: every index is checked.
//
// The library looks up a cluster, a character with its combining marks, as a whole if it is short,
// else character by character. SentencePiece replaces the longest key at each place.

#include "core/tokenizer/tokenizer_internal.h"

#include <string.h>

enum { SHORT_CLUSTER = 6 };

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool tokenizer_base64(struct text in, char *out, size_t *size)
{
    uint32_t bits = 0;
    int bit_count = 0;
    *size = 0;
    while (in.size && in.at[in.size - 1] == '=')
        in.size--;
    for (size_t i = 0; i < in.size; i++) {
        int value = base64_value(in.at[i]);
        if (value < 0)
            return false;
        bits = (bits << 6 | (uint32_t)value) & 0xFFFFFF;
        bit_count += 6;
        if (bit_count >= 8) {
            bit_count -= 8;
            out[(*size)++] = (char)(bits >> bit_count);
        }
    }
    return true;
}

static uint32_t unit_at(struct text units, size_t index)
{
    const unsigned char *at = (const unsigned char *)units.at + 4 * index;
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

enum err tokenizer_set_charsmap(struct normal_step *step, struct text map, const char *name)
{
    uint32_t trie = map.size >= 4 ? unit_at(map, 0) : 0;
    if (map.size < 4 || trie > map.size - 4 || trie % 4 || trie < 4)
        return fail(ERR_INPUT, "%s: the precompiled_charsmap of %zu bytes is truncated", name,
                    map.size);
    step->charsmap = (struct text){ map.at + 4, trie };
    step->charsmap_pool = (struct text){ map.at + 4 + trie, map.size - 4 - trie };
    return OK;
}

enum err tokenizer_read_charsmap(struct normal_step *step, struct arena *arena, struct text base64,
                                 const char *name)
{
    struct text map = { arena_alloc(arena, base64.size + 1), 0 };
    if (!base64.at || !tokenizer_base64(base64, (char *)map.at, &map.size))
        return fail(ERR_INPUT, "%s: the precompiled_charsmap is not base64", name);
    return tokenizer_set_charsmap(step, map, name);
}

// The children of a node start at its index XOR this.
static size_t offset_of(uint32_t unit)
{
    return (size_t)(unit >> 10) << ((unit & 0x200) >> 6);
}

// The replacement at `at` of the trie; false if the file is damaged.
static bool replacement(const struct normal_step *step, size_t at, struct text *to)
{
    if (at >= step->charsmap.size / 4)
        return false;
    size_t start = unit_at(step->charsmap, at) & 0x7FFFFFFF;
    if (start >= step->charsmap_pool.size)
        return false;
    to->at = step->charsmap_pool.at + start;
    size_t left = step->charsmap_pool.size - start;
    const char *stop = memchr(to->at, 0, left);
    to->size = stop ? (size_t)(stop - to->at) : left;
    return true;
}

// The size of the key that the text begins with, the longest or the shortest one, and its
// replacement; 0 if there is none.
static size_t look_up(const struct normal_step *step, struct text text, struct text *to)
{
    size_t count = step->charsmap.size / 4, at = 0, found = 0;
    uint32_t unit = unit_at(step->charsmap, 0);
    at ^= offset_of(unit);
    for (size_t i = 0; i < text.size && text.at[i] && (step->longest || !found); i++) {
        at ^= (unsigned char)text.at[i];
        if (at >= count)
            break;
        unit = unit_at(step->charsmap, at);
        if ((unit & 0x800000FF) != (unsigned char)text.at[i])
            break;
        at ^= offset_of(unit);
        if (unit >> 8 & 1 && replacement(step, at, to))
            found = i + 1;
    }
    return found;
}

size_t tokenizer_charsmap_cluster(const struct normal_step *step, const char *at, const char *end,
                                  struct text *to)
{
    if (step->longest) {
        size_t found = look_up(step, (struct text){ at, (size_t)(end - at) }, to);
        if (found)
            return found;
        to->at = NULL;
        const char *next = at;
        unicode_next(&next, end);
        return (size_t)(next - at);
    }
    size_t size = unicode_cluster(at, at, end);
    bool found = size < SHORT_CLUSTER && look_up(step, (struct text){ at, size }, to);
    if (!found)
        to->at = NULL;
    return size;
}

struct text tokenizer_charsmap_character(const struct normal_step *step, struct text character)
{
    struct text to;
    return look_up(step, character, &to) ? to : character;
}
