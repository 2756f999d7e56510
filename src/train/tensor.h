// SPDX-License-Identifier: Apache-2.0
// tensor: a matrix somewhere in memory, with its element type.
//
// Everything the engine computes on is rows × columns: tokens by width, outputs by inputs. A tensor
// is a view: it owns nothing and is passed by value; a NULL address means "none". Rows lie `stride`
// elements apart, so that a range of columns of a wider matrix is a tensor too.
//
//     struct tensor x = tensor_of(at, DTYPE_F32, tokens, width); // (T, C)
//     struct tensor k = tensor_columns(qkv, query_width, key_width);
//     tensor_load(values, x, row, 0, width);                     // as doubles, from any type
//
// Loading and storing convert: an operation of the CPU backend is written once, in doubles, for all
// element types.

#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

enum dtype { DTYPE_F32, DTYPE_BF16, DTYPE_F64, DTYPE_F8 /* e4m3 */ };
extern const char *const dtype_names[]; // "fp32", "bf16", "fp64", "fp8", NULL
int64_t dtype_bytes(enum dtype dtype);

struct tensor {
    void *at;
    enum dtype dtype;
    int64_t rows, columns;
    int64_t stride; // elements from a row to the next
};

struct tensor tensor_of(void *at, enum dtype dtype, int64_t rows, int64_t columns);
int64_t tensor_bytes(struct tensor tensor);                                   // of its elements
int64_t tensor_count(struct tensor tensor);                                   // of elements
bool tensor_is_dense(struct tensor tensor);                                   // rows without gaps
struct tensor tensor_rows(struct tensor tensor, int64_t first, int64_t rows); // a view
struct tensor tensor_columns(struct tensor tensor, int64_t first, int64_t columns); // a view
struct tensor tensor_flat(struct tensor tensor); // a dense tensor as a single row

void tensor_load(double *out, struct tensor in, int64_t row, int64_t column, int64_t count);
void tensor_store(struct tensor out, int64_t row, int64_t column, const double *in, int64_t count);

static inline double tensor_get(struct tensor in, int64_t row, int64_t column)
{
    double value;
    tensor_load(&value, in, row, column, 1);
    return value;
}

static inline void tensor_set(struct tensor out, int64_t row, int64_t column, double value)
{
    tensor_store(out, row, column, &value, 1);
}

enum { TENSOR_CHUNK = 256 }; // columns that an operation converts at a time

static inline int64_t tensor_chunk(int64_t columns, int64_t column)
{
    return columns - column < TENSOR_CHUNK ? columns - column : (int64_t)TENSOR_CHUNK;
}

#ifdef __cplusplus
}
#endif
