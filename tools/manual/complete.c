// SPDX-License-Identifier: Apache-2.0
// Completions for bash, zsh and fish.

#include "tools/manual/manual.h"

#include <string.h>

static const char opening[] = "# Made from the command tables by tools/manual.\n";

static void put_words(struct out *out, const struct manual_words *words)
{
    for (size_t i = 0; i < words->count; i++)
        out_put(out, "%s%s", i ? " " : "", words->words[i]);
}

static void put_list(struct out *out, const char *const *words)
{
    for (int i = 0; words[i]; i++)
        out_put(out, "%s%s", i ? " " : "", words[i]);
}

static void put_commands(struct out *out)
{
    for (const struct command *const *c = commands; *c; c++)
        out_put(out, "%s ", (*c)->name);
    out_put(out, "help");
}

// --- bash --------------------------------------------------------------------

// One line of the case over "command option": which words, or which kind of file.
static void put_bash_value(struct out *out, const char *command, const struct manual_option *option,
                           const struct plan_data *data)
{
    struct manual_words values = manual_values(option->field, data, out->arena);
    if (values.kind == MANUAL_NOTHING)
        return;
    out_put(out, "    '%s %s') ", command, option->name);
    if (values.kind == MANUAL_WORDS) {
        out_put(out, "words='");
        put_words(out, &values);
        out_put(out, "'%s", values.or_folder ? " files=d" : "");
    } else {
        out_put(out, "%s",
                values.kind == MANUAL_FILE     ? "files=f"
                : values.kind == MANUAL_FOLDER ? "files=d"
                                               : "words=");
    }
    out_put(out, " ;;\n");
}

// Options of the command where a word begins with -, else its positional arguments.
static void put_bash_command(struct out *out, const struct command *command,
                             const struct plan_data *data)
{
    struct manual_option *options;
    size_t count = manual_options(&options, command, out->arena);
    for (size_t i = 0; i < count; i++)
        put_bash_value(out, command->name, &options[i], data);
    out_put(out, "    '%s '*)\n        if [[ $cur == -* ]]; then\n            words='",
            command->name);
    for (size_t i = 0; i < count; i++)
        out_put(out, "%s ", options[i].name);
    out_put(out, "--help'\n        else\n            ");
    if (command->words) {
        out_put(out, "words='");
        put_list(out, command->words);
        out_put(out, "' files=f");
    } else {
        out_put(out, "files=f");
    }
    out_put(out, "\n        fi ;;\n");
}

void manual_bash(struct out *out, const struct plan_data *data)
{
    out_put(out, "%s", opening);
    out_put(out, "_gpuhours() {\n"
                 "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
                 "    local command=${COMP_WORDS[1]} words= files= i\n"
                 "    COMPREPLY=()\n"
                 "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
                 "        [[ ${COMP_WORDS[i]} == -- ]] && command=--\n"
                 "    done\n"
                 "    ((COMP_CWORD == 1)) && command= prev=\n"
                 "    case \"$command $prev\" in\n"
                 "    ' ') words='");
    put_commands(out);
    out_put(out, " --help --version' ;;\n    '-- '*) files=f ;;\n    'help '*) words='");
    struct manual_words topics = manual_topics(out->arena);
    put_words(out, &topics);
    out_put(out, "' ;;\n");
    for (const struct command *const *c = commands; *c; c++)
        put_bash_command(out, *c, data);
    out_put(out, "    esac\n"
                 "    [[ -n $words ]] && COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
                 "    if [[ -n $files ]]; then\n"
                 "        compopt -o filenames 2>/dev/null\n"
                 "        local IFS=$'\\n'\n"
                 "        COMPREPLY+=($(compgen -\"$files\" -- \"$cur\"))\n"
                 "    fi\n"
                 "}\n"
                 "complete -F _gpuhours gpuhours\n");
}

// --- zsh ---------------------------------------------------------------------

// Text of a specification, within single quotes: brackets and colons end parts of it.
static void put_zsh_text(struct out *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            out_put(out, "'\\''");
        else if (*text == '[' || *text == ']' || *text == ':' || *text == '\\')
            out_put(out, "\\%c", *text);
        else
            out_char(out, *text);
    }
}

static void put_zsh_option(struct out *out, const struct manual_option *option,
                           const struct plan_data *data)
{
    struct manual_words values = manual_values(option->field, data, out->arena);
    out_put(out, "            '*%s[", option->name);
    put_zsh_text(out, option->text);
    out_char(out, ']');
    if (values.kind != MANUAL_NOTHING) {
        out_char(out, ':');
        put_zsh_text(out, field_value(option->field));
        out_char(out, ':');
    }
    if (values.or_folder)
        out_put(out, "_gpuhours_models");
    else if (values.kind == MANUAL_WORDS) {
        out_char(out, '(');
        put_words(out, &values);
        out_char(out, ')');
    } else if (values.kind == MANUAL_FILE || values.kind == MANUAL_FOLDER) {
        out_put(out, "_files%s", values.kind == MANUAL_FOLDER ? " -/" : "");
    } else if (values.kind == MANUAL_ANYTHING) {
        out_char(out, ' ');
    }
    out_put(out, "' \\\n");
}

static void put_zsh_command(struct out *out, const struct command *command,
                            const struct plan_data *data)
{
    struct manual_option *options;
    size_t count = manual_options(&options, command, out->arena);
    out_put(out, "    %s)\n        _arguments -S \\\n", command->name);
    for (size_t i = 0; i < count; i++)
        put_zsh_option(out, &options[i], data);
    out_put(out, "            '--help[show options and examples]' \\\n");
    if (command->words) {
        out_put(out, "            '1:what to do:(");
        put_list(out, command->words);
        out_put(out, ")' \\\n");
    }
    out_put(out, "            '*:file:_files' ;;\n");
}

void manual_zsh(struct out *out, const struct plan_data *data)
{
    struct manual_words models = manual_values(
        &(struct field){ .name = "model", .kind = FIELD_TEXT, .value = "MODEL" }, data, out->arena);
    out_put(out, "#compdef gpuhours\n%s\n_gpuhours_models() {\n    local -a models=(", opening);
    put_words(out, &models);
    out_put(out,
            ")\n    _alternative 'models:model:compadd -a models' 'folders:folder:_files -/'\n}\n\n"
            "_gpuhours() {\n    local -a commands=(\n");
    for (const struct command *const *c = commands; *c; c++) {
        out_put(out, "        '%s:", (*c)->name);
        put_zsh_text(out, (*c)->summary);
        out_put(out, "'\n");
    }
    out_put(out, "        'help:list commands, or the options of one'\n    )\n"
                 "    if ((CURRENT == 2)); then\n"
                 "        _describe command commands\n        return\n    fi\n"
                 "    local command=$words[2]\n"
                 "    shift words\n    ((CURRENT--))\n"
                 "    case $command in\n    help) compadd ");
    struct manual_words topics = manual_topics(out->arena);
    put_words(out, &topics);
    out_put(out, " ;;\n");
    for (const struct command *const *c = commands; *c; c++)
        put_zsh_command(out, *c, data);
    out_put(out, "    esac\n}\n\n_gpuhours \"$@\"\n");
}

// --- fish --------------------------------------------------------------------

static void put_fish_text(struct out *out, const char *text)
{
    out_char(out, '\'');
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\')
            out_char(out, '\\');
        out_char(out, *text);
    }
    out_char(out, '\'');
}

static void put_fish_option(struct out *out, const char *command,
                            const struct manual_option *option, const struct plan_data *data)
{
    struct manual_words values = manual_values(option->field, data, out->arena);
    out_put(out, "complete -c gpuhours -n '__gpuhours_in %s' -l %s", command, option->name + 2);
    if (values.kind == MANUAL_WORDS) {
        out_put(out, values.or_folder ? " -x -a '(__fish_complete_directories) " : " -x -a '");
        put_words(out, &values);
        out_char(out, '\'');
    } else if (values.kind == MANUAL_FOLDER) {
        out_put(out, " -x -a '(__fish_complete_directories)'");
    } else if (values.kind == MANUAL_FILE) {
        out_put(out, " -r -F");
    } else if (values.kind == MANUAL_ANYTHING) {
        out_put(out, " -x");
    }
    out_put(out, " -d ");
    put_fish_text(out, option->text);
    out_char(out, '\n');
}

void manual_fish(struct out *out, const struct plan_data *data)
{
    out_put(out, "%s", opening);
    out_put(out, "function __gpuhours_in\n"
                 "    set -l words (commandline -opc)\n"
                 "    contains -- -- $words; and return 1\n"
                 "    test (count $words) -ge 2; and test $words[2] = $argv[1]\n"
                 "end\n"
                 "function __gpuhours_alone\n    test (count (commandline -opc)) -eq 1\nend\n\n");
    for (const struct command *const *c = commands; *c; c++) {
        struct manual_option *options;
        size_t count = manual_options(&options, *c, out->arena);
        out_put(out, "complete -c gpuhours -f -n __gpuhours_alone -a %s -d ", (*c)->name);
        put_fish_text(out, (*c)->summary);
        out_char(out, '\n');
        for (size_t i = 0; i < count; i++)
            put_fish_option(out, (*c)->name, &options[i], data);
        if ((*c)->words) {
            out_put(out, "complete -c gpuhours -n '__gpuhours_in %s' -a '", (*c)->name);
            put_list(out, (*c)->words);
            out_put(out, "'\n");
        }
    }
    out_put(out, "complete -c gpuhours -f -n __gpuhours_alone -a help -d 'list commands, or the "
                 "options of one'\n"
                 "complete -c gpuhours -f -n __gpuhours_alone -l version -d 'print the version'\n"
                 "complete -c gpuhours -f -n '__gpuhours_in help' -a '");
    struct manual_words topics = manual_topics(out->arena);
    put_words(out, &topics);
    out_put(out, "'\n");
}
