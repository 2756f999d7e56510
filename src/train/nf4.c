// SPDX-License-Identifier: Apache-2.0
// Quantizes to NF4 and back, with the same codes as bitsandbytes.

#include "train/nf4.h"

#include "base/half.h"
#include "train/nf4_tables.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const float nf4_levels[NF4_LEVELS] = { NF4_LEVEL_TABLE };
static const float middles[NF4_LEVELS - 1] = { NF4_MIDDLE_TABLE };

static int64_t pieces(int64_t count, int64_t size)
{
    return (count + size - 1) / size;
}

int64_t nf4_blocks(const struct nf4 *nf4)
{
    return pieces(nf4->rows * nf4->columns, nf4->block);
}

static float load(const char *at, int64_t i)
{
    float value;
    memcpy(&value, at + 4 * i, sizeof value);
    return value;
}

// --- decoding ----------------------------------------------------------------

static float scale_of(const struct nf4 *nf4, int64_t block)
{
    if (!nf4->nested)
        return load(nf4->scales, block);
    float level = nf4->nested_levels[(unsigned char)nf4->scales[block]];
    return level * load(nf4->nested_scales, block / nf4->nested_block) + nf4->offset;
}

void nf4_scales(float *out, const struct nf4 *nf4, int64_t first_block, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = scale_of(nf4, first_block + i);
}

void nf4_dequantize(float *out, const struct nf4 *nf4, int64_t first, int64_t count)
{
    for (int64_t done = 0; done < count;) {
        int64_t block = (first + done) / nf4->block, end = (block + 1) * nf4->block - first;
        float scale = scale_of(nf4, block);
        for (end = end < count ? end : count; done < end; done++) {
            int64_t i = first + done;
            int code = nf4->codes[i / 2] >> (i % 2 ? 0 : 4) & 15;
            out[done] = nf4_levels[code] * scale;
        }
    }
}

// --- encoding ----------------------------------------------------------------

static int compare(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

// Seven decades, each with twice as many steps as the one below; then 0, and 1.
static void fill_nested_levels(float out[NF4_NESTED_LEVELS])
{
    int count = 0;
    for (int decade = 0; decade < 7; decade++)
        for (int i = 0, steps = 1 << decade; i < steps; i++) {
            double value = pow(10, decade - 6) * (0.1 + 0.9 * (i + 0.5) / steps);
            out[count++] = (float)value;
            out[count++] = (float)-value;
        }
    out[count++] = 0;
    out[count++] = 1;
    assert(count == NF4_NESTED_LEVELS);
    qsort(out, NF4_NESTED_LEVELS, sizeof *out, compare);
}

// The index of the nearest of sorted levels, given the midpoints between them.
static int nearest(const float *between, int levels, float value)
{
    int low = 0, high = levels - 1;
    while (low < high) {
        int half = (low + high) / 2;
        if (value > between[half])
            low = half + 1;
        else
            high = half;
    }
    return low;
}

// Compares magnitudes as integers, which have the same order and vectorize well.
static float largest(const float *values, int64_t count)
{
    int32_t most = 0;
    for (int64_t i = 0; i < count; i++) {
        int32_t size = (int32_t)(half_bits(values[i]) & 0x7FFFFFFF);
        most = size > most ? size : most;
    }
    return half_of_bits((uint32_t)most);
}

// Multiplies by the reciprocal, as bitsandbytes does, to get the same codes. A block of zeros gets
// level 0, which is 0 with any scale.
static float reciprocal(float scale)
{
    return scale > 0 ? 1.0f / scale : 0;
}

// Compares each weight with all midpoints: without branches this is faster than a search.
static void encode_block(uint8_t *codes, const float *values, int64_t count, float scale)
{
    float factor = reciprocal(scale);
    int32_t found[NF4_BLOCK] = { 0 };
    for (int m = 0; m < NF4_LEVELS - 1; m++)
        for (int64_t i = 0; i < count; i++)
            found[i] += values[i] * factor > middles[m];
    for (int64_t i = 0; i < count; i += 2)
        codes[i / 2] = (uint8_t)(found[i] << 4 | (i + 1 < count ? found[i + 1] : 0));
}

static void nest_scales(struct nf4 *out, struct arena *arena, float *scales, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)scales[i];
    out->offset = count ? (float)(sum / (double)count) : 0;
    for (int64_t i = 0; i < count; i++)
        scales[i] -= out->offset;
    float between[NF4_NESTED_LEVELS - 1];
    fill_nested_levels(out->nested_levels);
    for (int i = 0; i < NF4_NESTED_LEVELS - 1; i++)
        between[i] = (out->nested_levels[i] + out->nested_levels[i + 1]) * 0.5f;
    uint8_t *codes = ARENA_NEW(arena, uint8_t, count);
    float *tops = ARENA_NEW(arena, float, pieces(count, NF4_NESTED_BLOCK));
    for (int64_t i = 0; i < count; i++) {
        int64_t block = i / NF4_NESTED_BLOCK, rest = count - i;
        if (i % NF4_NESTED_BLOCK == 0)
            tops[block] = largest(scales + i, rest < NF4_NESTED_BLOCK ? rest : NF4_NESTED_BLOCK);
        float value = scales[i] * reciprocal(tops[block]);
        codes[i] = (uint8_t)nearest(between, NF4_NESTED_LEVELS, value);
    }
    out->nested = true;
    out->nested_block = NF4_NESTED_BLOCK;
    out->scales = (const char *)codes;
    out->nested_scales = (const char *)tops;
}

void nf4_quantize(struct nf4 *out, struct arena *arena, const float *values, int64_t rows,
                  int64_t columns, enum storage type)
{
    *out = (struct nf4){ .rows = rows, .columns = columns, .type = type, .block = NF4_BLOCK };
    int64_t count = rows * columns, blocks = nf4_blocks(out);
    uint8_t *codes = ARENA_NEW(arena, uint8_t, pieces(count, 2));
    float *scales = ARENA_NEW(arena, float, blocks);
    for (int64_t i = 0; i < blocks; i++) {
        int64_t first = i * NF4_BLOCK;
        int64_t here = count - first < NF4_BLOCK ? count - first : NF4_BLOCK;
        scales[i] = largest(values + first, here);
        encode_block(codes + first / 2, values + first, here, scales[i]);
    }
    out->codes = codes;
    nest_scales(out, arena, scales, blocks);
}
