// carry: what a pilot says of a run that differs from it, and how surely.
//
// The pilot's own configuration has a step list too. Measured over predicted tokens/s of that is
// its efficiency, which takes the place of the stack's where a run is like the pilot. Each way in
// which a run differs adds a spread, taken from pairs of measured runs of one source that differ
// in just that. Other lengths go by the pilot's own fit where it has one; other counts of GPUs by
// the communication model; another method or model draws the efficiency back towards the stack's.
// Peak rates of cards play no part.
//
//     struct carry carry;
//     TRY(carry_open(&carry, arena, &source));
//     struct carried carried;
//     carry_to(&carried, &carry, arena, &setup);
//     carried.efficiency …              // in the place of calibration_of()
//
// Formulas: docs/formulas.md, section carry.

#pragma once

#include "core/calibration.h"
#include "core/pilot.h"
#include "core/workload.h"

enum carry_cause {
    CARRY_INTERVAL,      // of the pilot's own mean
    CARRY_RUNS,          // between runs of one configuration
    CARRY_LENGTHS,       // other lengths or tokens per micro-batch
    CARRY_RECOMPUTATION, // more or less of it
    CARRY_GPUS,          // more or fewer data-parallel ones
    CARRY_LAYOUT,        // weights or work divided in another way
    CARRY_PRECISION,     // precision, rank, targets or optimizer
    CARRY_METHOD,
    CARRY_MODEL,
    CARRY_GPU, // another card
    CARRY_CAUSES,
};
extern const char *const carry_names[]; // "the pilot's interval", "other lengths", …

// What the pilot's words are looked up in.
struct carry_source {
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

struct carry {
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

struct carried {
    struct efficiency efficiency;
    double spreads[CARRY_CAUSES]; // deviations of the logarithm of tokens/s, by cause
    double weight;   // of the pilot against the stack's own row: 1 where nothing is far
    bool by_fit;     // lengths went by the pilot's fit
    bool alike;      // nothing but lengths differs, and those by little
    bool same_stack; // else nothing was carried
};

// ERR_INPUT where the pilot names no model, stack or GPU that is known: a rate measured on a CPU
// says nothing of a GPU.
enum err carry_open(struct carry *out, struct arena *arena, const struct carry_source *source);

void carry_to(struct carried *out, const struct carry *carry, struct arena *arena,
              const struct setup *setup);

// Measured over predicted bytes of the pilot; NAN where it measured none.
double carry_memory_ratio(const struct carry *carry);
