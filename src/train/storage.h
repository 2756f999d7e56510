// SPDX-License-Identifier: Apache-2.0
// storage: the number types of weight files, and their values as fp32.
//
//     storage_read(values, tensor->type, tensor->at, count);
//
// Stored numbers are little-endian, as on every machine that we build for, and may be unaligned.
// The engine computes with fewer types (enum dtype) than a file may hold.

#pragma once

#include "base/text.h"

enum storage {
    STORAGE_F64,
    STORAGE_F32,
    STORAGE_F16,
    STORAGE_BF16,
    STORAGE_I64,
    STORAGE_I32,
    STORAGE_I16,
    STORAGE_I8,
    STORAGE_U64,
    STORAGE_U32,
    STORAGE_U16,
    STORAGE_U8,
    STORAGE_BOOL,
    STORAGE_F8_E4M3,
    STORAGE_F8_E5M2,
    STORAGE_COUNT,
};

const char *storage_name(enum storage type);             // as safetensors spells it: "BF16"
const char *storage_torch_name(enum storage type);       // as torch does: "bfloat16"; NULL if none
bool storage_find(enum storage *type, struct text name); // by its name in safetensors
bool storage_find_torch(enum storage *type, struct text name); // by its name in torch
size_t storage_bytes(enum storage type);
bool storage_is_real(enum storage type); // F64, F32, F16 and BF16: the types of the functions below

void storage_read(float *out, enum storage type, const void *stored, size_t count);
void storage_write(void *stored, enum storage type, const float *values, size_t count);

// The index of the first NaN or infinity; count if all are finite.
size_t storage_first_not_finite(enum storage type, const void *stored, size_t count);
