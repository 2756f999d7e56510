// SPDX-License-Identifier: Apache-2.0
// Turns a record into the text that a trainer tokenises: through the chat template, or without one
// as the Alpaca prompt or the plain strings. chat_labels.c decides which bytes carry loss.

#include "core/data/chat_internal.h"

#include <string.h>

enum { SCRATCH_BYTES = 64 * 1024 };

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
    arena_alloc(&chat->rows, SCRATCH_BYTES); // one block, reused by every render
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

// --- rendering ---------------------------------------------------------------

enum err chat_render_first(struct chat *chat, struct out *out, const struct template_list *messages,
                           size_t count, bool generation_prompt)
{
    struct template_list part = *messages;
    part.count = count;
    out->size = 0;
    template_set(&chat->run, "messages",
                 (struct template_value){ .kind = TEMPLATE_LIST, .list = &part });
    template_set(&chat->run, "add_generation_prompt", template_value_flag(generation_prompt));
    return template_render(&chat->run, out);
}

static bool holds(struct template_value message, const char *key)
{
    const struct template_value *value = template_value_find(message.dict, text_of(key));
    return value && template_value_truth(*value);
}

// What about a message a template may be unable to render; NULL if nothing is unusual.
static const char *unusual(struct template_value message)
{
    const struct template_value *content = template_value_find(message.dict, TEXT("content"));
    bool missing = !content || content->kind == TEMPLATE_NONE;
    if (missing && holds(message, "tool_calls"))
        return "has tool calls and no content";
    if (missing)
        return "has no content";
    return content->kind == TEMPLATE_STRING ? NULL : "has content other than text";
}

// Says which message the template failed on and what is unusual about it, then the engine's error.
// added is the number of messages that were put before the row's own.
static enum err explain(struct chat *chat, const struct template_list *messages, size_t added)
{
    const char *problem = text_copy(&chat->rows, text_of(error_text()));
    if (chat->run.failed_at >= messages->count)
        return fail(ERR_INPUT,
                    "the chat template cannot render this row (%s); choose another template with "
                    "--template",
                    problem);
    struct template_value message = messages->items[chat->run.failed_at];
    struct text role = template_value_find(message.dict, TEXT("role"))->string;
    const char *name = chat->run.failed_at < added
                           ? "the system message"
                           : text_format(&chat->rows, "message %zu (%.*s)",
                                         chat->run.failed_at + 1 - added, TEXT_ARGS(role));
    if (!unusual(message))
        return fail(ERR_INPUT, "the chat template rejects %s (%s); choose another with --template",
                    name, problem);
    return fail(ERR_INPUT,
                "%s %s, which the chat template cannot render (%s); choose one that can with "
                "--template, such as the model's own tokenizer_config.json",
                name, unusual(message), problem);
}

static enum err render_chat(struct chat *chat, const struct template_list *messages, size_t added,
                            const struct record_sequence *sequence, size_t prompt_count)
{
    struct template_value tools = sequence->tools;
    bool generation_prompt = chat->settings.add_generation_prompt || sequence->is_prompt;
    if (!chat->settings.template)
        return fail(ERR_INPUT,
                    "is a conversation, and no chat template is known; name one with --template "
                    "(FILE, chatml, llama3 or plain), or with --model a model that has one");
    if (chat->settings.adapts)
        messages = chat_adapt(chat, messages, &tools, &added, &prompt_count);
    template_set(&chat->run, "tools", tools);
    chat->run.watched = messages;
    enum err err =
        chat_render_first(chat, &chat->out, messages, messages->count, generation_prompt);
    chat->run.watched = NULL;
    if (err)
        return explain(chat, messages, added);
    if (chat->settings.adapts)
        chat->left_out = chat_left_out(chat, messages);
    if (!sequence->is_prompt)
        chat_label_messages(chat, messages, prompt_count);
    return OK;
}

// --- records to messages or strings ------------------------------------------

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
    size_t prompt_count = list->count;
    if (!sequence->is_prompt)
        add_message(chat, list, "assistant", sequence->completion);
    return render_chat(chat, list, 0, sequence, prompt_count);
}

static enum err render_messages(struct chat *chat, const struct record_sequence *sequence)
{
    const struct template_list *messages = sequence->messages.list;
    struct text system = sequence->system.size ? sequence->system : chat->settings.system;
    size_t prompt_count = sequence->prompt_count, added = 0;
    if (system.size && !(messages->count && chat_is_role(messages->items[0], "system"))) {
        struct template_list *list =
            template_value_list(&chat->rows, TEMPLATE_PLAIN, messages->count + 1).list;
        add_message(chat, list, "system", system);
        for (size_t i = 0; i < messages->count; i++)
            template_value_append(&chat->rows, list, messages->items[i]);
        messages = list;
        added = 1;
        prompt_count += prompt_count > 0;
    }
    return render_chat(chat, messages, added, sequence, prompt_count);
}

// The Alpaca prompt, which trainers give to instruction rows when the model has no template. A
// system text takes the place of its first sentence, as in axolotl.
static void write_instruction(struct out *out, const struct record_sequence *sequence)
{
    bool input = sequence->input.size > 0;
    if (sequence->system.size)
        out_put(out, "### System:\n%.*s\n\n", TEXT_ARGS(sequence->system));
    else
        out_put(out,
                "Below is an instruction that describes a task%s. Write a response that "
                "appropriately completes the request.\n\n",
                input ? ", paired with an input that provides further context" : "");
    out_put(out, "### Instruction:\n");
    out_bytes(out, sequence->prompt.at, sequence->prompt.size);
    if (input) {
        out_put(out, "\n\n### Input:\n");
        out_bytes(out, sequence->input.at, sequence->input.size);
    }
    out_put(out, "\n\n### Response:\n");
}

static void write_line(struct out *out, struct text text)
{
    out_bytes(out, text.at, text.size);
    if (text.size)
        out_char(out, '\n');
}

static void write_prompt(struct chat *chat, const struct record_sequence *sequence)
{
    struct out *out = &chat->out;
    if (sequence->kind == RECORD_INSTRUCTION) {
        write_instruction(out, sequence);
        return;
    }
    struct text prompt = instruction_text(chat, sequence);
    write_line(out, sequence->system);
    out_bytes(out, prompt.at, prompt.size);
}

static void write_plain(struct chat *chat, const struct record_sequence *sequence)
{
    struct out *out = &chat->out;
    struct text eos = chat->settings.eos;
    out->size = 0;
    write_prompt(chat, sequence);
    if (sequence->is_prompt)
        return;
    size_t start = out->size;
    out_bytes(out, sequence->completion.at, sequence->completion.size);
    bool ended = eos.size <= out->size && eos.size > 0 &&
                 !memcmp(out->at + out->size - eos.size, eos.at, eos.size);
    if (eos.size && !ended)
        out_bytes(out, eos.at, eos.size);
    chat_label(chat, chat->settings.labels == CHAT_ALL ? 0 : start, out->size);
}

enum err chat_render(struct chat *chat, struct chat_text *out,
                     const struct record_sequence *sequence)
{
    bool strings = sequence->kind == RECORD_PLAIN ||
                   (sequence->kind != RECORD_CHAT && !chat->settings.template) ||
                   (sequence->kind == RECORD_PAIR && chat->settings.raw_pairs &&
                    !sequence->system.size && sequence->tools.kind != TEMPLATE_LIST);
    arena_rewind(&chat->rows, chat->empty);
    chat->span_count = 0;
    chat->adapted = chat->left_out = 0;
    if (strings)
        write_plain(chat, sequence);
    else if (sequence->kind == RECORD_CHAT)
        TRY(render_messages(chat, sequence));
    else
        TRY(render_turns(chat, sequence));
    *out = (struct chat_text){ .text = out_view(&chat->out),
                               .spans = chat->spans,
                               .span_count = chat->span_count,
                               .wants_special_tokens = strings,
                               .adapted = chat->adapted,
                               .left_out = chat->left_out,
                               .has_media = sequence->has_media,
                               .from = sequence };
    return OK;
}
