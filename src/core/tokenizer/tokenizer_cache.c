// SPDX-License-Identifier: Apache-2.0
// The word cache of a thread: the number of tokens of words seen before.
//
// Text repeats its words, so most words are found here and need no merging. An entry is the word
// itself, zero-padded, with its size and its number of tokens, so a hit is always right:
//
//     words, 16 bytes:  |  up to 14 bytes of the word  | size | tokens |
//     longs, 64 bytes:  |  15 to 62 bytes of the word  | size | tokens |
//
// A hash selects a set of WORD_WAYS slots. A new word takes the first slot and pushes the others
// back, so that the last one is forgotten; a hit moves one slot forward. (longs has sets of two.)
// Longer words are cut where no token can cross (tokenizer_cut.c); the parts are looked up.
//
// Words are looked up in batches: while one key is computed, the memory of the ones before it is
// being fetched. New words wait until there are enough of them to merge side by side, which may be
// several texts later: a text of 700 bytes has four or five. Meanwhile their entries say WAITS, so
// that a word that is met again waits with them and is merged once. Words that another thread has
// merged are not merged again.

#include "core/tokenizer/tokenizer_internal.h"

#include <assert.h>
#include <string.h>

static_assert(LONG_BYTES < 0x80 && WORD_BYTES < 0x80,
              "an entry stores sizes and token counts in a byte each");

struct tokenizer_cache *tokenizer_cache_init(const struct tokenizer *tokenizer)
{
    struct arena arena = { 0 };
    struct tokenizer_cache *cache = ARENA_NEW(&arena, struct tokenizer_cache, 1);
    cache->may_share = !tokenizer->ignores_merges;
    cache->words = ARENA_NEW(&arena, struct word_entry, WORD_SLOTS);
    cache->longs = ARENA_NEW(&arena, struct long_entry, LONG_SLOTS);
    cache->waiting = ARENA_NEW(&arena, struct waiting, WAITING_WORDS);
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

static inline struct text word_of(const struct word_key *key)
{
    return (struct text){ key->at,
                          key->slot ? key->high >> 48 & (PART - 1) : key->high & ~LONG_PART };
}

static inline bool is_part(const struct word_key *key)
{
    return key->high & (key->slot ? (uint64_t)PART << 48 : LONG_PART);
}

// --- short words ---

static inline struct word_key key_of(struct word_entry *words, const char *at, size_t size,
                                     const char *end, uint64_t mark)
{
    struct word_entry entry = read_key(at, size, end);
    entry.high |= mark << 48;
    struct word_entry *slot = &words[mix(entry.low, entry.high) & (WORD_SLOTS - WORD_WAYS)];
    __builtin_prefetch(slot);
    return (struct word_key){ entry.low, entry.high, slot, at };
}

// The number of tokens of a cached word, or -1.
static inline int64_t count_known(const struct word_key *key)
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

static struct word_entry *find_short(const struct word_key *key)
{
    for (int i = 0; i < WORD_WAYS; i++)
        if (key->slot[i].low == key->low && !((key->slot[i].high ^ key->high) << 8))
            return &key->slot[i];
    return NULL;
}

static void keep_short(const struct word_key *key, size_t count)
{
    for (int i = WORD_WAYS - 1; i > 0; i--)
        key->slot[i] = key->slot[i - 1];
    key->slot[0] = (struct word_entry){ key->low, key->high | (uint64_t)count << 56 };
}

// --- long words ---

static inline uint64_t eight_bytes(const char *at)
{
    uint64_t bytes;
    memcpy(&bytes, at, 8);
    return bytes;
}

// The last eight bytes of a word may overlap those before them.
static uint64_t hash_long(const char *at, size_t size)
{
    uint64_t hash = eight_bytes(at + size - 8) ^ size;
    for (size_t i = 0; i + 8 < size; i += 8) {
        hash = (hash ^ eight_bytes(at + i)) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 32;
    }
    return hash * UINT64_C(0xC2B2AE3D27D4EB4F) >> 40;
}

static struct word_key long_key(struct tokenizer_cache *cache, const char *at, size_t size,
                                bool part)
{
    struct word_key key = { .at = at, .high = size | (part ? LONG_PART : 0) };
    if (size > LONG_BYTES)
        return key;
    key.low = hash_long(at, size) & (LONG_SLOTS - 2);
    __builtin_prefetch(&cache->longs[key.low]);
    __builtin_prefetch(&cache->longs[key.low + 1]);
    return key;
}

static uint8_t size_and_part(const struct word_key *key)
{
    return (uint8_t)(word_of(key).size | (is_part(key) ? PART : 0));
}

static bool is_same(const struct long_entry *entry, const struct word_key *key)
{
    struct text word = word_of(key);
    uint64_t differ = 0;
    if (entry->size != size_and_part(key))
        return false;
    for (size_t i = 0; i + 8 < word.size; i += 8)
        differ |= eight_bytes(entry->bytes + i) ^ eight_bytes(word.at + i);
    size_t last = word.size - 8;
    return !(differ | (eight_bytes(entry->bytes + last) ^ eight_bytes(word.at + last)));
}

static struct long_entry *find_long(struct tokenizer_cache *cache, const struct word_key *key)
{
    if (word_of(key).size > LONG_BYTES)
        return NULL;
    struct long_entry *slot = &cache->longs[key->low];
    return is_same(slot, key) ? slot : is_same(slot + 1, key) ? slot + 1 : NULL;
}

static int64_t count_known_long(struct tokenizer_cache *cache, const struct word_key *key)
{
    const struct long_entry *found = find_long(cache, key);
    return found ? found->tokens : -1;
}

static void keep_long(struct tokenizer_cache *cache, const struct word_key *key, size_t count)
{
    struct text word = word_of(key);
    struct long_entry *slot = &cache->longs[key->low];
    slot[1] = slot[0];
    slot->size = size_and_part(key);
    slot->tokens = (uint8_t)count;
    memcpy(slot->bytes, word.at, word.size);
}

// --- words that threads share ---

// The entry of a word that waits to be merged or, if it is shared, to be written.
enum { WAITS = UINT8_MAX };
static_assert((int)LONG_BYTES < (int)WAITS, "no word has so many tokens");

// Tables like those of a cache, but smaller, and an entry is written once: a thread claims an empty
// one, writes the word, and publishes it with the number of its tokens. If the set is full, the
// word is not shared. The first words of a text are its most frequent ones, and they stay.
struct tokenizer_words {
    struct arena arena; // holds everything, including this struct
    struct word_entry *words;
    struct long_entry *longs;
};

struct tokenizer_words *tokenizer_words_init(void)
{
    struct arena arena = { 0 };
    struct tokenizer_words *shared = ARENA_NEW(&arena, struct tokenizer_words, 1);
    shared->words = ARENA_NEW(&arena, struct word_entry, SHARED_WORDS);
    shared->longs = ARENA_NEW(&arena, struct long_entry, SHARED_LONGS);
    shared->arena = arena;
    return shared;
}

void tokenizer_words_release(struct tokenizer_words *shared)
{
    if (!shared)
        return;
    struct arena arena = shared->arena;
    arena_release(&arena);
}

// Where a word that is a token is not merged, the frequent ones are such: looking up the others
// here takes as long as merging them once more (bench/results/neoverse-v1.md).
void tokenizer_cache_share(struct tokenizer_cache *cache, struct tokenizer_words *words)
{
    cache->shared = cache->may_share ? words : NULL;
    cache->looked_up = cache->found = 0;
}

static struct word_entry *shared_set(const struct tokenizer_cache *cache,
                                     const struct word_key *key)
{
    return &cache->shared->words[(key->slot - cache->words) & (SHARED_WORDS - 1)];
}

static struct long_entry *shared_long_set(const struct tokenizer_cache *cache,
                                          const struct word_key *key)
{
    return &cache->shared->longs[key->low & (SHARED_LONGS - 1)];
}

static void fetch_shared(const struct tokenizer_cache *cache, const struct word_key *key)
{
    if (cache->shared && key->slot)
        __builtin_prefetch(shared_set(cache, key));
    else if (cache->shared)
        __builtin_prefetch(shared_long_set(cache, key));
}

static size_t find_shared_short(const struct word_entry *set, const struct word_key *key)
{
    for (int i = 0; i < WORD_WAYS; i++) {
        uint64_t high = __atomic_load_n(&set[i].high, __ATOMIC_RELAXED), tokens = high >> 56;
        if ((high ^ key->high) << 8 || tokens == WAITS)
            continue;
        __atomic_load_n(&set[i].high, __ATOMIC_ACQUIRE); // what follows is as old as `high`
        if (set[i].low == key->low)
            return tokens;
    }
    return 0;
}

static size_t find_shared_long(const struct long_entry *set, const struct word_key *key)
{
    for (int i = 0; i < LONG_WAYS; i++) {
        size_t tokens = __atomic_load_n(&set[i].tokens, __ATOMIC_ACQUIRE);
        if (tokens && tokens != WAITS && is_same(&set[i], key))
            return tokens;
    }
    return 0;
}

// The number of tokens of a word that a thread has shared, or 0. To look a word up and to share it
// takes a fifth of the time of merging it: where fewer are found, the thread goes on alone. That is
// after some megabytes, the later the more threads there are.
static size_t find_shared(struct tokenizer_cache *cache, const struct word_key *key)
{
    if (!cache->shared || word_of(key).size > LONG_BYTES)
        return 0;
    size_t tokens = key->slot ? find_shared_short(shared_set(cache, key), key)
                              : find_shared_long(shared_long_set(cache, key), key);
    cache->found += tokens > 0;
    if (++cache->looked_up == SHARED_TRIAL) {
        if (cache->found < SHARED_TRIAL / 5)
            cache->shared = NULL;
        cache->looked_up = cache->found = 0;
    }
    return tokens;
}

static void share_short(struct word_entry *set, const struct word_key *key, size_t count)
{
    const uint64_t claimed = (uint64_t)WAITS << 56;
    for (int i = 0; i < WORD_WAYS; i++) {
        uint64_t empty = 0;
        if (__atomic_load_n(&set[i].high, __ATOMIC_RELAXED) ||
            !__atomic_compare_exchange_n(&set[i].high, &empty, claimed, false, __ATOMIC_RELAXED,
                                         __ATOMIC_RELAXED))
            continue;
        set[i].low = key->low;
        __atomic_store_n(&set[i].high, key->high | (uint64_t)count << 56, __ATOMIC_RELEASE);
        return;
    }
}

static void share_long(struct long_entry *set, const struct word_key *key, size_t count)
{
    struct text word = word_of(key);
    for (int i = 0; i < LONG_WAYS; i++) {
        uint8_t empty = 0;
        if (__atomic_load_n(&set[i].tokens, __ATOMIC_RELAXED) ||
            !__atomic_compare_exchange_n(&set[i].tokens, &empty, WAITS, false, __ATOMIC_RELAXED,
                                         __ATOMIC_RELAXED))
            continue;
        set[i].size = size_and_part(key);
        memcpy(set[i].bytes, word.at, word.size);
        __atomic_store_n(&set[i].tokens, (uint8_t)count, __ATOMIC_RELEASE);
        return;
    }
}

static void share(const struct tokenizer_cache *cache, const struct word_key *key, size_t count)
{
    if (!cache->shared || !count || word_of(key).size > LONG_BYTES)
        return;
    if (key->slot)
        share_short(shared_set(cache, key), key, count);
    else
        share_long(shared_long_set(cache, key), key, count);
}

// --- new words ---

static int64_t count_known_word(struct tokenizer_cache *cache, const struct word_key *key)
{
    return key->slot ? count_known(key) : count_known_long(cache, key);
}

static void keep(struct tokenizer_cache *cache, const struct word_key *key, size_t count)
{
    if (key->slot)
        keep_short(key, count);
    else
        keep_long(cache, key, count);
}

// Gives the entry of a word that waited its number of tokens, unless newer words pushed it out.
static void settle(struct tokenizer_cache *cache, const struct waiting *word, size_t count)
{
    const struct word_key *key = &word->key;
    struct word_entry *found = key->slot ? find_short(key) : NULL;
    struct long_entry *found_long = key->slot ? NULL : find_long(cache, key);
    if (found)
        found->high = key->high | (uint64_t)count << 56;
    if (found_long)
        found_long->tokens = (uint8_t)count;
    *word->total += (int64_t)count;
}

static int64_t count_alone(const struct tokenizer *t, struct tokenizer_cache *cache,
                           const struct word_key *key)
{
    if (is_part(key))
        tokenizer_bpe(t, cache, word_of(key), false);
    else
        tokenizer_model(t, cache, word_of(key));
    return (int64_t)cache->symbols.count;
}

static bool is_token(const struct tokenizer *t, const struct word_key *key)
{
    return t->ignores_merges && !is_part(key) &&
           tokenizer_vocabulary_find(&t->vocabulary, word_of(key)) >= 0;
}

// The number of tokens of a word that need not be merged; 0 if it must be.
static size_t count_elsewhere(const struct tokenizer *t, struct tokenizer_cache *cache,
                              const struct waiting *word)
{
    return is_token(t, &word->key) ? 1 : find_shared(cache, &word->key);
}

void tokenizer_count_waiting(const struct tokenizer *t, struct tokenizer_cache *cache)
{
    struct counted words[WAITING_WORDS];
    struct waiting *merging[WAITING_WORDS], *end = cache->waiting + cache->waiting_count;
    size_t count = 0;
    for (struct waiting *word = cache->waiting; word < end; word++) {
        if (word->again)
            continue;
        size_t known = count_elsewhere(t, cache, word);
        if (known) {
            settle(cache, word, known);
            continue;
        }
        words[count].word = word_of(&word->key);
        merging[count++] = word;
    }
    tokenizer_bpe_count(t, words, count);
    for (size_t i = 0; i < count; i++) {
        settle(cache, merging[i], words[i].tokens);
        share(cache, &merging[i]->key, words[i].tokens);
    }
    for (struct waiting *word = cache->waiting; word < end; word++)
        if (word->again) {
            int64_t known = count_known_word(cache, &word->key);
            *word->total += known >= 0 ? known : count_alone(t, cache, &word->key);
        }
    cache->waiting_count = 0;
}

static void let_wait(const struct tokenizer *t, struct tokenizer_cache *cache,
                     const struct word_key *key, bool again, int64_t *total)
{
    if (cache->waiting_count == WAITING_WORDS)
        tokenizer_count_waiting(t, cache);
    struct waiting *word = &cache->waiting[cache->waiting_count++];
    *word = (struct waiting){ .key = *key, .total = total, .again = again };
    struct text text = word_of(key);
    memcpy(word->bytes, text.at, text.size);
    word->key.at = word->bytes;
    if (!again)
        fetch_shared(cache, key);
}

// Counts a word whose tokens are not known, now or later.
static void count_new(const struct tokenizer *t, struct tokenizer_cache *cache,
                      const struct word_key *key, int64_t *total)
{
    struct text word = word_of(key);
    bool waits = t->model == MODEL_BPE && t->merges.count && word.size <= BPE_BYTES;
    if (waits) {
        if (t->ignores_merges)
            tokenizer_vocabulary_fetch(&t->vocabulary, word);
        keep(cache, key, WAITS);
        let_wait(t, cache, key, false, total);
        return;
    }
    size_t count = find_shared(cache, key);
    if (!count) {
        count = (size_t)count_alone(t, cache, key);
        share(cache, key, count);
    }
    if (word.size <= LONG_BYTES)
        keep(cache, key, count);
    *total += (int64_t)count;
}

// --- batches ---

enum { BATCH_ROOM = 2 * TOKENIZER_BATCH };

static void count_batch(const struct tokenizer *t, struct tokenizer_cache *cache,
                        const struct word_key *keys, size_t count, int64_t *total)
{
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t known = count_known_word(cache, &keys[i]);
        if (known < 0)
            count_new(t, cache, &keys[i], total);
        else if (known == WAITS)
            let_wait(t, cache, &keys[i], true, total);
        else
            sum += known;
    }
    *total += sum;
}

// Adds the keys of the parts of a word that is longer than WORD_BYTES. Counts what is there if
// fewer than `room` keys would be left.
static __attribute__((noinline)) size_t add_long(const struct tokenizer *t,
                                                 struct tokenizer_cache *cache, struct text word,
                                                 const char *end, struct word_key *keys,
                                                 size_t used, size_t room, int64_t *total)
{
    uint64_t mark = t->ignores_merges ? PART : 0;
    const char *stop = word.at + word.size, *cut;
    for (const char *at = word.at; at < stop; at = cut) {
        cut = t->cuts ? tokenizer_cut(t->cuts, at, stop) : stop;
        size_t part = (size_t)(cut - at);
        keys[used++] = part <= WORD_BYTES ? key_of(cache->words, at, part, end, mark)
                                          : long_key(cache, at, part, mark && part < word.size);
        if (used + room > BATCH_ROOM) {
            count_batch(t, cache, keys, used, total);
            used = 0;
        }
    }
    return used;
}

// The keys of the words up to the first that is long or near the end of the text; their number.
// Most words are here: the loop calls nothing, so that all it needs stays in registers.
static __attribute__((noinline)) size_t add_short(struct word_entry *words, const char *base,
                                                  const char *end, const struct span *spans,
                                                  size_t count, struct word_key *keys)
{
    size_t i = 0;
    for (; i < count; i++) {
        const char *at = base + spans[i].start;
        size_t size = spans[i].end - spans[i].start;
        if (size > WORD_BYTES || end - at < 16)
            break;
        keys[i] = key_of(words, at, size, at + 16, 0);
    }
    return i;
}

void tokenizer_count_words(const struct tokenizer *t, struct tokenizer_cache *cache,
                           struct text text, const struct span *spans, size_t count, int64_t *total)
{
    struct word_key keys[BATCH_ROOM];
    const char *end = text.at + text.size;
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        size_t some = add_short(cache->words, text.at, end, spans + i, count - i, keys + used);
        used += some;
        i += some;
        if (i == count)
            break;
        const char *at = text.at + spans[i].start;
        size_t size = spans[i].end - spans[i].start;
        if (size <= WORD_BYTES)
            keys[used++] = key_of(cache->words, at, size, end, 0);
        else
            used = add_long(t, cache, (struct text){ at, size }, end, keys, used, count - i, total);
    }
    count_batch(t, cache, keys, used, total);
}
