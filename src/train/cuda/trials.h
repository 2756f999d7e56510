// SPDX-License-Identifier: Apache-2.0
// trials: times the algorithms that are offered for one product, all at once or a few at a time.
//
//     struct trials trials = trials_of(offers);
//     double left = INFINITY;                            // milliseconds that may be spent
//     while (!trials_go_on(&trials, &left, try_offer, context))
//         …                                              // later: the trials that did not fit
//     int offer = trials_best(&trials);
//
// Each offer is first run a few times; one whose output has other bits than the first one's is out.
// The others are then compared for longer: all of them in a first heat, the best of these in a last
// one. At its power limit a GPU changes its clock only tens of milliseconds after what it runs has
// changed. Until then an offer runs at the clock of the one before it, and its time says only how
// many cycles it takes; but in a step under the power limit, the offer that needs less energy is
// the faster one. So an offer runs until the clock has settled before it is timed. There is neither
// a clock nor a device here: try_offer() runs a trial and says what it took.

#pragma once

#include <stdbool.h>
#include <string.h>

enum { TRIALS_OFFERS = 16, TRIALS_BRIEF = 4 };
enum { TRIALS_FINALISTS = 4, TRIALS_ROUNDS = 2 };     // of the last heat
enum { TRIALS_SETTLE_MS = 60, TRIALS_TIMED_MS = 80 }; // of an offer in a round, at most …
enum { TRIALS_SETTLE = 48, TRIALS_TIMED = 64 };       // … and runs: small products meet no limit
enum { TRIALS_CHECKS = 3 }; // further runs of an offer, that bits are taken of

struct trial {
    int offer;
    int settle;    // runs before those that are timed
    int runs;      // to be timed; 0: there is no trial left
    bool is_first; // of its offer: the bits are compared too
};

struct trial_result {
    bool has_same_bits;  // as the first offer's
    double milliseconds; // of a run
    double spent;        // milliseconds of the whole trial
};

struct trials {
    int offers;               // 0: none
    int done;                 // trials so far
    int order[TRIALS_OFFERS]; // offers that are not out, after the brief trials the fastest first
    int equal;                // how many
    int finalists;            // the first of these; set after the first heat
    double brief[TRIALS_OFFERS]; // milliseconds of a run
    double sum[TRIALS_OFFERS];   // of a run in each round of a heat
};

static inline struct trials trials_of(int offers)
{
    struct trials trials;
    memset(&trials, 0, sizeof trials);
    trials.offers = offers < TRIALS_OFFERS ? offers : (int)TRIALS_OFFERS;
    return trials;
}

// The offers in order[] by ascending milliseconds; of equal ones the first offer stays first.
static inline void trials_sort(struct trials *trials, int count, const double *milliseconds)
{
    for (int i = 1; i < count; i++)
        for (int j = i; j > 0; j--) {
            int *order = trials->order, offer = order[j];
            if (milliseconds[order[j - 1]] <= milliseconds[offer])
                break;
            order[j] = order[j - 1];
            order[j - 1] = offer;
        }
}

// Runs that fill so many milliseconds: as many for all offers as the fastest has time for.
static inline int trials_runs(const struct trials *trials, int milliseconds, int most)
{
    double fits = milliseconds / trials->brief[trials->order[0]] + 1;
    return fits < most ? (int)fits : most;
}

static inline struct trial trials_next(const struct trials *trials)
{
    struct trial next = { trials->done, 0, TRIALS_BRIEF, true };
    int first = trials->done - trials->offers, last = first - trials->equal; // within their heats
    if (first < 0)
        return next;
    bool is_over = trials->equal < 2 || last >= trials->finalists * TRIALS_ROUNDS;
    next.is_first = false;
    next.runs = 0;
    if (!is_over) {
        next.offer = trials->order[last < 0 ? first : last % trials->finalists];
        next.settle = trials_runs(trials, TRIALS_SETTLE_MS, TRIALS_SETTLE);
        next.runs = trials_runs(trials, TRIALS_TIMED_MS, TRIALS_TIMED);
    }
    return next;
}

static inline void trials_note(struct trials *trials, struct trial trial,
                               struct trial_result result)
{
    trials->done++;
    if (trial.is_first) {
        trials->brief[trial.offer] = result.milliseconds;
        if (result.has_same_bits)
            trials->order[trials->equal++] = trial.offer;
        if (trials->done == trials->offers)
            trials_sort(trials, trials->equal, trials->brief);
        return;
    }
    trials->sum[trial.offer] += result.milliseconds;
    if (trials->done != trials->offers + trials->equal)
        return;
    trials_sort(trials, trials->equal, trials->sum);
    trials->finalists = trials->equal < TRIALS_FINALISTS ? trials->equal : (int)TRIALS_FINALISTS;
    memset(trials->sum, 0, sizeof trials->sum);
}

// Milliseconds that a trial will take, as far as they are known; 0 for the first of a product.
static inline double trials_expected(const struct trials *trials, struct trial trial)
{
    int runs = trial.settle + trial.runs + (trial.is_first ? (int)TRIALS_CHECKS : 0);
    return runs * trials->brief[trial.is_first ? 0 : trial.offer];
}

// Runs trials while the next one is expected to fit into what is left; true: there are no more.
static inline bool trials_go_on(struct trials *trials, double *left,
                                struct trial_result (*try_offer)(void *context, struct trial),
                                void *context)
{
    for (struct trial next = trials_next(trials); next.runs; next = trials_next(trials)) {
        if (trials_expected(trials, next) > *left)
            return false;
        struct trial_result result = try_offer(context, next);
        trials_note(trials, next, result);
        *left -= result.spent;
    }
    return true;
}

// The offer to take once there are no more trials; −1: none of them works.
static inline int trials_best(struct trials *trials)
{
    trials_sort(trials, trials->finalists, trials->sum);
    return trials->equal ? trials->order[0] : -1;
}
