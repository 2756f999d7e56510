// SPDX-License-Identifier: Apache-2.0
// The built-in vocabulary.

#include "core/tokenizer/tokenizer.h"
#include "test/test.h"

#include <string.h>

TEST(builtin_tokens_concatenated_are_the_text)
{
    static const char *const texts[] = {
        "The quick brown fox jumps over the lazy dog.", "def f(x):\n    return x * 2\n",
        "Gr\u00fc\u00dfe aus M\u00fcnchen, \u65e5\u672c\u8a9e \xF0\x9F\x91\x8D", "", "\x01\xff\x00x"
    };
    struct tokenizer *t = NULL;
    CHECK(!tokenizer_builtin(&t, &test_arena));
    struct tokenizer_cache *cache = tokenizer_cache_init();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct text text = text_of(texts[i]);
        struct tokens tokens = { .arena = &test_arena };
        struct out whole = { .arena = &test_arena };
        tokenizer_encode(t, cache, text, 0, &tokens);
        for (size_t k = 0; k < tokens.count; k++) {
            struct text token = tokenizer_token(t, tokens.ids[k]);
            out_bytes(&whole, token.at, token.size);
        }
        CHECK(whole.size == text.size && !memcmp(out_string(&whole), text.at, text.size));
        CHECK(tokenizer_count(t, cache, text, 0) == (int64_t)tokens.count);
    }
    // Common English words are single tokens.
    CHECK(tokenizer_count(t, cache, TEXT("and this is what they would have"), 0) == 7);
    tokenizer_cache_release(cache);
}
