// dtype: the number types of weight files, and their values as fp32.
//
//     enum dtype type;
//     TRY(dtype_find(&type, text_of("BF16")) ...
//     dtype_read(values, DTYPE_BF16, stored, count);
//
// Stored numbers are little-endian, as on every machine we build for, and may lie at any address.

#pragma once

#include "base/text.h"

enum dtype {
    DTYPE_F64,
    DTYPE_F32,
    DTYPE_F16,
    DTYPE_BF16,
    DTYPE_I64,
    DTYPE_I32,
    DTYPE_I16,
    DTYPE_I8,
    DTYPE_U64,
    DTYPE_U32,
    DTYPE_U16,
    DTYPE_U8,
    DTYPE_BOOL,
    DTYPE_F8_E4M3,
    DTYPE_F8_E5M2,
    DTYPE_COUNT,
};

const char *dtype_name(enum dtype type);             // as safetensors spells it: "BF16"
const char *dtype_torch_name(enum dtype type);       // as torch does: "bfloat16"; NULL if none
bool dtype_find(enum dtype *type, struct text name); // by the name of safetensors
bool dtype_find_torch(enum dtype *type, struct text name); // by the name of torch
size_t dtype_bytes(enum dtype type);
bool dtype_is_real(enum dtype type); // F64, F32, F16 and BF16: what the functions below take

void dtype_read(float *out, enum dtype type, const void *stored, size_t count);
void dtype_write(void *stored, enum dtype type, const float *values, size_t count);

// The place of the first NaN or infinity, or count where all are finite.
size_t dtype_first_not_finite(enum dtype type, const void *stored, size_t count);
