// SPDX-License-Identifier: Apache-2.0
// Compares the tokenizer with test/data/tokenizers: small tokenizers of every kind, and the tokens
// of test/data/nasty.json by Hugging Face's library (both written by test/oracles/fixtures.mjs).

#include "base/rng.h"
#include "core/tokenizer/tokenizer_internal.h"
#include "host/file.h"
#include "test/test.h"

#include <stdio.h>
#include <string.h>

static const char *const fixtures[] = {
    "gpt2",      "llama3",   "qwen",    "o200k",   "tekken",  "deepseek",     "digits",  "prefix",
    "llama2",    "gemma",    "unknown", "unfused", "unigram", "bert",         "words",   "added",
    "behaviors", "patterns", "falcon",  "clip",    "kimi",    "classes",      "untyped", "first",
    "scripts",   "length",   "blanks",  "bloom",   "qwen35",  "deepseek_llm", "super",   "albert",
};
enum { FIXTURES = sizeof fixtures / sizeof *fixtures };

static struct text slurp(const char *path)
{
    struct file file;
    if (file_open(&file, path)) {
        printf("%s\n", error_text());
        CHECK(!"the fixture can be read");
        return (struct text){ "", 0 };
    }
    struct text copy = { arena_copy(&test_arena, file.text.at, file.text.size), file.text.size };
    file_close(&file);
    return copy;
}

static struct tokenizer *read_fixture(const char *name)
{
    const char *path = text_format(&test_arena, "test/data/tokenizers/%s.json", name);
    struct tokenizer *tokenizer = NULL;
    if (tokenizer_read(&tokenizer, &test_arena, slurp(path), path)) {
        printf("%s\n", error_text());
        return NULL;
    }
    return tokenizer;
}

static struct json nasty(void)
{
    struct json list = { 0 };
    CHECK(!json_read(&list, &test_arena, slurp("test/data/nasty.json"), "nasty.json"));
    return list;
}

static const char *spell(const struct tokens *tokens)
{
    struct out out = { .arena = &test_arena };
    for (size_t i = 0; i < tokens->count; i++) {
        out_put(&out, i ? " %d" : "%d", tokens->ids[i]);
        if (tokens->places)
            out_put(&out, ":%u-%u", tokens->starts[i], tokens->ends[i]);
    }
    return out_string(&out);
}

static void check_fixture(const char *name, const struct json *strings)
{
    const struct tokenizer *t = read_fixture(name);
    CHECK(t);
    if (!t)
        return;
    struct tokenizer_cache *cache = tokenizer_cache_init(t);
    struct text lines = slurp(text_format(&test_arena, "test/data/tokenizers/%s.ids", name)), line;
    for (size_t i = 0; i < strings->count; i++) {
        struct text text = strings->items[i].string;
        struct tokens tokens = { .arena = &test_arena, .places = true };
        CHECK(text_next(&lines, '\n', &line));
        tokenizer_encode(t, cache, text, 0, &tokens);
        if (!text_is(line, spell(&tokens)))
            printf("%s, string %zu: \"%.*s\"\n got  %s\n want %.*s\n", name, i, TEXT_ARGS(text),
                   spell(&tokens), TEXT_ARGS(line));
        CHECK(text_is(line, spell(&tokens)));
        CHECK(tokenizer_count(t, cache, text, 0) == (int64_t)tokens.count);
    }
    struct tokens whole = { .arena = &test_arena };
    CHECK(text_next(&lines, '\n', &line));
    tokenizer_encode(t, cache, TEXT("the fox"), TOKENIZER_SPECIAL, &whole);
    CHECK(text_is(line, spell(&whole)));
    CHECK(tokenizer_count(t, cache, TEXT("the fox"), TOKENIZER_SPECIAL) == (int64_t)whole.count);
    tokenizer_cache_release(cache);
}

TEST(tokens_and_their_places_are_those_of_the_library)
{
    struct json strings = nasty();
    for (int i = 0; i < FIXTURES; i++)
        check_fixture(fixtures[i], &strings);
}

TEST(scanners_cut_as_their_patterns_do)
{
    struct json strings = nasty();
    for (int i = 0; i < FIXTURES; i++) {
        struct tokenizer *fast = read_fixture(fixtures[i]), slow;
        if (!fast || !fast->scan)
            continue;
        slow = *fast;
        slow.scan = SCAN_NONE;
        struct tokenizer_cache *a = tokenizer_cache_init(fast), *b = tokenizer_cache_init(&slow);
        for (size_t k = 0; k < strings.count; k++) {
            struct tokens left = { .arena = &test_arena }, right = { .arena = &test_arena };
            tokenizer_encode(fast, a, strings.items[k].string, 0, &left);
            tokenizer_encode(&slow, b, strings.items[k].string, 0, &right);
            CHECK(!strcmp(spell(&left), spell(&right)));
        }
        tokenizer_cache_release(a);
        tokenizer_cache_release(b);
    }
}

// A text of runs of pieces that the patterns treat differently.
static struct text random_text(struct rng *rng)
{
    static const char *const pieces[] = { "a",
                                          "Bc",
                                          "s",
                                          "\xC3\xA9",
                                          "\xC3\x89",
                                          "\xE4\xB8\xAD",
                                          " ",
                                          " ",
                                          " ",
                                          "\t",
                                          "\n",
                                          "\r\n",
                                          "'",
                                          "'s",
                                          "'L",
                                          "(",
                                          ".",
                                          "/",
                                          "//",
                                          "-",
                                          "1",
                                          "234",
                                          "\xC2\xBD",
                                          "\xC2\xA0",
                                          "\x01",
                                          ".\n/(",
                                          "\xCC\x81",
                                          "\xC7\x85",
                                          "\xCA\xB0",
                                          "\xE2\x80\x8B",
                                          "\xE3\x82\xAB",
                                          "\xE3\x80\x82",
                                          "\xCD\xB8" };
    enum { PIECES = sizeof pieces / sizeof *pieces };
    struct out out = { .arena = &test_arena };
    uint64_t first = rng_below(rng, PIECES), kinds = 2 + rng_below(rng, PIECES - 1);
    for (uint64_t left = rng_below(rng, 90); left; left--) {
        const char *piece = pieces[(first + rng_below(rng, kinds) * 7) % PIECES];
        for (uint64_t times = rng_below(rng, 4) ? 1 : rng_below(rng, 6); times; times--)
            out_put(&out, "%s", piece);
    }
    return out_view(&out);
}

TEST(scanners_cut_random_texts_as_the_patterns_do)
{
    struct rng rng = rng_seeded(3);
    for (int i = 0; i < FIXTURES; i++) {
        struct tokenizer *fast = read_fixture(fixtures[i]), slow;
        if (!fast || !fast->scan || fast->scan == SCAN_WHOLE)
            continue;
        slow = *fast;
        slow.scan = SCAN_NONE;
        struct tokenizer_cache *cache = tokenizer_cache_init(fast);
        for (int k = 0; k < 400; k++) {
            struct stretch stretch = { .text = random_text(&rng) };
            const char *at = stretch.text.at, *end = at + stretch.text.size;
            struct span words[TOKENIZER_BATCH], *want;
            size_t wanted = tokenizer_split(&slow, cache, &stretch, false, &want), count = 0;
            cache->next_number = NULL;
            while (at < end) {
                const char *base = at;
                size_t got = tokenizer_scan(fast, cache, base, &at, end, words, TOKENIZER_BATCH);
                size_t offset = (size_t)(base - stretch.text.at);
                for (size_t w = 0; w < got && count < wanted; w++, count++)
                    CHECK(words[w].start + offset == want[count].start &&
                          words[w].end + offset == want[count].end);
            }
            CHECK(count == wanted);
        }
        tokenizer_cache_release(cache);
    }
}

TEST(long_words_merge_as_short_ones_do)
{
    // Words of more than 48 symbols use the queue; both must agree where a cut changes nothing.
    const struct tokenizer *t = read_fixture("gpt2");
    struct tokenizer_cache *cache = tokenizer_cache_init(t);
    char letters[4096];
    memset(letters, 'a', sizeof letters);
    int64_t all = tokenizer_count(t, cache, (struct text){ letters, sizeof letters }, 0);
    struct tokens one = { .arena = &test_arena };
    tokenizer_encode(t, cache, (struct text){ letters, 40 }, 0, &one);
    size_t widest = 0;
    for (size_t i = 0; i < one.count; i++)
        if (tokenizer_token(t, one.ids[i]).size > widest)
            widest = tokenizer_token(t, one.ids[i]).size;
    CHECK(widest > 1);
    CHECK(all == (int64_t)(sizeof letters / widest));
    tokenizer_cache_release(cache);
}

// Long words without spaces, of a few characters that merge or do not, and of broken bytes.
static struct text long_word(struct rng *rng)
{
    static const char *const pieces[] = {
        "\xE6\x97\xA5", "\xE6\x9C\xAC",     "\xE8\xAA\x9E", "\xE6\xBC\xA2", "\xD1\x81",
        "\xD1\x8A",     "\xD0\xB5",         "\xC3\xBC",     "\xED\x95\x9C", "e",
        "the",          "\xF0\x9F\x91\x8D", "\xE6",         "\x97",         "\x91\x8D"
    };
    struct out out = { .arena = &test_arena };
    uint64_t kinds = rng_below(rng, 3) ? 12 : 15; // the last three are not UTF-8
    for (uint64_t left = 5 + rng_below(rng, 60); left; left--)
        out_put(&out, "%s", pieces[rng_below(rng, kinds)]);
    return out_view(&out);
}

TEST(words_cut_where_no_token_can_cross_have_the_tokens_of_the_whole)
{
    static const char *const names[] = { "gpt2", "llama3", "o200k", "deepseek", "llama2", "gemma" };
    struct rng rng = rng_seeded(5);
    int shorter = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct tokenizer *t = read_fixture(names[i]), uncut = *t;
        uncut.cuts = NULL;
        CHECK(t->cuts);
        struct tokenizer_cache *a = tokenizer_cache_init(t), *b = tokenizer_cache_init(&uncut);
        for (int k = 0; k < 500; k++) {
            struct text word = long_word(&rng);
            struct tokens cut = { .arena = &test_arena }, whole = { .arena = &test_arena };
            tokenizer_encode(t, a, word, 0, &cut);
            tokenizer_encode(&uncut, b, word, 0, &whole);
            CHECK(!strcmp(spell(&cut), spell(&whole)));
            CHECK(tokenizer_count(t, a, word, 0) == (int64_t)whole.count);
            shorter += tokenizer_cut(t->cuts, word.at, word.at + word.size) < word.at + word.size;
        }
        tokenizer_cache_release(a);
        tokenizer_cache_release(b);
    }
    CHECK(shorter > 1000); // words are cut at all
}

TEST(the_cache_changes_no_count)
{
    const struct tokenizer *t = read_fixture("llama3");
    struct json strings = nasty();
    struct tokenizer_cache *warm = tokenizer_cache_init(t);
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < strings.count; i++) {
            struct tokenizer_cache *cold = tokenizer_cache_init(t);
            CHECK(tokenizer_count(t, warm, strings.items[i].string, 0) ==
                  tokenizer_count(t, cold, strings.items[i].string, 0));
            tokenizer_cache_release(cold);
        }
    tokenizer_cache_release(warm);
}

TEST(tokens_are_found_by_text_and_by_id)
{
    const struct tokenizer *t = read_fixture("llama3");
    int32_t bos = tokenizer_find(t, TEXT("<s>")), the = tokenizer_find(t, TEXT(" the"));
    CHECK(bos >= 0 && bos < tokenizer_size(t) && the >= 0);
    CHECK(text_is(tokenizer_token(t, bos), "<s>") && text_is(tokenizer_token(t, the), " the"));
    CHECK(tokenizer_find(t, TEXT("no such token")) < 0 && !tokenizer_token(t, -1).at);
    CHECK(!tokenizer_token(t, tokenizer_size(t)).at);
    CHECK(!strcmp(tokenizer_kind(t), "byte-level BPE"));
}

TEST(bytes_that_are_not_text_are_tokens_too)
{
    for (int i = 0; i < FIXTURES; i++) {
        const struct tokenizer *t = read_fixture(fixtures[i]);
        struct tokenizer_cache *cache = tokenizer_cache_init(t);
        char bytes[512];
        for (size_t k = 0; k < sizeof bytes; k++)
            bytes[k] = (char)(k * 7 + k / 256);
        struct tokens tokens = { .arena = &test_arena, .places = true };
        tokenizer_encode(t, cache, (struct text){ bytes, sizeof bytes }, 0, &tokens);
        CHECK(tokenizer_count(t, cache, (struct text){ bytes, sizeof bytes }, 0) ==
              (int64_t)tokens.count);
        for (size_t k = 0; k < tokens.count; k++)
            CHECK(tokens.starts[k] <= tokens.ends[k] && tokens.ends[k] <= sizeof bytes);
        tokenizer_cache_release(cache);
    }
}
