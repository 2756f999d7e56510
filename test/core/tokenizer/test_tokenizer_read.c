// SPDX-License-Identifier: Apache-2.0
// Broken tokenizer files and their errors.

#include "base/rng.h"
#include "core/tokenizer/tokenizer.h"
#include "test/test.h"

#include <stdio.h>
#include <string.h>

static enum err read_text(const char *text)
{
    struct tokenizer *tokenizer;
    return tokenizer_read(&tokenizer, &test_arena, text_of(text), "t.json");
}

#define BPE(vocab, merges, rest)                                                               \
    "{\"added_tokens\":[],\"pre_tokenizer\":null,\"model\":{\"type\":\"BPE\",\"vocab\":" vocab \
    ",\"merges\":" merges "}" rest "}"

TEST(a_broken_tokenizer_is_refused_with_its_reason)
{
    static const struct {
        const char *file, *sentence;
    } cases[] = {
        { "", "t.json:1: column 1: expected an object" },
        { "{}", "t.json: has no \"model\"; expected a tokenizer.json" },
        { BPE("{\"a\":0,\"b\":1}", "[\"a b\"]", ""),
          "t.json: merge 0, \"a\" + \"b\", names a token that is not in the vocabulary" },
        { BPE("{\"a\":0,\"b\":1,\"ab\":2}", "[\"ab\"]", ""),
          "t.json:1: column 106: expected two tokens separated by a space" },
        { BPE("{\"a\":0,\"b\":1,\"ab\":2}", "[[\"a\"]]", ""),
          "t.json:1: column 107: expected a string" },
        { BPE("{\"a\":-1}", "[]", ""),
          "t.json: token \"a\" has the id -1; it must be an integer below 2097151" },
        { BPE("{\"a\":4294967296}", "[]", ""),
          "t.json: token \"a\" has the id 4294967296; it must be an integer below 2097151" },
        { BPE("{\"a\":0.5}", "[]", ""),
          "t.json: token \"a\" has the id 0.5; it must be an integer below 2097151" },
        { BPE("{\"a\":0,\"b\":0}", "[]", ""),
          "t.json: token \"b\" or its id 0 occurs twice in the vocabulary" },
        { BPE("{\"a\":0", "[]", ""), "t.json:1: column 87: expected a number" },
        { "{\"model\":{\"type\":\"Chars\",\"vocab\":{}}}",
          "t.json: the model is a \"Chars\"; BPE, Unigram, WordPiece and WordLevel are known" },
        { "{\"model\":{\"type\":\"BPE\",\"merges\":[\"a b\"]}}",
          "t.json: the BPE model has no vocabulary of its type" },
        { "{\"model\":{\"type\":\"Unigram\",\"vocab\":{}}}",
          "t.json: the Unigram model has no vocabulary of its type" },
        { "{\"model\":{\"type\":\"Unigram\",\"unk_id\":7,\"vocab\":[[\"a\",-1]]}}",
          "t.json: unk_id is 7, but there are 1 tokens" },
        { BPE("{\"a\":0,\"b\":1,\"ab\":9}", "[\"a b\"],\"vocab\":{\"a\":0,\"b\":1}", ""),
          "t.json:1: column 117: has a second vocabulary" },
        { BPE("{\"a\":0}", "[]", ",\"model\":{\"type\":\"BPE\",\"vocab\":{}}"),
          "t.json:1: column 100: has a second model or pre-tokenizer" },
        { BPE("{\"a\":0}", "[]", ",\"pre_tokenizer\":{\"type\":\"ByteLevel\"}"),
          "t.json:1: column 108: has a second model or pre-tokenizer" },
        { BPE("{\"a\":0}", "[]", ",\"normalizer\":{\"type\":\"Magic\"}"),
          "t.json: the normalizer Magic is not supported" },
        { BPE("{\"a\":0}", "[]", ",\"post_processor\":{\"type\":\"Magic\"}"),
          "t.json: the post-processor Magic is not supported" },
        { "{\"pre_tokenizer\":{\"type\":\"Magic\"}}",
          "t.json: the pre-tokenizer Magic is not supported" },
        { "{\"pre_tokenizer\":{\"type\":\"FixedLength\",\"length\":0}}",
          "t.json: the pre-tokenizer FixedLength has the length 0" },
        { "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?<x>a)\"},"
          "\"behavior\":\"Isolated\"}}",
          "t.json: the pattern (?<x>a) has the group (?<, which is not supported" },
        { "IQ== 0\nIg== 0\n", "t.json:2: the token or its rank 0 occurs twice" },
        { "IQ== 0\n",
          "t.json: 1 ranks match no published rank file (GPT-2, cl100k, o200k, Llama 3, "
          "Llama 4, Qwen, Kimi K2, Whisper); give the model's tokenizer.json instead" },
        { "\nxx", "t.json: not a SentencePiece model, a tokenizer.json or a tiktoken rank file" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK(read_text(cases[i].file) == ERR_INPUT);
        if (strcmp(error_text(), cases[i].sentence))
            printf("case %zu says: %s\n", i, error_text());
        CHECK(!strcmp(error_text(), cases[i].sentence));
    }
}

TEST(a_tokenizer_adds_at_most_256_tokens_before_a_text)
{
    for (int count = 256; count <= 257; count++) {
        struct out file = { .arena = &test_arena };
        out_put(&file, "%s",
                "{\"pre_tokenizer\":null,\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},"
                "\"merges\":[]},\"post_processor\":{\"type\":\"TemplateProcessing\","
                "\"special_tokens\":{\"a\":{\"ids\":[0]}},\"single\":[");
        for (int i = 0; i < count; i++)
            out_put(&file, "%s{\"SpecialToken\":{\"id\":\"a\"}}", i ? "," : "");
        out_put(&file, "]}}");
        struct tokenizer *t;
        bool fits = count == 256;
        CHECK(!tokenizer_read(&t, &test_arena, out_view(&file), "t.json") == fits);
        if (!fits)
            CHECK(!strcmp(error_text(),
                          "t.json: the post-processor adds more than 256 tokens to a text"));
    }
}

TEST(words_of_wordpiece_may_be_of_any_length_that_the_file_states)
{
    struct tokenizer *t;
    CHECK(!tokenizer_read(&t, &test_arena,
                          TEXT("{\"pre_tokenizer\":null,\"model\":{\"type\":\"WordPiece\","
                               "\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\","
                               "\"max_input_chars_per_word\":1e30,"
                               "\"vocab\":{\"[UNK]\":0,\"a\":1,\"##a\":2}}}"),
                          "t"));
    struct tokenizer_cache *cache = tokenizer_cache_init();
    char letters[1000];
    memset(letters, 'a', sizeof letters);
    CHECK(tokenizer_count(t, cache, (struct text){ letters, sizeof letters }, 0) == 1000);
    tokenizer_cache_release(cache);
}

// The second "x" is found only where text is normalized, and has no place of its own among the
// tokens by id.
TEST(added_tokens_of_one_text_and_two_ids_keep_both)
{
    struct tokenizer *t;
    CHECK(!tokenizer_read(&t, &test_arena,
                          TEXT("{\"added_tokens\":[{\"id\":3,\"content\":\"x\"},"
                               "{\"id\":900000,\"content\":\"x\",\"normalized\":true}],"
                               "\"normalizer\":{\"type\":\"Lowercase\"},\"pre_tokenizer\":null,"
                               "\"post_processor\":{\"type\":\"ByteLevel\",\"trim_offsets\":true},"
                               "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}"),
                          "t"));
    struct tokenizer_cache *cache = tokenizer_cache_init();
    struct tokens tokens = { .arena = &test_arena, .places = true };
    tokenizer_encode(t, cache, TEXT("xXa"), 0, &tokens);
    CHECK(tokens.count == 3 && tokens.ids[0] == 3 && tokens.ids[1] == 900000 && !tokens.ids[2]);
    CHECK(tokens.starts[1] == 1 && tokens.ends[1] == 2);
    tokenizer_cache_release(cache);
}

TEST(a_tokenizer_truncated_anywhere_is_refused)
{
    static const char file[] =
        BPE("{\"a\":0,\"b\":1,\"ab\":2}", "[\"a b\"]", ",\"normalizer\":{\"type\":\"NFC\"}");
    CHECK(!read_text(file));
    for (size_t size = 0; size + 1 < sizeof file; size++) {
        struct tokenizer *tokenizer;
        CHECK(tokenizer_read(&tokenizer, &test_arena, (struct text){ file, size }, "t") ==
              ERR_INPUT);
    }
}

// A rank file of so many tokens: all bytes, then other strings that merge with nothing.
static struct text rank_file(int count)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    struct out out = { .arena = &test_arena };
    for (int rank = 0; rank < count; rank++) {
        int high = rank < 256 ? rank : 0x40 + (rank >> 12), low = rank & 4095;
        if (rank < 256)
            out_put(&out, "%c%c== %d\n", digits[high >> 2], digits[(high & 3) << 4], rank);
        else
            out_put(&out, "%c%c%c%c %d\n", digits[high >> 6 & 63], digits[high & 63],
                    digits[low >> 6], digits[low & 63], rank);
    }
    return out_view(&out);
}

TEST(rank_files_of_published_models_are_known_by_their_number_of_ranks)
{
    static const struct {
        int ranks;
        const char *special;
        int32_t id;
    } cases[] = { { 100256, "<|endofprompt|>", 100276 },
                  { 200000, "<|eot|>", 200008 },
                  { 163584, "<|im_middle|>", 163601 },
                  { 50257, "<|startoftranscript|>", 50258 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tokenizer *t;
        CHECK(!tokenizer_read(&t, &test_arena, rank_file(cases[i].ranks), "ranks"));
        CHECK(tokenizer_find(t, text_of(cases[i].special)) == cases[i].id);
        struct tokenizer_cache *cache = tokenizer_cache_init();
        CHECK(tokenizer_count(t, cache, TEXT("a \xE4\xB8\xAD"), 0) == 5);
        tokenizer_cache_release(cache);
    }
}

// A random vocabulary of two letters, whose merges come in any order: parts after what they make.
struct random_merges {
    char words[64][8];
    size_t word_count;
    uint8_t left[64], right[64], whole[64];
    size_t merge_count;
};

static size_t word_named(struct random_merges *m, const char *word)
{
    size_t i = 0;
    while (i < m->word_count && strcmp(m->words[i], word))
        i++;
    if (i == m->word_count)
        strcpy(m->words[m->word_count++], word);
    return i;
}

static struct tokenizer *random_tokenizer(struct random_merges *m, struct rng *rng)
{
    struct out vocabulary = { .arena = &test_arena }, merges = { .arena = &test_arena };
    *m = (struct random_merges){ 0 };
    word_named(m, "a"), word_named(m, "b");
    for (int i = 0; i < 30; i++) {
        size_t left = rng_below(rng, m->word_count), right = rng_below(rng, m->word_count);
        char word[16];
        snprintf(word, sizeof word, "%s%s", m->words[left], m->words[right]);
        bool known = strlen(word) > 7;
        for (size_t k = 0; k < m->merge_count; k++)
            known = known || (m->left[k] == left && m->right[k] == right);
        if (known)
            continue;
        size_t at = rng_below(rng, m->merge_count + 1);
        memmove(m->left + at + 1, m->left + at, m->merge_count - at);
        memmove(m->right + at + 1, m->right + at, m->merge_count - at);
        memmove(m->whole + at + 1, m->whole + at, m->merge_count++ - at);
        m->left[at] = (uint8_t)left, m->right[at] = (uint8_t)right;
        m->whole[at] = (uint8_t)word_named(m, word);
    }
    for (size_t i = 0; i < m->word_count; i++)
        out_put(&vocabulary, "%s\"%s\":%zu", i ? "," : "", m->words[i], i);
    for (size_t i = 0; i < m->merge_count; i++)
        out_put(&merges, "%s\"%s %s\"", i ? "," : "", m->words[m->left[i]], m->words[m->right[i]]);
    struct tokenizer *t = NULL;
    const char *text =
        text_format(&test_arena, "{\"model\":{\"type\":\"BPE\",\"vocab\":{%s},\"merges\":[%s]}}",
                    out_string(&vocabulary), out_string(&merges));
    CHECK(!tokenizer_read(&t, &test_arena, text_of(text), "t"));
    return t;
}

// Merges the first pair of the lowest rank until none is left, looking through all of them.
static size_t merge_slowly(const struct random_merges *m, int32_t *ids, size_t count)
{
    for (;;) {
        size_t rank = m->merge_count, place = 0;
        for (size_t i = 0; i + 1 < count; i++)
            for (size_t k = 0; k < rank; k++)
                if (ids[i] == m->left[k] && ids[i + 1] == m->right[k])
                    rank = k, place = i;
        if (rank == m->merge_count)
            return count;
        ids[place] = m->whole[rank];
        memmove(ids + place + 1, ids + place + 2, (count-- - place - 2) * sizeof *ids);
    }
}

TEST(long_words_merge_by_rank_and_then_from_the_left_whatever_the_order_of_merges)
{
    struct rng rng = rng_seeded(31);
    for (int round = 0; round < 300; round++) {
        struct arena_mark mark = arena_mark(&test_arena);
        struct random_merges m;
        struct tokenizer *t = random_tokenizer(&m, &rng);
        if (!t)
            return;
        struct tokenizer_cache *cache = tokenizer_cache_init();
        for (int k = 0; k < 10; k++) {
            char text[400];
            int32_t ids[400];
            size_t size = 64 + rng_below(&rng, sizeof text - 64), run = 1 + rng_below(&rng, 20);
            for (size_t i = 0; i < size; i++) // alike, or runs of one letter
                text[i] =
                    i && rng_below(&rng, run) ? text[i - 1] : (char)('a' + rng_below(&rng, 2));
            for (size_t i = 0; i < size; i++)
                ids[i] = text[i] - 'a';
            size_t count = merge_slowly(&m, ids, size);
            struct tokens tokens = { .arena = &test_arena };
            tokenizer_encode(t, cache, (struct text){ text, size }, 0, &tokens);
            CHECK(tokens.count == count && !memcmp(tokens.ids, ids, count * sizeof *ids));
        }
        tokenizer_cache_release(cache);
        arena_rewind(&test_arena, mark);
    }
}

TEST(merges_in_a_circle_end)
{
    // Each of the two makes the parts of the other: ranks decide, and every merge shortens the
    // word.
    CHECK(!read_text(BPE("{\"a\":0,\"aa\":1,\"aaa\":2,\"aaaa\":3}",
                         "[\"aaa a\",\"a aaa\",\"aa aa\",\"a aa\",\"aa a\",\"a a\"]", "")));
    struct tokenizer *t;
    CHECK(!tokenizer_read(
        &t, &test_arena,
        TEXT(BPE("{\"a\":0,\"aa\":1,\"aaa\":2}", "[\"a aa\",\"aa a\",\"a a\"]", "")), "t"));
    struct tokenizer_cache *cache = tokenizer_cache_init();
    char letters[1001];
    memset(letters, 'a', sizeof letters);
    for (size_t size = 1; size <= sizeof letters; size += 10)
        CHECK(tokenizer_count(t, cache, (struct text){ letters, size }, 0) > 0);
    tokenizer_cache_release(cache);
}
