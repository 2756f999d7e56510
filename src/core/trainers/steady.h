// SPDX-License-Identifier: Apache-2.0
// steady: the sustained throughput of a series of measured steps, with its confidence interval.
//
// Takes steps as a trainer reported them; finds the warm-up, the steps slowed by an evaluation, a
// save or a stall, with their cost, and the rate of the rest, with an interval that allows for
// autocorrelation. "Not steady" is a valid answer, with its reason.
//
//     struct steady steady;
//     steady_measure(&steady, arena, steps, count, &(struct steady_rule){ 0 });
//     if (steady.verdict == STEADY_YES)
//         … steady.tokens_per_s.low, .mid, .high
//
// The interval is that of the long-run rate of ordinary steps: neither warm-up nor slowed.
//
//     seconds ┤█
//             │█ ▄            █  evaluation           ordinary steps: the rest,
//             │█ █ ▄ ▂ ▂ ▁ ▂ ▁█▁ ▂ ▁ ▂ ▁ ▂█▂ ▁ ▂      averaged, and tested for drift
//             └─────┘                    └ stall
//              warm-up
//
// docs/formulas.md has the method.

#pragma once

#include "base/stats.h"

#include <stdbool.h>
#include <stdint.h>

struct arena;

enum { STEADY_LEAST = 8 }; // ordinary reports needed for a result
// Events that the log reported with a step. More than one may hold.
enum { STEADY_EVALUATED = 1, STEADY_SAVED = 2 };

struct steady_step {
    int64_t number;     // of the last step in this report
    int64_t count;      // steps in this report, 10 if a trainer reports every tenth; 0 means 1
    double end_seconds; // on any clock
    double seconds;     // since the previous report
    double tokens;      // 0: unknown; then rates are NAN and only the seconds are judged
    double widths;      // expected to be met for the first time in this report; 0: none or unknown
    double share;       // expected tokens, in those of the run's mean step; 0: as many as steps
    unsigned flags;
};

enum steady_verdict {
    STEADY_YES,
    STEADY_TOO_SHORT, // too few steps after warm-up
    STEADY_DRIFTS,    // gets slower or faster throughout
    STEADY_JUMPS,     // changed its level once after warm-up
};

enum steady_cause { STEADY_EVALUATION, STEADY_SAVE, STEADY_STALL, STEADY_CAUSES };

struct steady_slow { // cost of the slow steps of one cause
    int64_t count;
    double seconds;       // total
    double extra_seconds; // beyond the time of ordinary steps
    double longest_seconds;
    double first_seconds; // beyond ordinary steps, of the first
    double later_seconds; // likewise of the others that have no second cause, together
    int64_t later;        // their number
    double squares;       // of the extra seconds of each, summed
    struct steady_late {  // the same of those in the later half of the reports
        double seconds, squares;
    } late;
};

struct steady_rule {            // 0 means the default
    double level;               // confidence level of the interval; default 0.90
    double wanted;              // target of the relative half-width; default 0.02
    struct range width_seconds; // believed cost of the first sight of a width; mid 0: unknown
    struct range step_seconds;  // believed time of a steady step; mid 0: unknown
    double total_steps;         // of the run; 0: unknown
    double total_widths;        // that the run meets
    double widths_error;        // standard deviation of total_widths: batches are drawn at random
    double clock_seconds;       // what the times are rounded to; 0: exact
    bool until_narrow;          // measured until the interval was narrow enough: it is widened
    bool rest;                  // the forecast is of the steps that are left, not of the whole run
};

struct steady {
    enum steady_verdict verdict;
    const char *reason; // a sentence; NULL if steady
    int64_t warmup_steps;
    double warmup_seconds;
    int64_t ordinary_steps, ordinary_reports; // a report may hold several steps
    double ordinary_seconds, ordinary_tokens;
    struct range tokens_per_s; // the rate of ordinary steps and its interval
    struct range step_seconds; // the mean of ordinary steps and its interval
    struct range spread;       // P10, P50, P90 of single ordinary steps' seconds
    double half_width;         // of tokens_per_s, relative
    double more_steps;         // until half_width reaches the target; 0: it has; NAN: unknown
    double drift;              // relative change of the step time over the ordinary steps
    struct steady_slow slow[STEADY_CAUSES];
    // Where the steps' widths are known, everything above is without the cost of first sights.
    double seconds_per_width; // NAN: not fitted
    double widths_seen;       // met for the first time so far
    double seconds_per_token; // NAN: tokens are unknown or hardly vary
    double first_seconds;     // of the warm-up beyond ordinary steps: kernels are loaded
    bool falls;               // the later half still gets faster
};

void steady_measure(struct steady *out, struct arena *arena, const struct steady_step *steps,
                    size_t count, const struct steady_rule *rule);

// The stalls that go on, and come as often in the rest of a run: their seconds so far, their share
// of the time of all steps without it, and its standard deviation, as few were seen. Where widths
// vary, kernels load at the first of a kind: what the later half shows goes on.
struct steady_recurring {
    double seconds, share, error;
};
struct steady_recurring steady_recurring(const struct steady *steady);

// Why a steady rate of so few seconds is not a sustained one, as a clause; NULL: it is one.
const char *steady_too_brief(const struct steady *steady, double at_least, struct arena *arena);

const char *steady_verdict_name(enum steady_verdict verdict); // "steady", "too_short", "drifts"
