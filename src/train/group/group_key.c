// SPDX-License-Identifier: Apache-2.0
// The key of a group's handshake: from the secret that was given, or from a random file of the
// user's, which is made once and which only the user can read.

#define _GNU_SOURCE // getrandom, mkostemp
#include "train/group/group_link.h"

#include "base/sha256.h"
#include "host/file.h"
#include "host/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_SIZE = 32 };

// Beside the user's ledger.
static const char *path_of(struct arena *arena)
{
    const char *ledger = NULL;
    ledger_path(&ledger, arena, NULL);
    const char *slash = ledger ? strrchr(ledger, '/') : NULL;
    return slash ? text_format(arena, "%.*s/group.key", (int)(slash - ledger), ledger) : NULL;
}

// Written under another name and linked: of several ranks that do so at once one is first, and
// nobody reads half a key.
static void make_key(struct arena *arena, const char *path)
{
    const char *name = text_format(arena, "%s.XXXXXX", path);
    char *draft = arena_copy(arena, name, strlen(name));
    uint8_t key[KEY_SIZE];
    int fd = mkostemp(draft, O_CLOEXEC); // that only the user can read
    if (fd < 0)
        return;
    bool good =
        getrandom(key, sizeof key, 0) == sizeof key && write(fd, key, sizeof key) == KEY_SIZE;
    good = !close(fd) && good;
    if (good && link(draft, path) && errno != EEXIST)
        rename(draft, path); // a file system without links
    unlink(draft);
}

static enum err read_key(struct text *out, struct arena *arena)
{
    const char *path = path_of(arena);
    struct stat about;
    if (!path)
        return fail(ERR_USAGE, "ranks need a shared secret: set " GROUP_PLACE_SECRET
                               " to the same word for every rank");
    if (access(path, F_OK)) {
        file_make_folders(path);
        make_key(arena, path);
    }
    TRY(file_read(out, arena, path));
    if (stat(path, &about) || about.st_uid != geteuid() || about.st_mode & 077)
        return fail(ERR_INPUT, "%s: can be read by others; run chmod 600 on it, or remove it",
                    path);
    return out->size == KEY_SIZE
               ? OK
               : fail(ERR_INPUT, "%s: is not a key of %d bytes; remove it", path, KEY_SIZE);
}

enum err group_link_key(struct group_link_key *out, struct arena *arena,
                        const struct group_place *place)
{
    struct text secret = text_of(place->secret ? place->secret : "");
    if (!place->secret)
        TRY(read_key(&secret, arena));
    struct out all = { .arena = arena };
    out_put(&all, "gpuhours group\n%s\n", place->job);
    for (size_t i = 0; i < secret.size; i++)
        out_char(&all, secret.at[i]);
    sha256(out->bytes, out_view(&all));
    return OK;
}
