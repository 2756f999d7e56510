// SPDX-License-Identifier: Apache-2.0
// Threads that read the pieces of parts into a buffer that is used as a ring: parts lie in it
// whole, in order, and one that does not fit before the end begins at the start.

#define _GNU_SOURCE // O_DIRECT, mincore

#include "train/files/direct.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { THREADS = 8, PIECE = 8 << 20, ALIGNMENT = 4096, HUGE = 2 << 20 };

struct slot {
    const struct direct_part *part;
    int fd;        // −1: the part is used where it is mapped
    char *at;      // its first block in the buffer; NULL: it has no place, or no longer
    size_t taken;  // bytes of the blocks that were given to threads
    size_t read;   // bytes that came
    int under_way; // pieces
};

struct direct {
    struct slot *slots;
    size_t count;
    size_t used; // parts that were handed out
    size_t next; // the part whose pieces are given to threads
    char *buffer;
    size_t room;
    bool ends;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t threads[THREADS];
    int thread_count;
};

static size_t lead_of(const struct slot *s) // bytes of the first block that precede the part
{
    return s->part->offset % ALIGNMENT;
}

static size_t blocks_of(const struct slot *s) // bytes of all its blocks
{
    return (lead_of(s) + s->part->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

// --- which parts -------------------------------------------------------------

// Whether most of the part's pages are in memory already. The kernel counts every page as in memory
// where this user may not write the file.
static bool is_cached(const struct direct_part *part)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), there = 0;
    uintptr_t first = (uintptr_t)part->mapped / page * page;
    size_t pages = ((uintptr_t)part->mapped + part->bytes - first + page - 1) / page;
    unsigned char *resident = malloc(pages);
    bool known = resident && !mincore((void *)first, pages * page, resident);
    for (size_t i = 0; known && i < pages; i++)
        there += resident[i] & 1;
    free(resident);
    return !known || 2 * there > pages;
}

// One descriptor for all parts of a file.
static int open_file(const struct direct *d, size_t until, const char *path)
{
    for (size_t i = 0; i < until; i++)
        if (d->slots[i].fd >= 0 && d->slots[i].part->path == path)
            return d->slots[i].fd;
    return open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
}

// --- threads -----------------------------------------------------------------

// Reads until the piece ends, or the file; returns the bytes that came.
static size_t read_piece(int fd, char *to, size_t size, size_t offset)
{
    size_t done = 0;
    while (done < size) {
        ssize_t got = pread(fd, to + done, size - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        done += (size_t)got;
        if (done % ALIGNMENT) // the end of the file
            break;
    }
    return done;
}

// A place in the ring for the next part, after those that are in use; NULL: there is no room yet.
static char *place(const struct direct *d, size_t size)
{
    const struct slot *oldest = NULL, *newest = NULL;
    for (size_t i = d->used ? d->used - 1 : 0; i < d->next; i++)
        if (d->slots[i].at) {
            oldest = oldest ? oldest : &d->slots[i];
            newest = &d->slots[i];
        }
    if (!newest)
        return d->buffer;
    char *after = newest->at + blocks_of(newest), *end = d->buffer + d->room;
    if (newest->at < oldest->at) // it began at the start again
        end = oldest->at;
    else if (size > (size_t)(end - after))
        after = d->buffer, end = oldest->at;
    return size <= (size_t)(end - after) ? after : NULL;
}

// The part that pieces are to be taken from now; NULL: it has to wait for room, or there is none.
static struct slot *current(struct direct *d)
{
    while (d->next < d->count &&
           (d->slots[d->next].fd < 0 || d->slots[d->next].taken == blocks_of(&d->slots[d->next])))
        d->next++;
    struct slot *s = d->next < d->count ? &d->slots[d->next] : NULL;
    if (s && !s->at)
        s->at = place(d, blocks_of(s));
    return s && s->at ? s : NULL;
}

static void *work(void *context)
{
    struct direct *d = context;
    pthread_mutex_lock(&d->lock);
    while (!d->ends) {
        struct slot *s = current(d);
        if (!s && d->next == d->count)
            break;
        if (!s) {
            pthread_cond_wait(&d->changed, &d->lock);
            continue;
        }
        size_t from = s->taken, left = blocks_of(s) - from, size = left < PIECE ? left : PIECE;
        s->taken += size;
        s->under_way++;
        pthread_mutex_unlock(&d->lock);
        size_t got =
            read_piece(s->fd, s->at + from, size, s->part->offset / ALIGNMENT * ALIGNMENT + from);
        pthread_mutex_lock(&d->lock);
        s->read += got;
        s->under_way--;
        pthread_cond_broadcast(&d->changed);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

// --- use ---------------------------------------------------------------------

// The parts that are read, and the room that they need.
static void choose_parts(struct direct *d, const struct direct_part *parts)
{
    size_t all = 0, largest = 0;
    for (size_t i = 0; i < d->count; i++) {
        struct slot *s = &d->slots[i];
        *s = (struct slot){ .part = &parts[i], .fd = -1 };
        if (parts[i].path && parts[i].bytes && !is_cached(&parts[i]))
            s->fd = open_file(d, i, parts[i].path);
        size_t size = s->fd >= 0 ? blocks_of(s) : 0;
        largest = size > largest ? size : largest;
        all += size;
    }
    d->room = all < DIRECT_ROOM ? all : largest > DIRECT_ROOM ? largest : DIRECT_ROOM;
}

struct direct *direct_open(const struct direct_part *parts, size_t count)
{
    struct direct *d = calloc(1, sizeof *d);
    if (!d || !(d->slots = calloc(count + 1, sizeof *d->slots)))
        return free(d), NULL;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->changed, NULL);
    d->count = count;
    choose_parts(d, parts);
    d->room = (d->room + HUGE - 1) / HUGE * HUGE; // a read pins few huge pages, or many small ones
    d->buffer = d->room ? aligned_alloc(HUGE, d->room) : NULL;
    if (d->buffer)
        madvise(d->buffer, d->room, MADV_HUGEPAGE);
    while (d->buffer && d->thread_count < THREADS &&
           !pthread_create(&d->threads[d->thread_count], NULL, work, d))
        d->thread_count++;
    return d;
}

const char *direct_next(struct direct *d)
{
    struct slot *s = &d->slots[d->used];
    pthread_mutex_lock(&d->lock);
    if (d->used)
        s[-1].at = NULL;
    d->used++;
    pthread_cond_broadcast(&d->changed);
    while (d->thread_count && s->fd >= 0 && (s->under_way || s->taken < blocks_of(s)))
        pthread_cond_wait(&d->changed, &d->lock);
    bool whole = s->at && s->read >= lead_of(s) + s->part->bytes;
    pthread_mutex_unlock(&d->lock);
    return whole ? s->at + lead_of(s) : s->part->mapped;
}

void direct_close(struct direct *d)
{
    if (!d)
        return;
    pthread_mutex_lock(&d->lock);
    d->ends = true;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
    for (int i = 0; i < d->thread_count; i++)
        pthread_join(d->threads[i], NULL);
    for (size_t i = 0; i < d->count; i++) {
        int fd = d->slots[i].fd;
        for (size_t j = i; fd >= 0 && j < d->count; j++)
            if (d->slots[j].fd == fd)
                d->slots[j].fd = -1;
        if (fd >= 0)
            close(fd);
    }
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
    free(d->buffer);
    free(d->slots);
    free(d);
}
