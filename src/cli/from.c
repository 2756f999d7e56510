// SPDX-License-Identifier: Apache-2.0
// --from: reads a trainer's configuration files and command line into a request.

#include "cli/from.h"
#include "cli/terminal/print.h"

#include "host/file.h"
#include "host/folder.h"
#include "host/yaml.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

const struct field from_fields[] = {
    FIELD(from, from, TEXT, "trainer configuration (YAML or JSON); repeat to merge several",
          .value = "FILE", .fallback = ""),
    { 0 },
};

bool from_given(const struct from *from, const struct command_line *line)
{
    return from->from || (line->rest && line->rest[0]);
}

// --- files -------------------------------------------------------------------

static enum err read_tree(struct json *out, struct arena *arena, struct text text, const char *path)
{
    size_t at = 0;
    while (at < text.size && isspace((unsigned char)text.at[at]))
        at++;
    bool json = text_ends(text_of(path), ".json");
    if (!json && (at == text.size || text.at[at] != '{'))
        return yaml_read(out, arena, text, path);
    if (at == text.size)
        return fail(ERR_INPUT, "%s: is empty; expected a trainer's configuration", path);
    enum err err = json_read(out, arena, text, path);
    return err && !json ? yaml_read(out, arena, text, path) : err; // YAML may begin with { too
}

static enum err read_file(struct trainer_config *config, const char *path)
{
    if (text_ends(text_of(path), ".bin"))
        return fail(ERR_INPUT,
                    "%s: is a pickle, which gpuhours does not read; training_args.to_json_string() "
                    "writes the same as JSON",
                    path);
    struct text text;
    TRY(file_read(&text, config->arena, path));
    TRY(trainer_config_check_look(text, path));
    struct json tree;
    TRY(read_tree(&tree, config->arena, text, path));
    return trainer_config_add(config, &tree, path);
}

static bool is_read(const struct trainer_config *config, const char *path)
{
    const char *slash = strrchr(path, '/');
    for (size_t i = 0; i < config->file_count; i++) {
        const char *name = config->files[i].name, *own = strrchr(name, '/');
        if (!strcmp(own ? own + 1 : name, slash ? slash + 1 : path))
            return true;
    }
    return false;
}

// A file that a configuration names: as it is, else in the folder of a file that was read.
static const char *locate(const struct trainer_config *config, const char *path)
{
    if (folder_has(path, ""))
        return path;
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    for (size_t i = 0; i < config->file_count; i++) {
        const char *name = config->files[i].name, *slash = strrchr(name, '/');
        int size = slash ? (int)(slash - name + 1) : 0;
        const char *beside = text_format(config->arena, "%.*s%s", size, name, base);
        if (folder_has(beside, ""))
            return beside;
    }
    return NULL;
}

static void follow(struct trainer_config *config, const char *path)
{
    if (is_read(config, path))
        return;
    const char *found = locate(config, path);
    if (!found)
        trainer_config_missing(config, path);
    else if (read_file(config, found))
        trainer_config_unreadable(config, found, error_text());
}

enum err from_read(struct from *from, struct command_line *line)
{
    struct trainer_config *config = ARENA_NEW(line->arena, struct trainer_config, 1);
    config->arena = line->arena;
    from->config = config;
    for (int i = 0; i < line->count && strcmp(line->words[i], "--"); i++) {
        const char *word = line->words[i], *path = NULL;
        if (!strncmp(word, "--from=", 7))
            path = word + 7;
        else if (!strcmp(word, "--from") && i + 1 < line->count)
            path = line->words[++i];
        if (path && strcmp(path, "command"))
            TRY(read_file(config, path));
        else if (path && !(line->rest && line->rest[0]))
            return fail(ERR_USAGE,
                        "--from command reads the trainer's command line after --; add it");
    }
    if (line->rest && line->rest[0])
        TRY(trainer_config_words(config, line->rest));
    for (size_t i = 0; i < config->reference_count; i++)
        follow(config, config->references[i]);
    return OK;
}

// --- options -----------------------------------------------------------------

// The catalog name of a folder that does not exist: "checkpoints/meta-llama/Llama-2-7b-hf".
static const char *name_model(struct arena *arena, const char *model)
{
    if (folder_has(model, "config.json") || folder_has(model, ""))
        return model;
    struct text name = text_of(model);
    while (name.size > 1 && name.at[name.size - 1] == '/')
        name.size--;
    bool local = *model == '/' || *model == '.' || *model == '~';
    int parts = local ? 1 : 2; // a hub's name has an owner
    for (size_t i = name.size; i-- > 0;)
        if (name.at[i] == '/' && !--parts)
            return text_copy(arena, (struct text){ name.at + i + 1, name.size - i - 1 });
    return text_copy(arena, name);
}

enum err from_fill(struct from *from, struct plan_request *request, int64_t gpus)
{
    struct trainer_config *config = from->config;
    TRY(plan_from(config, request, gpus));
    if (trainer_config_option(config, "model"))
        request->model = name_model(config->arena, request->model);
    for (size_t i = 0; i < config->option_count; i++)
        if (!strcmp(config->options[i].option, "model"))
            config->options[i].value = request->model;
    request->from = config;
    return OK;
}

static bool is_option(const char *word, const char *option)
{
    if (strncmp(word, "--", 2))
        return false;
    for (word += 2; *option; word++, option++)
        if (*word != *option && !(*word == '-' && *option == '_'))
            return false;
    return !*word || *word == '=';
}

void from_warn(const struct from *from, const struct command_line *line)
{
    struct trainer_config *config = from->config;
    for (int w = 0; w < line->count && strcmp(line->words[w], "--"); w++)
        for (size_t i = 0; i < config->item_count; i++) {
            const char *option = config->items[i].option;
            bool packing = option && !strcmp(option, "batching");
            if (option && (is_option(line->words[w], option) ||
                           (packing && is_option(line->words[w], "packing"))))
                config->items[i].beaten = true;
        }
    for (size_t i = 0; i < config->contradiction_count; i++)
        print_note("--from: %s", config->contradictions[i]);
    const char *lost = trainer_config_lost(config);
    if (lost && !line->common.quiet && !line->common.json && !line->common.explain)
        print_note("--from: ignored, although it matters: %s; --explain says why", lost);
}
