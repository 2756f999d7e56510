// SPDX-License-Identifier: Apache-2.0
// example: reads the rows of a dataset and counts their tokens as a trainer would.
//
//     TRY(example_detect(&schema, arena, &rows, names, name_count, RECORD_AUTO, fields));
//     struct example_worker worker = { .rule = &rule };
//     for (struct text row; lines_next(&rows, &row);)
//         TRY(example_read(&worker, &record, &table, &rows, row)) …
//         TRY(chat_render(&worker.chat, &text, &record.sequences[i]));
//         example_count(&worker, &example, &text);
//
// A rule says how text becomes tokens: with the model's own tokenizer and template, or with the
// built-in estimate for the model's family. Threads share a rule; each has a
// worker of its own. The command line reads files through this, the web page dropped files.

#pragma once

#include "base/lines.h"
#include "core/data/chat.h"
#include "core/data/chat_format.h"
#include "core/tokenizer/tokenizer.h"
#include "core/vision/vision.h"

// Reads the size of an image file; folder is that of the data.
typedef enum err example_image_file(struct image_size *out, struct arena *arena, const char *folder,
                                    struct text path);

struct example_rule {
    struct tokenizer *tokenizer;
    struct tokenizer_words *words; // shared by the workers; NULL: there is one
    const char *tokenizer_name;
    bool exact;                            // false: estimated for the family
    const struct tokenizer_family *family; // of an estimate
    const char *template_name;             // NULL: none
    struct chat_settings chat;
    const struct vision *vision;   // how the model reads images; NULL: they are not counted
    struct image_size image_size;  // of all images; 0: as their files have it
    int64_t image_max_pixels;      // to which a trainer shrinks images; 0: it does not
    example_image_file *read_file; // NULL: no file can be opened
};

// The built-in template of the model's family: "llama3", else "chatml".
enum err example_family_template(const char **out, struct arena *arena, const char *model);

// Without the model's tokenizer: the built-in vocabulary, and the template of the model's family.
enum err example_rule_estimate(struct example_rule *rule, struct arena *arena,
                               struct chat_format *format, const char *model);

// Compiles the format's template, if it has one, and gives it a name unique to its text. Prompt and
// completion strings stay without template, as in TRL; chat.raw_pairs = false for other trainers.
enum err example_rule_format(struct example_rule *rule, struct arena *arena,
                             const struct chat_format *format);

struct example {
    const char *file;
    int64_t line;
    int64_t tokens, labelled;
    int64_t doubt; // of the tokens, if they are an estimate: their deviation × TOKENIZER_DOUBT
    int64_t text_bytes;
    uint64_t hash;             // of the text
    uint64_t later_hash;       // of one that comes soon, so that memory can be asked ahead; 0: none
    const char *problem;       // NULL, or why the row cannot be used
    bool is_second;            // not the first of its row: the rejected answer, another thread
    bool is_empty;             // no text except what template and tokenizer add
    int adapted, left_out;     // enum chat_part: written as text; not rendered
    bool has_media;            // images, video or sound, whose tokens are not counted
    struct vision_load images; // counted among the tokens
    const int32_t *ids;        // one per token; NULL unless requested
    const uint8_t *learned;
};

struct example_table { // how the rows of a file are read
    const struct record_schema *schema;
    const struct text *names; // CSV: the header's cells
    size_t name_count;
};

// Detects the format from the first rows; for CSV, from the column names.
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
    const char *folder; // of the data file; NULL: unknown
};

enum err example_worker_init(struct example_worker *worker, const struct example_rule *rule);
void example_worker_release(struct example_worker *worker); // a zeroed one is fine

enum err example_read(struct record *out, struct arena *arena, const struct example_table *table,
                      const struct lines *rows, struct text row);
bool example_is_empty(const struct record_sequence *sequence);
bool example_labels_all(const struct chat_text *text); // then special tokens carry loss too

// Fills in tokens, labelled, text_bytes and hash.
void example_count(struct example_worker *worker, struct example *out,
                   const struct chat_text *text);
// The same where all tokens carry loss and nothing else has to know their number at once: true, and
// *tokens has the number after example_finish(). Counting many texts together is faster.
bool example_count_later(struct example_worker *worker, struct example *out,
                         const struct chat_text *text, int64_t *tokens);
void example_finish(struct example_worker *worker);

// Adds the images of a row to its tokens, in place of what stands for them in the text. Call it
// after example_count(). ERR_INPUT if a size is needed and not known.
enum err example_images(struct example_worker *worker, struct example *example,
                        const struct chat_text *text);
uint64_t example_hash(struct text text); // to find duplicates
