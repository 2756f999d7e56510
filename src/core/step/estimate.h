// SPDX-License-Identifier: Apache-2.0
// estimate: one configuration → its step list, byte plan and roofline time.
//
// Plan, search, validate and the page all call this. What a recipe leaves on "auto" is filled in
// from the stack.
//
//     struct estimate estimate;
//     TRY(estimate_make(&estimate, arena, &setup));

#pragma once

#include "core/step/compute.h"
#include "core/step/memory.h"

struct setup {
    const struct model *model;
    const struct stack *stack;
    const struct gpu *gpu;   // NULL: memory only
    const struct node *node; // NULL: the GPU's own links
    struct recipe recipe;
    struct layout layout;
    struct step_batch batch;   // one micro-batch of one data-parallel rank, on average
    struct step_batch worst;   // the one that needs most memory; zero: as batch
    double accumulation;       // micro-batches per optimizer step
    bool fills;                // our engine keeps more in some layers where the card has room
    double lighter_share;      // of the layers, which recompute one level less; as it fills
    bool varied_widths;        // batches are padded to widths that vary at random
    double distinct_widths;    // how many of them a run has
    double alignments;         // how many powers of two, from 1 to 8, divide some of them at most
    struct step_passes passes; // of the objective; zero: supervised tuning
};

struct estimate {
    struct step step;
    struct memory memory;
    struct timing timing; // zero without a GPU, but evaluation_share NAN
    double tokens_per_s;  // by the roofline, before the stack's efficiency; NAN without a GPU
};

enum err estimate_make(struct estimate *out, struct arena *arena, const struct setup *setup);

// Only the byte plan. `plan`, `memory` and the search decide whether a setup fits by this answer.
enum err estimate_memory(struct memory *out, struct arena *arena, const struct setup *setup);

// The recipe and the layout with every choice made that the setup leaves to the stack.
struct recipe estimate_recipe(const struct setup *setup);
struct layout estimate_layout(const struct setup *setup);

// On one GPU PyTorch's FSDP has nothing to shard and does not (NO_SHARD); DeepSpeed fetches all the
// same, as measured runs show, and what is offloaded stays so.
struct layout estimate_unsharded(const struct layout *layout, const struct stack *stack);
