// record: one row of a dataset, in any of the usual shapes, as messages or text.
//
//     struct record_schema schema;
//     TRY(record_detect(&schema, arena, rows, count));     // says what it found in schema.sentence
//     struct record record;
//     TRY(record_read(&record, &schema, arena, line));     // one or two sequences
//
// A row is a JSON object, or named columns of text whose nested values are JSON text. A row that
// does not fit its schema is ERR_INPUT with the reason; the caller knows file and line. Strings
// are views of the row or live in the arena, which the caller rewinds from row to row.

#pragma once

#include "core/template/template_value.h"

enum record_format {
    RECORD_AUTO,
    RECORD_MESSAGES,   // messages: a list of role and content
    RECORD_SHAREGPT,   // conversations: a list of from and value
    RECORD_ALPACA,     // instruction, input, output
    RECORD_COMPLETION, // prompt and completion, strings or lists of messages
    RECORD_QUESTION,   // question and answer
    RECORD_TEXT,       // text
    RECORD_PREFERENCE, // chosen and rejected, with or without prompt: two sequences
    RECORD_FORMATS,
};
extern const char *const record_format_names[]; // by format, ended by NULL

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
    RECORD_FIELDS,
};

struct record_schema {
    enum record_format format;
    struct text columns[RECORD_FIELDS]; // the column that plays each part; .at NULL for none
    const char *sentence;               // for people: what is read and from where
};

enum record_kind {
    RECORD_CHAT,        // messages
    RECORD_PAIR,        // prompt and completion
    RECORD_INSTRUCTION, // the same, written for an instruction prompt with an optional input
    RECORD_PLAIN,       // completion holds all
};

struct record_sequence {
    enum record_kind kind;
    struct template_value messages; // a list of dicts
    size_t prompt_count;            // of the messages; 0 where the row draws no line
    struct template_value tools;    // a list, or none
    struct text system, prompt, input, completion;
};

struct record {
    struct record_sequence sequences[2]; // the second is the rejected one of a pair
    int count;
};

// Looks at the first rows (JSON objects) and decides. A format given is kept and only its columns
// are looked for; fields ("instruction=query,output=reply") name columns by hand and may be empty.
enum err record_detect(struct record_schema *out, struct arena *arena, const struct text *rows,
                       size_t count, enum record_format format, struct text fields);

// The same for a table, from the names of its columns.
enum err record_detect_columns(struct record_schema *out, struct arena *arena,
                               const struct text *names, size_t count, enum record_format format,
                               struct text fields);

enum err record_read(struct record *out, const struct record_schema *schema, struct arena *arena,
                     struct text row);
enum err record_from_messages(struct record *out, const struct record_schema *schema,
                              struct arena *arena, struct template_value messages);
enum err record_read_columns(struct record *out, const struct record_schema *schema,
                             struct arena *arena, const struct text *names,
                             const struct text *cells, size_t count);
