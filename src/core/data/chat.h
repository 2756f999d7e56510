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
// With `adapts`, parts that the template does not render (tools, tool calls, what tools return,
// reasoning, a system text, content in parts) are written as text into the messages that it does
// render, so that nothing of a row is lost; chat_text says which. Without, the template has the
// last word, as in transformers.
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
    bool raw_pairs; // prompt/completion strings without a system text get no template (TRL)
    bool adapts;
    struct text system; // system message for conversations that have none
    struct template_date date;
};

enum chat_part { // bits
    CHAT_TOOLS = 1,
    CHAT_CALLS = 2,
    CHAT_RESULTS = 4,
    CHAT_REASONING = 8,
    CHAT_SYSTEM = 16,
    CHAT_PARTS = 32,   // content in parts, with images
    CHAT_CONTENT = 64, // the text of a message
    CHAT_CALLS_ALONE = 128,
};

const char *chat_part_names(char *at, size_t size, int parts); // "tools, tool calls"; returns at

struct chat_text {
    struct text text;
    const struct template_span *spans; // labelled bytes; in order, never touching
    size_t span_count;
    bool wants_special_tokens; // no template was used: the tokenizer adds its special tokens
    int adapted;               // parts that were written as text, for the template renders none
    int left_out;              // parts that the template renders elsewhere, but not here
    bool has_media;            // the row has images, video or sound
    const struct record_sequence *from; // its record
};

struct chat {
    struct chat_settings settings;
    struct template_run run;
    struct arena arena, rows; // buffers that are reused; scratch of one render
    struct arena_mark empty;
    struct out out, with, without; // the text, and two partial renders of it
    struct template_span *spans;
    size_t span_count, span_room;
    struct text header;    // the generation prompt; .at NULL until known
    bool passes_differ;    // a loop pass once differed from the prefixes: use prefixes only
    int64_t pass_count;    // passes used so far; some of them are checked
    size_t checked;        // the message of this conversation that was checked last
    int probed, renders;   // parts that were tried, and those of them that the template renders
    const char *reasoning; // the key under which the template reads it
    int adapted, left_out; // of this render
};

enum err chat_init(struct chat *chat, const struct chat_settings *settings);
void chat_release(struct chat *chat);
enum err chat_render(struct chat *chat, struct chat_text *out,
                     const struct record_sequence *sequence);
