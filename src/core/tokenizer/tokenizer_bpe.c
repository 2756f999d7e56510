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
// fit into a few cache lines, and several words take their steps side by side. That would be
// quadratic for long words (a line of a million "=" is one word), so merge_long() keeps a list of
// the pairs of each rank, and four levels of bits that tell which lists are not empty:
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

enum { NOWHERE = -1, WINDOW_BYTES = 1 << 18 };
#define NO_RANK TOKENIZER_NO_RANK

static int lowest_bit(uint64_t bits)
{
    return __builtin_ctzll(bits);
}

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

// The symbol that a byte starts as if it is a character, or a part of one that no token has.
static int32_t find_first(const struct tokenizer *t, int byte)
{
    char character = (char)byte;
    if (t->byte_level)
        return t->byte_ids[byte];
    int32_t id = TOKENIZER_NONE;
    if (byte < 0x80)
        id = tokenizer_vocabulary_find(&t->vocabulary, t->reads_spaces && byte == ' '
                                                           ? TEXT(TOKENIZER_MARK)
                                                           : (struct text){ &character, 1 });
    return id < 0 && t->byte_fallback ? t->byte_ids[byte] : id;
}

void tokenizer_choose_first(struct tokenizer *t, struct arena *arena)
{
    bool merges = t->model == MODEL_BPE && t->merges.count && !t->suffix.size, knows_all = merges;
    for (int byte = 0; byte < 256; byte++) {
        t->first_ids[byte] = t->model == MODEL_BPE ? find_first(t, byte) : TOKENIZER_NONE;
        knows_all = knows_all && t->first_ids[byte] >= 0;
    }
    bool keeps_unknown = t->unknown >= 0 && !t->byte_fallback; // in order, with their sizes
    if (merges && (knows_all || keeps_unknown))
        t->window = WINDOW_BYTES;
    if (!knows_all)
        return;
    t->byte_ranks = arena_alloc(arena, sizeof(uint32_t) << 16);
    for (int left = 0; left < 256; left++)
        for (int right = 0; right < 256; right++)
            t->byte_ranks[left << 8 | right] =
                tokenizer_rank(&t->merges, t->first_ids[left], t->first_ids[right]);
}

static bool is_ascii(struct text word)
{
    for (size_t i = 0; i < word.size; i++)
        if (word.at[i] & 0x80)
            return false;
    return true;
}

static int32_t find_character(const struct tokenizer *t, struct text character)
{
    if (character.size == 1)
        return t->first_ids[(unsigned char)*character.at];
    return t->cuts && character.size < 4 ? tokenizer_character(t->cuts, character)
                                         : tokenizer_vocabulary_find(&t->vocabulary, character);
}

static void put_characters(const struct tokenizer *t, struct symbols *s, struct text word)
{
    if (t->byte_level && t->cuts && !is_ascii(word)) {
        s->count = tokenizer_characters(t->cuts, t->byte_ids, word, s->ids, s->sizes);
        return;
    }
    struct pending unknown = { 0 };
    for (const char *at = word.at, *end = word.at + word.size; at < end;) {
        const char *start = at;
        if (t->byte_level)
            at++;
        else
            unicode_next(&at, end);
        struct text character = { start, (size_t)(at - start) };
        int32_t id =
            t->suffix.size && at == end ? find_last(t, character) : find_character(t, character);
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

// A pair is a number: its rank, then its place, so that the lowest number is the leftmost pair of
// the lowest rank. The lowest of a few dozen numbers is a handful of vector instructions; they are
// signed, because x86-64 compares no others in vectors.
enum { PLACE_BITS = 6, PLACES = 1 << PLACE_BITS, BLOCK = 16, FOUR = 4 };
#define PAIR_NONE INT32_MAX
typedef int32_t pairs_of_four __attribute__((vector_size(FOUR * sizeof(int32_t))));

static inline int32_t pair_of(uint32_t rank, size_t place)
{
    return rank == NO_RANK ? PAIR_NONE : (int32_t)(rank << PLACE_BITS | (uint32_t)place);
}

static inline int32_t lowest_pair(const int32_t *pairs, size_t count)
{
    pairs_of_four lows = { PAIR_NONE, PAIR_NONE, PAIR_NONE, PAIR_NONE }, here;
    for (size_t block = 0; block < count; block += BLOCK)
        for (size_t i = block; i < block + BLOCK; i += FOUR) {
            memcpy(&here, pairs + i, sizeof here);
            pairs_of_four lower = here < lows; // all bits of a number set, or none
            lows = (here & lower) | (lows & ~lower);
        }
    int32_t low = PAIR_NONE;
    for (int i = 0; i < FOUR; i++)
        low = lows[i] < low ? lows[i] : low;
    return low;
}

// A pair whose rank is on its way from memory.
struct asked {
    const uint64_t *bucket;
    uint64_t pair;
    size_t place;
};

// A word that is being merged. A symbol keeps the place where it begins; place 0 and the one after
// the last symbol hold GUARD, which merges with nothing, so that every symbol has two neighbours.
struct lane {
    int32_t pairs[PLACES]; // by the place of the left symbol
    int32_t ids[PLACES];
    uint64_t used;         // places with a symbol or a guard
    size_t places;         // a multiple of BLOCK
    struct asked asked[2]; // the pairs that the last merge made
    int32_t lowest;        // the pair that merges next
    size_t word;           // its index
    size_t tokens;         // so far
};
enum { GUARD = TOKENIZER_IDS, GUARDS = 2 };
static_assert((int)BPE_BYTES + GUARDS <= (int)PLACES && TOKENIZER_IDS < 1 << (31 - PLACE_BITS),
              "a pair is a number");

static inline size_t place_after(const struct lane *lane, size_t place)
{
    return (size_t)lowest_bit(lane->used & ~UINT64_C(1) << place);
}

static inline struct asked ask(const struct tokenizer *t, struct lane *lane, size_t place,
                               size_t after)
{
    static const uint64_t empty[MERGE_BUCKET] = { MERGE_EMPTY, MERGE_EMPTY, MERGE_EMPTY,
                                                  MERGE_EMPTY };
    int32_t left = lane->ids[place], right = lane->ids[after];
    uint64_t pair = tokenizer_pair(left, right);
    const uint64_t *bucket = tokenizer_merges_bucket(&t->merges, pair);
    bucket = left == GUARD || right == GUARD ? empty : bucket;
    __builtin_prefetch(bucket);
    lane->pairs[place] = PAIR_NONE;
    return (struct asked){ bucket, pair, place };
}

static inline int32_t answer(const struct tokenizer *t, struct asked asked)
{
    return pair_of(tokenizer_merges_rank(&t->merges, asked.bucket, asked.pair), asked.place);
}

// The ids of the symbols are set, from place 1 on. word is NULL unless every byte is a symbol.
static void begin(const struct tokenizer *t, struct lane *lane, size_t count, const char *word)
{
    struct asked all[PLACES];
    lane->ids[0] = lane->ids[count + 1] = GUARD;
    lane->used = UINT64_MAX >> (PLACES - GUARDS - count);
    lane->tokens = count;
    lane->places = (count + GUARDS + BLOCK - 1) / BLOCK * BLOCK;
    for (size_t i = 0; i < lane->places; i++)
        lane->pairs[i] = PAIR_NONE;
    for (size_t i = 1; word && i < count; i++)
        lane->pairs[i] =
            pair_of(t->byte_ranks[(unsigned char)word[i - 1] << 8 | (unsigned char)word[i]], i);
    for (size_t i = 1; !word && i < count; i++)
        all[i] = ask(t, lane, i, i + 1);
    for (size_t i = 1; !word && i < count; i++)
        lane->pairs[i] = answer(t, all[i]);
    lane->asked[0] = lane->asked[1] = ask(t, lane, 0, 1);
}

// Finds the pair that merges next, and asks for the token that it makes. False if there is none.
static inline bool choose(const struct tokenizer *t, struct lane *lane)
{
    int32_t low = lowest_pair(lane->pairs, lane->places);
    int32_t first = answer(t, lane->asked[0]), second = answer(t, lane->asked[1]);
    lane->pairs[lane->asked[0].place] = first;
    lane->pairs[lane->asked[1].place] = second;
    low = first < low ? first : low;
    low = second < low ? second : low;
    lane->lowest = low;
    if (low == PAIR_NONE)
        return false;
    __builtin_prefetch(&t->merges.wholes[low >> PLACE_BITS]);
    return true;
}

// Merges the pair, and asks for the ranks of the pairs that it makes with its neighbours.
static inline void merge_lowest(const struct tokenizer *t, struct lane *lane)
{
    size_t left = (uint32_t)lane->lowest % PLACES, right = place_after(lane, left);
    size_t before = 63 - (size_t)__builtin_clzll(lane->used & ((UINT64_C(1) << left) - 1));
    lane->ids[left] = t->merges.wholes[lane->lowest >> PLACE_BITS];
    lane->used &= ~(UINT64_C(1) << right);
    lane->pairs[right] = PAIR_NONE;
    lane->tokens--;
    lane->asked[0] = ask(t, lane, left, place_after(lane, left));
    lane->asked[1] = ask(t, lane, before, left);
}

static void merge_short(const struct tokenizer *t, struct symbols *s, const char *word)
{
    struct lane lane;
    memcpy(lane.ids + 1, s->ids, s->count * sizeof *s->ids);
    begin(t, &lane, s->count, word);
    while (choose(t, &lane))
        merge_lowest(t, &lane);
    size_t count = s->count, next;
    s->count = 0;
    for (size_t at = 1; at <= count; at = next) {
        uint32_t size = 0;
        next = place_after(&lane, at);
        for (size_t k = at; k < next; k++)
            size += s->sizes[k - 1];
        put(s, lane.ids[at], size);
    }
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

// Sets the bits of a rank whose list was empty.
static inline void queue_mark(struct queue *q, uint32_t rank)
{
    for (int level = 0; level < 4; level++, rank /= 64) {
        uint64_t *bits = &q->bits[level][rank / 64], had = *bits;
        *bits |= UINT64_C(1) << rank % 64;
        if (had)
            break; // the bits of the levels above are set
    }
}

// The same as queue_add(), for a pair after all others.
static inline void queue_append(struct queue *q, int32_t at, uint32_t rank)
{
    struct node *node = &q->nodes[at];
    node->rank = rank;
    if (rank == NO_RANK)
        return;
    int32_t before = q->tails[rank];
    node->earlier = before;
    node->later = NOWHERE;
    q->tails[rank] = at;
    *(before >= 0 ? &q->nodes[before].later : &q->heads[rank]) = at;
    if (before < 0)
        queue_mark(q, rank);
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
    if (before < 0 && after < 0)
        queue_mark(q, rank);
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

// The pair that was last asked for: in long words the same one comes again and again.
struct last_pair {
    int32_t left, right;
    uint32_t rank;
};

static inline uint32_t rank_of(const struct tokenizer *t, struct last_pair *last, int32_t left,
                               int32_t right)
{
    if (last->left != left || last->right != right)
        *last = (struct last_pair){ left, right, tokenizer_rank(&t->merges, left, right) };
    return last->rank;
}

// All pairs before any merge. word is NULL unless every byte is a symbol.
static void queue_fill(struct queue *q, const struct tokenizer *t, const struct symbols *s,
                       const char *word)
{
    const unsigned char *bytes = (const unsigned char *)word;
    struct last_pair last = { TOKENIZER_NONE, TOKENIZER_NONE, NO_RANK };
    int32_t count = (int32_t)s->count;
    for (int32_t i = 0; i + 1 < count; i++) {
        q->nodes[i].previous = i - 1;
        q->nodes[i].next = i + 1;
        queue_append(q, i,
                     bytes ? t->byte_ranks[bytes[i] << 8 | bytes[i + 1]]
                           : rank_of(t, &last, s->ids[i], s->ids[i + 1]));
    }
    q->nodes[count - 1].previous = count - 2;
    q->nodes[count - 1].next = NOWHERE;
    q->nodes[count - 1].rank = NO_RANK;
}

static void merge_long(const struct tokenizer *t, struct tokenizer_cache *cache, struct symbols *s,
                       const char *word)
{
    struct queue q;
    struct last_pair with_next = { TOKENIZER_NONE, TOKENIZER_NONE, NO_RANK };
    struct last_pair with_previous = with_next;
    queue_init(&q, t, cache, s->count);
    queue_fill(&q, t, s, word);
    for (int32_t left = queue_first(&q); left >= 0;) {
        int32_t right = q.nodes[left].next, next = q.nodes[right].next;
        int32_t previous = q.nodes[left].previous;
        uint32_t rank = q.nodes[left].rank, lowest = rank;
        s->ids[left] = t->merges.wholes[rank];
        s->sizes[left] += s->sizes[right];
        queue_remove(&q, left);
        queue_remove(&q, right);
        q.nodes[left].next = next;
        if (next >= 0) {
            q.nodes[next].previous = left;
            uint32_t made = rank_of(t, &with_next, s->ids[left], s->ids[next]);
            // Where `next` begins the pair that merges after this one, the pair before it is
            // another one then: only a lower one would come first and needs to be in the queue.
            if (made <= rank || q.heads[rank] != next)
                queue_add(&q, left, made);
            lowest = made < lowest ? made : lowest;
        }
        if (previous >= 0) {
            uint32_t made = rank_of(t, &with_previous, s->ids[previous], s->ids[left]);
            queue_remove(&q, previous);
            queue_add(&q, previous, made);
            lowest = made < lowest ? made : lowest;
        }
        left = lowest == rank && q.heads[rank] >= 0 ? q.heads[rank] : queue_first(&q);
    }
    s->count = 0;
    for (int32_t i = 0; i >= 0; i = q.nodes[i].next)
        put(s, s->ids[i], s->sizes[i]);
}

// Writes the tokens of a text after those of cache->symbols, whose count stays as it is.
static struct symbols merge_text(const struct tokenizer *t, struct tokenizer_cache *cache,
                                 struct text part)
{
    struct symbols *all = &cache->symbols;
    struct symbols s = { all->ids + all->count, all->sizes + all->count, 0 };
    put_characters(t, &s, part);
    bool plain = t->byte_ranks && s.count == part.size;
    const char *bytes = plain ? part.at : NULL;
    if (t->merges.count && s.count > BPE_BYTES)
        merge_long(t, cache, &s, bytes);
    else if (t->merges.count && s.count > 1)
        merge_short(t, &s, bytes);
    return s;
}

// --- huge words --------------------------------------------------------------

// A symbol takes 28 bytes while it merges, so a word of 64 MiB would take 2 GiB. Such a word merges
// in windows, each from the end of a token of the one before it: of a window the tokens are kept
// but those near its end, which what follows may change.
//
//     window 1   the tok|ens of a h|uge wo|rd     kept up to "a h"
//     window 2                     |uge word| …
//
// Kept tokens and those of the next window are right together if the token before the border and
// the one after it, merged from their bytes, are again these two. For up to the first merge that
// crosses the border, all others are those of each side alone, and none crosses the outer borders
// of the two tokens: the pair that crosses would be the leftmost of the lowest rank among these two
// as well. If they are not these two, some kept tokens are dropped and the window grows, to the
// whole word in the end.
//
// That takes borders on both sides of which the first symbols are those of the whole word. Unknown
// characters that fuse are one symbol: the one at the end of a window, which may go on after it, is
// never kept, so no border is inside of it.
struct window {
    size_t from, bytes; // in the word
    size_t drops;       // tokens to drop if they do not fit
};

// Whether a character begins here. More than three continuing bytes are none of a character.
static bool is_border(struct text word, size_t at)
{
    size_t from = at;
    while (from > 0 && at - from < 4 && ((unsigned char)word.at[from] & 0xC0) == 0x80)
        from--;
    return at == word.size || from == at || at - from == 4;
}

// Whether a token that ends here and the next one are two tokens when they merge alone.
static bool fit(const struct tokenizer *t, struct tokenizer_cache *cache, struct text word,
                size_t at, uint32_t left, struct symbols next)
{
    struct text both = { word.at + at - left, left + next.sizes[0] };
    if (both.size > t->window)
        return false;
    size_t count = cache->symbols.count;
    cache->symbols.count += next.count;
    struct symbols s = merge_text(t, cache, both);
    cache->symbols.count = count;
    return s.count == 2 && s.sizes[0] == left;
}

// Drops the last tokens, and some more up to a border of characters. More of them the next time.
static void drop_kept(struct symbols *kept, struct text word, struct window *window)
{
    for (size_t i = 0; kept->count && (i < window->drops || !is_border(word, window->from)); i++)
        window->from -= kept->sizes[--kept->count];
    window->drops *= 2;
    window->bytes *= 2;
}

// Keeps the tokens of a window that end in its first 15/16. False if none does.
static bool keep_tokens(struct symbols *kept, struct text word, struct symbols s,
                        struct window *window)
{
    size_t limit = window->from + window->bytes / 16 * 15, at = window->from;
    size_t count = 0, from = window->from;
    for (size_t i = 0; i < s.count && at + s.sizes[i] <= limit; i++) {
        at += s.sizes[i];
        if (is_border(word, at)) {
            count = i + 1;
            window->from = at;
        }
    }
    kept->count += count;
    return window->from > from;
}

static void encode_huge(const struct tokenizer *t, struct tokenizer_cache *cache, struct text word)
{
    struct symbols *all = &cache->symbols;
    size_t before = all->count;
    struct symbols kept = { all->ids + before, all->sizes + before, 0 };
    struct window window = { 0, t->window, 1 };
    while (window.from < word.size) {
        size_t end = window.from + window.bytes;
        while (end < word.size && !is_border(word, end))
            end--;
        end = end < word.size ? end : word.size;
        struct text part = { word.at + window.from, end - window.from };
        all->count = before + kept.count;
        struct symbols s = merge_text(t, cache, part);
        if (kept.count && !fit(t, cache, word, window.from, kept.sizes[kept.count - 1], s)) {
            drop_kept(&kept, word, &window);
        } else if (end == word.size) {
            kept.count += s.count;
            break;
        } else if (!keep_tokens(&kept, word, s, &window)) {
            window.bytes *= 2; // a token as long as the window
        }
    }
    all->count = before + kept.count;
}

static void encode_part(const struct tokenizer *t, struct tokenizer_cache *cache, struct text part)
{
    if (t->window && part.size > t->window)
        encode_huge(t, cache, part);
    else
        cache->symbols.count += merge_text(t, cache, part).count;
}

void tokenizer_bpe(const struct tokenizer *t, struct tokenizer_cache *cache, struct text word,
                   bool whole)
{
    struct symbols *s = &cache->symbols;
    size_t room = word.size + 1 + (word.size > t->window ? t->window : 0); // where fit() merges
    s->ids = tokenizer_room(cache, &cache->symbol_ids, room * sizeof *s->ids);
    s->sizes = tokenizer_room(cache, &cache->symbol_sizes, room * sizeof *s->sizes);
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

// --- many short words --------------------------------------------------------

enum { LANES = 16 };

static void load(const struct tokenizer *t, struct lane *lane, const struct counted *words,
                 size_t index)
{
    struct text word = words[index].word;
    uint32_t sizes[PLACES];
    struct symbols s = { lane->ids + 1, sizes, 0 };
    lane->word = index;
    if (t->byte_ranks && is_ascii(word)) {
        for (size_t i = 0; i < word.size; i++)
            s.ids[i] = t->first_ids[(unsigned char)word.at[i]];
        begin(t, lane, word.size, word.at);
        return;
    }
    put_characters(t, &s, word);
    bool plain = t->byte_ranks && s.count == word.size;
    begin(t, lane, s.count, plain ? word.at : NULL);
}

// A merge waits for memory several times, and longer than it computes. So words merge side by side:
// each asks for its memory, and the others take a step in between.
void tokenizer_bpe_count(const struct tokenizer *t, struct counted *words, size_t count)
{
    struct lane lanes[LANES];
    size_t used = 0, next = 0;
    while (used < LANES && next < count)
        load(t, &lanes[used++], words, next++);
    while (used) {
        for (size_t i = 0; i < used;) {
            struct lane *lane = &lanes[i];
            if (choose(t, lane)) {
                i++;
                continue;
            }
            words[lane->word].tokens = lane->tokens;
            if (next < count)
                load(t, lane, words, next++);
            else if (i != --used)
                *lane = lanes[used];
        }
        for (size_t i = 0; i < used; i++)
            merge_lowest(t, &lanes[i]);
    }
}
