// SPDX-License-Identifier: Apache-2.0
// Every bf16 and fp16 value against its definition, and rounding between neighbours.

#include "base/half.h"
#include "test/test.h"

#include <string.h>

// The value of a stored number by its definition, without bit tricks.
static double bf16_value(uint16_t stored)
{
    int exponent = stored >> 7 & 255, fraction = stored & 127;
    double size =
        exponent ? ldexp(1 + fraction / 128.0, exponent - 127) : ldexp(fraction / 128.0, -126);
    return stored & 0x8000 ? -size : size;
}

static double fp16_value(uint16_t stored)
{
    int exponent = stored >> 10 & 31, fraction = stored & 1023;
    double size =
        exponent ? ldexp(1 + fraction / 1024.0, exponent - 15) : ldexp(fraction / 1024.0, -14);
    return stored & 0x8000 ? -size : size;
}

TEST(every_bf16_is_read_exactly_and_written_back)
{
    for (uint32_t stored = 0; stored < 65536; stored++) {
        float value = half_from_bf16((uint16_t)stored);
        bool finite = (stored & 0x7F80) != 0x7F80;
        bool right = finite ? (double)value == bf16_value((uint16_t)stored)
                            : isnan(value) == ((stored & 127) != 0);
        uint16_t again = half_to_bf16(value);
        bool same = isnan(value) ? isnan(half_from_bf16(again)) : again == stored;
        if (!right || !same)
            return CHECK(right && same);
    }
}

TEST(every_fp16_is_read_exactly_and_written_back)
{
    for (uint32_t stored = 0; stored < 65536; stored++) {
        float value = half_from_fp16((uint16_t)stored);
        bool finite = (stored & 0x7C00) != 0x7C00;
        bool right = finite ? (double)value == fp16_value((uint16_t)stored)
                            : isnan(value) == ((stored & 1023) != 0);
        uint16_t again = half_to_fp16(value);
        bool same = isnan(value) ? isnan(half_from_fp16(again)) : again == stored;
        if (!right || !same)
            return CHECK(right && same);
    }
}

// Between each two neighbours: just below the middle, the middle, just above.
static bool rounds_well(uint16_t stored, double low, double high, uint16_t (*to)(float))
{
    float middle = (float)((low + high) / 2); // exact: fp32 has more digits
    uint16_t even = stored & 1 ? (uint16_t)(stored + 1) : stored;
    return to(middle) == even && to(nextafterf(middle, 0)) == stored &&
           to(nextafterf(middle, INFINITY)) == stored + 1 && to(-middle) == (even | 0x8000);
}

static uint16_t to_bf16(float value)
{
    return half_to_bf16(value);
}

TEST(values_between_two_halves_round_to_nearest_even)
{
    for (uint16_t stored = 0; stored < 0x7F7F; stored++)
        if (!rounds_well(stored, bf16_value(stored), bf16_value(stored + 1), to_bf16))
            return CHECK(!"bf16 rounds to the nearest even");
    for (uint16_t stored = 0; stored < 0x7BFF; stored++)
        if (!rounds_well(stored, fp16_value(stored), fp16_value(stored + 1), half_to_fp16))
            return CHECK(!"fp16 rounds to the nearest even");
}

TEST(values_too_large_for_16_bits_become_infinite)
{
    CHECK(half_to_fp16(65519.99f) == 0x7BFF);
    CHECK(half_to_fp16(65520) == 0x7C00);
    CHECK(half_to_fp16(-1e30f) == 0xFC00);
    CHECK(half_to_bf16(3.4e38f) == 0x7F80);
    CHECK(half_to_bf16(-INFINITY) == 0xFF80);
}

TEST(a_nan_with_a_low_payload_stays_a_nan)
{
    float odd = half_of_bits(0x7F800001);
    CHECK(isnan(half_from_bf16(half_to_bf16(odd))));
    CHECK(isnan(half_from_fp16(half_to_fp16(odd))));
    CHECK(half_to_bf16(half_of_bits(0xFF800001)) >> 15 == 1);
}

TEST(arrays_of_halves_may_start_at_odd_addresses)
{
    static const float values[] = { 1, -2.5f, 0.333251953125f, 65504, 0 };
    enum { COUNT = sizeof values / sizeof *values };
    char stored[2 * COUNT + 1];
    float again[COUNT];
    half_write_fp16(stored + 1, values, COUNT);
    half_read_fp16(again, stored + 1, COUNT);
    CHECK(!memcmp(values, again, sizeof values));
    half_write_bf16(stored + 1, values, 2);
    half_read_bf16(again, stored + 1, 2);
    CHECK(!memcmp(values, again, 2 * sizeof *values));
}

// By the definition of e4m3: bias 7, three bits of mantissa, no infinities.
TEST(half_reads_every_value_of_fp8)
{
    for (int stored = 0; stored < 256; stored++) {
        int exponent = stored >> 3 & 15, mantissa = stored & 7;
        float size =
            ldexpf((float)(exponent ? 8 + mantissa : mantissa), exponent ? exponent - 10 : -9);
        float got = half_from_f8((uint8_t)stored);
        CHECK(!signbit(got) == !(stored & 0x80));
        CHECK((stored & 0x7F) == 0x7F ? isnan(got) : fabsf(got) == size);
    }
}
