// SPDX-License-Identifier: Apache-2.0
// Unigram on texts that are longer than its window, against a plain search over the whole text.

#include "base/rng.h"
#include "core/tokenizer/tokenizer.h"
#include "test/test.h"

#include <string.h>

// Scores are whole numbers, so that many segmentations tie; "c" is in no token.
static const struct {
    const char *token;
    int score;
} vocabulary[] = {
    { "<unk>", 0 },
    { "a", -3 },
    { "b", -3 },
    { "ab", -4 },
    { "ba", -4 },
    { "aab", -6 },
    { "bba", -6 },
    { "abab", -8 },
    { "\xC3\xA9", -3 },
    { "b\xC3\xA9"
      "a",
      -6 },
    { "aaaaaaaaaa", -20 },
};
enum { TOKENS = sizeof vocabulary / sizeof *vocabulary };

static struct tokenizer *read_vocabulary(void)
{
    struct out out = { .arena = &test_arena };
    struct tokenizer *tokenizer = NULL;
    out_put(&out, "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[");
    for (int i = 0; i < TOKENS; i++)
        out_put(&out, "%s[\"%s\",%d]", i ? "," : "", vocabulary[i].token, vocabulary[i].score);
    out_put(&out, "]}}");
    CHECK(tokenizer_read(&tokenizer, &test_arena, out_view(&out), "t.json") == OK);
    return tokenizer;
}

struct place {
    int score, token; // of the best segmentation up to here, and its last token
    size_t from;
    bool reached;
};

static void offer(struct place *to, const struct place *from, int score, int token, size_t start)
{
    if (!to->reached || from->score + score > to->score)
        *to = (struct place){ from->score + score, token, start, true };
}

// The ids of the whole text, its last one first; runs of unknown characters are one token.
static size_t search(int32_t *ids, struct text text)
{
    enum { UNKNOWN = -20 - 10 }; // below the worst token
    struct place *places = ARENA_NEW(&test_arena, struct place, text.size + 1);
    size_t count = 0;
    for (size_t at = 0; at < text.size; at++) {
        if (((unsigned char)text.at[at] & 0xC0) == 0x80)
            continue;
        for (int i = 1; i < TOKENS; i++) {
            size_t size = strlen(vocabulary[i].token);
            if (size <= text.size - at && !memcmp(text.at + at, vocabulary[i].token, size))
                offer(&places[at + size], &places[at], vocabulary[i].score, i, at);
        }
        if (text.at[at] == 'c')
            offer(&places[at + 1], &places[at], UNKNOWN, 0, at);
    }
    for (size_t at = text.size; at; at = places[at].from)
        if (places[at].token || !count || ids[count - 1])
            ids[count++] = places[at].token;
    return count;
}

static void check_text(const struct tokenizer *tokenizer, struct text text)
{
    struct tokenizer_cache *cache = tokenizer_cache_init();
    struct tokens tokens = { .arena = &test_arena };
    int32_t *ids = ARENA_NEW(&test_arena, int32_t, text.size + 1);
    tokenizer_encode(tokenizer, cache, text, 0, &tokens);
    size_t count = search(ids, text), differ = 0;
    CHECK(tokens.count == count);
    for (size_t i = 0; i < count && tokens.count == count; i++)
        differ += tokens.ids[i] != ids[count - 1 - i];
    CHECK(!differ);
    tokenizer_cache_release(cache);
}

TEST(unigram_of_a_text_longer_than_its_window_is_that_of_the_whole)
{
    static const char *const words[] = { "a", "b", "c", "\xC3\xA9", "abab", "aaaaaaaaaa", "ccc" };
    struct tokenizer *tokenizer = read_vocabulary();
    struct rng rng = rng_seeded(5);
    struct out mixed = { .arena = &test_arena }, one = { 0 }, unknown = { 0 };
    struct arena arenas[2] = { 0 };
    one.arena = &arenas[0];
    unknown.arena = &arenas[1];
    while (mixed.size < 300000)
        out_put(&mixed, "%s", words[rng_below(&rng, sizeof words / sizeof *words)]);
    check_text(tokenizer, out_view(&mixed));
    while (one.size < 200001) // where the best ways meet late: the phase of the longest token
        out_char(&one, 'a');
    check_text(tokenizer, out_view(&one));
    out_char(&unknown, 'a');
    while (unknown.size < 200000) // one token longer than the window
        out_char(&unknown, 'c');
    check_text(tokenizer, out_view(&unknown));
    out_put(&unknown, "ab");
    check_text(tokenizer, out_view(&unknown));
    arena_release(&arenas[0]);
    arena_release(&arenas[1]);
}
