// The two tables that every model asks: tokens by their bytes, and pairs of tokens that merge.

#include "core/tokenizer_internal.h"

#include <string.h>

uint64_t tokenizer_hash(const char *at, size_t size)
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

// A slot's key is the token itself if it has up to 8 bytes, and else its hash: short tokens, which
// are asked for most, are told from the slot alone.
static inline uint64_t key_of(struct text token)
{
    uint64_t key = 0;
    if (token.size > sizeof key)
        return tokenizer_hash(token.at, token.size);
    memcpy(&key, token.at, token.size);
    return key;
}

static inline size_t slot_of_key(const struct vocabulary *v, uint64_t key, size_t size)
{
    uint64_t hash = (key + size) * UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)(hash >> 32 ^ hash >> 47) & v->mask;
}

static void insert(struct vocabulary *v, struct text token, int32_t id)
{
    uint64_t key = key_of(token);
    size_t at = slot_of_key(v, key, token.size);
    while (v->slots[at].size)
        at = (at + 1) & v->mask;
    v->slots[at] = (struct vocabulary_slot){ key, (uint32_t)token.size + 1, id };
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
    uint64_t key = key_of(token);
    for (size_t at = slot_of_key(v, key, token.size);; at = (at + 1) & v->mask) {
        const struct vocabulary_slot *slot = &v->slots[at];
        if (slot->key == key && slot->size == token.size + 1 &&
            (token.size <= sizeof key || !memcmp(v->tokens[slot->id].at, token.at, token.size)))
            return slot->id;
        if (!slot->size)
            return TOKENIZER_NONE;
    }
}

void tokenizer_vocabulary_fetch(const struct vocabulary *v, struct text token)
{
    __builtin_prefetch(&v->slots[slot_of_key(v, key_of(token), token.size)]);
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

static size_t slot_of(const struct merges *m, int32_t left, int32_t right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    key *= UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)(key >> 32 ^ key >> 15) & m->mask;
}

void tokenizer_merges_init(struct merges *m, struct arena *arena, size_t expected)
{
    size_t slots = slots_for(expected * 2 / 3);
    *m = (struct merges){ .slots = ARENA_NEW(arena, struct merge, slots), .mask = slots - 1 };
    memset(m->slots, 0xFF, slots * sizeof *m->slots);
}

static void put(struct merges *m, struct merge merge)
{
    size_t at = slot_of(m, merge.left, merge.right);
    while (m->slots[at].left >= 0 &&
           (m->slots[at].left != merge.left || m->slots[at].right != merge.right))
        at = (at + 1) & m->mask;
    m->used += m->slots[at].left < 0;
    m->slots[at] = merge;
}

static void remember_whole(struct merges *m, struct arena *arena, struct merge merge)
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
            if (m->slots[i].left >= 0)
                put(&larger, m->slots[i]);
        m->slots = larger.slots;
        m->mask = larger.mask;
    }
    put(m, merge);
    remember_whole(m, arena, merge);
}

void tokenizer_merges_fetch(const struct merges *m, int32_t left, int32_t right)
{
    __builtin_prefetch(&m->slots[slot_of(m, left, right)]);
}

uint32_t tokenizer_merges_rank(const struct merges *m, int32_t left, int32_t right)
{
    for (size_t at = slot_of(m, left, right);; at = (at + 1) & m->mask) {
        const struct merge *slot = &m->slots[at];
        if (slot->left == left && slot->right == right)
            return slot->rank;
        if (slot->left < 0)
            return TOKENIZER_NO_RANK;
    }
}

void tokenizer_add_merge(struct tokenizer *t, struct arena *arena, struct merge merge)
{
    tokenizer_merges_add(&t->merges, arena, merge);
    if (merge.rank < TOKENIZER_HOT)
        tokenizer_merges_add(&t->hot, arena, merge);
}
