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
#include <strings.h>
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

// Notes that lie beside data: README.txt, LICENSE.txt, requirements-dev.txt.
static bool is_note(struct text stem)
{
    static const char *const notes[] = { "readme",   "license", "licence",
                                         "notice",   "copying", "changelog",
                                         "citation", "authors", "requirements" };
    if (!text_ends(stem, ".txt") && !text_ends(stem, ".text"))
        return false;
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++) {
        size_t size = strlen(notes[i]);
        if (stem.size > size && !strncasecmp(stem.at, notes[i], size) &&
            !isalnum((unsigned char)stem.at[size]))
            return true;
    }
    return false;
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
    if (text_ends(text_of(name), ".lz4"))
        stem.size -= strlen(".lz4");
    if (is_note(stem))
        return false;
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

static enum err nested_too_deep(const char *folder)
{
    return fail(ERR_INPUT,
                "%s: is nested over %d folders deep; is there a link to a parent folder?", folder,
                DEEPEST_FOLDER);
}

static enum err find_in_folder(struct finder *f, const char *folder, int depth)
{
    if (depth > DEEPEST_FOLDER)
        return nested_too_deep(folder);
    DIR *dir = opendir(folder);
    if (!dir)
        return fail(ERR_INPUT, "%s: cannot be opened: %s", folder, strerror(errno));
    const char **names = NULL;
    size_t count = 0, room = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        names = arena_room(f->arena, names, sizeof *names, count, &room);
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

// --- patterns ----------------------------------------------------------------

// The first "**" that stands for folders: all of "a/**/b" between two slashes. NULL: there is none,
// for elsewhere it is two stars.
static const char *find_stars(const char *pattern)
{
    for (const char *at = pattern; (at = strstr(at, "**")); at += 2)
        if ((at == pattern || at[-1] == '/') && (!at[2] || at[2] == '/'))
            return at;
    return NULL;
}

// The pattern with its "**" as so many folders: "a/**/b" is "a/b", "a/*/b", "a/*/*/b" and so on. At
// the end of a pattern it is all that lies below.
static const char *at_level(struct arena *arena, const char *pattern, const char *stars, int level,
                            const char *rest)
{
    struct out out = { .arena = arena };
    out_bytes(&out, pattern, (size_t)(stars - pattern));
    for (int i = 0; i < level; i++)
        out_put(&out, "*/");
    out_put(&out, "%s", rest);
    return out_string(&out);
}

static const char *after_stars(const char *stars)
{
    return stars[2] && stars[3] ? stars + 3 : "*";
}

static bool has_folders(const char *pattern) // which ends with a slash
{
    glob_t found = { 0 };
    bool has = !glob(pattern, GLOB_NOSORT, NULL, &found);
    globfree(&found);
    return has;
}

static enum err add_match(struct finder *f, const char *path)
{
    struct stat about;
    if (stat(path, &about))
        return fail(ERR_INPUT, "%s: its status cannot be read: %s", path, strerror(errno));
    if (S_ISDIR(about.st_mode))
        return find_in_folder(f, path, 0);
    add(f, path, S_ISREG(about.st_mode) ? about.st_size : -1);
    return OK;
}

static enum err match(struct finder *f, const char *pattern, size_t *matches)
{
    const char *stars = find_stars(pattern);
    for (int level = 0; stars && level <= DEEPEST_FOLDER; level++) {
        if (level && !has_folders(at_level(f->arena, pattern, stars, level, "")))
            return OK;
        TRY(match(f, at_level(f->arena, pattern, stars, level, after_stars(stars)), matches));
    }
    if (stars)
        return nested_too_deep(pattern);
    glob_t found = { 0 };
    enum err err = OK;
    if (!glob(pattern, 0, NULL, &found)) // sorted
        for (size_t i = 0; !err && i < found.gl_pathc; i++, ++*matches)
            err = add_match(f, text_copy(f->arena, text_of(found.gl_pathv[i])));
    globfree(&found);
    return err;
}

struct local_file {
    const char *path;
    int64_t size_bytes;
};

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct local_file *)a)->path, ((const struct local_file *)b)->path);
}

// Files that were found at several levels, and below a folder that matched too, count once.
static void sort_once(struct finder *f, size_t first)
{
    struct inputs *out = f->out;
    size_t count = out->count - first;
    struct local_file *files = ARENA_NEW(f->arena, struct local_file, count + 1);
    for (size_t i = 0; i < count; i++)
        files[i] = (struct local_file){ out->paths[first + i], out->sizes[first + i] };
    qsort(files, count, sizeof *files, by_path);
    out->count = first;
    for (size_t i = 0; i < count; i++)
        if (!i || strcmp(files[i - 1].path, files[i].path))
            add(f, files[i].path, files[i].size_bytes);
}

static enum err find_pattern(struct finder *f, const char *pattern)
{
    size_t before = f->out->count, matches = 0;
    TRY(match(f, pattern, &matches));
    if (!matches)
        return fail(ERR_INPUT, "%s: no file matches this pattern", pattern);
    if (find_stars(pattern))
        sort_once(f, before);
    return OK;
}

// The same of a name that is no file.
static bool name_matches(struct arena *arena, const char *pattern, const char *name)
{
    const char *stars = find_stars(pattern);
    if (!stars)
        return !fnmatch(pattern, name, FNM_PATHNAME);
    int levels = 0;
    for (const char *at = name; *at; at++)
        levels += *at == '/';
    for (int level = 0; level <= levels; level++)
        if (name_matches(arena, at_level(arena, pattern, stars, level, after_stars(stars)), name))
            return true;
    return false;
}

// --- splits ------------------------------------------------------------------

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
static enum err find_below(struct finder *f, const char *prefix, const char *asked, size_t *found)
{
    struct object_list list;
    size_t before = f->out->count, size = strlen(prefix);
    TRY(object_list(&list, f->arena, prefix, asked));
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
    TRY(object_list(&list, f->arena, start, pattern));
    bool exact = false; // a key of just that name is no pattern
    for (size_t i = 0; i < list.count; i++)
        exact = exact || !strcmp(list.objects[i].name, pattern);
    for (size_t i = 0; i < list.count; i++) {
        const char *name = list.objects[i].name;
        bool is_folder = name[strlen(name) - 1] == '/';
        struct arena_mark mark = arena_mark(f->arena);
        bool matches = exact ? !strcmp(name, pattern) : name_matches(f->arena, pattern, name);
        arena_rewind(f->arena, mark);
        if (!is_folder && matches)
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
        if (!object->is_absent)
            return err;
        word = text_format(f->arena, "%s/", word);
    } else if (!key) {
        word = text_format(f->arena, "%s/", word);
    }
    TRY(find_below(f, word, asked, &found));
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
    return err;
}

// What was read of it is gone: named again, it would be counted as empty.
static enum err add_standard_input(struct finder *f, const char *word)
{
    for (size_t i = 0; i < f->out->count; i++)
        if (!strcmp(f->out->paths[i], word))
            return fail(ERR_USAGE, "standard input (-) is named twice, but can be read only once");
    add(f, word, -1);
    return OK;
}

static enum err find(struct finder *f, const char *word)
{
    struct stat about;
    if (!*word)
        return fail(ERR_INPUT, "an empty file name; give - for standard input");
    if (address_kind(word) != ADDRESS_LOCAL)
        return find_address(f, word);
    if (!strcmp(word, "-"))
        return add_standard_input(f, word);
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
