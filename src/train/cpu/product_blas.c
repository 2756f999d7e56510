// Products by OpenBLAS.

#include "train/cpu/product.h"

#include <cblas.h>

static CBLAS_TRANSPOSE way(bool transposed)
{
    return transposed ? CblasTrans : CblasNoTrans;
}

void product_f32(float *c, const float *a, const float *b, const struct product *p)
{
    cblas_sgemm(CblasRowMajor, way(p->a_transposed), way(p->b_transposed), (int)p->m, (int)p->n,
                (int)p->k, (float)p->alpha, a, (int)p->a_stride, b, (int)p->b_stride,
                (float)p->beta, c, (int)p->c_stride);
}

void product_f64(double *c, const double *a, const double *b, const struct product *p)
{
    cblas_dgemm(CblasRowMajor, way(p->a_transposed), way(p->b_transposed), (int)p->m, (int)p->n,
                (int)p->k, p->alpha, a, (int)p->a_stride, b, (int)p->b_stride, p->beta, c,
                (int)p->c_stride);
}

// OpenBLAS on OpenMP keeps to the calling thread by itself inside a parallel region; to set its
// number would set that of all our loops.
void product_begin(void)
{
    if (openblas_get_parallel() == OPENBLAS_THREAD)
        openblas_set_num_threads(1);
}

const char *product_name(void)
{
    return "OpenBLAS";
}
