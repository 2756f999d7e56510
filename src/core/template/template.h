// SPDX-License-Identifier: Apache-2.0
// template: a Jinja engine for chat templates; compile once, render many times.
//
//     const struct template *template;
//     TRY(template_compile(&template, arena, source, "chat_template"));
//     struct template_run run;
//     template_run_init(&run, template);
//     template_set(&run, "messages", messages);
//     TRY(template_render(&run, &out));      // appends to out
//     template_run_release(&run);
//
// Supports the part of Jinja that real chat templates use. White space, scopes, undefined values,
// filters and the sandbox behave as in jinja2 configured by transformers (trim_blocks,
// lstrip_blocks, loop controls, generation blocks, a tojson that keeps non-ASCII). Compiling fails
// on an unsupported construct and names it and its line. A render is limited in steps, depth,
// scratch memory and output; exceeding a limit is ERR_INPUT.
//
// A compiled template is immutable: threads share it, each with its own run. Values that were set
// stay set for later renders and must outlive them. A run owns its scratch memory and reuses it.

#pragma once

#include "core/template/template_value.h"

enum { TEMPLATE_ARGUMENTS = 12 };

struct template;

struct template_limits {  // 0: the default
    int64_t steps;        // 20 million
    size_t output_bytes;  // 1 GiB
    size_t scratch_bytes; // 256 MiB
    int depth;            // 300
};

struct template_date { // for strftime_now; year 0: no date
    int year, month, day, hour, minute, second;
};

struct template_span { // bytes of the output
    size_t start, end;
};

struct template_run {
    const struct template *template;
    struct arena arena; // scratch, rewound by each render
    struct arena_mark empty;
    struct arena kept; // slots and spans
    struct template_value *given, *slots;
    struct out *out, *root;
    struct template_limits limits;
    struct template_date date;
    enum err err;
    int64_t steps;
    size_t scratch;
    int depth;
    int leaving;                    // a break or continue that has not reached its loop
    struct template_value captured; // the text of a filtered block
    struct template_span *spans;    // generation blocks of the last render
    size_t span_count, span_room;
    const struct template_list *watched; // dicts whose loop passes are recorded; may be NULL
    struct template_span *passes;        // by watched item: what its loop pass wrote
    size_t pass_room, next_pass;
    size_t failed_at; // watched item whose loop pass failed; SIZE_MAX: none did
};

enum err template_compile(const struct template **out, struct arena *arena, struct text source,
                          const char *name);
bool template_has_generation(const struct template *template);
bool template_uses(const struct template *template, const char *variable);

void template_run_init(struct template_run *run, const struct template *template);
void template_run_release(struct template_run *run);
void template_set(struct template_run *run, const char *variable, struct template_value value);
enum err template_render(struct template_run *run, struct out *out);
