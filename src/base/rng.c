// SPDX-License-Identifier: Apache-2.0
// xoshiro256** and the distributions that are sampled with it.

#include "base/rng.h"

#include <assert.h>
#include <math.h>

static uint64_t rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

struct rng rng_seeded(uint64_t seed)
{
    struct rng rng;
    for (int i = 0; i < 4; i++) { // splitmix64
        uint64_t z = seed += 0x9E3779B97F4A7C15u;
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
        z = (z ^ z >> 27) * 0x94D049BB133111EBu;
        rng.state[i] = z ^ z >> 31;
    }
    return rng;
}

uint64_t rng_next(struct rng *rng)
{
    uint64_t *s = rng->state;
    uint64_t result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

uint64_t rng_below(struct rng *rng, uint64_t limit)
{
    assert(limit);
    uint64_t threshold =
        -limit % limit; // rejects values below it, so that remainders are equally likely
    for (;;) {
        uint64_t draw = rng_next(rng);
        if (draw >= threshold)
            return draw % limit;
    }
}

double rng_uniform(struct rng *rng)
{
    return (double)(rng_next(rng) >> 11) * 0x1p-53;
}

double rng_normal(struct rng *rng)
{
    double u = 1 - rng_uniform(rng), v = rng_uniform(rng); // Box–Muller
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}
