// SPDX-License-Identifier: Apache-2.0
// chat: turns a record into the text that a trainer tokenises, and labels the bytes that carry
// loss.
//
//     struct chat chat;
//     TRY(chat_init(&chat, &(struct chat_settings){ .template = template, .labels = CHAT_ALL }));
//     struct chat_text text;
//     TRY(chat_render(&chat, &text, &record.sequences[0]));
//
// A template, if there is one, renders conversations, instructions and prompt/completion strings
// (raw_pairs leaves prompt/completion strings as they are, as TRL does). Without a template,
// instructions get the Alpaca prompt, prompt and completion are concatenated, and the
// end-of-sequence token follows the answer. The labels setting selects the bytes that carry loss:
//
//     all         everything
//     assistant   every answer and the token that ends it: the template's {% generation %} blocks;
//                 without such blocks, see chat_labels.c
//     completion  everything after the prompt; without a prompt, the last answer
//
// A message with loss_weight (or weight) 0 carries no loss. The views in chat_text are valid until
// the next render. A chat belongs to one thread; threads share compiled templates.

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
    struct text system; // system message for conversations that have none
    struct template_date date;
};

struct chat_text {
    struct text text;
    const struct template_span *spans; // labelled bytes; in order, never touching
    size_t span_count;
    bool wants_special_tokens; // no template was used: the tokenizer adds its special tokens
};

struct chat {
    struct chat_settings settings;
    struct template_run run;
    struct arena arena, rows; // buffers that are reused; scratch of one render
    struct arena_mark empty;
    struct out out, with, without; // the text, and two partial renders of it
    struct template_span *spans;
    size_t span_count, span_room;
    struct text header; // the generation prompt; .at NULL until known
    bool passes_differ; // a loop pass once differed from the prefixes: use prefixes only
    int64_t pass_count; // passes used so far; some of them are checked
};

enum err chat_init(struct chat *chat, const struct chat_settings *settings);
void chat_release(struct chat *chat);
enum err chat_render(struct chat *chat, struct chat_text *out,
                     const struct record_sequence *sequence);
