// SPDX-License-Identifier: Apache-2.0
// vocabulary MERGES FILE...: trains a byte-level BPE on text and writes its merges to standard
// output.
//
// The output is data/vocabulary.bin: for each merge the ids of its two parts, 16 bits each, lowest
// byte first; ids below 256 are bytes, the n-th merge makes the token 256 + n. The most
// frequent pair in the words of the text merges next; ties go to the lower ids. The committed file
// was made by tools/vocabulary.sh from the fortunes and from the documentation and libraries of
// Vim, Perl and Python of Debian bookworm.

#include "core/tokenizer/tokenizer_internal.h"
#include "host/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WORDS = 1 << 21, WORD_LIMIT = 40 };

struct word {
    uint32_t start, size; // of its symbols
    int64_t count;
};

struct pair {
    uint64_t key; // left << 32 | right, plus one; 0 if the slot is empty
    int64_t count;
    uint32_t *words; // words that contain it, or did before a merge
    uint32_t word_count, word_room;
};

struct learner {
    struct arena arena;
    struct word *words;
    size_t word_count;
    uint16_t *symbols;
    size_t symbol_count, symbol_room;
    struct pair *pairs; // open addressing
    size_t pair_mask, pair_count;
    struct entry {
        int64_t count;
        uint64_t key;
    } * heap;
    size_t heap_count, heap_room;
    struct vocabulary seen;
};

// --- words -------------------------------------------------------------------

static void add_word(struct learner *l, struct text text)
{
    if (!text.size || text.size > WORD_LIMIT)
        return;
    int32_t known = tokenizer_vocabulary_find(&l->seen, text);
    if (known >= 0) {
        l->words[known].count++;
        return;
    }
    if (l->word_count == MOST_WORDS)
        return;
    struct text copy = { arena_copy(&l->arena, text.at, text.size), text.size };
    tokenizer_vocabulary_add(&l->seen, &l->arena, copy, (int32_t)l->word_count);
    if (l->symbol_count + text.size > l->symbol_room) {
        size_t room = l->symbol_room ? l->symbol_room * 2 : 1 << 20;
        l->symbols = arena_grow(&l->arena, l->symbols, l->symbol_room * 2, room * 2);
        l->symbol_room = room;
    }
    l->words[l->word_count++] = (struct word){ (uint32_t)l->symbol_count, (uint32_t)text.size, 1 };
    for (size_t i = 0; i < text.size; i++)
        l->symbols[l->symbol_count++] = (unsigned char)text.at[i];
}

static void add_text(struct learner *l, struct text text)
{
    struct tokenizer cl100k = { .scan = SCAN_CL100K };
    struct tokenizer_cache *cache = tokenizer_cache_init(&cl100k);
    struct span spans[TOKENIZER_BATCH];
    for (const char *at = text.at, *end = at + text.size; at < end;) {
        const char *base = at;
        size_t count = tokenizer_scan(&cl100k, cache, base, &at, end, spans, TOKENIZER_BATCH);
        for (size_t i = 0; i < count; i++)
            add_word(l, (struct text){ base + spans[i].start, spans[i].end - spans[i].start });
    }
    tokenizer_cache_release(cache);
}

// --- pairs -------------------------------------------------------------------

static struct pair *find_pair(struct learner *l, uint64_t key)
{
    size_t at = (size_t)(key * UINT64_C(0x9E3779B97F4A7C15) >> 40) & l->pair_mask;
    while (l->pairs[at].key && l->pairs[at].key != key)
        at = (at + 1) & l->pair_mask;
    return &l->pairs[at];
}

static bool before(struct entry a, struct entry b)
{
    return a.count != b.count ? a.count > b.count : a.key < b.key;
}

static void push(struct learner *l, struct entry entry)
{
    if (l->heap_count == l->heap_room) {
        size_t room = l->heap_room ? l->heap_room * 2 : 1 << 16;
        l->heap = arena_grow(&l->arena, l->heap, l->heap_room * sizeof entry, room * sizeof entry);
        l->heap_room = room;
    }
    size_t at = l->heap_count++;
    for (; at && before(entry, l->heap[(at - 1) / 2]); at = (at - 1) / 2)
        l->heap[at] = l->heap[(at - 1) / 2];
    l->heap[at] = entry;
}

static struct entry pop(struct learner *l)
{
    struct entry top = l->heap[0], last = l->heap[--l->heap_count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < l->heap_count; at = child) {
        if (child + 1 < l->heap_count && before(l->heap[child + 1], l->heap[child]))
            child++;
        if (!before(l->heap[child], last))
            break;
        l->heap[at] = l->heap[child];
    }
    l->heap[at] = last;
    return top;
}

static void change(struct learner *l, uint16_t left, uint16_t right, int64_t by, uint32_t word)
{
    uint64_t key = ((uint64_t)left << 32 | right) + 1;
    struct pair *pair = find_pair(l, key);
    if (!pair->key) {
        if (++l->pair_count * 2 > l->pair_mask) {
            fprintf(stderr, "vocabulary: too many pairs\n");
            exit(70);
        }
        pair->key = key;
    }
    pair->count += by;
    if (by <= 0)
        return;
    if (pair->word_count == pair->word_room) {
        uint32_t room = pair->word_room ? pair->word_room * 2 : 4;
        pair->words = arena_grow(&l->arena, pair->words, pair->word_room * sizeof(uint32_t),
                                 room * sizeof(uint32_t));
        pair->word_room = room;
    }
    if (!pair->word_count || pair->words[pair->word_count - 1] != word)
        pair->words[pair->word_count++] = word;
    push(l, (struct entry){ pair->count, key });
}

static void merge_in(struct learner *l, uint32_t index, uint16_t left, uint16_t right,
                     uint16_t whole)
{
    struct word *word = &l->words[index];
    uint16_t *s = l->symbols + word->start;
    for (uint32_t i = 0; i + 1 < word->size; i++) {
        if (s[i] != left || s[i + 1] != right)
            continue;
        if (i) {
            change(l, s[i - 1], left, -word->count, index);
            change(l, s[i - 1], whole, word->count, index);
        }
        if (i + 2 < word->size) {
            change(l, right, s[i + 2], -word->count, index);
            change(l, whole, s[i + 2], word->count, index);
        }
        s[i] = whole;
        memmove(s + i + 1, s + i + 2, (word->size - i - 2) * sizeof *s);
        word->size--;
    }
}

static void learn(struct learner *l, int merges)
{
    l->pair_mask = (1 << 22) - 1;
    l->pairs = ARENA_NEW(&l->arena, struct pair, l->pair_mask + 1);
    for (uint32_t w = 0; w < l->word_count; w++)
        for (uint32_t i = 0; i + 1 < l->words[w].size; i++) {
            const uint16_t *s = l->symbols + l->words[w].start;
            change(l, s[i], s[i + 1], l->words[w].count, w);
        }
    for (int made = 0; made < merges && l->heap_count;) {
        struct entry best = pop(l);
        struct pair *pair = find_pair(l, best.key);
        if (pair->count != best.count) { // outdated: its count has changed since
            if (pair->count < best.count && pair->count > 1)
                push(l, (struct entry){ pair->count, best.key });
            continue;
        }
        if (best.count < 2)
            break;
        uint16_t left = (uint16_t)((best.key - 1) >> 32), right = (uint16_t)(best.key - 1);
        uint16_t whole = (uint16_t)(256 + made++);
        const unsigned char bytes[] = { left & 255, left >> 8, right & 255, right >> 8 };
        fwrite(bytes, 1, sizeof bytes, stdout);
        uint32_t count = pair->word_count, *words = pair->words;
        for (uint32_t i = 0; i < count; i++)
            merge_in(l, words[i], left, right, whole);
        find_pair(l, best.key)->count = 0;
    }
}

int main(int argc, char **argv)
{
    struct learner l = { 0 };
    l.words = ARENA_NEW(&l.arena, struct word, MOST_WORDS);
    tokenizer_vocabulary_init(&l.seen, &l.arena, 1 << 18);
    for (int i = 2; i < argc; i++) {
        struct file file;
        if (file_open(&file, argv[i])) {
            fprintf(stderr, "vocabulary: %s\n", error_text());
            return 3;
        }
        add_text(&l, file.text);
        file_close(&file);
    }
    fprintf(stderr, "vocabulary: %zu words\n", l.word_count);
    learn(&l, argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0);
    arena_release(&l.arena);
    return 0;
}
