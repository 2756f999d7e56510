// SPDX-License-Identifier: Apache-2.0
// packing_internal: shared by the files of packing: a job, and the bin-packing algorithms.
//
// Each algorithm takes sizes in the trainer's order and appends placements: which item goes into
// which row. Rows are numbered in the order they are opened, after those already there.

#pragma once

#include "core/data/packing.h"

// The fixed inputs of one plan.
struct packing_job {
    struct arena *arena;
    const struct lengths *lengths;
    const struct packing_rule *rule;
    int64_t window, micro_batch, accumulation, ranks, multiple;
    int64_t capacity; // of a row, in tokens as counted by the packer
    uint64_t seed;
    const uint32_t *order; // NULL: not known yet
    struct packing *out;
};

struct packing_job packing_job(const struct packing_rule *rule, const struct packing_setup *setup);

enum err packing_check(const struct packing_setup *setup, const struct lengths *lengths);
size_t packing_mega(size_t count, int64_t batch); // examples that are grouped together

// Computes the batches and sums of job->out from its rows.
void packing_make_batches(const struct packing_job *job);

static inline int64_t packing_rounded(int64_t value, int64_t multiple) // up
{
    return multiple > 1 ? (value + multiple - 1) / multiple * multiple : value;
}

struct packing_bins {
    uint32_t *items, *rows; // placement i puts items[i] into rows[i]
    size_t placed;
    uint32_t count; // of rows
};

// Scratch of the algorithms, reused from chunk to chunk; sized for the capacity and largest chunk.
struct packing_scratch {
    struct arena *arena;
    int64_t capacity;
    size_t most; // items in a chunk
    struct packing_spaces {
        uint64_t *levels[5]; // bit i of level k + 1: word i of level k is not 0
        int depth;
    } spaces;
    uint32_t *heads, *tails; // queues of rows by free space, or stacks of items by size
    uint32_t *links;         // next row or item in its queue or stack
    int32_t *tree, *free;    // free space of rows
    uint32_t *counts;        // examples in a row
    uint64_t *keys, *spare;
    size_t leaves; // of tree
};

void packing_scratch_init(struct packing_scratch *scratch, struct arena *arena, int64_t capacity,
                          size_t most);

// Packs items first … first + count - 1 of sizes, each between 1 and the capacity, by the method of
// the rule: any but VOLUME and WRAPPED.
void packing_place(struct packing_bins *bins, struct packing_scratch *scratch,
                   const struct packing_rule *rule, const int32_t *sizes, size_t first,
                   size_t count);

void packing_sort_falling(struct packing_scratch *scratch, int32_t *sizes, size_t count);

// Packs a chunk given as a list of items. Unless this is the last chunk, the items of its last row
// are not placed but returned at the start of the list. Returns their number.
size_t packing_volume(struct packing_bins *bins, struct packing_scratch *scratch,
                      const int32_t *sizes, uint32_t *chunk, size_t count, bool last);
