// status_line: one line at the bottom of the terminal while a command of somebody else writes
// above.
//
//     struct status_line status = status_line_start(&child, line->common.quiet);
//     status_line_show(&status, "step 124  8,939 tokens/s ± 1.2 %");
//     status_line_end(&status);
//
// The bottom row is taken out of the terminal's scrolling region, so bars and logs of the command
// do not meet it; start the child with rows_kept = status_line_rows(quiet). It is drawn when the
// command has just not written, since a drawing in the midst of an escape sequence spoils both, or
// else once a second.
// Where standard error is no terminal it is a plain line, at most every half minute.

#pragma once

#include "host/child.h"

struct status_line {
    struct child *child;
    bool on, terminal;
    int rows, columns;
    double shown_seconds;
};

int status_line_rows(bool quiet); // that the command has to do without: 1, or 0
struct status_line status_line_start(struct child *child, bool quiet);
bool status_line_due(const struct status_line *status); // whether a new text would be shown now
void status_line_show(struct status_line *status, const char *text);
void status_line_say(struct status_line *status, const char *text); // a line that stays
void status_line_end(struct status_line *status);
