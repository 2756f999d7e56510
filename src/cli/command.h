// SPDX-License-Identifier: Apache-2.0
// command: what main.c knows about each command, and how a command reads its options.
//
// A command is one file cmd_<name>.c with one struct command in it, listed in commands.c:
//
//     const struct command command_show = {
//         .name = "show", .summary = "list the catalogs", .usage = "CATALOG [NAME]",
//         .run = run, .options = list_options, .first = first, .examples = examples,
//     };
//
// Options are fields (base/field.h), in groups. list_options() sets every option to its default and
// returns the groups; run() reads the command line over them with command_read(). --help, the
// manual pages, the shell completions and the tests read the same groups, so a default that they
// show is the value that the command starts from. Words that are not options are positional.

#pragma once

#include "base/field.h"

struct options {
    const char *title;          // heads the group in --help
    const struct field *fields; // ended by { 0 }
    void *object;               // holds the values; after list_options() the defaults
    const void *defaults;       // shown instead, where the object only says "not given"; or NULL
    const char *refused;        // not NULL: options of a related command, refused with this reason
};

// A group of options; further members may follow the object.
#define OPTIONS(title_, fields_, ...)                             \
    {                                                             \
        .title = title_, .fields = fields_, .object = __VA_ARGS__ \
    }

// Options that every command has.
struct common {
    bool json;           // one document on stdout instead of text
    bool quiet;          // no progress
    bool explain;        // how each number came about
    const char *catalog; // folder whose files replace the built-in catalogs
    const char *ledger;  // file that stores results (cli/ledger_entry.h)
    const char *name;    // under which it stores this one
};
extern const struct field common_fields[];

struct command_line {
    struct arena *arena;
    int count; // of words after the command's name
    char **words;
    struct common common;
    const char **positional;
    int positional_count;
    char **rest; // after "--", NULL-terminated; NULL if there is none
};

struct command_example {
    const char *purpose, *line; // "compare two GPUs", "gpuhours plan …"; a test runs every line
};

struct command {
    const char *name, *summary; // the summary is one line that begins with a verb
    const char *usage;          // what follows the name: "[DATA...] --model MODEL"
    const char *about;          // a paragraph for the help and the manual page
    const char *const *first;   // names of the most used options, in this order, ended by NULL
    const char *const *words;   // that the first positional argument may be; NULL: anything
    const struct command_example *examples; // ended by { 0 }
    enum err (*run)(struct command_line *line);
    const struct options *(*options)(struct arena *arena); // see above; ended by { 0 }
};

// Reads the words into the groups and the common options. Unknown options are ERR_USAGE and name
// the nearest known one. Flags may stand alone ("--json") or take a value ("--packing off").
enum err command_read(struct command_line *line, const struct options *groups);

// Reads the same words once more, over values that were filled into the groups since.
enum err command_again(struct command_line *line, const struct options *groups);

bool command_gives(const struct command_line *line, const char *option); // "--gpu"

// Copies the fields of a table whose names are, or are not, in the list (ended by NULL); out has
// room for all of them and the end.
void command_pick(struct field *out, const struct field *table, const char *const *names,
                  bool listed);

extern const struct command *const commands[]; // ended by NULL; in commands.c
const struct command *command_find(const char *name);
enum err command_unknown(const char *name); // ERR_USAGE: there is no such command; did you mean …

// Made by the build.
extern const char command_release[];  // "0.5.0", from the file VERSION
extern const char command_version[];  // what git describe says of the source
extern const char command_features[]; // "CUDA yes, OpenBLAS yes, MPI no"
