// SPDX-License-Identifier: Apache-2.0
// Products by OpenBLAS.

#include "train/cpu/product.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>

static CBLAS_TRANSPOSE transpose_flag(bool transposed)
{
    return transposed ? CblasTrans : CblasNoTrans;
}

void product_f32(float *c, const float *a, const float *b, const struct product *p)
{
    cblas_sgemm(CblasRowMajor, transpose_flag(p->a_transposed), transpose_flag(p->b_transposed),
                (int)p->m, (int)p->n, (int)p->k, (float)p->alpha, a, (int)p->a_stride, b,
                (int)p->b_stride, (float)p->beta, c, (int)p->c_stride);
}

void product_f64(double *c, const double *a, const double *b, const struct product *p)
{
    cblas_dgemm(CblasRowMajor, transpose_flag(p->a_transposed), transpose_flag(p->b_transposed),
                (int)p->m, (int)p->n, (int)p->k, p->alpha, a, (int)p->a_stride, b, (int)p->b_stride,
                p->beta, c, (int)p->c_stride);
}

// OpenBLAS with OpenMP uses only the calling thread inside a parallel region; setting its number of
// threads would also set that of our loops.
void product_begin(void)
{
    if (openblas_get_parallel() == OPENBLAS_THREAD)
        openblas_set_num_threads(1);
}

// OpenBLAS treats a processor newer than itself as the oldest one it knows: Debian 12's version
// runs SSE kernels on a Xeon with AVX-512, at a quarter of the speed. It reads the variable once,
// before main().
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
