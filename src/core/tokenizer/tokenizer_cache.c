// SPDX-License-Identifier: Apache-2.0
// The word cache of a thread: the number of tokens of words seen before.
//
// Text repeats its words, so most words are found here and need no merging. An entry is the word
// itself, zero-padded, with its size and its number of tokens, so a hit is always right:
//
//     words, 16 bytes:  |  up to 14 bytes of the word  | size | tokens |
//     longs, 64 bytes:  |  up to 62 bytes of the word  | size | tokens |
//
// A hash selects a set of WORD_WAYS slots. A new word takes the first slot and pushes the others
// back, so that the last one is forgotten; a hit moves one slot forward. (longs has sets of two.)
// Longer words are cut where no token can cross (tokenizer_cut.c); the parts are looked up.
//
// Words are looked up in batches: while one key is computed, the memory of the ones before it is
// being fetched.

#include "core/tokenizer/tokenizer_internal.h"

#include <assert.h>
#include <string.h>

static_assert(LONG_BYTES < 0x80 && WORD_BYTES < 0x80,
              "an entry stores sizes and token counts in a byte each");

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
    struct arena arena = cache->arena; // the cache itself is in it
    arena_release(&arena);
}

void *tokenizer_room(struct tokenizer_cache *cache, struct buffer *buffer, size_t size)
{
    if (buffer->size < size) {
        buffer->size = size < 4096 ? 4096 : size + size / 8;
        buffer->at = arena_alloc(&cache->arena, buffer->size);
    }
    return buffer->at;
}

void tokenizer_model(const struct tokenizer *t, struct tokenizer_cache *cache, struct text word)
{
    switch (t->model) {
    case MODEL_BPE: tokenizer_bpe(t, cache, word, true); break;
    case MODEL_UNIGRAM: tokenizer_unigram(t, cache, word); break;
    case MODEL_WORDPIECE:
    case MODEL_WORDLEVEL: tokenizer_wordpiece(t, cache, word); break;
    }
}

// --- counting ----------------------------------------------------------------

// A word, or a part of one, that is being looked up. Of a short one, low and high are its entry
// with 0 tokens: the top two bytes of `high` are the number of tokens and the size. Of a long one,
// low is its set in longs; only the size in `high` is there.
struct key {
    uint64_t low, high;
    struct word_entry *slot; // NULL: longer than WORD_BYTES
    const char *at;
};

// Masks for the first 0 … WORD_BYTES bytes.
static const uint64_t keeps[WORD_BYTES + 1][2] = {
    { 0, 0 },
    { 0xFF, 0 },
    { 0xFFFF, 0 },
    { 0xFFFFFF, 0 },
    { 0xFFFFFFFF, 0 },
    { 0xFFFFFFFFFF, 0 },
    { 0xFFFFFFFFFFFF, 0 },
    { 0xFFFFFFFFFFFFFF, 0 },
    { UINT64_MAX, 0 },
    { UINT64_MAX, 0xFF },
    { UINT64_MAX, 0xFFFF },
    { UINT64_MAX, 0xFFFFFF },
    { UINT64_MAX, 0xFFFFFFFF },
    { UINT64_MAX, 0xFFFFFFFFFF },
    { UINT64_MAX, 0xFFFFFFFFFFFF },
};

static inline struct word_entry read_key(const char *at, size_t size, const char *end)
{
    struct word_entry key = { 0 };
    if ((size_t)(end - at) >= 16) {
        memcpy(&key, at, 16);
        key.low &= keeps[size][0];
        key.high &= keeps[size][1];
    } else {
        memcpy(&key, at, size);
    }
    key.high |= (uint64_t)size << 48;
    return key;
}

static inline uint64_t mix(uint64_t low, uint64_t high)
{
    uint64_t hash = low * UINT64_C(0x9E3779B97F4A7C15) + high * UINT64_C(0xC2B2AE3D27D4EB4F);
    return hash >> 40;
}

// Parts of words have entries of their own where whole words are looked up in the vocabulary. The
// mark is a bit of the size.
enum { PART = 0x80 };
#define LONG_PART (UINT64_C(1) << 63)

static inline struct text word_of(const struct key *key)
{
    return (struct text){ key->at,
                          key->slot ? key->high >> 48 & (PART - 1) : key->high & ~LONG_PART };
}

static inline bool is_part(const struct key *key)
{
    return key->high & (key->slot ? (uint64_t)PART << 48 : LONG_PART);
}

static void find_tokens(const struct tokenizer *t, struct tokenizer_cache *cache,
                        const struct key *key)
{
    if (is_part(key))
        tokenizer_bpe(t, cache, word_of(key), false);
    else
        tokenizer_model(t, cache, word_of(key));
}

// --- short words ---

static inline struct key key_of(struct tokenizer_cache *cache, const char *at, size_t size,
                                const char *end, uint64_t mark)
{
    struct word_entry entry = read_key(at, size, end);
    entry.high |= mark << 48;
    struct word_entry *slot = &cache->words[mix(entry.low, entry.high) & (WORD_SLOTS - WORD_WAYS)];
    __builtin_prefetch(slot);
    return (struct key){ entry.low, entry.high, slot, at };
}

// The number of tokens of a cached word, or -1.
static inline int64_t count_known(const struct key *key)
{
    struct word_entry *slot = key->slot;
    if (slot->low == key->low && !((slot->high ^ key->high) << 8))
        return (int64_t)(slot->high >> 56);
    for (int i = 1; i < WORD_WAYS; i++)
        if (slot[i].low == key->low && !((slot[i].high ^ key->high) << 8)) {
            struct word_entry found = slot[i]; // moves one slot towards the front
            slot[i] = slot[i - 1];
            slot[i - 1] = found;
            return (int64_t)(found.high >> 56);
        }
    return -1;
}

static void keep_short(const struct key *key, size_t count)
{
    for (int i = WORD_WAYS - 1; i > 0; i--)
        key->slot[i] = key->slot[i - 1];
    key->slot[0] = (struct word_entry){ key->low, key->high | (uint64_t)count << 56 };
}

// --- long words ---

static struct long_entry long_entry(const struct key *key)
{
    struct long_entry entry = { 0 };
    struct text word = word_of(key);
    memcpy(&entry, word.at, word.size);
    entry.words[7] |= (uint64_t)(word.size | (is_part(key) ? PART : 0)) << 48;
    return entry;
}

static struct key long_key(struct tokenizer_cache *cache, const char *at, size_t size, bool part)
{
    struct key key = { .at = at, .high = size | (part ? LONG_PART : 0) };
    if (size > LONG_BYTES)
        return key;
    struct long_entry entry = long_entry(&key);
    uint64_t low = 0, high = 0;
    for (size_t i = 0; i < 8; i += 2) {
        low = (low ^ entry.words[i]) * 31;
        high = (high ^ entry.words[i + 1]) * 37;
    }
    key.low = mix(low, high) & (LONG_SLOTS - 2);
    __builtin_prefetch(&cache->longs[key.low]);
    __builtin_prefetch(&cache->longs[key.low + 1]);
    return key;
}

static int64_t count_known_long(const struct tokenizer_cache *cache, const struct key *key)
{
    if (word_of(key).size > LONG_BYTES)
        return -1;
    struct long_entry entry = long_entry(key);
    const struct long_entry *slot = &cache->longs[key->low];
    for (int i = 0; i < 2; i++)
        if (!memcmp(&slot[i], &entry, sizeof entry - 8) &&
            !((slot[i].words[7] ^ entry.words[7]) << 8))
            return (int64_t)(slot[i].words[7] >> 56);
    return -1;
}

static void keep_long(struct tokenizer_cache *cache, const struct key *key, size_t count)
{
    struct long_entry entry = long_entry(key);
    struct long_entry *slot = &cache->longs[key->low];
    slot[1] = slot[0];
    entry.words[7] |= (uint64_t)count << 56;
    slot[0] = entry;
}

// --- new words ---

static int64_t count_known_word(const struct tokenizer_cache *cache, const struct key *key)
{
    return key->slot ? count_known(key) : count_known_long(cache, key);
}

static int64_t keep(struct tokenizer_cache *cache, const struct key *key, size_t count)
{
    size_t size = word_of(key).size;
    assert(count <= UINT8_MAX || size > LONG_BYTES);
    if (key->slot)
        keep_short(key, count);
    else if (size <= LONG_BYTES)
        keep_long(cache, key, count);
    return (int64_t)count;
}

static int64_t count_new(const struct tokenizer *t, struct tokenizer_cache *cache,
                         const struct key *key)
{
    int64_t known = count_known_word(cache, key); // the batch may have it twice
    if (known >= 0)
        return known;
    find_tokens(t, cache, key);
    return keep(cache, key, cache->symbols.count);
}

// --- batches ---

enum { BATCH_ROOM = 2 * TOKENIZER_BATCH };

// Whether the word merges side by side with others.
static bool merges_with_others(const struct tokenizer *t, const struct key *key)
{
    struct text word = word_of(key);
    return t->model == MODEL_BPE && t->merges.count && word.size <= BPE_BYTES &&
           (!t->ignores_merges || is_part(key) ||
            tokenizer_vocabulary_find(&t->vocabulary, word) < 0);
}

static int64_t count_missing(const struct tokenizer *t, struct tokenizer_cache *cache,
                             const struct key *keys, uint16_t *missing, size_t count)
{
    struct counted words[BATCH_ROOM];
    size_t merging = 0;
    int64_t total = 0;
    for (size_t i = 0; i < count; i++) {
        const struct key *key = &keys[missing[i]];
        if (merges_with_others(t, key)) {
            words[merging].word = word_of(key);
            missing[merging++] = missing[i];
        } else {
            total += count_new(t, cache, key);
        }
    }
    tokenizer_bpe_count(t, words, merging);
    for (size_t i = 0; i < merging; i++) {
        total += (int64_t)words[i].tokens;
        if (count_known_word(cache, &keys[missing[i]]) < 0) // the batch may have it twice
            keep(cache, &keys[missing[i]], words[i].tokens);
    }
    return total;
}

static int64_t count_batch(const struct tokenizer *t, struct tokenizer_cache *cache,
                           const struct key *keys, size_t count)
{
    uint16_t missing[BATCH_ROOM];
    size_t missing_count = 0;
    int64_t total = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t known = keys[i].slot ? count_known(&keys[i]) : count_known_long(cache, &keys[i]);
        if (known >= 0)
            total += known;
        else
            missing[missing_count++] = (uint16_t)i;
        if (known < 0 && t->ignores_merges)
            tokenizer_vocabulary_fetch(&t->vocabulary, word_of(&keys[i]));
    }
    return total + count_missing(t, cache, keys, missing, missing_count);
}

int64_t tokenizer_count_words(const struct tokenizer *t, struct tokenizer_cache *cache,
                              struct text text, const struct span *spans, size_t count)
{
    struct key keys[BATCH_ROOM];
    const char *end = text.at + text.size;
    uint64_t mark = t->ignores_merges ? PART : 0;
    size_t used = 0;
    int64_t total = 0;
    for (size_t i = 0; i < count; i++) {
        const char *at = text.at + spans[i].start, *stop = text.at + spans[i].end, *cut;
        size_t size = (size_t)(stop - at);
        if (size <= WORD_BYTES) {
            keys[used++] = key_of(cache, at, size, end, 0);
            continue;
        }
        for (; at < stop; at = cut) {
            cut = t->cuts ? tokenizer_cut(t->cuts, at, stop) : stop;
            size_t part = (size_t)(cut - at);
            keys[used++] = part <= WORD_BYTES ? key_of(cache, at, part, end, mark)
                                              : long_key(cache, at, part, mark && part < size);
            if (used + count - i > BATCH_ROOM) { // the next words need room
                total += count_batch(t, cache, keys, used);
                used = 0;
            }
        }
    }
    return total + count_batch(t, cache, keys, used);
}
