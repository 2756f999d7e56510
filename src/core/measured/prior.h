// prior: what one's own past measurements say about the efficiency of the next run.
//
// The catalog's prior says where a new site lies among all sites. Pilots and finished runs of like
// configurations, as logarithms of measured over roofline tokens/s, say where this one lies:
//
//     struct efficiency mine = prior_update(&catalogs, log_ratios, count, 0.01);
//
// A normal site effect with a normal scatter of runs around it; the scatter is itself learned, from
// what is usual within a source and from the ratios. Few ratios move the middle little, and the
// spread narrows with their number. Formulas: docs/formulas.md, section ledger.

#pragma once

#include "core/measured/calibration.h"
#include "core/measured/history.h"

// least_spread: what a pilot of the very same configuration would leave.
struct efficiency prior_update(const struct efficiency *catalogs, const double *log_ratios,
                               size_t count, double least_spread);

// Each stack's row by the pilots and runs of that stack with that GPU and method, newest first.
void prior_learn(struct efficiency *rows, size_t row_count, const struct history_entry *entries,
                 size_t count, const char *gpu, const char *method);

// Fitted on data/runs.csv; in the header for the tests, which compute by hand.
#define PRIOR_SCATTER 0.10 // usual deviation of the ratios of one source, stack, GPU and method
#define PRIOR_LEAST 0.02   // spread that is left however many there are, as of a pilot
#define PRIOR_WORTH 2.0    // how many ratios' worth of weight that figure has against one's own
