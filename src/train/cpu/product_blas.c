// Products by OpenBLAS.

#include "train/cpu/product.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>

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

// A processor younger than the library is taken for the oldest it knows: Debian 12's runs SSE
// kernels on a Xeon with AVX-512, a quarter of the speed. It looks at the variable once, before
// main().
const char *product_better_kernels(void)
{
#ifdef __x86_64__
    if (getenv(PRODUCT_KERNELS) || strcmp(openblas_get_corename(), "Prescott"))
        return NULL;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
        return "SkylakeX";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return "Haswell";
#endif
    return NULL;
}

const char *product_name(void)
{
    return "OpenBLAS";
}
