// SPDX-License-Identifier: Apache-2.0
// Passes the command's output on from a thread of its own, so that a slow reader does not stop it.

#include "host/child_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PIECE = 1 << 16 };
static const double PATIENCE_SECONDS = 1; // with a full ring, while the command runs
static const double ASKED_SECONDS = 0.1;  // between looks for a signal, after it has ended

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
    relay->broken = false; // the thread owns it from now on, under the lock
    relay->ring = malloc(CHILD_RELAY);
    pthread_mutex_init(&relay->lock, NULL);
    pthread_cond_init(&relay->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    relay->started = relay->ring && !pthread_create(&relay->thread, NULL, run, relay);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!relay->started)
        relay->broken = true;
}

// Waits until the reader has taken something; false after so long without progress.
static bool wait_for_reader(struct child_relay *relay, double seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t nanoseconds = until.tv_nsec + (int64_t)(1e9 * seconds);
    until.tv_sec += nanoseconds / 1000000000;
    until.tv_nsec = nanoseconds % 1000000000;
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
        if (!is_accepting(relay) || (!room && !wait_for_reader(relay, PATIENCE_SECONDS))) {
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

// Reads the signals to us from the pipe; whether one of them asks us to end.
static bool is_interrupted(int wake)
{
    bool asked = false;
    for (char number; read(wake, &number, 1) == 1;)
        asked = asked || (number != SIGWINCH && number != SIGTSTP);
    return asked;
}

// Waits until the reader has taken all. Gives up after so long without progress, or on a signal.
static void drain(struct child_relay *relay, double seconds, int wake)
{
    double waited = 0;
    while (relay->started && !relay->broken && waited < seconds) {
        if (is_interrupted(wake))
            break;
        is_accepting(relay); // announces dropped output once there is room
        if (!relay->stuck) {
            relay->ending = true;
            pthread_cond_broadcast(&relay->changed);
        }
        waited = wait_for_reader(relay, ASKED_SECONDS) ? 0 : waited + ASKED_SECONDS;
    }
}

int64_t child_relay_end(struct child_relay *relay, double seconds, int wake)
{
    if (!relay->ring)
        return 0;
    pthread_mutex_lock(&relay->lock);
    drain(relay, seconds, wake);
    relay->ending = true;
    pthread_cond_broadcast(&relay->changed);
    bool joinable = relay->started && relay->broken;
    int64_t unread = (int64_t)relay->size + relay->dropped_bytes;
    pthread_mutex_unlock(&relay->lock);
    if (!joinable && relay->started) { // it hangs in a write: it keeps the ring until exit()
        pthread_detach(relay->thread);
        return unread;
    }
    if (joinable)
        pthread_join(relay->thread, NULL);
    pthread_mutex_destroy(&relay->lock);
    pthread_cond_destroy(&relay->changed);
    free(relay->ring);
    *relay = (struct child_relay){ 0 };
    return 0; // all of it was read, or the reader is gone
}
