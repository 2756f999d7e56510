// steady: the sustained throughput in a series of measured steps, and how well it is known.
//
// Takes steps as a trainer reported them and says how many were warm-up, which were slowed by an
// evaluation, a save or a stall and what that cost, and the rate of the rest with an interval that
// allows for autocorrelation. "Not steady" is an answer, with its reason.
//
//     struct steady steady;
//     steady_measure(&steady, arena, steps, count, &(struct steady_rule){ 0 });
//     if (steady.verdict == STEADY_YES)
//         … steady.tokens_per_s.low, .mid, .high
//
// What the interval is for: tokens over time in the long run of the ordinary steps, those that are
// neither warm-up nor slowed. docs/formulas.md has the method.

#pragma once

#include "base/stats.h"

#include <stdbool.h>
#include <stdint.h>

struct arena;

// What the log said beside a step. More than one may hold.
enum { STEADY_EVALUATED = 1, STEADY_SAVED = 2 };

struct steady_step {
    int64_t number;     // of the last step in it
    int64_t count;      // steps in it: trainers that report every tenth have 10 here; 0 means 1
    double end_seconds; // on whatever clock
    double seconds;     // since the step before ended
    double tokens;      // 0 if unknown: then rates are NAN, and only the seconds are judged
    unsigned flags;
};

enum steady_verdict {
    STEADY_YES,
    STEADY_TOO_SHORT, // too few steps after warm-up to say anything
    STEADY_DRIFTS,    // gets slower or faster throughout
    STEADY_JUMPS,     // changed its level after warm-up
};

enum steady_cause { STEADY_EVALUATION, STEADY_SAVE, STEADY_STALL, STEADY_CAUSES };

struct steady_slow { // what slow steps of one cause cost
    int64_t count;
    double seconds;       // in all
    double extra_seconds; // beyond what ordinary steps would have taken
    double longest_seconds;
};

struct steady_rule { // zero means the default
    double level;    // of the interval: 0.90
    double wanted;   // relative half-width that is good enough: 0.02
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
    double more_steps;         // until half_width is as wanted; 0 if it is; NAN if not foreseeable
    double drift;              // relative change of the step time over the ordinary steps
    struct steady_slow slow[STEADY_CAUSES];
};

void steady_measure(struct steady *out, struct arena *arena, const struct steady_step *steps,
                    size_t count, const struct steady_rule *rule);

const char *steady_cause_name(enum steady_cause cause);       // "evaluation", "save", "stall"
const char *steady_verdict_name(enum steady_verdict verdict); // "steady", "too_short", "drifts"
