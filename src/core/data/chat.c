#include "core/data/chat.h"

#include <string.h>

enum { SCRATCH_BYTES = 64 * 1024, CHECKED_TURNS = 50 };

const char *const chat_label_names[] = { "all", "assistant", "completion", NULL };

static void set_text(struct template_run *run, const char *name, struct text text)
{
    if (text.at)
        template_set(run, name, template_value_string(text));
}

enum err chat_init(struct chat *chat, const struct chat_settings *settings)
{
    struct template_value none = { .kind = TEMPLATE_NONE };
    *chat = (struct chat){ .settings = *settings };
    chat->out.arena = chat->with.arena = chat->without.arena = &chat->arena;
    arena_alloc(&chat->rows, SCRATCH_BYTES); // one block that every render uses again
    chat->empty = arena_mark(&chat->rows);
    chat->empty.used = 0;
    if (!settings->template)
        return OK;
    struct template_run *run = &chat->run;
    template_run_init(run, settings->template);
    run->date = settings->date;
    template_set(run, "documents", none);
    set_text(run, "bos_token", settings->bos);
    set_text(run, "eos_token", settings->eos);
    bool more = settings->tokens.kind == TEMPLATE_DICT;
    for (size_t i = 0; more && i < settings->tokens.dict->count; i++) {
        const struct template_entry *entry = &settings->tokens.dict->entries[i];
        template_set(run, text_copy(&chat->arena, entry->key.string), entry->value);
    }
    return OK;
}

void chat_release(struct chat *chat)
{
    if (chat->settings.template)
        template_run_release(&chat->run);
    arena_release(&chat->arena);
    arena_release(&chat->rows);
    *chat = (struct chat){ 0 };
}

// --- labels ------------------------------------------------------------------

// Adds a span, joined to the one before where they touch. Empty ones are left out.
static void label(struct chat *chat, size_t start, size_t end)
{
    if (start >= end)
        return;
    if (chat->span_count && chat->spans[chat->span_count - 1].end >= start) {
        struct template_span *last = &chat->spans[chat->span_count - 1];
        last->end = end > last->end ? end : last->end;
        return;
    }
    if (chat->span_count == chat->span_room) {
        size_t room = chat->span_room ? chat->span_room * 2 : 16;
        chat->spans = arena_grow(&chat->arena, chat->spans, chat->span_room * sizeof *chat->spans,
                                 room * sizeof *chat->spans);
        chat->span_room = room;
    }
    chat->spans[chat->span_count++] = (struct template_span){ start, end };
}

// Takes a stretch out of the labels.
static void unlabel(struct chat *chat, size_t start, size_t end)
{
    size_t count = chat->span_count;
    struct template_span *old = ARENA_NEW(&chat->rows, struct template_span, count + 1);
    if (count)
        memcpy(old, chat->spans, count * sizeof *old);
    chat->span_count = 0;
    for (size_t i = 0; i < count; i++) {
        label(chat, old[i].start, old[i].end < start ? old[i].end : start);
        label(chat, old[i].start > end ? old[i].start : end, old[i].end);
    }
}

static bool is_role(struct template_value message, const char *role)
{
    const struct template_value *value = template_value_find(message.dict, TEXT("role"));
    return value && value->kind == TEMPLATE_STRING && text_is(value->string, role);
}

static bool is_answer(struct template_value message)
{
    return is_role(message, "assistant") || is_role(message, "model");
}

static bool carries_loss(struct template_value message)
{
    const struct template_value *weight = template_value_find(message.dict, TEXT("loss_weight"));
    weight = weight ? weight : template_value_find(message.dict, TEXT("weight"));
    return !weight || weight->kind == TEMPLATE_NONE || template_value_truth(*weight);
}

// --- rendering ---------------------------------------------------------------

// Renders the first count messages into out, which is emptied first.
static enum err render(struct chat *chat, struct out *out, const struct template_list *messages,
                       size_t count, bool prompt)
{
    struct template_list part = *messages;
    part.count = count;
    out->size = 0;
    template_set(&chat->run, "messages",
                 (struct template_value){ .kind = TEMPLATE_LIST, .list = &part });
    template_set(&chat->run, "add_generation_prompt", template_value_flag(prompt));
    return template_render(&chat->run, out);
}

static size_t shared_start(struct text a, struct text b)
{
    size_t most = a.size < b.size ? a.size : b.size, same = 0;
    if (!memcmp(a.at, b.at, most))
        return most;
    while (same < most && a.at[same] == b.at[same])
        same++;
    while (same > 0 && ((unsigned char)a.at[same] & 0xC0) == 0x80)
        same--; // not inside a character
    return same;
}

static size_t shared_end(struct text a, struct text b, size_t from)
{
    size_t same = 0;
    while (same < a.size - from && same < b.size - from &&
           a.at[a.size - 1 - same] == b.at[b.size - 1 - same])
        same++;
    return same;
}

// Where the content of message index stands in the render of count messages: what changes when
// the content is another. False if that cannot be rendered.
static bool find_content(struct chat *chat, const struct template_list *messages, size_t index,
                         size_t count, struct text whole, struct template_span *out)
{
    struct template_value *message = &messages->items[index], kept = *message;
    struct template_value other = template_value_dict(&chat->rows, kept.dict->count + 1);
    for (size_t i = 0; i < kept.dict->count; i++)
        template_value_put(&chat->rows, other.dict, kept.dict->entries[i].key,
                           kept.dict->entries[i].value);
    template_value_put(&chat->rows, other.dict, template_value_string(TEXT("content")),
                       template_value_string(TEXT("\x01")));
    *message = other;
    enum err err = render(chat, &chat->without, messages, count, false);
    *message = kept;
    if (err)
        return false;
    struct text changed = out_view(&chat->without);
    out->start = shared_start(whole, changed);
    out->end = whole.size - shared_end(whole, changed, out->start);
    return true;
}

// The bytes that message index adds to the whole text, from behind the header of its turn if it
// is an answer. Rendering one message more shows it where a template treats a message the same
// whatever follows; else its content is found by changing it, and the turn's ending behind that.
static struct template_span prefix_extent(struct chat *chat, const struct template_list *messages,
                                          size_t index)
{
    struct text whole = out_view(&chat->out);
    bool answer = is_answer(messages->items[index]);
    struct template_span span = { 0, whole.size }, content, alone;
    bool started = index == 0 && !answer;
    if (!started && !render(chat, &chat->with, messages, index, answer)) {
        struct text before = out_view(&chat->with);
        span.start = shared_start(before, whole);
        started = span.start == before.size;
    }
    if (started && index + 1 == messages->count)
        return span;
    bool ended = !render(chat, &chat->with, messages, index + 1, false);
    struct text until = out_view(&chat->with);
    if (started && ended && shared_start(until, whole) == until.size) {
        span.end = until.size;
        return span;
    }
    if (!find_content(chat, messages, index, messages->count, whole, &content))
        return (struct template_span){ span.start, span.start };
    span = (struct template_span){ started ? span.start : content.start, content.end };
    if (ended && find_content(chat, messages, index, index + 1, until, &alone)) {
        struct text ending = { until.at + alone.end, until.size - alone.end };
        struct text rest = { whole.at + content.end, whole.size - content.end };
        span.end += shared_start(ending, rest);
    }
    return span;
}

// What add_generation_prompt adds behind these messages, asked for once.
static void learn_header(struct chat *chat, const struct template_list *messages)
{
    struct text whole = out_view(&chat->out), more;
    chat->header = TEXT("");
    if (chat->settings.add_generation_prompt ||
        render(chat, &chat->with, messages, messages->count, true))
        return;
    more = out_view(&chat->with);
    if (more.size > whole.size && !memcmp(more.at, whole.at, whole.size))
        chat->header =
            (struct text){ arena_copy(&chat->arena, more.at + whole.size, more.size - whole.size),
                           more.size - whole.size };
}

// The same from the turn of the template's loop that wrote the message. False if no turn did, or
// if an answer does not start as a generation prompt would.
static bool turn_extent(struct chat *chat, const struct template_list *messages, size_t index,
                        struct template_span *out)
{
    *out = chat->run.turns ? chat->run.turns[index] : (struct template_span){ 0 };
    if (chat->unsteady || out->start == out->end)
        return false;
    if (!is_answer(messages->items[index])) {
        out->start = index ? out->start : 0;
        return true;
    }
    if (!chat->header.at)
        learn_header(chat, messages);
    size_t size = chat->header.size;
    if (size > out->end - out->start || memcmp(chat->out.at + out->start, chat->header.at, size))
        return false;
    out->start += size;
    return true;
}

// Prefixes are the definition; turns are one render instead of many. The first turns and every
// hundredth are held against prefixes, and one difference ends their use.
static struct template_span extent(struct chat *chat, const struct template_list *messages,
                                   size_t index)
{
    struct template_span turn;
    if (!turn_extent(chat, messages, index, &turn))
        return prefix_extent(chat, messages, index);
    if (chat->turn_count++ >= CHECKED_TURNS && chat->turn_count % 100)
        return turn;
    struct template_span span = prefix_extent(chat, messages, index);
    chat->unsteady = span.start != turn.start || span.end != turn.end;
    return span;
}

static size_t count_answers(const struct template_list *messages)
{
    size_t count = 0;
    for (size_t i = 0; i < messages->count; i++)
        count += is_answer(messages->items[i]);
    return count;
}

// Labels of generation blocks; the weights need one block per answer to be told apart.
static bool label_blocks(struct chat *chat, const struct template_list *messages)
{
    const struct template_run *run = &chat->run;
    bool matched = run->span_count == count_answers(messages);
    for (size_t i = 0; i < messages->count; i++)
        if (!carries_loss(messages->items[i]) && !matched)
            return false;
    for (size_t i = 0, block = 0; i < messages->count && matched; i++) {
        if (!is_answer(messages->items[i]))
            continue;
        struct template_span span = run->spans[block++];
        if (carries_loss(messages->items[i]))
            label(chat, span.start, span.end);
    }
    for (size_t i = 0; i < run->span_count && !matched; i++)
        label(chat, run->spans[i].start, run->spans[i].end);
    return true;
}

static void label_answers(struct chat *chat, const struct template_list *messages)
{
    if (template_has_generation(chat->settings.template) && label_blocks(chat, messages))
        return;
    for (size_t i = 0; i < messages->count; i++) {
        if (!is_answer(messages->items[i]) || !carries_loss(messages->items[i]))
            continue;
        struct template_span span = extent(chat, messages, i);
        label(chat, span.start, span.end);
    }
}

static void label_all(struct chat *chat, const struct template_list *messages)
{
    label(chat, 0, chat->out.size);
    for (size_t i = 0; i < messages->count; i++) {
        if (carries_loss(messages->items[i]))
            continue;
        struct template_span span = extent(chat, messages, i);
        unlabel(chat, span.start, span.end);
    }
}

// What follows the prompt: where a row draws no line, the last answer and all behind it.
static void label_completion(struct chat *chat, const struct template_list *messages, size_t line)
{
    size_t last = messages->count;
    while (!line && last > 0 && !is_answer(messages->items[last - 1]))
        last--;
    line = line ? line : last > 0 ? last - 1 : 0;
    if (line >= messages->count)
        return;
    size_t start = extent(chat, messages, line).start;
    label(chat, start, chat->out.size);
    for (size_t i = line; i < messages->count; i++) {
        if (carries_loss(messages->items[i]))
            continue;
        struct template_span span = extent(chat, messages, i);
        unlabel(chat, span.start, span.end);
    }
}

static enum err render_chat(struct chat *chat, const struct template_list *messages,
                            struct template_value tools, size_t line)
{
    if (!chat->settings.template)
        return fail(ERR_INPUT, "is a conversation, and there is no chat template; give the "
                               "model's tokenizer_config.json, or --template chatml");
    template_set(&chat->run, "tools", tools);
    chat->run.watched = messages;
    TRY(render(chat, &chat->out, messages, messages->count, chat->settings.add_generation_prompt));
    chat->run.watched = NULL;
    switch (chat->settings.labels) {
    case CHAT_ALL: label_all(chat, messages); break;
    case CHAT_ASSISTANT: label_answers(chat, messages); break;
    case CHAT_COMPLETION: label_completion(chat, messages, line); break;
    }
    return OK;
}

// --- what is not a conversation yet ------------------------------------------

static void add_message(struct chat *chat, struct template_list *list, const char *role,
                        struct text content)
{
    struct template_value message = template_value_dict(&chat->rows, 2);
    struct template_entry *entries = message.dict->entries;
    entries[0].key = template_value_string(TEXT("role"));
    entries[0].value = template_value_string(text_of(role));
    entries[1].key = template_value_string(TEXT("content"));
    entries[1].value = template_value_string(content);
    message.dict->count = 2;
    template_value_append(&chat->rows, list, message);
}

static struct text instruction_text(struct chat *chat, const struct record_sequence *sequence)
{
    if (!sequence->input.size)
        return sequence->prompt;
    struct out both = { .arena = &chat->rows };
    out_bytes(&both, sequence->prompt.at, sequence->prompt.size);
    out_char(&both, '\n');
    out_bytes(&both, sequence->input.at, sequence->input.size);
    return out_view(&both);
}

static enum err render_turns(struct chat *chat, const struct record_sequence *sequence)
{
    struct template_list *list = template_value_list(&chat->rows, TEMPLATE_PLAIN, 4).list;
    struct text system = sequence->system.size ? sequence->system : chat->settings.system;
    if (system.size)
        add_message(chat, list, "system", system);
    add_message(chat, list, "user", instruction_text(chat, sequence));
    size_t line = list->count;
    add_message(chat, list, "assistant", sequence->completion);
    return render_chat(chat, list, sequence->tools, line);
}

static enum err render_messages(struct chat *chat, const struct record_sequence *sequence)
{
    const struct template_list *messages = sequence->messages.list;
    struct text system = sequence->system.size ? sequence->system : chat->settings.system;
    size_t line = sequence->prompt_count;
    if (system.size && !(messages->count && is_role(messages->items[0], "system"))) {
        struct template_list *list =
            template_value_list(&chat->rows, TEMPLATE_PLAIN, messages->count + 1).list;
        add_message(chat, list, "system", system);
        for (size_t i = 0; i < messages->count; i++)
            template_value_append(&chat->rows, list, messages->items[i]);
        messages = list;
        line += line > 0;
    }
    return render_chat(chat, messages, sequence->tools, line);
}

// The prompt that instruction rows get from trainers when no template speaks for the model.
static void write_instruction(struct out *out, const struct record_sequence *sequence)
{
    bool input = sequence->input.size > 0;
    out_put(out,
            "Below is an instruction that describes a task%s. Write a response that "
            "appropriately completes the request.\n\n### Instruction:\n",
            input ? ", paired with an input that provides further context" : "");
    out_bytes(out, sequence->prompt.at, sequence->prompt.size);
    if (input) {
        out_put(out, "\n\n### Input:\n");
        out_bytes(out, sequence->input.at, sequence->input.size);
    }
    out_put(out, "\n\n### Response:\n");
}

static void write_plain(struct chat *chat, const struct record_sequence *sequence)
{
    struct out *out = &chat->out;
    struct text eos = chat->settings.eos;
    out->size = 0;
    if (sequence->kind == RECORD_INSTRUCTION)
        write_instruction(out, sequence);
    else if (sequence->kind == RECORD_PAIR)
        out_bytes(out, sequence->prompt.at, sequence->prompt.size);
    size_t start = out->size;
    out_bytes(out, sequence->completion.at, sequence->completion.size);
    bool ended = eos.size <= out->size && eos.size > 0 &&
                 !memcmp(out->at + out->size - eos.size, eos.at, eos.size);
    if (eos.size && !ended)
        out_bytes(out, eos.at, eos.size);
    label(chat, chat->settings.labels == CHAT_ALL ? 0 : start, out->size);
}

enum err chat_render(struct chat *chat, struct chat_text *out,
                     const struct record_sequence *sequence)
{
    bool strings = sequence->kind == RECORD_PLAIN ||
                   (sequence->kind != RECORD_CHAT && !chat->settings.template) ||
                   (sequence->kind == RECORD_PAIR && chat->settings.raw_pairs);
    arena_rewind(&chat->rows, chat->empty);
    chat->span_count = 0;
    if (strings)
        write_plain(chat, sequence);
    else if (sequence->kind == RECORD_CHAT)
        TRY(render_messages(chat, sequence));
    else
        TRY(render_turns(chat, sequence));
    *out = (struct chat_text){ out_view(&chat->out), chat->spans, chat->span_count, strings };
    return OK;
}
