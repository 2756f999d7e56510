// SPDX-License-Identifier: Apache-2.0
// rng: a seeded random number generator with the same numbers on every machine.
//
// xoshiro256** by Blackman and Vigna, seeded by splitmix64. All samples of the forecast,
// the shuffles of simulated batches and the trainer's initial weights come from here.

#pragma once

#include <stdint.h>

struct rng {
    uint64_t state[4];
};

struct rng rng_seeded(uint64_t seed);
uint64_t rng_next(struct rng *rng);
uint64_t rng_below(struct rng *rng, uint64_t limit); // 0 … limit-1, without bias; limit > 0
double rng_uniform(struct rng *rng);                 // in [0, 1)
double rng_normal(struct rng *rng);                  // mean 0, deviation 1
