// SPDX-License-Identifier: Apache-2.0
// The warden: a process between this one and the command. It adopts orphans of the command and
// survives when this process is killed; it then stops everything, so that no process keeps a GPU
// busy unnoticed.

#define _GNU_SOURCE // pipe2

#include "host/child_internal.h"

#include "host/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void exec_command(const struct child_settings *settings, const int *slaves, int parent,
                         int report)
{
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL); // only a killed warden ends before the command
    if (getppid() != parent)
        _exit(128 + SIGKILL);
    child_restore_signals();
    signal(SIGINT,
           SIG_DFL); // scripts ignore it in background jobs: the command could not be stopped
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (dup2(slaves[0], STDOUT_FILENO) >= 0 && dup2(slaves[1], STDERR_FILENO) >= 0)
        execvp(settings->command[0], settings->command);
    int problem = errno;
    if (write(report, &problem, sizeof problem) < 0)
        _exit(CHILD_NOT_EXECUTABLE);
    _exit(CHILD_NOT_FOUND);
}

// Our parent waits for the note. Where it cannot be written we end, which our parent sees too.
static void tell(int notes, struct child_note note)
{
    enum { TRIES = 10 };
    for (int i = 0; i < TRIES; i++) {
        if (write(notes, &note, sizeof note) == sizeof note || errno == EPIPE) // EPIPE: it is gone
            return;
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    }
    _exit(1);
}

static void reap(int notes, int command)
{
    struct child_note note = { 0 };
    for (int pid; (pid = (int)waitpid(-1, &note.status, WNOHANG)) > 0;) {
        note.pid = pid;
        if (pid == command)
            tell(notes, note);
    }
}

static size_t signal_tree(struct child_tree *tree, int number)
{
    child_tree_scan(tree, (int)getpid());
    for (size_t i = 0; number && i < tree->count; i++)
        kill(tree->pids[i], number);
    return tree->count;
}

static void end_all(double grace_seconds, int notes, int command)
{
    struct child_tree tree = { 0 };
    double term = clock_seconds() + grace_seconds, last = term + grace_seconds;
    signal_tree(&tree, SIGTERM);
    while (clock_seconds() < last) {
        reap(notes, command);
        if (!signal_tree(&tree, clock_seconds() < term ? 0 : SIGKILL))
            break;
        nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
    }
}

static void do_nothing(int number)
{
    (void)number;
}

// Closes every descriptor whose end another process waits for.
static void close_inherited(const struct child *child, const int *slaves)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3 && null >= 0; fd++)
        dup2(null, fd);
    for (int i = 0; i < 2; i++) {
        close(slaves[i]);
        close(child->inside->masters[i]);
        close(child->inside->wake[i]);
    }
}

static void guard(const struct child *child, const int *slaves, int parent, int report, int notes)
{
    sigset_t all, awaited;
    struct sigaction action = { .sa_handler = do_nothing };
    setsid();
    sigaction(SIGCHLD, &action, NULL);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    int self = (int)getpid(), command = (int)fork();
    if (!command)
        exec_command(&child->settings, slaves, self, report);
    if (command < 0 && write(report, &errno, sizeof errno) < 0)
        _exit(1);
    tell(notes, (struct child_note){ .pid = command });
    close(report);
    close_inherited(child, slaves);
    sigemptyset(&awaited);
    sigaddset(&awaited, SIGCHLD);
    sigaddset(&awaited, SIGTERM);
    while (getppid() == parent) {
        sigwaitinfo(&awaited, NULL);
        reap(notes, command);
    }
    end_all(child->settings.grace_seconds, notes, command);
    _exit(0);
}

static enum err refuse(const char *command, int problem)
{
    if (problem == ENOENT)
        return fail((enum err)CHILD_NOT_FOUND,
                    "%s: command not found; give the trainer's command line after --", command);
    return fail((enum err)CHILD_NOT_EXECUTABLE, "%s: cannot be started: %s", command,
                strerror(problem));
}

static bool read_fully(int fd, void *to, size_t size)
{
    ssize_t got;
    do
        got = read(fd, to, size);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)size;
}

enum err child_warden_start(struct child *child, const int *slaves)
{
    struct child_internal *in = child->inside;
    int report[2], notes[2], problem = 0, parent = (int)getpid();
    if (pipe2(report, O_CLOEXEC))
        return fail(ERR_UNAVAILABLE, "cannot create a pipe: %s", strerror(errno));
    if (pipe2(notes, O_CLOEXEC)) {
        close(report[0]);
        close(report[1]);
        return fail(ERR_UNAVAILABLE, "cannot create a pipe: %s", strerror(errno));
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1); // if the warden is killed, its processes become ours
    in->warden = (int)fork();
    if (!in->warden) {
        close(report[0]);
        close(notes[0]);
        guard(child, slaves, parent, report[1], notes[1]);
    }
    close(report[1]);
    close(notes[1]);
    in->notes = notes[0];
    bool failed = in->warden < 0 || read_fully(report[0], &problem, sizeof problem);
    struct child_note note = { 0 };
    failed = failed || !read_fully(in->notes, &note, sizeof note);
    fcntl(in->notes, F_SETFL, O_NONBLOCK);
    close(report[0]);
    child->pid = note.pid;
    if (in->warden < 0)
        return fail(ERR_UNAVAILABLE, "cannot create a process: %s", strerror(errno));
    return failed ? refuse(child->settings.command[0], problem) : OK;
}

void child_warden_end(struct child_internal *in)
{
    if (in->warden > 0) {
        kill(in->warden, SIGKILL);
        while (waitpid(in->warden, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    while (!in->warden && waitpid(-1, NULL, WNOHANG) > 0)
        ; // processes that we adopted from a killed warden
    if (in->notes >= 0)
        close(in->notes);
}

void child_warden_reap(struct child *child)
{
    struct child_note note;
    ssize_t size = read(child->inside->notes, &note, sizeof note);
    if (child->ended || size < 0) // nothing yet; the next poll asks again
        return;
    if (size != sizeof note) { // the warden was killed, and the command with it
        note.status = SIGKILL;
        kill(child->inside->warden, SIGKILL); // else we might wait for it forever
        while (waitpid(child->inside->warden, NULL, 0) < 0 && errno == EINTR)
            ;
        child->inside->warden = 0;
    }
    child->ended = true;
    child->signal = WIFSIGNALED(note.status) ? WTERMSIG(note.status) : 0;
    child->code = child->signal ? 128 + child->signal : WEXITSTATUS(note.status);
}
