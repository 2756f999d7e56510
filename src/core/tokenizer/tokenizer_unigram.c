// SPDX-License-Identifier: Apache-2.0
// Unigram: the segmentation of a text into tokens with the highest sum of scores. Viterbi: from
// left to right, keeps the best segmentation up to each position, then follows it back from the
// end.

#include "core/tokenizer/tokenizer_internal.h"

#include <math.h>
#include <string.h>

// A trie over the tokens. Edges are in a hash table; the upper bits of a slot are the key
// (parent << 8 | byte) + 1, its lower 24 bits the child.
struct unigram {
    double *scores; // by id
    int32_t count;
    double unknown_score;
    bool single; // sums are rounded to single precision, as SentencePiece does: it decides ties
    uint64_t *edges;
    size_t mask;
    uint32_t node_count;
    int32_t *ids; // of the token that ends at a node, or -1
    size_t node_room;
    uint32_t roots[256];
};

enum { NODES = 1 << 24 };

static size_t slot_of(const struct unigram *u, uint64_t key)
{
    uint64_t hash = key * UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)(hash >> 32) & u->mask;
}

static uint32_t child(const struct unigram *u, uint32_t node, uint8_t byte)
{
    if (!node)
        return u->roots[byte];
    uint64_t key = ((uint64_t)node << 8 | byte) + 1;
    for (size_t at = slot_of(u, key); u->edges[at]; at = (at + 1) & u->mask)
        if (u->edges[at] >> 24 == key)
            return (uint32_t)(u->edges[at] & (NODES - 1));
    return 0;
}

static uint32_t new_node(struct unigram *u, struct arena *arena)
{
    if (u->node_count == u->node_room) {
        size_t room = u->node_room ? u->node_room * 2 : 65536;
        u->ids = arena_grow(arena, u->ids, u->node_room * sizeof *u->ids, room * sizeof *u->ids);
        u->node_room = room;
    }
    u->ids[u->node_count] = TOKENIZER_NONE;
    return u->node_count++;
}

static void put_edge(struct unigram *u, uint64_t edge)
{
    size_t at = slot_of(u, edge >> 24);
    while (u->edges[at])
        at = (at + 1) & u->mask;
    u->edges[at] = edge;
}

static uint32_t add_child(struct unigram *u, struct arena *arena, uint32_t node, uint8_t byte)
{
    uint32_t fresh = new_node(u, arena);
    if (!node) {
        u->roots[byte] = fresh;
        return fresh;
    }
    if ((size_t)u->node_count * 2 > u->mask) {
        uint64_t *old = u->edges;
        size_t slots = u->mask + 1;
        u->edges = ARENA_NEW(arena, uint64_t, slots * 2);
        u->mask = slots * 2 - 1;
        for (size_t i = 0; i < slots; i++)
            if (old[i])
                put_edge(u, old[i]);
    }
    put_edge(u, (((uint64_t)node << 8 | byte) + 1) << 24 | fresh);
    return fresh;
}

// --- reading -----------------------------------------------------------------

struct unigram *tokenizer_new_unigram(struct arena *arena)
{
    struct unigram *u = ARENA_NEW(arena, struct unigram, 1);
    u->mask = (1 << 18) - 1;
    u->edges = ARENA_NEW(arena, uint64_t, u->mask + 1);
    u->unknown_score = INFINITY;
    new_node(u, arena); // the root
    return u;
}

void tokenizer_single_unigram(struct unigram *u)
{
    u->single = true;
}

enum err tokenizer_add_unigram(struct tokenizer *t, struct arena *arena, struct text piece,
                               double score, bool occurs, const char *name)
{
    struct unigram *u = t->unigram;
    if (u->count == TOKENIZER_IDS || u->node_count + piece.size >= NODES)
        return fail(ERR_INPUT, "%s: the vocabulary is too large", name);
    if ((u->count & (u->count - 1)) == 0) // a power of two: the scores are full
        u->scores = arena_grow(arena, u->scores, (size_t)u->count * sizeof(double),
                               (u->count ? (size_t)u->count * 2 : 1) * sizeof(double));
    struct text token = { arena_copy(arena, piece.at, piece.size), piece.size };
    tokenizer_vocabulary_add(&t->vocabulary, arena, token, u->count);
    u->scores[u->count] = score;
    if (score < u->unknown_score)
        u->unknown_score = score;
    uint32_t node = 0;
    for (size_t i = 0; i < piece.size; i++) {
        uint8_t byte = (uint8_t)piece.at[i];
        uint32_t next = child(u, node, byte);
        node = next ? next : add_child(u, arena, node, byte);
    }
    if (piece.size && occurs)
        u->ids[node] = u->count;
    u->count++;
    t->size = u->count;
    return OK;
}

enum err tokenizer_read_unigram(struct tokenizer *t, struct arena *arena, struct json_reader *in,
                                const char *name)
{
    struct arena scratch = { 0 };
    enum err err = OK;
    t->unigram = tokenizer_new_unigram(arena);
    tokenizer_vocabulary_init(&t->vocabulary, arena, 1 << 15);
    json_array(in);
    while (!err && json_item(in)) {
        json_array(in);
        bool good = json_item(in);
        struct text piece = json_string(in, &scratch);
        good = good && json_item(in);
        double score = json_number(in);
        if (!good || json_item(in))
            json_failed(in, "expected a list of a token and its score");
        if (in->problem)
            break;
        err = tokenizer_add_unigram(t, arena, piece, score, true, name);
    }
    arena_release(&scratch);
    return err;
}

static double rounded(const struct unigram *u, double score)
{
    return u->single ? (float)score : score;
}

enum err tokenizer_finish_unigram(struct tokenizer *t, struct arena *arena, double unknown,
                                  const char *name)
{
    (void)arena;
    const double penalty = 10; // score of an unknown character, below the worst token
    if (!t->unigram->count)
        return fail(ERR_INPUT, "%s: the Unigram model has no tokens", name);
    if (unknown >= t->unigram->count || (unknown >= 0 && unknown != (double)(int32_t)unknown))
        return fail(ERR_INPUT, "%s: unk_id is %.17g, but there are %d tokens", name, unknown,
                    t->unigram->count);
    t->unknown = unknown >= 0 ? (int32_t)unknown : TOKENIZER_NONE;
    t->unigram->unknown_score -= penalty;
    t->unigram->unknown_score = rounded(t->unigram, t->unigram->unknown_score);
    t->fuses_unknown = true;
    return OK;
}

// --- encoding ----------------------------------------------------------------

struct best { // segmentation up to a position
    double score;
    uint32_t from;
    int32_t id;
};

// As in SentencePiece, a sum is rounded when it is kept, not when it is compared.
static void offer(const struct unigram *u, struct best *place, double score, size_t from,
                  int32_t id)
{
    if (place->id != INT32_MIN && score <= place->score)
        return;
    *place = (struct best){ rounded(u, score), (uint32_t)from, id };
}

static void fill(const struct unigram *u, int32_t unknown, struct text word, struct best *best)
{
    for (size_t i = 0; i <= word.size; i++)
        best[i] = (struct best){ 0, 0, INT32_MIN };
    for (const char *at = word.at, *end = at + word.size, *next; at < end; at = next) {
        size_t from = (size_t)(at - word.at);
        double score = best[from].score;
        bool whole = false; // there is a token for this character alone
        next = at;
        unicode_next(&next, end);
        uint32_t node = 0;
        for (const char *c = at; c < end; c++) {
            node = child(u, node, (uint8_t)*c);
            if (!node)
                break;
            int32_t id = u->ids[node];
            if (id < 0)
                continue;
            offer(u, &best[c + 1 - word.at], score + u->scores[id], from, id);
            whole |= c + 1 == next;
        }
        if (!whole)
            offer(u, &best[next - word.at], rounded(u, score + u->unknown_score), from, unknown);
    }
}

// Writes the tokens of unknown bytes; backwards, as the segmentation is followed.
static void put_unknown(const struct tokenizer *t, struct symbols *s, struct text piece)
{
    bool falls_back = t->byte_fallback;
    for (size_t i = 0; i < piece.size; i++)
        falls_back = falls_back && t->byte_ids[(unsigned char)piece.at[i]] >= 0;
    if (falls_back) {
        for (size_t i = piece.size; i-- > 0;) {
            s->ids[s->count] = t->byte_ids[(unsigned char)piece.at[i]];
            s->sizes[s->count++] = 1;
        }
        return;
    }
    int32_t id = tokenizer_vocabulary_find(&t->vocabulary, piece);
    if (id < 0)
        id = t->unknown;
    if (id < 0)
        return;
    s->ids[s->count] = id;
    s->sizes[s->count++] = (uint32_t)piece.size;
}

static void reverse(struct symbols *s)
{
    for (size_t i = 0, j = s->count; i + 1 < j; i++) {
        j--;
        int32_t id = s->ids[i];
        uint32_t size = s->sizes[i];
        s->ids[i] = s->ids[j];
        s->sizes[i] = s->sizes[j];
        s->ids[j] = id;
        s->sizes[j] = size;
    }
}

void tokenizer_unigram(const struct tokenizer *t, struct tokenizer_cache *cache, struct text word)
{
    struct symbols *s = &cache->symbols;
    s->ids = tokenizer_room(cache, &cache->symbol_ids, (word.size + 1) * sizeof *s->ids);
    s->sizes = tokenizer_room(cache, &cache->symbol_sizes, (word.size + 1) * sizeof *s->sizes);
    struct best *best = tokenizer_room(cache, &cache->lattice, (word.size + 1) * sizeof *best);
    int32_t unknown = t->unknown >= 0 ? t->unknown : TOKENIZER_NONE;
    s->count = 0;
    fill(t->unigram, unknown, word, best);
    size_t unknown_end = 0; // end of a run of unknown characters; 0 if there is none
    for (size_t at = word.size; at > 0;) {
        const struct best *way = &best[at];
        size_t from = way->from;
        if (way->id == unknown) {
            if (!unknown_end)
                unknown_end = at;
            if (from == 0)
                put_unknown(t, s, (struct text){ word.at, unknown_end });
        } else {
            if (unknown_end)
                put_unknown(t, s, (struct text){ word.at + at, unknown_end - at });
            unknown_end = 0;
            s->ids[s->count] = way->id;
            s->sizes[s->count++] = (uint32_t)(at - from);
        }
        at = from;
    }
    reverse(s);
}
