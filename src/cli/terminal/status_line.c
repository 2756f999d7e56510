// SPDX-License-Identifier: Apache-2.0
// Draws the bottom row of the terminal, which the trainer's output does not scroll over.

#include "cli/terminal/status_line.h"

#include "cli/terminal/print.h"
#include "host/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double TERMINAL_SECONDS = 0.25, BUSY_SECONDS = 1, PLAIN_SECONDS = 30;
static const double QUIET_SECONDS = 0.03; // without output before the line is drawn

int status_line_rows(bool quiet)
{
    int rows, columns;
    return !quiet && print_redraws() && child_window(&rows, &columns) && rows > 4;
}

static void put(struct status_line *status, const char *text)
{
    struct arena arena = { 0 };
    child_print(status->child, true, text_of(print_spelled(&arena, text)));
    arena_release(&arena);
}

// Saves the cursor, since setting the region moves it, and makes room below.
static void take_row(struct status_line *status)
{
    char text[64];
    if (!child_window(&status->rows, &status->columns))
        return;
    snprintf(text, sizeof text, "\n\0337\033[1;%dr\0338\033[1A", status->rows - 1);
    put(status, text);
}

struct status_line status_line_start(struct child *child, bool quiet)
{
    struct status_line status = { .child = child, .on = !quiet, .shown_seconds = clock_seconds() };
    status.terminal = status_line_rows(quiet);
    if (status.terminal)
        take_row(&status);
    return status;
}

bool status_line_due(const struct status_line *status)
{
    double now = clock_seconds();
    if (!status->on)
        return false;
    if (!status->terminal)
        return now - status->shown_seconds >= PLAIN_SECONDS;
    bool quiet = now - status->child->output_seconds >= QUIET_SECONDS;
    return now - status->shown_seconds >= (quiet ? TERMINAL_SECONDS : BUSY_SECONDS);
}

void status_line_show(struct status_line *status, const char *text)
{
    char line[1024];
    int rows = status->rows, columns = status->columns;
    if (!status->on)
        return;
    status->shown_seconds = clock_seconds();
    if (!status->terminal) {
        status_line_say(status, text);
        return;
    }
    if (child_window(&rows, &columns) && rows != status->rows)
        take_row(status);
    status->columns = columns;
    snprintf(line, sizeof line, "\0337\033[%d;1H\033[2K%.*s\0338", status->rows,
             (int)text_fit(text_of(text), columns - 1), text);
    put(status, line);
}

void status_line_say(struct status_line *status, const char *text)
{
    char line[1024];
    const char *before = status->terminal ? "\r\033[K" : status->child->line_open ? "\n" : "";
    snprintf(line, sizeof line, "%sgpuhours: %s\n", before, text);
    put(status, line);
    status->child->line_open = false;
}

void status_line_end(struct status_line *status)
{
    char line[64];
    if (!status->terminal)
        return;
    snprintf(line, sizeof line, "\0337\033[r\033[%d;1H\033[2K\0338", status->rows);
    put(status, line);
    status->on = status->terminal = false;
}
