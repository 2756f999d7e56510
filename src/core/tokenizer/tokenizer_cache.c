// SPDX-License-Identifier: Apache-2.0
// The word cache of one or several threads: the number of tokens of words seen before.
//
// Text repeats its words, so most words are found here and need no merging. An entry is the word
// itself, zero-padded, with its size and its number of tokens, so a hit is always right:
//
//     words, 16 bytes:  |  up to 14 bytes of the word  | size | tokens |
//     longs, 64 bytes:  |  15 to 56 bytes of the word  | hash | size | tokens |
//     lines, 256 bytes: |  57 to 250 bytes of the word | size | tokens |
//
// A hash selects a set of WORD_WAYS slots. A new word takes the first slot and pushes the others
// back, so that the last one is forgotten; a hit moves one slot forward. (longs has sets of two.)
// Words of more than 56 bytes, and those of more than 14 in scripts without spaces, are cut where
// no token can cross (tokenizer_cut.c); the parts are looked up.
//
// Words are looked up in batches: while one key is computed, the memory of the ones before it is
// being fetched. New words wait until there are enough of them to merge side by side, which may be
// several texts later: a text of 700 bytes has four or five. Meanwhile their entries say WAITS, so
// that a word that is met again waits with them and is merged once.
//
// Threads may share the tables (struct tokenizer_words). They read and write them without a lock,
// eight bytes at a time, so that an entry may end up as half of one word and half of another. Such
// an entry is of no word, since the eight bytes with the number of tokens are mixed with a check of
// the others: 56 bits of a short word, 48 of a long one. It costs one more merge.

#include "core/tokenizer/tokenizer_internal.h"

#include <assert.h>
#include <string.h>

static_assert(LONG_BYTES < 0x80 && WORD_BYTES < 0x80,
              "an entry stores sizes and token counts in a byte each");
static_assert(sizeof(struct line_entry) == 256, "lines lie in whole cache lines");

struct tokenizer_cache *tokenizer_cache_init(void)
{
    struct arena arena = { 0 };
    struct tokenizer_cache *cache = ARENA_NEW(&arena, struct tokenizer_cache, 1);
    cache->waiting = ARENA_NEW(&arena, struct waiting, WAITING_WORDS);
    arena_alloc(&cache->scratch, 1);
    cache->empty = arena_mark(&cache->scratch);
    cache->arena = arena;
    cache->stack.arena = &cache->arena;
    return cache;
}

// Both tables, in whole cache lines, so that a set of short words is one.
static struct word_tables new_tables(struct arena *arena)
{
    enum { LINE = 64, WORDS = WORD_SLOTS * sizeof(struct word_entry) };
    char *at = arena_alloc(arena, WORDS + LONG_SLOTS * sizeof(struct long_entry) + LINE);
    at += -(uintptr_t)at & (LINE - 1);
    return (struct word_tables){ (struct word_entry *)at, (struct long_entry *)(at + WORDS) };
}

struct tokenizer_words {
    struct arena arena; // holds everything, including this struct
    struct word_tables tables;
};

struct tokenizer_words *tokenizer_words_init(void)
{
    struct arena arena = { 0 };
    struct tokenizer_words *shared = ARENA_NEW(&arena, struct tokenizer_words, 1);
    shared->tables = new_tables(&arena);
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

void tokenizer_cache_share(struct tokenizer_cache *cache, struct tokenizer_words *words)
{
    if (words)
        cache->tables = words->tables;
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

enum { PART = 0x80 };
#define NOT_CACHED UINT64_MAX
#define LONG_PART (UINT64_C(1) << 63)
#define GOLDEN UINT64_C(0x9E3779B97F4A7C15)

// What `high` is mixed with, except the number of tokens, so that it fits one `low` only.
static inline uint64_t check_of(uint64_t low)
{
    return low * GOLDEN >> 8;
}

static inline struct text word_of(const struct word_key *key)
{
    if (!key->slot && key->low == NOT_CACHED)
        return (struct text){ key->at, key->high & ~LONG_PART };
    uint64_t high = key->slot ? (key->high ^ check_of(key->low)) >> 48 : key->high;
    return (struct text){ key->at, high & (PART - 1) };
}

// Parts of words have entries of their own where whole words are looked up in the vocabulary. The
// mark is a bit of the size.
static inline bool is_part(const struct word_key *key)
{
    if (!key->slot && key->low == NOT_CACHED)
        return key->high & LONG_PART;
    return (key->slot ? (key->high ^ check_of(key->low)) >> 48 : key->high) & PART;
}

// Eight bytes that other threads may write, whole and in no order. A volatile access is one
// instruction; that of __atomic_load_n() has no offset in gcc 12, and counting was 3 % slower. The
// thread sanitizer is told the truth.
#ifdef __SANITIZE_THREAD__
#define LOAD(at) __atomic_load_n(&(at), __ATOMIC_RELAXED)
#define STORE(at, value) __atomic_store_n(&(at), value, __ATOMIC_RELAXED)
#else
#define LOAD(at) (*(const volatile uint64_t *)&(at))
#define STORE(at, value) (*(volatile uint64_t *)&(at) = (value))
#endif

// --- short words ---

static inline struct word_key key_of(struct word_entry *words, const char *at, size_t size,
                                     const char *end, uint64_t mark)
{
    struct word_entry entry = read_key(at, size, end);
    entry.high |= mark << 48;
    uint64_t check = entry.low * GOLDEN, hash = check + entry.high * UINT64_C(0xC2B2AE3D27D4EB4F);
    struct word_entry *slot = &words[(hash >> 40) & (WORD_SLOTS - WORD_WAYS)];
    __builtin_prefetch(slot);
    return (struct word_key){ entry.low, entry.high ^ check >> 8, slot, at };
}

static inline struct word_entry read_entry(const struct word_entry *entry)
{
    return (struct word_entry){ LOAD(entry->low), LOAD(entry->high) };
}

static inline void write_entry(struct word_entry *to, struct word_entry entry)
{
    STORE(to->low, entry.low);
    STORE(to->high, entry.high);
}

static inline bool is_of(struct word_entry entry, const struct word_key *key)
{
    return entry.low == key->low && !((entry.high ^ key->high) << 8);
}

// The number of tokens of a cached word, or -1: from what was read once, for the entry may change.
// A word that is found after the first entry moves one place forward.
static inline int64_t count_known(const struct word_key *key)
{
    struct word_entry *slot = key->slot, found = read_entry(slot);
    if (is_of(found, key))
        return (int64_t)(found.high >> 56);
    for (int i = 1; i < WORD_WAYS; i++) {
        found = read_entry(&slot[i]);
        if (is_of(found, key)) {
            write_entry(&slot[i], read_entry(&slot[i - 1]));
            write_entry(&slot[i - 1], found);
            return (int64_t)(found.high >> 56);
        }
    }
    return -1;
}

static void keep_short(const struct word_key *key, size_t count)
{
    for (int i = WORD_WAYS - 1; i > 0; i--)
        write_entry(&key->slot[i], read_entry(&key->slot[i - 1]));
    write_entry(&key->slot[0], (struct word_entry){ key->low, key->high | (uint64_t)count << 56 });
}

// Writes the number of tokens of a word into its entry, if that is still there.
static void correct_short(const struct word_key *key, size_t count)
{
    for (int i = 0; i < WORD_WAYS; i++)
        if (is_of(read_entry(&key->slot[i]), key)) {
            STORE(key->slot[i].high, key->high | (uint64_t)count << 56);
            return;
        }
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
        hash = (hash ^ eight_bytes(at + i)) * GOLDEN;
        hash ^= hash >> 32;
    }
    return hash * UINT64_C(0xC2B2AE3D27D4EB4F);
}

// Words of more than LONG_BYTES are not cached: `high` is just their size.
static struct word_key long_key(const struct long_entry *longs, const char *at, size_t size,
                                bool part)
{
    if (size > LONG_BYTES)
        return (struct word_key){ NOT_CACHED, size | (part ? LONG_PART : 0), NULL, at };
    uint64_t hash = hash_long(at, size), set = hash >> 40 & (LONG_SLOTS - LONG_WAYS);
    __builtin_prefetch(&longs[set]);
    __builtin_prefetch(&longs[set + 1]);
    return (struct word_key){ set, hash << 16 >> 8 | size | (part ? PART : 0), NULL, at };
}

// Bytes 8 i … 8 i + 7 of a long word, those after its end as 0.
static inline uint64_t piece_of(struct text word, size_t i)
{
    size_t left = word.size - 8 * i;
    return left >= 8 ? eight_bytes(word.at + 8 * i)
                     : eight_bytes(word.at + word.size - 8) >> 8 * (8 - left);
}

// The number of tokens in an entry of the word, or -1.
static int64_t count_in(const struct long_entry *entry, const struct word_key *key)
{
    uint64_t tail = LOAD(entry->tail), differ = 0;
    if ((tail ^ key->high) << 8)
        return -1;
    struct text word = word_of(key);
    for (size_t i = 0; 8 * i < word.size; i++)
        differ |= LOAD(entry->pieces[i]) ^ piece_of(word, i);
    return differ ? -1 : (int64_t)(tail >> 56);
}

static int64_t count_known_long(const struct tokenizer_cache *cache, const struct word_key *key)
{
    if (key->low == NOT_CACHED)
        return -1;
    const struct long_entry *slot = &cache->tables.longs[key->low];
    int64_t first = count_in(slot, key);
    return first >= 0 ? first : count_in(slot + 1, key);
}

static void keep_long(struct tokenizer_cache *cache, const struct word_key *key, size_t count)
{
    struct text word = word_of(key);
    struct long_entry *slot = &cache->tables.longs[key->low];
    for (size_t i = 0; i < LONG_PIECES; i++)
        STORE(slot[1].pieces[i], LOAD(slot[0].pieces[i]));
    STORE(slot[1].tail, LOAD(slot[0].tail));
    for (size_t i = 0; 8 * i < word.size; i++)
        STORE(slot->pieces[i], piece_of(word, i));
    STORE(slot->tail, key->high | (uint64_t)count << 56);
}

static void correct_long(struct tokenizer_cache *cache, const struct word_key *key, size_t count)
{
    struct long_entry *slot = &cache->tables.longs[key->low];
    for (int i = 0; i < LONG_WAYS; i++)
        if (count_in(&slot[i], key) >= 0) {
            STORE(slot[i].tail, key->high | (uint64_t)count << 56);
            return;
        }
}

// --- new words ---

// The entry of a word that waits to be merged.
enum { WAITS = UINT8_MAX };
static_assert((int)LONG_BYTES < (int)WAITS, "no word has so many tokens");

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
    if (word->key.slot)
        correct_short(&word->key, count);
    else
        correct_long(cache, &word->key, count);
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

static bool is_token(const struct tokenizer *t, const struct waiting *word)
{
    return word->may_be_token &&
           tokenizer_vocabulary_find(&t->vocabulary, word_of(&word->key)) >= 0;
}

// Counts a word that is met again before its tokens are known. If another thread has not counted it
// yet, nobody may ever do so: that thread may have lost its entry.
static void count_again(const struct tokenizer *t, struct tokenizer_cache *cache,
                        const struct waiting *word)
{
    int64_t known = count_known_word(cache, &word->key);
    if (known >= 0 && known != WAITS)
        *word->total += known;
    else
        settle(cache, word, (size_t)count_alone(t, cache, &word->key));
}

void tokenizer_count_waiting(const struct tokenizer *t, struct tokenizer_cache *cache)
{
    struct counted words[WAITING_WORDS];
    struct waiting *merging[WAITING_WORDS], *end = cache->waiting + cache->waiting_count;
    size_t count = 0;
    for (struct waiting *word = cache->waiting; word < end; word++) {
        if (word->again)
            continue;
        if (is_token(t, word)) {
            settle(cache, word, 1);
            continue;
        }
        words[count].word = word_of(&word->key);
        merging[count++] = word;
    }
    tokenizer_bpe_count(t, words, count);
    for (size_t i = 0; i < count; i++)
        settle(cache, merging[i], words[i].tokens);
    for (struct waiting *word = cache->waiting; word < end; word++)
        if (word->again)
            count_again(t, cache, word);
    cache->waiting_count = 0;
}

static void let_wait(const struct tokenizer *t, struct tokenizer_cache *cache,
                     const struct word_key *key, bool again, bool may_be_token, int64_t *total)
{
    if (cache->waiting_count == WAITING_WORDS)
        tokenizer_count_waiting(t, cache);
    struct waiting *word = &cache->waiting[cache->waiting_count++];
    *word = (struct waiting){ *key, total, again, may_be_token, { 0 } };
    struct text text = word_of(key);
    memcpy(word->bytes, text.at, text.size);
    word->key.at = word->bytes;
}

// Counts a word of more than LONG_BYTES: rules of dashes or stars in code and deep indentation,
// which are few, are met again, and take a merge for each byte. Threads have their own entries.
static int64_t count_line(const struct tokenizer *t, struct tokenizer_cache *cache,
                          const struct word_key *key)
{
    struct text word = word_of(key);
    if (word.size > LINE_BYTES)
        return count_alone(t, cache, key);
    if (!cache->lines)
        cache->lines = ARENA_NEW(&cache->arena, struct line_entry, LINE_SLOTS);
    struct line_entry *line = &cache->lines[hash_long(word.at, word.size) >> 40 & (LINE_SLOTS - 1)];
    if (line->size != word.size || line->is_part != is_part(key) ||
        memcmp(line->bytes, word.at, word.size)) {
        line->tokens = (uint16_t)count_alone(t, cache, key); // not more than there are bytes
        line->size = (uint16_t)word.size;
        line->is_part = is_part(key);
        memcpy(line->bytes, word.at, word.size);
    }
    return line->tokens;
}

// Counts a word whose tokens are not known, now or later.
static void count_new(const struct tokenizer *t, struct tokenizer_cache *cache,
                      const struct word_key *key, int64_t *total)
{
    struct text word = word_of(key);
    bool waits = t->model == MODEL_BPE && t->merges.count && word.size <= LONG_BYTES;
    if (waits) {
        bool may = t->ignores_merges && !is_part(key) &&
                   tokenizer_vocabulary_may_have(&t->vocabulary, word);
        keep(cache, key, WAITS);
        let_wait(t, cache, key, false, may, total);
        return;
    }
    if (word.size > LONG_BYTES) {
        *total += count_line(t, cache, key);
        return;
    }
    int64_t count = count_alone(t, cache, key);
    keep(cache, key, (size_t)count);
    *total += count;
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
            let_wait(t, cache, &keys[i], true, false, total);
        else
            sum += known;
    }
    *total += sum;
}

struct keys { // that are not counted yet
    struct word_key *at;
    size_t used, room; // counted if fewer than `room` would be left
};

static inline void add_part(const struct tokenizer *t, struct tokenizer_cache *cache,
                            struct keys *keys, struct text part, const char *end, bool whole,
                            int64_t *total)
{
    uint64_t mark = t->ignores_merges ? PART : 0;
    keys->at[keys->used++] =
        part.size <= WORD_BYTES ? key_of(cache->tables.words, part.at, part.size, end, mark)
                                : long_key(cache->tables.longs, part.at, part.size, mark && !whole);
    if (keys->used + keys->room > BATCH_ROOM) {
        count_batch(t, cache, keys->at, keys->used, total);
        keys->used = 0;
    }
}

// Whether the first or the last character is Chinese or Japanese: U+3000 to 9FFF.
static bool is_east_asian(struct text word)
{
    unsigned char first = (unsigned char)word.at[0], last = (unsigned char)word.at[word.size - 3];
    return (first >= 0xE3 && first <= 0xE9) || (last >= 0xE3 && last <= 0xE9);
}

// Whether a word has an entry, and is of a script with spaces between words, told from its first
// character after a space: of one or two bytes. There is hardly a place to cut it.
static bool is_looked_up_whole(struct text word)
{
    unsigned char lead = (unsigned char)word.at[*word.at == ' '];
    return word.size <= LONG_BYTES && lead < 0xE0;
}

// Adds the keys of the parts of a word that is longer than WORD_BYTES.
static __attribute__((noinline)) void add_long(const struct tokenizer *t,
                                               struct tokenizer_cache *cache, struct keys *keys,
                                               struct text word, const char *end, int64_t *total)
{
    enum { PARTS = 64 };
    uint32_t ends[PARTS];
    const char *stop = word.at + word.size, *at = word.at, *cut;
    bool east_asian = is_east_asian(word);
    if (!east_asian && is_looked_up_whole(word)) {
        add_part(t, cache, keys, word, end, true, total);
        return;
    }
    if (t->cuts && east_asian)
        while (at < stop) {
            const char *from = at;
            size_t parts = tokenizer_cut_all(t->cuts, from, stop, ends, PARTS);
            for (size_t i = 0; i < parts; i++, at = cut) {
                cut = from + ends[i];
                size_t part = (size_t)(cut - at);
                add_part(t, cache, keys, (struct text){ at, part }, end, part == word.size, total);
            }
        }
    for (; at < stop; at = cut) {
        cut = t->cuts ? tokenizer_cut(t->cuts, at, stop) : stop;
        size_t part = (size_t)(cut - at);
        add_part(t, cache, keys, (struct text){ at, part }, end, part == word.size, total);
    }
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
    if (!cache->tables.words) // not shared: a thread that shares tables needs none of its own
        cache->tables = new_tables(&cache->arena);
    const char *end = text.at + text.size;
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        size_t some =
            add_short(cache->tables.words, text.at, end, spans + i, count - i, keys + used);
        used += some;
        i += some;
        if (i == count)
            break;
        const char *at = text.at + spans[i].start;
        size_t size = spans[i].end - spans[i].start;
        if (size <= WORD_BYTES) {
            keys[used++] = key_of(cache->tables.words, at, size, end, 0);
            continue;
        }
        struct keys waiting = { keys, used, count - i };
        add_long(t, cache, &waiting, (struct text){ at, size }, end, total);
        used = waiting.used;
    }
    count_batch(t, cache, keys, used, total);
}
