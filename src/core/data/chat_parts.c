// SPDX-License-Identifier: Apache-2.0
// Parts of a conversation that a chat template does not know: tools, tool calls, what tools
// return, reasoning, the system text, content in parts.
//
// A template that does not know a part drops it without a word. So each part that a row has is
// tried once, with a short conversation that holds marks: if they come out, the template renders
// that part, and it gets the row as it is. If not, the part is written as text into a message that
// the template does render, in the form of Hermes and Qwen: <tools>, <tool_call>, <tool_response>,
// <think>.
//
// Calls may come as JSON text or as one object, reasoning as a list of texts: they are read as what
// they mean first. Calls that cannot be read are text for every template, which would go through
// their letters.
//
// Reasoning has three names; the value is also put under the one that the template reads. Templates
// of reasoning models drop the thoughts of all answers but the last: that is how such models are
// trained, so it is not undone, but reported (chat_text.left_out).

#include "core/data/chat_internal.h"

#include <stdio.h>
#include <string.h>

#define MARK "gpuhoursprobe"
#define OTHER_MARK "gpuhoursvalue"

static const char *const reasoning_keys[] = { "reasoning_content", "thinking", "reasoning" };
enum { LOOKED_FOR = 32 }; // bytes of a text that are searched in the output
enum { REASONING_KEYS = sizeof reasoning_keys / sizeof *reasoning_keys };

// --- what the template renders -----------------------------------------------

static const char a_tool[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"" MARK
    "\", \"description\": \"" OTHER_MARK
    "\", \"parameters\": {\"type\": \"object\", \"properties\": {\"x\": {\"type\": \"string\", "
    "\"description\": \"x\"}}, \"required\": [\"x\"]}}}]";

#define QUESTION "{\"role\": \"user\", \"content\": \"q\"}"
#define CALL(content, name, value)                             \
    "{\"role\": \"assistant\", \"content\": " content          \
    ", \"tool_calls\": [{\"id\": \"abcdefghi\", "              \
    "\"type\": \"function\", \"function\": {\"name\": \"" name \
    "\", \"arguments\": {\"x\": \"" value "\"}}}]}"

#define RESULT                                                                \
    "{\"role\": \"tool\", \"name\": \"f\", \"tool_call_id\": \"abcdefghi\", " \
    "\"content\": \"" MARK OTHER_MARK "\"}"

// Several rows of one part: it is enough if one of them comes out.
static const struct {
    int part;
    const char *messages;
} probes[] = {
    { CHAT_TOOLS, "[" QUESTION "]" },
    { CHAT_CALLS, "[" QUESTION ", " CALL("\"\"", MARK, OTHER_MARK) "]" },
    { CHAT_CALLS_ALONE, "[" QUESTION ", " CALL("null", MARK, OTHER_MARK) "]" },
    { CHAT_RESULTS, "[" QUESTION ", " CALL("null", "f", "v") ", " RESULT "]" },
    { CHAT_RESULTS, "[" QUESTION ", " CALL("\"\"", "f", "v") ", " RESULT "]" },
    { CHAT_RESULTS, "[" QUESTION ", {\"role\": \"assistant\", \"content\": \"c\"}, " RESULT "]" },
    { CHAT_CONTENT, "[{\"role\": \"user\", \"content\": \"" MARK OTHER_MARK "\"}]" },
    { CHAT_SYSTEM, "[{\"role\": \"system\", \"content\": \"" MARK OTHER_MARK "\"}, " QUESTION "]" },
    { CHAT_PARTS, "[{\"role\": \"user\", \"content\": [{\"type\": \"image\"}, {\"type\": \"text\", "
                  "\"text\": \"" MARK OTHER_MARK "\"}]}]" },
};

// Where part begins in text; NULL: nowhere.
static const char *find(struct text text, struct text part)
{
    const char *at = text.at, *end = text.at + text.size;
    while (part.size && (size_t)(end - at) >= part.size &&
           (at = memchr(at, part.at[0], (size_t)(end - at) - part.size + 1)) != NULL) {
        if (!memcmp(at, part.at, part.size))
            return at;
        at++;
    }
    return NULL;
}

static bool contains(struct text text, struct text part)
{
    return find(text, part) != NULL;
}

// Renders a conversation; whether both marks come out, and no list as Python would print it.
static bool comes_out(struct chat *chat, const char *messages, bool with_tools)
{
    struct template_value list, tools = { .kind = TEMPLATE_NONE };
    if (template_value_read(&list, &chat->rows, text_of(messages), "probe") ||
        (with_tools && template_value_read(&tools, &chat->rows, text_of(a_tool), "probe")))
        return false;
    template_set(&chat->run, "tools", tools);
    bool failed = chat_render_first(chat, &chat->with, list.list, list.list->count, false) != OK;
    struct text text = out_view(&chat->with);
    return !failed && contains(text, TEXT(MARK)) && contains(text, TEXT(OTHER_MARK)) &&
           !contains(text, TEXT("'type'"));
}

static bool reads_reasoning(struct chat *chat)
{
    for (int i = 0; i < REASONING_KEYS; i++) {
        const char *messages =
            text_format(&chat->rows,
                        "[" QUESTION ", {\"role\": \"assistant\", \"%s\": \"" MARK OTHER_MARK
                        "\", \"content\": \"a\"}]",
                        reasoning_keys[i]);
        chat->reasoning = reasoning_keys[i];
        if (comes_out(chat, messages, false))
            return true;
    }
    chat->reasoning = NULL;
    return false;
}

// Whether the template renders a part; tried when it is first needed. Of a template that does not
// even render the plain mark, nothing is known: it gets every row as it is.
static bool renders(struct chat *chat, int part)
{
    bool found = false;
    if (chat->probed & part)
        return chat->renders & part;
    if (part != CHAT_CONTENT && !renders(chat, CHAT_CONTENT))
        return true;
    for (size_t i = 0; i < sizeof probes / sizeof *probes; i++)
        if (probes[i].part == part && !found)
            found = comes_out(chat, probes[i].messages, part == CHAT_TOOLS);
    if (part == CHAT_REASONING)
        found = reads_reasoning(chat);
    chat->probed |= part;
    chat->renders |= found ? part : 0;
    return found;
}

const char *chat_part_names(char *at, size_t size, int parts)
{
    static const struct {
        int part;
        const char *name;
    } names[] = {
        { CHAT_TOOLS, "tools" },
        { CHAT_CALLS, "tool calls" },
        { CHAT_RESULTS, "tool results" },
        { CHAT_REASONING, "reasoning" },
        { CHAT_SYSTEM, "the system text" },
        { CHAT_PARTS, "content in parts" },
        { CHAT_CONTENT, "content" },
    };
    size_t used = 0;
    at[0] = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (parts & names[i].part && used < size)
            used +=
                (size_t)snprintf(at + used, size - used, "%s%s", used ? ", " : "", names[i].name);
    return at;
}

// --- rewriting ---------------------------------------------------------------

static const struct template_value *value_of(struct template_value message, const char *key)
{
    const struct template_value *value = template_value_find(message.dict, text_of(key));
    return value && template_value_truth(*value) ? value : NULL;
}

static const struct template_value *reasoning_of(struct template_value message)
{
    for (int i = 0; i < REASONING_KEYS; i++) {
        const struct template_value *value = value_of(message, reasoning_keys[i]);
        if (value && value->kind == TEMPLATE_STRING)
            return value;
    }
    return NULL;
}

static void write_json(struct chat *chat, struct out *out, struct template_value value)
{
    struct template_json style = { .indent = -1,
                                   .item_separator = TEXT(", "),
                                   .key_separator = TEXT(": ") };
    struct template_budget budget = template_value_budget();
    if (template_value_json(out, &chat->rows, value, &style, &budget))
        out_put(out, "null");
}

// Content as text: what is no text (an object that a tool returned) as JSON; of parts, the texts.
static void write_content(struct chat *chat, struct out *out, struct template_value message)
{
    const struct template_value *content = value_of(message, "content");
    if (!content)
        return;
    if (content->kind == TEMPLATE_STRING) {
        out_bytes(out, content->string.at, content->string.size);
        return;
    }
    if (content->kind != TEMPLATE_LIST) {
        write_json(chat, out, *content);
        return;
    }
    for (size_t i = 0; i < content->list->count; i++) {
        struct template_value part = content->list->items[i];
        const struct template_value *text =
            part.kind == TEMPLATE_DICT ? value_of(part, "text") : NULL;
        if (part.kind == TEMPLATE_STRING)
            text = &part;
        if (text && text->kind == TEMPLATE_STRING)
            out_bytes(out, text->string.at, text->string.size);
    }
}

static void write_call(struct chat *chat, struct out *out, struct template_value call)
{
    const struct template_value *function =
        call.kind == TEMPLATE_DICT ? value_of(call, "function") : NULL;
    out_put(out, "%s<tool_call>\n", out->size ? "\n" : "");
    if (call.kind == TEMPLATE_STRING)
        out_bytes(out, call.string.at, call.string.size);
    else
        write_json(chat, out, function ? *function : call);
    out_put(out, "\n</tool_call>");
}

static void write_calls(struct chat *chat, struct out *out, struct template_value message)
{
    const struct template_value *calls = value_of(message, "tool_calls");
    bool list = calls && calls->kind == TEMPLATE_LIST;
    for (size_t i = 0; list && i < calls->list->count; i++)
        write_call(chat, out, calls->list->items[i]);
    if (calls && !list)
        write_call(chat, out, *calls);
}

// The parts of a message that the template does not render.
static int unknown_parts(struct chat *chat, struct template_value message)
{
    const struct template_value *content = template_value_find(message.dict, TEXT("content"));
    bool list = content && content->kind == TEMPLATE_LIST;
    int parts = 0;
    const struct template_value *calls = value_of(message, "tool_calls");
    bool alone = !value_of(message, "content") && renders(chat, CHAT_CALLS_ALONE);
    if (calls && (calls->kind != TEMPLATE_LIST || (!alone && !renders(chat, CHAT_CALLS))))
        parts |= CHAT_CALLS;
    if (chat_is_role(message, "tool") && !renders(chat, CHAT_RESULTS))
        parts |= CHAT_RESULTS;
    if (reasoning_of(message) && !renders(chat, CHAT_REASONING))
        parts |= CHAT_REASONING;
    if (list && !renders(chat, CHAT_PARTS))
        parts |= CHAT_PARTS;
    if (chat_is_role(message, "system") && !renders(chat, CHAT_SYSTEM))
        parts |= CHAT_SYSTEM;
    return parts;
}

// Whether every template renders these messages: role and text, and a system text that is rendered.
static bool are_plain(struct chat *chat, const struct template_list *messages)
{
    for (size_t i = 0; i < messages->count; i++) {
        struct template_value message = messages->items[i];
        const struct template_value *content = template_value_find(message.dict, TEXT("content"));
        if (message.dict->count != 2 || !content || content->kind != TEMPLATE_STRING ||
            chat_is_role(message, "tool") ||
            (chat_is_role(message, "system") && !renders(chat, CHAT_SYSTEM)))
            return false;
    }
    return true;
}

// A copy of a message; without its tool calls if they go elsewhere.
static struct template_value copy_of(struct chat *chat, struct template_value message,
                                     bool without_calls)
{
    struct template_value copy = template_value_dict(&chat->rows, message.dict->count + 2);
    for (size_t i = 0; i < message.dict->count; i++)
        if (!without_calls || !text_is(message.dict->entries[i].key.string, "tool_calls"))
            template_value_put(&chat->rows, copy.dict, message.dict->entries[i].key,
                               message.dict->entries[i].value);
    return copy;
}

static void put(struct chat *chat, struct template_value message, const char *key,
                struct template_value value)
{
    template_value_put(&chat->rows, message.dict, template_value_string(text_of(key)), value);
}

// --- reading -----------------------------------------------------------------

// Calls as a list, from JSON text or one object; as they are if they are neither.
static struct template_value calls_as_list(struct chat *chat, struct template_value calls)
{
    struct template_value read = calls;
    if (calls.kind == TEMPLATE_STRING &&
        template_value_read(&read, &chat->rows, calls.string, "tool_calls"))
        return calls;
    if (read.kind == TEMPLATE_DICT) {
        struct template_value list = template_value_list(&chat->rows, TEMPLATE_PLAIN, 1);
        template_value_append(&chat->rows, list.list, read);
        read = list;
    }
    bool usable = read.kind == TEMPLATE_LIST || read.kind == TEMPLATE_NONE;
    for (size_t i = 0; read.kind == TEMPLATE_LIST && i < read.list->count; i++)
        usable = usable && read.list->items[i].kind == TEMPLATE_DICT;
    return usable ? read : calls;
}

// The text of a part of reasoning: itself, or what it has under one of these names.
static bool write_thought(struct out *out, struct template_value part)
{
    static const char *const names[] = { "text", "thinking", "reasoning", "content", "value" };
    const struct template_value *text = part.kind == TEMPLATE_STRING ? &part : NULL;
    for (size_t i = 0; !text && part.kind == TEMPLATE_DICT && i < sizeof names / sizeof *names; i++)
        text = value_of(part, names[i]);
    if (!text || text->kind != TEMPLATE_STRING)
        return false;
    out_bytes(out, text->string.at, text->string.size);
    return true;
}

// Reasoning in parts as one text; as JSON if a part of it is no text.
static struct template_value reasoning_as_text(struct chat *chat, struct template_value value)
{
    struct out out = { .arena = &chat->rows };
    bool list = value.kind == TEMPLATE_LIST, all = list || write_thought(&out, value);
    for (size_t i = 0; list && all && i < value.list->count; i++)
        all = write_thought(&out, value.list->items[i]);
    if (!all) {
        out.size = 0;
        write_json(chat, &out, value);
        chat->adapted |= CHAT_REASONING;
    }
    return template_value_string(out_view(&out));
}

// A message with its calls as a list and its reasoning as text, whatever they came as.
static struct template_value as_meant(struct chat *chat, struct template_value message)
{
    const struct template_value *calls = value_of(message, "tool_calls");
    if (calls && calls->kind != TEMPLATE_LIST) {
        struct template_value list = calls_as_list(chat, *calls);
        message = copy_of(chat, message, true);
        if (list.kind != TEMPLATE_NONE)
            put(chat, message, "tool_calls", list);
    }
    for (int i = 0; i < REASONING_KEYS; i++) {
        const struct template_value *value = value_of(message, reasoning_keys[i]);
        if (!value || (value->kind != TEMPLATE_LIST && value->kind != TEMPLATE_DICT))
            continue;
        struct template_value text = reasoning_as_text(chat, *value);
        message = copy_of(chat, message, false);
        put(chat, message, reasoning_keys[i], text);
    }
    return message;
}

// A message with these parts as text in its content.
static struct template_value rewritten(struct chat *chat, struct template_value message, int parts)
{
    const struct template_value *reasoning = reasoning_of(message);
    struct template_value copy = copy_of(chat, message, parts & CHAT_CALLS);
    struct out out = { .arena = &chat->rows };
    if (parts & CHAT_RESULTS)
        out_put(&out, "<tool_response>\n");
    if (parts & CHAT_REASONING) {
        out_put(&out, "<think>\n");
        out_bytes(&out, reasoning->string.at, reasoning->string.size);
        out_put(&out, "\n</think>\n\n");
    }
    write_content(chat, &out, message);
    if (parts & CHAT_RESULTS)
        out_put(&out, "\n</tool_response>");
    if (parts & CHAT_CALLS)
        write_calls(chat, &out, message);
    if (parts & (CHAT_RESULTS | CHAT_SYSTEM))
        put(chat, copy, "role", template_value_string(TEXT("user")));
    put(chat, copy, "content", template_value_string(out_view(&out)));
    return copy;
}

// Joins a message to the one before it, if both are the user's: templates want turns to alternate.
static bool join(struct chat *chat, struct template_list *list, struct template_value message)
{
    struct template_value *last = list->count ? &list->items[list->count - 1] : NULL;
    if (!last || !chat_is_role(*last, "user") || !chat_is_role(message, "user"))
        return false;
    struct out out = { .arena = &chat->rows };
    write_content(chat, &out, *last);
    out_char(&out, '\n');
    write_content(chat, &out, message);
    *last = copy_of(chat, *last, false);
    put(chat, *last, "content", template_value_string(out_view(&out)));
    return true;
}

static void append(struct chat *chat, struct template_list *list, struct template_value message)
{
    message = as_meant(chat, message);
    int parts = unknown_parts(chat, message);
    bool moved = list->count && chat->adapted & CHAT_SYSTEM && list->count == 1;
    chat->adapted |= parts;
    if (parts)
        message = rewritten(chat, message, parts);
    if (value_of(message, "tool_calls") && !value_of(message, "content") &&
        !renders(chat, CHAT_CALLS)) { // older DeepSeek templates
        message = copy_of(chat, message, false);
        put(chat, message, "content", (struct template_value){ .kind = TEMPLATE_NONE });
    }
    const struct template_value *reasoning = reasoning_of(message);
    if (reasoning && chat->reasoning && !(parts & CHAT_REASONING) &&
        !value_of(message, chat->reasoning)) {
        message = copy_of(chat, message, false);
        put(chat, message, chat->reasoning, *reasoning);
    }
    if ((moved || parts & CHAT_RESULTS) && join(chat, list, message))
        return;
    template_value_append(&chat->rows, list, message);
}

// The tools as the system text of Hermes' and Qwen's templates, after the row's own.
static struct template_value with_tools(struct chat *chat, const struct template_value *system,
                                        struct template_value tools)
{
    struct template_value message = template_value_dict(&chat->rows, 2);
    struct out out = { .arena = &chat->rows };
    if (system)
        write_content(chat, &out, *system);
    out_put(&out, "%s# Tools\n\n<tools>", out.size ? "\n\n" : "");
    for (size_t i = 0; i < tools.list->count; i++) {
        out_char(&out, '\n');
        write_json(chat, &out, tools.list->items[i]);
    }
    out_put(&out, "\n</tools>");
    put(chat, message, "role", template_value_string(TEXT("system")));
    put(chat, message, "content", template_value_string(out_view(&out)));
    return message;
}

const struct template_list *chat_adapt(struct chat *chat, const struct template_list *messages,
                                       struct template_value *tools, size_t *added,
                                       size_t *prompt_count)
{
    if (tools->kind != TEMPLATE_LIST && are_plain(chat, messages))
        return messages;
    struct template_list *list =
        template_value_list(&chat->rows, TEMPLATE_PLAIN, messages->count + 1).list;
    bool moved = tools->kind == TEMPLATE_LIST && !renders(chat, CHAT_TOOLS);
    size_t first = 0, prompt = *prompt_count;
    if (moved) {
        bool system = messages->count && chat_is_role(messages->items[0], "system");
        append(chat, list, with_tools(chat, system ? &messages->items[0] : NULL, *tools));
        first = system;
        *added += !system;
        *tools = (struct template_value){ .kind = TEMPLATE_NONE };
        chat->adapted |= CHAT_TOOLS;
        if (prompt && !system)
            ++*prompt_count;
    }
    for (size_t i = first; i < messages->count; i++) {
        size_t before = list->count;
        append(chat, list, messages->items[i]);
        if (prompt && i < prompt && list->count == before)
            --*prompt_count; // joined to the message before it
    }
    return list;
}

// Characters that templates may write otherwise: escaped, or trimmed within a text.
static bool is_changed(char c)
{
    switch (c) {
    case '"':
    case '\\':
    case '\'':
    case '<':
    case '>':
    case '&': return true;
    default: return (unsigned char)c < ' ';
    }
}

// The beginning of a text, as far as no template changes it when it writes JSON or trims.
static struct text beginning(struct text text)
{
    text = text_trim(text);
    size_t size = 0;
    while (size < text.size && size < LOOKED_FOR && !is_changed(text.at[size]))
        size++;
    return (struct text){ text.at, size };
}

// Whether a text begins somewhere in the output; *at is where the last search ended, because
// messages come out in their order.
static bool is_written(struct chat *chat, struct text text, size_t *at)
{
    struct text start = beginning(text), all = out_view(&chat->out);
    if (!start.size)
        return true;
    const char *found = find((struct text){ all.at + *at, all.size - *at }, start);
    if (!found)
        found = find(all, start);
    if (found)
        *at = (size_t)(found - all.at);
    return found != NULL;
}

// The thoughts that a content begins with, <think>…</think>; empty if there are none.
static struct text thoughts(struct text content)
{
    const char *end = find(content, TEXT("</think>"));
    if (!end)
        return (struct text){ 0 };
    struct text inside = { content.at, (size_t)(end - content.at) };
    const char *start = find(inside, TEXT("<think>"));
    if (start) {
        inside.at = start + strlen("<think>");
        inside.size = (size_t)(end - inside.at);
    }
    return inside;
}

int chat_left_out(struct chat *chat, const struct template_list *messages)
{
    size_t at = 0;
    int parts = 0;
    for (size_t i = 0; i < messages->count; i++) {
        const struct template_value *reasoning = reasoning_of(messages->items[i]);
        const struct template_value *content = value_of(messages->items[i], "content");
        bool text = content && content->kind == TEMPLATE_STRING;
        struct text thought = text ? thoughts(content->string) : (struct text){ 0 };
        if (reasoning && !is_written(chat, reasoning->string, &at))
            parts |= CHAT_REASONING;
        if (thought.at && !is_written(chat, thought, &at))
            parts |= CHAT_REASONING;
        if (text && !thought.at && !is_written(chat, content->string, &at))
            parts |= CHAT_CONTENT;
    }
    return parts;
}
