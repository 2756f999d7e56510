// SPDX-License-Identifier: Apache-2.0
// Reads a row into messages or text, as its schema says. record_detect.c finds the schema,
// record_messages.c reads messages.

#include "core/data/record_internal.h"

#include "base/unicode.h"

#include <string.h>

struct row {
    struct arena *arena;
    struct template_value fields[RECORD_FIELDS];
    struct text names[RECORD_FIELDS]; // of the columns that the fields come from
    int ranks[RECORD_FIELDS];         // of the usual names: smaller is better
    const struct record_schema *schema;
};

static const struct template_value none = { .kind = TEMPLATE_NONE };

static struct row empty_row(struct arena *arena, const struct record_schema *schema)
{
    struct row row = { .arena = arena, .schema = schema };
    memcpy(row.names, schema->columns, sizeof row.names);
    for (int i = 0; i < RECORD_FIELDS; i++)
        row.fields[i] = none;
    return row;
}

static bool is_text(struct template_value value)
{
    return value.kind == TEMPLATE_STRING;
}

static bool is_list(struct template_value value)
{
    return value.kind == TEMPLATE_LIST;
}

static bool is_answer(enum record_field field)
{
    return field == RECORD_F_OUTPUT || field == RECORD_F_COMPLETION || field == RECORD_F_CHOSEN ||
           field == RECORD_F_REJECTED;
}

// A number or a boolean as JSON writes it: "answer": 2 is the text 2.
static struct template_value as_text(struct arena *arena, struct template_value value)
{
    struct out out = { .arena = arena };
    switch (value.kind) {
    case TEMPLATE_BOOL: return template_value_string(value.flag ? TEXT("true") : TEXT("false"));
    case TEMPLATE_BIG: return template_value_string(value.string);
    case TEMPLATE_INT: out_put(&out, "%lld", (long long)value.whole); break;
    case TEMPLATE_FLOAT: template_value_print_real(&out, value.real); break;
    default: return value;
    }
    return template_value_string(out_view(&out));
}

// An answer: of a list of strings, which are alternatives, the first.
static struct template_value answer_of(const struct row *row, enum record_field field)
{
    struct template_value value = as_text(row->arena, row->fields[field]);
    if (!is_list(value) || !value.list->count)
        return value;
    struct template_value first = as_text(row->arena, value.list->items[0]);
    return is_text(first) ? first : value;
}

// The prompt of a completion: strings of a list are lines of it, other lists are messages.
static struct template_value prompt_of(const struct row *row)
{
    struct template_value value = as_text(row->arena, row->fields[RECORD_F_PROMPT]);
    struct text text;
    bool lines = is_list(value) && value.list->count && is_text(value.list->items[0]) &&
                 record_text(&text, row->arena, value);
    return lines ? template_value_string(text) : value;
}

static enum err wrong_kind(const struct row *row, enum record_field field, const char *wanted)
{
    return fail(ERR_INPUT, "\"%.*s\" is a %s; it must be %s", TEXT_ARGS(row->names[field]),
                template_value_kind_name(row->fields[field]), wanted);
}

static enum err text_field(struct text *out, const struct row *row, enum record_field field,
                           bool needed)
{
    struct template_value value = is_answer(field) ? answer_of(row, field) : row->fields[field];
    *out = TEXT("");
    if (record_text(out, row->arena, value))
        return OK;
    if (value.kind == TEMPLATE_NONE && !needed)
        return OK;
    if (value.kind == TEMPLATE_NONE)
        return fail(ERR_INPUT, "has no \"%.*s\"", TEXT_ARGS(row->names[field]));
    return wrong_kind(row, field, "a string, or a list of strings");
}

// --- tools -------------------------------------------------------------------

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
            return error_prefix(
                ERR_INPUT, "\"%.*s\" is not valid JSON: ", TEXT_ARGS(row->names[RECORD_F_TOOLS]));
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
        return fail(ERR_INPUT, "has no \"%.*s\"", TEXT_ARGS(row->names[RECORD_F_MESSAGES]));
    if (!is_list(value) && !is_text(value))
        return wrong_kind(row, RECORD_F_MESSAGES, "a list; --format text reads plain text");
    TRY(record_messages(&sequence->messages, row->arena, value, NULL));
    TRY(tools_of(&sequence->tools, row));
    if (!sequence->messages.list->count)
        return fail(ERR_INPUT, "\"%.*s\" is an empty list",
                    TEXT_ARGS(row->names[RECORD_F_MESSAGES]));
    TRY(text_field(&sequence->system, row, RECORD_F_SYSTEM, false));
    static const char speaker[] = "SYSTEM: "; // of Glaive's transcripts
    struct text *system = &sequence->system;
    if (is_text(value) && system->size >= sizeof speaker - 1 &&
        !memcmp(system->at, speaker, sizeof speaker - 1)) {
        system->at += sizeof speaker - 1;
        system->size -= sizeof speaker - 1;
    }
    return OK;
}

static void append_turn(const struct row *row, struct template_value messages, const char *role,
                        struct text content)
{
    template_value_append(row->arena, messages.list, record_message(row->arena, role, content));
}

// The list of earlier turns, which tables and some rows have as JSON text; none if it is empty.
static enum err history_of(struct template_value *out, const struct row *row)
{
    struct template_value history = row->fields[RECORD_F_HISTORY], parsed;
    *out = none;
    if (is_text(history) && !text_trim(history.string).size)
        return OK;
    if (is_text(history) && !template_value_read(&parsed, row->arena, history.string, "history"))
        history = parsed;
    if (history.kind == TEMPLATE_NONE || (is_list(history) && !history.list->count))
        return OK;
    if (!is_list(history))
        return wrong_kind(row, RECORD_F_HISTORY,
                          "a list of [question, answer], or such a list as JSON text");
    *out = history;
    return OK;
}

// Reads the earlier turns of an Alpaca row, a list of [question, answer]; the row becomes a chat.
static enum err read_history(struct record_sequence *sequence, const struct row *row)
{
    struct template_value history;
    TRY(history_of(&history, row));
    if (history.kind == TEMPLATE_NONE)
        return OK;
    struct template_value messages = template_value_list(row->arena, TEMPLATE_PLAIN, 4);
    for (size_t i = 0; i < history.list->count; i++) {
        struct template_value turn = history.list->items[i];
        if (!is_list(turn) || turn.list->count != 2 || !is_text(turn.list->items[0]) ||
            !is_text(turn.list->items[1]))
            return fail(ERR_INPUT, "item %zu of \"%.*s\" must be a pair of strings", i + 1,
                        TEXT_ARGS(row->names[RECORD_F_HISTORY]));
        append_turn(row, messages, "user", turn.list->items[0].string);
        append_turn(row, messages, "assistant", turn.list->items[1].string);
    }
    struct text prompt = sequence->prompt;
    if (sequence->input.size)
        prompt = record_joined(row->arena, prompt, "\n", sequence->input);
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
    TRY(tools_of(&sequence->tools, row));
    return read_history(sequence, row);
}

static bool has_role(const struct template_list *messages, const char *role)
{
    for (size_t i = 0; i < messages->count; i++) {
        const struct template_value *value =
            template_value_find(messages->items[i].dict, TEXT("role"));
        if (value && is_text(*value) && text_is(value->string, role))
            return true;
    }
    return false;
}

// A prompt and an answer as strings. Only columns named prompt go to the tokenizer as they are
// (RECORD_PAIR); a question, or a prompt with a system text beside it, needs the template.
static void pair_of_strings(struct record_sequence *sequence, const struct row *row,
                            struct template_value prompt, struct text completion)
{
    bool asks = row->schema->format == RECORD_QUESTION ||
                (row->schema->format == RECORD_PREFERENCE &&
                 !text_is(row->schema->columns[RECORD_F_PROMPT], "prompt"));
    sequence->kind = !is_text(prompt) ? RECORD_PLAIN : asks ? RECORD_INSTRUCTION : RECORD_PAIR;
    sequence->prompt = is_text(prompt) ? prompt.string : TEXT("");
    sequence->completion = completion;
}

// Puts the messages of the prompt before those of the answer. A prompt that is a string beside
// whole conversations repeats their start and is dropped, as TRL does.
static enum err join_turns(struct record_sequence *sequence, const struct row *row,
                           struct template_value prompt, struct template_value completion)
{
    struct arena *arena = row->arena;
    struct template_value before = template_value_list(arena, TEMPLATE_PLAIN, 0), after;
    TRY(record_messages(&after, arena, completion, "assistant"));
    bool repeats = is_text(prompt) && !is_text(completion) && has_role(after.list, "user");
    if (prompt.kind != TEMPLATE_NONE && !repeats)
        TRY(record_messages(&before, arena, prompt, "user"));
    size_t count = before.list->count + after.list->count;
    struct template_value both = template_value_list(arena, TEMPLATE_PLAIN, count + 1);
    for (size_t i = 0; i < before.list->count; i++)
        template_value_append(arena, both.list, before.list->items[i]);
    for (size_t i = 0; i < after.list->count; i++)
        template_value_append(arena, both.list, after.list->items[i]);
    if (!both.list->count)
        return fail(ERR_INPUT, "has no messages");
    sequence->kind = RECORD_CHAT;
    sequence->messages = both;
    sequence->prompt_count = before.list->count;
    return OK;
}

// A text that --fields joins to the prompt cannot be joined to messages. Where the format reads the
// column by itself, the messages are taken to have the text already.
static enum err check_input(const struct row *row, struct text input)
{
    enum record_format format = row->schema->format;
    if (!input.size || (format != RECORD_COMPLETION && format != RECORD_PROMPT))
        return OK;
    return fail(ERR_INPUT,
                "\"%.*s\" cannot be joined to a prompt of messages; write it into the messages",
                TEXT_ARGS(row->names[RECORD_F_INPUT]));
}

// Reads a prompt and its answer, as strings or as messages.
static enum err read_turns(struct record_sequence *sequence, const struct row *row,
                           struct template_value prompt, enum record_field answer)
{
    struct template_value completion = answer_of(row, answer);
    if (completion.kind == TEMPLATE_NONE)
        return fail(ERR_INPUT, "has no \"%.*s\"", TEXT_ARGS(row->names[answer]));
    TRY(tools_of(&sequence->tools, row));
    TRY(text_field(&sequence->system, row, RECORD_F_SYSTEM, false));
    TRY(text_field(&sequence->input, row, RECORD_F_INPUT, false));
    bool strings = is_text(completion) && (is_text(prompt) || prompt.kind == TEMPLATE_NONE);
    if (!strings && is_text(prompt) && sequence->input.size)
        prompt.string = record_joined(row->arena, prompt.string, "\n", sequence->input);
    if (!strings && !is_text(prompt))
        TRY(check_input(row, sequence->input));
    if (!strings)
        return join_turns(sequence, row, prompt, completion);
    pair_of_strings(sequence, row, prompt, completion.string);
    return OK;
}

static enum err read_completion(struct record *out, const struct row *row)
{
    out->count = 1;
    if (row->fields[RECORD_F_PROMPT].kind == TEMPLATE_NONE)
        return fail(ERR_INPUT, "has no \"%.*s\"", TEXT_ARGS(row->names[RECORD_F_PROMPT]));
    return read_turns(&out->sequences[0], row, prompt_of(row), RECORD_F_COMPLETION);
}

static enum err read_text(struct record *out, const struct row *row)
{
    out->count = 1;
    out->sequences[0].kind = RECORD_PLAIN;
    return text_field(&out->sequences[0].completion, row, RECORD_F_TEXT, true);
}

// A prompt alone. Messages get the generation prompt; a string stays as it is, as in TRL.
static enum err read_prompt(struct record *out, const struct row *row)
{
    struct record_sequence *sequence = &out->sequences[0];
    struct template_value prompt = row->fields[RECORD_F_PROMPT];
    out->count = 1;
    sequence->is_prompt = true;
    TRY(tools_of(&sequence->tools, row));
    TRY(text_field(&sequence->system, row, RECORD_F_SYSTEM, false));
    TRY(text_field(&sequence->input, row, RECORD_F_INPUT, false));
    if (is_text(prompt)) {
        sequence->kind = text_is(row->schema->columns[RECORD_F_PROMPT], "prompt")
                             ? RECORD_PAIR
                             : RECORD_INSTRUCTION;
        sequence->prompt = prompt.string;
        return OK;
    }
    if (prompt.kind == TEMPLATE_NONE)
        return fail(ERR_INPUT, "has no \"%.*s\"", TEXT_ARGS(row->names[RECORD_F_PROMPT]));
    sequence->kind = RECORD_CHAT;
    TRY(check_input(row, sequence->input));
    TRY(record_messages(&sequence->messages, row->arena, prompt, "user"));
    return sequence->messages.list->count ? OK : fail(ERR_INPUT, "has no messages");
}

// --- trees -------------------------------------------------------------------

enum { DEEPEST_TREE = 256 };

struct tree { // while it is walked
    const struct row *row;
    struct record *out;
    size_t room; // of out's sequences
    struct template_value path[DEEPEST_TREE];
    size_t depth;
};

// The first so many messages of the path become a conversation.
static void add_thread(struct tree *tree, size_t messages)
{
    struct record *out = tree->out;
    struct arena *arena = tree->row->arena;
    out->sequences =
        arena_room(arena, out->sequences, sizeof *out->sequences, (size_t)out->count, &tree->room);
    struct record_sequence *sequence = &out->sequences[out->count++];
    *sequence = (struct record_sequence){ .kind = RECORD_CHAT, .tools = none };
    sequence->messages = template_value_list(arena, TEMPLATE_PLAIN, messages);
    for (size_t i = 0; i < messages; i++)
        template_value_append(arena, sequence->messages.list, tree->path[i]);
}

static bool is_true(const struct template_dict *node, const char *key)
{
    const struct template_value *value = template_value_find(node, text_of(key));
    return value && value->kind == TEMPLATE_BOOL && value->flag;
}

// Open-Assistant's own trainer makes a conversation of each way down to a message without replies.
// A last question is left out, and its way is taken once; what was deleted is not followed.
static enum err walk(struct tree *tree, struct template_value node, bool is_first_reply)
{
    struct template_value message;
    if (node.kind != TEMPLATE_DICT || tree->depth == DEEPEST_TREE)
        return fail(ERR_INPUT, "a message of the tree is not an object, or lies too deep");
    if (is_true(node.dict, "deleted"))
        return OK;
    TRY(record_messages(&message, tree->row->arena, node, NULL));
    tree->path[tree->depth++] = message.list->items[0];
    const struct template_value *replies = template_value_find(node.dict, TEXT("replies"));
    size_t count = replies && is_list(*replies) ? replies->list->count : 0;
    bool asks = has_role(message.list, "user");
    if (!count && tree->depth > 1 && (!asks || is_first_reply))
        add_thread(tree, tree->depth - asks);
    for (size_t i = 0; i < count; i++)
        TRY(walk(tree, replies->list->items[i], i == 0));
    tree->depth--;
    return OK;
}

static enum err read_tree(struct record *out, const struct row *row)
{
    struct tree *tree = ARENA_NEW(row->arena, struct tree, 1);
    *tree = (struct tree){ .row = row, .out = out, .room = 2 };
    TRY(walk(tree, row->fields[RECORD_F_PROMPT], true));
    for (int i = 0; i < out->count; i++)
        TRY(text_field(&out->sequences[i].system, row, RECORD_F_SYSTEM, false));
    return out->count ? OK : fail(ERR_INPUT, "is a tree without an answer");
}

// --- pairs -------------------------------------------------------------------

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

// The same of two texts, as TRL finds it: without the space before the first difference.
static void split_texts(struct record_sequence *a, struct record_sequence *b)
{
    size_t same = 0,
           most = a->completion.size < b->completion.size ? a->completion.size : b->completion.size;
    while (same < most && a->completion.at[same] == b->completion.at[same])
        same++;
    while (same > 0 && same < a->completion.size &&
           ((unsigned char)a->completion.at[same] & 0xC0) == 0x80)
        same--; // never split a character
    if (same > 0 && a->completion.at[same - 1] == ' ')
        same--;
    struct record_sequence *both[] = { a, b };
    for (int i = 0; i < 2; i++) {
        struct text whole = both[i]->completion;
        both[i]->prompt = (struct text){ whole.at, same };
        both[i]->completion = (struct text){ whole.at + same, whole.size - same };
    }
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
    if (chosen->kind == RECORD_PLAIN)
        split_texts(chosen, rejected);
    return OK;
}

static enum err read_format(struct record *out, const struct row *row)
{
    switch (row->schema->format) {
    case RECORD_MESSAGES:
    case RECORD_SHAREGPT: return read_messages(out, row);
    case RECORD_ALPACA: return read_alpaca(out, row);
    case RECORD_COMPLETION:
    case RECORD_QUESTION: return read_completion(out, row);
    case RECORD_TEXT: return read_text(out, row);
    case RECORD_PREFERENCE: return read_preference(out, row);
    case RECORD_PROMPT: return read_prompt(out, row);
    case RECORD_TREE: return read_tree(out, row);
    default: return fail(ERR_BUG, "a row was read before its format was known");
    }
}

static enum err assemble(struct record *out, const struct row *row)
{
    *out = (struct record){ .sequences = ARENA_NEW(row->arena, struct record_sequence, 2) };
    for (int i = 0; i < 2; i++)
        out->sequences[i].tools = none;
    TRY(read_format(out, row));
    for (int i = 0; i < out->count; i++)
        record_images(&out->sequences[i], row->arena, row->names[RECORD_F_MEDIA],
                      row->fields[RECORD_F_MEDIA]);
    return OK;
}

// --- rows --------------------------------------------------------------------

// A part that is a key within the object of this name; -1: none is.
static int inner_field(const struct record_schema *schema, struct text name)
{
    for (int i = 0; i < RECORD_FIELDS && schema->nested; i++) {
        struct text column = schema->columns[i];
        if (column.at && column.size > name.size + 1 && column.at[name.size] == '.' &&
            !memcmp(column.at, name.at, name.size))
            return i;
    }
    return -1;
}

// The part that a column is; -1: none. *rank is that of its name among the usual ones, for the
// first rows need not have the column.
static int field_of(const struct record_schema *schema, struct text name, int *rank)
{
    *rank = 0;
    for (int i = 0; i < RECORD_FIELDS; i++)
        if (!schema->by_name[i] && schema->columns[i].at && text_equal(schema->columns[i], name))
            return i;
    for (int i = 0; i < RECORD_FIELDS; i++)
        if (schema->by_name[i] && (*rank = record_usual_name((enum record_field)i, name)) >= 0)
            return inner_field(schema, name) >= 0 ? -1 : i;
    return -1;
}

bool record_needs(const struct record_schema *schema, struct text name)
{
    int rank;
    return field_of(schema, name, &rank) >= 0 || inner_field(schema, name) >= 0;
}

// Of several usual names of a part that have a value, the best one counts.
static void take_value(struct row *row, int field, int rank, struct text name,
                       struct template_value value)
{
    bool filled = row->fields[field].kind != TEMPLATE_NONE;
    if (row->schema->by_name[field] &&
        (value.kind == TEMPLATE_NONE || (filled && row->ranks[field] < rank)))
        return;
    row->fields[field] = value;
    row->names[field] = name;
    row->ranks[field] = rank;
}

// The parts that have their usual names within the object: columns of these names come first.
static void take_usual(struct row *row, struct text outer, const struct template_entry *entry)
{
    for (int i = 0; i < RECORD_FIELDS; i++) {
        int rank = row->schema->by_name[i]
                       ? record_usual_name((enum record_field)i, entry->key.string)
                       : -1;
        if (rank < 0)
            continue;
        const char *name =
            text_format(row->arena, "%.*s.%.*s", TEXT_ARGS(outer), TEXT_ARGS(entry->key.string));
        take_value(row, i, rank + 2 * RECORD_NAMES, text_of(name), entry->value);
        return;
    }
}

// Fills in the parts that are keys within this object, "outer.key".
static void take_nested(struct row *row, struct text outer, struct template_value object)
{
    for (int i = 0; i < RECORD_FIELDS; i++) {
        struct text column = row->schema->columns[i];
        if (!column.at || row->schema->by_name[i] || column.size < outer.size + 2 ||
            column.at[outer.size] != '.' || memcmp(column.at, outer.at, outer.size))
            continue;
        struct text key = { column.at + outer.size + 1, column.size - outer.size - 1 };
        const struct template_value *value = template_value_find(object.dict, key);
        if (value)
            row->fields[i] = *value;
    }
    for (size_t i = 0; i < object.dict->count; i++)
        take_usual(row, outer, &object.dict->entries[i]);
}

static bool is_number(enum json_kind kind)
{
    return kind != JSON_STRING && kind != JSON_ARRAY && kind != JSON_OBJECT;
}

static void note_column(const struct record_schema *schema, struct text name, int field,
                        size_t bytes)
{
    field = field >= 0 ? field : inner_field(schema, name);
    census_add(schema->census, name, field >= 0 ? record_field_names[field] : NULL, (int64_t)bytes);
}

// What a row is that is no object. Words that begin as null or true do are none of these.
static const char *kind_of(struct text row)
{
    struct json_reader in = json_reader(row);
    enum json_kind kind = json_peek(&in);
    json_skip(&in);
    bool whole = !in.problem && !text_trim((struct text){ in.at, (size_t)(in.end - in.at) }).size;
    return whole ? json_kind_name(kind) : "not JSON";
}

enum err record_read(struct record *out, const struct record_schema *schema, struct arena *arena,
                     struct text row)
{
    struct row read = empty_row(arena, schema);
    struct json_reader in = json_reader(row);
    struct text key;
    if (!unicode_valid(row.at, row.size))
        return fail(ERR_INPUT, "contains bytes that are not valid UTF-8" RECORD_CONVERT);
    if (json_peek(&in) != JSON_OBJECT)
        return fail(ERR_INPUT, "is %s; it must be an object with %.*s", kind_of(row),
                    TEXT_ARGS(text_of(schema->sentence ? schema->sentence : "its columns")));
    for (json_object(&in); json_key(&in, arena, &key);) {
        int rank, field = field_of(schema, key, &rank);
        bool has_text = !is_number(json_peek(&in));
        const char *start = in.at;
        if (field >= 0)
            take_value(&read, field, rank, key, template_value_take(&in, arena));
        else if (json_peek(&in) == JSON_OBJECT && inner_field(schema, key) >= 0)
            take_nested(&read, key, template_value_take(&in, arena));
        else
            json_skip(&in);
        if (schema->census && has_text)
            note_column(schema, key, field, (size_t)(in.at - start));
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
    struct row row = empty_row(arena, schema);
    row.fields[RECORD_F_MESSAGES] = messages;
    return assemble(out, &row);
}

// The value of a table cell: lists of messages are parsed from JSON text, the rest are strings.
static struct template_value cell_value(struct arena *arena, enum record_field field,
                                        struct text cell)
{
    struct template_value parsed;
    bool may_nest = field == RECORD_F_MEDIA || field == RECORD_F_PROMPT ||
                    field == RECORD_F_COMPLETION || field == RECORD_F_CHOSEN ||
                    field == RECORD_F_REJECTED || field == RECORD_F_HISTORY;
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
    struct row read = empty_row(arena, schema);
    for (size_t i = 0; i < count; i++) {
        int rank, field = field_of(schema, names[i], &rank);
        if (schema->census)
            note_column(schema, names[i], field, cells[i].size);
        if (field < 0 || !cells[i].at)
            continue;
        if (!unicode_valid(cells[i].at, cells[i].size))
            return fail(ERR_INPUT, "\"%.*s\" is not valid UTF-8" RECORD_CONVERT,
                        TEXT_ARGS(names[i]));
        take_value(&read, field, rank, names[i],
                   cell_value(arena, (enum record_field)field, cells[i]));
    }
    return assemble(out, &read);
}
