// Passes the command's output on from a thread of its own, so that a slow reader does not stop it.

#include "host/child_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_SECONDS = 1, PIECE = 1 << 16 };

// Writes one piece of the ring buffer; false when the reader is gone.
static bool write_piece(struct child_relay *relay)
{
    size_t size = relay->size < PIECE ? relay->size : PIECE;
    if (size > CHILD_RELAY - relay->at)
        size = CHILD_RELAY - relay->at;
    const char *from = relay->ring + relay->at;
    pthread_mutex_unlock(&relay->lock);
    ssize_t done = write(relay->fd, from, size);
    int problem = errno;
    if (done < 0 && problem == EAGAIN) // another process made the descriptor non-blocking
        nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    pthread_mutex_lock(&relay->lock);
    if (done < 0)
        return problem == EINTR || problem == EAGAIN;
    relay->at = (relay->at + (size_t)done) % CHILD_RELAY;
    relay->size -= (size_t)done;
    relay->taken += (uint64_t)done;
    pthread_cond_broadcast(&relay->changed);
    return true;
}

static void *run(void *argument)
{
    struct child_relay *relay = argument;
    pthread_mutex_lock(&relay->lock);
    while (!relay->broken && (relay->size || !relay->ending)) {
        if (!relay->size)
            pthread_cond_wait(&relay->changed, &relay->lock);
        else if (!write_piece(relay))
            relay->broken = true;
    }
    relay->size = 0;
    relay->broken = true;
    pthread_cond_broadcast(&relay->changed);
    pthread_mutex_unlock(&relay->lock);
    return NULL;
}

void child_relay_start(struct child_relay *relay, int fd)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    relay->fd = fd;
    relay->ring = malloc(CHILD_RELAY);
    pthread_mutex_init(&relay->lock, NULL);
    pthread_cond_init(&relay->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    relay->started = relay->ring && !pthread_create(&relay->thread, NULL, run, relay);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    relay->broken = !relay->started;
}

// Waits until the reader has taken something; false after a second without progress.
static bool wait_for_reader(struct child_relay *relay)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += PATIENCE_SECONDS;
    uint64_t before = relay->taken;
    while (relay->taken == before && !relay->broken)
        if (pthread_cond_timedwait(&relay->changed, &relay->lock, &until) == ETIMEDOUT)
            return relay->taken != before;
    return true;
}

static void copy_in(struct child_relay *relay, const char *from, size_t size)
{
    size_t to = (relay->at + relay->size) % CHILD_RELAY;
    size_t first = size < CHILD_RELAY - to ? size : CHILD_RELAY - to;
    memcpy(relay->ring + to, from, first);
    memcpy(relay->ring, from + first, size - first);
    relay->size += size;
    pthread_cond_broadcast(&relay->changed);
}

// After the reader was stuck, output is dropped until half of the ring is free.
static bool is_accepting(struct child_relay *relay)
{
    if (!relay->stuck || relay->size > CHILD_RELAY / 2)
        return !relay->stuck;
    char note[128];
    int size =
        snprintf(note, sizeof note, "\n[gpuhours: %lld bytes dropped: the output was not read]\n",
                 (long long)relay->dropped_bytes);
    copy_in(relay, note, (size_t)size);
    relay->stuck = false;
    relay->dropped_bytes = 0;
    return true;
}

void child_relay_put(struct child_relay *relay, struct text bytes)
{
    pthread_mutex_lock(&relay->lock);
    while (bytes.size && !relay->broken) {
        size_t room = CHILD_RELAY - relay->size;
        if (!is_accepting(relay) || (!room && !wait_for_reader(relay))) {
            relay->stuck = true;
            relay->dropped_bytes += (int64_t)bytes.size;
            break;
        }
        room = CHILD_RELAY - relay->size;
        size_t size = bytes.size < room ? bytes.size : room;
        copy_in(relay, bytes.at, size);
        bytes.at += size;
        bytes.size -= size;
    }
    pthread_mutex_unlock(&relay->lock);
}

void child_relay_end(struct child_relay *relay)
{
    if (!relay->ring)
        return;
    pthread_mutex_lock(&relay->lock);
    relay->ending = true;
    pthread_cond_broadcast(&relay->changed);
    bool progressing = true;
    while (relay->started && !relay->broken && progressing)
        progressing = wait_for_reader(relay);
    bool joinable = relay->started && relay->broken;
    pthread_mutex_unlock(&relay->lock);
    if (!joinable && relay->started) { // it hangs in a write: it keeps the ring until exit()
        pthread_detach(relay->thread);
        return;
    }
    if (joinable)
        pthread_join(relay->thread, NULL);
    pthread_mutex_destroy(&relay->lock);
    pthread_cond_destroy(&relay->changed);
    free(relay->ring);
    *relay = (struct child_relay){ 0 };
}
