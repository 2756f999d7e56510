// example: rows of a dataset as examples of tokens, counted as a trainer would see them.
//
//     TRY(example_detect(&schema, arena, &rows, names, name_count, RECORD_AUTO, fields));
//     struct example_worker worker = { .rule = &rule };
//     for (struct text row; lines_next(&rows, &row);)
//         TRY(example_read(&worker, &record, &table, &rows, row)) …
//         TRY(chat_render(&worker.chat, &text, &record.sequences[i]));
//         example_count(&worker, &example, &text);
//
// A rule says how text becomes tokens: the model's own tokenizer and template, or the built-in
// vocabulary times the factor of the model's family. It is shared by threads; each has a worker.
// The program reads files around this, the page what was dropped onto it.

#pragma once

#include "base/lines.h"
#include "core/data/chat.h"
#include "core/data/chat_format.h"
#include "core/tokenizer/tokenizer.h"

struct example_rule {
    struct tokenizer *tokenizer;
    const char *tokenizer_name;
    bool exact;                // else counted by the built-in vocabulary, times the family's factor
    double factor, spread;     // of an estimate; 1 and 0 of exact counts
    const char *template_name; // NULL: none
    struct chat_settings chat;
};

// Estimates instead: the built-in vocabulary, and a template of the model's family.
enum err example_rule_estimate(struct example_rule *rule, struct arena *arena,
                               struct chat_format *format, const char *model);

// Compiles the format's template, if it has one, and names it so that two are told apart.
enum err example_rule_format(struct example_rule *rule, struct arena *arena,
                             const struct chat_format *format);

struct example {
    const char *file;
    int64_t line;
    int64_t tokens, labelled;
    int64_t text_bytes;
    uint64_t hash;       // of the text
    const char *problem; // NULL, or why the row cannot be used
    bool is_second;      // of the same row
    bool is_empty;       // nothing but what template and tokenizer put around it
    const int32_t *ids;  // tokens of them; NULL unless asked for
    const uint8_t *learned;
};

struct example_table { // what the rows of a file are
    const struct record_schema *schema;
    const struct text *names; // CSV: the header's cells
    size_t name_count;
};

// From the first rows, or of CSV from the names of the columns.
enum err example_detect(struct record_schema *out, struct arena *arena, const struct lines *rows,
                        const struct example_table *table, enum record_format format,
                        struct text fields);

struct example_worker {
    const struct example_rule *rule;
    struct chat chat;
    struct tokenizer_cache *cache;
    struct tokenizer_span *spans; // of one text
    size_t span_room;
    struct arena kept;
};

enum err example_worker_init(struct example_worker *worker, const struct example_rule *rule);
void example_worker_release(struct example_worker *worker); // accepts a zeroed one

enum err example_read(struct record *out, struct arena *arena, const struct example_table *table,
                      const struct lines *rows, struct text row);
bool example_is_empty(const struct record_sequence *sequence);
bool example_labels_all(const struct chat_text *text); // the tokens around the text too

// Fills in tokens, labelled, text_bytes and hash.
void example_count(struct example_worker *worker, struct example *out,
                   const struct chat_text *text);
uint64_t example_hash(struct text text); // 64 bits that tell texts apart
