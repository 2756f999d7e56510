// SPDX-License-Identifier: Apache-2.0
// Huge words of tokenizers that do not know every character, merged in windows.

#include "base/rng.h"
#include "core/tokenizer/tokenizer_internal.h"
#include "test/test.h"

#include <string.h>

// BPE without bytes: é and 😀 are unknown, fused or one by one.
static struct tokenizer *read_knowing_few(bool fuses)
{
    struct tokenizer *t = NULL;
    const char *source = text_format(
        &test_arena,
        "{\"model\": {\"type\": \"BPE\", \"unk_token\": \"[UNK]\", \"fuse_unk\": %s, \"vocab\": "
        "{\"[UNK]\": 0, \"a\": 1, \"b\": 2, \"\xC3\xA8\": 3, \"ab\": 4, \"ba\": 5, \"aba\": 6, "
        "\"abab\": 7, \"\xC3\xA8"
        "a\": 8, \"bb\": 9}, \"merges\": [\"b a\", \"a b\", \"a ba\", "
        "\"ab ab\", \"\xC3\xA8 a\", \"b b\"]}}",
        fuses ? "true" : "false");
    CHECK(!tokenizer_read(&t, &test_arena, text_of(source), "few.json"));
    return t;
}

TEST(huge_words_with_unknown_characters_have_the_tokens_of_the_whole)
{
    static const char *const characters[] = { "a",        "b",        "a", "b",
                                              "\xC3\xA8", "\xC3\xA9", "a", "\xF0\x9F\x98\x80" };
    struct rng rng = rng_seeded(12);
    for (int fuses = 0; fuses < 2; fuses++) {
        struct tokenizer *t = read_knowing_few(fuses), whole = *t;
        CHECK(t->window && !t->byte_ranks);
        whole.window = 0;
        struct tokenizer_cache *a = tokenizer_cache_init(), *b = tokenizer_cache_init();
        int different = 0;
        for (int k = 0; k < 3000; k++) {
            struct out out = { .arena = &test_arena };
            uint64_t kinds = 1 + rng_below(&rng, 8), first = rng_below(&rng, 8);
            for (uint64_t left = 20 + rng_below(&rng, 200); left; left--)
                out_put(&out, "%s", characters[(first + rng_below(&rng, kinds)) % 8]);
            t->window = 4 + (size_t)rng_below(&rng, 40);
            tokenizer_bpe(t, a, out_view(&out), false);
            tokenizer_bpe(&whole, b, out_view(&out), false);
            size_t count = b->symbols.count;
            different += a->symbols.count != count ||
                         memcmp(a->symbols.ids, b->symbols.ids, count * sizeof(int32_t)) ||
                         memcmp(a->symbols.sizes, b->symbols.sizes, count * sizeof(uint32_t));
        }
        CHECK(!different);
        tokenizer_cache_release(a);
        tokenizer_cache_release(b);
    }
}

TEST(a_huge_word_with_unknown_characters_takes_the_memory_of_a_window_to_merge)
{
    enum { BYTES = 2 << 20 };
    const struct tokenizer *t = read_knowing_few(true);
    struct tokenizer_cache *cache = tokenizer_cache_init();
    char *letters = arena_alloc(&test_arena, BYTES);
    memset(letters, 'a', BYTES);
    memset(letters + BYTES / 3, 'z', 1000);
    CHECK(tokenizer_count(t, cache, (struct text){ letters, BYTES }, 0) > 0);
    CHECK(cache->queue.size < 32 * t->window);
    tokenizer_cache_release(cache);
}
