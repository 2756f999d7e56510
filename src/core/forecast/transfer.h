// SPDX-License-Identifier: Apache-2.0
// transfer: applies a pilot's measurement to a run that differs from it, with its uncertainty.
//
// The step list also predicts the pilot's own configuration. The ratio of measured to predicted
// tokens/s there is the pilot's efficiency, and it replaces the stack's for a run like the pilot.
// Each difference between pilot and run adds a spread, taken from pairs of measured runs of one
// source that differ in only that. Other lengths are scaled by the pilot's own fit if it has one,
// another number of GPUs by the communication model; another method or model pulls the efficiency
// back towards the stack's. Datasheet peaks are never used to scale.
//
//      measured tokens/s ──┐
//                          ├─ ratio = efficiency ──► × predicted tokens/s of the run
//     predicted tokens/s ──┘                           ± one spread per difference
//
//     struct transfer transfer;
//     TRY(transfer_open(&transfer, arena, &source));
//     struct transferred to;
//     transfer_to(&to, &transfer, arena, &setup);
//     to.efficiency …              // in the place of calibration_at()
//
// Formulas: docs/formulas.md, section transfer.

#pragma once

#include "core/measured/calibration.h"
#include "core/measured/pilot.h"
#include "core/forecast/workload.h"

enum transfer_cause {
    TRANSFER_INTERVAL,      // confidence interval of the pilot's mean
    TRANSFER_RUNS,          // between runs of one configuration
    TRANSFER_LENGTHS,       // other lengths or tokens per micro-batch
    TRANSFER_RECOMPUTATION, // another level of activation checkpointing
    TRANSFER_GPUS,          // more or fewer GPUs
    TRANSFER_LAYOUT,        // weights or work split in another way
    TRANSFER_PRECISION,     // precision, rank, targets or optimizer
    TRANSFER_METHOD,
    TRANSFER_MODEL,
    TRANSFER_GPU, // another card
    TRANSFER_CAUSES,
};
extern const char *const transfer_names[]; // "the pilot's interval", "other lengths", …

#define TRANSFER_CONTRADICTS 3.0 // deviations

// A pilot, and the tables in which its names are looked up.
struct transfer_source {
    const struct pilot *pilot;
    const char *name; // of its file, for error messages
    const struct catalog *catalog;
    const struct stack *stacks;
    size_t stack_count;
    const struct calibration *calibration;
    const struct model *model;        // of the plan, which may not be in the catalog
    const struct stack *stack;        // likewise
    const struct workload_rule *rule; // of the plan: fills in what the pilot did not count
    struct step_passes passes;        // of the objective, without sampling
};

// A configuration, as far as distances between configurations go.
struct transfer_place {
    const char *model, *gpu;
    struct recipe recipe; // with every "auto" resolved, where that is known
    struct layout layout;
    double tokens, attended; // of a micro-batch: its tokens, and Σl² over them; NAN: not known
};

struct transfer {
    const struct pilot *pilot;
    const char *name;
    struct node node;
    struct setup setup;   // what ran
    struct recipe recipe; // of the setup, with every "auto" resolved
    double roofline_tokens_per_s;
    double host_share;      // by how many percent a step gets slower if the host does by one
    double predicted_bytes; // of the GPU with the highest peak
    const struct calibration *calibration;
    struct efficiency prior; // what was expected of it
    double log_measured;     // logarithm of measured over roofline tokens/s
    double log_interval;     // standard deviation of log_measured
};

struct transferred {
    struct efficiency efficiency;
    double spreads[TRANSFER_CAUSES]; // standard deviation of ln(tokens/s), by cause
    double weight;        // of the pilot against the stack's own row: 1 if no far cause differs
    double contradiction; // measured against the stack's own efficiency, in deviations of both
    bool by_fit;          // lengths were scaled by the pilot's fit
    bool alike;           // only the lengths differ, and little
    bool same_stack;      // false: the pilot tells nothing about this run
};

// ERR_INPUT if the pilot names no known model, stack or GPU, was measured on a CPU, or is faster
// than its GPUs can be.
enum err transfer_open(struct transfer *out, struct arena *arena,
                       const struct transfer_source *source);

void transfer_to(struct transferred *out, const struct transfer *transfer, struct arena *arena,
                 const struct setup *setup);

struct transfer_place transfer_place(const struct setup *setup);

// The layout that a configuration names, on so many GPUs; ERR_INPUT if it cannot be.
enum err transfer_layout(struct layout *out, const struct pilot_configuration *configuration,
                         int64_t gpus);

// Standard deviation of the logarithm of measured over predicted tokens/s between two runs of one
// source and stack at these places, by cause.
void transfer_differences(double out[TRANSFER_CAUSES], const struct transfer_place *a,
                          const struct transfer_place *b);

// Measured over predicted bytes of the pilot; NAN if it measured none.
double transfer_memory_ratio(const struct transfer *transfer);
