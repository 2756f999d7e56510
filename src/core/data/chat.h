// chat: a record as the text that a trainer tokenises, and which bytes of it carry loss.
//
//     struct chat chat;
//     TRY(chat_init(&chat, &(struct chat_settings){ .template = template, .labels = CHAT_ALL }));
//     struct chat_text text;
//     TRY(chat_render(&chat, &text, &record.sequences[0]));
//
// With a template, conversations, instructions and prompt/completion strings are rendered by it
// (raw_pairs leaves the strings alone, as TRL does). Without one, instructions get the Alpaca
// prompt, pairs are joined, and the end token is put behind the answer. What is labelled:
//
//     all         everything
//     assistant   what the assistant says, with the token that ends its turn: the template's
//                 {% generation %} blocks, else what rendering one message more adds
//     completion  what follows the prompt; of a conversation without one, the last answer
//
// A message whose loss_weight (or weight) is 0 carries no loss. Views in chat_text are good until
// the next render. One chat serves one thread; templates are shared.

#pragma once

#include "core/data/record.h"
#include "core/template/template.h"

enum chat_labels { CHAT_ALL, CHAT_ASSISTANT, CHAT_COMPLETION };
extern const char *const chat_label_names[]; // ended by NULL

struct chat_settings {
    const struct template *template; // NULL: none
    struct text bos, eos;            // .at NULL if unknown
    struct template_value tokens;    // more special tokens for the template: a dict, or undefined
    enum chat_labels labels;
    bool add_generation_prompt;
    bool raw_pairs;
    struct text system; // put before conversations that have no system message
    struct template_date date;
};

struct chat_text {
    struct text text;
    const struct template_span *spans; // labelled bytes, in order, apart from each other
    size_t span_count;
    bool wants_special_tokens; // not rendered by a template: the tokenizer adds its own
};

struct chat {
    struct chat_settings settings;
    struct template_run run;
    struct arena arena, rows; // outputs that are used again; scratch of one render
    struct arena_mark empty;
    struct out out, with, without; // the text, and two renders of parts of it
    struct template_span *spans;
    size_t span_count, span_room;
    struct text header; // what add_generation_prompt adds; .at NULL until known
    bool unsteady;      // the loop's turns were once not what prefixes say: only prefixes count
    int64_t turn_count; // how many turns were asked for, some of which are checked
};

enum err chat_init(struct chat *chat, const struct chat_settings *settings);
void chat_release(struct chat *chat);
enum err chat_render(struct chat *chat, struct chat_text *out,
                     const struct record_sequence *sequence);
