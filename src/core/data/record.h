// SPDX-License-Identifier: Apache-2.0
// record: reads one row of a dataset, in any common format, into messages or text.
//
//     struct record_schema schema;
//     TRY(record_detect(&schema, arena, rows, count));     // schema.sentence describes it
//     struct record record;
//     TRY(record_read(&record, &schema, arena, line));     // its sequences
//
// A row is a JSON object, or named columns of text in which nested values are JSON text. A row that
// does not match its schema is ERR_INPUT with the reason; the caller adds file and line. Strings
// are views of the row or live in the arena, which the caller rewinds from row to row.

#pragma once

#include "core/data/census.h"
#include "core/template/template_value.h"
#include "core/vision/image.h"

enum record_format {
    RECORD_AUTO,
    RECORD_MESSAGES,   // messages: a list of role and content
    RECORD_SHAREGPT,   // conversations: a list of from and value
    RECORD_ALPACA,     // instruction, input, output
    RECORD_COMPLETION, // prompt and completion, strings or lists of messages
    RECORD_QUESTION,   // question and answer
    RECORD_TEXT,       // text
    RECORD_PREFERENCE, // chosen and rejected, with or without prompt: two sequences
    RECORD_PROMPT,     // prompt alone, to which a policy answers (RL)
    RECORD_TREE,       // prompt: a message with its replies, and so on; a sequence for each thread
    RECORD_FORMATS,
    RECORD_CSV =
        RECORD_FORMATS, // no shape of rows: the data is CSV, and its columns tell the shape
};
extern const char *const record_format_names[]; // by format, ended by NULL

// What a column is that says of each answer whether it is a good one, true or false, or 1 or 0:
// rows of KTO. It changes no token, so that no row is read for it.
#define RECORD_VERDICT "label"

enum record_field {
    RECORD_F_MESSAGES,
    RECORD_F_TOOLS,
    RECORD_F_SYSTEM,
    RECORD_F_INSTRUCTION,
    RECORD_F_INPUT,
    RECORD_F_OUTPUT,
    RECORD_F_HISTORY,
    RECORD_F_PROMPT,
    RECORD_F_COMPLETION,
    RECORD_F_TEXT,
    RECORD_F_CHOSEN,
    RECORD_F_REJECTED,
    RECORD_F_MEDIA,
    RECORD_FIELDS,
};

// A column of the data, and the share of the text bytes that it holds: in the first rows, and where
// there is a census in all.
struct record_column {
    const char *name;
    const char *part; // what it is read as; NULL: not used
    double share;
    bool is_text;
};

struct record_schema {
    enum record_format format;
    struct text columns[RECORD_FIELDS]; // the column of each part; .at NULL if there is none
    bool by_name[RECORD_FIELDS];        // optional: any usual name of the part, in each row
    bool nested;                        // some of them are keys within an object: "data.messages"
    const char *sentence;               // for people: the format and its columns
    struct record_column *all;
    size_t count;
    struct census *census; // counts the columns of each row that is read; NULL: nobody asked
};

enum record_kind {
    RECORD_CHAT,        // messages
    RECORD_PAIR,        // prompt and completion
    RECORD_INSTRUCTION, // the same with an optional input, for an instruction prompt
    RECORD_PLAIN,       // text: prompt (if the answers of a pair begin alike), then completion
};

// Where an image of a row is.
enum record_image_kind {
    RECORD_IMAGE_UNKNOWN, // the row does not say
    RECORD_IMAGE_FILE,    // a path
    RECORD_IMAGE_REMOTE,  // an address
    RECORD_IMAGE_BASE64,  // its bytes, in the row
    RECORD_IMAGE_ESCAPED, // the same, as DuckDB writes bytes: \x89PNG\x0D
};

struct record_image {
    enum record_image_kind kind;
    struct text source;
};

// The size of an image whose bytes are in the row.
enum err record_image_size(struct image_size *out, const struct record_image *image);

struct record_sequence {
    enum record_kind kind;
    struct template_value messages; // a list of dicts
    size_t prompt_count;            // messages of the prompt; 0 if the row does not say
    struct template_value tools;    // a list, or none
    struct text system, prompt, input, completion;
    bool is_prompt; // there is no answer: the generation prompt follows, nothing carries loss
    bool has_media; // images, video or sound
    bool has_other; // video or sound
    const struct record_image *images;
    size_t image_count;
};

struct record {
    struct record_sequence *sequences; // of a pair, the second is the rejected answer
    int count;
};

// Detects the format from the first rows (JSON objects). If a format is given, only its columns are
// searched. fields ("instruction=query,output=reply") assigns columns explicitly; it may be empty.
enum err record_detect(struct record_schema *out, struct arena *arena, const struct text *rows,
                       size_t count, enum record_format format, struct text fields);

// The same for a table, from its column names and the cells of its first rows (row after row).
enum err record_detect_columns(struct record_schema *out, struct arena *arena,
                               const struct text *names, size_t count, const struct text *cells,
                               size_t rows, enum record_format format, struct text fields);

// Whether rows read as the schema says need this column of a table.
bool record_needs(const struct record_schema *schema, struct text name);

// The way out of text in another encoding, for the end of an error.
#define RECORD_CONVERT "; convert the file (one from Windows: iconv -f windows-1252 -t utf-8)"

enum err record_read(struct record *out, const struct record_schema *schema, struct arena *arena,
                     struct text row);
enum err record_from_messages(struct record *out, const struct record_schema *schema,
                              struct arena *arena, struct template_value messages);
enum err record_read_columns(struct record *out, const struct record_schema *schema,
                             struct arena *arena, const struct text *names,
                             const struct text *cells, size_t count);
