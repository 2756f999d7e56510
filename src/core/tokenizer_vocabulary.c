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

static void insert(struct vocabulary *v, uint64_t hash, int32_t id)
{
    size_t at = hash & v->mask;
    while (v->slots[at])
        at = (at + 1) & v->mask;
    v->slots[at] = (hash & UINT64_C(0xFFFFFFFF00000000)) | (uint32_t)(id + 1);
}

void tokenizer_vocabulary_init(struct vocabulary *v, struct arena *arena, size_t expected)
{
    size_t slots = slots_for(expected);
    *v = (struct vocabulary){ .slots = ARENA_NEW(arena, uint64_t, slots), .mask = slots - 1 };
}

static void enlarge(struct vocabulary *v, struct arena *arena)
{
    size_t slots = (v->mask + 1) * 2;
    v->slots = ARENA_NEW(arena, uint64_t, slots);
    v->mask = slots - 1;
    for (int32_t id = 0; id < v->size; id++)
        if (v->tokens[id].at)
            insert(v, tokenizer_hash(v->tokens[id].at, v->tokens[id].size), id);
}

static int32_t find(const struct vocabulary *v, struct text token, uint64_t hash)
{
    for (size_t at = hash & v->mask; v->slots[at]; at = (at + 1) & v->mask) {
        if ((v->slots[at] ^ hash) >> 32)
            continue;
        int32_t id = (int32_t)(uint32_t)v->slots[at] - 1;
        if (v->tokens[id].size == token.size && !memcmp(v->tokens[id].at, token.at, token.size))
            return id;
    }
    return TOKENIZER_NONE;
}

int32_t tokenizer_vocabulary_find(const struct vocabulary *v, struct text token)
{
    return find(v, token, tokenizer_hash(token.at, token.size));
}

bool tokenizer_vocabulary_add(struct vocabulary *v, struct arena *arena, struct text token,
                              int32_t id)
{
    uint64_t hash = tokenizer_hash(token.at, token.size);
    if (find(v, token, hash) >= 0 || (id < v->size && v->tokens[id].at))
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
        insert(v, hash, id);
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

void tokenizer_merges_add(struct merges *m, struct arena *arena, struct merge merge)
{
    if (m->used >= (m->mask + 1) / 4 * 3) {
        struct merges larger;
        tokenizer_merges_init(&larger, arena, (m->mask + 1) * 3 / 2);
        larger.count = m->count;
        for (size_t i = 0; i <= m->mask; i++)
            if (m->slots[i].left >= 0)
                put(&larger, m->slots[i]);
        *m = larger;
    }
    put(m, merge);
    if (merge.rank >= m->count)
        m->count = merge.rank + 1;
}

const struct merge *tokenizer_merges_find(const struct merges *m, int32_t left, int32_t right)
{
    for (size_t at = slot_of(m, left, right);; at = (at + 1) & m->mask) {
        const struct merge *slot = &m->slots[at];
        if (slot->left == left && slot->right == right)
            return slot;
        if (slot->left < 0)
            return NULL;
    }
}
