// SPDX-License-Identifier: Apache-2.0
// Prints the guide, the help of a command and the version.

#include "cli/help.h"
#include "cli/terminal/reference.h"

#include <string.h>

enum { INDENT = 27 }; // where the text of an option begins

// --- text --------------------------------------------------------------------

// "  name   text", the text in a column of its own; a long name has a line to itself.
static void put_item(struct out *out, const char *name, const char *text, int indent)
{
    int size = 2 + (int)strlen(name);
    out_put(out, "  %s", name);
    if (size + 1 > indent) {
        out_char(out, '\n');
        size = 0;
    }
    out_repeat(out, ' ', indent - size);
    out_wrapped(out, indent, indent, text);
}

const char *help_option(const struct field *field, struct arena *arena)
{
    const char *value = field_value(field);
    char *name = arena_copy(arena, field->name, strlen(field->name));
    for (char *at = name; *at; at++)
        *at = *at == '_' ? '-' : *at;
    return text_format(arena, "--%s%s%s", name, value ? " " : "", value ? value : "");
}

const char *help_text(const struct field *field, const void *defaults, struct arena *arena)
{
    struct out out = { .arena = arena };
    out_put(&out, "%s", field->help);
    field_put_choices(field, &out, " or ");
    const char *usual = field_default(field, defaults, arena);
    if (usual && !strncmp(usual, "required", 8))
        out_put(&out, " (%s)", usual);
    else if (usual)
        out_put(&out, " (default: %s)", usual);
    return out_string(&out);
}

// --- options -----------------------------------------------------------------

static const struct field *find(const struct options *groups, const char *name, const void **object)
{
    static const struct common defaults;
    for (const struct options *g = groups; g->fields; g++) {
        const struct field *field = g->refused ? NULL : field_find(g->fields, text_of(name));
        *object = g->defaults ? g->defaults : g->object;
        if (field)
            return field;
    }
    *object = &defaults;
    return field_find(common_fields, text_of(name));
}

static bool is_first(const struct command *command, const char *name)
{
    for (const char *const *first = command->first; first && *first; first++)
        if (!strcmp(*first, name))
            return true;
    return false;
}

// An option that an earlier group has too is shown there; so is one of the first.
static bool is_new(const struct command *command, const struct options *groups,
                   const struct options *group, const struct field *field)
{
    if (field->hidden || is_first(command, field->name))
        return false;
    for (const struct options *g = groups; g != group; g++)
        if (!g->refused && field_find(g->fields, text_of(field->name)))
            return false;
    return true;
}

void help_options(const struct command *command, struct arena *arena,
                  const struct help_shown *shown)
{
    static const struct options none[1];
    const struct options *groups = command->options ? command->options(arena) : none;
    const void *object;
    if (command->first)
        shown->title(shown->context, "Options");
    for (const char *const *name = command->first; name && *name; name++) {
        const struct field *field = find(groups, *name, &object);
        shown->option(shown->context, field, object);
    }
    const struct options *group = groups;
    for (; group->fields; group++) {
        bool has_title = false;
        for (const struct field *f = group->fields; !group->refused && f->name; f++) {
            if (!is_new(command, groups, group, f))
                continue;
            if (!has_title)
                shown->title(shown->context, group->title);
            has_title = true;
            shown->option(shown->context, f, group->defaults ? group->defaults : group->object);
        }
    }
    shown->title(shown->context, "common to all commands");
    for (const struct field *f = common_fields; f->name; f++)
        if (is_new(command, groups, group, f))
            shown->option(shown->context, f, find(groups, f->name, &object) ? object : NULL);
}

// --- a command ---------------------------------------------------------------

struct page {
    struct out *out;
    int titles;
};

static void put_title(void *context, const char *title)
{
    struct page *page = context;
    out_put(page->out, page->titles++ ? "\nMore options: %s\n" : "\n%s:\n", title);
}

static void put_option(void *context, const struct field *field, const void *defaults)
{
    struct page *page = context;
    struct arena *arena = page->out->arena;
    put_item(page->out, help_option(field, arena), help_text(field, defaults, arena), INDENT);
}

void help_command(struct out *out, const struct command *command)
{
    struct page page = { out, 0 };
    out_put(out, "gpuhours %s: ", command->name);
    out_wrapped(out, 2, 11 + (int)strlen(command->name), command->summary);
    out_put(out, "\nUsage: gpuhours %s ", command->name);
    out_wrapped(out, 9, 17 + (int)strlen(command->name), command->usage);
    if (command->about) {
        out_char(out, '\n');
        out_wrapped(out, 0, 0, command->about);
    }
    help_options(command, out->arena, &(struct help_shown){ &page, put_title, put_option });
    out_put(out, "\nExamples:\n");
    for (const struct command_example *e = command->examples; e && e->line; e++) {
        out_put(out, "  # ");
        out_wrapped(out, 4, 4, e->purpose);
        out_put(out, "  %s\n", e->line);
    }
    out_char(out, '\n');
    out_wrapped(
        out, 2, 0,
        "Exit status: 0 done, 1 the answer is no (e.g. does not fit), others: gpuhours help "
        "exit-codes");
}

// --- the guide ---------------------------------------------------------------

void help_guide(struct out *out)
{
    out_wrapped(out, 0, 0, "gpuhours forecasts the GPU hours and the cost of a fine-tuning run.");
    out_put(out, "\nUsage: gpuhours COMMAND [OPTION...]\n\nCommands:\n");
    for (const struct command *const *c = commands; *c; c++)
        put_item(out, (*c)->name, (*c)->summary, 13);
    out_char(out, '\n');
    out_wrapped(
        out, 0, 0,
        "gpuhours help COMMAND explains a command and its options, with examples. gpuhours help "
        "exit-codes and gpuhours help environment list the exit codes and the environment "
        "variables. --version shows the version.");
}

void help_version(struct out *out)
{
    out_put(out, "gpuhours %s (%s, features: %s)\n", command_release, command_version,
            command_features);
}

const char *const help_topics[] = { "exit-codes", "environment", NULL };

bool help_topic(struct out *out, const char *topic)
{
    if (!strcmp(topic, help_topics[0])) {
        out_put(out, "Exit codes:\n");
        for (const struct error_code *c = error_codes; c->name; c++)
            put_item(out, text_format(out->arena, "%d", c->number), c->meaning, 7);
        out_char(out, '\n');
        out_wrapped(out, 0, 0,
                    "pilot and watch end with the trainer's own exit code if it fails, and with "
                    "128 + N after signal N.");
    } else if (!strcmp(topic, help_topics[1])) {
        out_put(out, "Environment variables:\n");
        for (const struct reference_item *v = reference_variables; v->name; v++)
            put_item(out, v->name, v->meaning, INDENT);
    } else {
        return false;
    }
    return true;
}
