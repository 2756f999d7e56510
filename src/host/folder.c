// SPDX-License-Identifier: Apache-2.0
// Lists and maps the files of a folder that share an ending.

#include "host/folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct folder_file *)a)->name, ((const struct folder_file *)b)->name);
}

static void list_files(struct folder *folder, struct arena *arena, DIR *dir, const char *path,
                       const char *ending)
{
    size_t room = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (!text_ends(text_of(entry->d_name), ending) || !strcmp(entry->d_name, ending))
            continue;
        folder->files =
            arena_room(arena, folder->files, sizeof *folder->files, folder->count, &room);
        folder->files[folder->count++] = (struct folder_file){
            .name = text_copy(arena, text_of(entry->d_name)),
            .path = text_format(arena, "%s/%s", path, entry->d_name),
        };
    }
    if (folder->count)
        qsort(folder->files, folder->count, sizeof *folder->files, by_name);
}

enum err folder_open(struct folder *folder, struct arena *arena, const char *path,
                     const char *ending)
{
    *folder = (struct folder){ 0 };
    DIR *dir = opendir(path);
    if (!dir)
        return fail(ERR_INPUT, "%s: cannot be opened as a folder: %s", path, strerror(errno));
    list_files(folder, arena, dir, path, ending);
    closedir(dir);
    for (size_t i = 0; i < folder->count; i++) {
        enum err err = file_open(&folder->files[i].file, folder->files[i].path);
        if (err) {
            folder->count = i;
            folder_close(folder);
            return err;
        }
    }
    return OK;
}

void folder_close(struct folder *folder)
{
    for (size_t i = 0; i < folder->count; i++)
        file_close(&folder->files[i].file);
    *folder = (struct folder){ 0 };
}

// "runs/first/" → "runs"
static const char *above(struct arena *arena, const char *path)
{
    size_t size = strlen(path);
    while (size > 1 && path[size - 1] == '/')
        size--;
    while (size && path[size - 1] != '/')
        size--;
    return size ? arena_copy(arena, path, size) : ".";
}

enum err folder_try(const char *path)
{
    struct arena arena = { 0 };
    struct stat status;
    const char *place = stat(path, &status) ? above(&arena, path) : path;
    bool good = !access(text_format(&arena, "%s/.", place), W_OK | X_OK); // no file has a "."
    enum err err = good ? OK : fail(ERR_INPUT, "%s: cannot be written: %s", path, strerror(errno));
    arena_release(&arena);
    return err;
}

bool folder_is(const char *path)
{
    struct stat status;
    return !stat(path, &status) && S_ISDIR(status.st_mode);
}

bool folder_has(const char *path, const char *name)
{
    struct arena arena = { 0 };
    struct stat status;
    const char *file_path = *name ? text_format(&arena, "%s/%s", path, name) : path;
    bool has = !stat(file_path, &status) && !S_ISDIR(status.st_mode);
    arena_release(&arena);
    return has;
}
