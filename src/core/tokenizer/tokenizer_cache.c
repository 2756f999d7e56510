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

static_assert(TOKENIZER_BATCH <= UINT8_MAX + 1, "missing[] holds indices of a batch in bytes");
static_assert(LONG_BYTES < UINT8_MAX, "an entry stores sizes and token counts in a byte each");

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

// The top two bytes of `high` hold the number of tokens (0 in a key) and the size of the word.
struct key {
    uint64_t low, high;
    struct word_entry *slot;
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

static void find_tokens(const struct tokenizer *t, struct tokenizer_cache *cache, struct text word,
                        bool whole)
{
    if (whole)
        tokenizer_model(t, cache, word);
    else
        tokenizer_bpe(t, cache, word, false);
}

static int64_t count_new(const struct tokenizer *t, struct tokenizer_cache *cache, struct text word,
                         const struct key *key, bool whole)
{
    find_tokens(t, cache, word, whole);
    size_t count = cache->symbols.count;
    assert(count <= UINT8_MAX);
    for (int i = WORD_WAYS - 1; i > 0; i--)
        key->slot[i] = key->slot[i - 1];
    key->slot[0] = (struct word_entry){ key->low, key->high | (uint64_t)count << 56 };
    return (int64_t)count;
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

// Parts of words have entries of their own where whole words are looked up in the vocabulary.
enum { PART = 0x80 };

static int64_t count_long(const struct tokenizer *t, struct tokenizer_cache *cache,
                          struct text word, bool whole)
{
    if (word.size > LONG_BYTES) {
        find_tokens(t, cache, word, whole);
        return (int64_t)cache->symbols.count;
    }
    struct long_entry key = { 0 };
    memcpy(&key, word.at, word.size);
    key.words[7] |= (uint64_t)(word.size | (whole || !t->ignores_merges ? 0 : PART)) << 48;
    uint64_t low = 0, high = 0;
    for (size_t i = 0; i < 8; i += 2) {
        low = (low ^ key.words[i]) * 31;
        high = (high ^ key.words[i + 1]) * 37;
    }
    struct long_entry *slot = &cache->longs[mix(low, high) & (LONG_SLOTS - 2)];
    for (int i = 0; i < 2; i++)
        if (!memcmp(&slot[i], &key, sizeof key - 8) && !((slot[i].words[7] ^ key.words[7]) << 8))
            return (int64_t)(slot[i].words[7] >> 56);
    find_tokens(t, cache, word, whole);
    assert(cache->symbols.count <= UINT8_MAX);
    slot[1] = slot[0];
    key.words[7] |= (uint64_t)cache->symbols.count << 56;
    slot[0] = key;
    return (int64_t)cache->symbols.count;
}

static struct key key_of(struct tokenizer_cache *cache, const char *at, size_t size,
                         const char *end, uint64_t mark)
{
    struct word_entry word = read_key(at, size, end);
    word.high |= mark << 48;
    struct word_entry *slot = &cache->words[mix(word.low, word.high) & (WORD_SLOTS - WORD_WAYS)];
    return (struct key){ word.low, word.high, slot };
}

// The parts of a word that are looked up together: the memory of all of them is being fetched while
// the next ones are found.
struct parts {
    struct key keys[16]; // no slot: longer than WORD_BYTES
    struct text at[16];
    int count;
};

static int64_t count_all(const struct tokenizer *t, struct tokenizer_cache *cache,
                         struct parts *parts)
{
    int64_t total = 0;
    for (int i = 0; i < parts->count; i++) {
        const struct key *key = &parts->keys[i];
        int64_t known = key->slot ? count_known(key) : count_long(t, cache, parts->at[i], false);
        total += known >= 0 ? known : count_new(t, cache, parts->at[i], key, false);
    }
    parts->count = 0;
    return total;
}

// A word too long for the cache, part by part. end: of the text.
static int64_t count_parts(const struct tokenizer *t, struct tokenizer_cache *cache,
                           struct text word, const char *end)
{
    const char *at = word.at, *stop = at + word.size;
    const char *cut = t->cuts ? tokenizer_cut(t->cuts, at, stop) : stop;
    if (cut == stop)
        return count_long(t, cache, word, true);
    struct parts parts = { .count = 0 };
    int64_t total = 0;
    for (;; at = cut, cut = tokenizer_cut(t->cuts, at, stop)) {
        struct text part = { at, (size_t)(cut - at) };
        struct key *key = &parts.keys[parts.count];
        key->slot = NULL;
        if (part.size <= WORD_BYTES) {
            *key = key_of(cache, at, part.size, end, t->ignores_merges ? PART : 0);
            __builtin_prefetch(key->slot);
        }
        parts.at[parts.count++] = part;
        if (parts.count == 16 || cut == stop)
            total += count_all(t, cache, &parts);
        if (cut == stop)
            return total;
    }
}

static struct text text_of_span(struct text text, struct span span)
{
    return (struct text){ text.at + span.start, span.end - span.start };
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
        keys[i] = key_of(cache, text.at + spans[i].start, size, end, 0);
        __builtin_prefetch(keys[i].slot);
    }
    uint8_t missing[TOKENIZER_BATCH];
    size_t missing_count = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t known = keys[i].slot ? count_known(&keys[i]) : -1;
        if (known >= 0) {
            total += known;
            continue;
        }
        missing[missing_count++] = (uint8_t)i;
        if (keys[i].slot && t->ignores_merges)
            tokenizer_vocabulary_fetch(&t->vocabulary, text_of_span(text, spans[i]));
    }
    for (size_t k = 0; k < missing_count; k++) {
        size_t i = missing[k];
        struct text word = text_of_span(text, spans[i]);
        int64_t known = keys[i].slot ? count_known(&keys[i]) : count_parts(t, cache, word, end);
        total += known >= 0 ? known : count_new(t, cache, word, &keys[i], true);
    }
    return total;
}
