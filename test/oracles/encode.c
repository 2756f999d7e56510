// SPDX-License-Identifier: Apache-2.0
// encode TOKENIZER: the file, or "built-in". Reads texts from standard input, each ended by the
// byte 1E, and prints the token ids of each on a line, with the places they stand for as
// id:start-end. For tokenizers.mjs.
// encode as:MODEL: prints, for each text, the estimate of the model's family, its deviation, and
// what the estimate is made of as NAME:COUNT. For scripts.mjs.

#include "base/unicode.h"
#include "core/tokenizer/tokenizer.h"
#include "host/file.h"

#include <stdio.h>
#include <string.h>

static void print(const struct tokens *tokens)
{
    for (size_t i = 0; i < tokens->count; i++)
        printf("%s%d:%u-%u", i ? " " : "", tokens->ids[i], tokens->starts[i], tokens->ends[i]);
    putchar('\n');
}

// The number of tokens of each text, when all of them are counted together.
static int64_t *count_together(const struct tokenizer *tokenizer, struct arena *arena,
                               struct text rest)
{
    struct tokenizer_cache *cache = tokenizer_cache_init();
    size_t count = 1;
    for (size_t i = 0; i < rest.size; i++)
        count += rest.at[i] == 0x1E;
    int64_t *counts = ARENA_NEW(arena, int64_t, count), *next = counts;
    for (struct text text; text_next(&rest, 0x1E, &text);)
        tokenizer_count_later(tokenizer, cache, text, 0, next++);
    tokenizer_count_waiting(tokenizer, cache);
    tokenizer_cache_release(cache);
    return counts;
}

static void print_parts(const struct tokenizer *builtin, const struct tokenizer_family *family,
                        struct text rest)
{
    struct tokenizer_cache *cache = tokenizer_cache_init();
    for (struct text text; text_next(&rest, 0x1E, &text);) {
        struct tokenizer_parts parts = { 0 };
        tokenizer_parts_add(&parts, family, builtin, cache, text);
        double doubt, tokens = tokenizer_estimate(family, &parts, &doubt);
        printf("%.3f %.3f tokens:%lld bytes:%lld accents:%lld", tokens, doubt,
               (long long)parts.tokens, (long long)parts.bytes, (long long)parts.accents);
        for (int i = 0; i < TOKENIZER_SCRIPTS; i++)
            if (parts.characters[i])
                printf(" %s:%lld", unicode_script_name(i), (long long)parts.characters[i]);
        putchar('\n');
    }
    tokenizer_cache_release(cache);
}

int main(int argc, char **argv)
{
    struct arena arena = { 0 };
    struct file file, input;
    struct tokenizer *tokenizer;
    bool parts = argc == 2 && !strncmp(argv[1], "as:", 3);
    bool builtin = parts || (argc == 2 && !strcmp(argv[1], "built-in"));
    struct tokenizer_family family;
    if (argc != 2 || file_open(&file, builtin ? "/dev/null" : argv[1]) ||
        (builtin ? tokenizer_builtin(&tokenizer, &arena)
                 : tokenizer_read(&tokenizer, &arena, file.text, argv[1])) ||
        tokenizer_family(&family, &arena, parts ? argv[1] + 3 : "") || file_open(&input, "-")) {
        fprintf(stderr, "encode: %s\n", error_text());
        return 3;
    }
    struct text all = { input.text.at, input.text.size - !!input.text.size }; // the last separator
    if (parts) {
        print_parts(tokenizer, &family, all);
        return 0;
    }
    struct tokenizer_cache *cache = tokenizer_cache_init();
    struct tokens tokens = { .arena = &arena, .places = true };
    struct text rest = all, text;
    int64_t *counts = count_together(tokenizer, &arena, rest);
    while (text_next(&rest, 0x1E, &text)) {
        tokens.count = 0;
        tokenizer_encode(tokenizer, cache, text, 0, &tokens);
        if (tokenizer_count(tokenizer, cache, text, 0) != (int64_t)tokens.count ||
            *counts++ != (int64_t)tokens.count)
            printf("counted otherwise ");
        print(&tokens);
    }
    tokenizer_cache_release(cache);
    file_close(&input);
    file_close(&file);
    arena_release(&arena);
    return 0;
}
