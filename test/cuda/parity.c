// SPDX-License-Identifier: Apache-2.0
// cuda-parity [--time] [--self] [--trace] [--small] [--experts N] [--library FILE] [WORD]: each
// operation of the CUDA backend against the CPU's, on ragged and strided shapes; two runs must give
// the same bits. --time prints speeds at the shape of an 8B model, and of a mixture, instead.
// --self holds the CPU against itself, without a GPU; --trace names each run before it starts;
// --small leaves out what is slow under compute-sanitizer. --experts 0 and 1 have the products of
// experts multiplied by mma.sync and by wgmma; otherwise tuning chooses.

#include "test/cuda/parity.h"

#include "base/half.h"
#include "train/counter_rng.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 3, MOST_OUTPUTS = 16 };

enum { SMALL = 20000 };
static bool small; // shapes of at most so many numbers: for compute-sanitizer
static bool trace;

struct parity_memory {
    struct parity_memory *next;
    void *at;
    int64_t bytes;
};

struct parity_outputs {
    int count;
    struct output {
        struct tensor shape; // of at, on the host
        char *at;            // with what lies between the rows
        int64_t bytes;
        bool exact;
    } all[MOST_OUTPUTS];
};

// --- what cases ask for ------------------------------------------------------

static void *take(struct parity *p, int64_t bytes)
{
    struct parity_memory *memory = malloc(sizeof *memory);
    void *at = NULL;
    if (!memory || p->op->allocate(p->device, &at, bytes) != OK) {
        fprintf(stderr, "cuda-parity: %s\n", error_text());
        exit(5);
    }
    *memory = (struct parity_memory){ p->memory, at, bytes };
    p->memory = memory;
    return at;
}

void *parity_upload(struct parity *p, const void *host, int64_t bytes)
{
    void *at = take(p, bytes);
    p->op->upload(p->device, at, host, bytes);
    return at;
}

uint64_t parity_draw(struct parity *p, uint64_t below)
{
    return counter_rng_bits(p->seed++, 0) % below;
}

static struct tensor make(struct parity *p, struct tensor shape, bool random)
{
    int64_t elements = shape.rows * shape.stride, bytes = elements * dtype_bytes(shape.dtype);
    char *host = malloc((size_t)bytes + 1);
    memset(host, 0xFF, (size_t)bytes);
    struct tensor view = shape;
    view.at = host;
    view.columns = shape.stride;
    uint64_t key = p->seed++;
#pragma omp parallel for // drawing takes longer than all products
    for (int64_t r = 0; r < (random ? view.rows : 0); r++)
        for (int64_t c = 0; c < view.columns; c++) {
            uint64_t place = 2 * (uint64_t)(r * view.columns + c);
            double x = sqrt(-2 * log(1 - counter_rng_uniform(key, place))) *
                       cos(COUNTER_RNG_TWO_PI * counter_rng_uniform(key, place + 1));
            tensor_store(view, r, c, &x, 1);
        }
    shape.at = parity_upload(p, host, bytes);
    free(host);
    return shape;
}

static struct tensor strided(struct parity *p, enum dtype dtype, int64_t rows, int64_t columns,
                             bool random)
{
    struct tensor whole = tensor_of(NULL, dtype, rows, columns + p->shape->extra);
    return tensor_columns(make(p, whole, random), p->shape->offset, columns);
}

struct tensor parity_random(struct parity *p, enum dtype dtype, int64_t rows, int64_t columns)
{
    return strided(p, dtype, rows, columns, true);
}

struct tensor parity_room(struct parity *p, enum dtype dtype, int64_t rows, int64_t columns)
{
    return strided(p, dtype, rows, columns, false);
}

struct tensor parity_dense(struct parity *p, enum dtype dtype, int64_t rows, int64_t columns,
                           bool random)
{
    return make(p, tensor_of(NULL, dtype, rows, columns), random);
}

struct tensor parity_number(struct parity *p, double value)
{
    return tensor_of(parity_upload(p, &value, sizeof value), DTYPE_F64, 1, 1);
}

int32_t *parity_integers(struct parity *p, int64_t count, int32_t below)
{
    int32_t *host = malloc((size_t)count * sizeof *host);
    for (int64_t i = 0; i < count; i++)
        host[i] = (int32_t)parity_draw(p, (uint64_t)below);
    int32_t *at = parity_upload(p, host, count * (int64_t)sizeof *host);
    free(host);
    return at;
}

static void keep(struct parity *p, struct tensor out, bool exact)
{
    struct output *output = &p->outputs->all[p->outputs->count++];
    int64_t elements = out.rows ? (out.rows - 1) * out.stride + out.columns : 0;
    int64_t bytes = elements * dtype_bytes(out.dtype);
    if (p->outputs->count > MOST_OUTPUTS)
        abort();
    *output = (struct output){ out, malloc((size_t)bytes + 1), bytes, exact };
    p->op->download(p->device, output->at, out.at, bytes);
    output->shape.at = output->at;
}

void parity_output(struct parity *p, struct tensor out)
{
    keep(p, out, false);
}

void parity_output_exact(struct parity *p, struct tensor out)
{
    keep(p, out, true);
}

void parity_output_bytes(struct parity *p, const void *at, int64_t bytes)
{
    keep(p, tensor_of((void *)at, DTYPE_F8, 1, bytes), true);
}

// --- comparing ---------------------------------------------------------------

struct verdict {
    double worst; // |a − b| over the largest |b|
    const char *wrong;
};

static const char *judge(enum dtype dtype, double aa, double bb, double ab, double difference,
                         double largest, double worst)
{
    if (!(aa < INFINITY && bb < INFINITY))
        return "is not finite";
    if (aa == 0 && bb == 0)
        return NULL;
    if (dtype == DTYPE_F64)
        return sqrt(difference) <= 1e-6 * sqrt(bb) ? NULL : "differs";
    if (dtype == DTYPE_F32)
        return sqrt(difference) <= 1e-5 * sqrt(bb) && worst <= 1e-4 * largest ? NULL : "differs";
    if (fabs(sqrt(aa / bb) - 1) > 1e-2)
        return "has another norm";
    return ab / sqrt(aa * bb) > 0.9995 ? NULL : "points elsewhere";
}

static void compare(struct verdict *verdict, const struct output *gpu, const struct output *cpu)
{
    struct tensor a = gpu->shape, b = cpu->shape;
    int64_t size = dtype_bytes(a.dtype);
    if (cpu->exact && memcmp(gpu->at, cpu->at, (size_t)cpu->bytes))
        verdict->wrong = "has other bytes";
    double aa = 0, bb = 0, ab = 0, difference = 0, largest = 0, worst = 0, x, y;
    for (int64_t r = 0; r < a.rows; r++) {
        for (int64_t c = 0; c < a.columns && !cpu->exact; c++) {
            tensor_load(&x, a, r, c, 1);
            tensor_load(&y, b, r, c, 1);
            aa += x * x;
            bb += y * y;
            ab += x * y;
            difference += (x - y) * (x - y);
            largest = fmax(largest, fabs(y));
            worst = fmax(worst, fabs(x - y));
        }
        int64_t end = (r * a.stride + a.columns) * size;
        if (r + 1 < a.rows &&
            memcmp(gpu->at + end, cpu->at + end, (size_t)((a.stride - a.columns) * size)))
            verdict->wrong = "wrote between rows";
    }
    if (cpu->exact || verdict->wrong)
        return;
    // A single number may be what inputs near 1 cancel to, as the gradient of a norm of one column.
    if (tensor_count(a) == 1 && a.dtype == DTYPE_F32 && worst <= 1e-6)
        return;
    verdict->wrong = judge(a.dtype, aa, bb, ab, difference, largest, worst);
    if (largest > 0)
        verdict->worst = fmax(verdict->worst, worst / largest);
}

// --- running -----------------------------------------------------------------

static void release(struct parity *p)
{
    for (struct parity_memory *next; p->memory; p->memory = next) {
        next = p->memory->next;
        p->op->release(p->device, p->memory->at, p->memory->bytes);
        free(p->memory);
    }
}

static struct verdict run_case(const struct parity_case *one, const struct parity_shape *shape,
                               enum dtype dtype, struct device *cpu, struct device *gpu)
{
    static struct parity_outputs outputs[RUNS];
    struct verdict verdict = { 0 };
    static char problem[512];
    for (int run = 0; run < RUNS; run++) {
        struct device *device = run ? gpu : cpu;
        if (trace)
            fprintf(stderr, "%s, %s, %s on %s\n", one->name, dtype_names[dtype], shape->name,
                    device->name);
        outputs[run].count = 0;
        struct parity p = { device, device->backend, shape, dtype, 1000, NULL, &outputs[run] };
        one->run(&p);
        if (device->backend->sync(device) != OK) {
            snprintf(problem, sizeof problem, "%s", error_text());
            verdict.wrong = problem;
        }
        release(&p);
    }
    for (int i = 0; i < outputs[0].count && !verdict.wrong; i++) {
        compare(&verdict, &outputs[1].all[i], &outputs[0].all[i]);
        if (!verdict.wrong &&
            memcmp(outputs[1].all[i].at, outputs[2].all[i].at, (size_t)outputs[1].all[i].bytes))
            verdict.wrong = "differs from run to run";
    }
    for (int run = 0; run < RUNS; run++)
        for (int i = 0; i < outputs[run].count; i++)
            free(outputs[run].all[i].at);
    return verdict;
}

// One line per operation and type: the worst of all shapes.
static bool run_shapes(const struct parity_case *one, enum dtype dtype, struct device *cpu,
                       struct device *gpu)
{
    double worst = 0;
    bool good = true;
    for (const struct parity_shape *shape = one->shapes; shape->name; shape++) {
        if (small && shape->rows * shape->columns > SMALL)
            continue;
        struct verdict verdict = run_case(one, shape, dtype, cpu, gpu);
        worst = fmax(worst, verdict.worst);
        if (!verdict.wrong)
            continue;
        printf("  %s, %s, %s: %s (worst %.1e)\n", one->name, dtype_names[dtype], shape->name,
               verdict.wrong, verdict.worst);
        good = false;
    }
    printf("%-4s %-24s %-5s worst %.1e\n", good ? "PASS" : "FAIL", one->name, dtype_names[dtype],
           worst);
    fflush(stdout);
    return good;
}

static void run_cases(const struct parity_case *cases, const char *word, struct device *cpu,
                      struct device *gpu, int counts[2])
{
    for (const struct parity_case *one = cases; one->name; one++)
        if (strstr(one->name, word))
            for (const enum dtype *dtype = one->dtypes; (int)*dtype != PARITY_END; dtype++)
                counts[run_shapes(one, *dtype, cpu, gpu)]++;
}

// experts: which kernel multiplies those of a mixture (train/cuda/experts.cu).
static const struct backend *load(const char *path, int experts)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "cuda-parity: %s\n", dlerror());
        return NULL;
    }
    const struct backend *(*get)(int) = NULL;
    void (*choose)(int) = NULL;
    *(void **)&get = dlsym(library, "gpuhours_cuda");
    *(void **)&choose = dlsym(library, "gpuhours_cuda_experts");
    if (choose)
        choose(experts);
    return get ? get(BACKEND_VERSION) : NULL;
}

static int stop(void)
{
    fprintf(stderr, "cuda-parity: %s\n", error_text());
    return 4;
}

int main(int argc, char **argv)
{
    const char *library = "build/libgpuhours-cuda.so", *word = "";
    bool timed = false, self = false;
    int experts = 2;
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--time"))
            timed = true;
        else if (!strcmp(argv[i], "--self"))
            self = true;
        else if (!strcmp(argv[i], "--trace"))
            trace = true;
        else if (!strcmp(argv[i], "--small"))
            small = true;
        else if (!strcmp(argv[i], "--experts") && i + 1 < argc)
            experts = *argv[++i] ? atoi(argv[i]) : experts;
        else if (!strcmp(argv[i], "--library") && i + 1 < argc)
            library = argv[++i];
        else
            word = argv[i];
    struct device cpu, gpu;
    const struct backend *backend = self ? &backend_cpu : load(library, experts);
    if (!backend) {
        fprintf(stderr, "cuda-parity: %s is no CUDA backend of this version\n", library);
        return 4;
    }
    if (backend_cpu.open(&cpu, 0) != OK || backend->open(&gpu, 0) != OK)
        return stop();
    printf("%s, %.1f GiB\n", gpu.name, (double)gpu.total_bytes / (1 << 30));
    if (timed)
        return timing_run(&gpu, word) == OK ? 0 : stop();
    int counts[2] = { 0 };
    char problem[512] = "";
    run_cases(parity_cases, word, &cpu, &gpu, counts);
    run_cases(parity_product_cases, word, &cpu, &gpu, counts);
    run_cases(parity_mixture_cases, word, &cpu, &gpu, counts);
    if (!self && !small && !*word) {
        bool good = parity_limits(&gpu, problem, sizeof problem) == OK;
        printf("%-4s memory and copies %s\n", good ? "PASS" : "FAIL", problem);
        counts[good]++;
    }
    printf("%d passed, %d failed\n", counts[1], counts[0]);
    gpu.backend->close(&gpu);
    cpu.backend->close(&cpu);
    return counts[0] > 0 || !counts[1];
}
