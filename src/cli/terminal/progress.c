// SPDX-License-Identifier: Apache-2.0
// Draws the bar of a long read on standard error.

#include "cli/terminal/progress.h"

#include "base/text.h"
#include "cli/terminal/print.h"
#include "host/clock.h"

static const double QUIET_SECONDS = 0.5; // before the bar appears
static const double STEP_SECONDS = 0.2;  // between two drawings

enum { BAR_CELLS = 16 }; // the whole line fits 80 columns

struct progress progress_start(const char *what, int64_t total_bytes, bool quiet)
{
    double now = clock_seconds();
    return (struct progress){
        .what = what,
        .total_bytes = total_bytes,
        .on = !quiet && print_redraws(),
        .began_seconds = now,
        .last_seconds = now + QUIET_SECONDS - STEP_SECONDS,
    };
}

static void put_bar(struct out *out, double share)
{
    int full = (int)(share * BAR_CELLS);
    for (int i = 0; i < BAR_CELLS; i++)
        out_put(out, "%s", i < full ? "█" : "░");
}

void progress_show(struct progress *p, int64_t done_bytes)
{
    if (!p->on)
        return;
    double now = clock_seconds();
    if (now - p->last_seconds < STEP_SECONDS)
        return;
    p->last_seconds = now;
    p->shown = true;
    struct arena arena = { 0 };
    struct out line = { .arena = &arena };
    double rate = (double)done_bytes / (now - p->began_seconds);
    out_put(&line, "%s ", p->what);
    if (p->total_bytes > 0) {
        double share = (double)done_bytes / (double)p->total_bytes;
        share = share > 1 ? 1 : share;
        put_bar(&line, share);
        out_put(&line, " %3.0f %% of %s", 100 * share, text_bytes(&arena, (double)p->total_bytes));
    } else {
        out_put(&line, "%s", text_bytes(&arena, (double)done_bytes));
    }
    out_put(&line, ", %s/s", text_bytes(&arena, rate));
    if (p->total_bytes > done_bytes && rate > 0)
        out_put(&line, ", %s left",
                text_seconds(&arena, (double)(p->total_bytes - done_bytes) / rate));
    print_redraw(out_string(&line));
    arena_release(&arena);
}

void progress_end(struct progress *p)
{
    if (p->shown)
        print_redraw("");
    p->on = p->shown = false;
}
