// SPDX-License-Identifier: Apache-2.0
// The bin-packing algorithms of the trainers. Each gives exactly the trainer's result; all but the
// last take near-linear time.
//
//   next fit        keeps one open row; opens another when the item does not fit
//   first fit       the first row with room, found in a tree of maxima:
//
//                        tree[1]      6         an inner node is the maximum of its children
//                                  /     \    .
//                                6        4
//                              /   \    /   \ .
//                   rows      2     6  4    -1  a leaf is a row's free space; -1: full or not open
//
//                   An item of size 4 goes left wherever the left child has at least 4: row 1.
//   best fit        the row with the least free space that is enough. Rows with the same free space
//                   wait in a queue; a set of bits says which queues are not empty:
//
//                        level 1   1 0 0 1    bit i: word i of level 0 is not 0
//                        level 0   word 0 .. word 3, bit s: a row with free space s waits
//
//                   "The next space at least s" takes one step per level, of 64 bits each.
//   knapsack        the same set over the sizes of waiting items: fills one row at a time, always
//                   with the largest item that still fits
//   constant volume decreasing, a linear search for the fullest row with room (chunks are small)
//
// Invariants: every item is placed exactly once, and no row exceeds the capacity.

#include "core/data/packing_internal.h"

#include <assert.h>
#include <string.h>

enum { NONE = UINT32_MAX };

// --- sets of sizes -----------------------------------------------------------

static void set_add(struct packing_spaces *set, int64_t value)
{
    for (int level = 0; level < set->depth; level++, value >>= 6)
        set->levels[level][value >> 6] |= (uint64_t)1 << (value & 63);
}

static void set_remove(struct packing_spaces *set, int64_t value)
{
    for (int level = 0; level < set->depth; level++, value >>= 6) {
        uint64_t *word = &set->levels[level][value >> 6];
        *word &= ~((uint64_t)1 << (value & 63));
        if (*word)
            return;
    }
}

static bool set_has(const struct packing_spaces *set, int64_t value)
{
    return set->levels[0][value >> 6] >> (value & 63) & 1;
}

static int lowest_bit(uint64_t word)
{
    return __builtin_ctzll(word);
}

static int highest_bit(uint64_t word)
{
    return 63 - __builtin_clzll(word);
}

// The smallest member that is at least value, or -1.
static int64_t set_at_least(const struct packing_spaces *set, int64_t value)
{
    for (int level = 0; level < set->depth; level++) {
        uint64_t word = set->levels[level][value >> 6] & ~(uint64_t)0 << (value & 63);
        if (word) {
            value = (value & ~(int64_t)63) | lowest_bit(word);
            while (level-- > 0)
                value = value << 6 | lowest_bit(set->levels[level][value]);
            return value;
        }
        value = (value >> 6) + 1; // every level has one spare word for this
    }
    return -1;
}

// The largest member that is at most value, or -1.
static int64_t set_at_most(const struct packing_spaces *set, int64_t value)
{
    for (int level = 0; level < set->depth; level++) {
        uint64_t word = set->levels[level][value >> 6] & ~(uint64_t)0 >> (63 - (value & 63));
        if (word) {
            value = (value & ~(int64_t)63) | highest_bit(word);
            while (level-- > 0)
                value = value << 6 | highest_bit(set->levels[level][value]);
            return value;
        }
        value = (value >> 6) - 1;
        if (value < 0)
            return -1;
    }
    return -1;
}

static void set_init(struct packing_spaces *set, struct arena *arena, int64_t largest)
{
    set->depth = 0;
    do {
        set->levels[set->depth++] = ARENA_NEW(arena, uint64_t, (largest >> 6) + 2);
        largest = (largest >> 6) + 1;
    } while (largest > 1 && set->depth < 5);
}

void packing_scratch_init(struct packing_scratch *scratch, struct arena *arena, int64_t capacity,
                          size_t most)
{
    *scratch = (struct packing_scratch){ .arena = arena, .capacity = capacity, .most = most };
    scratch->keys = ARENA_NEW(arena, uint64_t, most);
    scratch->spare = ARENA_NEW(arena, uint64_t, most);
    scratch->links = ARENA_NEW(arena, uint32_t, most);
}

static void queues_init(struct packing_scratch *scratch)
{
    if (scratch->heads)
        return;
    set_init(&scratch->spaces, scratch->arena, scratch->capacity);
    scratch->heads = ARENA_NEW(scratch->arena, uint32_t, scratch->capacity + 1);
    scratch->tails = ARENA_NEW(scratch->arena, uint32_t, scratch->capacity + 1);
}

static void place(struct packing_bins *bins, uint32_t item, uint32_t row)
{
    bins->items[bins->placed] = item;
    bins->rows[bins->placed++] = row;
}

// --- sorting -----------------------------------------------------------------

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

// Sorts scratch->keys by their upper halves (radix sort, stable); returns the sorted array, which
// is keys or spare.
static const uint64_t *sort_keys(struct packing_scratch *scratch, size_t count)
{
    uint64_t *from = scratch->keys, *to = scratch->spare;
    uint64_t largest = (uint64_t)scratch->capacity;
    for (int shift = 32; largest >> (shift - 32); shift += DIGIT_BITS) {
        uint32_t starts[DIGITS + 1] = { 0 };
        for (size_t i = 0; i < count; i++)
            starts[(from[i] >> shift & (DIGITS - 1)) + 1]++;
        for (size_t d = 0; d < DIGITS; d++)
            starts[d + 1] += starts[d];
        for (size_t i = 0; i < count; i++)
            to[starts[from[i] >> shift & (DIGITS - 1)]++] = from[i];
        uint64_t *swap = from;
        from = to;
        to = swap;
    }
    return from;
}

static bool is_falling(const int32_t *sizes, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (sizes[i] > sizes[i - 1])
            return false;
    return true;
}

// Keys sorted by decreasing size, stable; their lower halves are the items.
static const uint64_t *by_falling_size(struct packing_scratch *scratch, const int32_t *sizes,
                                       size_t first, size_t count)
{
    for (size_t i = 0; i < count; i++)
        scratch->keys[i] = (uint64_t)(scratch->capacity - sizes[first + i]) << 32 | (first + i);
    return is_falling(sizes + first, count) ? scratch->keys : sort_keys(scratch, count);
}

void packing_sort_falling(struct packing_scratch *scratch, int32_t *sizes, size_t count)
{
    const uint64_t *keys = by_falling_size(scratch, sizes, 0, count);
    for (size_t i = 0; i < count; i++)
        sizes[i] = (int32_t)(scratch->capacity - (int64_t)(keys[i] >> 32));
}

// --- algorithms --------------------------------------------------------------

// Removes the row that has waited longest with this much free space; opens a row if space is the
// whole capacity.
static uint32_t take_row(struct packing_bins *bins, struct packing_scratch *scratch, int64_t space,
                         uint32_t opened)
{
    if (space == scratch->capacity)
        return bins->count++ - opened;
    uint32_t row = scratch->heads[space];
    scratch->heads[space] = scratch->links[row];
    if (row == scratch->tails[space])
        set_remove(&scratch->spaces, space);
    return row;
}

static void put_row(struct packing_scratch *scratch, int64_t space, uint32_t row)
{
    if (set_has(&scratch->spaces, space)) {
        scratch->links[scratch->tails[space]] = row;
    } else {
        scratch->heads[space] = row;
        set_add(&scratch->spaces, space);
    }
    scratch->tails[space] = row;
}

// Items of one size are placed together: a row that took one is again the tightest fit for the next
// while it has room, because no other free space lies in between.
static void best_fit(struct packing_bins *bins, struct packing_scratch *scratch,
                     const int32_t *sizes, size_t first, size_t count)
{
    queues_init(scratch);
    struct packing_spaces *spaces = &scratch->spaces;
    uint32_t opened = bins->count; // rows are numbered within the chunk in the queues
    const uint64_t *keys = by_falling_size(scratch, sizes, first, count);

    for (size_t i = 0, end; i < count; i = end) {
        int32_t size = sizes[(uint32_t)keys[i]];
        for (end = i + 1; end < count && keys[end] >> 32 == keys[i] >> 32;)
            end++;
        for (int64_t space = size; i < end;) {
            space = set_at_least(spaces, space);
            space = space < 0 ? scratch->capacity : space;
            uint32_t row = take_row(bins, scratch, space, opened);
            int64_t left = space;
            for (; i < end && left >= size; left -= size)
                place(bins, (uint32_t)keys[i++], opened + row);
            if (left)
                put_row(scratch, left, row);
        }
    }
    for (int64_t space = 0; (space = set_at_least(spaces, space)) >= 0;)
        set_remove(spaces, space);
}

static void knapsack(struct packing_bins *bins, struct packing_scratch *scratch,
                     const int32_t *sizes, size_t first, size_t count)
{
    queues_init(scratch);
    struct packing_spaces *left = &scratch->spaces; // sizes of the items not placed yet
    uint32_t *tops = scratch->heads, *links = scratch->links;

    for (size_t i = 0; i < count; i++) { // one stack per size: the last item goes first
        int32_t size = sizes[first + i];
        links[i] = set_has(left, size) ? tops[size] : NONE;
        tops[size] = (uint32_t)i;
        set_add(left, size);
    }
    for (size_t placed = 0; placed < count; bins->count++) {
        int64_t space = scratch->capacity, size;
        while ((size = set_at_most(left, space)) > 0) {
            uint32_t item = tops[size];
            place(bins, (uint32_t)first + item, bins->count);
            placed++;
            tops[size] = links[item];
            if (tops[size] == NONE)
                set_remove(left, size);
            space -= size;
        }
    }
}

static void next_fit(struct packing_bins *bins, struct packing_scratch *scratch,
                     const int32_t *sizes, size_t first, size_t count)
{
    int64_t space = -1;
    for (size_t i = first; i < first + count; i++) {
        if (sizes[i] > space) {
            bins->count++;
            space = scratch->capacity;
        }
        place(bins, (uint32_t)i, bins->count - 1);
        space -= sizes[i];
    }
}

// The first row with room for size; there is one (tree[1] >= size).
static size_t first_with_room(const struct packing_scratch *scratch, int32_t size)
{
    size_t node = 1;
    while (node < scratch->leaves)
        node = 2 * node + (scratch->tree[2 * node] < size);
    return node - scratch->leaves;
}

static void set_room(struct packing_scratch *scratch, size_t row, int32_t space)
{
    int32_t *tree = scratch->tree;
    size_t node = scratch->leaves + row;
    for (tree[node] = space; node > 1; node >>= 1) {
        int32_t larger = tree[node] > tree[node ^ 1] ? tree[node] : tree[node ^ 1];
        if (tree[node >> 1] == larger)
            return;
        tree[node >> 1] = larger;
    }
}

static void first_fit(struct packing_bins *bins, struct packing_scratch *scratch,
                      const int32_t *sizes, size_t first, size_t count, bool decreasing,
                      int64_t row_items)
{
    if (!scratch->tree) {
        for (scratch->leaves = 1; scratch->leaves < scratch->most;)
            scratch->leaves *= 2;
        scratch->tree = ARENA_NEW(scratch->arena, int32_t, 2 * scratch->leaves);
        scratch->counts = ARENA_NEW(scratch->arena, uint32_t, scratch->most);
    }
    memset(scratch->tree, 0xff, 2 * scratch->leaves * sizeof *scratch->tree); // all -1
    memset(scratch->counts, 0, count * sizeof *scratch->counts);
    const uint64_t *keys = decreasing ? by_falling_size(scratch, sizes, first, count) : NULL;
    uint32_t opened = bins->count;

    for (size_t i = 0; i < count; i++) {
        uint32_t item = keys ? (uint32_t)keys[i] : (uint32_t)(first + i);
        size_t row;
        int32_t space;
        if (scratch->tree[1] >= sizes[item]) {
            row = first_with_room(scratch, sizes[item]);
            space = scratch->tree[scratch->leaves + row] - sizes[item];
        } else {
            row = bins->count++ - opened;
            space = (int32_t)scratch->capacity - sizes[item];
        }
        place(bins, item, opened + (uint32_t)row);
        bool full = row_items && ++scratch->counts[row] >= row_items;
        set_room(scratch, row, full ? -1 : space);
    }
}

size_t packing_volume(struct packing_bins *bins, struct packing_scratch *scratch,
                      const int32_t *sizes, uint32_t *chunk, size_t count, bool last)
{
    if (!scratch->free)
        scratch->free = ARENA_NEW(scratch->arena, int32_t, scratch->most);
    int32_t *space = scratch->free;
    uint32_t opened = bins->count, rows = 0;
    size_t placed = bins->placed;

    for (size_t i = 0; i < count; i++)
        scratch->keys[i] = (uint64_t)(scratch->capacity - sizes[chunk[i]]) << 32 | i;
    const uint64_t *keys = sort_keys(scratch, count);
    for (size_t i = 0; i < count; i++) {
        uint32_t item = chunk[(uint32_t)keys[i]], best = rows;
        for (uint32_t row = 0; row < rows; row++)
            if (space[row] >= sizes[item] && (best == rows || space[row] < space[best]))
                best = row;
        if (best == rows)
            space[rows++] = (int32_t)scratch->capacity;
        space[best] -= sizes[item];
        place(bins, item, opened + best);
    }
    bins->count += rows;
    if (last || !rows)
        return 0;
    // Removes the last row: its items become the first of the next chunk.
    size_t left_over = 0, kept = placed;
    uint32_t removed = --bins->count;
    for (size_t i = placed; i < bins->placed; i++) {
        if (bins->rows[i] == removed) {
            chunk[left_over++] = bins->items[i];
            continue;
        }
        bins->items[kept] = bins->items[i];
        bins->rows[kept++] = bins->rows[i];
    }
    bins->placed = kept;
    return left_over;
}

void packing_place(struct packing_bins *bins, struct packing_scratch *scratch,
                   const struct packing_rule *rule, const int32_t *sizes, size_t first,
                   size_t count)
{
    switch (rule->method) {
    case PACKING_BEST_FIT: best_fit(bins, scratch, sizes, first, count); break;
    case PACKING_KNAPSACK: knapsack(bins, scratch, sizes, first, count); break;
    case PACKING_NEXT_FIT: next_fit(bins, scratch, sizes, first, count); break;
    default:
        first_fit(bins, scratch, sizes, first, count, rule->method == PACKING_FIRST_FIT_DECREASING,
                  rule->bin_examples);
    }
}

// --- a lower bound ---------------------------------------------------------------

// Martello and Toth's L2. For a threshold a, let
//
//     size   0     a          C/2         C - a       C
//            |-----|-----------|-----------|----------|
//            ignored    J3          J2          J1
//
// Items larger than C/2 never share a row: |J1| + |J2| rows. J1 leaves less than a free, so J3 can
// only go into the rest of the rows of J2 and into new rows:
// |J1| + |J2| + max(0, ceil((ΣJ3 - (|J2| C - ΣJ2)) / C)). The bound is the largest over all a.
int64_t packing_fewest(const int32_t *sizes, size_t count, int64_t capacity, struct arena *scratch)
{
    int64_t *number = ARENA_NEW(scratch, int64_t, capacity + 2); // number of sizes >= index
    int64_t *sum = ARENA_NEW(scratch, int64_t, capacity + 2);
    for (size_t i = 0; i < count; i++) {
        assert(sizes[i] >= 0 && sizes[i] <= capacity);
        number[sizes[i]]++;
        sum[sizes[i]] += sizes[i];
    }
    for (int64_t size = capacity; size-- > 0;) {
        number[size] += number[size + 1];
        sum[size] += sum[size + 1];
    }
    int64_t half = capacity / 2 + 1, best = 0;
    for (int64_t a = 0; a <= capacity / 2; a++) {
        int64_t wide = number[half]; // J1 and J2
        int64_t above = capacity - a + 1;
        int64_t room = (number[half] - number[above]) * capacity - (sum[half] - sum[above]);
        int64_t rest = sum[a] - sum[half] - room;
        int64_t bound = wide + (rest > 0 ? (rest + capacity - 1) / capacity : 0);
        if (bound > best)
            best = bound;
    }
    return best;
}
