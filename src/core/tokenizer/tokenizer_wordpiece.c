// SPDX-License-Identifier: Apache-2.0
// WordPiece: takes the longest token from the left, again and again; tokens inside a word have a
// prefix (##). If that fails the whole word is unknown. WordLevel: a word is a token or unknown.

#include "core/tokenizer/tokenizer_internal.h"

#include <string.h>

static void put(struct symbols *s, int32_t id, size_t size)
{
    s->ids[s->count] = id;
    s->sizes[s->count++] = (uint32_t)size;
}

static size_t characters(struct text word)
{
    size_t count = 0;
    for (const char *at = word.at, *end = at + word.size; at < end; count++)
        unicode_next(&at, end);
    return count;
}

// The longest token at the start of rest, and its size; -1 if there is none.
static int32_t longest(const struct tokenizer *t, char *prefixed, struct text rest, bool first,
                       size_t *size)
{
    size_t prefix = first ? 0 : t->continuing.size;
    memcpy(prefixed, t->continuing.at, prefix);
    memcpy(prefixed + prefix, rest.at, rest.size);
    for (*size = rest.size; *size; --*size) {
        if (*size < rest.size && (rest.at[*size] & 0xC0) == 0x80)
            continue;
        int32_t id =
            tokenizer_vocabulary_find(&t->vocabulary, (struct text){ prefixed, prefix + *size });
        if (id >= 0)
            return id;
    }
    return TOKENIZER_NONE;
}

static bool put_pieces(const struct tokenizer *t, struct tokenizer_cache *cache, struct text word)
{
    struct symbols *s = &cache->symbols;
    if (t->model == MODEL_WORDLEVEL) {
        int32_t id = tokenizer_vocabulary_find(&t->vocabulary, word);
        if (id >= 0)
            put(s, id, word.size);
        return id >= 0;
    }
    if (word.size > t->longest_word && characters(word) > t->longest_word)
        return false;
    char *prefixed = tokenizer_room(cache, &cache->normal, word.size + t->continuing.size + 1);
    for (size_t at = 0, size; at < word.size; at += size) {
        struct text rest = { word.at + at, word.size - at };
        int32_t id = longest(t, prefixed, rest, at == 0, &size);
        if (id < 0)
            return false;
        put(s, id, size);
    }
    return true;
}

void tokenizer_wordpiece(const struct tokenizer *t, struct tokenizer_cache *cache, struct text word)
{
    struct symbols *s = &cache->symbols;
    s->ids = tokenizer_room(cache, &cache->symbol_ids, (word.size + 1) * sizeof *s->ids);
    s->sizes = tokenizer_room(cache, &cache->symbol_sizes, (word.size + 1) * sizeof *s->sizes);
    s->count = 0;
    if (put_pieces(t, cache, word))
        return;
    s->count = 0;
    if (t->unknown >= 0)
        put(s, t->unknown, word.size);
}
