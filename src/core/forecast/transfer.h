// transfer: what a pilot says of a run that differs from it, and how surely.
//
// The pilot's own configuration has a step list too. Measured over predicted tokens/s of that is
// its efficiency, which takes the place of the stack's where a run is like the pilot. Each way in
// which a run differs adds a spread, taken from pairs of measured runs of one source that differ
// in just that. Other lengths go by the pilot's own fit where it has one; other counts of GPUs by
// the communication model; another method or model draws the efficiency back towards the stack's.
// Peak rates of cards play no part.
//
//     struct transfer carry;
//     TRY(transfer_open(&carry, arena, &source));
//     struct transferred carried;
//     transfer_to(&carried, &carry, arena, &setup);
//     carried.efficiency …              // in the place of calibration_of()
//
// Formulas: docs/formulas.md, section transfer.

#pragma once

#include "core/measured/calibration.h"
#include "core/measured/pilot.h"
#include "core/forecast/workload.h"

enum transfer_cause {
    TRANSFER_INTERVAL,      // of the pilot's own mean
    TRANSFER_RUNS,          // between runs of one configuration
    TRANSFER_LENGTHS,       // other lengths or tokens per micro-batch
    TRANSFER_RECOMPUTATION, // more or less of it
    TRANSFER_GPUS,          // more or fewer data-parallel ones
    TRANSFER_LAYOUT,        // weights or work divided in another way
    TRANSFER_PRECISION,     // precision, rank, targets or optimizer
    TRANSFER_METHOD,
    TRANSFER_MODEL,
    TRANSFER_GPU, // another card
    TRANSFER_CAUSES,
};
extern const char *const transfer_names[]; // "the pilot's interval", "other lengths", …

// What the pilot's words are looked up in.
struct transfer_source {
    const struct pilot *pilot;
    const char *name; // of its file, for sentences
    const struct catalog *catalog;
    const struct stack *stacks;
    size_t stack_count;
    const struct efficiency *efficiencies;
    size_t efficiency_count;
    const struct model *model; // of the plan, where it may be none of the catalog
    const struct stack *stack; // likewise
    const struct workload_rule
        *rule; // of the plan: for what the pilot did not count of its batches
};

struct transfer {
    const struct pilot *pilot;
    const char *name;
    struct node node;
    struct setup setup;   // what ran
    struct recipe recipe; // of it, nothing on auto
    double roofline_tokens_per_s;
    double predicted_bytes;  // of the fullest GPU
    struct efficiency prior; // of its stack
    double log_measured;     // of measured over roofline tokens/s
    double log_interval;     // deviation of that
};

struct transferred {
    struct efficiency efficiency;
    double spreads[TRANSFER_CAUSES]; // deviations of the logarithm of tokens/s, by cause
    double weight;   // of the pilot against the stack's own row: 1 where nothing is far
    bool by_fit;     // lengths went by the pilot's fit
    bool alike;      // nothing but lengths differs, and those by little
    bool same_stack; // else nothing was carried
};

// ERR_INPUT where the pilot names no model, stack or GPU that is known: a rate measured on a CPU
// says nothing of a GPU.
enum err transfer_open(struct transfer *out, struct arena *arena,
                       const struct transfer_source *source);

void transfer_to(struct transferred *out, const struct transfer *carry, struct arena *arena,
                 const struct setup *setup);

// Standard deviation of the logarithm of measured over predicted tokens/s between two runs of one
// source that differ in one cause: by so many doublings, or by 1 where they differ at all.
double transfer_difference(enum transfer_cause cause, double distance);

// Measured over predicted bytes of the pilot; NAN where it measured none.
double transfer_memory_ratio(const struct transfer *carry);
