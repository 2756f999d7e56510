// SPDX-License-Identifier: Apache-2.0
// RMSNorm with the addition before it, of whole rows or of pieces of them.
//
//     s = a + b,  r = 1 / √(mean s² + ε),  out = s · r · w
//     ds = r · (w · dout − s · r² · mean(s · w · dout)),  dw = Σₜ dout · s · r
//
// w is the weight plus an offset, which is 0 in most models and 1 in Gemma's.

#include "train/cpu/cpu.h"

#include <math.h>

// A norm covers columns first … first + width − 1 of row t; its rms is in column `index`.
struct piece {
    int64_t t, index, first;
};

static struct piece piece_of(struct tensor x, struct tensor weight, int64_t index)
{
    int64_t pieces = x.columns / weight.columns, piece = index % pieces;
    return (struct piece){ index / pieces, piece, piece * weight.columns };
}

static int64_t count_pieces(struct tensor x, struct tensor weight)
{
    return x.rows * (x.columns / weight.columns);
}

// Adds b to a, stores the sum if there is a b, and returns the sum of its squares.
static double add_up(struct tensor sum, struct tensor a, struct tensor b, struct piece at,
                     int64_t width)
{
    double sum_squares = 0, x[TENSOR_CHUNK], y[TENSOR_CHUNK];
    for (int64_t c = 0; c < width; c += TENSOR_CHUNK) {
        int64_t n = tensor_chunk(width, c), column = at.first + c;
        tensor_load(x, a, at.t, column, n);
        if (b.at) {
            tensor_load(y, b, at.t, column, n);
            for (int64_t i = 0; i < n; i++)
                x[i] += y[i];
            tensor_store(sum, at.t, column, x, n);
            tensor_load(x, sum, at.t, column, n); // as later passes will read it
        }
        for (int64_t i = 0; i < n; i++)
            sum_squares += x[i] * x[i];
    }
    return sum_squares;
}

void cpu_norm_forward(struct device *device, struct tensor sum, struct tensor out,
                      struct tensor rms, struct tensor a, struct tensor b, struct tensor weight,
                      double offset, double epsilon)
{
    (void)device;
    int64_t width = weight.columns;
#pragma omp parallel for if (tensor_count(a) > CPU_PARALLEL)
    for (int64_t index = 0; index < count_pieces(a, weight); index++) {
        struct piece at = piece_of(a, weight, index);
        double r = 1 / sqrt(add_up(sum, a, b, at, width) / (double)width + epsilon);
        tensor_store(rms, at.t, at.index, &r, 1);
        tensor_load(&r, rms, at.t, at.index, 1); // a norm recomputed from rms must equal this one
        for (int64_t c = 0; c < width; c += TENSOR_CHUNK) {
            int64_t n = tensor_chunk(width, c);
            double x[TENSOR_CHUNK], w[TENSOR_CHUNK];
            tensor_load(x, b.at ? sum : a, at.t, at.first + c, n);
            tensor_load(w, weight, 0, c, n);
            for (int64_t i = 0; i < n; i++)
                x[i] *= r * (offset + w[i]);
            tensor_store(out, at.t, at.first + c, x, n);
        }
    }
}

// mean(s · w · dout) of a piece.
static double mean_of(struct tensor dout, struct tensor x, struct tensor weight, double offset,
                      struct piece at)
{
    double sum = 0, s[TENSOR_CHUNK], w[TENSOR_CHUNK], d[TENSOR_CHUNK];
    for (int64_t c = 0; c < weight.columns; c += TENSOR_CHUNK) {
        int64_t n = tensor_chunk(weight.columns, c);
        tensor_load(s, x, at.t, at.first + c, n);
        tensor_load(w, weight, 0, c, n);
        tensor_load(d, dout, at.t, at.first + c, n);
        for (int64_t i = 0; i < n; i++)
            sum += s[i] * (offset + w[i]) * d[i];
    }
    return sum / (double)weight.columns;
}

static void add_weight_gradient(struct tensor dweight, struct tensor dout, struct tensor x,
                                struct tensor rms)
{
#pragma omp parallel for if (tensor_count(x) > CPU_PARALLEL)
    for (int64_t c = 0; c < dweight.columns; c += TENSOR_CHUNK) {
        int64_t n = tensor_chunk(dweight.columns, c);
        double sum[TENSOR_CHUNK], s[TENSOR_CHUNK], d[TENSOR_CHUNK], r;
        tensor_load(sum, dweight, 0, c, n);
        for (int64_t index = 0; index < count_pieces(x, dweight); index++) {
            struct piece at = piece_of(x, dweight, index);
            tensor_load(s, x, at.t, at.first + c, n);
            tensor_load(d, dout, at.t, at.first + c, n);
            tensor_load(&r, rms, at.t, at.index, 1);
            for (int64_t i = 0; i < n; i++)
                sum[i] += d[i] * s[i] * r;
        }
        tensor_store(dweight, 0, c, sum, n);
    }
}

void cpu_norm_backward(struct device *device, struct tensor dx, struct tensor dweight,
                       struct tensor residual, struct tensor dout, struct tensor x,
                       struct tensor rms, struct tensor weight, double offset)
{
    (void)device;
    if (dweight.at)
        add_weight_gradient(dweight, dout, x, rms);
#pragma omp parallel for if (tensor_count(x) > CPU_PARALLEL)
    for (int64_t index = 0; index < count_pieces(x, weight); index++) {
        struct piece at = piece_of(x, weight, index);
        double mean = mean_of(dout, x, weight, offset, at), r;
        tensor_load(&r, rms, at.t, at.index, 1);
        for (int64_t c = 0; c < weight.columns; c += TENSOR_CHUNK) {
            int64_t n = tensor_chunk(weight.columns, c), column = at.first + c;
            double s[TENSOR_CHUNK], w[TENSOR_CHUNK], d[TENSOR_CHUNK], before[TENSOR_CHUNK] = { 0 };
            tensor_load(s, x, at.t, column, n);
            tensor_load(w, weight, 0, c, n);
            tensor_load(d, dout, at.t, column, n);
            if (residual.at)
                tensor_load(before, residual, at.t, column, n);
            for (int64_t i = 0; i < n; i++)
                d[i] = before[i] + r * ((offset + w[i]) * d[i] - s[i] * r * r * mean);
            tensor_store(dx, at.t, column, d, n);
        }
    }
}
