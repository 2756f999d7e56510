// SPDX-License-Identifier: Apache-2.0
// Expands the words of a command line (files, folders, patterns, addresses) into data files.

#include "host/inputs.h"

#include "base/lines.h"
#include "host/hub.h"
#include "remote/address.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DEEPEST_FOLDER = 32 };

struct finder {
    struct inputs *out;
    struct arena *arena;
    size_t room;
};

static void add_object(struct finder *f, const char *path, int64_t size_bytes,
                       const struct object *object)
{
    struct inputs *out = f->out;
    if (out->count == f->room) {
        size_t room = f->room ? f->room * 2 : 64;
        out->paths = arena_grow(f->arena, out->paths, f->room * sizeof *out->paths,
                                room * sizeof *out->paths);
        out->objects = arena_grow(f->arena, out->objects, f->room * sizeof *out->objects,
                                  room * sizeof *out->objects);
        out->sizes = arena_grow(f->arena, out->sizes, f->room * sizeof *out->sizes,
                                room * sizeof *out->sizes);
        f->room = room;
    }
    out->paths[out->count] = path;
    out->objects[out->count] = object;
    out->sizes[out->count++] = size_bytes;
}

static void add(struct finder *f, const char *path, int64_t size_bytes)
{
    add_object(f, path, size_bytes, NULL);
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
    static const char *const descriptions[] = { "dataset_info.json", "dataset_infos.json",
                                                "dataset_dict.json", "state.json" };
    for (size_t i = 0; i < sizeof descriptions / sizeof *descriptions; i++)
        if (!strcmp(name, descriptions[i]))
            return false;
    // LZ4 is refused by name when it is opened: better than counted as nothing.
    struct text stem = lines_unpacked_name(text_of(name));
    if (ends_with(name, ".lz4"))
        stem.size -= strlen(".lz4");
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t size = strlen(endings[i]);
        if (stem.size > size && !memcmp(stem.at + stem.size - size, endings[i], size))
            return true;
    }
    return false;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum err find_in_folder(struct finder *f, const char *folder, int depth);

// A cache of the Hugging Face Hub has links to files that may be gone.
static enum err missing_target(const char *path)
{
    return fail(ERR_INPUT,
                "%s: is a link whose target cannot be read (%s); download the data again, or "
                "remove the link",
                path, strerror(errno));
}

static enum err find_entry(struct finder *f, const char *path, const char *name, int depth)
{
    struct stat about;
    if (stat(path, &about)) // a link that points nowhere
        return is_data(name) ? missing_target(path) : OK;
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
        if (split_of(out->paths[i] + folder_size) != SPLIT_HELD_OUT) {
            out->paths[kept] = out->paths[i];
            out->objects[kept] = out->objects[i];
            out->sizes[kept++] = out->sizes[i];
        } else if (!out->left_out++) {
            out->left_out_name = out->paths[i];
        }
    }
    out->count = has_train ? kept : out->count;
}

static enum err no_data(const char *word, const char *what)
{
    return fail(ERR_INPUT,
                "%s: the %s holds no data file (.jsonl, .json, .csv, .tsv, .txt, .parquet, .arrow; "
                ".gz, .zst, .bz2 and .xz of these)",
                word, what);
}

// --- buckets -----------------------------------------------------------------

// The order of a walk through folders: a folder's name ends where its slash stands.
static int by_folder(const void *a, const void *b)
{
    const char *x = ((const struct object *)a)->name, *y = ((const struct object *)b)->name;
    while (*x && *x == *y)
        x++, y++;
    int left = *x == '/' ? 1 : (unsigned char)*x + (*x != 0),
        right = *y == '/' ? 1 : (unsigned char)*y + (*y != 0);
    return left - right;
}

// Adds the data files below a prefix that ends with a slash, or is the whole bucket.
static enum err find_below(struct finder *f, const char *prefix, size_t *found)
{
    struct object_list list;
    size_t before = f->out->count, size = strlen(prefix);
    TRY(object_list(&list, f->arena, prefix));
    if (list.count)
        qsort(list.objects, list.count, sizeof *list.objects, by_folder);
    for (size_t i = 0; i < list.count; i++) {
        const char *name = list.objects[i].name, *rest = name + size;
        const char *base = strrchr(name, '/') + 1;
        if (is_data(base) && *rest != '.' && !strstr(rest, "/."))
            add_object(f, name, list.objects[i].size_bytes, &list.objects[i]);
    }
    *found = list.count;
    if (f->out->count > before)
        keep_train_split(f, before, size);
    return OK;
}

static enum err find_matching(struct finder *f, const char *pattern)
{
    struct object_list list;
    size_t before = f->out->count;
    const char *start = text_copy(f->arena, (struct text){ pattern, strcspn(pattern, "*?[") });
    TRY(object_list(&list, f->arena, start));
    bool exact = false; // a key of just that name is no pattern
    for (size_t i = 0; i < list.count; i++)
        exact = exact || !strcmp(list.objects[i].name, pattern);
    for (size_t i = 0; i < list.count; i++) {
        const char *name = list.objects[i].name;
        bool is_folder = name[strlen(name) - 1] == '/';
        if (!is_folder && !(exact ? strcmp(name, pattern) : fnmatch(pattern, name, FNM_PATHNAME)))
            add_object(f, name, list.objects[i].size_bytes, &list.objects[i]);
    }
    return f->out->count > before ? OK
                                  : fail(ERR_INPUT, "%s: no object matches this pattern", pattern);
}

static enum err find_in_bucket(struct finder *f, const char *word)
{
    const char *key = strchr(word + strlen("s3://"), '/'), *asked = word;
    if (key && strpbrk(key, "*?["))
        return find_matching(f, word);
    size_t found = 0, before = f->out->count;
    if (key && key[1] && word[strlen(word) - 1] != '/') {
        struct object *object = ARENA_NEW(f->arena, struct object, 1);
        enum err err = object_find(object, f->arena, word);
        if (!err)
            add_object(f, object->name, object->size_bytes, object);
        if (err != ERR_ANSWER)
            return err;
        word = text_format(f->arena, "%s/", word);
    } else if (!key) {
        word = text_format(f->arena, "%s/", word);
    }
    TRY(find_below(f, word, &found));
    if (!found)
        return fail(ERR_INPUT, "%s: there is no such object, and none begins with that", asked);
    return f->out->count > before || f->out->left_out ? OK : no_data(asked, "prefix");
}

static enum err find(struct finder *f, const char *word);

static enum err find_address(struct finder *f, const char *word)
{
    struct address address;
    TRY(address_read(&address, word));
    if (address.kind == ADDRESS_HUB) {
        const char *path;
        TRY(hub_find_dataset(&path, f->arena, word));
        return find(f, path);
    }
    if (address.kind != ADDRESS_WEB)
        return find_in_bucket(f, word);
    struct object *object = ARENA_NEW(f->arena, struct object, 1);
    enum err err = object_find(object, f->arena, word);
    if (!err)
        add_object(f, object->name, object->size_bytes, object);
    return err == ERR_ANSWER ? ERR_INPUT : err;
}

static enum err find(struct finder *f, const char *word)
{
    struct stat about;
    if (!*word)
        return fail(ERR_INPUT, "an empty file name; give - for standard input");
    if (address_kind(word) != ADDRESS_LOCAL)
        return find_address(f, word);
    if (!strcmp(word, "-")) {
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
        return no_data(word, "folder");
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
    bool known = true;
    for (size_t i = 0; i < out->count; i++) {
        known = known && out->sizes[i] >= 0;
        out->total_bytes += out->sizes[i];
    }
    out->total_bytes = known ? out->total_bytes : 0;
    return OK;
}
