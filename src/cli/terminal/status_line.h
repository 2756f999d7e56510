// SPDX-License-Identifier: Apache-2.0
// status_line: one line at the bottom of the terminal while a trainer writes above it.
//
//     struct status_line status = status_line_start(&child, line->common.quiet);
//     status_line_show(&status, "step 124  8,939 tokens/s ± 1.2 %");
//     status_line_end(&status);
//
// The bottom row is taken out of the terminal's scrolling region, so that bars and logs of the
// trainer do not overwrite it; start the child with rows_kept = status_line_rows(quiet). It is
// drawn while the trainer is not writing, since drawing in the middle of an escape sequence spoils
// both, or else once a second.
// Without a terminal, or with TERM=dumb, it is a plain line, at most every half minute.

#pragma once

#include "host/child.h"

struct status_line {
    struct child *child;
    bool on, terminal;
    int rows, columns;
    double shown_seconds;
};

int status_line_rows(bool quiet); // rows that the trainer cannot use: 1, or 0
struct status_line status_line_start(struct child *child, bool quiet);
bool status_line_due(const struct status_line *status); // whether a new text would be shown now
void status_line_show(struct status_line *status, const char *text);
void status_line_say(struct status_line *status, const char *text); // a line that stays
void status_line_end(struct status_line *status);
