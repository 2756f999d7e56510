// SPDX-License-Identifier: Apache-2.0
// counter_rng: random numbers by position: a hash of a key and a position, equal on every device.
//
//     double u = counter_rng_uniform(key, position); // 0 ≤ u < 1
//
// The number of one element depends on no other element, so work may be split in any way and a
// dropout mask can be recomputed instead of stored. The hash is the last steps of splitmix64,
// twice.

#pragma once

#include <stdint.h>

#define COUNTER_RNG_TWO_PI 6.283185307179586477 // 2π, the full circle of the Box–Muller angle

#ifdef __CUDACC__
#define COUNTER_RNG_INLINE static __host__ __device__ inline
#else
#define COUNTER_RNG_INLINE static inline
#endif

COUNTER_RNG_INLINE uint64_t counter_rng_mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

#define COUNTER_RNG_STEP 0x9E3779B97F4A7C15u // from one position to the next

COUNTER_RNG_INLINE uint64_t counter_rng_bits(uint64_t key, uint64_t position)
{
    return counter_rng_mix(counter_rng_mix(key) + position * COUNTER_RNG_STEP);
}

COUNTER_RNG_INLINE double counter_rng_uniform(uint64_t key, uint64_t position)
{
    return (double)(counter_rng_bits(key, position) >> 11) * 0x1p-53;
}

// Stochastic rounding: adds 16 random bits below those that bf16 keeps, then truncates. The
// expected value is the fp32 value.
COUNTER_RNG_INLINE uint16_t counter_rng_round_bf16(uint32_t fp32_bits, uint64_t random)
{
    if ((fp32_bits & 0x7F800000u) == 0x7F800000u)
        return (uint16_t)(fp32_bits >> 16 | ((fp32_bits & 0x7FFFFF) != 0 ? 0x40 : 0));
    return (uint16_t)((fp32_bits + (uint32_t)(random & 0xFFFF)) >> 16);
}
