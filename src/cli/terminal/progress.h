// SPDX-License-Identifier: Apache-2.0
// progress: a bar on standard error while a command reads: how much, how fast, how long it will
// still take.
//
//     struct progress bar = progress_start("reading", total_bytes, line->common.quiet);
//     progress_show(&bar, block->done_bytes);
//     progress_end(&bar);
//
// It appears after half a second and is drawn at most five times a second; progress_end() wipes it
// away. There is none with --quiet, without a terminal, or with TERM=dumb. A total of 0 is unknown.

#pragma once

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *what;
    int64_t total_bytes;
    bool on;    // may be drawn
    bool shown; // was drawn, and has to be wiped away
    double began_seconds, last_seconds;
};

struct progress progress_start(const char *what, int64_t total_bytes, bool quiet);
void progress_show(struct progress *progress, int64_t done_bytes);
void progress_end(struct progress *progress);
