// SPDX-License-Identifier: Apache-2.0
// Products in plain C, for machines without OpenBLAS: rows of c are built from rows of b.

#include "train/cpu/product.h"

#include <stddef.h>

#define ELEMENT(matrix, stride, transposed, row, column) \
    ((transposed) ? (matrix)[(column) * (stride) + (row)] : (matrix)[(row) * (stride) + (column)])

void product_f32(float *c, const float *a, const float *b, const struct product *p)
{
    for (int64_t i = 0; i < p->m; i++) {
        float *row = c + i * p->c_stride;
        for (int64_t j = 0; j < p->n; j++)
            row[j] = p->beta ? (float)p->beta * row[j] : 0;
        for (int64_t l = 0; l < p->k; l++) {
            float x = (float)p->alpha * ELEMENT(a, p->a_stride, p->a_transposed, i, l);
            for (int64_t j = 0; j < p->n; j++)
                row[j] += x * ELEMENT(b, p->b_stride, p->b_transposed, l, j);
        }
    }
}

void product_f64(double *c, const double *a, const double *b, const struct product *p)
{
    for (int64_t i = 0; i < p->m; i++) {
        double *row = c + i * p->c_stride;
        for (int64_t j = 0; j < p->n; j++)
            row[j] = p->beta ? p->beta * row[j] : 0;
        for (int64_t l = 0; l < p->k; l++) {
            double x = p->alpha * ELEMENT(a, p->a_stride, p->a_transposed, i, l);
            for (int64_t j = 0; j < p->n; j++)
                row[j] += x * ELEMENT(b, p->b_stride, p->b_transposed, l, j);
        }
    }
}

enum err product_begin(int workers)
{
    (void)workers;
    return OK; // nothing to prepare
}

const char *product_better_kernels(void)
{
    return NULL;
}

const char *product_name(void)
{
    return "plain C";
}
