// SPDX-License-Identifier: Apache-2.0
// Tokens within spans, against a slow count of every token by its place.

#include "core/tokenizer/tokenizer.h"

#include "base/rng.h"
#include "host/file.h"
#include "test/test.h"

#include <string.h>

static struct tokenizer *read_tokenizer(const char *path)
{
    struct tokenizer *tokenizer = NULL;
    struct file file;
    if (file_open(&file, path) == OK) {
        tokenizer_read(&tokenizer, &test_arena, file.text, path);
        file_close(&file);
    }
    CHECK(tokenizer);
    return tokenizer;
}

static struct tokenizer *small_tokenizer(void)
{
    return read_tokenizer("test/data/small_tokenizer.json");
}

// Slow count: every token with its place.
static int64_t within_by_places(const struct tokenizer *tokenizer, struct tokenizer_cache *cache,
                                struct text text, const struct tokenizer_span *spans, size_t count)
{
    struct tokens tokens = { .arena = &test_arena, .places = true };
    tokenizer_encode(tokenizer, cache, text, 0, &tokens);
    int64_t within = 0;
    for (size_t i = 0; i < tokens.count; i++) {
        bool inside = false;
        for (size_t s = 0; s < count; s++)
            inside = inside || (tokens.starts[i] < spans[s].end && tokens.ends[i] > spans[s].start);
        within += inside;
    }
    return within;
}

// Texts of random parts, of which random ones are spans.
static void check_spans(struct tokenizer *tokenizer, int rounds)
{
    struct tokenizer_cache *cache = tokenizer_cache_init();
    static const char *const parts[] = { "the chain",
                                         " of my gravel bike",
                                         "\n\n",
                                         "  ",
                                         "<|im_end|>",
                                         "Kraków, 42",
                                         "タイヤの空気圧は?",
                                         "é",
                                         " ",
                                         "xyzzyq'll",
                                         "re\xCC\x81sume\xCC\x81" };
    struct rng rng = rng_seeded(5);
    for (int round = 0; round < rounds; round++) {
        char text[2048];
        size_t size = 0, starts[64], pieces = 1 + rng_below(&rng, 40);
        for (size_t i = 0; i < pieces; i++) { // boundaries between characters, anywhere in words
            const char *part = parts[rng_below(&rng, sizeof parts / sizeof *parts)];
            starts[i] = size;
            memcpy(text + size, part, strlen(part));
            size += strlen(part);
        }
        struct tokenizer_span spans[64];
        size_t count = 0;
        for (size_t i = 0; i + 1 < pieces; i += 1 + rng_below(&rng, 4)) {
            size_t end = i + 1 + rng_below(&rng, 2);
            spans[count++] =
                (struct tokenizer_span){ starts[i], end < pieces ? starts[end] : size };
            i = end;
        }
        struct text whole = { text, size };
        int64_t within = -1;
        int64_t all = tokenizer_count_spans(tokenizer, cache, whole, 0, spans, count, &within);
        CHECK(all == tokenizer_count(tokenizer, cache, whole, 0));
        CHECK(within == within_by_places(tokenizer, cache, whole, spans, count));
    }
    tokenizer_cache_release(cache);
}

TEST(tokenizer_counts_within_spans_as_places_do)
{
    check_spans(small_tokenizer(), 2000);
}

TEST(tokenizer_counts_within_spans_of_normalized_text_as_places_do)
{
    static const char *const paths[] = {
        "test/data/tokenizers/llama2.json", // a mark before the text, and for each space
        "test/data/tokenizers/gemma.json",  // for each space only
        "test/data/tokenizers/qwen.json",   // NFC: changes some stretches
        "test/data/tokenizers/bert.json",   // changes nearly all
    };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        check_spans(read_tokenizer(paths[i]), 500);
}

TEST(tokenizer_counts_no_token_within_no_span)
{
    struct tokenizer *tokenizer = small_tokenizer();
    struct tokenizer_cache *cache = tokenizer_cache_init();
    struct tokenizer_span empty[] = { { 3, 3 }, { 5, 5 } };
    int64_t within = -1;
    int64_t all =
        tokenizer_count_spans(tokenizer, cache, TEXT("the wheel is true"), 0, NULL, 0, &within);
    CHECK(all > 0 && within == 0);
    tokenizer_count_spans(tokenizer, cache, TEXT("the wheel is true"), 0, empty, 2, &within);
    CHECK(within == 0);
    struct tokenizer_span whole = { 0, 17 };
    CHECK(all == tokenizer_count_spans(tokenizer, cache, TEXT("the wheel is true"), 0, &whole, 1,
                                       &within));
    CHECK(within == all);
    tokenizer_cache_release(cache);
}
