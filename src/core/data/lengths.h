// lengths: how many tokens each example has, and how many of them carry loss.
//
// Two forms. A list keeps the examples in order, as batches are simulated from them:
//
//     struct lengths list = { .arena = arena };
//     lengths_add(&list, 168, 97);
//
// A tally is the exact histogram by distinct length. It has no order, so tallies of several files
// merge, and a profile can hold one and leave the building. lengths_unroll() makes a list of a
// tally again, shuffled by a seed, in which all sums are the same; the labelled tokens of equally
// long examples are spread evenly over them.

#pragma once

#include "base/json.h"

enum {
    LENGTHS_LONGEST = 1 << 30,   // tokens; longer examples count as this long
    LENGTHS_SIMULATED = 1 << 20, // examples; of more, a sample stands for all
};

struct length {
    int32_t tokens;
    int32_t labelled; // of them; taken to be the last ones where it matters
};

struct lengths {
    struct arena *arena;
    struct length *items;
    size_t count, room;
    double each; // examples that an item of a sample stands for; 0: it is no sample
};

void lengths_add(struct lengths *list, int64_t tokens, int64_t labelled);

struct lengths_bin {
    int64_t tokens;   // of each example here
    int64_t examples; // at least one
    int64_t labelled; // of all of them together
};

struct lengths_tally {
    struct lengths_bin *bins; // by rising tokens
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
// Of more than LENGTHS_SIMULATED examples the list is a sample with the same shares of all lengths.
void lengths_unroll(struct lengths *out, struct arena *arena, const struct lengths_tally *tally,
                    uint64_t seed);

double lengths_each(const struct lengths *list); // 1 unless it is a sample

struct lengths_sums lengths_sum(const struct lengths_tally *tally);

// The length that at least this share of the examples does not exceed; 0 of an empty tally.
int64_t lengths_quantile(const struct lengths_tally *tally, double share);

// What cutting every example to a window loses. Labelled tokens are the last of their example.
struct lengths_cut {
    int64_t examples, tokens, labelled;
};
struct lengths_cut lengths_cut(const struct lengths_tally *tally, int64_t window);

// A tally as JSON: a list of [tokens, examples, labelled].
void lengths_write(const struct lengths_tally *tally, struct json_writer *w, const char *key);
enum err lengths_read(struct lengths_tally *out, struct arena *arena, const struct json *in,
                      const char *name);
