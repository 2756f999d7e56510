// SPDX-License-Identifier: Apache-2.0
// Decides once what the terminal can show, and writes and checks everything that commands print.

#include "cli/terminal/print.h"

#include "base/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

static struct {
    bool is_terminal, styled, ascii;
    bool wraps, keep_status; // print_survive_closed_pipe()
    int columns;
    int problem; // errno of the first write to standard output that failed
} print = { .columns = 80 };

// --- what the terminal can show ----------------------------------------------

static bool can_move_cursor(void)
{
    const char *term = getenv("TERM");
    return term && *term && strcmp(term, "dumb");
}

static int terminal_columns(int fd)
{
    struct winsize size;
    const char *variable = getenv("COLUMNS");
    long columns = variable ? strtol(variable, NULL, 10) : 0;
    if (columns <= 0 && !ioctl(fd, TIOCGWINSZ, &size))
        columns = size.ws_col;
    if (columns <= 0)
        return 80;
    return columns < PRINT_LEAST_COLUMNS  ? PRINT_LEAST_COLUMNS
           : columns > PRINT_MOST_COLUMNS ? PRINT_MOST_COLUMNS
                                          : (int)columns;
}

static bool names_utf8(const char *locale)
{
    const char *set = strchr(locale, '.');
    return set && (!strncasecmp(set, ".utf-8", 6) || !strncasecmp(set, ".utf8", 5));
}

static bool has_utf8(void)
{
    static const char *const variables[] = { "LC_ALL", "LC_CTYPE", "LANG" };
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *locale = getenv(variables[i]);
        if (locale && *locale)
            return names_utf8(locale);
    }
    return false;
}

// A closed standard stream must not be the number of the next file that is opened. Opened for
// reading, so that writing to it fails.
static void hold_closed_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != fd)
            return;
}

void print_start(void)
{
    const char *no_colour = getenv("NO_COLOR");
    hold_closed_streams();
    signal(SIGPIPE, SIG_DFL); // whoever started us may have ignored it
    print.is_terminal = isatty(STDOUT_FILENO);
    print.styled = print.is_terminal && !(no_colour && *no_colour) && can_move_cursor();
    print.columns = terminal_columns(STDOUT_FILENO);
    print.ascii = !has_utf8();
}

bool print_redraws(void)
{
    return isatty(STDERR_FILENO) && can_move_cursor();
}

struct out print_out(struct arena *arena)
{
    return (struct out){ .arena = arena, .columns = print.columns, .styled = print.styled };
}

// --- standard output ---------------------------------------------------------

static void remember(bool good)
{
    if (!good && !print.problem)
        print.problem = errno ? errno : EIO;
}

void print_data(struct text data)
{
    errno = 0;
    remember(fwrite(data.at, 1, data.size, stdout) == data.size);
}

void print_flush(void)
{
    errno = 0;
    remember(!fflush(stdout));
}

void print_text(const struct out *out)
{
    struct arena arena = { 0 };
    struct out plain = { .arena = &arena }, folded = { .arena = &arena };
    terminal_disarm(&plain, out_view(out), print.styled);
    if (print.is_terminal)
        terminal_fold(&folded, out_view(&plain), print.columns);
    else
        folded = plain;
    print_data(text_of(print_spelled(&arena, out_string(&folded))));
    arena_release(&arena);
}

void print_put(const char *format, ...)
{
    struct arena arena = { 0 };
    struct out out = print_out(&arena);
    va_list args;
    va_start(args, format);
    out_put_args(&out, format, args);
    va_end(args);
    print_text(&out);
    arena_release(&arena);
}

void print_survive_closed_pipe(bool keep_status)
{
    signal(SIGPIPE, SIG_IGN);
    print.wraps = true;
    print.keep_status = keep_status;
}

// As if the write itself had raised it; what is still in the buffer has no reader.
static void end_by_closed_pipe(void)
{
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
}

int print_end(enum err err)
{
    print_flush();
    if (ferror(stdout) && !print.problem)
        print.problem = EIO;
    bool closed = print.problem == EPIPE;
    if (print.problem && !closed)
        print_note("cannot write standard output: %s", strerror(print.problem));
    bool decided = err && (err != ERR_ANSWER || print.wraps); // 1 may be a trainer's own code
    if (decided || print.keep_status || !print.problem)
        return (int)err;
    if (closed)
        end_by_closed_pipe();
    return ERR_INPUT;
}

// --- standard error ----------------------------------------------------------

const char *print_spelled(struct arena *arena, const char *text)
{
    struct out ascii = { .arena = arena };
    if (!print.ascii)
        return text;
    terminal_ascii(&ascii, text_of(text));
    return out_string(&ascii);
}

void print_error(const char *text)
{
    struct arena arena = { 0 };
    fputs(print_spelled(&arena, text), stderr);
    fflush(stderr);
    arena_release(&arena);
}

// One column less than there are: some terminals go to the next line after the last one.
void print_redraw(const char *line)
{
    struct arena arena = { 0 };
    struct text shown = text_of(line);
    shown.size = text_fit(shown, terminal_columns(STDERR_FILENO) - 1);
    print_error(text_format(&arena, "\r%.*s\033[K", TEXT_ARGS(shown)));
    arena_release(&arena);
}

void print_note(const char *format, ...)
{
    struct arena arena = { 0 };
    struct out out = { .arena = &arena }, plain = { .arena = &arena };
    out_put(&out, "gpuhours: ");
    va_list args;
    va_start(args, format);
    out_put_args(&out, format, args);
    va_end(args);
    out_char(&out, '\n');
    terminal_disarm(&plain, out_view(&out), false);
    print_error(out_string(&plain));
    arena_release(&arena);
}
