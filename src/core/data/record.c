// SPDX-License-Identifier: Apache-2.0
// Reads a row into messages or text, as its schema says. record_detect.c finds the schema.

#include "core/data/record.h"

#include "base/unicode.h"

#include <string.h>

struct row {
    struct arena *arena;
    struct template_value fields[RECORD_FIELDS];
    const struct record_schema *schema;
};

static const struct template_value none = { .kind = TEMPLATE_NONE };

static bool is_text(struct template_value value)
{
    return value.kind == TEMPLATE_STRING;
}

static bool is_list(struct template_value value)
{
    return value.kind == TEMPLATE_LIST;
}

static enum err wrong_kind(const struct row *row, enum record_field field, const char *wanted)
{
    return fail(ERR_INPUT, "\"%.*s\" is a %s; it must be %s",
                TEXT_ARGS(row->schema->columns[field]),
                template_value_kind_name(row->fields[field]), wanted);
}

static enum err text_field(struct text *out, const struct row *row, enum record_field field,
                           bool needed)
{
    struct template_value value = row->fields[field];
    *out = TEXT("");
    if (is_text(value)) {
        *out = value.string;
        return OK;
    }
    if (value.kind == TEMPLATE_NONE && !needed)
        return OK;
    if (value.kind == TEMPLATE_NONE)
        return fail(ERR_INPUT, "has no \"%.*s\"", TEXT_ARGS(row->schema->columns[field]));
    return wrong_kind(row, field, "a string");
}

// --- messages ----------------------------------------------------------------

static struct template_value string_of(const char *literal)
{
    return template_value_string(text_of(literal));
}

static struct template_value message_of(struct arena *arena, struct text role, struct text content)
{
    struct template_value message = template_value_dict(arena, 2);
    struct template_entry *entries = message.dict->entries;
    entries[0] = (struct template_entry){ string_of("role"), template_value_string(role) };
    entries[1] = (struct template_entry){ string_of("content"), template_value_string(content) };
    message.dict->count = 2;
    return message;
}

static void put(struct arena *arena, struct template_value message, const char *key,
                struct template_value value)
{
    template_value_put(arena, message.dict, string_of(key), value);
}

// Converts {"name", "arguments"}, or a list of them, from JSON text or values, to the form that
// templates expect.
static struct template_value tool_calls_of(struct arena *arena, struct template_value calls)
{
    struct template_value list = template_value_list(arena, TEMPLATE_PLAIN, 1);
    struct template_value parsed;
    if (is_text(calls)) {
        if (template_value_read(&parsed, arena, calls.string, "call"))
            return none;
        calls = parsed;
    }
    size_t count = is_list(calls) ? calls.list->count : 1;
    for (size_t i = 0; i < count; i++) {
        struct template_value call = is_list(calls) ? calls.list->items[i] : calls;
        if (call.kind != TEMPLATE_DICT)
            return none;
        if (!template_value_find(call.dict, TEXT("function"))) {
            struct template_value outer = template_value_dict(arena, 2);
            put(arena, outer, "type", string_of("function"));
            put(arena, outer, "function", call);
            call = outer;
        }
        template_value_append(arena, list.list, call);
    }
    return list;
}

static struct text joined(struct arena *arena, struct text a, struct text b)
{
    if (!a.size)
        return b;
    char *both = arena_alloc(arena, a.size + b.size + 1);
    memcpy(both, a.at, a.size);
    memcpy(both + a.size, b.at, b.size);
    return (struct text){ both, a.size + b.size };
}

// Converts content in parts: joins text parts, and moves reasoning and tool calls to the keys that
// templates read. False if a part is something else, such as an image; then the list stays as it
// is.
static bool flatten(struct arena *arena, struct template_value message,
                    const struct template_list *parts)
{
    struct text content = TEXT(""), reasoning = TEXT("");
    struct template_value calls = template_value_list(arena, TEMPLATE_PLAIN, 0);
    for (size_t i = 0; i < parts->count; i++) {
        struct template_value part = parts->items[i];
        if (is_text(part)) {
            content = joined(arena, content, part.string);
            continue;
        }
        if (part.kind != TEMPLATE_DICT)
            return false;
        const struct template_value *type = template_value_find(part.dict, TEXT("type"));
        const struct template_value *value = template_value_find(part.dict, TEXT("text"));
        value = value ? value : template_value_find(part.dict, TEXT("value"));
        if (!type || !is_text(*type) || !value || !is_text(*value))
            return false;
        if (text_is(type->string, "text")) {
            content = joined(arena, content, value->string);
        } else if (text_is(type->string, "reasoning") || text_is(type->string, "thinking")) {
            reasoning = joined(arena, reasoning, value->string);
        } else if (text_is(type->string, "tool_call")) {
            struct template_value more = tool_calls_of(arena, *value);
            for (size_t k = 0; is_list(more) && k < more.list->count; k++)
                template_value_append(arena, calls.list, more.list->items[k]);
        } else {
            return false;
        }
    }
    put(arena, message, "content", template_value_string(content));
    if (reasoning.size)
        put(arena, message, "reasoning_content", template_value_string(reasoning));
    if (calls.list->count)
        put(arena, message, "tool_calls", calls);
    return true;
}

static enum err check_message(struct arena *arena, struct template_value message, size_t number)
{
    if (message.kind != TEMPLATE_DICT)
        return fail(ERR_INPUT, "message %zu is a %s; it must be an object with role and content",
                    number, template_value_kind_name(message));
    const struct template_value *role = template_value_find(message.dict, TEXT("role"));
    if (!role || !is_text(*role))
        return fail(ERR_INPUT, "message %zu has no role", number);
    const struct template_value *content = template_value_find(message.dict, TEXT("content"));
    if (!content || is_text(*content) || content->kind == TEMPLATE_NONE)
        return OK;
    if (is_list(*content)) {
        flatten(arena, message, content->list);
        return OK;
    }
    if (content->kind == TEMPLATE_DICT) // what a tool returned
        return OK;
    return fail(ERR_INPUT, "the content of message %zu is a %s; it must be a string or a list",
                number, template_value_kind_name(*content));
}

static const char *role_of_speaker(struct text speaker)
{
    static const char *const roles[][2] = {
        { "human", "user" },
        { "user", "user" },
        { "gpt", "assistant" },
        { "assistant", "assistant" },
        { "chatgpt", "assistant" },
        { "model", "assistant" },
        { "bot", "assistant" },
        { "system", "system" },
        { "observation", "tool" },
        { "tool", "tool" },
        { "function_response", "tool" },
        { "tool_response", "tool" },
        { "function_call", "call" },
        { "tool_call", "call" },
    };
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (text_is(speaker, roles[i][0]))
            return roles[i][1];
    return NULL;
}

static enum err message_from_speaker(struct template_value *out, struct arena *arena,
                                     struct template_value turn, size_t number)
{
    if (turn.kind != TEMPLATE_DICT)
        return fail(ERR_INPUT, "turn %zu is a %s; it must be an object with from and value", number,
                    template_value_kind_name(turn));
    const struct template_value *from = template_value_find(turn.dict, TEXT("from"));
    const struct template_value *value = template_value_find(turn.dict, TEXT("value"));
    if (!from || !value || !is_text(*from) || !is_text(*value))
        return fail(ERR_INPUT, "turn %zu needs a from and a value, both strings", number);
    const char *role = role_of_speaker(from->string);
    if (!role)
        return fail(ERR_INPUT,
                    "turn %zu is from \"%.*s\"; it must be human, gpt, system, function_call or "
                    "observation",
                    number, TEXT_ARGS(from->string));
    if (strcmp(role, "call")) {
        *out = message_of(arena, text_of(role), value->string);
    } else {
        struct template_value calls = tool_calls_of(arena, *value);
        bool readable = is_list(calls);
        *out = message_of(arena, TEXT("assistant"), readable ? TEXT("") : value->string);
        if (readable)
            put(arena, *out, "tool_calls", calls);
    }
    static const char *const weights[] = { "loss_weight", "weight" };
    for (int i = 0; i < 2; i++) {
        const struct template_value *weight = template_value_find(turn.dict, text_of(weights[i]));
        if (weight)
            put(arena, *out, "loss_weight", *weight);
    }
    return OK;
}

// Reads a list of messages (role/content or from/value), a single message, or a string that is the
// content of one.
static enum err messages_of(struct template_value *out, const struct row *row,
                            struct template_value value, const char *role_of_text)
{
    struct arena *arena = row->arena;
    if (is_text(value) && role_of_text) {
        *out = template_value_list(arena, TEMPLATE_PLAIN, 1);
        template_value_append(arena, out->list,
                              message_of(arena, text_of(role_of_text), value.string));
        return OK;
    }
    if (is_text(value)) { // in a table, nested values are JSON text
        struct template_value parsed;
        TRY(template_value_read(&parsed, arena, value.string, "messages"));
        value = parsed;
    }
    if (value.kind == TEMPLATE_DICT) {
        struct template_value list = template_value_list(arena, TEMPLATE_PLAIN, 1);
        template_value_append(arena, list.list, value);
        value = list;
    }
    if (!is_list(value))
        return fail(ERR_INPUT, "messages are a %s; they must be a list",
                    template_value_kind_name(value));
    *out = value;
    for (size_t i = 0; i < value.list->count; i++) {
        struct template_value *message = &value.list->items[i];
        if (message->kind == TEMPLATE_DICT && template_value_find(message->dict, TEXT("from")))
            TRY(message_from_speaker(message, arena, *message, i + 1));
        else
            TRY(check_message(arena, *message, i + 1));
    }
    return OK;
}

// Reads the tools: a list, a list as JSON text, or nothing.
static enum err tools_of(struct template_value *out, const struct row *row)
{
    struct template_value value = row->fields[RECORD_F_TOOLS];
    *out = none;
    if (is_text(value)) {
        struct text text = text_trim(value.string);
        if (!text.size)
            return OK;
        struct template_value parsed;
        if (template_value_read(&parsed, row->arena, text, "tools"))
            return error_prefix(ERR_INPUT, "\"%.*s\" is not valid JSON: ",
                                TEXT_ARGS(row->schema->columns[RECORD_F_TOOLS]));
        value = parsed;
    }
    if (value.kind == TEMPLATE_NONE || (is_list(value) && !value.list->count))
        return OK;
    if (!is_list(value))
        return wrong_kind(row, RECORD_F_TOOLS, "a list, or a list as JSON text");
    *out = value;
    return OK;
}

// --- formats -----------------------------------------------------------------

static enum err read_messages(struct record *out, const struct row *row)
{
    struct record_sequence *sequence = &out->sequences[0];
    struct template_value value = row->fields[RECORD_F_MESSAGES];
    out->count = 1;
    sequence->kind = RECORD_CHAT;
    if (value.kind == TEMPLATE_NONE)
        return fail(ERR_INPUT, "has no \"%.*s\"",
                    TEXT_ARGS(row->schema->columns[RECORD_F_MESSAGES]));
    if (!is_list(value) && !is_text(value))
        return wrong_kind(row, RECORD_F_MESSAGES, "a list; --format text reads plain text");
    TRY(messages_of(&sequence->messages, row, value, NULL));
    TRY(tools_of(&sequence->tools, row));
    if (!sequence->messages.list->count)
        return fail(ERR_INPUT, "\"%.*s\" is an empty list",
                    TEXT_ARGS(row->schema->columns[RECORD_F_MESSAGES]));
    return text_field(&sequence->system, row, RECORD_F_SYSTEM, false);
}

static void append_turn(const struct row *row, struct template_value messages, const char *role,
                        struct text content)
{
    template_value_append(row->arena, messages.list,
                          message_of(row->arena, text_of(role), content));
}

// Reads the earlier turns of an Alpaca row, a list of [question, answer]; the row becomes a chat.
static enum err read_history(struct record_sequence *sequence, const struct row *row)
{
    struct template_value history = row->fields[RECORD_F_HISTORY];
    if (!is_list(history) || !history.list->count)
        return OK;
    struct template_value messages = template_value_list(row->arena, TEMPLATE_PLAIN, 4);
    for (size_t i = 0; i < history.list->count; i++) {
        struct template_value turn = history.list->items[i];
        if (!is_list(turn) || turn.list->count != 2 || !is_text(turn.list->items[0]) ||
            !is_text(turn.list->items[1]))
            return fail(ERR_INPUT, "item %zu of \"%.*s\" must be a pair of strings", i + 1,
                        TEXT_ARGS(row->schema->columns[RECORD_F_HISTORY]));
        append_turn(row, messages, "user", turn.list->items[0].string);
        append_turn(row, messages, "assistant", turn.list->items[1].string);
    }
    struct text prompt = sequence->prompt;
    if (sequence->input.size)
        prompt = joined(row->arena, joined(row->arena, prompt, TEXT("\n")), sequence->input);
    append_turn(row, messages, "user", prompt);
    sequence->prompt_count = messages.list->count;
    append_turn(row, messages, "assistant", sequence->completion);
    sequence->kind = RECORD_CHAT;
    sequence->messages = messages;
    return OK;
}

static enum err read_alpaca(struct record *out, const struct row *row)
{
    struct record_sequence *sequence = &out->sequences[0];
    out->count = 1;
    sequence->kind = RECORD_INSTRUCTION;
    TRY(text_field(&sequence->prompt, row, RECORD_F_INSTRUCTION, true));
    TRY(text_field(&sequence->input, row, RECORD_F_INPUT, false));
    TRY(text_field(&sequence->completion, row, RECORD_F_OUTPUT, true));
    TRY(text_field(&sequence->system, row, RECORD_F_SYSTEM, false));
    return read_history(sequence, row);
}

// Reads a prompt and its answer, as strings or as messages.
static enum err read_turns(struct record_sequence *sequence, const struct row *row,
                           struct template_value prompt, enum record_field answer)
{
    struct template_value completion = row->fields[answer];
    if (completion.kind == TEMPLATE_NONE)
        return fail(ERR_INPUT, "has no \"%.*s\"", TEXT_ARGS(row->schema->columns[answer]));
    TRY(tools_of(&sequence->tools, row));
    TRY(text_field(&sequence->system, row, RECORD_F_SYSTEM, false));
    if (is_text(completion) && (is_text(prompt) || prompt.kind == TEMPLATE_NONE)) {
        sequence->kind = is_text(prompt) ? RECORD_PAIR : RECORD_PLAIN;
        sequence->prompt = is_text(prompt) ? prompt.string : TEXT("");
        sequence->completion = completion.string;
        return OK;
    }
    struct template_value before = template_value_list(row->arena, TEMPLATE_PLAIN, 0), after;
    if (prompt.kind != TEMPLATE_NONE)
        TRY(messages_of(&before, row, prompt, "user"));
    TRY(messages_of(&after, row, completion, "assistant"));
    struct template_value both =
        template_value_list(row->arena, TEMPLATE_PLAIN, before.list->count + after.list->count + 1);
    for (size_t i = 0; i < before.list->count; i++)
        template_value_append(row->arena, both.list, before.list->items[i]);
    for (size_t i = 0; i < after.list->count; i++)
        template_value_append(row->arena, both.list, after.list->items[i]);
    if (!both.list->count)
        return fail(ERR_INPUT, "has no messages");
    sequence->kind = RECORD_CHAT;
    sequence->messages = both;
    sequence->prompt_count = before.list->count;
    return OK;
}

static enum err read_completion(struct record *out, const struct row *row)
{
    out->count = 1;
    if (row->fields[RECORD_F_PROMPT].kind == TEMPLATE_NONE)
        return fail(ERR_INPUT, "has no \"%.*s\"", TEXT_ARGS(row->schema->columns[RECORD_F_PROMPT]));
    TRY(read_turns(&out->sequences[0], row, row->fields[RECORD_F_PROMPT], RECORD_F_COMPLETION));
    if (row->schema->format == RECORD_QUESTION && out->sequences[0].kind == RECORD_PAIR)
        out->sequences[0].kind = RECORD_INSTRUCTION;
    return OK;
}

static enum err read_text(struct record *out, const struct row *row)
{
    out->count = 1;
    out->sequences[0].kind = RECORD_PLAIN;
    return text_field(&out->sequences[0].completion, row, RECORD_F_TEXT, true);
}

// The number of leading messages that two conversations share: the prompt of a preference pair that
// does not give one.
static size_t shared_start(const struct template_list *a, const struct template_list *b)
{
    size_t same = 0;
    while (same < a->count && same < b->count &&
           template_value_equal(a->items[same], b->items[same]))
        same++;
    return same;
}

static enum err read_preference(struct record *out, const struct row *row)
{
    struct template_value prompt = row->fields[RECORD_F_PROMPT];
    if (prompt.kind == TEMPLATE_NONE)
        prompt = row->fields[RECORD_F_MESSAGES];
    out->count = 2;
    TRY(read_turns(&out->sequences[0], row, prompt, RECORD_F_CHOSEN));
    TRY(read_turns(&out->sequences[1], row, prompt, RECORD_F_REJECTED));
    struct record_sequence *chosen = &out->sequences[0], *rejected = &out->sequences[1];
    if (chosen->kind != rejected->kind)
        return fail(ERR_INPUT, "chosen and rejected must both be strings or both be messages");
    if (chosen->kind == RECORD_CHAT && !chosen->prompt_count)
        chosen->prompt_count = rejected->prompt_count =
            shared_start(chosen->messages.list, rejected->messages.list);
    return OK;
}

static enum err assemble(struct record *out, const struct row *row)
{
    *out = (struct record){ 0 };
    for (int i = 0; i < 2; i++)
        out->sequences[i].tools = none;
    switch (row->schema->format) {
    case RECORD_MESSAGES:
    case RECORD_SHAREGPT: return read_messages(out, row);
    case RECORD_ALPACA: return read_alpaca(out, row);
    case RECORD_COMPLETION:
    case RECORD_QUESTION: return read_completion(out, row);
    case RECORD_TEXT: return read_text(out, row);
    case RECORD_PREFERENCE: return read_preference(out, row);
    default: return fail(ERR_BUG, "a row was read before its format was known");
    }
}

// --- rows --------------------------------------------------------------------

static int field_of(const struct record_schema *schema, struct text name)
{
    for (int i = 0; i < RECORD_FIELDS; i++)
        if (schema->columns[i].at && text_equal(schema->columns[i], name))
            return i;
    return -1;
}

enum err record_read(struct record *out, const struct record_schema *schema, struct arena *arena,
                     struct text row)
{
    struct row read = { .arena = arena, .schema = schema };
    struct json_reader in = json_reader(row);
    struct text key;
    if (!unicode_valid(row.at, row.size))
        return fail(ERR_INPUT, "contains bytes that are not valid UTF-8");
    for (int i = 0; i < RECORD_FIELDS; i++)
        read.fields[i] = none;
    if (json_peek(&in) != JSON_OBJECT)
        return fail(ERR_INPUT, "is %s; it must be an object with %.*s",
                    json_peek(&in) == JSON_NONE ? "not JSON" : json_kind_name(json_peek(&in)),
                    TEXT_ARGS(text_of(schema->sentence ? schema->sentence : "its columns")));
    for (json_object(&in); json_key(&in, arena, &key);) {
        int field = field_of(schema, key);
        if (field >= 0)
            read.fields[field] = template_value_take(&in, arena);
        else
            json_skip(&in);
    }
    struct text rest = text_trim((struct text){ in.at, (size_t)(in.end - in.at) });
    if (in.problem || rest.size)
        return fail(ERR_INPUT, "column %td %s", in.at - in.start + 1,
                    in.problem ? in.problem : "has text after the end of the row");
    return assemble(out, &read);
}

enum err record_from_messages(struct record *out, const struct record_schema *schema,
                              struct arena *arena, struct template_value messages)
{
    struct row row = { .arena = arena, .schema = schema };
    for (int i = 0; i < RECORD_FIELDS; i++)
        row.fields[i] = none;
    row.fields[RECORD_F_MESSAGES] = messages;
    return assemble(out, &row);
}

// The value of a table cell: lists of messages are parsed from JSON text, the rest are strings.
static struct template_value cell_value(struct arena *arena, enum record_field field,
                                        struct text cell)
{
    struct template_value parsed;
    bool may_nest = field == RECORD_F_PROMPT || field == RECORD_F_COMPLETION ||
                    field == RECORD_F_CHOSEN || field == RECORD_F_REJECTED ||
                    field == RECORD_F_HISTORY;
    struct text start = text_trim(cell);
    if (may_nest && start.size > 1 && start.at[0] == '[' &&
        (start.at[1] == '{' || start.at[1] == '[') &&
        !template_value_read(&parsed, arena, start, "cell"))
        return parsed;
    return template_value_string(cell);
}

enum err record_read_columns(struct record *out, const struct record_schema *schema,
                             struct arena *arena, const struct text *names,
                             const struct text *cells, size_t count)
{
    struct row read = { .arena = arena, .schema = schema };
    for (int i = 0; i < RECORD_FIELDS; i++)
        read.fields[i] = none;
    for (size_t i = 0; i < count; i++) {
        int field = field_of(schema, names[i]);
        if (field < 0 || !cells[i].at)
            continue;
        if (!unicode_valid(cells[i].at, cells[i].size))
            return fail(ERR_INPUT, "\"%.*s\" is not valid UTF-8", TEXT_ARGS(names[i]));
        read.fields[field] = cell_value(arena, (enum record_field)field, cells[i]);
    }
    return assemble(out, &read);
}
