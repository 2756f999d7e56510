// SPDX-License-Identifier: Apache-2.0
// transient: separates the cost of widths that are met for the first time from the steady step.
//
// A trainer that pads batches meets new widths all the time at first and hardly any later. Each one
// costs kernel selection, an attention plan and memory, so that the first minute is slower than
// the rest of the run. How many new widths each step brings is known from the simulated batches:
//
//     seconds = a · steps + b · tokens + c · new widths          a, b, c ≥ 0
//
//     seconds ┤█▆▅▄▄▃▃▃▂▃▂▂▂▂▂▂▂▂     c · new widths, which a longer run has few of
//             │▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓     a + b · tokens: what every step of the run takes
//             └──────────────────
//
//     struct transient fit;
//     transient_fit(&fit, arena, items, count, &(struct transient_prior){ … });
//     items[i].seconds - items[i].width_seconds …

#pragma once

#include "base/stats.h"

#include <stdbool.h>

struct arena;

struct transient_item {
    double seconds, steps, tokens, widths; // tokens 0: unknown
    bool left_out;                         // an evaluation or a save
    // set by the fit
    double width_seconds; // of the new widths in these seconds
    double stall;         // probability that they are longer than steps and widths explain
};

struct transient {
    double seconds_per_step;  // beside those of its tokens
    double seconds_per_token; // NAN: tokens hardly vary
    double seconds_per_width; // NAN: no width is new, or too few items
    double width_error;       // standard deviation of seconds_per_width
    double blur;   // × the error of the steady step, because which reports met widths is guessed
    double widths; // that were new, in all items
};

// What is believed before anything is measured, P10 to P90; mid 0: nothing.
struct transient_prior {
    struct range width_seconds; // of the first sight of a width
    struct range step_seconds; // of a steady step: tells both apart where every step met new widths
    double clock_seconds;      // what the times of reports are rounded to; 0: exact
};

void transient_fit(struct transient *out, struct arena *arena, struct transient_item *items,
                   size_t count, const struct transient_prior *prior);
