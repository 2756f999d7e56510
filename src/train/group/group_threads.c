// SPDX-License-Identifier: Apache-2.0
// N ranks as threads of one process: each hands its bytes to the next one's letter box.

#include "train/group/group_internal.h"

#include "base/arena.h"

#include <pthread.h>
#include <string.h>

struct group_threads {
    struct arena arena;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct box {
        const void *at; // of the sender, until it is taken; NULL: empty
        size_t size;
    } * boxes; // by the rank that receives
    int size;
    bool is_broken; // a rank failed
};

// Waits until the box is full, or until it is empty; false: a rank failed.
static bool wait_until(struct group_threads *threads, const struct box *box, bool full)
{
    while (!threads->is_broken && (box->at != NULL) != full)
        pthread_cond_wait(&threads->changed, &threads->lock);
    return !threads->is_broken;
}

static bool pass(struct group_threads *threads, int rank, const void *send, size_t sent,
                 void *receive, size_t received)
{
    struct box *mine = &threads->boxes[rank], *next = &threads->boxes[(rank + 1) % threads->size];
    if (sent) {
        *next = (struct box){ send, sent };
        pthread_cond_broadcast(&threads->changed);
    }
    if (received) {
        if (!wait_until(threads, mine, true) || mine->size != received)
            return false;
        memcpy(receive, mine->at, received);
        mine->at = NULL;
        pthread_cond_broadcast(&threads->changed);
    }
    return !sent || wait_until(threads, next, false);
}

static enum err exchange(struct group *group, const void *send, size_t sent, void *receive,
                         size_t received)
{
    struct group_threads *threads = group->own;
    pthread_mutex_lock(&threads->lock);
    bool good = pass(threads, group->rank, send, sent, receive, received);
    pthread_mutex_unlock(&threads->lock);
    return good ? OK : fail(ERR_UNAVAILABLE, "another rank failed");
}

static void close_thread(struct group *group)
{
    (void)group; // the other threads may still be at work
}

static void abort_thread(struct group *group, enum err err)
{
    struct group_threads *threads = group->own;
    (void)err;
    pthread_mutex_lock(&threads->lock);
    threads->is_broken = true;
    pthread_cond_broadcast(&threads->changed);
    pthread_mutex_unlock(&threads->lock);
}

static const struct group_transport transport_threads = {
    .name = "threads", .exchange = exchange, .close = close_thread, .abort = abort_thread
};

enum err group_threads_open(struct group_threads **out, struct group *groups, int size)
{
    struct arena arena = { 0 };
    struct group_threads *threads = ARENA_NEW(&arena, struct group_threads, 1);
    threads->arena = arena;
    threads->boxes = ARENA_NEW(&threads->arena, struct box, size);
    threads->size = size;
    *out = threads;
    if (pthread_mutex_init(&threads->lock, NULL) || pthread_cond_init(&threads->changed, NULL))
        return fail(ERR_UNAVAILABLE, "cannot make a lock");
    for (int i = 0; i < size; i++)
        groups[i] = (struct group){ .rank = i,
                                    .size = size,
                                    .local_rank = i,
                                    .local_size = size,
                                    .transport = &transport_threads,
                                    .own = threads };
    return OK;
}

void group_threads_close(struct group_threads *threads)
{
    pthread_mutex_destroy(&threads->lock);
    pthread_cond_destroy(&threads->changed);
    struct arena arena = threads->arena;
    arena_release(&arena);
}
