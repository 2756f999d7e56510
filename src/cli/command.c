// SPDX-License-Identifier: Apache-2.0
// Reads a command line into the fields of a command's option groups.

#include "cli/command.h"

#include "core/trainers/trainer_option.h"

#include <string.h>

const struct field common_fields[] = {
    FIELD(common, json, FLAG, "print one JSON document on standard output"),
    FIELD(common, explain, FLAG, "show where each number comes from"),
    FIELD(common, quiet, FLAG, "show no progress"),
    FIELD(common, catalog, TEXT, "folder of catalog files that replace built-in ones",
          .value = "DIR", .fallback = "built-in catalogs"),
    FIELD(common, ledger, TEXT, "file that stores plans, pilots and runs; off stores none",
          .value = "FILE", .fallback = "ledger.sqlite in ~/.local/share/gpuhours"),
    FIELD(common, name, TEXT, "name of this result in the ledger", .value = "NAME", .fallback = ""),
    FIELD_AS("data", common, catalog, TEXT, "former name of --catalog", .value = "DIR",
             .fallback = "", .hidden = true),
    { 0 },
};

// A command's own options come first: --data of train is its data set.
static const struct field *find(const struct options *groups, struct common *common,
                                struct text name, void **object, const char **refused)
{
    const struct field *field = NULL;
    *refused = NULL;
    for (const struct options *g = groups; !field && g && g->fields; g++) {
        *object = g->object;
        *refused = g->refused;
        field = field_find(g->fields, name);
    }
    if (field)
        return field;
    *object = common;
    *refused = NULL;
    return field_find(common_fields, name);
}

static bool has_option(const struct options *groups, struct text name)
{
    void *object;
    const char *refused;
    struct common common;
    const struct field *field = find(groups, &common, name, &object, &refused);
    return field && !field->hidden && !refused;
}

// A command that has this option, plan before others; NULL: none. The groups are filled anew.
static const char *command_with(struct arena *arena, struct text name)
{
    if (has_option(command_find("plan")->options(arena), name))
        return "plan";
    for (const struct command *const *c = commands; *c; c++)
        if (has_option((*c)->options(arena), name))
            return (*c)->name;
    return NULL;
}

// Names the option that another trainer or another command calls so; OK: there is none.
static enum err known_elsewhere(struct arena *arena, const struct options *groups, struct text name)
{
    const struct trainer_option *known = NULL, *next = NULL;
    while ((next = trainer_option_find(name, next)) != NULL) {
        known = next;
        if (has_option(groups, text_of(known->ours)))
            return fail(ERR_USAGE, "there is no option --%.*s; did you mean %s?", TEXT_ARGS(name),
                        trainer_option_words(known, arena));
    }
    if (known && known->otherwise)
        return fail(ERR_USAGE, "there is no option --%.*s; %s", TEXT_ARGS(name), known->otherwise);
    const char *other = command_with(arena, known ? text_of(known->ours) : name);
    if (other && known)
        return fail(ERR_USAGE, "there is no option --%.*s; it is %s of gpuhours %s",
                    TEXT_ARGS(name), trainer_option_words(known, arena), other);
    return other ? fail(ERR_USAGE, "there is no option --%.*s here; gpuhours %s has it",
                        TEXT_ARGS(name), other)
                 : OK;
}

static enum err unknown(struct arena *arena, const struct options *groups, struct text name)
{
    TRY(known_elsewhere(arena, groups, name));
    const char *names[256];
    size_t count = 0;
    for (const struct field *f = common_fields; f->name; f++)
        names[count++] = f->name;
    for (const struct options *g = groups; g && g->fields; g++)
        for (const struct field *f = g->fields; !g->refused && f->name && count < 256; f++)
            names[count++] = f->name;
    const char *near = text_nearest(name, names, count);
    char dashed[80] = "";
    for (size_t i = 0; near && near[i] && i < sizeof dashed - 1; i++)
        dashed[i] = near[i] == '_' ? '-' : near[i];
    return near ? fail(ERR_USAGE, "there is no option --%.*s; did you mean --%s?", TEXT_ARGS(name),
                       dashed)
                : fail(ERR_USAGE, "there is no option --%.*s; --help lists them", TEXT_ARGS(name));
}

static bool is_truth(const char *word)
{
    static const char *const words[] = { "on", "off", "yes", "no", "true", "false", "0", "1" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(word, words[i]))
            return true;
    return false;
}

// Reads the option at words[*i], which is left on the last word that belongs to it.
static enum err read_option(struct command_line *line, const struct options *groups, int *i)
{
    struct text name = text_of(line->words[*i] + 2), value = { 0 };
    const char *equals = memchr(name.at, '=', name.size);
    if (equals) {
        value = text_of(equals + 1);
        name.size = (size_t)(equals - name.at);
    }
    void *object;
    const char *refused;
    const struct field *field = find(groups, &line->common, name, &object, &refused);
    if (!field)
        return unknown(line->arena, groups, name);
    if (refused)
        return fail(ERR_USAGE, "--%.*s: %s", TEXT_ARGS(name), refused);
    if (!equals) {
        const char *next = *i + 1 < line->count ? line->words[*i + 1] : NULL;
        if (field->kind == FIELD_FLAG && !(next && is_truth(next))) {
            value = TEXT("on");
        } else if (!next) {
            return fail(ERR_USAGE, "--%.*s needs a value: %s", TEXT_ARGS(name), field->help);
        } else {
            value = text_of(next);
            ++*i;
        }
    }
    if (!field_set(field, object, line->arena, value))
        return OK;
    // The sentence begins with the field's name; the option is spelled as the user did.
    const char *sentence = text_format(line->arena, "%s", error_text() + strlen(field->name));
    const char *meant = trainer_option_value(text_of(field->name), value);
    if (!meant)
        return fail(ERR_USAGE, "--%.*s%s", TEXT_ARGS(name), sentence);
    const char *near = strstr(sentence, "; did you mean "); // less than what trainers mean by it
    int size = (int)(near ? (size_t)(near - sentence) : strlen(sentence));
    return fail(ERR_USAGE, "--%.*s%.*s; did you mean %s?", TEXT_ARGS(name), size, sentence, meant);
}

enum err command_read(struct command_line *line, const struct options *groups)
{
    line->positional = ARENA_NEW(line->arena, const char *, line->count + 1);
    for (int i = 0; i < line->count; i++) {
        const char *word = line->words[i];
        if (!strcmp(word, "--")) {
            line->rest = line->words + i + 1;
            break;
        }
        if (word[0] == '-' && word[1] == '-')
            TRY(read_option(line, groups, &i));
        else if (word[0] == '-' && word[1])
            return fail(ERR_USAGE, "there is no option %s; options are whole words, see --help",
                        word);
        else
            line->positional[line->positional_count++] = word;
    }
    return OK;
}

enum err command_again(struct command_line *line, const struct options *groups)
{
    line->positional_count = 0;
    return command_read(line, groups);
}

static bool is_listed(const char *const *names, const char *name)
{
    while (*names && strcmp(*names, name))
        names++;
    return *names;
}

bool command_gives(const struct command_line *line, const char *option)
{
    size_t size = strlen(option);
    for (int i = 0; i < line->count && strcmp(line->words[i], "--"); i++)
        if (!strncmp(line->words[i], option, size) &&
            (!line->words[i][size] || line->words[i][size] == '='))
            return true;
    return false;
}

void command_pick(struct field *out, const struct field *table, const char *const *names,
                  bool listed)
{
    for (const struct field *f = table; f->name; f++)
        if (is_listed(names, f->name) == listed)
            *out++ = *f;
    *out = (struct field){ 0 };
}

const struct command *command_find(const char *name)
{
    for (const struct command *const *c = commands; *c; c++)
        if (!strcmp(name, (*c)->name))
            return *c;
    return NULL;
}

enum err command_unknown(const char *name)
{
    const char *names[64];
    size_t count = 0;
    for (const struct command *const *c = commands; *c && count < 64; c++)
        names[count++] = (*c)->name;
    const char *near = text_nearest(text_of(name), names, count);
    return near ? fail(ERR_USAGE, "there is no command %s; did you mean %s?", name, near)
                : fail(ERR_USAGE, "there is no command %s; gpuhours help lists them", name);
}
