// SPDX-License-Identifier: Apache-2.0
// The magnitudes of adapted linears (DoRA): each output has the length m in place of its row's own.
//
//     n_j = ‖w_j + s · (b a)_j‖,  out_j = y_j · m_j / n_j,  where y = x (w + s · b a)ᵀ
//     dm_j = Σₜ dout_j · y_j / n_j,  dy_j = dout_j · m_j / n_j
//
// As PEFT does, n is taken for a constant: no gradient flows through it.

#include "train/cpu/cpu.h"

#include <math.h>

// A piece of row j of w + s · b a.
static void load_row(double *out, struct tensor w, struct tensor b, struct tensor a, double scale,
                     int64_t j, int64_t column, int64_t n)
{
    double factors[TENSOR_CHUNK];
    tensor_load(out, w, j, column, n);
    for (int64_t k = 0; k < a.rows; k++) {
        double factor = scale * tensor_get(b, j, k);
        tensor_load(factors, a, k, column, n);
        for (int64_t i = 0; factor != 0 && i < n; i++)
            out[i] += factor * factors[i];
    }
}

void cpu_row_norms(struct device *device, struct tensor norms, struct tensor w, struct tensor b,
                   struct tensor a, double scale)
{
    (void)device;
#pragma omp parallel for if (tensor_count(w) > CPU_PARALLEL)
    for (int64_t j = 0; j < w.rows; j++) {
        double squares = 0, row[TENSOR_CHUNK];
        for (int64_t c = 0; c < w.columns; c += TENSOR_CHUNK) {
            int64_t n = tensor_chunk(w.columns, c);
            load_row(row, w, b, a, scale, j, c, n);
            for (int64_t i = 0; i < n; i++)
                squares += row[i] * row[i];
        }
        squares = sqrt(squares);
        tensor_store(norms, 0, j, &squares, 1);
    }
}

// m / n of some columns; a row of zeros stays one, whatever its magnitude.
static void load_ratios(double *out, struct tensor m, struct tensor norms, int64_t column,
                        int64_t n)
{
    double lengths[TENSOR_CHUNK];
    tensor_load(out, m, 0, column, n);
    tensor_load(lengths, norms, 0, column, n);
    for (int64_t i = 0; i < n; i++)
        out[i] = lengths[i] > 0 ? out[i] / lengths[i] : 1;
}

void cpu_magnify(struct device *device, struct tensor y, struct tensor m, struct tensor norms)
{
    (void)device;
#pragma omp parallel for if (tensor_count(y) > CPU_PARALLEL)
    for (int64_t i = 0; i < cpu_pieces(y); i++) {
        struct cpu_piece piece = cpu_piece(y, i);
        double x[TENSOR_CHUNK], ratios[TENSOR_CHUNK];
        tensor_load(x, y, piece.row, piece.column, piece.count);
        load_ratios(ratios, m, norms, piece.column, piece.count);
        for (int64_t j = 0; j < piece.count; j++)
            x[j] *= ratios[j];
        tensor_store(y, piece.row, piece.column, x, piece.count);
    }
}

void cpu_magnify_backward(struct device *device, struct tensor dm, struct tensor dy,
                          struct tensor y, struct tensor m, struct tensor norms)
{
#pragma omp parallel for if (tensor_count(y) > CPU_PARALLEL)
    for (int64_t j = 0; j < y.columns; j++) {
        double sum = 0, before = tensor_get(dm, 0, j), length = tensor_get(norms, 0, j);
        for (int64_t t = 0; t < y.rows; t++)
            sum += tensor_get(dy, t, j) * tensor_get(y, t, j);
        before += length > 0 ? sum / length : 0;
        tensor_store(dm, 0, j, &before, 1);
    }
    cpu_magnify(device, dy, m, norms);
}
