// SPDX-License-Identifier: Apache-2.0
// Starts ranks as processes, waits for them, and reports the one that failed.

#define _GNU_SOURCE // getrandom, strsignal
#include "train/group/group_start.h"

#include "host/clock.h"
#include "train/group/group_link.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_RANKS = 1024, GRACE_SECONDS = 2 };

struct ranks {
    const struct group_place *place;
    int count, first; // on this host; the rank of the first one
    pid_t *pids;      // 0: it has ended
    int running;
    sigset_t signals, before; // that this process waits for; the mask that ranks get
    enum err err;             // of the first that failed
    double kill_at;           // when those that are left are killed; INFINITY: not yet
    bool kills;               // they are being killed
    int killed, signal;       // the rank that a signal killed before that; 0: none
};

bool group_start_is_wanted(const struct group_place *place, int64_t asked)
{
    if (place->has_parent)
        return false;
    return asked > 1 || (place->size > 1 && (place->is_per_host || asked));
}

// --- starting ----------------------------------------------------------------

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

// On one host the secret and the port are this run's own.
static enum err open_here(int *listener)
{
    struct group_link_address here;
    uint8_t bytes[16];
    char secret[2 * sizeof bytes + 1];
    int port;
    TRY(group_link_find(&here, "127.0.0.1", 0));
    TRY(group_link_listen(listener, &here, &port));
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return fail(ERR_UNAVAILABLE, "the system gives no random bytes for a secret");
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(secret + 2 * i, 3, "%02x", bytes[i]);
    fcntl(*listener, F_SETFD, 0); // the first rank inherits it
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv(GROUP_PLACE_SECRET, secret, 1);
    set_number(GROUP_PLACE_PORT, port);
    return OK;
}

static enum err prepare(const struct ranks *ranks, int *listener)
{
    const struct group_place *place = ranks->place;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int threads = cores / ranks->count > 1 ? (int)(cores / ranks->count) : 1;
    *listener = 0;
    if (place->size == 1) {
        TRY(open_here(listener));
    } else {
        setenv("MASTER_ADDR", place->address, 1);
        setenv("TORCHELASTIC_RUN_ID", place->job, 1);
        set_number(GROUP_PLACE_PORT, place->port);
    }
    set_number("WORLD_SIZE", place->size * ranks->count);
    set_number("LOCAL_WORLD_SIZE", ranks->count);
    set_number(GROUP_PLACE_LISTENER, *listener);
    if (!getenv("OMP_NUM_THREADS"))
        set_number("OMP_NUM_THREADS", threads);
    return OK;
}

static enum err start(struct ranks *ranks, char **words, int index)
{
    pid_t parent = getpid();
    set_number("RANK", ranks->first + index);
    set_number("LOCAL_RANK", index);
    pid_t pid = fork();
    if (pid < 0)
        return fail(ERR_UNAVAILABLE, "cannot start rank %d: %s", index, strerror(errno));
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(ERR_UNAVAILABLE); // it was killed before it could be asked for
        sigprocmask(SIG_SETMASK, &ranks->before, NULL);
        execv("/proc/self/exe", words);
        _exit(ERR_UNAVAILABLE);
    }
    ranks->pids[index] = pid;
    ranks->running++;
    return OK;
}

// --- waiting -----------------------------------------------------------------

static void tell_all(const struct ranks *ranks, int number)
{
    for (int i = 0; i < ranks->count; i++)
        if (ranks->pids[i])
            kill(ranks->pids[i], number);
}

// A rank that was killed is reported even if another one, which lost it, is seen to end first.
static void note_end(struct ranks *ranks, int index, int status)
{
    bool was_killed = WIFSIGNALED(status);
    enum err err = was_killed ? ERR_UNAVAILABLE : (enum err)WEXITSTATUS(status);
    ranks->pids[index] = 0;
    ranks->running--;
    if (was_killed && !ranks->kills && !ranks->signal) {
        ranks->killed = ranks->first + index;
        ranks->signal = WTERMSIG(status);
    }
    if (err && ranks->err <= ERR_ANSWER)
        ranks->err = err;
    if (err > ERR_ANSWER) // not one that was asked to stop: the first rank may still be saving
        ranks->kill_at = fmin(ranks->kill_at, clock_seconds() + GRACE_SECONDS);
}

static void collect(struct ranks *ranks)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (int i = 0; i < ranks->count; i++)
            if (ranks->pids[i] == pid)
                note_end(ranks, i, status);
}

static void wait_for_all(struct ranks *ranks)
{
    for (collect(ranks); ranks->running; collect(ranks)) {
        double left = fmin(ranks->kill_at - clock_seconds(), 3600);
        struct timespec wait = { (time_t)fmax(left, 0), 100000000 };
        int number = sigtimedwait(&ranks->signals, NULL, &wait);
        if (number == SIGINT || number == SIGTERM || number == SIGHUP)
            tell_all(ranks, SIGTERM);
        if (clock_seconds() > ranks->kill_at) {
            ranks->kills = true;
            tell_all(ranks, SIGKILL);
        }
    }
}

static enum err start_all(struct ranks *ranks, char **words)
{
    int listener;
    TRY(prepare(ranks, &listener));
    enum err err = OK;
    for (int i = 0; i < ranks->count && !err; i++)
        err = start(ranks, words, i);
    if (listener)
        close(listener);
    return err;
}

// What a rank told itself is not told again.
static enum err outcome(const struct ranks *ranks)
{
    if (ranks->signal)
        return fail(ranks->err,
                    "rank %d was killed by signal %d (%s): the run ends here; the same command "
                    "continues from its checkpoint",
                    ranks->killed, ranks->signal, strsignal(ranks->signal));
    return ranks->err ? fail(ranks->err, "%s", "") : OK;
}

enum err group_start(struct arena *arena, char **words, const struct group_place *place,
                     int64_t asked)
{
    if (place->size > 1 && !place->is_per_host)
        return fail(ERR_USAGE, "%s started this process as rank %d of %d; leave out --ranks",
                    place->launcher, place->rank, place->size);
    if (asked > MOST_RANKS)
        return fail(ERR_USAGE, "--ranks is %lld; at most %d ranks can run on one host",
                    (long long)asked, MOST_RANKS);
    struct ranks ranks = { .place = place, .count = asked ? (int)asked : 1, .kill_at = INFINITY };
    ranks.first = place->rank * ranks.count;
    ranks.pids = ARENA_NEW(arena, pid_t, ranks.count);
    sigemptyset(&ranks.signals);
    static const int waited[] = { SIGCHLD, SIGINT, SIGTERM, SIGHUP };
    for (size_t i = 0; i < sizeof waited / sizeof *waited; i++)
        sigaddset(&ranks.signals, waited[i]);
    sigprocmask(SIG_BLOCK, &ranks.signals, &ranks.before);
    enum err err = start_all(&ranks, words);
    if (err)
        tell_all(&ranks, SIGKILL);
    wait_for_all(&ranks);
    return err ? err : outcome(&ranks);
}
