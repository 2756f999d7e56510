// SPDX-License-Identifier: Apache-2.0
// gpuhours tokenize: token ids of each line of a file.

#include "cli/command.h"
#include "base/json.h"
#include "base/lines.h"
#include "base/unicode.h"
#include "cli/terminal/print.h"
#include "core/tokenizer/tokenizer.h"
#include "host/archive.h"
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
          "tokenizer.json, .model or .tiktoken file, folder, hub name, or built-in",
          .value = "FILE", .fallback = "required"),
    FIELD(tokenize, count, FLAG, "print the number of tokens per line instead of their ids"),
    FIELD(tokenize, special, FLAG, "add the model's special tokens (BOS, EOS)"),
    { 0 },
};

static struct tokenize wanted;

static const struct options *list_options(struct arena *arena)
{
    static const struct options groups[] = { OPTIONS("tokens", tokenize_fields, &wanted), { 0 } };
    (void)arena;
    wanted = (struct tokenize){ 0 };
    return groups;
}

static void print_ids(const struct tokens *tokens)
{
    putchar('[');
    for (size_t i = 0; i < tokens->count; i++)
        printf(i ? ",%d" : "%d", tokens->ids[i]);
    puts("]");
}

// Lines are counted together, which is faster.
static void print_counts(const struct tokenizer *tokenizer, struct tokenizer_cache *cache,
                         struct arena *arena, struct lines lines, int flags)
{
    int64_t counts[256];
    size_t count = 0;
    for (struct text line; lines_next(&lines, &line);) {
        tokenizer_count_later(tokenizer, cache, unicode_repair(arena, line), flags,
                              &counts[count++]);
        if (count < sizeof counts / sizeof *counts && lines.at < lines.end)
            continue;
        tokenizer_count_waiting(tokenizer, cache);
        for (size_t i = 0; i < count; i++)
            printf("%lld\n", (long long)counts[i]);
        count = 0;
    }
}

static void write_ids(struct json_writer *w, struct arena *arena, const struct tokens *tokens)
{
    struct out ids = { .arena = arena };
    for (size_t i = 0; i < tokens->count; i++)
        out_put(&ids, i ? ",%d" : "[%d", tokens->ids[i]);
    out_put(&ids, tokens->count ? "]" : "[]");
    json_put_raw(w, "ids", out_view(&ids));
}

static void print_document(const struct tokenizer *tokenizer, struct tokenizer_cache *cache,
                           struct arena *arena, struct lines lines, int flags)
{
    struct out document = { .arena = arena };
    struct json_writer w = { .out = &document };
    int64_t all = 0;
    json_open(&w, NULL, '{');
    json_put_string(&w, "kind", "tokens");
    json_put_count(&w, "version", 1);
    json_put_string(&w, "tokenizer", wanted.tokenizer);
    json_open(&w, "lines", '[');
    for (struct text line; lines_next(&lines, &line);) {
        struct arena scratch = { 0 };
        struct tokens tokens = { .arena = &scratch };
        line = unicode_repair(&scratch, line);
        int64_t count = tokenizer_count(tokenizer, cache, line, flags);
        json_open(&w, NULL, '{');
        json_put_count(&w, "tokens", count);
        if (!wanted.count) {
            tokenizer_encode(tokenizer, cache, line, flags, &tokens);
            write_ids(&w, &scratch, &tokens);
        }
        json_close(&w, '}');
        all += count;
        arena_release(&scratch);
    }
    json_close(&w, ']');
    json_put_count(&w, "tokens", all);
    json_close(&w, '}');
    out_char(&document, '\n');
    print_data(out_view(&document));
}

static void print_lines(const struct tokenizer *tokenizer, struct arena *arena, struct text text,
                        bool json)
{
    struct tokenizer_cache *cache = tokenizer_cache_init();
    struct tokens tokens = { .arena = arena };
    struct text line;
    int flags = wanted.special ? TOKENIZER_SPECIAL : 0;
    text = text_after_mark(text);
    struct lines lines = { { .format = LINES_TEXT }, text.at, text.at + text.size, 1, 0 };
    if (json)
        print_document(tokenizer, cache, arena, lines, flags);
    else if (wanted.count)
        print_counts(tokenizer, cache, arena, lines, flags);
    while (!json && !wanted.count && lines_next(&lines, &line)) {
        tokens.count = 0;
        tokenizer_encode(tokenizer, cache, unicode_repair(arena, line), flags, &tokens);
        print_ids(&tokens);
    }
    tokenizer_cache_release(cache);
}

static enum err run(struct command_line *line)
{
    TRY(command_read(line, list_options(line->arena)));
    if (!wanted.tokenizer)
        return fail(ERR_USAGE, "tokenize needs --tokenizer: a file, or a model's folder or name");
    if (line->positional_count > 1)
        return fail(ERR_USAGE, "tokenize reads one file, but %d are given", line->positional_count);
    const char *path;
    struct tokenizer *tokenizer;
    struct file file;
    struct text input;
    if (!strcmp(wanted.tokenizer, "built-in")) {
        TRY(tokenizer_builtin(&tokenizer, line->arena));
    } else {
        TRY(hub_find_tokenizer(&path, line->arena, wanted.tokenizer));
        TRY(file_open(&file, path));
        enum err err = tokenizer_read(&tokenizer, line->arena, file.text, path);
        file_close(&file);
        TRY(err);
    }
    TRY(archive_read_all(&input, line->arena, line->positional_count ? line->positional[0] : "-"));
    print_lines(tokenizer, line->arena, input, line->common.json);
    return OK;
}

static const char *const first[] = { "tokenizer", "count", "special", NULL };

static const struct command_example examples[] = {
    { "token ids of each line", "gpuhours tokenize --tokenizer ./model notes.txt" },
    { "tokens per line, estimated", "gpuhours tokenize --tokenizer built-in --count notes.txt" },
    { 0 },
};

const struct command command_tokenize = {
    .name = "tokenize",
    .summary = "print the token ids of each line of a file",
    .usage = "--tokenizer FILE [OPTION...] [FILE]",
    .about =
        "Encodes each line of FILE, compressed or not, or of standard input, and prints one JSON "
        "array of token ids per line; --json puts all lines into one document. Reads "
        "tokenizer.json, SentencePiece and tiktoken files.",
    .first = first,
    .examples = examples,
    .run = run,
    .options = list_options,
};
