// progress: a bar on standard error while a command reads: how much, how fast, how long still.
//
//     struct progress bar = progress_start("reading", source.inputs.total_bytes,
//     line->common.quiet); progress_show(&bar, block->done_bytes); progress_end(&bar);
//
// It shows only on a terminal, not with --quiet, only after half a second, and at most five times
// a second; progress_end() wipes it away. A total of 0 means that it is not known.

#pragma once

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *what;
    int64_t total_bytes;
    bool on;
    bool shown;
    double began_seconds, last_seconds;
};

struct progress progress_start(const char *what, int64_t total_bytes, bool quiet);
void progress_show(struct progress *progress, int64_t done_bytes);
void progress_end(struct progress *progress);
