// SPDX-License-Identifier: Apache-2.0
// Byte-pair encoding of a word.
//
// A word starts as one symbol per byte or character. Then the adjacent pair with the lowest rank
// merges, the leftmost first, until no pair has a rank:
//
//     l o w e r     ranks  l+o 7   o+w 9   w+e 40   e+r 3     e+r merges
//     l o w er             l+o 7   o+w 9   w+er -             l+o merges
//     lo w er              lo+w 12         w+er -             lo+w merges
//     low er               low+er -                           done: 2 tokens
//
// A merge changes only the two pairs next to it. Short words scan all ranks for the lowest: they
// fit into a few cache lines. That would be quadratic for long words (a line of a million "=" is
// one word), so merge_long() keeps a list of the pairs of each rank, and four levels of bits that
// tell which lists are not empty:
//
//     level 3   one word: which words of level 2 are not 0
//     ...
//     level 0   bit r: the list of rank r is not empty
//     heads[r]  first pair of rank r in the text -> next -> ...
//
// Finding the lowest rank is four bit scans. A merge adds pairs almost always at the end of a list,
// so each symbol costs constant time.
//
// Invariant: a pair is in the list of its rank exactly if it merges; after a word all lists are
// empty again, so the next word need not clear them.

#include "core/tokenizer/tokenizer_internal.h"

#include <assert.h>
#include <string.h>

enum { SHORT_WORD = 64, NOWHERE = -1 };
#define NO_RANK TOKENIZER_NO_RANK

// --- first symbols -----------------------------------------------------------

struct pending { // unknown characters that are not written yet
    bool any;
    uint32_t size;
};

static void put(struct symbols *s, int32_t id, uint32_t size)
{
    s->ids[s->count] = id;
    s->sizes[s->count++] = size;
}

static void put_pending(const struct tokenizer *t, struct symbols *s, struct pending *unknown)
{
    if (unknown->any)
        put(s, t->unknown, unknown->size);
    *unknown = (struct pending){ 0 };
}

static bool put_bytes(const struct tokenizer *t, struct symbols *s, struct text character)
{
    for (size_t i = 0; i < character.size; i++)
        if (t->byte_ids[(unsigned char)character.at[i]] < 0)
            return false;
    for (size_t i = 0; i < character.size; i++)
        put(s, t->byte_ids[(unsigned char)character.at[i]], 1);
    return true;
}

static void put_unknown(const struct tokenizer *t, struct symbols *s, struct text character,
                        struct pending *unknown)
{
    if (t->byte_fallback && put_bytes(t, s, character))
        return;
    if (t->unknown < 0)
        return; // the library drops unknown characters
    if (!t->fuses_unknown)
        put_pending(t, s, unknown);
    unknown->any = true;
    unknown->size += (uint32_t)character.size;
}

// The token of a symbol at the end of a word, whose text has a suffix in the vocabulary.
static int32_t find_last(const struct tokenizer *t, struct text symbol)
{
    char bytes[UNICODE_BYTES + SUFFIX_BYTES];
    memcpy(bytes, symbol.at, symbol.size);
    memcpy(bytes + symbol.size, t->suffix.at, t->suffix.size);
    return tokenizer_vocabulary_find(&t->vocabulary,
                                     (struct text){ bytes, symbol.size + t->suffix.size });
}

static void put_characters(const struct tokenizer *t, struct symbols *s, struct text word)
{
    struct pending unknown = { 0 };
    for (const char *at = word.at, *end = word.at + word.size; at < end;) {
        const char *start = at;
        if (t->byte_level)
            at++;
        else
            unicode_next(&at, end);
        struct text character = { start, (size_t)(at - start) };
        int32_t id = t->suffix.size && at == end ? find_last(t, character)
                     : t->byte_level             ? t->byte_ids[(unsigned char)*start]
                                     : tokenizer_vocabulary_find(&t->vocabulary, character);
        if (id < 0) {
            put_unknown(t, s, character, &unknown);
            continue;
        }
        put_pending(t, s, &unknown);
        put(s, id, (uint32_t)character.size);
    }
    put_pending(t, s, &unknown);
}

// --- short words -------------------------------------------------------------

static uint32_t rank_of(const struct tokenizer *t, int32_t left, int32_t right)
{
    return tokenizer_merges_rank(&t->merges, left, right);
}

// The rank of the pair at i before any merge. word is NULL unless every byte is a symbol.
static uint32_t first_rank(const struct tokenizer *t, const struct symbols *s, const char *word,
                           size_t i)
{
    return word ? t->byte_ranks[(unsigned char)word[i] << 8 | (unsigned char)word[i + 1]]
                : rank_of(t, s->ids[i], s->ids[i + 1]);
}

// The pair may merge; its rank is not hot and was not looked up yet.
#define LATER (NO_RANK - 1)

// Pairs of low rank merge first, so most other pairs disappear before their rank is needed. Until
// no hot pair is left, only the filter and the table of hot pairs are read: both fit into the
// processor's cache, the full table does not.
static uint32_t hot_rank(const struct tokenizer *t, int32_t left, int32_t right)
{
    if (!tokenizer_merges_may(&t->merges, left, right))
        return NO_RANK;
    uint32_t rank = tokenizer_merges_rank(&t->hot, left, right);
    return rank == NO_RANK ? LATER : rank;
}

// A pair is a number: its rank, then its place, so that the lowest number is the leftmost pair of
// the lowest rank. The lowest of a few dozen numbers is a handful of vector instructions.
enum { PLACE_BITS = 6, PLACES = 1 << PLACE_BITS };
#define PAIR_NONE UINT32_MAX
#define PAIR_LATER (UINT32_C(1) << 31)
static_assert((int)SHORT_WORD <= (int)PLACES && TOKENIZER_IDS << PLACE_BITS <= 1 << 30,
              "a pair is a number");

static uint32_t pair_of(uint32_t rank, uint32_t place)
{
    return rank == NO_RANK ? PAIR_NONE
           : rank == LATER ? PAIR_LATER | place
                           : rank << PLACE_BITS | place;
}

struct pairs {
    uint32_t at[PLACES]; // by the place of the left symbol
    size_t count;        // a multiple of eight
    uint8_t next[PLACES], previous[PLACES];
};

static uint32_t lowest(const struct pairs *p)
{
    uint32_t low = PAIR_NONE;
    for (size_t i = 0; i < p->count; i += 8)
        for (size_t k = 0; k < 8; k++)
            low = p->at[i + k] < low ? p->at[i + k] : low;
    return low;
}

static uint32_t lowest_known(const struct tokenizer *t, const struct symbols *s, struct pairs *p)
{
    uint32_t low = lowest(p);
    if (low < TOKENIZER_HOT << PLACE_BITS || low == PAIR_NONE)
        return low;
    for (uint32_t i = 0; i < p->count; i++)
        if (p->at[i] == (PAIR_LATER | i))
            p->at[i] = pair_of(rank_of(t, s->ids[i], s->ids[p->next[i]]), i);
    return lowest(p);
}

static void merge_short(const struct tokenizer *t, struct symbols *s, const char *word)
{
    struct pairs p = { .count = (s->count + 7) / 8 * 8 };
    size_t count = s->count;
    int32_t *ids = s->ids;
    memset(p.at, 0xFF, p.count * sizeof *p.at);
    for (size_t i = 0; i < count; i++) {
        p.next[i] = (uint8_t)(i + 1);
        p.previous[i] = (uint8_t)(i - 1);
        if (i + 1 < count)
            p.at[i] = pair_of(word ? first_rank(t, s, word, i) : hot_rank(t, ids[i], ids[i + 1]),
                              (uint32_t)i);
    }
    for (uint32_t pair; (pair = lowest_known(t, s, &p)) != PAIR_NONE;) {
        uint32_t left = pair % PLACES, right = p.next[left], next = p.next[right];
        ids[left] = t->merges.wholes[pair >> PLACE_BITS];
        s->sizes[left] += s->sizes[right];
        p.next[left] = (uint8_t)next;
        p.at[left] = p.at[right] = PAIR_NONE;
        if (next < count) {
            p.previous[next] = (uint8_t)left;
            p.at[left] = pair_of(hot_rank(t, ids[left], ids[next]), left);
        }
        if (left) {
            uint32_t previous = p.previous[left];
            p.at[previous] = pair_of(hot_rank(t, ids[previous], ids[left]), previous);
        }
    }
    s->count = 0;
    for (size_t i = 0; i < count; i = p.next[i])
        put(s, ids[i], s->sizes[i]);
}

// --- long words --------------------------------------------------------------

// A symbol, identified by its position, and the pair that it starts, a member of its rank's list.
struct node {
    int32_t next, previous; // symbols
    int32_t later, earlier; // pairs of the same rank, in text order
    uint32_t rank;          // NO_RANK if the pair does not merge
};

// The lists of pairs by rank, and the levels of bits.
struct queue {
    struct node *nodes;
    int32_t *heads, *tails;
    uint64_t *bits[4];
};

static int lowest_bit(uint64_t bits)
{
    return __builtin_ctzll(bits);
}

static void queue_init(struct queue *q, const struct tokenizer *t, struct tokenizer_cache *cache,
                       size_t count)
{
    size_t ranks = t->merges.count, sizes[4], total = 0, size = ranks;
    for (int level = 0; level < 4; level++) {
        size = (size + 63) / 64;
        sizes[level] = size;
        total += size;
    }
    size_t bytes = total * sizeof(uint64_t) + 2 * ranks * sizeof(int32_t);
    bool fresh = cache->queue_heads.size < bytes;
    uint64_t *at = tokenizer_room(cache, &cache->queue_heads, bytes);
    for (int level = 0; level < 4; level++) {
        q->bits[level] = at;
        at += sizes[level];
    }
    q->heads = (int32_t *)at;
    q->tails = q->heads + ranks;
    if (fresh) {
        memset(q->bits[0], 0, total * sizeof(uint64_t));
        memset(q->heads, 0xFF, 2 * ranks * sizeof(int32_t));
    }
    assert(sizes[3] == 1 && !q->bits[3][0]);
    q->nodes = tokenizer_room(cache, &cache->queue, count * sizeof *q->nodes);
}

static inline void queue_add(struct queue *q, int32_t at, uint32_t rank)
{
    struct node *node = &q->nodes[at];
    node->rank = rank;
    if (rank == NO_RANK)
        return;
    int32_t before = q->tails[rank];
    while (before > at)
        before = q->nodes[before].earlier;
    int32_t after = before >= 0 ? q->nodes[before].later : q->heads[rank];
    node->earlier = before;
    node->later = after;
    *(before >= 0 ? &q->nodes[before].later : &q->heads[rank]) = at;
    *(after >= 0 ? &q->nodes[after].earlier : &q->tails[rank]) = at;
    for (int level = 0; level < 4; level++, rank /= 64) {
        uint64_t *bits = &q->bits[level][rank / 64], had = *bits;
        *bits |= UINT64_C(1) << rank % 64;
        if (had)
            break; // the bits of the levels above are set
    }
}

static inline void queue_remove(struct queue *q, int32_t at)
{
    struct node *node = &q->nodes[at];
    uint32_t rank = node->rank;
    if (rank == NO_RANK)
        return;
    *(node->earlier >= 0 ? &q->nodes[node->earlier].later : &q->heads[rank]) = node->later;
    *(node->later >= 0 ? &q->nodes[node->later].earlier : &q->tails[rank]) = node->earlier;
    node->rank = NO_RANK;
    if (q->heads[rank] >= 0)
        return;
    for (int level = 0; level < 4; level++, rank /= 64) {
        q->bits[level][rank / 64] &= ~(UINT64_C(1) << rank % 64);
        if (q->bits[level][rank / 64])
            break;
    }
}

// The first pair of the lowest rank, or NOWHERE.
static int32_t queue_first(const struct queue *q)
{
    if (!q->bits[3][0])
        return NOWHERE;
    uint32_t rank = 0;
    for (int level = 3; level >= 0; level--)
        rank = rank * 64 + (uint32_t)lowest_bit(q->bits[level][rank]);
    return q->heads[rank];
}

static void merge_long(const struct tokenizer *t, struct tokenizer_cache *cache, struct symbols *s,
                       const char *word)
{
    struct queue q;
    queue_init(&q, t, cache, s->count);
    int32_t count = (int32_t)s->count;
    for (int32_t i = 0; i < count; i++) {
        q.nodes[i].previous = i - 1;
        q.nodes[i].next = i + 1 < count ? i + 1 : NOWHERE;
        if (i + 1 == count)
            q.nodes[i].rank = NO_RANK;
        else
            queue_add(&q, i, first_rank(t, s, word, (size_t)i));
    }
    for (int32_t left; (left = queue_first(&q)) >= 0;) {
        int32_t right = q.nodes[left].next, next = q.nodes[right].next;
        int32_t previous = q.nodes[left].previous;
        s->ids[left] = t->merges.wholes[q.nodes[left].rank];
        s->sizes[left] += s->sizes[right];
        queue_remove(&q, left);
        queue_remove(&q, right);
        q.nodes[left].next = next;
        if (next >= 0) {
            q.nodes[next].previous = left;
            queue_add(&q, left, rank_of(t, s->ids[left], s->ids[next]));
        }
        if (previous >= 0) {
            queue_remove(&q, previous);
            queue_add(&q, previous, rank_of(t, s->ids[previous], s->ids[left]));
        }
    }
    s->count = 0;
    for (int32_t i = 0; i >= 0; i = q.nodes[i].next)
        put(s, s->ids[i], s->sizes[i]);
}

static void encode_part(const struct tokenizer *t, struct tokenizer_cache *cache, struct text part)
{
    struct symbols *all = &cache->symbols;
    struct symbols s = { all->ids + all->count, all->sizes + all->count, 0 };
    put_characters(t, &s, part);
    bool plain = t->byte_ranks && s.count == part.size && !t->suffix.size;
    const char *bytes = plain ? part.at : NULL;
    if (t->merges.count && s.count > SHORT_WORD)
        merge_long(t, cache, &s, bytes);
    else if (t->merges.count && s.count > 1)
        merge_short(t, &s, bytes);
    all->count += s.count;
}

void tokenizer_bpe(const struct tokenizer *t, struct tokenizer_cache *cache, struct text word,
                   bool whole)
{
    struct symbols *s = &cache->symbols;
    s->ids = tokenizer_room(cache, &cache->symbol_ids, (word.size + 1) * sizeof *s->ids);
    s->sizes = tokenizer_room(cache, &cache->symbol_sizes, (word.size + 1) * sizeof *s->sizes);
    s->count = 0;
    int32_t id = whole && t->ignores_merges ? tokenizer_vocabulary_find(&t->vocabulary, word)
                                            : TOKENIZER_NONE;
    if (id >= 0) {
        put(s, id, (uint32_t)word.size);
        return;
    }
    bool cuts = t->cuts && word.size > WORD_BYTES;
    for (const char *at = word.at, *end = at + word.size, *stop; at < end; at = stop) {
        stop = cuts ? tokenizer_cut(t->cuts, at, end) : end;
        encode_part(t, cache, (struct text){ at, (size_t)(stop - at) });
    }
}
