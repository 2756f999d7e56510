// SPDX-License-Identifier: Apache-2.0
// Speed of reading rows and rendering conversations on one core.
//
//     bench_chat [TEMPLATE [FILE.jsonl]]
//
// TEMPLATE is a tokenizer_config.json, a .jinja file or a built-in name (chatml). Without a file
// random rows are generated: two to six messages of a few hundred bytes, seeded.

#include "base/rng.h"
#include "core/data/chat.h"
#include "core/data/chat_format.h"
#include "host/file.h"

#include <stdio.h>
#include <time.h>

enum { ROWS_BYTES = 64 << 20 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Words with an escape about every 140 bytes and 1 % of bytes beyond ASCII, as in real rows.
static void make_words(struct out *out, struct rng *rng, int count)
{
    static const char *const words[] = { "gradient", "the",  "of",  "learning", "rate",
                                         "a",        "is",   "we",  "model",    "data",
                                         "token",    "step", "and", "batch",    "length" };
    for (int i = 0; i < count; i++) {
        const char *between = rng_below(rng, 25) ? " " : "\\n";
        const char *word = words[rng_below(rng, sizeof words / sizeof *words)];
        out_put(out, "%s%s", i ? between : "", rng_below(rng, 40) ? word : "für");
    }
}

static struct text make_rows(struct arena *arena)
{
    struct out out = { .arena = arena };
    struct rng rng = rng_seeded(1);
    while (out.size < ROWS_BYTES) {
        int turns = 1 + (int)rng_below(&rng, 3);
        out_put(&out, "{\"id\": %d, \"messages\": [", (int)rng_below(&rng, 1000000));
        for (int i = 0; i < turns; i++) {
            out_put(&out, "%s{\"role\": \"user\", \"content\": \"", i ? ", " : "");
            make_words(&out, &rng, 20 + (int)rng_below(&rng, 60));
            out_put(&out, "\"}, {\"role\": \"assistant\", \"content\": \"");
            make_words(&out, &rng, 40 + (int)rng_below(&rng, 120));
            out_put(&out, "\"}");
        }
        out_put(&out, "]}\n");
    }
    return out_view(&out);
}

struct tally {
    double seconds;
    size_t rows, in_bytes, out_bytes, labelled;
};

static enum err pass(struct tally *tally, struct text rows, const struct record_schema *schema,
                     struct chat *chat)
{
    struct arena arena = { 0 };
    struct text row;
    struct record record;
    struct chat_text text;
    arena_alloc(&arena, 1 << 20);
    struct arena_mark empty = arena_mark(&arena);
    empty.used = 0;
    double start = now();
    while (text_next(&rows, '\n', &row)) {
        if (!row.size)
            continue;
        arena_rewind(&arena, empty);
        TRY(record_read(&record, schema, &arena, row));
        tally->rows++;
        tally->in_bytes += row.size + 1;
        for (int i = 0; chat && i < record.count; i++) {
            TRY(chat_render(chat, &text, &record.sequences[i]));
            tally->out_bytes += text.text.size;
            for (size_t k = 0; k < text.span_count; k++)
                tally->labelled += text.spans[k].end - text.spans[k].start;
        }
    }
    tally->seconds = now() - start;
    arena_release(&arena);
    return OK;
}

static void report(const char *name, const struct tally *tally, double less_seconds)
{
    double seconds = tally->seconds - less_seconds;
    printf("%-28s %8.0f MB/s of rows in", name, (double)tally->in_bytes / seconds / 1e6);
    if (tally->out_bytes)
        printf(" %8.0f MB/s of text out, %.0f %% labelled",
               (double)tally->out_bytes / seconds / 1e6,
               100.0 * (double)tally->labelled / (double)tally->out_bytes);
    printf(" (%zu rows, %.3f s)\n", tally->rows, seconds);
}

static enum err run(struct arena *arena, int argc, char **argv)
{
    struct chat_format format;
    struct file file = { 0 }, data = { 0 };
    const char *name = argc > 1 ? argv[1] : "chatml";
    if (!chat_format_built_in(&format, name)) {
        TRY(file_open(&file, name));
        TRY(chat_format_read(&format, arena, file.text, name, NULL));
    }
    const struct template *template;
    TRY(template_compile(&template, arena, format.source, name));
    if (argc > 2)
        TRY(file_open(&data, argv[2]));
    struct text rows = argc > 2 ? data.text : make_rows(arena), rest = rows, first;
    struct record_schema schema;
    text_next(&rest, '\n', &first);
    TRY(record_detect(&schema, arena, &first, 1, RECORD_AUTO, TEXT("")));
    printf("%s; template %s\n", schema.sentence, name);
    struct tally reading = { 0 };
    TRY(pass(&reading, rows, &schema, NULL));
    report("read rows", &reading, 0);
    for (int labels = CHAT_ALL; labels <= CHAT_COMPLETION; labels++) {
        struct chat chat;
        struct tally whole = { 0 };
        TRY(chat_init(&chat,
                      &(struct chat_settings){ .template = template,
                                               .bos = format.bos,
                                               .eos = format.eos,
                                               .tokens = format.tokens,
                                               .labels = (enum chat_labels)labels,
                                               .date = { .year = 2026, .month = 1, .day = 1 } }));
        TRY(pass(&whole, rows, &schema, &chat));
        char label[40];
        snprintf(label, sizeof label, "render, labels %s", chat_label_names[labels]);
        report(label, &whole, reading.seconds);
        snprintf(label, sizeof label, "read and render, %s", chat_label_names[labels]);
        report(label, &whole, 0);
        chat_release(&chat);
    }
    file_close(&file);
    file_close(&data);
    return OK;
}

int main(int argc, char **argv)
{
    struct arena arena = { 0 };
    enum err err = run(&arena, argc, argv);
    if (err)
        fprintf(stderr, "bench_chat: %s\n", error_text());
    arena_release(&arena);
    return (int)err;
}
