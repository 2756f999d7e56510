// SPDX-License-Identifier: Apache-2.0
// Views of matrices, and their elements as doubles.

#include "train/tensor.h"

#include "base/half.h"

#include <assert.h>
#include <stddef.h>

const char *const dtype_names[] = { "fp32", "bf16", "fp64", "fp8", NULL };

int64_t dtype_bytes(enum dtype dtype)
{
    static const int64_t bytes[] = { 4, 2, 8, 1 };
    return bytes[dtype];
}

struct tensor tensor_of(void *at, enum dtype dtype, int64_t rows, int64_t columns)
{
    return (struct tensor){ at, dtype, rows, columns, columns };
}

int64_t tensor_count(struct tensor tensor)
{
    return tensor.rows * tensor.columns;
}

int64_t tensor_bytes(struct tensor tensor)
{
    return tensor_count(tensor) * dtype_bytes(tensor.dtype);
}

bool tensor_is_dense(struct tensor tensor)
{
    return tensor.rows <= 1 || tensor.stride == tensor.columns;
}

static void *moved(struct tensor tensor, int64_t elements)
{
    return tensor.at ? (char *)tensor.at + elements * dtype_bytes(tensor.dtype) : NULL;
}

struct tensor tensor_rows(struct tensor tensor, int64_t first, int64_t rows)
{
    assert(first >= 0 && first + rows <= tensor.rows);
    tensor.at = moved(tensor, first * tensor.stride);
    tensor.rows = rows;
    return tensor;
}

struct tensor tensor_columns(struct tensor tensor, int64_t first, int64_t columns)
{
    assert(first >= 0 && first + columns <= tensor.columns);
    tensor.at = moved(tensor, first);
    tensor.columns = columns;
    return tensor;
}

struct tensor tensor_flat(struct tensor tensor)
{
    assert(tensor_is_dense(tensor));
    return tensor_of(tensor.at, tensor.dtype, 1, tensor_count(tensor));
}

void tensor_load(double *out, struct tensor in, int64_t row, int64_t column, int64_t count)
{
    int64_t first = row * in.stride + column;
    switch (in.dtype) {
    case DTYPE_F32:
        for (int64_t i = 0; i < count; i++)
            out[i] = ((const float *)in.at)[first + i];
        break;
    case DTYPE_BF16:
        for (int64_t i = 0; i < count; i++)
            out[i] = half_from_bf16(((const uint16_t *)in.at)[first + i]);
        break;
    case DTYPE_F8:
        for (int64_t i = 0; i < count; i++)
            out[i] = half_from_f8(((const uint8_t *)in.at)[first + i]);
        break;
    default: memcpy(out, (const double *)in.at + first, (size_t)count * sizeof *out); break;
    }
}

void tensor_store(struct tensor out, int64_t row, int64_t column, const double *in, int64_t count)
{
    int64_t first = row * out.stride + column;
    switch (out.dtype) {
    case DTYPE_F32:
        for (int64_t i = 0; i < count; i++)
            ((float *)out.at)[first + i] = (float)in[i];
        break;
    case DTYPE_BF16:
        for (int64_t i = 0; i < count; i++)
            ((uint16_t *)out.at)[first + i] = half_to_bf16((float)in[i]);
        break;
    case DTYPE_F8:
        for (int64_t i = 0; i < count; i++)
            ((uint8_t *)out.at)[first + i] = half_to_f8((float)in[i]);
        break;
    default: memcpy((double *)out.at + first, in, (size_t)count * sizeof *in); break;
    }
}
