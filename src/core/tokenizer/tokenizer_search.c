// SPDX-License-Identifier: Apache-2.0
// Finds the tokens of a word from the longest ones down, instead of merging its bytes pair by pair.
//
// Byte-pair encoding is decided between neighbours. Call two tokens steady side by side if encoding
// their joined text gives just these two. Then the tokens of a word are the only tokens, one after
// the other, of which all neighbours are steady:
//
//   - Merges inside two neighbours of a result happen in the same order whether the rest of the
//     word is there or not, because none crosses to the rest. So neighbours of a result are steady.
//   - The first merge across a border between steady tokens would be the lowest of all pairs, so
//     also the lowest of its two tokens alone, which would then not be steady.
//
// A search takes the longest token that is steady after the one before, and goes back where none
// is. A place reached and found to lead nowhere is never tried again: the tokens up to a place are
// unique. Most words are one to four tokens, so this is a few steps where merging takes one for
// each byte.
//
// Whether two tokens are steady is read off their trees, the merges that make them. In each tree
// the pairs merge in the order of their ranks, so going back in time the later of the two symbols
// at the border comes apart, again and again; if at some time the two symbols at the border had a
// merge that came before what really happened, the tokens are not steady:
//
//     low er        low = lo + w, rank 12; er = e + r, rank 3
//     low | er      no merge
//     w   | er      before rank 12 took w: no merge
//     w   | e       before rank 3 took e: w + e has rank 40, which is later. Steady.
//
// All tables are larger than the processor's cache, and a wait for memory takes longer than a step.
// So words are searched side by side: each step asks for the memory of the next one, and the other
// words take a step in between.
//
// A token whose parts have higher ranks than itself (vocabularies with a merge for every way to
// cut a token have some) has no such tree: a word that may contain it is merged as usual.

#include "core/tokenizer/tokenizer_internal.h"

#include <assert.h>
#include <string.h>

// A tree is the last merge of a token's own text: left, right and time, 21 bits each. The time is 0
// for a byte or a character, else the rank plus one.
#define NEVER UINT64_MAX        // merges never make the token
#define UNSURE (UINT64_MAX - 1) // they may, in another order
enum { TREE_BITS = 21, INLINE = 16 };
static_assert(TOKENIZER_IDS <= 1 << TREE_BITS, "three numbers fit into a tree");

// A token by its text: all of it, or the hash of one longer than INLINE bytes.
struct leaf {
    uint64_t low, high;
    int32_t id;
    uint32_t size; // 0: the slot is empty
    uint64_t tree;
};

struct trees {
    uint64_t *at;     // by token
    uint64_t *filter; // bits, by hash of the text
    int shift;
    struct leaf *leaves;
    size_t mask;
};

// --- trees -------------------------------------------------------------------

static uint64_t make_tree(int32_t left, int32_t right, uint32_t time)
{
    return (uint64_t)time << 2 * TREE_BITS | (uint64_t)(uint32_t)left << TREE_BITS |
           (uint32_t)right;
}

static int32_t left_of(uint64_t tree)
{
    return (int32_t)(tree >> TREE_BITS & (TOKENIZER_IDS - 1));
}

static int32_t right_of(uint64_t tree)
{
    return (int32_t)(tree & (TOKENIZER_IDS - 1));
}

static uint32_t time_of(uint64_t tree)
{
    return (uint32_t)(tree >> 2 * TREE_BITS);
}

// Goes back in time by one merge at the border of a and b: the later of the two comes apart. Of
// equal merges the leftmost comes first: that inside a before the one at the border, and this
// before that inside b. False if both are bytes or characters.
static inline bool step_back(const uint64_t *trees, int32_t *a, int32_t *b, uint32_t *limit)
{
    uint64_t left = trees[*a], right = trees[*b];
    if (time_of(left) > time_of(right)) {
        *limit = time_of(left);
        *a = right_of(left);
    } else if (time_of(right)) {
        *limit = time_of(right) + 1;
        *b = left_of(right);
    } else {
        return false;
    }
    return true;
}

// Whether the two merge before the limit. Hot merges have a small table of their own.
static inline bool merges_before(const struct tokenizer *t, int32_t a, int32_t b, uint32_t limit)
{
    if (limit <= TOKENIZER_HOT) {
        uint32_t rank = tokenizer_merges_rank(&t->hot, a, b);
        return rank != TOKENIZER_NO_RANK && rank + 1 < limit;
    }
    if (!tokenizer_merges_may(&t->merges, a, b))
        return false;
    uint32_t rank = tokenizer_merges_rank(&t->merges, a, b);
    return rank != TOKENIZER_NO_RANK && rank + 1 < limit;
}

// True if a merge crosses the border of a and b before they are made.
static bool crosses(const struct tokenizer *t, int32_t a, int32_t b)
{
    for (uint32_t limit; step_back(t->trees->at, &a, &b, &limit);)
        if (merges_before(t, a, b, limit))
            return true;
    return false;
}

static bool has_tree(const struct trees *trees, int32_t id)
{
    return trees->at[id] < UNSURE;
}

// Bytes, or characters, are the symbols that words begin with.
static void plant(const struct tokenizer *t, struct trees *trees)
{
    for (int32_t id = 0; id < t->vocabulary.size; id++) {
        struct text token = t->vocabulary.tokens[id];
        const char *at = token.at, *end = at + token.size;
        if (token.size && !t->byte_level)
            unicode_next(&at, end);
        bool first = token.size && !t->byte_level && at == end;
        trees->at[id] = first ? make_tree(id, id, 0) : NEVER;
    }
    for (int byte = 0; t->byte_level && byte < 256; byte++)
        trees->at[t->byte_ids[byte]] = make_tree(t->byte_ids[byte], t->byte_ids[byte], 0);
}

// Merges in the order of their ranks, so that the parts of a token come before it.
static void grow(const struct tokenizer *t, struct trees *trees, struct arena *scratch)
{
    struct merge *list = tokenizer_merges_list(&t->merges, scratch);
    struct merge *late = ARENA_NEW(scratch, struct merge, t->merges.used);
    size_t late_count = 0;
    for (size_t i = 0; i < t->merges.used; i++) {
        struct merge merge = list[i];
        if (has_tree(trees, merge.whole))
            continue;
        if (!has_tree(trees, merge.left) || !has_tree(trees, merge.right))
            late[late_count++] = merge;
        else if (!crosses(t, merge.left, merge.right))
            trees->at[merge.whole] = make_tree(merge.left, merge.right, merge.rank + 1);
    }
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < late_count; i++) {
            uint64_t *whole = &trees->at[late[i].whole];
            if (*whole == NEVER && trees->at[late[i].left] != NEVER &&
                trees->at[late[i].right] != NEVER) {
                *whole = UNSURE;
                more = true;
            }
        }
    }
}

// --- texts of tokens ---------------------------------------------------------

static inline uint64_t hash_byte(uint64_t hash, char byte)
{
    return (hash ^ (unsigned char)byte) * UINT64_C(0x9E3779B97F4A7C15);
}

// at has INLINE readable bytes.
static inline struct leaf leaf_of(const char *at, size_t size)
{
    struct leaf leaf = { .size = (uint32_t)size };
    if (size > INLINE) {
        leaf.low = tokenizer_hash(at, size);
        return leaf;
    }
    memcpy(&leaf.low, at, 8);
    memcpy(&leaf.high, at + 8, 8);
    leaf.low &= size < 8 ? (UINT64_C(1) << 8 * size) - 1 : UINT64_MAX;
    leaf.high &= size <= 8 ? 0 : UINT64_MAX >> 8 * (16 - size);
    return leaf;
}

static inline size_t slot_of(const struct trees *trees, const struct leaf *leaf)
{
    uint64_t hash = leaf->low * UINT64_C(0x9E3779B97F4A7C15) ^
                    (leaf->high + leaf->size) * UINT64_C(0xC2B2AE3D27D4EB4F);
    return (size_t)(hash >> 32 ^ hash >> 17) & trees->mask;
}

static const struct leaf *find_leaf(const struct tokenizer *t, const char *at, size_t size)
{
    struct leaf key = leaf_of(at, size);
    for (size_t slot = slot_of(t->trees, &key);; slot = (slot + 1) & t->trees->mask) {
        const struct leaf *leaf = &t->trees->leaves[slot];
        if (leaf->low == key.low && leaf->high == key.high && leaf->size == key.size &&
            (size <= INLINE || !memcmp(t->vocabulary.tokens[leaf->id].at, at, size)))
            return leaf;
        if (!leaf->size)
            return NULL;
    }
}

static void add_leaf(struct trees *trees, struct text token, int32_t id)
{
    char bytes[SEARCH_BYTES + INLINE] = { 0 };
    memcpy(bytes, token.at, token.size);
    struct leaf leaf = leaf_of(bytes, token.size);
    leaf.id = id;
    leaf.tree = trees->at[id];
    size_t slot = slot_of(trees, &leaf);
    while (trees->leaves[slot].size)
        slot = (slot + 1) & trees->mask;
    trees->leaves[slot] = leaf;
    uint64_t hash = 0;
    for (size_t i = 0; i < token.size; i++)
        hash = hash_byte(hash, token.at[i]);
    hash >>= trees->shift;
    trees->filter[hash / 64] |= UINT64_C(1) << hash % 64;
}

static void add_leaves(const struct tokenizer *t, struct trees *trees, struct arena *arena)
{
    size_t slots = 1024;
    while (slots < (size_t)t->vocabulary.count * 2)
        slots *= 2;
    trees->mask = slots - 1;
    trees->leaves = ARENA_NEW(arena, struct leaf, slots);
    trees->filter = ARENA_NEW(arena, uint64_t, slots * 8 / 64);
    trees->shift = 64 - 3 - __builtin_ctzll(slots);
    for (int32_t id = 0; id < t->vocabulary.size; id++) {
        struct text token = t->vocabulary.tokens[id];
        bool made = trees->at[id] != NEVER || t->ignores_merges; // these look up whole words
        if (token.size && token.size <= SEARCH_BYTES && made)
            add_leaf(trees, token, id);
    }
}

void tokenizer_choose_search(struct tokenizer *t, struct arena *arena)
{
    if (t->model != MODEL_BPE || !t->merges.count || t->suffix.size || t->continuing.size)
        return;
    for (int byte = 0; t->byte_level && byte < 256; byte++)
        if (t->byte_ids[byte] < 0)
            return;
    struct arena scratch = { 0 };
    t->trees = ARENA_NEW(arena, struct trees, 1);
    t->trees->at = ARENA_NEW(arena, uint64_t, (size_t)t->vocabulary.size);
    plant(t, t->trees);
    grow(t, t->trees, &scratch);
    add_leaves(t, t->trees, arena);
    arena_release(&scratch);
}

// --- a word ------------------------------------------------------------------

// Bit n - 1: the first n bytes may be a token.
static uint64_t sizes_at(const struct trees *trees, const char *at, size_t size)
{
    uint64_t hash = 0, sizes = 0;
    for (size_t i = 0; i < size; i++) {
        hash = hash_byte(hash, at[i]);
        uint64_t bit = hash >> trees->shift;
        sizes |= (trees->filter[bit / 64] >> bit % 64 & 1) << i;
    }
    return sizes;
}

// Goes back while nothing is left to try, and asks for the memory of the next try.
static void choose(const struct trees *trees, struct search *s)
{
    for (;;) {
        size_t start = s->starts[s->depth];
        uint64_t left = s->left[s->depth];
        if (start + 1 < SEARCH_BYTES)
            left &= ~(s->dead >> (start + 1));
        s->left[s->depth] = left;
        s->state = SEARCH_GOES_ON;
        if (left) {
            size_t size = 64 - (size_t)__builtin_clzll(left);
            struct leaf key = leaf_of(s->bytes + start, size);
            __builtin_prefetch(&trees->leaves[slot_of(trees, &key)]);
            return;
        }
        if (!s->depth) {
            s->state = SEARCH_LOST;
            return;
        }
        s->dead |= UINT64_C(1) << start;
        s->depth--;
    }
}

static void open_place(const struct trees *trees, struct search *s)
{
    size_t start = s->starts[s->depth];
    s->left[s->depth] = sizes_at(trees, s->bytes + start, s->size - start);
    choose(trees, s);
}

void tokenizer_search_begin(const struct tokenizer *t, struct search *s, struct text word,
                            bool whole)
{
    assert(word.size && word.size <= SEARCH_BYTES);
    memcpy(s->bytes, word.at, word.size);
    s->size = (uint32_t)word.size;
    s->whole = whole && t->ignores_merges;
    s->dead = 0;
    s->depth = 0;
    s->starts[0] = 0;
    open_place(t->trees, s);
}

static bool fits(const struct tokenizer *t, const struct search *s, const struct leaf *leaf)
{
    if (s->whole && leaf->size == s->size)
        return true;
    if (leaf->tree == NEVER || !s->depth)
        return leaf->tree != NEVER;
    int32_t before = s->ids[s->depth - 1];
    return !merges_before(t, before, leaf->id, UINT32_MAX) && !crosses(t, before, leaf->id);
}

void tokenizer_search_step(const struct tokenizer *t, struct search *s)
{
    size_t start = s->starts[s->depth];
    size_t size = 64 - (size_t)__builtin_clzll(s->left[s->depth]);
    s->left[s->depth] &= ~(UINT64_C(1) << (size - 1));
    const struct leaf *leaf = find_leaf(t, s->bytes + start, size);
    if (leaf && leaf->tree == UNSURE && !(s->whole && size == s->size)) {
        s->state = SEARCH_LOST;
    } else if (!leaf || !fits(t, s, leaf)) {
        choose(t->trees, s);
    } else {
        s->ids[s->depth++] = leaf->id;
        s->starts[s->depth] = (uint8_t)(start + size);
        if (start + size == s->size)
            s->state = SEARCH_FOUND;
        else
            open_place(t->trees, s);
    }
}

bool tokenizer_search(const struct tokenizer *t, struct symbols *s, struct text word)
{
    struct search search;
    tokenizer_search_begin(t, &search, word, false);
    while (search.state == SEARCH_GOES_ON)
        tokenizer_search_step(t, &search);
    if (search.state == SEARCH_LOST)
        return false;
    s->count = search.depth;
    for (size_t i = 0; i < s->count; i++) {
        s->ids[i] = search.ids[i];
        s->sizes[i] = (uint32_t)(search.starts[i + 1] - search.starts[i]);
    }
    return true;
}
