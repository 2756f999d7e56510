// SPDX-License-Identifier: Apache-2.0
// print: how a command's output reaches standard output and standard error.
//
// main.c calls print_start() once. It decides what the terminal can show; nothing else asks:
//
//   styled    standard output is a terminal, NO_COLOR is not set, TERM is set and not "dumb"
//   columns   the variable COLUMNS, else the terminal's, at least 60 and at most 200; else 80
//   ASCII     where LC_ALL, LC_CTYPE or LANG, the first that is set, does not name UTF-8
//
//     struct out out = print_out(line->arena);
//     plan_text(plan, line->arena, &out);
//     print_text(&out);
//
// No write is lost silently. A failed write to standard output is remembered, and print_end() makes
// it an error: one line on standard error and exit code 3. A closed pipe ("gpuhours … | head -1")
// ends the program by SIGPIPE without a word, as it ends git.

#pragma once

#include "base/text.h"

enum { PRINT_LEAST_COLUMNS = 60, PRINT_MOST_COLUMNS = 200 };

void print_start(void);
int print_end(enum err err); // the exit code: err, unless only a failed write is wrong

struct out print_out(struct arena *arena); // styled and as wide as standard output

void print_put(const char *format, ...) __attribute__((format(printf, 1, 2))); // a short text
void print_text(const struct out *out); // for people: folded on a terminal, ASCII where needed
void print_data(struct text data);      // JSON, CSV, Markdown: byte for byte
void print_flush(void);

void print_note(const char *format, ...) // "gpuhours: …" on standard error
    __attribute__((format(printf, 1, 2)));
void print_error(const char *text); // on standard error

bool print_redraws(void); // standard error is a terminal on which a line can be drawn again
void print_redraw(const char *line); // draws it over the last one; "" wipes it away

// The text in ASCII where that is needed, else itself; for those who write by themselves.
const char *print_spelled(struct arena *arena, const char *text);

// From here on a reader that closes the pipe does not end the program: print_end() deals with it.
// keep_status: err is a trainer's own exit code; a failed write is reported but never changes it.
void print_survive_closed_pipe(bool keep_status);
