// SPDX-License-Identifier: Apache-2.0
// Compares the tokenizer with test/data/tokenizers: small tokenizers of every kind, and the tokens
// of test/data/nasty.json by Hugging Face's library (both written by test/oracles/fixtures.mjs).

#include "base/rng.h"
#include "core/tokenizer/tokenizer_internal.h"
#include "host/file.h"
#include "test/test.h"

#include <pthread.h>
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
    struct tokenizer_cache *cache = tokenizer_cache_init();
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
        slow.reads_spaces = false;
        struct tokenizer_cache *a = tokenizer_cache_init(), *b = tokenizer_cache_init();
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
                                          "\xCD\xB8",
                                          "\xD0\xB6",
                                          "\xD0\x96",
                                          "\xD1\x8F\xD1\x91\xD0\xB0\xD1\x9F\xD0\xAF",
                                          "\xD1\xA0",
                                          "\xD2\x82",
                                          "\xD2\x83" };
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

// Words are new in one text and met again in others before they are merged; the texts are gone
// then.
TEST(texts_counted_together_have_the_tokens_of_each)
{
    enum { TEXTS = 300 };
    for (int i = 0; i < FIXTURES; i++) {
        struct tokenizer *t = read_fixture(fixtures[i]);
        struct tokenizer_cache *alone = tokenizer_cache_init(), *together = tokenizer_cache_init();
        struct rng rng = rng_seeded(7);
        int64_t want[TEXTS], got[TEXTS];
        for (int k = 0; k < TEXTS; k++) {
            struct text text = random_text(&rng);
            char *copy = arena_copy(&test_arena, text.at, text.size);
            want[k] = tokenizer_count(t, alone, text, 0);
            tokenizer_count_later(t, together, (struct text){ copy, text.size }, 0, &got[k]);
            memset(copy, 'x', text.size);
        }
        tokenizer_count_waiting(t, together);
        for (int k = 0; k < TEXTS; k++)
            CHECK(got[k] == want[k]);
        tokenizer_cache_release(alone);
        tokenizer_cache_release(together);
    }
}

struct counter { // a thread that counts all texts
    const struct tokenizer *t;
    struct tokenizer_words *words;
    const struct text *texts;
    size_t count;
    int64_t tokens;
};

static void *count_texts(void *argument)
{
    struct counter *counter = argument;
    struct tokenizer_cache *cache = tokenizer_cache_init();
    tokenizer_cache_share(cache, counter->words);
    for (size_t i = 0; i < counter->count; i++)
        counter->tokens += tokenizer_count(counter->t, cache, counter->texts[i], 0);
    tokenizer_cache_release(cache);
    return NULL;
}

// All threads meet the same new words at the same time, write them and read those of others.
TEST(threads_that_share_words_count_as_one_alone)
{
    enum { THREADS = 4, TEXTS = 300 };
    struct rng rng = rng_seeded(11);
    struct text texts[TEXTS];
    for (int i = 0; i < TEXTS; i++) {
        struct text text = random_text(&rng);
        texts[i] = (struct text){ arena_copy(&test_arena, text.at, text.size), text.size };
    }
    for (int i = 0; i < FIXTURES; i++) {
        struct counter alone = { read_fixture(fixtures[i]), NULL, texts, TEXTS, 0 };
        count_texts(&alone);
        struct tokenizer_words *words = tokenizer_words_init();
        struct counter counters[THREADS];
        pthread_t threads[THREADS];
        for (int k = 0; k < THREADS; k++) {
            counters[k] = (struct counter){ alone.t, words, texts, TEXTS, 0 };
            CHECK(!pthread_create(&threads[k], NULL, count_texts, &counters[k]));
        }
        for (int k = 0; k < THREADS; k++) {
            pthread_join(threads[k], NULL);
            CHECK(counters[k].tokens == alone.tokens);
        }
        tokenizer_words_release(words);
    }
}

// A thread that has met a word may count it late or never.
TEST(a_word_that_another_thread_has_not_counted_yet_is_counted)
{
    struct text text = TEXT("unbelievable counterrevolutionaries, unbelievable");
    for (int i = 0; i < FIXTURES; i++) {
        struct tokenizer *t = read_fixture(fixtures[i]);
        struct counter alone = { t, NULL, &text, 1, 0 };
        count_texts(&alone);
        struct tokenizer_words *words = tokenizer_words_init();
        struct tokenizer_cache *late = tokenizer_cache_init(), *early = tokenizer_cache_init();
        tokenizer_cache_share(late, words);
        tokenizer_cache_share(early, words);
        int64_t counted;
        tokenizer_count_later(t, late, text, 0, &counted);
        for (int time = 0; time < 2; time++)
            CHECK(tokenizer_count(t, early, text, 0) == alone.tokens);
        tokenizer_count_waiting(t, late);
        CHECK(counted == alone.tokens);
        tokenizer_cache_release(late);
        tokenizer_cache_release(early);
        tokenizer_words_release(words);
    }
}

// Threads that write the same entry at once may leave half of a word in it and half of another.
TEST(an_entry_with_halves_of_two_words_is_no_word)
{
    enum { HEADS = 3, TOKENS = 99 };
    static const char *const short_words[HEADS] = { "abcdefghTail", "ijklmnopTail",
                                                    "zzzzzzzzTail" };
    static const char *const long_words[HEADS] = { "abcdefghijklmnopqrstTail",
                                                   "zbcdefghijklmnopqrstTail",
                                                   "abcdefghzjklmnopqrstTail" };
    for (int i = 0; i < FIXTURES; i++) {
        struct tokenizer *t = read_fixture(fixtures[i]);
        struct word_entry entries[HEADS] = { 0 };
        for (int k = 0; k < HEADS; k++) {
            struct tokenizer_cache *cache = tokenizer_cache_init();
            struct text word = text_of(short_words[k]), longer = text_of(long_words[k]);
            int64_t want = tokenizer_count(t, cache, word, 0);
            int64_t want_long = tokenizer_count(t, cache, longer, 0);
            for (struct word_entry *at = cache->tables.words, *end = at + WORD_SLOTS; at < end;
                 at++)
                if (!memcmp(at, word.at, sizeof at->low))
                    entries[k] = *at;
            for (struct word_entry *at = cache->tables.words, *end = at + WORD_SLOTS; at < end;
                 at++)
                if (k && entries[k].low && at->low == entries[k].low)
                    at->high = (entries[k - 1].high << 8 >> 8) | (uint64_t)TOKENS << 56;
            for (struct long_entry *at = cache->tables.longs, *end = at + LONG_SLOTS; at < end;
                 at++)
                if (at->tail)
                    at->tail = ((at->tail ^ 1 << 20) << 8 >> 8) | (uint64_t)TOKENS << 56;
            CHECK(tokenizer_count(t, cache, word, 0) == want);
            CHECK(tokenizer_count(t, cache, longer, 0) == want_long);
            tokenizer_cache_release(cache);
        }
    }
}

// Holds a scanner against the pattern it stands for.
static void check_scan(const struct tokenizer *fast, struct tokenizer_cache *cache,
                       struct text text)
{
    struct tokenizer slow = *fast;
    slow.scan = SCAN_NONE;
    struct stretch stretch = { .text = text };
    const char *at = text.at, *end = at + text.size;
    struct span words[TOKENIZER_BATCH], *want;
    size_t wanted = tokenizer_split(&slow, cache, &stretch, false, &want), count = 0;
    cache->next_number = NULL;
    while (at < end) {
        const char *base = at;
        size_t got = tokenizer_scan(fast, cache, base, &at, end, words, TOKENIZER_BATCH);
        size_t offset = (size_t)(base - text.at);
        for (size_t w = 0; w < got && count < wanted; w++, count++)
            CHECK(words[w].start + offset == want[count].start &&
                  words[w].end + offset == want[count].end);
    }
    CHECK(count == wanted);
}

static void check_scans(struct text (*make)(struct rng *rng), int count, uint64_t seed)
{
    struct rng rng = rng_seeded(seed);
    for (int i = 0; i < FIXTURES; i++) {
        struct tokenizer *t = read_fixture(fixtures[i]);
        if (!t || !t->scan || t->scan == SCAN_WHOLE)
            continue;
        struct tokenizer_cache *cache = tokenizer_cache_init();
        for (int k = 0; k < count; k++)
            check_scan(t, cache, make(&rng));
        tokenizer_cache_release(cache);
    }
}

TEST(scanners_cut_random_texts_as_the_patterns_do)
{
    check_scans(random_text, 400, 3);
}

TEST(scanners_cut_long_runs_of_characters_of_three_bytes_as_the_patterns_do)
{
    // On both sides of where Chinese and Japanese begin and end, signs and codes without a
    // character among them, and half a character.
    static const char *const pieces[] = { "\xE3\x80\xBF", "\xE3\x81\x80", "\xE3\x82\x97",
                                          "\xE3\x82\x99", "\xE3\x82\x9B", "\xE3\x82\xA0",
                                          "\xE3\x83\xBB", "\xE3\x83\xBF", "\xE3\x84\x80",
                                          "\xE4\xB7\xBF", "\xE4\xB8\x80", "\xE9\xBD\xBF",
                                          "\xE9\xBE\x80", "\xE9\xBE\xA5", "\xE9\xBE\xA6",
                                          "\xEA\x80\x80", "\xE5\xAD",     "a" };
    enum { PIECES = sizeof pieces / sizeof *pieces };
    struct rng rng = rng_seeded(7);
    for (int i = 0; i < FIXTURES; i++) {
        struct tokenizer *t = read_fixture(fixtures[i]);
        if (!t || !t->scan || t->scan == SCAN_WHOLE)
            continue;
        struct tokenizer_cache *cache = tokenizer_cache_init();
        for (int k = 0; k < 400; k++) {
            struct out out = { .arena = &test_arena };
            for (uint64_t runs = 1 + rng_below(&rng, 6); runs; runs--) {
                for (uint64_t left = rng_below(&rng, 2) * rng_below(&rng, 40); left; left--)
                    out_put(&out, "%s", rng_below(&rng, 2) ? "\xE4\xB8\xAD" : "\xE3\x81\xAE");
                out_put(&out, "%s", pieces[rng_below(&rng, PIECES)]);
            }
            check_scan(t, cache, out_view(&out));
        }
        tokenizer_cache_release(cache);
    }
}

// Arabic, Thai, both ends of Hangul, and what leads, ends or joins words.
static struct text random_scripts(struct rng *rng)
{
    static const char *const pieces[] = { "a",    "B",        " ",  " ",    "  ",      "\t",
                                          "\n",   "-",        "--", "'",    "1",       "'s",
                                          "\xE0", "\xEB\xA0", "/",  "\xD8", "\xC2\xA0" };
    static const uint32_t blocks[] = { 0x600, 0xE00, 0xABC0, 0xD780 }; // of 128
    struct out out = { .arena = &test_arena };
    for (uint64_t runs = 1 + rng_below(rng, 8); runs; runs--) {
        uint32_t block = blocks[rng_below(rng, sizeof blocks / sizeof *blocks)];
        for (uint64_t left = rng_below(rng, 3) * rng_below(rng, 12); left; left--) {
            char bytes[4];
            size_t size = text_put_utf8(bytes, block + (uint32_t)rng_below(rng, 128));
            out_put(&out, "%.*s", (int)size, bytes);
        }
        out_put(&out, "%s", pieces[rng_below(rng, sizeof pieces / sizeof *pieces)]);
    }
    return out_view(&out);
}

TEST(scanners_cut_hangul_thai_and_arabic_as_the_patterns_do)
{
    check_scans(random_scripts, 2000, 11);
}

TEST(words_that_are_tokens_count_as_one_where_merges_are_ignored)
{
    int unreachable = 0, tried = 0;
    for (int i = 0; i < FIXTURES; i++) {
        struct tokenizer *t = read_fixture(fixtures[i]), merging;
        if (!t || !t->ignores_merges)
            continue;
        merging = *t;
        merging.ignores_merges = false;
        struct tokenizer_cache *cache = tokenizer_cache_init();
        for (int32_t id = 0; id < t->vocabulary.size; id++) {
            struct tokens whole = { .arena = &test_arena }, merged = { .arena = &test_arena };
            struct text token = t->vocabulary.tokens[id];
            tokenizer_encode(t, cache, token, 0, &whole);
            CHECK(tokenizer_count(t, cache, token, 0) == (int64_t)whole.count);
            struct tokenizer_cache *other = tokenizer_cache_init();
            tokenizer_encode(&merging, other, token, 0, &merged);
            tokenizer_cache_release(other);
            unreachable += whole.count == 1 && merged.count > 1;
            tried++;
        }
        tokenizer_cache_release(cache);
    }
    CHECK(tried > 0 && unreachable > 0);
}

// Spaces, marks, and runs of both, between letters that merge with them.
static struct text spaced_text(struct rng *rng)
{
    static const char *const pieces[] = {
        " ",        TOKENIZER_MARK, "t",    "the", "\n", "<", "e", ".",
        "\xC3\xA9", "\xE4\xB8\xAD", "\xE2", "12"
    };
    struct out out = { .arena = &test_arena };
    for (uint64_t left = rng_below(rng, 90); left; left--) {
        const char *piece = pieces[rng_below(rng, sizeof pieces / sizeof *pieces)];
        for (uint64_t times = rng_below(rng, 4) ? 1 : rng_below(rng, 30); times; times--)
            out_put(&out, "%s", piece);
    }
    return out_view(&out);
}

TEST(spaces_read_as_marks_have_the_tokens_of_replaced_ones)
{
    static const char *const names[] = { "llama2", "gemma" };
    struct rng rng = rng_seeded(11);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct tokenizer *t = read_fixture(names[i]), replacing = *t;
        CHECK(t->reads_spaces);
        replacing.reads_spaces = false;
        replacing.scan = SCAN_NONE;
        replacing.cuts = NULL;
        struct tokenizer_cache *a = tokenizer_cache_init(), *b = tokenizer_cache_init();
        for (int k = 0; k < 500; k++) {
            struct text text = spaced_text(&rng);
            struct tokens read = { .arena = &test_arena }, replaced = { .arena = &test_arena };
            tokenizer_encode(t, a, text, 0, &read);
            tokenizer_encode(&replacing, b, text, 0, &replaced);
            CHECK(!strcmp(spell(&read), spell(&replaced)));
            CHECK(tokenizer_count(t, a, text, 0) == (int64_t)replaced.count);
        }
        tokenizer_cache_release(a);
        tokenizer_cache_release(b);
    }
}

TEST(long_words_merge_as_short_ones_do)
{
    // Words of more than 62 symbols use the queue; both must agree where a cut changes nothing.
    const struct tokenizer *t = read_fixture("gpt2");
    struct tokenizer_cache *cache = tokenizer_cache_init();
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

TEST(all_cuts_of_a_word_are_those_found_one_by_one)
{
    static const char *const pieces[] = {
        "\xE4\xB8\xAD", "\xE6\x96\x87", "\xE3\x81\xAE", "\xE0\xB8\x81", "\xD0\xB6", "a", " ",
        "\xE4\xB8",     "\xAD",         "\xE5\xAD\x97", "\xE3\x80\x82"
    };
    enum { PIECES = sizeof pieces / sizeof *pieces, ROOM = 5 };
    struct rng rng = rng_seeded(5);
    for (int i = 0; i < FIXTURES; i++) {
        const struct tokenizer *t = read_fixture(fixtures[i]);
        for (int time = 0; t->cuts && time < 200; time++) {
            struct out out = { .arena = &test_arena };
            for (uint64_t left = 1 + rng_below(&rng, 60); left; left--)
                out_put(&out, "%s", pieces[rng_below(&rng, PIECES)]);
            struct text word = out_view(&out);
            const char *at = word.at, *end = at + word.size;
            while (at < end) {
                uint32_t ends[ROOM];
                size_t count = tokenizer_cut_all(t->cuts, at, end, ends, ROOM);
                const char *start = at;
                CHECK(count > 0 && count <= ROOM);
                for (size_t k = 0; k < count; k++) {
                    at = tokenizer_cut(t->cuts, at, end);
                    CHECK(at == start + ends[k]);
                }
            }
        }
    }
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
        struct tokenizer_cache *a = tokenizer_cache_init(), *b = tokenizer_cache_init();
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

// With windows of a few bytes their borders are often where tokens would be others.
TEST(huge_words_merged_in_windows_have_the_tokens_of_the_whole)
{
    static const char *const names[] = { "gpt2", "llama3", "o200k", "deepseek", "llama2", "gemma" };
    struct rng rng = rng_seeded(11);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct tokenizer *t = read_fixture(names[i]), whole = *t;
        CHECK(t->window);
        t->cuts = NULL;
        whole.cuts = NULL;
        whole.window = 0;
        struct tokenizer_cache *a = tokenizer_cache_init(), *b = tokenizer_cache_init();
        for (int k = 0; k < 1000; k++) {
            struct text word = long_word(&rng);
            t->window = 4 + (size_t)rng_below(&rng, 40);
            tokenizer_bpe(t, a, word, false);
            tokenizer_bpe(&whole, b, word, false);
            size_t count = b->symbols.count;
            CHECK(a->symbols.count == count);
            CHECK(!memcmp(a->symbols.ids, b->symbols.ids, count * sizeof(int32_t)));
            CHECK(!memcmp(a->symbols.sizes, b->symbols.sizes, count * sizeof(uint32_t)));
        }
        tokenizer_cache_release(a);
        tokenizer_cache_release(b);
    }
}

TEST(a_huge_word_takes_the_memory_of_a_window_to_merge)
{
    enum { BYTES = 2 << 20 };
    const struct tokenizer *t = read_fixture("gpt2");
    struct tokenizer_cache *cache = tokenizer_cache_init();
    char *letters = arena_alloc(&test_arena, BYTES);
    memset(letters, 'a', BYTES);
    CHECK(tokenizer_count(t, cache, (struct text){ letters, BYTES }, 0) > 0);
    CHECK(cache->queue.size < 32 * t->window);
    tokenizer_cache_release(cache);
}

// Text of a few characters of one to three bytes, and of broken ones.
static struct text few_characters(struct rng *rng, uint64_t least, uint64_t kinds)
{
    static const char *const characters[] = {
        "a", "\xC3\xA9", "\xC3\xA8", "\xE0\xB8\x81", "\xE0\xB8\x82", "\xE0\xB9\x81", "\xE0", "\xB8"
    };
    struct out out = { .arena = &test_arena };
    for (uint64_t left = least + rng_below(rng, 12); left; left--)
        out_put(&out, "%s", characters[rng_below(rng, kinds)]);
    return out_view(&out);
}

// A token of the list that the text begins with, or its first byte.
static struct text some_token(struct rng *rng, const struct text *tokens, size_t count,
                              struct text text)
{
    for (int tries = 0; count && tries < 20; tries++) {
        struct text token = tokens[rng_below(rng, count)];
        if (token.size <= text.size && !memcmp(token.at, text.at, token.size))
            return token;
    }
    return (struct text){ text.at, 1 };
}

static void put_visible(struct out *out, struct text token)
{
    uint16_t codes[256];
    tokenizer_alphabet(codes);
    for (size_t i = 0; i < token.size; i++) {
        char bytes[UNICODE_BYTES];
        out_bytes(out, bytes, (size_t)unicode_put(bytes, codes[(unsigned char)token.at[i]]));
    }
}

// Merges of random neighbours in such text; in some tokenizers a merge may come before those that
// make its parts.
static struct tokenizer *random_bytes(struct rng *rng)
{
    enum { MERGES = 40 };
    struct text tokens[MERGES];
    struct out merges[MERGES], file = { .arena = &test_arena };
    size_t count = 0, shuffles = rng_below(rng, 3) ? rng_below(rng, 6) : 0;
    out_put(&file, "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"\u0120\":255");
    for (int byte = 0, id = 0; byte < 256; byte++)
        if (byte != ' ') {
            out_put(&file, ",\"%s", byte == '"' || byte == '\\' ? "\\" : "");
            put_visible(&file, (struct text){ &(char){ (char)byte }, 1 });
            out_put(&file, "\":%d", id++);
        }
    while (count < MERGES) {
        struct text text = few_characters(rng, 6, 6);
        size_t from = rng_below(rng, text.size - 1);
        text = (struct text){ text.at + from, text.size - from };
        struct text left = some_token(rng, tokens, count, text);
        text = (struct text){ text.at + left.size, text.size - left.size };
        if (!text.size)
            continue;
        struct text right = some_token(rng, tokens, count, text);
        struct text both = { left.at, left.size + right.size };
        both.at = memcpy(arena_alloc(&test_arena, both.size), left.at, left.size);
        memcpy((char *)both.at + left.size, right.at, right.size);
        bool known = false;
        for (size_t i = 0; i < count; i++)
            known = known || text_equal(tokens[i], both);
        if (known)
            continue;
        merges[count] = (struct out){ .arena = &test_arena };
        put_visible(&merges[count], left);
        out_put(&merges[count], " ");
        put_visible(&merges[count], right);
        out_put(&file, ",\"");
        put_visible(&file, both);
        out_put(&file, "\":%zu", 256 + count);
        tokens[count++] = both;
    }
    for (; shuffles; shuffles--) {
        size_t a = rng_below(rng, MERGES), b = rng_below(rng, MERGES);
        struct out swapped = merges[a];
        merges[a] = merges[b];
        merges[b] = swapped;
    }
    out_put(&file, "},\"merges\":[");
    for (size_t i = 0; i < MERGES; i++)
        out_put(&file, "%s\"%s\"", i ? "," : "", out_string(&merges[i]));
    out_put(&file, "]},\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
                   "\"use_regex\":false}}");
    struct tokenizer *t = NULL;
    if (tokenizer_read(&t, &test_arena, out_view(&file), "random"))
        printf("%s\n", error_text());
    CHECK(t);
    return t;
}

TEST(words_that_start_as_characters_have_the_tokens_of_their_bytes)
{
    struct rng rng = rng_seeded(11);
    int shorter = 0;
    for (int i = 0; i < 300; i++) {
        struct tokenizer *t = random_bytes(&rng), bytes = *t;
        bytes.cuts = NULL;
        CHECK(t->cuts);
        struct tokenizer_cache *a = tokenizer_cache_init(), *b = tokenizer_cache_init();
        for (int k = 0; k < 40; k++) {
            struct text word = few_characters(&rng, 1, k % 4 ? 6 : 8);
            tokenizer_bpe(t, a, word, false);
            tokenizer_bpe(&bytes, b, word, false);
            struct counted counted = { .word = word };
            tokenizer_bpe_count(t, &counted, 1);
            CHECK(counted.tokens == b->symbols.count && a->symbols.count == b->symbols.count);
            for (size_t n = 0; n < b->symbols.count; n++)
                CHECK(a->symbols.ids[n] == b->symbols.ids[n] &&
                      a->symbols.sizes[n] == b->symbols.sizes[n]);
            int32_t ids[BPE_BYTES];
            uint32_t sizes[BPE_BYTES];
            shorter += tokenizer_characters(t->cuts, t->byte_ids, word, ids, sizes) < word.size;
        }
        tokenizer_cache_release(a);
        tokenizer_cache_release(b);
    }
    CHECK(shorter > 2000); // words start as characters at all
}

TEST(the_cache_changes_no_count)
{
    const struct tokenizer *t = read_fixture("llama3");
    struct json strings = nasty();
    struct tokenizer_cache *warm = tokenizer_cache_init();
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < strings.count; i++) {
            struct tokenizer_cache *cold = tokenizer_cache_init();
            CHECK(tokenizer_count(t, warm, strings.items[i].string, 0) ==
                  tokenizer_count(t, cold, strings.items[i].string, 0));
            tokenizer_cache_release(cold);
        }
    tokenizer_cache_release(warm);
}

// Rules of dashes, deep indentation and clauses without spaces: too long for the tables of words.
TEST(lines_that_are_met_again_have_the_tokens_of_the_first_time)
{
    static const char *const symbols[] = { "-", "*", " ", "=", "a", "\xE0\xB8\x81", "\xE4\xBD\xA0",
                                           "#" };
    struct rng rng = rng_seeded(3);
    for (int i = 0; i < FIXTURES; i++) {
        const struct tokenizer *t = read_fixture(fixtures[i]);
        struct tokenizer_cache *cache = tokenizer_cache_init();
        for (int line = 0; line < 200; line++) {
            struct out text = { .arena = &test_arena };
            const char *symbol = symbols[(size_t)(8 * rng_uniform(&rng))];
            size_t size = 50 + (size_t)(220 * rng_uniform(&rng));
            while (text.size < size)
                out_put(&text, "%s",
                        rng_uniform(&rng) < 0.95 ? symbol
                                                 : symbols[(size_t)(8 * rng_uniform(&rng))]);
            struct tokens tokens = { .arena = &test_arena };
            tokenizer_encode(t, cache, out_view(&text), 0, &tokens);
            for (int again = 0; again < 2; again++)
                CHECK(tokenizer_count(t, cache, out_view(&text), 0) == (int64_t)tokens.count);
        }
        tokenizer_cache_release(cache);
    }
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
        struct tokenizer_cache *cache = tokenizer_cache_init();
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

// NFKC writes U+FDFA, three bytes, as four words of 33.
TEST(tokenizer_tells_the_size_of_a_normalized_text_before_it_takes_the_memory)
{
    enum { COUNT = 100000 };
    struct tokenizer *plain = read_fixture("llama3"), *nfkc = read_fixture("unigram");
    struct tokenizer_cache *caches[] = { tokenizer_cache_init(), tokenizer_cache_init() };
    struct out text = { .arena = &test_arena };
    for (int i = 0; i < COUNT; i++)
        out_put(&text, "\xEF\xB7\xBA");
    CHECK(tokenizer_normal_bytes(plain, caches[0], out_view(&text)) == text.size);
    CHECK_NEAR(tokenizer_normal_bytes(nfkc, caches[1], out_view(&text)), 33.0 * COUNT, 0.001);
    tokenizer_cache_release(caches[0]);
    tokenizer_cache_release(caches[1]);
}
