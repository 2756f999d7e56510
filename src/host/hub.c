// SPDX-License-Identifier: Apache-2.0
// Looks model files up in a folder or in the local Hugging Face cache.

#include "host/hub.h"
#include "host/file.h"
#include "host/folder.h"

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

// "models", "org/name" → "models--org--name"
static const char *folder_name(struct arena *arena, const char *kind, struct text model)
{
    struct out out = { .arena = arena };
    out_put(&out, "%s--", kind);
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

// ERR_INPUT, naming the places searched, and path NULL if there is no such model or file.
static enum err find(const char **path, struct arena *arena, const char *model, const char *file)
{
    *path = NULL;
    if (folder_is(model)) {
        const char *found = text_format(arena, "%s/%s", model, file);
        if (!is_file(found))
            return fail(ERR_INPUT, "%s: this folder has no %s", model, file);
        *path = found;
        return OK;
    }
    const char *cache = cache_folder(arena), *at = strchr(model, '@');
    struct text name = { model, at ? (size_t)(at - model) : strlen(model) };
    if (!cache || strstr(model, ".."))
        return fail(ERR_INPUT, "%s: no such folder", model);
    const char *folder = text_format(arena, "%s/%s", cache, folder_name(arena, "models", name));
    if (!folder_is(folder))
        return fail(ERR_INPUT,
                    "%s: is neither a folder nor a model in the local hub cache (%s); download it "
                    "there first, or give its folder",
                    model, cache);
    *path = find_cached(arena, folder, at ? at + 1 : NULL, file);
    return *path ? OK
                 : fail(ERR_INPUT, "%s: the local hub cache has no %s for this model (%s)", model,
                        file, folder);
}

// The snapshot of a revision, or the newest where none is named and "main" was not downloaded.
static const char *find_snapshot(struct arena *arena, const char *folder, const char *revision)
{
    const char *name = revision ? revision : "main";
    const char *commit = first_line(arena, text_format(arena, "%s/refs/%s", folder, name));
    const char *path = text_format(arena, "%s/snapshots/%s", folder, commit ? commit : name);
    if (folder_is(path) || revision)
        return folder_is(path) ? path : NULL;
    struct stat about;
    time_t best_time = 0;
    DIR *list = opendir(text_format(arena, "%s/snapshots", folder));
    path = NULL;
    for (struct dirent *entry; list && (entry = readdir(list));) {
        const char *found = text_format(arena, "%s/snapshots/%s", folder, entry->d_name);
        if (entry->d_name[0] == '.' || stat(found, &about) || !S_ISDIR(about.st_mode))
            continue;
        if (!path || about.st_mtime > best_time) {
            path = found;
            best_time = about.st_mtime;
        }
    }
    if (list)
        closedir(list);
    return path;
}

// "org/name@revision/path" → "org/name", "revision" or NULL, "path" or "".
static bool split_dataset(struct arena *arena, struct text rest, struct text *name,
                          const char **revision, const char **path)
{
    const char *slash = memchr(rest.at, '/', rest.size);
    const char *end = rest.at + rest.size;
    const char *next = slash ? memchr(slash + 1, '/', (size_t)(end - slash - 1)) : NULL;
    *path = next ? next + 1 : "";
    if (!slash || slash == rest.at)
        return false;
    *name = (struct text){ rest.at, (size_t)((next ? next : end) - rest.at) };
    const char *at = memchr(name->at, '@', name->size);
    *revision =
        at ? text_copy(arena, (struct text){ at + 1, (size_t)(name->at + name->size - at) - 1 })
           : NULL;
    if (at)
        name->size = (size_t)(at - name->at);
    return name->at + name->size > slash + 1;
}

enum err hub_find_dataset(const char **path, struct arena *arena, const char *address)
{
    static const char start[] = "hf://datasets/";
    const char *revision, *below, *cache = cache_folder(arena);
    struct text name;
    if (strncmp(address, start, strlen(start)) || strstr(address, "..") ||
        !split_dataset(arena, text_of(address + strlen(start)), &name, &revision, &below))
        return fail(ERR_INPUT, "%s: give hf://datasets/org/name, or hf://datasets/org/name/path",
                    address);
    const char *folder =
        text_format(arena, "%s/%s", cache ? cache : "", folder_name(arena, "datasets", name));
    const char *snapshot = cache ? find_snapshot(arena, folder, revision) : NULL;
    if (!snapshot)
        return fail(ERR_INPUT,
                    "%s: this data set is not in the local hub cache (%s), and is not downloaded "
                    "from here; run: hf download --repo-type dataset %.*s",
                    address, cache ? cache : "HOME is not set", TEXT_ARGS(name));
    *path = *below ? text_format(arena, "%s/%s", snapshot, below) : snapshot;
    return OK;
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
        if (!find(path, arena, model, files[i]))
            return OK;
    return find(path, arena, model, files[0]);
}
