// SPDX-License-Identifier: Apache-2.0
// blocks: the engine's memory, planned to the byte before it is allocated, one block per kind.
//
// The code that lays out a model's tensors runs twice: once to add up, once to hand out addresses.
//
//     blocks_init(&blocks);
//     place(model, &blocks);                     // addresses are NULL, sizes add up
//     blocks_print(&blocks, &out);               // the plan as a table
//     TRY(blocks_allocate(&blocks, &device));
//     place(model, &blocks);                     // the same calls: now with addresses
//
// A kind of memory is one allocation, filled from its start in the order of the calls:
//
//     weights      │ embedding │░│ norms │ stacked linears of layer 0 │ …
//     gradients    │ adapters of layer 0 │ adapters of layer 1 │ …
//     activations  │ layer 0 │ layer 1 │ … │ last residual │
//     workspace    │ shared by all layers │ scratch of one micro-batch │
//
// Each piece begins at a multiple of BLOCKS_ALIGNMENT (░: the gap before it), which the plan
// includes. Memory is zeroed at allocation and the gaps stay zero. blocks_total() of the
// plan is therefore exactly what is allocated, which is what a memory forecast is compared with.

#pragma once

#include "base/text.h"
#include "train/backend.h"

enum blocks_kind {
    BLOCKS_WEIGHTS,    // frozen
    BLOCKS_TRAINABLES, // masters, and copies in the compute type if that differs
    BLOCKS_GRADIENTS,
    BLOCKS_OPTIMIZER,
    BLOCKS_ACTIVATIONS, // kept from forward to backward
    BLOCKS_WORKSPACE,
    BLOCKS_KINDS,
};
extern const char *const blocks_names[];

enum { BLOCKS_ALIGNMENT = 256, BLOCKS_ENTRIES = 128 };

struct blocks {
    int64_t bytes[BLOCKS_KINDS]; // planned
    int64_t used[BLOCKS_KINDS];  // handed out in this pass
    char *at[BLOCKS_KINDS];      // NULL until allocated
    struct blocks_entry {
        enum blocks_kind kind;
        const char *name;
        int64_t count, bytes;
    } entries[BLOCKS_ENTRIES]; // pieces of the same name together
    int entry_count;
};

void blocks_init(struct blocks *blocks);
void *blocks_take(struct blocks *blocks, enum blocks_kind kind, const char *name, int64_t bytes);
struct tensor blocks_tensor(struct blocks *blocks, enum blocks_kind kind, const char *name,
                            enum dtype dtype, int64_t rows, int64_t columns);

// Lets the next pieces of a kind begin there: where others lie that are not needed at the same
// time, or after them.
void blocks_go_on(struct blocks *blocks, enum blocks_kind kind, int64_t from);

enum err blocks_allocate(struct blocks *blocks, struct device *device); // ends the planning pass
void blocks_release(struct blocks *blocks, struct device *device);
bool blocks_are_full(const struct blocks *blocks); // the second pass took what the first planned
int64_t blocks_total(const struct blocks *blocks);
void blocks_print(const struct blocks *blocks, struct out *out);
