// SPDX-License-Identifier: Apache-2.0
// Starts a command on pseudo-terminals, forwards its output and our signals, and stops it in
// stages: SIGINT, SIGTERM, SIGKILL.

#define _GNU_SOURCE // pseudo-terminals, window sizes

#include "host/child_internal.h"

#include "host/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static const double GRACE_SECONDS = 10;
static const double READER_SECONDS = 600; // that a reader of the output may pause at the end
static const double LINGER_SECONDS = 2;   // that helper processes get to end by themselves
static const double KILL_SECONDS = 5;     // after SIGKILL, before a process is reported as immortal
static const double SCAN_SECONDS = 0.025; // between scans of the process tree

// --- signals to us -----------------------------------------------------------

static const int listened[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH };
enum { LISTENED = sizeof listened / sizeof *listened };
static struct sigaction formerly[LISTENED], former_pipe;
static volatile int wake_fd = -1;

static void on_signal(int number)
{
    int saved = errno;
    char byte = (char)number;
    if (write(wake_fd, &byte, 1) < 0) // full: there is enough to wake up for
        errno = saved;
    errno = saved;
}

// A signal that our parent ignores, as nohup does, stays ignored.
static void listen(void)
{
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    struct sigaction ignore = { .sa_handler = SIG_IGN };
    for (int i = 0; i < LISTENED; i++) {
        sigaction(listened[i], NULL, &formerly[i]);
        if (formerly[i].sa_handler != SIG_IGN)
            sigaction(listened[i], &action, NULL);
    }
    sigaction(SIGPIPE, &ignore, &former_pipe);
}

void child_restore_signals(void)
{
    for (int i = 0; i < LISTENED; i++)
        sigaction(listened[i], &formerly[i], NULL);
    sigaction(SIGPIPE, &former_pipe, NULL);
}

// --- starting ----------------------------------------------------------------

bool child_window(int *rows, int *columns)
{
    struct winsize size;
    for (int fd = STDERR_FILENO; fd >= STDIN_FILENO; fd--)
        if (!ioctl(fd, TIOCGWINSZ, &size) && size.ws_row && size.ws_col) {
            *rows = size.ws_row;
            *columns = size.ws_col;
            return true;
        }
    return false;
}

static void set_window(const struct child *child)
{
    int rows = 24, columns = 160; // wide enough for a progress bar and the text after it
    if (child_window(&rows, &columns) && rows > child->settings.rows_kept + 1)
        rows -= child->settings.rows_kept;
    struct winsize size = { .ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns };
    for (int i = 0; i < 2; i++)
        if (child->inside->masters[i] >= 0)
            ioctl(child->inside->masters[i], TIOCSWINSZ, &size);
}

// A pseudo-terminal that changes no byte: our own terminal, if any, does the processing.
static int open_terminal(int *slave)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    char name[128];
    if (master < 0 || grantpt(master) || unlockpt(master) || ptsname_r(master, name, sizeof name) ||
        (*slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC)) < 0) {
        if (master >= 0)
            close(master);
        return -1;
    }
    struct termios modes;
    if (!tcgetattr(*slave, &modes)) {
        modes.c_oflag &= ~(tcflag_t)OPOST;
        modes.c_lflag &= ~(tcflag_t)ECHO;
        tcsetattr(*slave, TCSANOW, &modes);
    }
    return master;
}

// A pseudo-terminal, or a pipe on systems without them.
static enum err open_channel(int *master, int *slave)
{
    int ends[2];
    *master = open_terminal(slave);
    if (*master < 0) {
        if (pipe2(ends, O_CLOEXEC))
            return fail(ERR_UNAVAILABLE, "cannot create a pipe for the command: %s",
                        strerror(errno));
        *master = ends[0];
        *slave = ends[1];
    }
    fcntl(*master, F_SETFL, fcntl(*master, F_GETFL) | O_NONBLOCK);
    return OK;
}

static bool same_file(int a, int b)
{
    struct stat first, second;
    return a == b || (!fstat(a, &first) && !fstat(b, &second) && first.st_dev == second.st_dev &&
                      first.st_ino == second.st_ino);
}

static enum err open_all(struct child *child, int *slaves)
{
    struct child_internal *in = child->inside;
    bool shared = same_file(child->settings.out, child->settings.err);
    TRY(open_channel(&in->masters[0], &slaves[0]));
    slaves[1] = slaves[0];
    if (!shared)
        TRY(open_channel(&in->masters[1], &slaves[1]));
    if (pipe2(in->wake, O_CLOEXEC | O_NONBLOCK))
        return fail(ERR_UNAVAILABLE, "cannot create a pipe: %s", strerror(errno));
    wake_fd = in->wake[1];
    return OK;
}

enum err child_start(struct child *child, const struct child_settings *settings)
{
    *child = (struct child){ .settings = *settings };
    if (!(child->settings.grace_seconds > 0))
        child->settings.grace_seconds = GRACE_SECONDS;
    if (!(child->settings.reader_seconds > 0))
        child->settings.reader_seconds = READER_SECONDS;
    struct child_internal *in = child->inside = calloc(1, sizeof *in);
    if (!in)
        return fail(ERR_MEMORY, "out of memory; cannot start the command");
    in->masters[0] = in->masters[1] = in->wake[0] = in->wake[1] = in->notes = -1;
    int slaves[2] = { -1, -1 };
    enum err err = open_all(child, slaves);
    if (!err) {
        listen();
        set_window(child);
        err = child_warden_start(child, slaves);
    }
    if (slaves[1] != slaves[0])
        close(slaves[1]);
    if (slaves[0] >= 0)
        close(slaves[0]);
    if (err) {
        child->stage = CHILD_GONE;
        child_end(child);
        return err;
    }
    child->output_seconds = clock_seconds();
    child_relay_start(&in->relays[0], settings->out);
    if (in->masters[1] >= 0)
        child_relay_start(&in->relays[1], settings->err);
    return OK;
}

// --- output ------------------------------------------------------------------

static void remember(struct child_internal *in, struct text bytes)
{
    if (bytes.size > CHILD_TAIL)
        bytes = (struct text){ bytes.at + bytes.size - CHILD_TAIL, CHILD_TAIL };
    size_t first = CHILD_TAIL - in->tail_at < bytes.size ? CHILD_TAIL - in->tail_at : bytes.size;
    memcpy(in->tail + in->tail_at, bytes.at, first);
    memcpy(in->tail, bytes.at + first, bytes.size - first);
    in->tail_at = (in->tail_at + bytes.size) % CHILD_TAIL;
    in->tail_size =
        in->tail_size + bytes.size < CHILD_TAIL ? in->tail_size + bytes.size : CHILD_TAIL;
}

// Reads what is available, up to PIECES · PIECE = 4 MiB; false when there was nothing. One failed
// read is not the end: Linux looks for bytes, then at the other end, and what is written between
// the two should be there on reading again (by its source; not seen to happen).
static bool take_output(struct child *child, int stream)
{
    enum { PIECE = 1 << 16, PIECES = 64 };
    struct child_internal *in = child->inside;
    static char piece[PIECE];
    int *master = &in->masters[stream], pieces = 0;
    bool failed = false;
    while (*master >= 0 && pieces < PIECES) {
        ssize_t size = read(*master, piece, sizeof piece);
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0 && errno == EAGAIN)
            break;
        if (size < 0 && !failed) {
            failed = true;
            continue;
        }
        if (size <= 0) { // every process closed the other end
            close(*master);
            *master = -1;
            break;
        }
        failed = false;
        struct text bytes = { piece, (size_t)size };
        child->output_seconds = clock_seconds();
        child->output_bytes += size;
        child->line_open = piece[size - 1] != '\n';
        if (child->settings.output)
            child->settings.output(child->settings.context, stream, bytes, child->output_seconds);
        if (!child->stopped) // what follows is about being stopped: KeyboardInterrupt
            remember(in, bytes);
        child_relay_put(&in->relays[stream], bytes);
        pieces++;
    }
    return pieces > 0;
}

void child_print(struct child *child, bool to_err, struct text bytes)
{
    struct child_internal *in = child->inside;
    child_relay_put(&in->relays[to_err && in->relays[1].started], bytes);
}

// --- the end of it -----------------------------------------------------------

static void scan(struct child_internal *in)
{
    child_tree_scan(&in->tree, in->warden > 0 ? in->warden : (int)getpid());
}

static void signal_all(struct child *child, int number)
{
    struct child_tree *tree = &child->inside->tree;
    scan(child->inside);
    for (size_t i = 0; i < tree->count; i++)
        kill(tree->pids[i], number);
    if (!tree->count && !child->ended)
        kill(-child->pid, number);
}

static void enter(struct child *child, enum child_stage stage)
{
    double seconds = child->settings.grace_seconds;
    child->stage = stage;
    if (stage == CHILD_LINGERS) {
        seconds = fmin(seconds, LINGER_SECONDS);
    } else if (stage == CHILD_INT) {
        kill(-child->pid, SIGINT);
    } else if (stage == CHILD_TERM) {
        signal_all(child, SIGTERM);
    } else if (stage == CHILD_KILL) {
        signal_all(child, SIGKILL);
        seconds = KILL_SECONDS;
    }
    if (stage >= CHILD_INT && stage <= CHILD_KILL)
        child->needed = stage;
    child->inside->deadline = clock_seconds() + seconds;
    child->inside->scanned_seconds = 0;
}

void child_stop(struct child *child)
{
    child->stopped = true;
    if (child->stage == CHILD_RUNS)
        enter(child, CHILD_INT);
}

static void advance_stage(struct child *child)
{
    struct child_internal *in = child->inside;
    double now = clock_seconds();
    if (child->stage == CHILD_RUNS && child->ended)
        enter(child, CHILD_LINGERS);
    if (child->stage == CHILD_RUNS || now - in->scanned_seconds < SCAN_SECONDS)
        return;
    if (child->stage == CHILD_KILL)
        signal_all(child, SIGKILL); // includes processes forked since
    else
        scan(in);
    in->scanned_seconds = now;
    if (!in->tree.count && child->ended) {
        child->stage = CHILD_GONE;
    } else if (now >= in->deadline && child->stage == CHILD_KILL) {
        child->immortal = in->tree.count ? in->tree.pids[0] : child->pid;
        child->stage = CHILD_GONE;
    } else if (now >= in->deadline) {
        if (child->ended && !child->outlived)
            child->outlived = (int)in->tree.count;
        enter(child, child->stage == CHILD_TERM ? CHILD_KILL : CHILD_TERM);
    }
}

static void interrupt(struct child *child, int number)
{
    child->interrupted = number;
    child->interrupts++;
    if (child->settings.manner == CHILD_FORWARDS && child->interrupts < CHILD_PATIENCE) {
        kill(-child->pid, number);
        return;
    }
    if (child->stopped) // asked again: go to the next stage at once
        child->inside->deadline = 0;
    child_stop(child);
}

static void answer(struct child *child, int number)
{
    switch (number) {
    case SIGWINCH:
        set_window(child);
        kill(-child->pid, SIGWINCH);
        break;
    case SIGTSTP: // the command pauses with us, otherwise its steps would look slow
        kill(-child->pid, SIGSTOP);
        raise(SIGSTOP);
        kill(-child->pid, SIGCONT);
        break;
    default: interrupt(child, number);
    }
}

static void take_signals(struct child *child)
{
    char numbers[64];
    for (ssize_t size; (size = read(child->inside->wake[0], numbers, sizeof numbers)) > 0;)
        for (ssize_t i = 0; i < size; i++)
            if (!child->ended || numbers[i] != SIGWINCH)
                answer(child, numbers[i]);
}

bool child_poll(struct child *child, double seconds)
{
    struct child_internal *in = child->inside;
    if (child->stage != CHILD_RUNS)
        seconds = fmin(seconds, SCAN_SECONDS);
    struct pollfd fds[4] = { { .fd = in->masters[0], .events = POLLIN },
                             { .fd = in->masters[1], .events = POLLIN },
                             { .fd = in->wake[0], .events = POLLIN },
                             { .fd = child->ended ? -1 : in->notes, .events = POLLIN } };
    if (child->stage != CHILD_GONE)
        poll(fds, 4, (int)ceil(1000 * fmax(seconds, 0)));
    take_signals(child);
    child_warden_reap(child);
    if (!in->warden && child->stage < CHILD_KILL)
        enter(child, CHILD_KILL);
    bool got = take_output(child, 0);
    got = take_output(child, 1) || got;
    if (child->stage != CHILD_GONE)
        advance_stage(child);
    return got || child->stage != CHILD_GONE;
}

void child_end(struct child *child)
{
    struct child_internal *in = child->inside;
    if (!in)
        return;
    while (child->stage != CHILD_GONE) {
        child_stop(child);
        child_poll(child, SCAN_SECONDS);
    }
    for (int i = 0; i < 2; i++) {
        if (in->masters[i] >= 0)
            close(in->masters[i]);
        child->unread_bytes +=
            child_relay_end(&in->relays[i], child->settings.reader_seconds, in->wake[0]);
    }
    child_warden_end(in);
    if (in->wake[0] >= 0) {
        child_restore_signals();
        wake_fd = -1;
        close(in->wake[0]);
        close(in->wake[1]);
    }
    child_tree_release(&in->tree);
    static struct child_internal *stuck; // whose threads hang in a write: they use it until exit()
    in->older = stuck;
    if (in->relays[0].ring || in->relays[1].ring)
        stuck = in;
    else
        free(in);
    child->inside = NULL;
}
