// SPDX-License-Identifier: Apache-2.0
// Conversions between fp32, fp16, bf16 and e4m3, bit by bit.

#include "base/half.h"

// fp16 has 1 sign, 5 exponent (bias 15) and 10 fraction bits; fp32 has 8 (bias 127) and 23.

float half_from_fp16(uint16_t stored)
{
    uint32_t sign = (uint32_t)(stored & 0x8000) << 16;
    uint32_t exponent = stored >> 10 & 31, fraction = stored & 0x3FF;
    if (exponent == 31)
        return half_of_bits(sign | 0x7F800000 | fraction << 13);
    if (exponent)
        return half_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
    float small = (float)fraction * 0x1p-24f; // subnormal, and zero: exact in fp32
    return half_of_bits(sign | half_bits(small));
}

uint16_t half_to_fp16(float value)
{
    uint32_t bits = half_bits(value), sign = bits >> 16 & 0x8000, size = bits & 0x7FFFFFFF;
    if (size > 0x7F800000) // NaN
        return (uint16_t)(sign | 0x7E00 | (size >> 13 & 0x3FF));
    if (size >= 0x477FF000) // 65520: halfway between the largest fp16 and 2^16
        return (uint16_t)(sign | 0x7C00);
    if (size < 0x38800000) { // below 2^-14, the smallest normal: count units of 2^-24
        float units = half_of_bits(size) * 0x1p24f;
        uint32_t whole = (uint32_t)units;
        float rest = units - (float)whole;
        whole += rest > 0.5f || (rest == 0.5f && (whole & 1));
        return (uint16_t)(sign | whole);
    }
    uint32_t rounded = size + 0xFFF + (size >> 13 & 1) - 0x38000000;
    return (uint16_t)(sign | rounded >> 13);
}

static uint16_t load(const void *stored, size_t i)
{
    uint16_t value;
    memcpy(&value, (const char *)stored + 2 * i, sizeof value);
    return value;
}

static void store(void *stored, size_t i, uint16_t value)
{
    memcpy((char *)stored + 2 * i, &value, sizeof value);
}

void half_read_bf16(float *out, const void *stored, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = half_from_bf16(load(stored, i));
}

void half_read_fp16(float *out, const void *stored, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = half_from_fp16(load(stored, i));
}

void half_write_bf16(void *stored, const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        store(stored, i, half_to_bf16(values[i]));
}

void half_write_fp16(void *stored, const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        store(stored, i, half_to_fp16(values[i]));
}

// --- e4m3: 1 sign, 4 exponent (bias 7), 3 mantissa bits -----------

uint8_t half_to_f8(float value)
{
    uint32_t bits = half_bits(value), magnitude = bits & 0x7FFFFFFF;
    uint8_t sign = (uint8_t)(bits >> 24 & 0x80);
    if (magnitude > 0x7F800000)
        return sign | 0x7F;
    if (magnitude >= 0x43E80000) // 464: halfway from 448 to 480
        return sign | 0x7E;
    if (magnitude < 0x3C800000) { // below 2^-6: subnormal
        float scaled = half_of_bits(magnitude) * 0x1p9f, whole = (float)(int)scaled;
        float rest = scaled - whole;
        int up = rest > 0.5f || (rest == 0.5f && (int)whole % 2);
        return (uint8_t)(sign | ((int)whole + up));
    }
    uint32_t rounded = magnitude + 0x7FFFF + (magnitude >> 20 & 1);
    return (uint8_t)(sign | ((rounded >> 20) - ((127 - 7) << 3)));
}
