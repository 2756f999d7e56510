// SPDX-License-Identifier: Apache-2.0
// Looks model files up in a folder or in the local Hugging Face cache.

#include "host/hub.h"
#include "host/file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_file(const char *path)
{
    struct stat about;
    return !stat(path, &about) && !S_ISDIR(about.st_mode);
}

static bool is_folder(const char *path)
{
    struct stat about;
    return !stat(path, &about) && S_ISDIR(about.st_mode);
}

// The cache folder; NULL if the environment names none.
static const char *cache_folder(struct arena *arena)
{
    const char *value;
    if ((value = getenv("HF_HUB_CACHE")) && *value)
        return value;
    if ((value = getenv("HUGGINGFACE_HUB_CACHE")) && *value)
        return value;
    if ((value = getenv("HF_HOME")) && *value)
        return text_format(arena, "%s/hub", value);
    if ((value = getenv("XDG_CACHE_HOME")) && *value)
        return text_format(arena, "%s/huggingface/hub", value);
    if ((value = getenv("HOME")) && *value)
        return text_format(arena, "%s/.cache/huggingface/hub", value);
    return NULL;
}

// "org/name" → "models--org--name"
static const char *folder_name(struct arena *arena, struct text model)
{
    struct out out = { .arena = arena };
    out_put(&out, "models--");
    for (size_t i = 0; i < model.size; i++)
        if (model.at[i] == '/')
            out_put(&out, "--");
        else
            out_char(&out, model.at[i]);
    return out_string(&out);
}

static const char *first_line(struct arena *arena, const char *path)
{
    struct file file;
    if (!is_file(path) || file_open(&file, path))
        return NULL;
    const char *line = text_copy(arena, text_trim(file.text));
    file_close(&file);
    return *line && !strchr(line, '\n') && !strstr(line, "..") ? line : NULL;
}

// The most recently changed snapshot that has the file.
static const char *newest_snapshot(struct arena *arena, const char *folder, const char *file)
{
    const char *snapshots = text_format(arena, "%s/snapshots", folder), *best = NULL;
    DIR *list = opendir(snapshots);
    time_t best_time = 0;
    for (struct dirent *entry; list && (entry = readdir(list));) {
        const char *path = text_format(arena, "%s/%s/%s", snapshots, entry->d_name, file);
        struct stat about;
        if (entry->d_name[0] == '.' || stat(path, &about) || S_ISDIR(about.st_mode))
            continue;
        if (!best || about.st_mtime > best_time) {
            best = path;
            best_time = about.st_mtime;
        }
    }
    if (list)
        closedir(list);
    return best;
}

static const char *find_cached(struct arena *arena, const char *folder, const char *revision,
                               const char *file)
{
    const char *name = revision ? revision : "main";
    const char *commit = first_line(arena, text_format(arena, "%s/refs/%s", folder, name));
    const char *path =
        text_format(arena, "%s/snapshots/%s/%s", folder, commit ? commit : name, file);
    if (is_file(path))
        return path;
    return revision ? NULL : newest_snapshot(arena, folder, file);
}

enum err hub_find(const char **path, struct arena *arena, const char *model, const char *file)
{
    if (is_folder(model)) {
        *path = text_format(arena, "%s/%s", model, file);
        return is_file(*path) ? OK : fail(ERR_INPUT, "%s: this folder has no %s", model, file);
    }
    const char *cache = cache_folder(arena), *at = strchr(model, '@');
    struct text name = { model, at ? (size_t)(at - model) : strlen(model) };
    if (!cache || strstr(model, ".."))
        return fail(ERR_INPUT, "%s: no such folder", model);
    const char *folder = text_format(arena, "%s/%s", cache, folder_name(arena, name));
    if (!is_folder(folder))
        return fail(ERR_INPUT,
                    "%s: is neither a folder nor a model in the local hub cache (%s); download it "
                    "there first, or give its folder",
                    model, cache);
    *path = find_cached(arena, folder, at ? at + 1 : NULL, file);
    return *path ? OK
                 : fail(ERR_INPUT, "%s: the local hub cache has no %s for this model (%s)", model,
                        file, folder);
}

enum err hub_find_tokenizer(const char **path, struct arena *arena, const char *model)
{
    static const char *const files[] = { "tokenizer.json", "tokenizer.model", "spiece.model",
                                         "tiktoken.model", "qwen.tiktoken" };
    if (is_file(model)) {
        *path = model;
        return OK;
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (!hub_find(path, arena, model, files[i]))
            return OK;
    return hub_find(path, arena, model, files[0]);
}
