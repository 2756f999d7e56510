// SPDX-License-Identifier: Apache-2.0
// Fills a folder under a temporary name and renames it when it is complete.

#include "host/staging.h"

#include "host/file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_dot(const char *name)
{
    return !strcmp(name, ".") || !strcmp(name, "..");
}

static bool is_empty(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir)
        return false;
    bool empty = true;
    for (struct dirent *entry; empty && (entry = readdir(dir));)
        empty = is_dot(entry->d_name);
    closedir(dir);
    return empty;
}

// A folder of that name may remain of a killed run: in a container every run has the same pid.
static bool make_beside(struct staging *staging, struct arena *arena)
{
    enum { TRIES = 1000 };
    for (int i = 0; i < TRIES && !staging->made; i++) {
        staging->temporary = text_format(arena, "%s.%d-%d.tmp", staging->path, (int)getpid(), i);
        staging->made = !mkdir(staging->temporary, 0777);
        if (!staging->made && errno != EEXIST)
            break;
    }
    return staging->made;
}

enum err staging_open(struct staging *staging, struct arena *arena, const char *path)
{
    size_t size = strlen(path);
    while (size > 1 && path[size - 1] == '/')
        size--;
    *staging = (struct staging){ .path = arena_copy(arena, path, size) };
    struct stat about;
    if (!lstat(staging->path, &about) && !(S_ISDIR(about.st_mode) && is_empty(staging->path)))
        return fail(ERR_INPUT, "%s: exists and is not empty; remove it or give another folder",
                    staging->path);
    if (!make_beside(staging, arena))
        return fail(ERR_INPUT, "%s: cannot be created next to %s: %s", staging->temporary,
                    staging->path, strerror(errno));
    return OK;
}

enum err staging_commit(struct staging *staging)
{
    TRY(file_sync_folder(staging->temporary));
    if (rename(staging->temporary, staging->path))
        return fail(ERR_INPUT, "%s: cannot be renamed into place: %s", staging->path,
                    strerror(errno));
    staging->made = false;
    struct arena scratch = { 0 };
    const char *slash = strrchr(staging->path, '/');
    size_t size = slash ? (size_t)(slash - staging->path) : 0;
    const char *parent = !slash ? "." : size ? arena_copy(&scratch, staging->path, size) : "/";
    enum err err = file_sync_folder(parent);
    arena_release(&scratch);
    return err;
}

void staging_release(struct staging *staging)
{
    DIR *dir = staging->made ? opendir(staging->temporary) : NULL;
    struct arena scratch = { 0 };
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (!is_dot(entry->d_name))
            unlink(text_format(&scratch, "%s/%s", staging->temporary, entry->d_name));
    arena_release(&scratch);
    if (dir)
        closedir(dir);
    if (staging->made)
        rmdir(staging->temporary);
    *staging = (struct staging){ 0 };
}
