// SPDX-License-Identifier: Apache-2.0
// Expands the words of a command line (files, folders, patterns, addresses) into data files.

#include "host/inputs.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DEEPEST_FOLDER = 32 };

struct finder {
    struct inputs *out;
    struct arena *arena;
    size_t room;
    bool unknown_size;
};

static void add(struct finder *f, const char *path, int64_t size_bytes)
{
    struct inputs *out = f->out;
    if (out->count == f->room) {
        size_t room = f->room ? f->room * 2 : 64;
        out->paths = arena_grow(f->arena, out->paths, f->room * sizeof *out->paths,
                                room * sizeof *out->paths);
        f->room = room;
    }
    out->paths[out->count++] = path;
    out->total_bytes += size_bytes;
    f->unknown_size = f->unknown_size || size_bytes < 0;
}

bool inputs_is_remote(const char *path)
{
    static const char *const schemes[] = {
        "hf://", "s3://", "gs://", "r2://", "https://", "http://"
    };
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (!strncmp(path, schemes[i], strlen(schemes[i])))
            return true;
    return false;
}

static bool ends_with(const char *name, const char *ending)
{
    size_t size = strlen(name), tail = strlen(ending);
    return size > tail && !strcmp(name + size - tail, ending);
}

static bool is_data(const char *name)
{
    static const char *const endings[] = { ".jsonl",   ".ndjson", ".jsonlines", ".json",
                                           ".csv",     ".tsv",    ".txt",       ".text",
                                           ".parquet", ".arrow",  ".feather" };
    // The last three are refused by name when they are opened: better than counted as nothing.
    static const char *const packed[] = { "", ".gz", ".zst", ".zstd", ".bz2", ".xz", ".lz4" };
    static const char *const descriptions[] = { "dataset_info.json", "dataset_infos.json",
                                                "dataset_dict.json", "state.json" };
    for (size_t i = 0; i < sizeof descriptions / sizeof *descriptions; i++)
        if (!strcmp(name, descriptions[i]))
            return false;
    char ending[32];
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        for (size_t j = 0; j < sizeof packed / sizeof *packed; j++) {
            size_t size = strlen(endings[i]);
            memcpy(ending, endings[i], size);
            memcpy(ending + size, packed[j], strlen(packed[j]) + 1);
            if (ends_with(name, ending))
                return true;
        }
    return false;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum err find_in_folder(struct finder *f, const char *folder, int depth);

static enum err find_entry(struct finder *f, const char *path, const char *name, int depth)
{
    struct stat about;
    if (stat(path, &about)) // a link that points nowhere
        return OK;
    if (S_ISDIR(about.st_mode))
        return find_in_folder(f, path, depth + 1);
    if (S_ISREG(about.st_mode) && is_data(name))
        add(f, path, about.st_size);
    return OK;
}

static enum err find_in_folder(struct finder *f, const char *folder, int depth)
{
    if (depth > DEEPEST_FOLDER)
        return fail(ERR_INPUT,
                    "%s: is nested over %d folders deep; is there a link to a parent folder?",
                    folder, DEEPEST_FOLDER);
    DIR *dir = opendir(folder);
    if (!dir)
        return fail(ERR_INPUT, "%s: cannot be opened: %s", folder, strerror(errno));
    const char **names = NULL;
    size_t count = 0, room = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        if (count == room) {
            size_t more = room ? room * 2 : 64;
            names = arena_grow(f->arena, names, room * sizeof *names, more * sizeof *names);
            room = more;
        }
        names[count++] = text_copy(f->arena, text_of(entry->d_name));
    }
    closedir(dir);
    if (count)
        qsort(names, count, sizeof *names, by_name);
    bool slash = folder[strlen(folder) - 1] == '/';
    for (size_t i = 0; i < count; i++)
        TRY(find_entry(f, text_format(f->arena, "%s%s%s", folder, slash ? "" : "/", names[i]),
                       names[i], depth));
    return OK;
}

static enum err find_pattern(struct finder *f, const char *pattern)
{
    glob_t found = { 0 };
    int failed = glob(pattern, 0, NULL, &found); // sorted
    enum err err = OK;
    if (failed)
        err = fail(ERR_INPUT, "%s: no file matches this pattern", pattern);
    for (size_t i = 0; !err && i < found.gl_pathc; i++) {
        const char *path = text_copy(f->arena, text_of(found.gl_pathv[i]));
        struct stat about;
        if (stat(path, &about))
            err = fail(ERR_INPUT, "%s: its status cannot be read: %s", path, strerror(errno));
        else if (S_ISDIR(about.st_mode))
            err = find_in_folder(f, path, 0);
        else
            add(f, path, S_ISREG(about.st_mode) ? about.st_size : -1);
    }
    globfree(&found);
    return err;
}

enum split { SPLIT_NONE, SPLIT_TRAIN, SPLIT_HELD_OUT };

// The split that a path within a folder names: data/test-00000-of-00001.parquet, validation/0.json.
static enum split split_of(const char *path)
{
    static const char *const held_out[] = { "test", "validation", "valid",      "val",
                                            "dev",  "eval",       "evaluation", "heldout" };
    bool train = false, held = false;
    while (*path) {
        char word[16] = "";
        size_t size = 0;
        for (; isalpha((unsigned char)*path); path++)
            if (size + 1 < sizeof word)
                word[size++] = (char)tolower((unsigned char)*path);
        train = train || !strcmp(word, "train") || !strcmp(word, "training");
        for (size_t i = 0; i < sizeof held_out / sizeof *held_out; i++)
            held = held || !strcmp(word, held_out[i]);
        path += *path != 0 && !isalpha((unsigned char)*path);
    }
    return train == held ? SPLIT_NONE : train ? SPLIT_TRAIN : SPLIT_HELD_OUT;
}

// Leaves test and validation files of a folder out, if it has train files.
static void keep_train_split(struct finder *f, size_t first, size_t folder_size)
{
    struct inputs *out = f->out;
    bool has_train = false;
    size_t kept = first;
    for (size_t i = first; i < out->count; i++)
        has_train = has_train || split_of(out->paths[i] + folder_size) == SPLIT_TRAIN;
    for (size_t i = first; has_train && i < out->count; i++) {
        struct stat about;
        if (split_of(out->paths[i] + folder_size) != SPLIT_HELD_OUT) {
            out->paths[kept++] = out->paths[i];
            continue;
        }
        if (!out->left_out++)
            out->left_out_name = out->paths[i];
        if (!stat(out->paths[i], &about))
            out->total_bytes -= about.st_size;
    }
    out->count = has_train ? kept : out->count;
}

static enum err find(struct finder *f, const char *word)
{
    struct stat about;
    if (!*word)
        return fail(ERR_INPUT, "an empty file name; give - for standard input");
    if (!strcmp(word, "-") || inputs_is_remote(word)) {
        add(f, word, -1);
        return OK;
    }
    if (stat(word, &about)) {
        int reason = errno;
        return strpbrk(word, "*?[")
                   ? find_pattern(f, word)
                   : fail(ERR_INPUT, "%s: cannot be opened: %s", word, strerror(reason));
    }
    if (!S_ISDIR(about.st_mode)) {
        add(f, word, S_ISREG(about.st_mode) ? about.st_size : -1);
        return OK;
    }
    size_t before = f->out->count;
    TRY(find_in_folder(f, word, 0));
    if (f->out->count == before)
        return fail(ERR_INPUT,
                    "%s: the folder holds no data file (.jsonl, .json, .csv, .tsv, .txt, .parquet, "
                    ".arrow; .gz and .zst of these)",
                    word);
    keep_train_split(f, before, strlen(word));
    return OK;
}

enum err inputs_find(struct inputs *out, struct arena *arena, const char *const *words,
                     size_t count)
{
    *out = (struct inputs){ 0 };
    struct finder f = { .out = out, .arena = arena };
    for (size_t i = 0; i < count; i++)
        TRY(find(&f, words[i]));
    if (f.unknown_size)
        out->total_bytes = 0;
    return OK;
}
