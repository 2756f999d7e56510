// draw: random numbers by place: each is a hash of a key and a position, on any device the same.
//
//     double u = draw_uniform(key, place); // 0 ≤ u < 1
//
// What is drawn for one element depends on no other, so work may be split in any way and a mask can
// be made again instead of being kept. The hash is splitmix64's last steps, twice.

#pragma once

#include <stdint.h>

#define DRAW_TURN 6.283185307179586477 // 2π, of Box and Muller's angle

#ifdef __CUDACC__
#define DRAW_INLINE static __host__ __device__ inline
#else
#define DRAW_INLINE static inline
#endif

DRAW_INLINE uint64_t draw_mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

DRAW_INLINE uint64_t draw_bits(uint64_t key, uint64_t place)
{
    return draw_mix(draw_mix(key) + place * 0x9E3779B97F4A7C15u);
}

DRAW_INLINE double draw_uniform(uint64_t key, uint64_t place)
{
    return (double)(draw_bits(key, place) >> 11) * 0x1p-53;
}

// Adds 16 bits of chance below what bf16 keeps, then cuts: right in the mean.
DRAW_INLINE uint16_t draw_round_bf16(uint32_t fp32_bits, uint64_t chance)
{
    if ((fp32_bits & 0x7F800000u) == 0x7F800000u)
        return (uint16_t)(fp32_bits >> 16 | ((fp32_bits & 0x7FFFFF) != 0 ? 0x40 : 0));
    return (uint16_t)((fp32_bits + (uint32_t)(chance & 0xFFFF)) >> 16);
}
