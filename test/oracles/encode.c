// SPDX-License-Identifier: Apache-2.0
// encode TOKENIZER: the file, or "built-in". Reads texts from standard input, each ended by the
// byte 1E, and prints the token ids of each on a line, with the places they stand for as
// id:start-end. For tokenizers.mjs.

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

int main(int argc, char **argv)
{
    struct arena arena = { 0 };
    struct file file, input;
    struct tokenizer *tokenizer;
    bool builtin = argc == 2 && !strcmp(argv[1], "built-in");
    if (argc != 2 || file_open(&file, builtin ? "/dev/null" : argv[1]) ||
        (builtin ? tokenizer_builtin(&tokenizer, &arena)
                 : tokenizer_read(&tokenizer, &arena, file.text, argv[1])) ||
        file_open(&input, "-")) {
        fprintf(stderr, "encode: %s\n", error_text());
        return 3;
    }
    struct tokenizer_cache *cache = tokenizer_cache_init();
    struct tokens tokens = { .arena = &arena, .places = true };
    struct text rest = input.text, text;
    if (rest.size)
        rest.size--; // the last separator
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
