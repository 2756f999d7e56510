// product: the matrix products under the CPU's matmul, by OpenBLAS or in plain C.
//
// c = alpha · op(a) × op(b) + beta · c, row-major, op being the matrix or its transpose; op(a) is
// (m, k), op(b) is (k, n). Strides are elements between rows as they are stored. One of
// product_blas.c and product_plain.c is linked. With beta 0, c may hold anything.
//
// A product runs on the thread that calls it: the callers' loops are the only pool, so that no two
// wait for the same cores.

#pragma once

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

// Larger ones (m · n · k) have to be called in a parallel region: outside, an OpenBLAS built on
// OpenMP would divide them by the number of threads.
enum { PRODUCT_ALONE = 1 << 18 };

void product_begin(void); // before the first

// What PRODUCT_KERNELS has to say in the environment of a program for kernels that suit this
// processor; NULL where those it was started with do.
#define PRODUCT_KERNELS "OPENBLAS_CORETYPE"
const char *product_better_kernels(void);

const char *product_name(void); // "OpenBLAS", "plain C"
