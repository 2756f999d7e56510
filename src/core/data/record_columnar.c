// SPDX-License-Identifier: Apache-2.0
// Recognises a whole table that was written as one object and would count as one row.

#include "core/data/record_internal.h"

#include <ctype.h>

// What the values of an object are, as far as it tells a table from a row.
struct survey {
    size_t keys;     // of the object
    size_t objects;  // of its values
    size_t lists;    // of its values, none of whose items are objects: objects are messages
    size_t most;     // items of the longest list
    size_t fewest;   // items of the shortest
    bool is_indexed; // all keys are numbers
};

static bool is_number(struct text key)
{
    for (size_t i = 0; i < key.size; i++)
        if (!isdigit((unsigned char)key.at[i]))
            return false;
    return key.size > 0;
}

static void survey_list(struct survey *out, struct json_reader in)
{
    size_t items = 0;
    for (json_array(&in); json_item(&in); json_skip(&in), items++)
        if (json_peek(&in) == JSON_OBJECT)
            return;
    out->most = items > out->most ? items : out->most;
    out->fewest = items < out->fewest || !out->lists ? items : out->fewest;
    out->lists++;
}

static struct survey survey_of(struct arena *arena, struct text object)
{
    struct survey out = { .is_indexed = true };
    struct json_reader in = json_reader(object);
    struct text key;
    if (json_peek(&in) != JSON_OBJECT)
        return (struct survey){ 0 };
    for (json_object(&in); json_key(&in, arena, &key); json_skip(&in), out.keys++) {
        out.is_indexed = out.is_indexed && is_number(key);
        out.objects += json_peek(&in) == JSON_OBJECT;
        if (json_peek(&in) == JSON_ARRAY)
            survey_list(&out, in);
    }
    out.is_indexed = out.is_indexed && out.keys;
    return in.problem ? (struct survey){ 0 } : out;
}

// Whether every value of an object is an object whose keys are numbers, the same count in each.
static bool has_indexed_columns(struct arena *arena, struct text object)
{
    struct json_reader in = json_reader(object);
    struct text key;
    size_t rows = 0;
    for (json_object(&in); json_key(&in, arena, &key);) {
        struct survey column = survey_of(arena, json_skip(&in));
        if (!column.is_indexed || (rows && column.keys != rows))
            return false;
        rows = column.keys;
    }
    return rows > 0;
}

// Whether an object has a key with a value of this kind, and "data" with a list.
static bool has_data_beside(struct arena *arena, struct text object, const char *name,
                            enum json_kind kind)
{
    struct json_reader in = json_reader(object);
    struct text key;
    bool has_name = false, has_data = false;
    for (json_object(&in); json_key(&in, arena, &key); json_skip(&in)) {
        has_name = has_name || (text_is(key, name) && json_peek(&in) == kind);
        has_data = has_data || (text_is(key, "data") && json_peek(&in) == JSON_ARRAY);
    }
    return has_name && has_data;
}

// A conversation may be a list of strings. A text is one string: where every column is a list, and
// all are as long, they are the rows.
static bool has_list_columns(const struct survey *survey, enum record_format format)
{
    bool of_strings = format == RECORD_ALPACA || format == RECORD_COMPLETION ||
                      format == RECORD_QUESTION || format == RECORD_TEXT ||
                      format == RECORD_PREFERENCE || format == RECORD_PROMPT;
    return of_strings && survey->lists == survey->keys && survey->most > 1 &&
           survey->most == survey->fewest;
}

// How a table is laid out in an object, column by column; NULL: it is not.
static const char *layout_of(struct arena *arena, struct text object, enum record_format format)
{
    struct survey survey = survey_of(arena, object);
    if (!survey.keys)
        return NULL;
    if (has_indexed_columns(arena, object))
        return "each column an object of numbered values (pandas' to_json without orient)";
    if (survey.is_indexed && survey.objects == survey.keys)
        return "an object of numbered rows (pandas' orient=\"index\")";
    if (has_data_beside(arena, object, "columns", JSON_ARRAY))
        return "columns and data apart (pandas' orient=\"split\")";
    if (has_data_beside(arena, object, "schema", JSON_OBJECT))
        return "schema and data apart (pandas' orient=\"table\")";
    if (has_list_columns(&survey, format))
        return "each column a list of its values";
    return NULL;
}

// The first key whose value is a list of objects; .at NULL: there is none.
static struct text key_of_rows(struct arena *arena, struct text object)
{
    struct json_reader in = json_reader(object);
    struct text key;
    if (json_peek(&in) != JSON_OBJECT)
        return (struct text){ 0 };
    for (json_object(&in); json_key(&in, arena, &key); json_skip(&in)) {
        struct json_reader list = in;
        if (json_peek(&in) != JSON_ARRAY)
            continue;
        json_array(&list);
        if (json_item(&list) && json_peek(&list) == JSON_OBJECT)
            return key;
    }
    return (struct text){ 0 };
}

enum err record_refuse_table(struct arena *arena, struct text object, enum record_format format)
{
    const char *layout = layout_of(arena, object, format);
    struct text key = format || layout ? (struct text){ 0 } : key_of_rows(arena, object);
    if (layout)
        return fail(ERR_INPUT,
                    "is one object that holds a whole table, %s; write each row on a line of its "
                    "own, df.to_json(\"rows.jsonl\", orient=\"records\", lines=True); if it is a "
                    "single row, --format reads it as one",
                    layout);
    if (key.at)
        return fail(
            ERR_INPUT,
            "is one object with a list under \"%.*s\"; if that holds the rows, write each on "
            "a line of its own: jq -c '.[\"%.*s\"][]'; if it is a single row, --format and "
            "--fields say how to read it",
            TEXT_BRIEF(key), TEXT_BRIEF(key));
    return OK;
}
