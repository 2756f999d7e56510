// SPDX-License-Identifier: Apache-2.0
// Zeroing, casting, scaling, filling, adding, biases, gather and scatter.

#include "train/cpu/cpu.h"

#include "train/counter_rng.h"

#include <assert.h>
#include <math.h>
#include <string.h>

void cpu_zero(struct device *device, struct tensor out)
{
    (void)device;
    if (tensor_is_dense(out))
        out = tensor_flat(out);
    for (int64_t t = 0; t < out.rows; t++) // all zero bits are 0.0 in each type
        memset((char *)out.at + t * out.stride * dtype_bytes(out.dtype), 0,
               (size_t)(out.columns * dtype_bytes(out.dtype)));
}

static void copy_bits(struct tensor out, struct tensor in, struct cpu_piece at)
{
    int64_t size = dtype_bytes(in.dtype);
    memmove((char *)out.at + (at.row * out.stride + at.column) * size,
            (char *)in.at + (at.row * in.stride + at.column) * size, (size_t)(at.count * size));
}

void cpu_cast(struct device *device, struct tensor out, struct tensor in)
{
    (void)device;
    assert(out.rows == in.rows && out.columns == in.columns);
#pragma omp parallel for if (tensor_count(in) > CPU_PARALLEL)
    for (int64_t i = 0; i < cpu_pieces(in); i++) {
        struct cpu_piece at = cpu_piece(in, i);
        double x[TENSOR_CHUNK];
        if (in.dtype == out.dtype) { // any bits, also those that are no number
            copy_bits(out, in, at);
            continue;
        }
        tensor_load(x, in, at.row, at.column, at.count);
        tensor_store(out, at.row, at.column, x, at.count);
    }
}

void cpu_scale(struct device *device, struct tensor x, double factor)
{
    (void)device;
#pragma omp parallel for if (tensor_count(x) > CPU_PARALLEL)
    for (int64_t i = 0; i < cpu_pieces(x); i++) {
        struct cpu_piece at = cpu_piece(x, i);
        double values[TENSOR_CHUNK];
        tensor_load(values, x, at.row, at.column, at.count);
        for (int64_t j = 0; j < at.count; j++)
            values[j] *= factor;
        tensor_store(x, at.row, at.column, values, at.count);
    }
}

static double sample(enum fill fill, double scale, uint64_t key, uint64_t position)
{
    if (fill == FILL_CONSTANT)
        return scale;
    if (fill == FILL_UNIFORM)
        return scale * (2 * counter_rng_uniform(key, position) - 1);
    double radius = sqrt(-2 * log(1 - counter_rng_uniform(key, 2 * position)));
    return scale * radius * cos(COUNTER_RNG_TWO_PI * counter_rng_uniform(key, 2 * position + 1));
}

void cpu_fill(struct device *device, struct tensor out, enum fill fill, double scale, uint64_t key)
{
    (void)device;
#pragma omp parallel for if (tensor_count(out) > CPU_PARALLEL)
    for (int64_t i = 0; i < cpu_pieces(out); i++) {
        struct cpu_piece at = cpu_piece(out, i);
        double x[TENSOR_CHUNK];
        uint64_t position = (uint64_t)(at.row * out.columns + at.column);
        for (int64_t j = 0; j < at.count; j++)
            x[j] = sample(fill, scale, key, position + (uint64_t)j);
        tensor_store(out, at.row, at.column, x, at.count);
    }
}

void cpu_add(struct device *device, struct tensor sum, struct tensor a, struct tensor b)
{
    (void)device;
#pragma omp parallel for if (tensor_count(sum) > CPU_PARALLEL)
    for (int64_t i = 0; i < cpu_pieces(sum); i++) {
        struct cpu_piece at = cpu_piece(sum, i);
        double x[TENSOR_CHUNK], y[TENSOR_CHUNK];
        tensor_load(x, a, at.row, at.column, at.count);
        tensor_load(y, b, at.row, at.column, at.count);
        for (int64_t j = 0; j < at.count; j++)
            x[j] += y[j];
        tensor_store(sum, at.row, at.column, x, at.count);
    }
}

void cpu_bias_forward(struct device *device, struct tensor y, struct tensor bias)
{
    (void)device;
#pragma omp parallel for if (tensor_count(y) > CPU_PARALLEL)
    for (int64_t i = 0; i < cpu_pieces(y); i++) {
        struct cpu_piece at = cpu_piece(y, i);
        double x[TENSOR_CHUNK], b[TENSOR_CHUNK];
        tensor_load(x, y, at.row, at.column, at.count);
        tensor_load(b, bias, 0, at.column, at.count);
        for (int64_t j = 0; j < at.count; j++)
            x[j] += b[j];
        tensor_store(y, at.row, at.column, x, at.count);
    }
}

void cpu_bias_backward(struct device *device, struct tensor dbias, struct tensor dy)
{
    (void)device;
#pragma omp parallel for if (tensor_count(dy) > CPU_PARALLEL)
    for (int64_t c = 0; c < dy.columns; c += TENSOR_CHUNK) {
        int64_t n = tensor_chunk(dy.columns, c);
        double x[TENSOR_CHUNK], sum[TENSOR_CHUNK];
        tensor_load(sum, dbias, 0, c, n);
        for (int64_t t = 0; t < dy.rows; t++) {
            tensor_load(x, dy, t, c, n);
            for (int64_t i = 0; i < n; i++)
                sum[i] += x[i];
        }
        tensor_store(dbias, 0, c, sum, n);
    }
}

static void copy_row(struct tensor out, int64_t to, struct tensor in, int64_t from)
{
    for (int64_t c = 0; c < in.columns; c += TENSOR_CHUNK) {
        double x[TENSOR_CHUNK];
        tensor_load(x, in, from, c, tensor_chunk(in.columns, c));
        tensor_store(out, to, c, x, tensor_chunk(in.columns, c));
    }
}

void cpu_gather(struct device *device, struct tensor out, struct tensor in, const int32_t *rows)
{
    (void)device;
#pragma omp parallel for if (tensor_count(out) > CPU_PARALLEL)
    for (int64_t i = 0; i < out.rows; i++)
        copy_row(out, i, in, rows[i]);
}

void cpu_scatter(struct device *device, struct tensor out, struct tensor in, const int32_t *rows)
{
    (void)device;
#pragma omp parallel for if (tensor_count(in) > CPU_PARALLEL)
    for (int64_t i = 0; i < in.rows; i++)
        copy_row(out, rows[i], in, i);
}
