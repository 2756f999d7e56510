// SPDX-License-Identifier: Apache-2.0
// Reads and writes the file of tuned choices: a line of text, then entries of a fixed size, the
// latest work first.

#include "train/files/tuned.h"

#include "base/checksum.h"
#include "host/file.h"
#include "host/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char head[] = "gpuhours tuned choices, version 1\n";
enum { HEAD = sizeof head - 1 };

struct entry {
    uint64_t sum;   // of what follows
    uint64_t owner; // checksum of the device's description and the work
    int64_t count;  // choices of this owner, which lie together
    struct tuned choice;
};
_Static_assert(sizeof(struct entry) == 24 + sizeof(struct tuned), "no padding: it is summed");

const char *tuned_path(struct arena *arena)
{
    const char *given = getenv("GPUHOURS_TUNED"), *ledger = NULL;
    if (given)
        return *given ? given : NULL;
    ledger_path(&ledger, arena, NULL);
    const char *slash = ledger ? strrchr(ledger, '/') : NULL;
    return slash ? text_format(arena, "%.*s/tuned", (int)(slash - ledger), ledger) : NULL;
}

// --- entries -----------------------------------------------------------------

static uint64_t sum_of(const struct entry *entry)
{
    const char *from = (const char *)&entry->owner;
    return checksum((struct text){ from, sizeof *entry - sizeof entry->sum }, 0);
}

static uint64_t owner_of(const char *about, uint64_t work)
{
    return checksum((struct text){ about, strlen(about) }, work);
}

// Whether only this user can have written it.
static bool is_own(const char *path)
{
    struct stat about;
    return !lstat(path, &about) && S_ISREG(about.st_mode) && about.st_uid == geteuid() &&
           !(about.st_mode & (S_IWGRP | S_IWOTH));
}

struct entries {
    struct entry *items;
    int64_t count;
};

// Adds the entries from `first` on that belong together, if all of them are there; returns how many
// entries to go on.
static int64_t add_together(struct entries *out, const struct entry *from, int64_t left)
{
    int64_t good = 0;
    while (good < left && from[good].sum == sum_of(&from[good]) &&
           from[good].owner == from->owner && good < from->count)
        good++;
    if (!good || good != from->count || out->count + good > TUNED_MOST)
        return good ? good : 1;
    memcpy(out->items + out->count, from, (size_t)good * sizeof *from);
    out->count += good;
    return good;
}

// What a file has, without what is damaged.
static struct entries read_entries(struct arena *arena, const char *path)
{
    struct entries out = { .items = ARENA_NEW(arena, struct entry, TUNED_MOST) };
    struct file file;
    if (!is_own(path) || file_open(&file, path))
        return out;
    bool ours = file.text.size >= HEAD && !memcmp(file.text.at, head, HEAD);
    size_t count = ours ? (file.text.size - HEAD) / sizeof *out.items : 0;
    count = count < TUNED_MOST ? count : TUNED_MOST;
    struct entry *all = ARENA_NEW(arena, struct entry, count + 1); // aligned
    memcpy(all, file.text.at + (ours ? HEAD : 0), count * sizeof *all);
    file_close(&file);
    for (size_t i = 0; i < count;)
        i += (size_t)add_together(&out, all + i, (int64_t)(count - i));
    return out;
}

struct tuned_list tuned_read(struct arena *arena, const char *path, const char *about,
                             uint64_t work)
{
    struct entries all = read_entries(arena, path);
    struct tuned_list out = { .items = ARENA_NEW(arena, struct tuned, all.count + 1) };
    for (int64_t i = 0; i < all.count; i++)
        if (all.items[i].owner == owner_of(about, work))
            out.items[out.count++] = all.items[i].choice;
    return out;
}

// --- writing -----------------------------------------------------------------

// The given choices, then what the file has of others, as far as there is room.
static enum err replace(struct arena *arena, const char *path, uint64_t owner,
                        struct tuned_list list)
{
    struct entries former = read_entries(arena, path);
    struct entries out = { ARENA_NEW(arena, struct entry, TUNED_MOST), list.count };
    for (int64_t i = 0; i < list.count; i++) {
        out.items[i] =
            (struct entry){ .owner = owner, .count = list.count, .choice = list.items[i] };
        out.items[i].sum = sum_of(&out.items[i]);
    }
    for (int64_t i = 0; i < former.count; i += former.items[i].count)
        if (former.items[i].owner != owner)
            add_together(&out, former.items + i, former.items[i].count);
    size_t bytes = (size_t)out.count * sizeof *out.items;
    char *content = arena_alloc(arena, HEAD + bytes);
    memcpy(content, head, HEAD);
    memcpy(content + HEAD, out.items, bytes);
    return file_write(path, (struct text){ content, HEAD + bytes });
}

// A new file is empty and only its user's; file_write() keeps the permissions of what it replaces.
static enum err create(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || close(fd) || !is_own(path))
        return fail(ERR_INPUT, "%s: is not a file that only its user can write", path);
    return OK;
}

enum err tuned_write(const char *path, const char *about, uint64_t work, struct tuned_list list)
{
    struct arena scratch = { 0 };
    if (list.count < 1 || list.count > TUNED_MOST)
        return OK;
    file_make_folders(path);
    const char *turn = text_format(&scratch, "%s.lock", path);
    int lock = open(turn, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    enum err err = OK;
    if (lock < 0 || flock(lock, LOCK_EX))
        err = fail(ERR_INPUT, "%s: cannot be locked: %s", turn, strerror(errno));
    err = err ? err : create(path);
    err = err ? err : replace(&scratch, path, owner_of(about, work), list);
    if (lock >= 0)
        close(lock);
    arena_release(&scratch);
    return err;
}

// --- devices -----------------------------------------------------------------

bool tuned_recall(struct device *device, uint64_t work)
{
    char about[TUNED_ABOUT];
    struct arena scratch = { 0 };
    struct tuned_list list = { 0 };
    const char *path = tuned_path(&scratch);
    if (path && device->backend->tuned_about) {
        device->backend->tuned_about(device, about);
        list = tuned_read(&scratch, path, about, work);
        device->backend->tuned_take(device, list.items, list.count);
    }
    arena_release(&scratch);
    return list.count > 0;
}

void tuned_keep(struct device *device, uint64_t work)
{
    char about[TUNED_ABOUT];
    struct arena scratch = { 0 };
    const char *path = tuned_path(&scratch);
    if (path && device->backend->tuned_about) {
        struct tuned_list list = { .items = ARENA_NEW(&scratch, struct tuned, TUNED_MOST) };
        device->backend->tuned_about(device, about);
        list.count = device->backend->tuned_list(device, list.items, TUNED_MOST);
        tuned_write(path, about, work, list); // a run without a cache is as good as with one
    }
    arena_release(&scratch);
}
