// SPDX-License-Identifier: Apache-2.0
// half: converts fp32 to and from bf16, IEEE fp16 and fp8 (e4m3).
//
//     uint16_t stored = half_to_bf16(0.1f);
//     float value = half_from_bf16(stored);
//
// To 16 bits: rounds to nearest, ties to even; too large values become infinite. A NaN stays a NaN
// and keeps its sign and the top bits of its payload. From 16 bits, every value is exact.

#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t half_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float half_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float half_from_bf16(uint16_t stored)
{
    return half_of_bits((uint32_t)stored << 16);
}

static inline uint16_t half_to_bf16(float value)
{
    uint32_t bits = half_bits(value);
    uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    uint32_t quiet = bits >> 16 | 0x40; // keeps a NaN whose payload was in the lower half
    return (uint16_t)((bits & 0x7FFFFFFF) > 0x7F800000 ? quiet : rounded);
}

float half_from_fp16(uint16_t stored);
uint16_t half_to_fp16(float value);

// e4m3 has no infinities; values beyond 448 become 448.
uint8_t half_to_f8(float value);

// Its exponent and mantissa where fp32 has them, and the difference of the biases (127 and 7) as a
// factor: exact, also for what is subnormal in e4m3, and so in fp32.
static inline float half_from_f8(uint8_t stored)
{
    uint32_t sign = (uint32_t)(stored & 0x80) << 24, magnitude = stored & 0x7F;
    return magnitude == 0x7F ? half_of_bits(sign | 0x7FC00000)
                             : half_of_bits(sign | magnitude << 20) * 0x1p120f;
}

// Whole arrays at any address: data of a mapped file need not be aligned.
void half_read_bf16(float *out, const void *stored, size_t count);
void half_read_fp16(float *out, const void *stored, size_t count);
void half_write_bf16(void *stored, const float *values, size_t count);
void half_write_fp16(void *stored, const float *values, size_t count);
