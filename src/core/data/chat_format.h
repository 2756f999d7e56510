// SPDX-License-Identifier: Apache-2.0
// chat_format: a model's chat template and its special tokens.
//
// Read from a tokenizer_config.json or a chat_template.jinja, or built in by name:
//
//     struct chat_format format;
//     TRY(chat_format_read(&format, arena, file.text, path, NULL));
//
// The views point into the arena or into the text that was passed in.

#pragma once

#include "core/template/template_value.h"

struct chat_format {
    struct text source;           // the template; .at NULL if the file has none
    struct text bos, eos;         // .at NULL if unknown
    struct template_value tokens; // special tokens of the file: a dict of strings
};

// which selects one of several templates ("tool_use"); NULL means "default", else the first.
enum err chat_format_read(struct chat_format *out, struct arena *arena, struct text in,
                          const char *name, const char *which);
bool chat_format_built_in(struct chat_format *out, const char *name); // "chatml", "llama3", "plain"
extern const char *const chat_format_names[];                         // ended by NULL
