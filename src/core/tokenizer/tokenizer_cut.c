// SPDX-License-Identifier: Apache-2.0
// Cuts long words where no merge can cross, so that their parts can be merged and cached alone, and
// starts their merging from characters instead of bytes.
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
//
// The bytes of a character become one token, whatever stands next to it, if all tokens that contain
// it and more, and all that cross its borders with half of a character there, have higher ranks
// than the merges that make it: while one of these is left, it comes first. Then a word may start
// as its characters, with a third of the symbols and a fifth of the merges.

#include "core/tokenizer/tokenizer_internal.h"

#include <string.h>

enum { CODES = 1 << 16, SPACE_MARK = 0xE29681 };

// A character of two or three bytes as one token.
struct made {
    int32_t id;    // TOKENIZER_NONE if it is not made, or after others
    uint32_t rank; // the highest of the merges that make it; 0 if tokens are made of characters
};

// In which ways tokens with half a character may join a character of three bytes to the next one:
// bit 3 (i − 1) + k − 1 by its last i bytes and k bytes of the other, and the same before it.
struct joints {
    uint8_t after, before;
};

struct cuts {
    uint64_t pairs[1 << 14];  // bits, by hash
    uint64_t partial[256][4]; // bit b of a: a token with half a character has byte b after byte a
    uint32_t (*halves)[256];  // the lowest rank of these tokens
    struct joints *joints;    // by code, of characters of three bytes
    struct made *made;        // by code
    bool reads_spaces;        // as the mark
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

static bool is_partial(const struct cuts *cuts, char left, char right)
{
    unsigned char a = (unsigned char)left, b = (unsigned char)right;
    return cuts->partial[a][b >> 6] >> (b & 63) & 1;
}

// The ways by what decides them: the last i bytes before a border, the first k after it.
struct joints_by {
    uint8_t last[64], last_two[1 << 12], whole_before[CODES]; // continuing bytes by six bits each
    uint8_t lead[16], lead_two[1 << 10], whole_after[CODES];  // leads of three bytes by four bits
};

static uint32_t six_bits(const char *at, size_t size)
{
    uint32_t bits = 0;
    for (size_t i = 0; i < size; i++)
        bits = bits << 6 | ((unsigned char)at[i] & 63);
    return bits;
}

// A token with half a character has `left` bytes of the character before the border, `right` of the
// one after it.
static void note_joint(struct joints_by *by, const char *border, size_t left, size_t right)
{
    const char *from = border - left;
    unsigned char before = (unsigned char)*from, after = (unsigned char)*border;
    if (left > 3 || right > 3 || (left == 3 && right == 3))
        return;
    uint8_t way = (uint8_t)(1 << (3 * (left - 1) + right - 1));
    if (left == 3 && before >= 0xE0 && before < 0xF0)
        by->whole_before[six_bits(from, 3) & 0xFFFF] |= way;
    if (left == 2 && continues(*from))
        by->last_two[six_bits(from, 2)] |= way;
    if (left == 1 && continues(*from))
        by->last[six_bits(from, 1)] |= way;
    if (after < 0xE0 || after >= 0xF0)
        return;
    if (right == 3)
        by->whole_after[six_bits(border, 3) & 0xFFFF] |= way;
    if (right == 2)
        by->lead_two[six_bits(border, 2) & 0x3FF] |= way;
    if (right == 1)
        by->lead[after & 15] |= way;
}

static void set_joints(struct cuts *cuts, const struct joints_by *by)
{
    for (uint32_t code = 0; code < CODES; code++) {
        cuts->joints[code].after =
            by->whole_before[code] | by->last_two[code & 0xFFF] | by->last[code & 63];
        cuts->joints[code].before =
            by->whole_after[code] | by->lead_two[code >> 6] | by->lead[code >> 12];
    }
}

// rank: the lowest of the merges that make the token.
static void add_token(struct cuts *cuts, struct text token, uint32_t rank, struct joints_by *joints)
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
        if (!partial)
            continue;
        cuts->partial[a][b >> 6] |= UINT64_C(1) << (b & 63);
        note_joint(joints, token.at + at, left, right);
        cuts->halves[a][b] = rank < cuts->halves[a][b] ? rank : cuts->halves[a][b];
    }
}

static bool joins_anyhow(const struct cuts *cuts, struct text left, struct text right)
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

static inline uint32_t code_of_three(struct character c)
{
    return (c.bytes >> 4 & 0xF000) | (c.bytes >> 2 & 0xFC0) | (c.bytes & 0x3F);
}

// Whether a token may have half of one of two characters next to the other or its half. Of
// characters of three bytes only the ways are tried that are known of both.
static inline bool joins_partly(const struct cuts *cuts, struct character left,
                                struct character right, const char *border)
{
    if (left.size != 3 || right.size != 3)
        return joins_anyhow(cuts, (struct text){ border - left.size, left.size },
                            (struct text){ border, right.size });
    unsigned ways =
        cuts->joints[code_of_three(left)].after & cuts->joints[code_of_three(right)].before;
    for (; ways; ways &= ways - 1) {
        int way = __builtin_ctz(ways), before = way / 3 + 1, after = way % 3 + 1;
        if (has_pair(cuts, left.bytes & ((1u << 8 * before) - 1), right.bytes >> 8 * (3 - after)))
            return true;
    }
    return false;
}

// The same as tokens have it: a space may stand for the mark.
static inline struct character symbol_at(const struct cuts *cuts, const char *at, const char *end)
{
    struct character here = character_at(at, end);
    if (cuts->reads_spaces && here.bytes == ' ')
        here.bytes = SPACE_MARK;
    return here;
}

// Bytes that are not UTF-8 are no characters: a token may have any of them side by side.
const char *tokenizer_cut(const struct cuts *cuts, const char *at, const char *end)
{
    struct character left = symbol_at(cuts, at, end), right;
    for (at += left.size ? left.size : 1; at < end;
         at += right.size ? right.size : 1, left = right) {
        right = symbol_at(cuts, at, end);
        if (!left.size || !right.size || (left.bytes | right.bytes) < 0x80 ||
            has_pair(cuts, left.bytes, right.bytes))
            continue;
        if (!is_partial(cuts, at[-1], *at) || !joins_partly(cuts, left, right, at))
            return at;
    }
    return end;
}

size_t tokenizer_cut_all(const struct cuts *cuts, const char *at, const char *end, uint32_t *ends,
                         size_t room)
{
    const char *start = at;
    size_t count = 0;
    struct character left = symbol_at(cuts, at, end), right;
    for (at += left.size ? left.size : 1; at < end && count + 1 < room;
         at += right.size ? right.size : 1, left = right) {
        right = symbol_at(cuts, at, end);
        bool cut = (left.size && right.size) & ((left.bytes | right.bytes) >= 0x80) &
                   !has_pair(cuts, left.bytes, right.bytes);
        if (cut & is_partial(cuts, at[-1], *at))
            cut = !joins_partly(cuts, left, right, at);
        ends[count] = (uint32_t)(at - start);
        count += cut;
    }
    if (at >= end)
        ends[count++] = (uint32_t)(end - start);
    return count;
}

// --- characters --------------------------------------------------------------

// The code of a character of two or three bytes; 0 for others, and for codes in more bytes than
// they need.
static uint32_t code_of(const char *at, size_t size)
{
    const unsigned char *s = (const unsigned char *)at;
    if (size != 2 && size != 3)
        return 0;
    uint32_t code = size == 2
                        ? (uint32_t)(s[0] & 31) << 6 | (s[1] & 63)
                        : (uint32_t)(s[0] & 15) << 12 | (uint32_t)(s[1] & 63) << 6 | (s[2] & 63);
    return code >= (size == 2 ? 0x80 : 0x800) ? code : 0;
}

// Whether no token with half a character takes a byte across the border before merges of the rank.
static bool holds(const struct cuts *cuts, const char *border, uint32_t rank)
{
    return !is_partial(cuts, border[-1], *border) ||
           cuts->halves[(unsigned char)border[-1]][(unsigned char)*border] > rank;
}

int32_t tokenizer_character(const struct cuts *cuts, struct text character)
{
    uint32_t size = character_at(character.at, character.at + character.size).size;
    return cuts->made[size == character.size ? code_of(character.at, size) : 0].id;
}

size_t tokenizer_characters(const struct cuts *cuts, const int32_t *bytes, struct text word,
                            int32_t *ids, uint32_t *sizes)
{
    const char *at = word.at, *end = at + word.size;
    size_t count = 0;
    bool after_character = true; // or at the start
    for (struct character here = character_at(at, end), next; at < end; here = next) {
        const char *stop = at + (here.size ? here.size : 1);
        next = stop < end ? character_at(stop, end) : (struct character){ 0 };
        struct made made = cuts->made[code_of(at, here.size)];
        bool alone = made.id >= 0 && after_character && (stop == end || next.size) &&
                     (at == word.at || holds(cuts, at, made.rank)) &&
                     (stop == end || holds(cuts, stop, made.rank));
        after_character = here.size;
        if (alone) {
            ids[count] = made.id;
            sizes[count++] = here.size;
            at = stop;
        }
        for (; at < stop; at++) {
            ids[count] = bytes[(unsigned char)*at];
            sizes[count++] = 1;
        }
    }
    return count;
}

// The highest rank of the merges that make one token of the bytes of a character;
// TOKENIZER_NO_RANK if there are none.
static uint32_t rank_of_character(const struct tokenizer *t, struct text token, int32_t id)
{
    const struct merges *m = &t->merges;
    int32_t bytes[3] = { 0 };
    for (size_t i = 0; i < token.size; i++)
        bytes[i] = t->byte_ids[(unsigned char)token.at[i]];
    uint32_t left = tokenizer_rank(m, bytes[0], bytes[1]);
    uint32_t right = token.size == 3 ? tokenizer_rank(m, bytes[1], bytes[2]) : TOKENIZER_NO_RANK;
    uint32_t first = left <= right ? left : right, last = first;
    if (first != TOKENIZER_NO_RANK && token.size == 3)
        last = left <= right ? tokenizer_rank(m, m->wholes[left], bytes[2])
                             : tokenizer_rank(m, bytes[0], m->wholes[right]);
    if (last == TOKENIZER_NO_RANK || m->wholes[last] != id)
        return TOKENIZER_NO_RANK;
    return last > first ? last : first;
}

static void find_made(const struct tokenizer *t, struct cuts *cuts)
{
    memset(cuts->made, 0xFF, CODES * sizeof *cuts->made); // TOKENIZER_NONE
    for (int32_t id = 0; id < t->vocabulary.size; id++) {
        struct text token = t->vocabulary.tokens[id];
        uint32_t size = token.size > 1 ? character_at(token.at, token.at + token.size).size : 0;
        uint32_t code = size == token.size ? code_of(token.at, size) : 0;
        uint32_t rank = !code           ? TOKENIZER_NO_RANK
                        : t->byte_level ? rank_of_character(t, token, id)
                                        : 0;
        if (rank != TOKENIZER_NO_RANK)
            cuts->made[code] = (struct made){ id, rank };
    }
}

// Drops the characters of a token that merges before they do.
static void drop_late(struct cuts *cuts, struct text token, uint32_t rank)
{
    const char *end = token.at + token.size;
    for (const char *at = token.at; at < end;) {
        struct character here = character_at(at, end);
        struct made *made = &cuts->made[code_of(at, here.size)];
        if (here.size < token.size && made->id >= 0 && made->rank >= rank)
            made->id = TOKENIZER_NONE;
        at += here.size ? here.size : 1;
    }
}

void tokenizer_choose_cuts(struct tokenizer *t, struct arena *arena)
{
    bool knows_all = t->byte_level || t->scan == SCAN_WHOLE;
    for (int byte = 0; t->byte_level && byte < 256; byte++)
        knows_all = knows_all && t->byte_ids[byte] >= 0;
    if (t->model != MODEL_BPE || !t->merges.count || !knows_all || t->suffix.size ||
        t->continuing.size)
        return;
    struct arena scratch = { 0 };
    struct cuts *cuts = ARENA_NEW(arena, struct cuts, 1);
    cuts->reads_spaces = t->reads_spaces;
    int32_t size = t->vocabulary.size;
    uint32_t *ranks = ARENA_NEW(&scratch, uint32_t, (size_t)size); // the lowest that makes a token
    memset(ranks, 0xFF, (size_t)size * sizeof *ranks);
    for (uint32_t rank = t->merges.count; rank--;)
        ranks[t->merges.wholes[rank]] = rank;
    cuts->halves = arena_alloc(arena, 256 * sizeof *cuts->halves);
    memset(cuts->halves, 0xFF, 256 * sizeof *cuts->halves);
    struct joints_by *joints = ARENA_NEW(&scratch, struct joints_by, 1);
    for (int32_t id = 0; id < size; id++)
        add_token(cuts, t->vocabulary.tokens[id], ranks[id], joints);
    cuts->joints = ARENA_NEW(arena, struct joints, CODES);
    set_joints(cuts, joints);
    cuts->made = ARENA_NEW(arena, struct made, CODES);
    find_made(t, cuts);
    for (int32_t id = 0; t->byte_level && id < size; id++)
        drop_late(cuts, t->vocabulary.tokens[id], ranks[id]);
    t->cuts = cuts;
    arena_release(&scratch);
}
