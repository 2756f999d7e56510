// SPDX-License-Identifier: Apache-2.0
// Holds the merging of words, alone and many side by side, against a plain loop over the merges.

#include "base/rng.h"
#include "core/tokenizer/tokenizer_internal.h"
#include "host/file.h"
#include "test/test.h"

#include <string.h>

static struct tokenizer *read_fixture(const char *name)
{
    const char *path = text_format(&test_arena, "test/data/tokenizers/%s.json", name);
    struct tokenizer *t = NULL;
    struct file file;
    CHECK(!file_open(&file, path));
    struct text copy = { arena_copy(&test_arena, file.text.at, file.text.size), file.text.size };
    file_close(&file);
    CHECK(!tokenizer_read(&t, &test_arena, copy, path));
    CHECK(t && t->byte_ranks);
    return t;
}

// Tokens and single bytes, one after the other; only ASCII where tokens are made of characters.
static struct text random_word(const struct tokenizer *t, struct rng *rng)
{
    size_t room = 1 + rng_below(rng, rng_below(rng, 3) ? 14 : BPE_BYTES), size = 0;
    bool ascii = !t->byte_level || rng_below(rng, 2);
    char *word = arena_alloc(&test_arena, room);
    while (size < room) {
        struct text token = t->vocabulary.tokens[rng_below(rng, (uint64_t)t->vocabulary.size)];
        char byte = (char)rng_below(rng, ascii ? 0x80 : 0x100);
        if (!token.at || rng_below(rng, 4) == 0)
            token = (struct text){ &byte, 1 };
        for (size_t i = 0; i < token.size && size < room; i++)
            if (!ascii || !(token.at[i] & 0x80))
                word[size++] = token.at[i];
    }
    return (struct text){ word, size };
}

// Merges the first pair of the lowest rank until none is left, looking through all of them.
static size_t merge_plainly(const struct tokenizer *t, struct text word, int32_t *ids)
{
    size_t count = word.size;
    for (size_t i = 0; i < count; i++)
        ids[i] = t->first_ids[(unsigned char)word.at[i]];
    for (;;) {
        uint32_t lowest = TOKENIZER_NO_RANK;
        size_t place = 0;
        for (size_t i = 0; i + 1 < count; i++) {
            uint32_t rank = tokenizer_rank(&t->merges, ids[i], ids[i + 1]);
            if (rank < lowest)
                lowest = rank, place = i;
        }
        if (lowest == TOKENIZER_NO_RANK)
            return count;
        ids[place] = t->merges.wholes[lowest];
        memmove(ids + place + 1, ids + place + 2, (count-- - place - 2) * sizeof *ids);
    }
}

TEST(words_merged_side_by_side_have_the_tokens_of_a_plain_loop)
{
    enum { MOST = 70 };
    static const char *const names[] = { "gpt2", "llama3", "qwen",   "o200k",
                                         "kimi", "tekken", "llama2", "gemma" };
    struct rng rng = rng_seeded(12);
    int merged = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct tokenizer *t = read_fixture(names[i]);
        struct tokenizer_cache *cache = tokenizer_cache_init();
        for (int time = 0; t && time < 60; time++) {
            struct arena_mark mark = arena_mark(&test_arena);
            struct counted words[MOST];
            size_t count = 1 + rng_below(&rng, MOST);
            for (size_t k = 0; k < count; k++)
                words[k].word = random_word(t, &rng);
            tokenizer_bpe_count(t, words, count);
            for (size_t k = 0; k < count; k++) {
                int32_t ids[BPE_BYTES];
                size_t tokens = merge_plainly(t, words[k].word, ids);
                tokenizer_bpe(t, cache, words[k].word, false);
                CHECK(words[k].tokens == tokens && cache->symbols.count == tokens);
                CHECK(!memcmp(cache->symbols.ids, ids, tokens * sizeof *ids));
                merged += tokens < words[k].word.size;
            }
            arena_rewind(&test_arena, mark);
        }
        tokenizer_cache_release(cache);
    }
    CHECK(merged > 10000); // words merge at all
}
