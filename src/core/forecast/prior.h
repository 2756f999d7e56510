// SPDX-License-Identifier: Apache-2.0
// prior: what the user's own pilots and runs say about the efficiency of the next configuration.
//
// The catalog's row of a stack says where a new site lies among all sites. Each measured run of the
// ledger, as the logarithm of measured over roofline tokens/s, says where this site lies. It says
// less, the further its configuration is from the one in question:
//
//     struct prior ledger;
//     prior_open(&ledger, arena, &catalog, entries, count);         // newest first
//     struct efficiency mine = prior_at(&ledger, &catalogs, &setup);
//     mine.own …                                                    // how many runs it rests on
//
// Kriging: efficiencies of one site are correlated normal variables. Two configurations at distance
// d, the standard deviation by which such pairs of published runs differ
// (core/forecast/transfer.h), have the correlation exp(−d²/2τ²), τ being the deviation between
// sites (with a cap, so that a catalog that knows little does not make distant runs count):
//
//     correlation 1 ┤●  the same configuration
//                   │ ╲  ● rows twice as long, or another number of GPUs: 0.9
//                   │  ╲     ● another GPU: 0.6
//                   │   ╲__     ● another method: 0.4
//               0.1 ┤┄┄┄┄┄┄╲┄┄┄┄┄┄┄┄● 8B against 70B: too far, not used
//                   └────────────────── distance
//
// One run of the very configuration moves the middle most of the way to itself: what is left is how
// its repetitions differ from machine to machine. Far ones move it little.
// Formulas: docs/formulas.md, section ledger.

#pragma once

#include "core/forecast/transfer.h"
#include "core/measured/history.h"

// A measured run: its configuration as far as a ledger knows it, and what came out.
struct prior_run {
    int64_t id; // in the ledger
    const char *stack;
    struct transfer_place place; // its method is -1 where it is not known
    double parameters;           // of the model; NAN: not in the catalog
    double log_ratio;            // of measured over roofline tokens/s
};

struct prior {
    struct prior_run *runs;
    size_t count;
};

// Takes the measurements among the entries, newest first; each configuration counts once, with its
// newest measurement. Rates above the peak of their GPUs are left out.
void prior_open(struct prior *out, struct arena *arena, const struct catalog *catalog,
                const struct history_entry *entries, size_t count);

// The configuration of a setup, as one to forecast for.
struct prior_run prior_target(const struct setup *setup);

// The catalog's row of the setup's stack, updated by the runs near the setup; that row itself where
// no run is near. efficiency.own is how many were.
struct efficiency prior_at(const struct prior *prior, const struct efficiency *catalogs,
                           const struct setup *setup);

// The same for a configuration by name; the target's log_ratio is not read. Runs of other stacks
// say nothing.
struct efficiency prior_update(const struct efficiency *catalogs, const struct prior_run *target,
                               const struct prior_run *runs, size_t count);

// The run of the target's stack that counts most; NULL: there is none.
const struct prior_run *prior_nearest(const struct prior *prior, const struct prior_run *target);

// Correlation of two configurations of a stack whose sites deviate by the square root of variance.
double prior_correlation(const struct prior_run *a, const struct prior_run *b, double variance);

// In the header for the tests, which compute by hand.
#define PRIOR_SCATTER 0.07 // deviation of a configuration's runs, over the machines of one kind
#define PRIOR_BETWEEN \
    0.18 // deviation between sites where much was measured: what distance is judged by
#define PRIOR_LEAST 0.02 // spread that is left however many runs there are, as of a pilot
#define PRIOR_WORTH 4.0  // how many runs' worth of weight that scatter has against the user's own
#define PRIOR_SIZE 0.14  // deviation per doubling of the model's size
#define PRIOR_FAR 0.1    // runs with a lower correlation are not used
#define PRIOR_RUNS 32    // most runs used, the nearest
