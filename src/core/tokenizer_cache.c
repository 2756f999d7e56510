// What a thread remembers: how many tokens a word has, and which.
//
// Words are looked up in batches, so that the memory of one is fetched while the next is hashed.
// Each table has pairs of slots; a new word takes the first of its pair and moves that one's word
// to the second. Keys are the words themselves, so a hit is certain.

#include "core/tokenizer_internal.h"

#include <string.h>

struct tokenizer_cache *tokenizer_cache_init(const struct tokenizer *tokenizer)
{
    (void)tokenizer;
    struct arena arena = { 0 };
    struct tokenizer_cache *cache = ARENA_NEW(&arena, struct tokenizer_cache, 1);
    cache->words = ARENA_NEW(&arena, struct word_entry, WORD_SLOTS);
    cache->longs = ARENA_NEW(&arena, struct long_entry, LONG_SLOTS);
    arena_alloc(&cache->scratch, 1);
    cache->empty = arena_mark(&cache->scratch);
    cache->arena = arena;
    cache->stack.arena = &cache->arena;
    return cache;
}

void tokenizer_cache_release(struct tokenizer_cache *cache)
{
    if (!cache)
        return;
    arena_release(&cache->scratch);
    struct arena arena = cache->arena; // the cache itself lies in it
    arena_release(&arena);
}

void *tokenizer_room(struct tokenizer_cache *cache, struct buffer *buffer, size_t size)
{
    if (buffer->size < size) {
        buffer->size = size < 4096 ? 4096 : size + size / 2;
        buffer->at = arena_alloc(&cache->arena, buffer->size);
    }
    return buffer->at;
}

void tokenizer_model(const struct tokenizer *t, struct tokenizer_cache *cache, struct text word)
{
    switch (t->model) {
    case MODEL_BPE: tokenizer_bpe(t, cache, word); break;
    case MODEL_UNIGRAM: tokenizer_unigram(t, cache, word); break;
    case MODEL_WORDPIECE:
    case MODEL_WORDLEVEL: tokenizer_wordpiece(t, cache, word); break;
    }
}

// --- counting ----------------------------------------------------------------

// The top two bytes of a key hold the tokens and the size of the word.
struct key {
    uint64_t low, high;
    struct word_entry *slot;
};

static uint64_t low_bytes(size_t count) // count up to 8
{
    return count ? UINT64_MAX >> (64 - 8 * count) : 0;
}

static inline struct word_entry read_key(const char *at, size_t size, const char *end)
{
    struct word_entry key = { 0 };
    if ((size_t)(end - at) >= 16) {
        memcpy(&key, at, 16);
        bool wide = size >= 8;
        key.low &= wide ? UINT64_MAX : low_bytes(size);
        key.high &= wide ? low_bytes(size - 8) : 0;
    } else {
        memcpy(&key, at, size);
    }
    key.high |= (uint64_t)size << 48;
    return key;
}

static inline uint64_t mix(uint64_t low, uint64_t high)
{
    uint64_t hash = low * UINT64_C(0x9E3779B97F4A7C15) ^ high * UINT64_C(0xC2B2AE3D27D4EB4F);
    return (hash ^ hash >> 32) * UINT64_C(0xD6E8FEB86659FD93) >> 32;
}

static int64_t count_new(const struct tokenizer *t, struct tokenizer_cache *cache, struct text word,
                         const struct key *key)
{
    tokenizer_model(t, cache, word);
    size_t count = cache->symbols.count;
    key->slot[1] = key->slot[0];
    key->slot[0] = (struct word_entry){ key->low, key->high | (uint64_t)count << 56 };
    return (int64_t)count;
}

static int64_t count_long(const struct tokenizer *t, struct tokenizer_cache *cache,
                          struct text word)
{
    if (word.size > LONG_BYTES) {
        tokenizer_model(t, cache, word);
        return (int64_t)cache->symbols.count;
    }
    struct long_entry key = { 0 };
    memcpy(&key, word.at, word.size);
    key.words[3] |= (uint64_t)word.size << 48;
    uint64_t hash = mix(key.words[0] ^ key.words[2] * 31, key.words[1] ^ key.words[3] * 37);
    struct long_entry *slot = &cache->longs[hash & (LONG_SLOTS - 2)];
    for (int i = 0; i < 2; i++) {
        const uint64_t *words = slot[i].words;
        if (words[0] == key.words[0] && words[1] == key.words[1] && words[2] == key.words[2] &&
            !((words[3] ^ key.words[3]) << 8))
            return (int64_t)(words[3] >> 56);
    }
    tokenizer_model(t, cache, word);
    slot[1] = slot[0];
    key.words[3] |= (uint64_t)cache->symbols.count << 56;
    slot[0] = key;
    return (int64_t)cache->symbols.count;
}

int64_t tokenizer_count_words(const struct tokenizer *t, struct tokenizer_cache *cache,
                              struct text text, const struct span *spans, size_t count)
{
    struct key keys[TOKENIZER_BATCH];
    const char *end = text.at + text.size;
    int64_t total = 0;
    for (size_t i = 0; i < count; i++) {
        size_t size = spans[i].end - spans[i].start;
        if (size > WORD_BYTES) {
            keys[i].slot = NULL;
            continue;
        }
        struct word_entry word = read_key(text.at + spans[i].start, size, end);
        struct word_entry *slot = &cache->words[mix(word.low, word.high) & (WORD_SLOTS - 2)];
        __builtin_prefetch(slot);
        keys[i] = (struct key){ word.low, word.high, slot };
    }
    for (size_t i = 0; i < count; i++) {
        const struct key *key = &keys[i];
        struct text word = { text.at + spans[i].start, spans[i].end - spans[i].start };
        if (!key->slot)
            total += count_long(t, cache, word);
        else if (key->slot[0].low == key->low && !((key->slot[0].high ^ key->high) << 8))
            total += (int64_t)(key->slot[0].high >> 56);
        else if (key->slot[1].low == key->low && !((key->slot[1].high ^ key->high) << 8))
            total += (int64_t)(key->slot[1].high >> 56);
        else
            total += count_new(t, cache, word, key);
    }
    return total;
}
