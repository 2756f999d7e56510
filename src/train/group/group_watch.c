// SPDX-License-Identifier: Apache-2.0
// The thread that listens to the lines between rank 0 and the others.

#include "train/group/group_watch.h"

#include "host/clock.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { REASON_SECONDS = 9, FAREWELL_SECONDS = 5, SAY_SECONDS = 1 };

static int rank_of(const struct group_watch *watch, int line)
{
    return watch->place->rank ? 0 : line + 1;
}

static void say(struct group_watch *watch, int line, const char *message, size_t size)
{
    if (watch->lines[line].fd >= 0)
        group_link_send(watch->lines[line].fd, message, size, clock_seconds() + SAY_SECONDS);
}

static void say_to_all(struct group_watch *watch, const char *message, size_t size)
{
    for (int i = 0; i < watch->count; i++)
        if (!watch->is_done[i])
            say(watch, i, message, size);
}

// A rank is lost: the others are told, its owner hears of it and may end the process, and only then
// do this rank's waits end, so that the loss is told once.
static void lose(struct group_watch *watch, enum err err, const char *text, bool is_told_elsewhere)
{
    const struct group_place *place = watch->place;
    char message[2] = { 'F', (char)err };
    pthread_mutex_lock(&watch->lock);
    bool is_over = watch->is_lost || watch->is_closing;
    pthread_mutex_unlock(&watch->lock);
    if (is_over)
        return;
    if (!place->rank)
        say_to_all(watch, message, sizeof message);
    if (place->lost)
        place->lost(place->context, err, is_told_elsewhere || place->has_parent ? NULL : text);
    pthread_mutex_lock(&watch->lock);
    watch->is_lost = true;
    watch->err = err;
    snprintf(watch->text, sizeof watch->text, "%s", text);
    for (int i = 0; i < watch->guarded_count; i++)
        shutdown(watch->guarded[i], SHUT_RDWR);
    pthread_cond_broadcast(&watch->changed);
    pthread_mutex_unlock(&watch->lock);
}

// A connection closed without a message. To report it once, rank 0 does so for all others, and rank
// 1 for rank 0.
static void lose_silent(struct group_watch *watch, int line)
{
    struct arena scratch = { 0 };
    int rank = rank_of(watch, line);
    lose(watch, ERR_UNAVAILABLE,
         text_format(&scratch,
                     "rank %d, at %s, has ended without a word: it was killed, or its host is "
                     "gone; the run ends here, and the same command continues from its checkpoint",
                     rank, group_link_name(&scratch, &watch->lines[line].peer)),
         watch->place->rank > 1);
    arena_release(&scratch);
}

static void hear(struct group_watch *watch, int line)
{
    char word, code = 0;
    int fd = watch->lines[line].fd;
    ssize_t got = recv(fd, &word, 1, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got == 1 && word == 'F' &&
        group_link_receive(fd, &code, 1, clock_seconds() + SAY_SECONDS)) {
        struct arena scratch = { 0 };
        watch->is_done[line] = true;
        lose(watch, code > 0 ? (enum err)code : ERR_UNAVAILABLE,
             text_format(&scratch, "rank %d failed, and has said why", rank_of(watch, line)), true);
        arena_release(&scratch);
        return;
    }
    watch->is_done[line] = true;
    if (got != 1 || word != 'D')
        lose_silent(watch, line);
}

static bool all_done(const struct group_watch *watch)
{
    for (int i = 0; i < watch->count; i++)
        if (!watch->is_done[i])
            return false;
    return true;
}

static void take_leave(struct group_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    char message[2] = { watch->farewell ? 'F' : 'D', (char)watch->farewell };
    bool is_lost = watch->is_lost;
    pthread_mutex_unlock(&watch->lock);
    if (!is_lost)
        say_to_all(watch, message, watch->farewell ? 2 : 1);
}

static void *listen_to_lines(void *context)
{
    struct group_watch *watch = context;
    struct arena arena = { 0 };
    struct pollfd *polled = ARENA_NEW(&arena, struct pollfd, watch->count + 1);
    double deadline = INFINITY;
    while (!all_done(watch) && clock_seconds() < deadline) {
        for (int i = 0; i < watch->count; i++)
            polled[i] = (struct pollfd){ watch->is_done[i] ? -1 : watch->lines[i].fd, POLLIN, 0 };
        polled[watch->count] =
            (struct pollfd){ deadline < INFINITY ? -1 : watch->wake[0], POLLIN, 0 };
        double left = fmax(deadline - clock_seconds(), 0); // below 0 poll() would wait for ever
        if (poll(polled, (nfds_t)watch->count + 1, left < INFINITY ? (int)(1000 * left) : -1) < 0)
            continue;
        for (int i = 0; i < watch->count; i++)
            if (polled[i].revents)
                hear(watch, i);
        if (polled[watch->count].revents) { // closing: rank 0 waits for the others' words
            take_leave(watch);
            deadline = clock_seconds() + (watch->place->rank ? 0 : FAREWELL_SECONDS);
        }
    }
    arena_release(&arena);
    return NULL;
}

enum err group_watch_start(struct group_watch *watch, const struct group_place *place,
                           struct group_link *lines, int count)
{
    sigset_t all, before;
    pthread_condattr_t monotonic;
    watch->place = place;
    watch->lines = lines;
    watch->count = count;
    pthread_mutex_init(&watch->lock, NULL);
    pthread_condattr_init(&monotonic); // a wait does not change with the time of day
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&watch->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (pipe(watch->wake))
        return fail(ERR_UNAVAILABLE, "cannot open a pipe: %s", strerror(errno));
    sigfillset(&all); // signals are the main thread's
    pthread_sigmask(SIG_BLOCK, &all, &before);
    watch->has_thread = !pthread_create(&watch->thread, NULL, listen_to_lines, watch);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return watch->has_thread ? OK
                             : fail(ERR_UNAVAILABLE, "cannot start the thread that watches ranks");
}

void group_watch_guard(struct group_watch *watch, int socket)
{
    pthread_mutex_lock(&watch->lock);
    watch->guarded[watch->guarded_count++] = socket;
    if (watch->is_lost)
        shutdown(socket, SHUT_RDWR);
    pthread_mutex_unlock(&watch->lock);
}

void group_watch_end(struct group_watch *watch, enum err err)
{
    if (!watch->has_thread)
        return;
    pthread_mutex_lock(&watch->lock);
    watch->is_closing = true;
    watch->farewell = err;
    pthread_mutex_unlock(&watch->lock);
    if (write(watch->wake[1], "", 1) != 1)
        return; // the thread ends with the process
    pthread_join(watch->thread, NULL);
    watch->has_thread = false;
    close(watch->wake[0]);
    close(watch->wake[1]);
}

enum err group_watch_reason(struct group_watch *watch, int rank)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += REASON_SECONDS;
    pthread_mutex_lock(&watch->lock);
    while (!watch->is_lost && !pthread_cond_timedwait(&watch->changed, &watch->lock, &until))
        ;
    enum err err = watch->is_lost ? fail(watch->err, "%s", watch->text)
                                  : fail(ERR_UNAVAILABLE, "the connection to rank %d broke", rank);
    pthread_mutex_unlock(&watch->lock);
    return err;
}
