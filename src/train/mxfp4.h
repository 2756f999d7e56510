// SPDX-License-Identifier: Apache-2.0
// mxfp4: 4-bit weights in blocks of 32 that share a power of two, as gpt-oss is published; for CPU
// and GPU.
//
//     unsigned scale = mxfp4_scale(largest);    // of a block, by its largest magnitude
//     unsigned code = mxfp4_code(value * mxfp4_inverse(scale));       // the nearest level
//     value = levels[code] * mxfp4_power(scale);
//
// A code has one sign, two exponent and one mantissa bit. Values that were MXFP4 before become the
// same values again: the power chosen here for a block makes its largest value 4 to 6 times that
// power, so that all its values are levels of it.

#pragma once

#include <stdint.h>
#include <string.h>

enum { MXFP4_BLOCK = 32, MXFP4_SCALE_MOST = 252 }; // a larger scale times 6 is no fp32

#define MXFP4_LEVEL_TABLE                                                                     \
    0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, \
        -4.0f, -6.0f

#ifdef __CUDACC__
#define MXFP4_INLINE static __host__ __device__ inline
#else
#define MXFP4_INLINE static inline
#endif

MXFP4_INLINE float mxfp4_float(uint32_t bits)
{
    float out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

// 2^(scale − 127), for any byte but 255, which stands for no number.
MXFP4_INLINE float mxfp4_power(unsigned scale)
{
    return mxfp4_float(scale ? scale << 23 : 1u << 22);
}

MXFP4_INLINE float mxfp4_inverse(unsigned scale)
{
    return mxfp4_float((254 - scale) << 23);
}

// The power of two that brings the largest magnitude between 4 and 8.
MXFP4_INLINE unsigned mxfp4_scale(float largest)
{
    uint32_t bits;
    memcpy(&bits, &largest, sizeof bits);
    unsigned exponent = bits >> 23 & 255;
    return exponent > 2 ? exponent - 2 : 0;
}

// Halfway values go to the level with an even code.
MXFP4_INLINE unsigned mxfp4_code(float x)
{
    float size = x < 0 ? -x : x;
    unsigned code = (size > 0.25f) + (size >= 0.75f) + (size > 1.25f) + (size >= 1.75f) +
                    (size > 2.5f) + (size >= 3.5f) + (size > 5.0f);
    return x < 0 ? 8 + code : code;
}
