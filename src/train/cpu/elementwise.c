// Zeroing, casting, adding, biases and moving rows.

#include "train/cpu/cpu.h"

#include <assert.h>

void cpu_zero(struct device *device, struct tensor out)
{
    (void)device;
    memset(out.at, 0, (size_t)tensor_bytes(out)); // all zero bits are 0.0 in each type
}

void cpu_cast(struct device *device, struct tensor out, struct tensor in)
{
    (void)device;
    assert(tensor_count(out) == tensor_count(in));
    int64_t count = tensor_count(in);
    out = tensor_shape(out, 1, count);
    in = tensor_shape(in, 1, count);
#pragma omp parallel for if (count > CPU_PARALLEL)
    for (int64_t c = 0; c < count; c += TENSOR_CHUNK) {
        double x[TENSOR_CHUNK];
        tensor_load(x, in, 0, c, tensor_chunk(count, c));
        tensor_store(out, 0, c, x, tensor_chunk(count, c));
    }
}

void cpu_add(struct device *device, struct tensor sum, struct tensor a, struct tensor b)
{
    (void)device;
    int64_t count = tensor_count(sum);
    sum = tensor_shape(sum, 1, count);
    a = tensor_shape(a, 1, count);
    b = tensor_shape(b, 1, count);
#pragma omp parallel for if (count > CPU_PARALLEL)
    for (int64_t c = 0; c < count; c += TENSOR_CHUNK) {
        int64_t n = tensor_chunk(count, c);
        double x[TENSOR_CHUNK], y[TENSOR_CHUNK];
        tensor_load(x, a, 0, c, n);
        tensor_load(y, b, 0, c, n);
        for (int64_t i = 0; i < n; i++)
            x[i] += y[i];
        tensor_store(sum, 0, c, x, n);
    }
}

void cpu_bias_forward(struct device *device, struct tensor y, struct tensor bias)
{
    (void)device;
#pragma omp parallel for if (tensor_count(y) > CPU_PARALLEL)
    for (int64_t t = 0; t < y.rows; t++)
        for (int64_t c = 0; c < y.columns; c += TENSOR_CHUNK) {
            int64_t n = tensor_chunk(y.columns, c);
            double x[TENSOR_CHUNK], b[TENSOR_CHUNK];
            tensor_load(x, y, t, c, n);
            tensor_load(b, bias, 0, c, n);
            for (int64_t i = 0; i < n; i++)
                x[i] += b[i];
            tensor_store(y, t, c, x, n);
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
