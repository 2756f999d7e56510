// SPDX-License-Identifier: Apache-2.0
// Reads the messages of a conversation in any common form into role, content, reasoning_content and
// tool_calls, the keys that chat templates read.

#include "core/data/record_internal.h"

#include <ctype.h>
#include <string.h>

static const struct template_value none = { .kind = TEMPLATE_NONE };

static bool is_text(struct template_value value)
{
    return value.kind == TEMPLATE_STRING;
}

static bool is_list(struct template_value value)
{
    return value.kind == TEMPLATE_LIST;
}

static struct template_value string_of(const char *literal)
{
    return template_value_string(text_of(literal));
}

static void put(struct arena *arena, struct template_value message, const char *key,
                struct template_value value)
{
    template_value_put(arena, message.dict, string_of(key), value);
}

// The first of these keys (ended by NULL) that a message has with a value; NULL if it has none.
static const struct template_value *first_of(struct template_value message, const char *const *keys)
{
    for (; *keys; keys++) {
        const struct template_value *value = template_value_find(message.dict, text_of(*keys));
        if (value && value->kind != TEMPLATE_NONE)
            return value;
    }
    return NULL;
}

struct template_value record_message(struct arena *arena, const char *role, struct text content)
{
    struct template_value message = template_value_dict(arena, 2);
    put(arena, message, "role", string_of(role));
    put(arena, message, "content", template_value_string(content));
    return message;
}

struct text record_joined(struct arena *arena, struct text a, const char *between, struct text b)
{
    if (!a.size)
        return b;
    struct out out = { .arena = arena };
    out_bytes(&out, a.at, a.size);
    out_bytes(&out, between, strlen(between));
    out_bytes(&out, b.at, b.size);
    return out_view(&out);
}

// --- tool calls --------------------------------------------------------------

// Converts {"name", "arguments"}, or a list of them, from JSON text or values, to the form that
// templates expect. None if they are something else.
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

// The legacy form of OpenAI: one call under "function_call", what it returned from "function".
static void read_legacy_call(struct arena *arena, struct template_value message)
{
    const struct template_value *call = template_value_find(message.dict, TEXT("function_call"));
    const struct template_value *role = template_value_find(message.dict, TEXT("role"));
    if (role && is_text(*role) && text_is(role->string, "function"))
        put(arena, message, "role", string_of("tool"));
    const struct template_value *newer = template_value_find(message.dict, TEXT("tool_calls"));
    if (!call || !template_value_truth(*call) || (newer && newer->kind != TEMPLATE_NONE))
        return;
    struct template_value calls = tool_calls_of(arena, *call);
    put(arena, message, "tool_calls", is_list(calls) ? calls : *call);
}

// --- content -----------------------------------------------------------------

bool record_is_media(struct text type)
{
    static const char *const types[] = { "image",     "image_url", "input_image", "video",
                                         "video_url", "audio",     "input_audio", "audio_url" };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (text_is(type, types[i]))
            return true;
    return false;
}

struct text record_part_type(struct template_value part)
{
    const struct template_value *type = template_value_find(part.dict, TEXT("type"));
    if (type && is_text(*type))
        return type->string;
    const struct template_value *text = template_value_find(part.dict, TEXT("text"));
    if (text && is_text(*text))
        return TEXT("text");
    static const struct {
        const char *keys[5], *type;
    } gemini[] = {
        { { "inlineData", "inline_data", "fileData", "file_data" }, "image" },
        { { "functionCall", "function_call" }, "tool_use" },
        { { "functionResponse", "function_response" }, "tool_result" },
    };
    for (size_t i = 0; i < sizeof gemini / sizeof *gemini; i++)
        if (first_of(part, gemini[i].keys))
            return text_of(gemini[i].type);
    return TEXT("");
}

struct parts {
    struct text content, reasoning;
    struct template_value calls;
    struct template_value kept;    // the parts that are content
    struct template_list *results; // messages of tools; NULL: none may be here
    struct text unknown;           // the type of a part that is none of these
    bool media;                    // an image, video or sound is among them
};

static struct parts no_parts(struct arena *arena, struct template_list *results)
{
    return (struct parts){ .calls = template_value_list(arena, TEMPLATE_PLAIN, 0),
                           .kept = template_value_list(arena, TEMPLATE_PLAIN, 0),
                           .results = results };
}

static bool read_part(struct parts *parts, struct arena *arena, struct template_value part);

static bool read_all(struct parts *parts, struct arena *arena, const struct template_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (!read_part(parts, arena, list->items[i]))
            return false;
    return true;
}

// The object that tells of a call or a result: the part itself (Anthropic), or within it (Gemini).
static struct template_value told_in(struct template_value part, const char *const *keys)
{
    const struct template_value *inner = first_of(part, keys);
    return inner && inner->kind == TEMPLATE_DICT ? *inner : part;
}

// {"type": "tool_use", "id", "name", "input"} or {"functionCall": {"name", "args"}}.
static bool read_call(struct parts *parts, struct arena *arena, struct template_value part)
{
    static const char *const inner[] = { "functionCall", "function_call", NULL };
    static const char *const inputs[] = { "input", "args", NULL };
    struct template_value told = told_in(part, inner);
    const struct template_value *name = template_value_find(told.dict, TEXT("name"));
    const struct template_value *input = first_of(told, inputs);
    const struct template_value *id = template_value_find(told.dict, TEXT("id"));
    if (!name || !is_text(*name))
        return false;
    struct template_value function = template_value_dict(arena, 2),
                          call = template_value_dict(arena, 3);
    put(arena, function, "name", *name);
    put(arena, function, "arguments", input ? *input : template_value_dict(arena, 0));
    if (id)
        put(arena, call, "id", *id);
    put(arena, call, "type", string_of("function"));
    put(arena, call, "function", function);
    template_value_append(arena, parts->calls.list, call);
    return true;
}

static bool is_content(const struct parts *parts)
{
    return !parts->calls.list->count && !parts->reasoning.size;
}

// {"type": "tool_result", "tool_use_id", "content"} or {"functionResponse": {"name", "response"}}
// is a message of its own.
static bool read_result(struct parts *parts, struct arena *arena, struct template_value part)
{
    static const char *const inner[] = { "functionResponse", "function_response", NULL };
    static const char *const contents[] = { "content", "response", NULL };
    static const char *const ids[] = { "tool_use_id", "id", NULL };
    struct template_value told = told_in(part, inner), message;
    const struct template_value *content = first_of(told, contents), *id = first_of(told, ids);
    const struct template_value *name = template_value_find(told.dict, TEXT("name"));
    if (!parts->results)
        return false;
    message = record_message(arena, "tool", TEXT(""));
    if (content && is_list(*content)) {
        struct parts within = no_parts(arena, NULL);
        if (!read_all(&within, arena, content->list) || !is_content(&within)) {
            parts->unknown = within.unknown;
            return false;
        }
        put(arena, message, "content",
            within.media ? within.kept : template_value_string(within.content));
    } else if (content) {
        put(arena, message, "content", *content);
    }
    if (id)
        put(arena, message, "tool_call_id", *id);
    if (name)
        put(arena, message, "name", *name);
    template_value_append(arena, parts->results, message);
    return true;
}

static void add_text(struct parts *parts, struct arena *arena, struct template_value part,
                     struct text text)
{
    parts->content = record_joined(arena, parts->content, "", text);
    template_value_append(arena, parts->kept.list, part);
}

static bool read_text_part(struct parts *parts, struct arena *arena, struct template_value part,
                           struct text type, struct text text)
{
    if (text_is(type, "text") || text_is(type, "input_text") || text_is(type, "output_text") ||
        text_is(type, "refusal")) {
        add_text(parts, arena, part, text);
    } else if (text_is(type, "reasoning") || text_is(type, "thinking")) {
        parts->reasoning = record_joined(arena, parts->reasoning, "", text);
    } else if (text_is(type, "tool_call")) {
        struct template_value more = tool_calls_of(arena, template_value_string(text));
        if (!is_list(more)) // not JSON: it stays text
            add_text(parts, arena, part, text);
        for (size_t k = 0; is_list(more) && k < more.list->count; k++)
            template_value_append(arena, parts->calls.list, more.list->items[k]);
    } else {
        return false;
    }
    return true;
}

static bool read_part(struct parts *parts, struct arena *arena, struct template_value part)
{
    static const char *const texts[] = {
        "text", "value", "thinking", "reasoning", "refusal", NULL
    };
    if (is_text(part)) {
        add_text(parts, arena, part, part.string);
        return true;
    }
    if (part.kind != TEMPLATE_DICT)
        return false;
    struct text type = record_part_type(part);
    parts->unknown = type;
    if (record_is_media(type)) {
        parts->media = true;
        template_value_append(arena, parts->kept.list, part);
        return true;
    }
    if (text_is(type, "tool_use"))
        return read_call(parts, arena, part);
    if (text_is(type, "tool_result"))
        return read_result(parts, arena, part);
    const struct template_value *value = first_of(part, texts);
    return value && is_text(*value) && read_text_part(parts, arena, part, type, value->string);
}

static enum err unknown_part(const struct parts *parts, size_t number)
{
    return fail(ERR_INPUT,
                "the content of message %zu has a part %s%.*s%s, which is neither text, reasoning, "
                "a tool call, a tool's result nor an image, video or sound; write it as text",
                number, parts->unknown.size ? "of type \"" : "without a type",
                TEXT_BRIEF(parts->unknown), parts->unknown.size ? "\"" : "");
}

// Converts content in parts: joins text parts, moves reasoning and tool calls to the keys that
// templates read, and appends what tools returned to results. A list with images stays one:
// templates of vision models read it. A part of an unknown kind is refused, because nobody could
// say what became of it.
static enum err read_parts(struct arena *arena, struct template_value message,
                           const struct template_list *list, size_t number,
                           struct template_list *results)
{
    struct parts parts = no_parts(arena, results);
    if (!read_all(&parts, arena, list))
        return unknown_part(&parts, number);
    put(arena, message, "content", parts.media ? parts.kept : template_value_string(parts.content));
    if (parts.reasoning.size)
        put(arena, message, "reasoning_content", template_value_string(parts.reasoning));
    if (parts.calls.list->count)
        put(arena, message, "tool_calls", parts.calls);
    return OK;
}

static bool joined_items(struct text *out, struct arena *arena, const struct template_list *list)
{
    struct out all = { .arena = arena };
    for (size_t i = 0; i < list->count; i++) {
        struct text one;
        if (!record_text(&one, arena, list->items[i]))
            return false;
        out_put(&all, "%s", i ? "\n" : "");
        out_bytes(&all, one.at, one.size);
    }
    *out = out_view(&all);
    return true;
}

bool record_text(struct text *out, struct arena *arena, struct template_value value)
{
    const struct template_value *inner =
        value.kind == TEMPLATE_DICT ? template_value_find(value.dict, TEXT("parts")) : NULL;
    if (is_text(value)) {
        *out = value.string;
        return true;
    }
    if (is_list(value) && value.list->count && value.list->items[0].kind == TEMPLATE_DICT)
        inner = &value;
    else if (is_list(value) && value.list->count)
        return joined_items(out, arena, value.list);
    struct parts parts = no_parts(arena, NULL);
    if (!inner || !is_list(*inner) || !read_all(&parts, arena, inner->list) || parts.media ||
        !is_content(&parts))
        return false;
    *out = parts.content;
    return true;
}

// --- one message -------------------------------------------------------------

static const char *role_of_speaker(struct text speaker)
{
    static const char *const roles[][2] = {
        { "human", "user" },
        { "user", "user" },
        { "prompter", "user" },
        { "gpt", "assistant" },
        { "assistant", "assistant" },
        { "chatgpt", "assistant" },
        { "bing", "assistant" },
        { "bard", "assistant" },
        { "claude", "assistant" },
        { "model", "assistant" },
        { "bot", "assistant" },
        { "ai", "assistant" },
        { "system", "system" },
        { "observation", "tool" },
        { "tool", "tool" },
        { "function", "tool" },
        { "function_response", "tool" },
        { "function response", "tool" },
        { "tool_response", "tool" },
        { "function_call", "call" },
        { "tool_call", "call" },
    };
    char lower[32];
    if (speaker.size >= sizeof lower)
        return NULL;
    for (size_t i = 0; i < speaker.size; i++)
        lower[i] = (char)tolower((unsigned char)speaker.at[i]);
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (text_is((struct text){ lower, speaker.size }, roles[i][0]))
            return roles[i][1];
    return NULL;
}

// A turn of ShareGPT's kind: who speaks under from or speaker, what they say under value.
static enum err message_from_speaker(struct template_value *out, struct arena *arena,
                                     struct template_value turn, size_t number)
{
    static const char *const speakers[] = { "from", "speaker", "role", NULL };
    static const char *const values[] = { "value", "text", "content", "message", NULL };
    static const char *const kept[] = { "tool_calls", "reasoning_content", "reasoning",
                                        "thinking" };
    const struct template_value *from = first_of(turn, speakers), *value = first_of(turn, values);
    if (!from || !is_text(*from) || !value || !is_text(*value))
        return fail(ERR_INPUT, "turn %zu needs a from and a value, both strings", number);
    const char *role = role_of_speaker(from->string);
    if (!role)
        return fail(ERR_INPUT,
                    "turn %zu is from \"%.*s\"; it must be human, gpt, system, function_call or "
                    "observation",
                    number, TEXT_ARGS(from->string));
    if (strcmp(role, "call")) {
        *out = record_message(arena, role, value->string);
    } else {
        struct template_value calls = tool_calls_of(arena, *value);
        bool readable = is_list(calls);
        *out = record_message(arena, "assistant", readable ? TEXT("") : value->string);
        if (readable)
            put(arena, *out, "tool_calls", calls);
    }
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        const struct template_value *more = template_value_find(turn.dict, text_of(kept[i]));
        if (more && more->kind != TEMPLATE_NONE)
            put(arena, *out, kept[i], *more);
    }
    static const char *const weights[] = { "loss_weight", "weight" };
    for (int i = 0; i < 2; i++) {
        const struct template_value *weight = template_value_find(turn.dict, text_of(weights[i]));
        if (weight)
            put(arena, *out, "loss_weight", *weight);
    }
    return OK;
}

// A key of a message other than its role.
static struct text strange_key(struct template_value message)
{
    size_t i = message.dict->count - 1;
    while (i > 0 && text_is(message.dict->entries[i].key.string, "role"))
        i--;
    return message.dict->entries[i].key.string;
}

// Data sets wrapped in an object, {"data": [row, …]}, look like one row of messages.
static enum err no_role(struct template_value message, size_t number)
{
    if (!message.dict->count || template_value_find(message.dict, TEXT("content")))
        return fail(ERR_INPUT, "message %zu has no role", number);
    return fail(ERR_INPUT,
                "message %zu has no role, but \"%.*s\"; if the list holds rows instead of "
                "messages, write each of them on a line of its own",
                number, TEXT_ARGS(strange_key(message)));
}

// Who may hand over what a tool returned.
static bool brings_results(struct text role)
{
    return text_is(role, "user") || text_is(role, "tool") || text_is(role, "function");
}

// A message with a role and a content of some kind. Gemini's parts are a content; its model is the
// assistant. What tools returned is appended to results.
static enum err check_message(struct arena *arena, struct template_value message, size_t number,
                              struct template_list *results)
{
    static const char *const others[] = { "tool_calls", "reasoning_content", "reasoning",
                                          "thinking", NULL };
    const struct template_value *role = template_value_find(message.dict, TEXT("role"));
    if (!role || !is_text(*role))
        return no_role(message, number);
    const struct template_value *parts = template_value_find(message.dict, TEXT("parts"));
    const struct template_value *content = template_value_find(message.dict, TEXT("content"));
    if (!content && parts && is_list(*parts)) {
        if (text_is(role->string, "model"))
            put(arena, message, "role", string_of("assistant"));
        put(arena, message, "content", *parts);
        content = template_value_find(message.dict, TEXT("content"));
    }
    read_legacy_call(arena, message);
    content = template_value_find(message.dict, TEXT("content"));
    if (!content && message.dict->count > 1 && !first_of(message, others))
        return fail(ERR_INPUT,
                    "message %zu has neither content nor tool calls nor reasoning, but other keys "
                    "(such as \"%.*s\")",
                    number, TEXT_ARGS(strange_key(message)));
    if (!content || is_text(*content) || content->kind == TEMPLATE_NONE)
        return OK;
    if (is_list(*content))
        return read_parts(arena, message, content->list, number,
                          brings_results(role->string) ? results : NULL);
    if (content->kind == TEMPLATE_DICT) // what a tool returned
        return OK;
    return fail(ERR_INPUT, "the content of message %zu is a %s; it must be a string or a list",
                number, template_value_kind_name(*content));
}

// Whether a turn names speaker and text other than as role and content.
static bool has_speaker(struct template_value turn)
{
    static const char *const speakers[] = { "from", "speaker", NULL };
    static const char *const values[] = { "value", "text", "message", NULL };
    if (first_of(turn, speakers))
        return true;
    return !template_value_find(turn.dict, TEXT("content")) && first_of(turn, values) &&
           template_value_find(turn.dict, TEXT("role"));
}

// --- lists of messages -------------------------------------------------------

static const struct {
    const char *mark, *role;
} speakers[] = {
    { "FUNCTION RESPONSE:", "tool" },
    { "ASSISTANT:", "assistant" },
    { "SYSTEM:", "system" },
    { "USER:", "user" },
};

// The speaker whose mark begins at this place of a transcript; -1: none.
static int speaker_at(struct text text, size_t at)
{
    for (size_t i = 0; i < sizeof speakers / sizeof *speakers; i++) {
        size_t size = strlen(speakers[i].mark);
        if (text.size - at >= size && !memcmp(text.at + at, speakers[i].mark, size))
            return (int)i;
    }
    return -1;
}

bool record_is_transcript(struct text text)
{
    int speaker = text.size ? speaker_at(text, 0) : -1;
    return speaker >= 0 && speakers[speaker].role[0] != 't';
}

// The end marks that Glaive's texts carry inside; templates write their own.
static struct text without_ends(struct arena *arena, struct text text)
{
    static const char mark[] = "<|endoftext|>";
    struct out out = { .arena = arena };
    for (size_t at = 0; at < text.size;) {
        if (text.size - at >= sizeof mark - 1 && !memcmp(text.at + at, mark, sizeof mark - 1)) {
            at += sizeof mark - 1;
            continue;
        }
        out_char(&out, text.at[at++]);
    }
    return text_trim(out_view(&out));
}

// Splits "USER: … ASSISTANT: … FUNCTION RESPONSE: …" at its speakers, as axolotl's glaive does.
static struct template_value transcript(struct arena *arena, struct text text)
{
    struct template_value list = template_value_list(arena, TEMPLATE_PLAIN, 8);
    for (size_t at = 0; at < text.size;) {
        int speaker = speaker_at(text, at);
        size_t start = at + strlen(speakers[speaker].mark), end = start;
        while (end < text.size && speaker_at(text, end) < 0)
            end++;
        struct text said = without_ends(arena, (struct text){ text.at + start, end - start });
        template_value_append(arena, list.list,
                              record_message(arena, speakers[speaker].role, said));
        at = end;
    }
    return list;
}

// Strings in turn: the user speaks first.
static bool read_strings(struct arena *arena, struct template_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (!is_text(list->items[i]))
            return false;
    for (size_t i = 0; i < list->count; i++)
        list->items[i] = record_message(arena, i % 2 ? "assistant" : "user", list->items[i].string);
    return list->count > 0;
}

// Both turns in one object, with the system text before the first or not: {"user", "assistant"} of
// the_cauldron and FineVision, {"human", "assistant"} of Firefly, {"input", "output"} of XTuner.
static bool read_exchange(struct template_list *out, struct arena *arena,
                          struct template_value value)
{
    static const struct {
        const char *role, *keys[4];
    } turns[] = {
        { "system", { "system" } },
        { "user", { "user", "human", "input" } },
        { "assistant", { "assistant", "output" } },
    };
    static const char *const single[] = { "role", "from", "speaker", "content", NULL };
    const struct template_value *said[3];
    for (int i = 0; i < 3; i++) {
        said[i] = first_of(value, turns[i].keys);
        if (said[i] ? !is_text(*said[i]) : i > 0)
            return false;
    }
    if (first_of(value, single))
        return false;
    for (int i = 0; i < 3; i++)
        if (said[i])
            template_value_append(arena, out,
                                  record_message(arena, turns[i].role, said[i]->string));
    return true;
}

// Whether nothing is left of a message after its results were taken out.
static bool is_spent(struct template_value message)
{
    static const char *const others[] = { "tool_calls", "reasoning_content", NULL };
    const struct template_value *content = template_value_find(message.dict, TEXT("content"));
    return content && is_text(*content) && !content->string.size && !first_of(message, others);
}

static enum err read_list(struct template_value *out, struct arena *arena,
                          struct template_list *list)
{
    if (list->count > 1 && read_strings(arena, list))
        return OK;
    struct template_value all = template_value_list(arena, TEMPLATE_PLAIN, list->count);
    for (size_t i = 0; i < list->count; i++) {
        struct template_value *message = &list->items[i];
        size_t before = all.list->count;
        if (message->kind != TEMPLATE_DICT)
            return fail(ERR_INPUT,
                        "message %zu is a %s; it must be an object with role and content", i + 1,
                        template_value_kind_name(*message));
        if (read_exchange(all.list, arena, *message))
            continue;
        TRY(has_speaker(*message) ? message_from_speaker(message, arena, *message, i + 1)
                                  : check_message(arena, *message, i + 1, all.list));
        if (all.list->count == before || !is_spent(*message))
            template_value_append(arena, all.list, *message);
    }
    *out = all;
    return OK;
}

// What str() makes of a list of dictionaries, as in tables that pandas wrote: "[{'role': …".
static bool is_python(struct text text)
{
    size_t at = 0;
    while (at < text.size && (text.at[at] == '[' || text.at[at] == '{'))
        at++;
    return at && at < text.size && text.at[at] == '\'';
}

enum err record_messages(struct template_value *out, struct arena *arena,
                         struct template_value value, const char *role_of_text)
{
    if (is_text(value) && role_of_text) {
        *out = template_value_list(arena, TEMPLATE_PLAIN, 1);
        template_value_append(arena, out->list, record_message(arena, role_of_text, value.string));
        return OK;
    }
    if (is_text(value) && record_is_transcript(text_trim(value.string))) {
        *out = transcript(arena, text_trim(value.string));
        return OK;
    }
    if (is_text(value)) { // in a table, nested values are JSON text
        struct template_value parsed;
        enum err err = template_value_read(&parsed, arena, value.string, "messages");
        if (err && is_python(text_trim(value.string)))
            return fail(ERR_INPUT, "the messages are Python's own text of a list, with single "
                                   "quotes; write them as JSON, with json.dumps");
        TRY(err);
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
    return read_list(out, arena, value.list);
}
