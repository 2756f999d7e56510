// SPDX-License-Identifier: Apache-2.0
// Products by OpenBLAS, loaded by the first command that needs them: before main() it would start a
// thread for each core, and all of them would spin through commands that multiply nothing.

#define _GNU_SOURCE // MAP_ANONYMOUS

#include "train/cpu/product.h"

#include <cblas.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static __typeof__(cblas_sgemm) *sgemm;
static __typeof__(cblas_dgemm) *dgemm;
static __typeof__(openblas_get_corename) *corename;

static const struct {
    const char *name;
    void *slot;
} symbols[] = {
    { "cblas_sgemm", &sgemm },
    { "cblas_dgemm", &dgemm },
    { "openblas_get_corename", &corename },
};

static bool find_symbols(void *library)
{
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (!symbol)
            return false;
        memcpy(symbols[i].slot, &symbol, sizeof symbol); // ISO C has no cast to a function
    }
    return true;
}

// With one thread, ours, and none of its own. What the user set is there again afterwards: a
// trainer that we start may want it.
static void *open_library(const char *name)
{
    static const char threads[] = "OPENBLAS_NUM_THREADS";
    const char *set = getenv(threads);
    char *former = set ? strdup(set) : NULL;
    setenv(threads, "1", 1);
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (former)
        setenv(threads, former, 1);
    else if (!set)
        unsetenv(threads);
    free(former);
    return library;
}

static enum err refuse(void)
{
    const char *said = dlerror(), *why = said ? said : "it lacks a function";
    if (strstr(why, "map segment") || strstr(why, "memory"))
        return fail(ERR_MEMORY, "too little memory to load OpenBLAS: %s", why);
    return fail(ERR_UNAVAILABLE,
                "no OpenBLAS for training on the CPU: %s; install libopenblas0, or build with make "
                "OPENBLAS=0",
                why);
}

static enum err load(void)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; // ranks may be threads
    static bool is_loaded;
    pthread_mutex_lock(&mutex);
    void *library = is_loaded ? NULL : open_library("libopenblas.so.0");
    is_loaded = is_loaded || (library && find_symbols(library));
    enum err err = is_loaded ? OK : refuse();
    pthread_mutex_unlock(&mutex);
    return err;
}

static CBLAS_TRANSPOSE transpose_flag(bool transposed)
{
    return transposed ? CblasTrans : CblasNoTrans;
}

void product_f32(float *c, const float *a, const float *b, const struct product *p)
{
    sgemm(CblasRowMajor, transpose_flag(p->a_transposed), transpose_flag(p->b_transposed),
          (int)p->m, (int)p->n, (int)p->k, (float)p->alpha, a, (int)p->a_stride, b,
          (int)p->b_stride, (float)p->beta, c, (int)p->c_stride);
}

void product_f64(double *c, const double *a, const double *b, const struct product *p)
{
    dgemm(CblasRowMajor, transpose_flag(p->a_transposed), transpose_flag(p->b_transposed),
          (int)p->m, (int)p->n, (int)p->k, p->alpha, a, (int)p->a_stride, b, (int)p->b_stride,
          p->beta, c, (int)p->c_stride);
}

struct chain {
    int wanted, started;
};

// The calling thread is one; it starts the next and waits for it, so that all live at once.
static void *start_next(void *argument)
{
    struct chain *chain = argument;
    pthread_t next;
    if (++chain->started < chain->wanted && !pthread_create(&next, NULL, start_next, chain))
        pthread_join(next, NULL);
    return NULL;
}

// OpenMP ends the program where it cannot start a thread, so it is tried before.
static enum err try_threads(int workers)
{
    struct chain chain = { .wanted = workers };
    start_next(&chain);
    if (chain.started == workers)
        return OK;
    return fail(ERR_MEMORY,
                "too little memory for %d threads; raise the limits on address space (ulimit -v) "
                "and on processes (ulimit -u), or set OMP_NUM_THREADS=%d",
                workers, chain.started);
}

// OpenBLAS gives each thread that calls it a buffer, at its first product. Where there is no memory
// for one it tries again forever. So we look whether there is room for all of them, and let it take
// them at once. The threads are started before: their stacks take room too.
static enum err take_buffers(int workers)
{
    enum { BUFFER = 128 << 20, ROWS = 64 }; // the size since OpenBLAS 0.3.10
    TRY(try_threads(workers));
#pragma omp parallel num_threads(workers)
    {
#pragma omp barrier
    } size_t size = (size_t)workers * BUFFER;
    void *room = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return fail(
            ERR_MEMORY,
            "too little memory for OpenBLAS: %d threads want %d MiB each; raise the limit on "
            "address space (ulimit -v)",
            workers, BUFFER >> 20);
    munmap(room, size);
#pragma omp parallel num_threads(workers)
    {
        float matrix[ROWS * ROWS] = { 0 }, out[ROWS * ROWS];
        sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, ROWS, ROWS, ROWS, 1, matrix, ROWS, matrix,
              ROWS, 0, out, ROWS);
    }
    return OK;
}

// An OpenBLAS that was built with OpenMP uses only the calling thread inside a parallel region.
enum err product_begin(int workers)
{
    TRY(load());
    return take_buffers(workers);
}

// OpenBLAS treats a processor newer than itself as the oldest one it knows: Debian 12's version
// runs SSE kernels on a Xeon with AVX-512, at a quarter of the speed. It reads the variable once,
// as it is loaded.
const char *product_better_kernels(void)
{
#ifdef __x86_64__
    if (getenv(PRODUCT_KERNELS) || load() || strcmp(corename(), "Prescott"))
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
