// command: what main.c knows of each command, and how a command reads its options.
//
// A command is one file cmd_<name>.c with one struct command in it:
//
//     static enum err run(struct command_line *line) { … puts(result) … }
//     const struct command command_show = { "show", "the catalogs", "gpuhours show gpus", run, help
//     };
//
// Options are fields (base/field.h). A command with a struct of its own lists its table beside the
// common one; what is not an option is a positional argument.

#pragma once

#include "base/field.h"

struct options {
    const char *title;          // heads the group in --help
    const struct field *fields; // ended by { 0 }
    void *object;               // that they describe
};

// Options that every command has.
struct common {
    bool json;        // one document on stdout instead of text
    bool quiet;       // no progress
    bool explain;     // how each number came about
    const char *data; // folder whose files override the embedded catalogs
    const char *ledger,
        *name; // where a command's result is remembered, and as what (cli/ledger_entry.h)
};
extern const struct field common_fields[];

struct command_line {
    struct arena *arena;
    int count; // of words behind the command's name
    char **words;
    struct common common;
    const char **positional;
    int positional_count;
    char **rest; // behind "--", NULL-terminated; NULL if there is none
};

struct command {
    const char *name, *summary, *example;
    enum err (*run)(struct command_line *line);
    const struct options *(*options)(void); // for --help, ended by { 0 }; NULL if it has none
};

// Reads the words into the groups and the common options. Unknown options are ERR_USAGE and name
// the nearest known one. Flags may stand alone ("--json") or take a value ("--packing off").
enum err command_read(struct command_line *line, const struct options *groups);

// Once more, over what was filled into the groups meanwhile.
enum err command_again(struct command_line *line, const struct options *groups);

extern const struct command *const commands[]; // ended by NULL; in main.c
extern const char command_version[];           // of the program: made by the build
