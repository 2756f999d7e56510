// SPDX-License-Identifier: Apache-2.0
// product: matrix products for the CPU backend, by OpenBLAS or in plain C.
//
// c = alpha · op(a) × op(b) + beta · c, row-major; op is the matrix or its transpose; op(a) is
// (m, k), op(b) is (k, n). Strides are elements between stored rows. Either product_blas.c or
// product_plain.c is linked. With beta 0, c is not read.
//
// A product runs on the calling thread: only the callers' loops are parallel, so that two thread
// pools never compete for the cores.

#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct product {
    bool a_transposed, b_transposed;
    int64_t m, n, k;
    int64_t a_stride, b_stride, c_stride;
    double alpha, beta;
};

void product_f32(float *c, const float *a, const float *b, const struct product *p);
void product_f64(double *c, const double *a, const double *b, const struct product *p);

// Larger products (m · n · k) must be called in a parallel region: outside, an OpenBLAS built with
// OpenMP would split them, and the bits would depend on the number of threads.
enum { PRODUCT_ALONE = 1 << 18 };

enum err product_begin(int workers); // before the first, by any of so many threads

// The value of the environment variable PRODUCT_KERNELS that selects the right kernels for this
// processor; NULL: the present ones are right.
#define PRODUCT_KERNELS "OPENBLAS_CORETYPE"
const char *product_better_kernels(void);

const char *product_name(void); // "OpenBLAS", "plain C"
