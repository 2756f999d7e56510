// SPDX-License-Identifier: Apache-2.0
// nf4: 4-bit weights with 8-bit scales, in the layout of bitsandbytes.
//
// The weights, in row order, are cut into blocks of 64. The scale of a block is its largest
// magnitude; each weight is the nearest of 16 levels times that scale. Two weights share a byte,
// the first in the high half. The scales, minus their mean, are themselves cut into blocks of 256
// and stored as one of 256 levels times the largest of the block ("nested"): 4.127 bits per weight.
//
//     struct nf4 nf4;
//     nf4_quantize(&nf4, arena, values, rows, columns, STORAGE_BF16);
//     nf4_dequantize(out, &nf4, first, count);
//
// In a safetensors file the weight x is x itself (the codes), x.absmax, x.quant_map,
// x.nested_absmax, x.nested_quant_map, and x.quant_state.bitsandbytes__nf4 with the rest as JSON.
// Files without nested scales are read too. After reading, a struct nf4 points into the file.

#pragma once

#include "train/files/safetensors.h"

enum { NF4_LEVELS = 16, NF4_BLOCK = 64, NF4_NESTED_LEVELS = 256, NF4_NESTED_BLOCK = 256 };

extern const float nf4_levels[NF4_LEVELS];

struct nf4 {
    int64_t rows, columns;
    enum storage type; // of the weight before, and to which bitsandbytes dequantizes it
    int64_t block, nested_block;
    const uint8_t *codes; // two per byte
    bool nested;
    const char *scales;        // one per block: bytes if nested, else fp32, at any address
    const char *nested_scales; // fp32, one per nested_block scales
    float nested_levels[NF4_NESTED_LEVELS];
    float offset; // the mean of the scales
};

int64_t nf4_blocks(const struct nf4 *nf4);
void nf4_scales(float *out, const struct nf4 *nf4, int64_t first_block, int64_t count);

// Elements first to first + count of the rows end to end, as fp32 before any rounding to type.
void nf4_dequantize(float *out, const struct nf4 *nf4, int64_t first, int64_t count);

// Into memory of the arena, with nested scales. Values must be finite.
void nf4_quantize(struct nf4 *out, struct arena *arena, const float *values, int64_t rows,
                  int64_t columns, enum storage type);

// --- files -------------------------------------------------------------------

bool nf4_is(const struct safetensors *in, const char *name); // whether that weight is quantized
bool nf4_is_part(const char *name); // whether a tensor is a part of a quantized weight
enum err nf4_read(struct nf4 *out, struct arena *arena, const struct safetensors *in,
                  const char *name);

struct nf4_slots {
    size_t codes, scales, levels, nested_scales, nested_levels, state;
};

struct nf4_slots nf4_declare(struct safetensors_writer *out, const char *name, int64_t rows,
                             int64_t columns);
enum err nf4_write(struct safetensors_writer *out, const struct nf4_slots *slots,
                   const struct nf4 *nf4); // needs nested scales and blocks of NF4_BLOCK
