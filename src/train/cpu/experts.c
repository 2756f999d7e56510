// SPDX-License-Identifier: Apache-2.0
// Products, biases, casts and dequantization for each expert of a mixture, one after another.

#include "train/cpu/cpu.h"

static struct tensor matrix_of(struct expert_matrices all, int64_t index)
{
    struct tensor out = all.each;
    out.at = (char *)out.at + index * all.step * dtype_bytes(out.dtype);
    return out;
}

// The first row of an expert: rows are sorted by expert.
static int64_t first_row(const struct routing *r, int64_t expert)
{
    int64_t row = 0;
    for (int64_t e = 0; e < expert; e++)
        row += r->counts[e];
    return row;
}

typedef void (*product)(struct device *, struct tensor, struct tensor, struct tensor, double,
                        double);

static void multiply_rows(struct device *device, product multiply, struct tensor c, struct tensor a,
                          struct expert_matrices b, const struct routing *r, double alpha,
                          double beta)
{
    int64_t row = first_row(r, b.first);
    for (int64_t i = 0; i < b.count; i++) {
        int64_t rows = r->counts[b.first + i];
        multiply(device, tensor_rows(c, row, rows), tensor_rows(a, row, rows), matrix_of(b, i),
                 alpha, beta);
        row += rows;
    }
}

void cpu_experts_nt(struct device *device, struct tensor c, struct tensor a,
                    struct expert_matrices b, const struct routing *r, double alpha, double beta)
{
    multiply_rows(device, cpu_matmul_nt, c, a, b, r, alpha, beta);
}

void cpu_experts_nn(struct device *device, struct tensor c, struct tensor a,
                    struct expert_matrices b, const struct routing *r, double alpha, double beta)
{
    multiply_rows(device, cpu_matmul_nn, c, a, b, r, alpha, beta);
}

void cpu_experts_tn(struct device *device, struct expert_matrices c, struct tensor a,
                    struct tensor b, const struct routing *r, double alpha, double beta)
{
    int64_t row = first_row(r, c.first);
    for (int64_t i = 0; i < c.count; i++) {
        int64_t rows = r->counts[c.first + i];
        if (rows)
            cpu_matmul_tn(device, matrix_of(c, i), tensor_rows(a, row, rows),
                          tensor_rows(b, row, rows), alpha, beta);
        else if (beta == 0)
            cpu_zero(device, matrix_of(c, i));
        row += rows;
    }
}

// --- biases ------------------------------------------------------------------

static double weight_of(struct tensor weight, int64_t row)
{
    double w = 1;
    if (weight.at)
        tensor_load(&w, weight, row, 0, 1);
    return w;
}

// y_row += w · bias
static void add_bias(struct tensor y, int64_t row, struct tensor bias, double w)
{
    for (int64_t c = 0; c < y.columns; c += TENSOR_CHUNK) {
        int64_t n = tensor_chunk(y.columns, c);
        double x[TENSOR_CHUNK], b[TENSOR_CHUNK];
        tensor_load(x, y, row, c, n);
        tensor_load(b, bias, 0, c, n);
        for (int64_t i = 0; i < n; i++)
            x[i] += w * b[i];
        tensor_store(y, row, c, x, n);
    }
}

static double dot_row(struct tensor dy, int64_t row, struct tensor bias)
{
    double sum = 0;
    for (int64_t c = 0; c < dy.columns; c += TENSOR_CHUNK) {
        int64_t n = tensor_chunk(dy.columns, c);
        double x[TENSOR_CHUNK], b[TENSOR_CHUNK];
        tensor_load(x, dy, row, c, n);
        tensor_load(b, bias, 0, c, n);
        for (int64_t i = 0; i < n; i++)
            sum += x[i] * b[i];
    }
    return sum;
}

void cpu_experts_bias_forward(struct device *device, struct tensor y, struct expert_matrices bias,
                              struct tensor weight, const struct routing *r)
{
    (void)device;
    int64_t row = first_row(r, bias.first);
    for (int64_t i = 0; i < bias.count; i++)
        for (int64_t end = row + r->counts[bias.first + i]; row < end; row++)
            add_bias(y, row, matrix_of(bias, i), weight_of(weight, row));
}

// dbias += Σ w · dy over the rows from `row` to `end`, in their order.
static void sum_rows(struct tensor dbias, struct tensor dy, struct tensor weight, int64_t row,
                     int64_t end)
{
    for (int64_t c = 0; c < dy.columns; c += TENSOR_CHUNK) {
        int64_t n = tensor_chunk(dy.columns, c);
        double x[TENSOR_CHUNK], sum[TENSOR_CHUNK];
        tensor_load(sum, dbias, 0, c, n);
        for (int64_t t = row; t < end; t++) {
            double w = weight_of(weight, t);
            tensor_load(x, dy, t, c, n);
            for (int64_t i = 0; i < n; i++)
                sum[i] += w * x[i];
        }
        tensor_store(dbias, 0, c, sum, n);
    }
}

void cpu_experts_bias_backward(struct device *device, struct expert_matrices dbias,
                               struct tensor dweight, struct tensor dy, struct expert_matrices bias,
                               struct tensor weight, const struct routing *r)
{
    (void)device;
    int64_t row = first_row(r, bias.first);
    for (int64_t i = 0; i < bias.count; i++) {
        int64_t end = row + r->counts[bias.first + i];
        if (dbias.each.at)
            sum_rows(matrix_of(dbias, i), dy, weight, row, end);
        for (; row < end; row++) {
            if (!weight.at)
                continue;
            double dw;
            tensor_load(&dw, dweight, row, 0, 1);
            dw += dot_row(dy, row, matrix_of(bias, i));
            tensor_store(dweight, row, 0, &dw, 1);
        }
    }
}

// --- casts and dequantization ------------------------------------------------

void cpu_experts_cast(struct device *device, struct expert_matrices out, struct expert_matrices in)
{
    for (int64_t i = 0; i < out.count; i++)
        if (in.each.at)
            cpu_cast(device, matrix_of(out, i), matrix_of(in, i));
        else
            cpu_zero(device, matrix_of(out, i));
}

// The arrays that begin so many bytes later; the scales are nested.
static struct quantized later(const struct quantized *in, int64_t bytes)
{
    struct quantized out = *in;
    out.codes += bytes;
    out.nested_codes += bytes;
    if (in->is_mxfp4)
        return out;
    out.nested += bytes / (int64_t)sizeof *out.nested;
    out.levels += bytes / (int64_t)sizeof *out.levels;
    out.offset += bytes / (int64_t)sizeof *out.offset;
    return out;
}

void cpu_experts_dequantize(struct device *device, struct expert_matrices out,
                            const struct quantized *in, int64_t step)
{
    for (int64_t i = 0; i < out.count; i++) {
        struct quantized own = later(in, i * step);
        cpu_dequantize(device, matrix_of(out, i), &own);
    }
}
