// SPDX-License-Identifier: Apache-2.0
// Converts between the number types of weight files and fp32.

#include "train/storage.h"

#include "base/half.h"

#include <assert.h>
#include <string.h>

static const struct {
    const char *name, *torch;
    size_t bytes;
} types[STORAGE_COUNT] = {
    [STORAGE_F64] = { "F64", "float64", 8 },
    [STORAGE_F32] = { "F32", "float32", 4 },
    [STORAGE_F16] = { "F16", "float16", 2 },
    [STORAGE_BF16] = { "BF16", "bfloat16", 2 },
    [STORAGE_I64] = { "I64", "int64", 8 },
    [STORAGE_I32] = { "I32", "int32", 4 },
    [STORAGE_I16] = { "I16", "int16", 2 },
    [STORAGE_I8] = { "I8", "int8", 1 },
    [STORAGE_U64] = { "U64", "uint64", 8 },
    [STORAGE_U32] = { "U32", "uint32", 4 },
    [STORAGE_U16] = { "U16", "uint16", 2 },
    [STORAGE_U8] = { "U8", "uint8", 1 },
    [STORAGE_BOOL] = { "BOOL", "bool", 1 },
    [STORAGE_F8_E4M3] = { "F8_E4M3", "float8_e4m3fn", 1 },
    [STORAGE_F8_E5M2] = { "F8_E5M2", "float8_e5m2", 1 },
};

const char *storage_name(enum storage type)
{
    return types[type].name;
}

const char *storage_torch_name(enum storage type)
{
    return types[type].torch;
}

bool storage_find(enum storage *type, struct text name)
{
    for (int i = 0; i < STORAGE_COUNT; i++)
        if (text_is(name, types[i].name)) {
            *type = (enum storage)i;
            return true;
        }
    return false;
}

bool storage_find_torch(enum storage *type, struct text name)
{
    for (int i = 0; i < STORAGE_COUNT; i++)
        if (text_is(name, types[i].torch)) {
            *type = (enum storage)i;
            return true;
        }
    return false;
}

size_t storage_bytes(enum storage type)
{
    return types[type].bytes;
}

bool storage_is_real(enum storage type)
{
    return type == STORAGE_F64 || type == STORAGE_F32 || type == STORAGE_F16 ||
           type == STORAGE_BF16;
}

static double load_f64(const void *stored, size_t i)
{
    double value;
    memcpy(&value, (const char *)stored + 8 * i, sizeof value);
    return value;
}

void storage_read(float *out, enum storage type, const void *stored, size_t count)
{
    switch (type) {
    case STORAGE_F32: memcpy(out, stored, count * sizeof *out); break;
    case STORAGE_BF16: half_read_bf16(out, stored, count); break;
    case STORAGE_F16: half_read_fp16(out, stored, count); break;
    default:
        assert(type == STORAGE_F64);
        for (size_t i = 0; i < count; i++)
            out[i] = (float)load_f64(stored, i);
    }
}

void storage_write(void *stored, enum storage type, const float *values, size_t count)
{
    switch (type) {
    case STORAGE_F32: memcpy(stored, values, count * sizeof *values); break;
    case STORAGE_BF16: half_write_bf16(stored, values, count); break;
    case STORAGE_F16: half_write_fp16(stored, values, count); break;
    default:
        assert(type == STORAGE_F64);
        for (size_t i = 0; i < count; i++) {
            double value = (double)values[i];
            memcpy((char *)stored + 8 * i, &value, sizeof value);
        }
    }
}

// A number is not finite if all bits of its exponent are set.
static bool any_16(const char *stored, size_t count, uint16_t exponent)
{
    uint32_t found = 0;
    for (size_t i = 0; i < count; i++) {
        uint16_t value;
        memcpy(&value, stored + 2 * i, sizeof value);
        found |= (value & exponent) == exponent;
    }
    return found;
}

static bool any_32(const char *stored, size_t count)
{
    uint32_t found = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t value;
        memcpy(&value, stored + 4 * i, sizeof value);
        found |= (value & 0x7F800000) == 0x7F800000;
    }
    return found;
}

static bool any_64(const char *stored, size_t count)
{
    uint32_t found = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t value;
        memcpy(&value, stored + 8 * i, sizeof value);
        found |= (value & 0x7FF0000000000000) == 0x7FF0000000000000;
    }
    return found;
}

static bool any_not_finite(enum storage type, const char *stored, size_t count)
{
    switch (type) {
    case STORAGE_F64: return any_64(stored, count);
    case STORAGE_F32: return any_32(stored, count);
    case STORAGE_F16: return any_16(stored, count, 0x7C00);
    case STORAGE_BF16: return any_16(stored, count, 0x7F80);
    default: return false;
    }
}

size_t storage_first_not_finite(enum storage type, const void *stored, size_t count)
{
    enum { PIECE = 4096 }; // checked as a whole, which is fast, then one by one
    const char *at = stored;
    size_t bytes = storage_bytes(type);
    for (size_t i = 0; i < count; i += PIECE) {
        size_t here = count - i < PIECE ? count - i : PIECE;
        if (!any_not_finite(type, at + i * bytes, here))
            continue;
        while (!any_not_finite(type, at + i * bytes, 1))
            i++;
        return i;
    }
    return count;
}
