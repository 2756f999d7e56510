// SPDX-License-Identifier: Apache-2.0
// manual: writes manual pages, shell completions and reference documents from the command tables.
//
//     manual share DIR DATE    man pages and completions under DIR, in the folders of /usr/share
//     manual json              prints docs/json.md
//     manual reference         prints docs/reference.md
//     manual keys KIND FILE…   compares the documents with the table of their kind; see documents.c

#pragma once

#include "cli/help.h"
#include "core/plan/plan.h"

// What may stand for the value of an option.
enum manual_value { MANUAL_NOTHING, MANUAL_ANYTHING, MANUAL_WORDS, MANUAL_FILE, MANUAL_FOLDER };

struct manual_words {
    enum manual_value kind;
    const char **words; // of MANUAL_WORDS
    size_t count;
    bool or_folder; // a model may be a folder too
};

// The values of an option: its choices, or by its placeholder names of the catalogs, files,
// folders.
struct manual_words manual_values(const struct field *field, const struct plan_data *data,
                                  struct arena *arena);

// Everything that the first word after "gpuhours help" may be: commands and topics.
struct manual_words manual_topics(struct arena *arena);

// A command's options, each once: for completions.
struct manual_option {
    const struct field *field;
    const char *name; // "--gpus"
    const char *text; // what --help says
};
size_t manual_options(struct manual_option **out, const struct command *command,
                      struct arena *arena);

void manual_page(struct out *out, const struct command *command,
                 const char *date); // NULL: gpuhours
void manual_bash(struct out *out, const struct plan_data *data);
void manual_zsh(struct out *out, const struct plan_data *data);
void manual_fish(struct out *out, const struct plan_data *data);

void manual_json(struct out *out);
void manual_reference(struct out *out);
int manual_keys(const char *kind, char **paths, int count, struct arena *arena); // exit code
