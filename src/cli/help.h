// SPDX-License-Identifier: Apache-2.0
// help: what gpuhours help, --help and --version print, from the tables of the commands.
//
//     struct out out = { .arena = arena };
//     help_command(&out, command_find("plan"));     // as wide as out
//
// The pieces below are shared with the manual pages and the completions (tools/manual).

#pragma once

#include "cli/command.h"

void help_guide(struct out *out);
void help_command(struct out *out, const struct command *command);
void help_version(struct out *out);

// gpuhours help TOPIC for what is no command; false if there is no such topic.
bool help_topic(struct out *out, const char *topic);
extern const char *const help_topics[]; // ended by NULL

// --- pieces ------------------------------------------------------------------

const char *help_option(const struct field *field, struct arena *arena); // "--gpus N"

// "number of GPUs (default: fewest that fit)": help, choices and default.
const char *help_text(const struct field *field, const void *defaults, struct arena *arena);

// Calls show for each option of the command, the most used ones first, under their title; hidden
// and refused ones are left out. The first title is "Options"; the last
// group is the common one.
struct help_shown {
    void *context;
    void (*title)(void *context, const char *title);
    void (*option)(void *context, const struct field *field, const void *defaults);
};
void help_options(const struct command *command, struct arena *arena,
                  const struct help_shown *shown);
