// SPDX-License-Identifier: Apache-2.0
// Broken tokenizer files and their errors.

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
        struct tokenizer_cache *cache = tokenizer_cache_init(t);
        CHECK(tokenizer_count(t, cache, TEXT("a \xE4\xB8\xAD"), 0) == 5);
        tokenizer_cache_release(cache);
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
    struct tokenizer_cache *cache = tokenizer_cache_init(t);
    char letters[1001];
    memset(letters, 'a', sizeof letters);
    for (size_t size = 1; size <= sizeof letters; size += 10)
        CHECK(tokenizer_count(t, cache, (struct text){ letters, size }, 0) > 0);
    tokenizer_cache_release(cache);
}
