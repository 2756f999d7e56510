// packing_internal: what the files of packing share: a job, and the bin-packing algorithms.
//
// Each algorithm takes sizes in the order of the trainer and says, placement by placement, which
// item went into which row. Rows are numbered as they are opened, on from rows already there.

#pragma once

#include "core/data/packing.h"

// What stays the same while one plan is made.
struct packing_job {
    struct arena *arena;
    const struct lengths *lengths;
    const struct packing_rule *rule;
    int64_t window, micro_batch, accumulation, ranks, multiple;
    int64_t capacity; // of a row, in tokens as the packer counts them
    uint64_t seed;
    struct packing *out;
};

struct packing_job packing_job(const struct packing_rule *rule, const struct packing_setup *setup);

// Makes job->out's batches and sums from its rows.
void packing_make_batches(const struct packing_job *job);

static inline int64_t packing_rounded(int64_t value, int64_t multiple) // up
{
    return multiple > 1 ? (value + multiple - 1) / multiple * multiple : value;
}

struct packing_bins {
    uint32_t *items, *rows; // placement by placement
    size_t placed;
    uint32_t count; // of rows
};

// What the algorithms keep between chunks; sized once for capacity and the largest chunk.
struct packing_scratch {
    struct arena *arena;
    int64_t capacity;
    size_t most; // items in a chunk
    struct packing_spaces {
        uint64_t *levels[5]; // bit sets, each over the words of the one before
        int depth;
    } spaces;
    uint32_t *heads, *tails; // queues by free space, or stacks by size; linked by links
    uint32_t *links;
    int32_t *tree, *free; // free space of rows
    uint32_t *counts;     // examples in a row
    uint64_t *keys, *spare;
    size_t leaves; // of tree
};

void packing_scratch_init(struct packing_scratch *scratch, struct arena *arena, int64_t capacity,
                          size_t most);

// Items first … first + count - 1 of sizes, each between 1 and the capacity.
void packing_best_fit(struct packing_bins *bins, struct packing_scratch *scratch,
                      const int32_t *sizes, size_t first, size_t count);
void packing_first_fit(struct packing_bins *bins, struct packing_scratch *scratch,
                       const int32_t *sizes, size_t first, size_t count, bool decreasing,
                       int64_t row_items);
void packing_next_fit(struct packing_bins *bins, struct packing_scratch *scratch,
                      const int32_t *sizes, size_t first, size_t count);
void packing_knapsack(struct packing_bins *bins, struct packing_scratch *scratch,
                      const int32_t *sizes, size_t first, size_t count);

// The same for a chunk given as a list; the items of the last row come back in it unless it is the
// last chunk. Returns how many.
size_t packing_volume(struct packing_bins *bins, struct packing_scratch *scratch,
                      const int32_t *sizes, uint32_t *chunk, size_t count, bool last);
