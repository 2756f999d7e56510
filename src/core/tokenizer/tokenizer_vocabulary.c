// SPDX-License-Identifier: Apache-2.0
// The two hash tables of all models: tokens by their bytes, and pairs of tokens that merge.

#include "core/tokenizer/tokenizer_internal.h"

#include <assert.h>
#include <string.h>

static uint64_t hash_of(const char *at, size_t size)
{
    const uint64_t factor = UINT64_C(0x9E3779B97F4A7C15);
    uint64_t hash = size * factor, word;
    for (; size >= 8; at += 8, size -= 8) {
        memcpy(&word, at, 8);
        hash = (hash ^ word) * factor;
        hash ^= hash >> 29;
    }
    if (size) {
        word = 0;
        memcpy(&word, at, size);
        hash = (hash ^ word) * factor;
        hash ^= hash >> 29;
    }
    hash *= factor;
    return hash ^ hash >> 32;
}

static size_t slots_for(size_t count)
{
    size_t slots = 64;
    while (slots < count * 2)
        slots *= 2;
    return slots;
}

enum { SIZE_MASK = (1 << VOCABULARY_SIZE_BITS) - 1 };

static inline uint32_t load_4(const char *at)
{
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

// The key of a token, without its id. A short token is fully determined by its size, its first
// bytes and its last bytes, which may overlap.
static inline struct vocabulary_slot key_of(struct text token)
{
    const char *at = token.at;
    size_t size = token.size;
    struct vocabulary_slot key = { .tag = (uint32_t)(size < SIZE_MASK ? size + 1 : SIZE_MASK) };
    if (size > VOCABULARY_INLINE) {
        key.low = hash_of(at, size);
    } else if (size >= 8) {
        memcpy(&key.low, at, 8);
        key.high = load_4(at + size - 4);
    } else if (size >= 4) {
        key.low = (uint64_t)load_4(at + size - 4) << 32 | load_4(at);
    } else if (size) {
        key.low = (uint64_t)((unsigned char)at[size - 1] << 16 | (unsigned char)at[size / 2] << 8 |
                             (unsigned char)at[0]);
    }
    return key;
}

static inline uint64_t hash_of_key(const struct vocabulary_slot *key)
{
    uint64_t rest = (uint64_t)key->tag << 32 | key->high;
    return (key->low ^ rest * UINT64_C(0xC2B2AE3D27D4EB4F)) * UINT64_C(0x9E3779B97F4A7C15);
}

static inline size_t slot_of_key(const struct vocabulary *v, const struct vocabulary_slot *key)
{
    uint64_t hash = hash_of_key(key);
    return (size_t)(hash >> 32 ^ hash >> 47) & v->mask;
}

static void insert(struct vocabulary *v, struct text token, int32_t id)
{
    struct vocabulary_slot key = key_of(token);
    size_t at = slot_of_key(v, &key);
    while (v->slots[at].tag)
        at = (at + 1) & v->mask;
    key.tag |= (uint32_t)id << VOCABULARY_SIZE_BITS;
    v->slots[at] = key;
}

void tokenizer_vocabulary_init(struct vocabulary *v, struct arena *arena, size_t expected)
{
    size_t slots = slots_for(expected);
    *v = (struct vocabulary){ .slots = ARENA_NEW(arena, struct vocabulary_slot, slots),
                              .mask = slots - 1 };
}

static void enlarge(struct vocabulary *v, struct arena *arena)
{
    size_t slots = (v->mask + 1) * 2;
    v->slots = ARENA_NEW(arena, struct vocabulary_slot, slots);
    v->mask = slots - 1;
    for (int32_t id = 0; id < v->size; id++)
        if (v->tokens[id].at)
            insert(v, v->tokens[id], id);
}

int32_t tokenizer_vocabulary_find(const struct vocabulary *v, struct text token)
{
    struct vocabulary_slot key = key_of(token);
    for (size_t at = slot_of_key(v, &key);; at = (at + 1) & v->mask) {
        const struct vocabulary_slot *slot = &v->slots[at];
        int32_t id = (int32_t)(slot->tag >> VOCABULARY_SIZE_BITS);
        if (slot->low == key.low && slot->high == key.high && (slot->tag & SIZE_MASK) == key.tag &&
            (token.size <= VOCABULARY_INLINE || text_equal(v->tokens[id], token)))
            return id;
        if (!slot->tag)
            return TOKENIZER_NONE;
    }
}

void tokenizer_vocabulary_fetch(const struct vocabulary *v, struct text token)
{
    struct vocabulary_slot key = key_of(token);
    __builtin_prefetch(&v->slots[slot_of_key(v, &key)]);
}

enum { MARK_BITS = 20 }; // for 128,000 tokens one word in eight is marked by chance

void tokenizer_vocabulary_mark(struct vocabulary *v, struct arena *arena)
{
    v->marks = ARENA_NEW(arena, uint64_t, 1 << (MARK_BITS - 6));
    for (int32_t id = 0; id < v->size; id++) {
        struct vocabulary_slot key = key_of(v->tokens[id]);
        uint64_t bit = hash_of_key(&key) >> (64 - MARK_BITS);
        v->marks[bit >> 6] |= UINT64_C(1) << (bit & 63);
    }
}

bool tokenizer_vocabulary_may_have(const struct vocabulary *v, struct text token)
{
    struct vocabulary_slot key = key_of(token);
    uint64_t bit = hash_of_key(&key) >> (64 - MARK_BITS);
    bool may = v->marks[bit >> 6] >> (bit & 63) & 1;
    if (may)
        __builtin_prefetch(&v->slots[slot_of_key(v, &key)]);
    return may;
}

bool tokenizer_vocabulary_add(struct vocabulary *v, struct arena *arena, struct text token,
                              int32_t id)
{
    if (tokenizer_vocabulary_find(v, token) >= 0 || (id < v->size && v->tokens[id].at))
        return false;
    if (id >= v->size) {
        int32_t room = 1024;
        while (room <= id)
            room *= 2;
        int32_t had = 1024;
        while (had < v->size)
            had *= 2;
        if (!v->tokens || room > had)
            v->tokens = arena_grow(arena, v->tokens, v->tokens ? (size_t)had * sizeof token : 0,
                                   (size_t)room * sizeof token);
        v->size = id + 1;
    }
    v->tokens[id] = token;
    v->count++;
    if ((size_t)v->count * 2 > v->mask + 1)
        enlarge(v, arena);
    else
        insert(v, token, id);
    return true;
}

// --- merges ------------------------------------------------------------------

static_assert(TOKENIZER_IDS < 1 << MERGE_BITS, "three numbers fit into a slot");

enum { RANK_MASK = (1 << MERGE_BITS) - 1, LINE = 64 };

void tokenizer_merges_init(struct merges *m, struct arena *arena, size_t expected)
{
    size_t slots = slots_for(expected * 2 / 3);
    char *room = arena_alloc(arena, slots * sizeof *m->slots + LINE);
    room += LINE - (uintptr_t)room % LINE;
    *m = (struct merges){ .slots = (uint64_t *)room, .mask = slots - 1 };
    memset(m->slots, 0xFF, slots * sizeof *m->slots);
}

static void put(struct merges *m, uint64_t key, uint32_t rank)
{
    size_t at = tokenizer_merge_slot(m, tokenizer_hash_pair(key));
    while (m->slots[at] != MERGE_EMPTY && m->slots[at] >> MERGE_BITS != key)
        at = (at + 1) & m->mask;
    m->used += m->slots[at] == MERGE_EMPTY;
    m->slots[at] = key << MERGE_BITS | rank;
}

void tokenizer_merges_whole(struct merges *m, struct arena *arena, struct merge merge)
{
    if (merge.rank >= m->room) {
        size_t room = m->room ? m->room : 65536;
        while (room <= merge.rank)
            room *= 2;
        m->wholes =
            arena_grow(arena, m->wholes, m->room * sizeof *m->wholes, room * sizeof *m->wholes);
        m->room = room;
    }
    m->wholes[merge.rank] = merge.whole;
    if (merge.rank >= m->count)
        m->count = merge.rank + 1;
}

void tokenizer_merges_add(struct merges *m, struct arena *arena, struct merge merge)
{
    if (m->used >= (m->mask + 1) / 4 * 3) {
        struct merges larger;
        tokenizer_merges_init(&larger, arena, (m->mask + 1) * 3 / 2);
        for (size_t i = 0; i <= m->mask; i++)
            if (m->slots[i] != MERGE_EMPTY)
                put(&larger, m->slots[i] >> MERGE_BITS, m->slots[i] & RANK_MASK);
        m->slots = larger.slots;
        m->mask = larger.mask;
    }
    put(m, tokenizer_pair(merge.left, merge.right), merge.rank);
    tokenizer_merges_whole(m, arena, merge);
}

void tokenizer_merges_fill(struct merges *m, struct arena *scratch, const struct merge *list,
                           size_t count)
{
    enum { PARTS = 64 };
    size_t starts[PARTS + 1] = { 0 }, part_slots = (m->mask + 1) / PARTS;
    uint64_t *sorted = ARENA_NEW(scratch, uint64_t, count);
    for (size_t i = 0; i < count; i++) {
        uint64_t key = tokenizer_pair(list[i].left, list[i].right);
        starts[tokenizer_merge_slot(m, tokenizer_hash_pair(key)) / part_slots + 1]++;
    }
    for (int part = 0; part < PARTS; part++)
        starts[part + 1] += starts[part];
    for (size_t i = 0; i < count; i++) {
        uint64_t key = tokenizer_pair(list[i].left, list[i].right);
        sorted[starts[tokenizer_merge_slot(m, tokenizer_hash_pair(key)) / part_slots]++] =
            key << MERGE_BITS | list[i].rank;
    }
    for (size_t i = 0; i < count; i++)
        put(m, sorted[i] >> MERGE_BITS, sorted[i] & RANK_MASK);
}
