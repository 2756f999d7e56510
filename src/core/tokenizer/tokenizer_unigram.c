// SPDX-License-Identifier: Apache-2.0
// Unigram: the segmentation of a text into tokens with the highest sum of scores. Viterbi: from
// left to right, keeps the best segmentation up to each position, then follows it back from the
// end. A long text is not one word: it goes through a window, and what all ways to go on have in
// common is decided.
//
//        start        decided          first               limit
//          |-------------|---------------|------------------|      first = limit - longest token
//                        ^ . . . . . . . the best ways to all positions between first and limit
//                          meet here     meet, followed back, in one place: no later token starts
//                                        before `first`, so all that is before that place stays

#include "core/tokenizer/tokenizer_internal.h"

#include <math.h>
#include <string.h>

// A trie over the tokens. Edges are in a hash table; the upper bits of a slot are the key
// (parent << 8 | byte) + 1, its lower 24 bits the child.
struct unigram {
    double *scores; // by id
    int32_t count;
    size_t longest; // bytes of a token, or of a character
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
    u->ids = arena_room(arena, u->ids, sizeof *u->ids, u->node_count, &u->node_room);
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
    u->longest = 4;
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
    if (piece.size > u->longest)
        u->longest = piece.size;
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

// What is left of a text, and the best segmentations up to its first positions.
struct lattice {
    const struct unigram *u;
    int32_t unknown;
    struct text text;
    size_t limit; // tokens that start before this position are in
    struct best *best;
    size_t before; // unknown bytes just before the text: runs of them are one token
};

static void fill(const struct lattice *l, double score)
{
    const struct unigram *u = l->u;
    struct best *best = l->best;
    size_t reach = l->limit + u->longest < l->text.size ? l->limit + u->longest : l->text.size;
    for (size_t i = 0; i <= reach; i++)
        best[i] = (struct best){ 0, 0, INT32_MIN };
    best[0].score = score;
    const char *limit = l->text.at + l->limit, *end = l->text.at + l->text.size;
    for (const char *at = l->text.at, *next; at < limit; at = next) {
        size_t from = (size_t)(at - l->text.at);
        score = best[from].score;
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
            offer(u, &best[c + 1 - l->text.at], score + u->scores[id], from, id);
            whole |= c + 1 == next;
        }
        if (!whole)
            offer(u, &best[next - l->text.at], rounded(u, score + u->unknown_score), from,
                  l->unknown);
    }
}

static size_t common(const struct best *best, size_t a, size_t b)
{
    while (a != b)
        if (a > b)
            a = best[a].from;
        else
            b = best[b].from;
    return a;
}

// Up to where the segmentation is decided; 0: the window is too small to tell.
static size_t decided(const struct lattice *l)
{
    if (l->limit == l->text.size)
        return l->limit;
    if (l->limit <= l->u->longest)
        return 0;
    size_t place = SIZE_MAX;
    for (size_t i = l->limit - l->u->longest; i < l->limit; i++)
        if (l->best[i].id != INT32_MIN)
            place = place != SIZE_MAX ? common(l->best, place, i) : i;
    return place;
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

static void reverse(struct symbols *s, size_t first)
{
    for (size_t i = first, j = s->count; i + 1 < j; i++) {
        j--;
        int32_t id = s->ids[i];
        uint32_t size = s->sizes[i];
        s->ids[i] = s->ids[j];
        s->sizes[i] = s->sizes[j];
        s->ids[j] = id;
        s->sizes[j] = size;
    }
}

// Where the run of unknown characters that ends here starts.
static size_t known_end(const struct lattice *l, size_t at)
{
    while (at && l->best[at].id == l->unknown)
        at = l->best[at].from;
    return at;
}

// Adds the tokens of the best segmentation up to `end`, and goes on there. A run of unknown
// characters at the end of a window may be longer: it waits.
static void follow(const struct tokenizer *t, struct symbols *s, struct lattice *l, size_t end)
{
    size_t first = s->count, start;
    size_t stop = end == l->text.size ? end : known_end(l, end);
    size_t waits = stop ? 0 : l->before;
    for (size_t at = stop; at > 0; at = start) {
        start = known_end(l, at);
        size_t before = start ? 0 : l->before; // the run began in front of the text
        if (start < at) {
            put_unknown(t, s, (struct text){ l->text.at + start - before, at - start + before });
            l->before -= before;
            continue;
        }
        start = l->best[at].from;
        s->ids[s->count] = l->best[at].id;
        s->sizes[s->count++] = (uint32_t)(at - start);
    }
    if (stop && l->before)
        put_unknown(t, s, (struct text){ l->text.at - l->before, l->before });
    reverse(s, first);
    l->before = waits + end - stop;
    l->text = (struct text){ l->text.at + end, l->text.size - end };
}

void tokenizer_unigram(const struct tokenizer *t, struct tokenizer_cache *cache, struct text word)
{
    enum { WINDOW = 1 << 16 };
    struct symbols *s = &cache->symbols;
    s->ids = tokenizer_room(cache, &cache->symbol_ids, (word.size + 1) * sizeof *s->ids);
    s->sizes = tokenizer_room(cache, &cache->symbol_sizes, (word.size + 1) * sizeof *s->sizes);
    s->count = 0;
    struct lattice l = { .u = t->unigram,
                         .unknown = t->unknown >= 0 ? t->unknown : TOKENIZER_NONE,
                         .text = word };
    double score = 0; // of all that is decided: it takes part in the rounding of sums
    for (size_t window = WINDOW; l.text.size;) {
        l.limit = l.text.size < window ? l.text.size : window;
        size_t room = l.text.size - l.limit < l.u->longest ? l.text.size : l.limit + l.u->longest;
        l.best = tokenizer_room(cache, &cache->lattice, (room + 1) * sizeof *l.best);
        fill(&l, score);
        size_t end = decided(&l);
        window = end ? WINDOW : 2 * window;
        if (!end)
            continue;
        score = l.best[end].score;
        follow(t, s, &l, end);
    }
}
