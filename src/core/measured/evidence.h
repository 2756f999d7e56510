// SPDX-License-Identifier: Apache-2.0
// evidence: how wide a forecast's range must be, given what was measured for similar
// configurations.
//
// A place says what runs: kind of model, stack, GPU, method, precision, numbers. A forecast for a
// place of which nothing was measured has the widest range. Each level that it shares with measured
// runs narrows the range, as far as forecasts were right about those runs, and never widens it:
//
//     ln spread = ln widest − Σ narrowing(level)       over the levels of the place
//     narrowing ≥ 0, and 0 for a level that nobody has measured
//
//     widest  ├──────────────────────────────────────────┤   nothing like it was measured
//     dense        ├────────────────────────────────┤        dense models were, by many sources
//     full            ├──────────────────────────┤           so were whole models trained,
//     h200-sxm           ├────────────────────┤              and so on
//
// So the unmeasured is never narrower than the measured, and the less a place shares with measured
// runs, the wider it is. What dense models showed narrows dense models only. A source is little
// more than one opinion, however many runs it published. The range's ends are those of Student's t,
// because measured runs have such tails.
//
//     struct evidence evidence;
//     evidence_fit(&evidence, arena, rows, count, NULL);
//     double spread = evidence_spread(&evidence, &place); // P10 and P90 are ∓ STATS_P90 spreads
//
// Rows hold the errors of any forecast, of speed or of memory, as logarithms of measured over
// forecast. Formulas: docs/formulas.md, section evidence.

#pragma once

#include "base/field.h"

enum evidence_factor {
    EVIDENCE_KIND, // of the model: "dense", "moe"; "vision" where there are images
    EVIDENCE_FAMILY,
    EVIDENCE_STACK,
    EVIDENCE_VENDOR,
    EVIDENCE_GENERATION,
    EVIDENCE_GPU,
    EVIDENCE_METHOD,
    EVIDENCE_PRECISION,
    EVIDENCE_STACK_VENDOR, // both together
    EVIDENCE_STACK_METHOD,
    EVIDENCE_GPUS, // a number lies between two levels, and has its share of both
    EVIDENCE_CONTEXT,
    EVIDENCE_BATCH, // tokens of a micro-batch
    EVIDENCE_FACTORS,
};
extern const char *const evidence_factors[]; // "kind", …, "batch", "widest", NULL

#define EVIDENCE_NAMES EVIDENCE_STACK_VENDOR // the factors before it have a name of their own

struct place {
    const char *names[EVIDENCE_NAMES]; // NULL: not known
    double gpus, context, batch_tokens;
};

// One level of a factor among models of one kind, a row of data/evidence.csv. The row of the factor
// "widest" holds ln widest, with its sign turned, as its narrowing.
struct evidence_level {
    const char *kind;
    int factor;
    const char *level; // "h200-sxm"; of a number, "4096"
    const char *with;  // the other name where the factor has two
    double narrowing;
    int64_t runs, sources;
    double number; // the level as a number, where it is one; no column
};

extern const struct field evidence_fields[];

struct evidence {
    double log_widest;
    struct evidence_level *levels;
    size_t count;
};

// One run that was measured and forecast.
struct evidence_row {
    struct place place;
    struct text source;
    double error;       // ln(measured / forecast), forecast without anything from its source
    double step_spread; // what the step list is unsure of itself; the place's spread is the rest
    bool is_strange;    // few have measured its card: what is inside there says little of others
    bool left_out;      // it does not count
};

// The fit climbs to its maximum, sooner from a similar fit, where there is one.
void evidence_fit(struct evidence *out, struct arena *arena, const struct evidence_row *rows,
                  size_t count, const struct evidence *similar);

enum err evidence_read(struct evidence *out, struct arena *arena, struct text csv,
                       const char *name);
void evidence_write(const struct evidence *evidence, struct out *out);

// Half the 80 % range of ln(measured / forecast), over STATS_P90.
double evidence_spread(const struct evidence *evidence, const struct place *place);

// The place's level of a factor, of a number the nearer one; NULL where nobody has measured it.
const struct evidence_level *evidence_level(const struct evidence *evidence,
                                            const struct place *place, enum evidence_factor factor);

// Independent sources of a level's runs, of the kind of model that has most of them.
int64_t evidence_sources(const struct evidence *evidence, enum evidence_factor factor,
                         const char *level);

// Turns a standard normal variable into one with the tails of measured runs and the same P10, P50
// and P90: Student's t with four degrees of freedom, rescaled.
double evidence_tail(double normal);
