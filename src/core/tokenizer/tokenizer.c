// SPDX-License-Identifier: Apache-2.0
// Runs the stages of a tokenizer over a text, to count its tokens or to list them with their
// places.

#include "core/tokenizer/tokenizer_internal.h"

#include <string.h>

// A text while it is tokenized.
struct run {
    const struct tokenizer *t;
    struct tokenizer_cache *cache;
    struct text text;
    struct tokens *out; // NULL if only counting
    int64_t *count;
    const struct tokenizer_span *spans; // bytes whose tokens are counted in `within`; the next ones
    size_t span_count;
    int64_t within;       // part of count
    const char *base;     // words of cache->batch that are not counted yet begin here
    size_t pending;       // their number
    struct tokens *moved; // if spans are counted in normalized text: receives the tokens of which
                          // places must be computed
};

// --- output ------------------------------------------------------------------

static void reserve(struct tokens *out, size_t more)
{
    if (out->count + more <= out->room)
        return;
    size_t room = out->room ? out->room * 2 : 256;
    while (room < out->count + more)
        room *= 2;
    out->ids =
        arena_grow(out->arena, out->ids, out->room * sizeof *out->ids, room * sizeof *out->ids);
    if (out->places) {
        out->starts = arena_grow(out->arena, out->starts, out->room * sizeof *out->starts,
                                 room * sizeof *out->starts);
        out->ends = arena_grow(out->arena, out->ends, out->room * sizeof *out->ends,
                               room * sizeof *out->ends);
    }
    out->room = room;
}

// Skips spans that are empty or end before `start`; true if the next one begins before `end`.
static bool reaches(struct run *run, size_t start, size_t end)
{
    while (run->span_count && (run->spans->end <= start || run->spans->end <= run->spans->start)) {
        run->spans++;
        run->span_count--;
    }
    return run->span_count && run->spans->start < end;
}

static void put_token(struct run *run, int32_t id, size_t start, size_t end)
{
    ++*run->count;
    if (run->span_count && end > start)
        run->within += reaches(run, start, end);
    if (!run->out)
        return;
    reserve(run->out, 1);
    if (run->out->places) {
        run->out->starts[run->out->count] = (uint32_t)start;
        run->out->ends[run->out->count] = (uint32_t)end;
    }
    run->out->ids[run->out->count++] = id;
}

// --- places ------------------------------------------------------------------

static bool continues(struct text text, size_t at)
{
    return at < text.size && (text.at[at] & 0xC0) == 0x80;
}

// The character of the original text that byte `at` of the stretch came from.
static size_t start_of(const struct run *run, const struct stretch *stretch, size_t at)
{
    if (stretch->origin)
        return stretch->origin[at];
    at += stretch->start;
    for (int back = 0; back < 3 && at > stretch->start && continues(run->text, at); back++)
        at--;
    return at;
}

static size_t end_of(const struct run *run, const struct stretch *stretch, size_t at)
{
    const char *next = run->text.at + start_of(run, stretch, at);
    unicode_next(&next, run->text.at + run->text.size);
    size_t end = (size_t)(next - run->text.at);
    return stretch->origin || end > stretch->start + at ? end : stretch->start + at + 1;
}

// Removes the blanks at both ends of a token from its place; the first token keeps the prepended
// one.
static void trim(const struct run *run, struct text token, const char *blanks, size_t *start,
                 size_t *end)
{
    size_t left = 0, right = 0;
    while (left < token.size && token.at[left] && strchr(blanks, token.at[left]))
        left++;
    while (right < token.size && token.at[token.size - 1 - right] &&
           strchr(blanks, token.at[token.size - 1 - right]))
        right++;
    if (*start == 0 && left == 1 && run->t->keeps_first_space)
        left = 0;
    const char *at = run->text.at + *start, *stop = run->text.at + *end;
    for (; left && at < stop; left--)
        unicode_next(&at, stop);
    for (; right && stop > at; right--) {
        char bytes[UNICODE_BYTES];
        stop -= unicode_put(bytes, unicode_before(at, stop));
    }
    *start = (size_t)(at - run->text.at);
    *end = (size_t)(stop - run->text.at);
}

// Whether places are trimmed: not while tokens inside spans are counted, because a token of blanks
// alone is inside, too.
static bool trims(const struct run *run)
{
    return run->t->trims_places && !run->spans;
}

static void put_added(struct run *run, int32_t id, size_t start, size_t end)
{
    if (trims(run))
        trim(run, tokenizer_token(run->t, id), " \t\n\v\f\r", &start, &end);
    put_token(run, id, start, end);
}

// --- words -------------------------------------------------------------------

// The number of bytes at `at` that spell the token; 0 if they do not.
static uint32_t spelled(const struct tokenizer *t, const char *at, const char *end, int32_t id)
{
    struct text token = t->vocabulary.tokens[id];
    const char *start = at, *byte = token.at, *stop = byte + token.size;
    if (!t->reads_spaces)
        return (uint32_t)token.size;
    for (; byte < stop && at < end; at++) {
        bool space = *at == ' ' && stop - byte > 2 && !memcmp(byte, TOKENIZER_MARK, 3);
        if (!space && *at != *byte)
            return 0;
        byte += space ? 3 : 1;
    }
    return byte < stop ? 0 : (uint32_t)(at - start);
}

// The tokens of a word; cached if there are few and their texts spell it.
static void find_ids(struct run *run, struct text word)
{
    const struct tokenizer *t = run->t;
    struct tokenizer_cache *cache = run->cache;
    const char *at = word.at, *end = at + word.size;
    if (word.size > WORD_BYTES) {
        tokenizer_model(t, cache, word);
        return;
    }
    if (!cache->ids)
        cache->ids = ARENA_NEW(&cache->arena, struct id_entry, ID_SLOTS);
    struct id_entry key = { 0 };
    char bytes[16] = { 0 };
    memcpy(bytes, word.at, word.size);
    memcpy(&key.low, bytes, 8);
    memcpy(&key.high, bytes + 8, 8);
    key.high |= (uint64_t)word.size << 48;
    uint64_t hash =
        key.low * UINT64_C(0x9E3779B97F4A7C15) ^ key.high * UINT64_C(0xC2B2AE3D27D4EB4F);
    struct id_entry *slot = &cache->ids[(hash ^ hash >> 32) & (ID_SLOTS - 1)];
    struct symbols *s = &cache->symbols;
    if (slot->low == key.low && !((slot->high ^ key.high) << 8)) {
        s->count = slot->high >> 56;
        s->ids = tokenizer_room(cache, &cache->symbol_ids, WORD_IDS * sizeof *s->ids);
        s->sizes = tokenizer_room(cache, &cache->symbol_sizes, WORD_IDS * sizeof *s->sizes);
        memcpy(s->ids, slot->ids, sizeof slot->ids);
        for (size_t i = 0; i < s->count; at += s->sizes[i++])
            s->sizes[i] = spelled(t, at, end, s->ids[i]);
        return;
    }
    tokenizer_model(t, cache, word);
    if (s->count > WORD_IDS)
        return;
    for (size_t i = 0; i < s->count; at += s->sizes[i++])
        if (s->sizes[i] != spelled(t, at, end, s->ids[i]))
            return;
    memcpy(key.ids, s->ids, s->count * sizeof *s->ids);
    key.high |= (uint64_t)s->count << 56;
    *slot = key;
}

static void put_word(struct run *run, const struct stretch *stretch, struct text word, size_t at)
{
    find_ids(run, word);
    const struct symbols *s = &run->cache->symbols;
    if (!run->out->places) {
        reserve(run->out, s->count);
        if (s->count)
            memcpy(run->out->ids + run->out->count, s->ids, s->count * sizeof *s->ids);
        run->out->count += s->count;
        *run->count += (int64_t)s->count;
        return;
    }
    for (size_t i = 0; i < s->count; i++) {
        size_t size = s->sizes[i];
        size_t start = start_of(run, stretch, at), end = start;
        if (size)
            end = end_of(run, stretch, at + size - 1);
        if (trims(run))
            trim(run, run->t->vocabulary.tokens[s->ids[i]], " ", &start, &end);
        put_token(run, s->ids[i], start, end);
        at += size;
    }
}

// Counts a word in which a span begins or ends, token by token.
static void count_divided(struct run *run, struct text word, size_t at)
{
    find_ids(run, word);
    const struct symbols *s = &run->cache->symbols;
    for (size_t i = 0; i < s->count; at += s->sizes[i++])
        run->within += reaches(run, at, at + s->sizes[i]);
    *run->count += (int64_t)s->count;
}

// Counts words that are bytes of the original text: whole words inside a span, whole words outside,
// and words that a span cuts.
static void count_within(struct run *run, struct text text, const struct span *words, size_t count)
{
    size_t offset = (size_t)(text.at - run->text.at);
    for (size_t i = 0, first; i < count;) {
        first = i;
        size_t start = offset + words[i].start, end = offset + words[i].end;
        bool touched = reaches(run, start, end);
        size_t border = !run->span_count ? SIZE_MAX : touched ? run->spans->end : run->spans->start;
        if (end > border || (touched && run->spans->start > start)) {
            struct text word = { text.at + words[i].start, words[i].end - words[i].start };
            count_divided(run, word, start);
            i++;
            continue;
        }
        if (offset + words[count - 1].end <= border)
            i = count;
        while (i < count && offset + words[i].end <= border)
            i++;
        int64_t tokens = 0;
        tokenizer_count_words(run->t, run->cache, text, words + first, i - first, &tokens);
        tokenizer_count_waiting(run->t, run->cache);
        *run->count += tokens;
        run->within += touched ? tokens : 0;
    }
}

static void put_words(struct run *run, const struct stretch *stretch, const char *base,
                      const struct span *spans, size_t count)
{
    const char *end = stretch->text.at + stretch->text.size;
    if (!run->out && run->span_count) {
        count_within(run, (struct text){ base, (size_t)(end - base) }, spans, count);
        return;
    }
    if (!run->out) {
        tokenizer_count_words(run->t, run->cache, (struct text){ base, (size_t)(end - base) },
                              spans, count, run->count);
        return;
    }
    for (size_t i = 0; i < count; i++)
        put_word(run, stretch,
                 (struct text){ base + spans[i].start, spans[i].end - spans[i].start },
                 (size_t)(base - stretch->text.at) + spans[i].start);
}

static bool keeps_places(const struct run *run)
{
    return (run->out && run->out->places) || run->t->needs_places;
}

static void count_pending(struct run *run)
{
    if (!run->pending)
        return;
    struct text rest = { run->base, (size_t)(run->text.at + run->text.size - run->base) };
    tokenizer_count_words(run->t, run->cache, rest, run->cache->batch, run->pending, run->count);
    run->pending = 0;
}

// Words of the original text wait until a batch of them is full: code of some models is a stretch
// for each line.
static void collect_words(struct run *run, const char *at, const char *end)
{
    while (at < end) {
        if (TOKENIZER_BATCH - run->pending < SCAN_ROOM ||
            (run->pending && at - run->base > INT32_MAX))
            count_pending(run);
        run->base = run->pending ? run->base : at;
        run->pending +=
            tokenizer_scan(run->t, run->cache, run->base, &at, end,
                           run->cache->batch + run->pending, TOKENIZER_BATCH - run->pending);
    }
}

static void run_words(struct run *run, struct stretch stretch)
{
    if (!stretch.text.size)
        return;
    if (!run->t->scan) {
        struct span *spans;
        size_t count = tokenizer_split(run->t, run->cache, &stretch, keeps_places(run), &spans);
        for (size_t i = 0; i < count; i += TOKENIZER_BATCH)
            put_words(run, &stretch, stretch.text.at, spans + i,
                      count - i < TOKENIZER_BATCH ? count - i : TOKENIZER_BATCH);
        return;
    }
    const char *at = stretch.text.at, *end = at + stretch.text.size;
    run->cache->next_number = NULL;
    if (!run->out && !run->span_count && at == run->text.at + stretch.start) {
        collect_words(run, at, end);
        return;
    }
    count_pending(run);
    while (at < end) {
        const char *base = at;
        size_t count =
            tokenizer_scan(run->t, run->cache, base, &at, end, run->cache->batch, TOKENIZER_BATCH);
        put_words(run, &stretch, base, run->cache->batch, count);
    }
}

// --- stretches ---------------------------------------------------------------

static struct stretch part_of(struct stretch whole, size_t start, size_t stop)
{
    whole.text = (struct text){ whole.text.at + start, stop - start };
    whole.origin = whole.origin ? whole.origin + start : NULL;
    whole.start += start;
    return whole;
}

static void run_normal(struct run *run, struct stretch stretch)
{
    size_t at = 0, from = 0;
    struct match match;
    while (tokenizer_added_next(&run->t->normal, stretch.text, &at, from, &match)) {
        if (match.start > from)
            run_words(run, part_of(stretch, from, match.start));
        if (run->out)
            put_added(run, match.id, start_of(run, &stretch, match.start),
                      end_of(run, &stretch, match.stop - 1));
        else
            ++*run->count;
        from = match.stop;
    }
    run_words(run, part_of(stretch, from, stretch.text.size));
}

// The spans that reach a stretch, as bytes of the text with a space before it. The space belongs to
// the first character.
static struct tokenizer_span *shift_spans(struct run *run, const struct stretch *stretch,
                                          size_t *count)
{
    size_t start = stretch->start, stop = start + stretch->text.size, used = 0;
    while (used < run->span_count && run->spans[used].start < stop)
        used++;
    struct tokenizer_span *spans = ARENA_NEW(&run->cache->scratch, struct tokenizer_span, used);
    for (size_t i = 0; i < used; i++) {
        size_t from = run->spans[i].start, until = run->spans[i].end;
        spans[i].start = from > start ? from - start + 1 : 0;
        spans[i].end = until > stop ? stop - start + 1 : until > start ? until - start + 1 : 0;
    }
    *count = used;
    return spans;
}

// Counts a normalized text as if it were the original one. If spans reach it, a space before it is
// all that changed.
static void run_normalized(struct run *run, const struct stretch *stretch, struct text text,
                           bool reached)
{
    struct run inner = { .t = run->t, .cache = run->cache, .text = text, .count = run->count };
    count_pending(run);
    if (reached)
        inner.spans = shift_spans(run, stretch, &inner.span_count);
    run_words(&inner, (struct stretch){ .text = text });
    count_pending(&inner);
    run->within += inner.within;
}

static void run_spans(struct run *run, struct stretch stretch)
{
    bool reached = reaches(run, stretch.start, stretch.start + stretch.text.size);
    struct stretch normal = tokenizer_normalize(run->t, run->cache, stretch, false);
    if (normal.text.at == stretch.text.at) {
        run_words(run, stretch);
    } else if (!reached || run->t->reads_spaces) {
        run_normalized(run, &stretch, normal.text, reached);
    } else {
        run->out = run->moved;
        run_words(run, tokenizer_normalize(run->t, run->cache, stretch, true));
        run->out = NULL;
    }
}

static void run_stretch(struct run *run, size_t start, size_t stop)
{
    struct stretch stretch = { .text = { run->text.at + start, stop - start }, .start = start };
    if (run->moved) {
        run_spans(run, stretch);
        return;
    }
    if (run->t->normal_count)
        stretch = tokenizer_normalize(run->t, run->cache, stretch, keeps_places(run));
    if (run->t->normal.first_bytes)
        run_normal(run, stretch);
    else
        run_words(run, stretch);
}

static void run_text(struct run *run, int flags)
{
    const struct tokenizer *t = run->t;
    for (int i = 0; flags & TOKENIZER_SPECIAL && i < t->before_count; i++)
        put_token(run, t->before[i], 0, 0);
    size_t at = 0, from = 0;
    struct match match;
    while (tokenizer_added_next(&t->raw, run->text, &at, from, &match)) {
        if (match.start > from)
            run_stretch(run, from, match.start);
        put_added(run, match.id, match.start, match.stop);
        from = match.stop;
    }
    if (from < run->text.size)
        run_stretch(run, from, run->text.size);
    count_pending(run);
    for (int i = 0; flags & TOKENIZER_SPECIAL && i < t->after_count; i++)
        put_token(run, t->after[i], 0, 0);
    arena_rewind(&run->cache->scratch, run->cache->empty);
}

int64_t tokenizer_count(const struct tokenizer *tokenizer, struct tokenizer_cache *cache,
                        struct text text, int flags)
{
    int64_t tokens;
    tokenizer_count_later(tokenizer, cache, text, flags, &tokens);
    tokenizer_count_waiting(tokenizer, cache);
    return tokens;
}

void tokenizer_count_later(const struct tokenizer *tokenizer, struct tokenizer_cache *cache,
                           struct text text, int flags, int64_t *tokens)
{
    struct run run = { .t = tokenizer, .cache = cache, .text = text, .count = tokens };
    *tokens = 0;
    run_text(&run, flags);
}

int64_t tokenizer_count_spans(const struct tokenizer *tokenizer, struct tokenizer_cache *cache,
                              struct text text, int flags, const struct tokenizer_span *spans,
                              size_t count, int64_t *within)
{
    int64_t all = 0;
    struct run run = { .t = tokenizer,
                       .cache = cache,
                       .text = text,
                       .count = &all,
                       .spans = spans,
                       .span_count = count };
    struct tokens tokens = { .arena = &cache->scratch, .places = true };
    if (count && (!tokenizer->scan || tokenizer->normal.first_bytes ||
                  (tokenizer->normal_count && tokenizer->trims_places)))
        run.out = &tokens;
    else if (count && tokenizer->normal_count)
        run.moved = &tokens;
    run_text(&run, flags);
    tokenizer_count_waiting(tokenizer, cache);
    *within = run.within;
    return all;
}

void tokenizer_encode(const struct tokenizer *tokenizer, struct tokenizer_cache *cache,
                      struct text text, int flags, struct tokens *out)
{
    int64_t count = 0;
    struct run run = { .t = tokenizer, .cache = cache, .text = text, .count = &count, .out = out };
    run_text(&run, flags);
}

size_t tokenizer_normal_bytes(const struct tokenizer *tokenizer, struct tokenizer_cache *cache,
                              struct text text)
{
    enum { SLICE = 1 << 16 };
    size_t bytes = 0, size;
    for (; tokenizer->normal_count && text.size;
         text = (struct text){ text.at + size, text.size - size }) {
        for (size = text.size < SLICE ? text.size : SLICE;
             size < text.size && size > SLICE - UNICODE_BYTES && (text.at[size] & 0xC0) == 0x80;)
            size--;
        struct stretch slice = { .text = { text.at, size } };
        bytes += tokenizer_normalize(tokenizer, cache, slice, false).text.size;
        arena_rewind(&cache->scratch, cache->empty);
    }
    return bytes + text.size;
}

// --- queries ------------------------------------------------------------------

int32_t tokenizer_find(const struct tokenizer *tokenizer, struct text token)
{
    int32_t id = tokenizer_vocabulary_find(&tokenizer->special, token);
    return id >= 0 ? id : tokenizer_vocabulary_find(&tokenizer->vocabulary, token);
}

struct text tokenizer_token(const struct tokenizer *tokenizer, int32_t id)
{
    const struct vocabulary *const both[] = { &tokenizer->special, &tokenizer->vocabulary };
    for (int i = 0; i < 2; i++)
        if (id >= 0 && id < both[i]->size && both[i]->tokens[id].at)
            return both[i]->tokens[id];
    return (struct text){ 0 };
}

int32_t tokenizer_size(const struct tokenizer *tokenizer)
{
    return tokenizer->size;
}

const char *tokenizer_kind(const struct tokenizer *tokenizer)
{
    switch (tokenizer->model) {
    case MODEL_BPE: return tokenizer->byte_level ? "byte-level BPE" : "SentencePiece-style BPE";
    case MODEL_UNIGRAM: return "Unigram";
    case MODEL_WORDPIECE: return "WordPiece";
    case MODEL_WORDLEVEL: return "WordLevel";
    }
    return "";
}
