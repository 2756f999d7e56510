// SPDX-License-Identifier: Apache-2.0
// lengths: the number of tokens of each example, and how many of them carry loss.
//
// Two forms. A list keeps the examples in order, which the simulation of batches needs:
//
//     struct lengths list = { .arena = arena };
//     lengths_add(&list, 168, 97);
//
// A tally is the exact histogram by length. It has no order, so the tallies of several files can be
// merged, and a profile that holds one contains no text and can be shared. lengths_unroll() turns a
// tally into a list shuffled by a seed. All sums stay the same; the labelled tokens of examples of
// equal length are spread evenly over them.

#pragma once

#include "base/json.h"

enum {
    LENGTHS_LONGEST = 1 << 30,   // tokens; longer examples count as this long
    LENGTHS_SIMULATED = 1 << 20, // examples; of a larger set, a sample is simulated
};

struct length {
    int32_t tokens;
    int32_t labelled; // of these tokens; assumed to be the last ones
};

struct lengths {
    struct arena *arena;
    struct length *items;
    size_t count, room;
    double each; // examples that an item of a sample represents; 0: not a sample
};

void lengths_add(struct lengths *list, int64_t tokens, int64_t labelled);

struct lengths_bin {
    int64_t tokens;   // of each example here
    int64_t examples; // at least one
    int64_t labelled; // sum over these examples
};

struct lengths_tally {
    struct lengths_bin *bins; // by increasing tokens
    size_t count;
};

struct lengths_sums {
    int64_t examples, tokens, labelled;
    double squares; // Σ tokens²
    int64_t longest;
};

void lengths_tally(struct lengths_tally *out, struct arena *arena, const struct lengths *list);
void lengths_merge(struct lengths_tally *out, struct arena *arena, const struct lengths_tally *a,
                   const struct lengths_tally *b);
// Moves a list into a tally. The arena has nothing but the tally and is replaced with it.
void lengths_fold(struct lengths_tally *tally, struct arena *arena, struct lengths *list);
// With more than LENGTHS_SIMULATED examples, the list is a sample with the same distribution.
void lengths_unroll(struct lengths *out, struct arena *arena, const struct lengths_tally *tally,
                    uint64_t seed);

double lengths_each(const struct lengths *list); // 1 if it is not a sample

struct lengths_sums lengths_sum(const struct lengths_tally *tally);

// The smallest length that at least this share of the examples does not exceed; 0 if empty.
int64_t lengths_quantile(const struct lengths_tally *tally, double share);

// What is lost by cutting every example to a window, with labelled tokens last in each example.
struct lengths_cut {
    int64_t examples, tokens, labelled;
};
struct lengths_cut lengths_cut(const struct lengths_tally *tally, int64_t window);

// A tally as JSON: a list of [tokens, examples, labelled].
void lengths_write(const struct lengths_tally *tally, struct json_writer *w, const char *key);
enum err lengths_read(struct lengths_tally *out, struct arena *arena, const struct json *in,
                      const char *name);
