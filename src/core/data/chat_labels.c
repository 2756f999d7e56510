// SPDX-License-Identifier: Apache-2.0
// Which bytes of a rendered conversation carry loss, and which belong to which message.
//
// A template is a program: nothing in its output says which bytes came from which message. The
// bytes of message i are its extent. There are two ways to find it.
//
// Prefixes, the definition (trainers do the same): render the messages before i, with the
// generation prompt if i is an answer, and the messages up to i. The extent lies between the two.
//
//     messages before i, generation prompt   <user>q</><assistant>
//     messages up to i                       <user>q</><assistant>a</>
//     all messages                           <user>q</><assistant>a</><user>r</>
//     extent of i                                                 ^^^^
//
// This needs both renders to be prefixes of the whole text. Templates of reasoning models are not
// so: they drop the thoughts of all answers but the last. Then the content of the message is
// replaced by a marker; the bytes of the whole text that change are the content, and as many bytes
// after it as end the message in its own prefix end the extent too.
//
// Loop passes, fast: most templates write each message in one pass of a loop over the messages,
// and the engine records which bytes each pass wrote (template_run.passes). An answer's pass minus
// the generation prompt at its start is its extent. That takes one render instead of two for each
// message. It is a guess about the template, so the first CHECKED_PASSES passes and every 100th
// after them are compared with prefixes; one difference and passes are not used again. A comparison
// renders the conversation up to its message, so after the first ones each stands at least twice as
// far into the conversation as the one before: together they cost a few renders of any length.
//
// Invariant: labelled spans are in rising order, do not touch, and end within the text.

#include "core/data/chat_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { CHECKED_PASSES = 50 };

// --- labels ------------------------------------------------------------------

// Adds a span and joins it to the last one where they touch. Empty spans are ignored.
void chat_label(struct chat *chat, size_t start, size_t end)
{
    if (start >= end)
        return;
    if (chat->span_count && chat->spans[chat->span_count - 1].end >= start) {
        struct template_span *last = &chat->spans[chat->span_count - 1];
        last->end = end > last->end ? end : last->end;
        return;
    }
    chat->spans = arena_room(&chat->arena, chat->spans, sizeof *chat->spans, chat->span_count,
                             &chat->span_room);
    chat->spans[chat->span_count++] = (struct template_span){ start, end };
}

bool chat_is_role(struct template_value message, const char *role)
{
    const struct template_value *value = template_value_find(message.dict, TEXT("role"));
    return value && value->kind == TEMPLATE_STRING && text_is(value->string, role);
}

static bool is_answer(struct template_value message)
{
    return chat_is_role(message, "assistant") || chat_is_role(message, "model");
}

static bool carries_loss(struct template_value message)
{
    const struct template_value *weight = template_value_find(message.dict, TEXT("loss_weight"));
    weight = weight ? weight : template_value_find(message.dict, TEXT("weight"));
    return !weight || weight->kind == TEMPLATE_NONE || template_value_truth(*weight);
}

static size_t shared_start(struct text a, struct text b)
{
    size_t most = a.size < b.size ? a.size : b.size, same = 0;
    if (!memcmp(a.at, b.at, most))
        return most;
    while (same < most && a.at[same] == b.at[same])
        same++;
    while (same > 0 && ((unsigned char)a.at[same] & 0xC0) == 0x80)
        same--; // never split a character
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

// Finds the content of message index in whole, the text of the first count messages: the bytes that
// change when the content is replaced. False if the template fails on the replaced content.
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
    enum err err = chat_render_first(chat, &chat->without, messages, count, false);
    *message = kept;
    if (err)
        return false;
    struct text changed = out_view(&chat->without);
    out->start = shared_start(whole, changed);
    out->end = whole.size - shared_end(whole, changed, out->start);
    return true;
}

// The extent of message index, found by rendering prefixes of the conversation (see above). The
// extent of an answer starts after the generation prompt.
static struct template_span prefix_extent(struct chat *chat, const struct template_list *messages,
                                          size_t index)
{
    struct text whole = out_view(&chat->out);
    bool answer = is_answer(messages->items[index]);
    struct template_span span = { 0, whole.size }, content, alone;
    bool started = index == 0 && !answer;
    if (!started && !chat_render_first(chat, &chat->with, messages, index, answer)) {
        struct text before = out_view(&chat->with);
        span.start = shared_start(before, whole);
        started = span.start == before.size;
    }
    if (started && index + 1 == messages->count)
        return span;
    bool ended = !chat_render_first(chat, &chat->with, messages, index + 1, false);
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

// Stores what add_generation_prompt appends to these messages; rendered once per chat.
static void learn_header(struct chat *chat, const struct template_list *messages)
{
    struct text whole = out_view(&chat->out), more;
    chat->header = TEXT("");
    if (chat->settings.add_generation_prompt ||
        chat_render_first(chat, &chat->with, messages, messages->count, true))
        return;
    more = out_view(&chat->with);
    if (more.size > whole.size && !memcmp(more.at, whole.at, whole.size))
        chat->header =
            (struct text){ arena_copy(&chat->arena, more.at + whole.size, more.size - whole.size),
                           more.size - whole.size };
}

// The extent of message index, taken from the loop pass that wrote it. False if no pass did, or if
// an answer does not start with the generation prompt.
static bool pass_extent(struct chat *chat, const struct template_list *messages, size_t index,
                        struct template_span *out)
{
    *out = chat->run.passes ? chat->run.passes[index] : (struct template_span){ 0 };
    if (chat->passes_differ || out->start == out->end)
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

// Whether the loop pass of message index is to be compared with prefixes.
static bool is_checked(struct chat *chat, size_t index)
{
    if (chat->pass_count++ < CHECKED_PASSES)
        return true;
    if (chat->pass_count % 100 || index < 2 * chat->checked)
        return false;
    chat->checked = index;
    return true;
}

static struct template_span extent(struct chat *chat, const struct template_list *messages,
                                   size_t index)
{
    struct template_span pass;
    if (!pass_extent(chat, messages, index, &pass))
        return prefix_extent(chat, messages, index);
    if (!is_checked(chat, index))
        return pass;
    struct template_span span = prefix_extent(chat, messages, index);
    chat->passes_differ = span.start != pass.start || span.end != pass.end;
    return span;
}

static size_t count_answers(const struct template_list *messages)
{
    size_t count = 0;
    for (size_t i = 0; i < messages->count; i++)
        count += is_answer(messages->items[i]);
    return count;
}

// Labels the template's generation blocks. Messages with loss weight 0 can only be excluded if
// there is one block per answer; otherwise returns false and labels nothing.
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
            chat_label(chat, span.start, span.end);
    }
    for (size_t i = 0; i < run->span_count && !matched; i++)
        chat_label(chat, run->spans[i].start, run->spans[i].end);
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
        chat_label(chat, span.start, span.end);
    }
}

static int by_start(const void *a, const void *b)
{
    const struct template_span *one = a, *other = b;
    return (one->start > other->start) - (one->start < other->start);
}

// Labels everything from byte start on, except the messages from first on that carry no loss. They
// are sorted because a template may write messages in another order.
static void label_rest(struct chat *chat, const struct template_list *messages, size_t first,
                       size_t start)
{
    size_t count = 0;
    struct template_span *unlabelled =
        ARENA_NEW(&chat->rows, struct template_span, messages->count + 1);
    for (size_t i = first; i < messages->count; i++)
        if (!carries_loss(messages->items[i]))
            unlabelled[count++] = extent(chat, messages, i);
    qsort(unlabelled, count, sizeof *unlabelled, by_start);
    for (size_t i = 0; i < count; i++) {
        chat_label(chat, start, unlabelled[i].start);
        start = unlabelled[i].end > start ? unlabelled[i].end : start;
    }
    chat_label(chat, start, chat->out.size);
}

// Labels everything after the prompt; where the row has no prompt, the last answer and what
// follows.
static void label_completion(struct chat *chat, const struct template_list *messages,
                             size_t prompt_count)
{
    size_t first = prompt_count, last = messages->count;
    while (!prompt_count && last > 0 && !is_answer(messages->items[last - 1]))
        last--;
    if (!prompt_count)
        first = last > 0 ? last - 1 : 0;
    if (first < messages->count)
        label_rest(chat, messages, first, extent(chat, messages, first).start);
}

void chat_label_messages(struct chat *chat, const struct template_list *messages,
                         size_t prompt_count)
{
    chat->checked = 0;
    switch (chat->settings.labels) {
    case CHAT_ALL: label_rest(chat, messages, 0, 0); break;
    case CHAT_ASSISTANT: label_answers(chat, messages); break;
    case CHAT_COMPLETION: label_completion(chat, messages, prompt_count); break;
    }
    for (size_t i = 0; i < chat->span_count; i++) {
        assert(chat->spans[i].start < chat->spans[i].end && chat->spans[i].end <= chat->out.size);
        assert(!i || chat->spans[i - 1].end < chat->spans[i].start);
    }
}
