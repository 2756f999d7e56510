// gpuhours tokenize: token ids of each line of a file.

#include "cli/command.h"
#include "core/tokenizer/tokenizer.h"
#include "host/file.h"
#include "host/hub.h"

#include <stdio.h>
#include <string.h>

struct tokenize {
    const char *tokenizer;
    bool count;
    bool special;
};

static const struct field tokenize_fields[] = {
    FIELD(tokenize, tokenizer, TEXT,
          "tokenizer.json, .model or .tiktoken file, a model's folder or hub name, or built-in"),
    FIELD(tokenize, count, FLAG, "how many tokens each line has, instead of their ids"),
    FIELD(tokenize, special, FLAG, "add what the model wants around a text (BOS and the like)"),
    { 0 },
};

static const struct options *options(void)
{
    static const struct options groups[] = { { "Tokens", tokenize_fields, NULL }, { 0 } };
    return groups;
}

static void print_ids(const struct tokens *tokens)
{
    putchar('[');
    for (size_t i = 0; i < tokens->count; i++)
        printf(i ? ",%d" : "%d", tokens->ids[i]);
    puts("]");
}

static void print_lines(const struct tokenizer *tokenizer, struct arena *arena,
                        const struct tokenize *request, struct text text)
{
    struct tokenizer_cache *cache = tokenizer_cache_init(tokenizer);
    struct tokens tokens = { .arena = arena };
    struct text line;
    int flags = request->special ? TOKENIZER_SPECIAL : 0;
    if (text.size && text.at[text.size - 1] == '\n')
        text.size--;
    while (text_next(&text, '\n', &line)) {
        if (request->count) {
            printf("%lld\n", (long long)tokenizer_count(tokenizer, cache, line, flags));
            continue;
        }
        tokens.count = 0;
        tokenizer_encode(tokenizer, cache, line, flags, &tokens);
        print_ids(&tokens);
    }
    tokenizer_cache_release(cache);
}

static enum err run(struct command_line *line)
{
    struct tokenize request = { 0 };
    const struct options groups[] = { { "Tokens", tokenize_fields, &request }, { 0 } };
    TRY(command_read(line, groups));
    if (!request.tokenizer)
        return fail(ERR_USAGE, "tokenize needs --tokenizer: a file, or a model's folder or name");
    if (line->positional_count > 1)
        return fail(ERR_USAGE, "tokenize reads one file, but %d are given", line->positional_count);
    const char *path;
    struct tokenizer *tokenizer;
    struct file file, input;
    if (!strcmp(request.tokenizer, "built-in")) {
        TRY(tokenizer_builtin(&tokenizer, line->arena));
    } else {
        TRY(hub_find_tokenizer(&path, line->arena, request.tokenizer));
        TRY(file_open(&file, path));
        enum err err = tokenizer_read(&tokenizer, line->arena, file.text, path);
        file_close(&file);
        TRY(err);
    }
    TRY(file_open(&input, line->positional_count ? line->positional[0] : "-"));
    print_lines(tokenizer, line->arena, &request, input.text);
    file_close(&input);
    return OK;
}

const struct command command_tokenize = {
    "tokenize", "token ids of each line of a file",
    "gpuhours tokenize --tokenizer meta-llama/Llama-3.1-8B notes.txt", run, options
};
