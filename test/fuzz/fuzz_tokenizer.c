// SPDX-License-Identifier: Apache-2.0
// Reads any bytes as a tokenizer; if they are one, encodes the same bytes with it.

#include "core/tokenizer/tokenizer.h"
#include "test/fuzz/mutate.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
MUTATES_AS(json)

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct arena arena = { 0 };
    struct tokenizer *tokenizer;
    struct text text = { (const char *)data, size };
    if (!tokenizer_read(&tokenizer, &arena, text, "fuzz")) {
        struct tokenizer_cache *cache = tokenizer_cache_init();
        struct tokens tokens = { .arena = &arena, .places = true };
        tokenizer_encode(tokenizer, cache, text, TOKENIZER_SPECIAL, &tokens);
        if (tokenizer_count(tokenizer, cache, text, TOKENIZER_SPECIAL) != (int64_t)tokens.count)
            __builtin_trap();
        tokenizer_cache_release(cache);
    }
    arena_release(&arena);
    return 0;
}
