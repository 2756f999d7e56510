// SPDX-License-Identifier: Apache-2.0
// Products by OpenBLAS.

#define _GNU_SOURCE // MAP_ANONYMOUS

#include "train/cpu/product.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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

// OpenBLAS gives each thread that calls it a buffer, at its first product, and each of its own that
// it starts before main(). Where there is no memory for one it tries again forever. So we look
// whether there is room for all of them, and let it take ours at once.
static enum err take_buffers(int workers)
{
    enum { BUFFER = 32 << 20, ROWS = 64 };
    size_t size = 2 * (size_t)workers * BUFFER;
    void *room = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return fail(
            ERR_DEVICE_MEMORY,
            "too little memory for OpenBLAS: %d threads want %d MiB each; raise the limit on "
            "address space (ulimit -v)",
            workers, 2 * BUFFER >> 20);
    munmap(room, size);
#pragma omp parallel num_threads(workers)
    {
        float matrix[ROWS * ROWS] = { 0 }, out[ROWS * ROWS];
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, ROWS, ROWS, ROWS, 1, matrix, ROWS,
                    matrix, ROWS, 0, out, ROWS);
    }
    return OK;
}

// OpenBLAS with OpenMP uses only the calling thread inside a parallel region; setting its number of
// threads would also set that of our loops.
enum err product_begin(int workers)
{
    if (openblas_get_parallel() == OPENBLAS_THREAD)
        openblas_set_num_threads(1);
    return take_buffers(workers);
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
