// SPDX-License-Identifier: Apache-2.0
// Detects the format of a dataset from the columns of its first rows.

#include "core/data/record.h"

#include <string.h>

enum { COLUMNS = 64, ROWS = 20 };

const char *const record_format_names[] = { "auto",   "messages",          "sharegpt",
                                            "alpaca", "prompt-completion", "question-answer",
                                            "text",   "preference",        NULL };

static const char *const field_names[RECORD_FIELDS] = {
    "messages", "tools",  "system",     "instruction", "input",  "output",
    "history",  "prompt", "completion", "text",        "chosen", "rejected",
};

// Column names of each part, in order of preference.
static const char *const spellings[RECORD_FIELDS][6] = {
    { "messages", "conversations", "conversation" },
    { "tools", "functions" },
    { "system", "system_prompt" },
    { "instruction" },
    { "input" },
    { "output", "response" },
    { "history" },
    { "prompt" },
    { "completion", "response" },
    { "text", "content" },
    { "chosen" },
    { "rejected" },
};

// Pairs of columns that hold a prompt and its completion.
static const struct {
    const char *prompt, *completion;
    enum record_format format;
} pairs[] = {
    { "prompt", "completion", RECORD_COMPLETION }, { "prompt", "response", RECORD_COMPLETION },
    { "question", "answer", RECORD_QUESTION },     { "question", "response", RECORD_QUESTION },
    { "query", "response", RECORD_QUESTION },      { "query", "answer", RECORD_QUESTION },
    { "input", "output", RECORD_COMPLETION },      { "prompt", "answer", RECORD_COMPLETION },
};

struct column {
    struct text name;
    bool has_from; // a list of objects with the key "from" (ShareGPT)
};

struct columns {
    struct column items[COLUMNS];
    size_t count;
};

static const struct column *find(const struct columns *columns, const char *name)
{
    for (size_t i = 0; i < columns->count; i++)
        if (text_is(columns->items[i].name, name))
            return &columns->items[i];
    return NULL;
}

// Whether the first object of a list has the key "from".
static bool is_sharegpt(struct text value, struct arena *arena)
{
    struct json_reader in = json_reader(value);
    struct text key;
    if (json_peek(&in) != JSON_ARRAY)
        return false;
    json_array(&in);
    if (!json_item(&in) || json_peek(&in) != JSON_OBJECT)
        return false;
    for (json_object(&in); json_key(&in, arena, &key); json_skip(&in))
        if (text_is(key, "from"))
            return true;
    return false;
}

static void note(struct columns *columns, struct text name, bool has_from)
{
    for (size_t i = 0; i < columns->count; i++)
        if (text_equal(columns->items[i].name, name)) {
            columns->items[i].has_from = columns->items[i].has_from || has_from;
            return;
        }
    if (columns->count < COLUMNS)
        columns->items[columns->count++] = (struct column){ name, has_from };
}

static void inspect_row(struct columns *columns, struct arena *arena, struct text row)
{
    struct json_reader in = json_reader(row);
    struct text key;
    if (json_peek(&in) != JSON_OBJECT)
        return;
    for (json_object(&in); json_key(&in, arena, &key);) {
        struct text value = json_skip(&in);
        note(columns, key, !in.problem && is_sharegpt(value, arena));
    }
}

static enum record_format guess(const struct columns *columns)
{
    if (find(columns, "chosen") && find(columns, "rejected"))
        return RECORD_PREFERENCE;
    for (int i = 0; spellings[RECORD_F_MESSAGES][i]; i++) {
        const struct column *column = find(columns, spellings[RECORD_F_MESSAGES][i]);
        if (column)
            return column->has_from ? RECORD_SHAREGPT : RECORD_MESSAGES;
    }
    if (find(columns, "instruction") && (find(columns, "output") || find(columns, "response")))
        return RECORD_ALPACA;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (find(columns, pairs[i].prompt) && find(columns, pairs[i].completion))
            return pairs[i].format;
    return find(columns, "text") || find(columns, "content") ? RECORD_TEXT : RECORD_AUTO;
}

static void choose_columns(struct record_schema *schema, const struct columns *columns)
{
    for (int field = 0; field < RECORD_FIELDS; field++)
        for (int i = 0; spellings[field][i] && !schema->columns[field].at; i++) {
            const struct column *column = find(columns, spellings[field][i]);
            if (column)
                schema->columns[field] = column->name;
        }
    bool paired = schema->format == RECORD_COMPLETION || schema->format == RECORD_QUESTION;
    for (size_t i = 0; paired && i < sizeof pairs / sizeof *pairs; i++) {
        const struct column *prompt = find(columns, pairs[i].prompt);
        const struct column *completion = find(columns, pairs[i].completion);
        if (!prompt || !completion || pairs[i].format != schema->format)
            continue;
        schema->columns[RECORD_F_PROMPT] = prompt->name;
        schema->columns[RECORD_F_COMPLETION] = completion->name;
        return;
    }
}

// The parts that each format reads; the first `needed` of them are required.
static const struct {
    int needed, count;
    enum record_field parts[6];
} uses[RECORD_FORMATS] = {
    [RECORD_MESSAGES] = { 1, 3, { RECORD_F_MESSAGES, RECORD_F_TOOLS, RECORD_F_SYSTEM } },
    [RECORD_SHAREGPT] = { 1, 3, { RECORD_F_MESSAGES, RECORD_F_TOOLS, RECORD_F_SYSTEM } },
    [RECORD_ALPACA] = { 2,
                        5,
                        { RECORD_F_INSTRUCTION, RECORD_F_OUTPUT, RECORD_F_INPUT, RECORD_F_SYSTEM,
                          RECORD_F_HISTORY } },
    [RECORD_COMPLETION] = { 2,
                            4,
                            { RECORD_F_PROMPT, RECORD_F_COMPLETION, RECORD_F_TOOLS,
                              RECORD_F_SYSTEM } },
    [RECORD_QUESTION] = { 2, 3, { RECORD_F_PROMPT, RECORD_F_COMPLETION, RECORD_F_SYSTEM } },
    [RECORD_TEXT] = { 1, 1, { RECORD_F_TEXT } },
    [RECORD_PREFERENCE] = { 2,
                            6,
                            { RECORD_F_CHOSEN, RECORD_F_REJECTED, RECORD_F_PROMPT,
                              RECORD_F_MESSAGES, RECORD_F_TOOLS, RECORD_F_SYSTEM } },
};

static const char *list_columns(struct arena *arena, const struct columns *columns)
{
    struct out out = { .arena = arena };
    for (size_t i = 0; i < columns->count && i < 12; i++)
        out_put(&out, "%s%.*s", i ? ", " : "", TEXT_ARGS(columns->items[i].name));
    if (columns->count > 12)
        out_put(&out, " and %zu more", columns->count - 12);
    return columns->count ? out_string(&out) : "none";
}

static enum err complete(struct record_schema *schema, struct arena *arena,
                         const struct columns *columns)
{
    struct out out = { .arena = arena };
    struct text named[RECORD_FIELDS];
    memcpy(named, schema->columns, sizeof named);
    memset(schema->columns, 0, sizeof schema->columns);
    out_put(&out, "%s:", record_format_names[schema->format]);
    for (int i = 0; i < uses[schema->format].count; i++) {
        enum record_field part = uses[schema->format].parts[i];
        if (!named[part].at && i < uses[schema->format].needed)
            return fail(ERR_INPUT,
                        "format %s needs a column for %s, but the rows have %s; name it with "
                        "--fields %s=COLUMN",
                        record_format_names[schema->format], field_names[part],
                        list_columns(arena, columns), field_names[part]);
        if (!named[part].at)
            continue;
        schema->columns[part] = (struct text){ text_copy(arena, named[part]), named[part].size };
        out_put(&out, "%s %s from \"%.*s\"", i ? "," : "", field_names[part],
                TEXT_ARGS(named[part]));
    }
    schema->sentence = out_string(&out);
    return OK;
}

static enum err read_fields(struct record_schema *schema, struct text fields)
{
    struct text pair;
    while (fields.size && text_next(&fields, ',', &pair)) {
        const char *equals = memchr(pair.at, '=', pair.size);
        int field = RECORD_FIELDS;
        struct text name =
            text_trim((struct text){ pair.at, equals ? (size_t)(equals - pair.at) : 0 });
        for (int i = 0; i < RECORD_FIELDS; i++)
            if (text_is(name, field_names[i]))
                field = i;
        if (text_is(name, "question") || text_is(name, "answer"))
            field = name.at[0] == 'q' ? RECORD_F_PROMPT : RECORD_F_COMPLETION;
        if (text_is(name, "conversations"))
            field = RECORD_F_MESSAGES;
        if (text_is(name, "response"))
            field = RECORD_F_OUTPUT;
        if (field == RECORD_FIELDS)
            return fail(ERR_USAGE,
                        "--fields has %.*s; it needs PART=COLUMN, where PART is messages, tools, "
                        "system, instruction, input, output, history, prompt, completion, text, "
                        "chosen or rejected",
                        TEXT_ARGS(pair));
        size_t after = (size_t)(equals + 1 - pair.at);
        schema->columns[field] = text_trim((struct text){ equals + 1, pair.size - after });
    }
    return OK;
}

// Guesses the format from the columns found and those named with --fields.
static enum record_format guess_from_fields(const struct record_schema *schema,
                                            const struct columns *columns)
{
    struct columns all = *columns;
    for (int i = 0; i < RECORD_FIELDS; i++)
        if (schema->columns[i].at)
            note(&all, text_of(field_names[i]),
                 i == RECORD_F_MESSAGES && all.count && find(columns, "conversations") &&
                     find(columns, "conversations")->has_from);
    for (size_t i = 0; i < columns->count; i++)
        if (schema->columns[RECORD_F_MESSAGES].at &&
            text_equal(schema->columns[RECORD_F_MESSAGES], columns->items[i].name))
            return columns->items[i].has_from ? RECORD_SHAREGPT : RECORD_MESSAGES;
    return guess(&all);
}

static enum err decide(struct record_schema *out, struct arena *arena,
                       const struct columns *columns, enum record_format format, struct text fields)
{
    *out = (struct record_schema){ .format = format };
    TRY(read_fields(out, fields));
    if (!format)
        out->format = guess_from_fields(out, columns);
    if (!out->format)
        return fail(ERR_INPUT,
                    "the columns %s match no known format; give --format "
                    "messages, sharegpt, alpaca, prompt-completion, question-answer, text or "
                    "preference, and --fields PART=COLUMN",
                    list_columns(arena, columns));
    struct text named[RECORD_FIELDS];
    memcpy(named, out->columns, sizeof named);
    choose_columns(out, columns);
    for (int i = 0; i < RECORD_FIELDS; i++)
        if (named[i].at)
            out->columns[i] = named[i];
    return complete(out, arena, columns);
}

enum err record_detect(struct record_schema *out, struct arena *arena, const struct text *rows,
                       size_t count, enum record_format format, struct text fields)
{
    struct columns columns = { 0 };
    for (size_t i = 0; i < count && i < ROWS; i++)
        inspect_row(&columns, arena, rows[i]);
    return decide(out, arena, &columns, format, fields);
}

enum err record_detect_columns(struct record_schema *out, struct arena *arena,
                               const struct text *names, size_t count, enum record_format format,
                               struct text fields)
{
    struct columns columns = { 0 };
    for (size_t i = 0; i < count; i++)
        note(&columns, names[i], false);
    return decide(out, arena, &columns, format, fields);
}
