// SPDX-License-Identifier: Apache-2.0
// stacked: one expert's matrix or bias in a tensor that holds those of all experts, as gpt-oss has.
//
//     struct stacked down = { .experts = 32, .rows = 2880, .columns = 2880 };
//     TRY(stacked_find(&down, arena, &file, "model.layers.3.mlp.experts.7.down_proj.weight"));
//     stacked_read(values, &down, stacked_at(&down), 0, 2880 * 2880);
//
// That name is ours; files have (experts, rows, columns are of the expert's matrix, out × in)
//
//     experts.down_proj          (experts, columns, rows): transposed, in a floating-point type
//     experts.down_proj_blocks   (experts, rows, columns / 32, 16): in MXFP4, two codes a byte, the
//                                first one in the low half
//     experts.down_proj_scales   (experts, rows, columns / 32): a code times 2^(scale − 127)
//     experts.down_proj_bias     (experts, rows)
//
// The codes are the 16 values of a float with one sign, two exponent and one mantissa bit. In
// gate_up_proj the rows of gate and up alternate; here gate's come first, then up's.

#pragma once

#include "train/files/safetensors.h"

struct stacked {
    int64_t experts, rows, columns; // given; columns 0: a bias
    bool alternates;                // given: rows of two linears, in turn
    int64_t expert;
    const struct safetensors_tensor *tensor; // of all experts: values or, in MXFP4, codes
    const struct safetensors_tensor *scales; // NULL: not in MXFP4
};

// The name of the tensor that holds a matrix or bias of this name, and of which expert it is.
const char *stacked_name(struct arena *arena, const char *name, int64_t *expert);

enum err stacked_find(struct stacked *out, struct arena *arena, const struct safetensors *in,
                      const char *name);

// The expert's own bytes, which follow each other; of MXFP4 its codes.
const char *stacked_at(const struct stacked *in);
size_t stacked_bytes(const struct stacked *in);

// Elements first to first + count of the matrix, row by row, from those bytes.
void stacked_read(float *out, const struct stacked *in, const char *bytes, int64_t first,
                  int64_t count);

// The way back, without quantization: the expert's whole matrix as a file has it.
void stacked_arrange(float *out, const struct stacked *of, const float *values);

// Where a row of the matrix lies among those of the file.
int64_t stacked_row(const struct stacked *of, int64_t row);

bool stacked_is_finite(const struct stacked *in, const char *bytes);
