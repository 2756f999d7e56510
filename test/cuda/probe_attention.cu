// SPDX-License-Identifier: Apache-2.0
// Attention on a GPU: correctness and speed of cuDNN's graphs and of the built-in kernels.
//
//     nvcc -gencode arch=compute_90a,code=sm_90a -O3 -std=c++20 -Isrc -o /tmp/probe
//         test/cuda/probe_attention.cu
//         src/train/cuda/attention/attention{,_cudnn,_hopper,_hopper_lists,_kernel,_plain}.cu -ldl
//     /tmp/probe [word of a name]
//
// NO_OWN=1 leaves the built-in kernels out, which take most of the time; ONLY_HOPPER=1 also cuDNN.
// LONG=2048: documents above so many tokens are held against the built-in kernels, not plain loops.
// "backend" takes our own kernel for 9.0 where the engine does, "cuDNN" and "any order" never; "for
// 9.0" is that kernel alone, after the built-in forward pass.
// Documents above 16,384 tokens run only if they are asked for by a word of their name, and are
// held against the built-in kernels, because plain loops would take minutes.

#include "train/cuda/attention/attention_hopper.h"
#include "train/cuda/attention/attention_kernel.h"
#include "train/cuda/cuda.h"

#include <algorithm>
#include <cuda_bf16.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <vector>

typedef __nv_bfloat16 bf16;
static int failures;

enum { LONG = 16384 }; // tokens
enum { PROCESSORS = 132 };
enum { GUARD = 64 }; // rows after the last token, which must not change

#define OK(call)                                                                       \
    do {                                                                               \
        cudaError_t status = (call);                                                   \
        if (status != cudaSuccess)                                                     \
            printf("    CUDA at line %d: %s\n", __LINE__, cudaGetErrorString(status)); \
    } while (0)

static __global__ void fill(bf16 *out, size_t n, uint32_t key)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x) {
        uint32_t x = (uint32_t)i * 2654435761u + key * 40503u;
        x ^= x >> 16, x *= 0x85ebca6bu, x ^= x >> 13, x *= 0xc2b2ae35u, x ^= x >> 16;
        out[i] = __float2bfloat16((float)(x & 0xffff) / 32768.f - 1);
    }
}

struct buffers { // what an implementation writes
    bf16 *out, *dqkv;
    float *lse, *delta;
};

struct problem {
    const char *name;
    int heads, kv_heads, head_size;
    std::vector<int> sizes;
    int tokens, wide, narrow;
    int64_t longest;
    double flops; // of the forward pass
    std::vector<struct span> spans;
    bf16 *qkv, *dout;
    int32_t *low, *high;
    struct span *device_spans;
};

static struct buffers buffers_of(const problem &p)
{
    struct buffers b;
    size_t rows = p.tokens + GUARD;
    OK(cudaMalloc(&b.out, rows * p.narrow * 2));
    OK(cudaMalloc(&b.dqkv, rows * p.wide * 2));
    OK(cudaMalloc(&b.lse, rows * p.heads * 4));
    OK(cudaMalloc(&b.delta, rows * p.heads * 4));
    OK(cudaMemset(b.out, 0x55, rows * p.narrow * 2));
    OK(cudaMemset(b.dqkv, 0x55, rows * p.wide * 2));
    OK(cudaMemset(b.lse, 0x55, rows * p.heads * 4));
    return b;
}

static void release(struct buffers b)
{
    cudaFree(b.out), cudaFree(b.dqkv), cudaFree(b.lse), cudaFree(b.delta);
}

template <typename T> static std::vector<T> host(const T *at, size_t n)
{
    std::vector<T> x(n);
    OK(cudaMemcpy(x.data(), at, n * sizeof(T), cudaMemcpyDeviceToHost));
    return x;
}

static double number(bf16 x)
{
    return __bfloat162float(x);
}

static double number(float x)
{
    return x;
}

// ‖a − b‖ / ‖b‖ over some columns of every row.
template <typename T>
static double error(const std::vector<T> &a, const std::vector<T> &b, int rows, int stride,
                    int first, int columns)
{
    double diff = 0, norm = 0;
    for (int r = 0; r < rows; r++)
        for (int c = first; c < first + columns; c++) {
            double x = number(a[(size_t)r * stride + c]), y = number(b[(size_t)r * stride + c]);
            diff += (x - y) * (x - y), norm += y * y;
        }
    return sqrt(diff / norm);
}

template <typename T> static bool untouched(const std::vector<T> &a, size_t from)
{
    const unsigned char *x = (const unsigned char *)(a.data() + from),
                        *end = (const unsigned char *)(a.data() + a.size());
    while (x < end && *x == 0x55)
        x++;
    return x == end;
}

struct copy {
    std::vector<bf16> out, dqkv;
    std::vector<float> lse;
};

static struct copy copy_of(const problem &p, struct buffers b)
{
    size_t rows = p.tokens + GUARD;
    OK(cudaDeviceSynchronize());
    return { host(b.out, rows * p.narrow), host(b.dqkv, rows * p.wide),
             host(b.lse, rows * p.heads) };
}

// Against the plain loops in fp32 on the same bf16 numbers: what is left is rounding.
static void compare(const problem &p, const char *name, const copy &a, const copy &b)
{
    int d = p.head_size, hd = p.heads * d, kd = p.kv_heads * d, t = p.tokens;
    double out = error(a.out, b.out, t, p.narrow, 0, hd),
           lse = error(a.lse, b.lse, t, p.heads, 0, p.heads),
           dq = error(a.dqkv, b.dqkv, t, p.wide, 0, hd),
           dk = error(a.dqkv, b.dqkv, t, p.wide, hd, kd),
           dv = error(a.dqkv, b.dqkv, t, p.wide, hd + kd, kd);
    bool inside = untouched(a.out, (size_t)t * p.narrow) && untouched(a.dqkv, (size_t)t * p.wide) &&
                  untouched(a.lse, (size_t)t * p.heads);
    printf("    %-14s error out %.2e lse %.2e dq %.2e dk %.2e dv %.2e%s\n", name, out, lse, dq, dk,
           dv, inside ? "" : " WROTE BEHIND THE LAST ROW");
    failures += !(out < 5e-3 && lse < 1e-6 && dq < 5e-3 && dk < 5e-3 && dv < 5e-3 && inside);
}

static void twice(const char *name, const copy &a, const copy &b)
{
    bool same = !memcmp(a.out.data(), b.out.data(), a.out.size() * 2) &&
                !memcmp(a.dqkv.data(), b.dqkv.data(), a.dqkv.size() * 2) &&
                !memcmp(a.lse.data(), b.lse.data(), a.lse.size() * 4);
    printf("    %-14s twice: %s\n", name, same ? "same bits" : "OTHER BITS");
    failures += !same;
}

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

template <typename F> static double median_seconds(F run, int times)
{
    std::vector<float> ms;
    cudaEvent_t from, to;
    cudaEventCreate(&from), cudaEventCreate(&to);
    for (int i = 0; i < times + 3; i++) {
        float took = 0;
        cudaEventRecord(from, 0);
        run();
        cudaEventRecord(to, 0);
        OK(cudaEventSynchronize(to));
        cudaEventElapsedTime(&took, from, to);
        if (i >= 3)
            ms.push_back(took);
    }
    std::sort(ms.begin(), ms.end());
    cudaEventDestroy(from), cudaEventDestroy(to);
    return ms[ms.size() / 2] / 1e3;
}

static void speed(const problem &p, const char *name, double forward, double backward)
{
    printf("    %-14s forward %.3f ms %.0f TFLOP/s, backward %.3f ms %.0f TFLOP/s\n", name,
           forward * 1e3, p.flops / forward / 1e12, backward * 1e3,
           2.5 * p.flops / backward / 1e12);
    fflush(stdout);
}

static struct kernel_attention kernel_of(const problem &p, struct buffers b)
{
    struct kernel_attention a = {};
    int hd = p.heads * p.head_size, kd = p.kv_heads * p.head_size;
    a.q = p.qkv, a.k = p.qkv + hd, a.v = p.qkv + hd + kd, a.dout = p.dout;
    a.out = b.out, a.dq = b.dqkv, a.dk = b.dqkv + hd, a.dv = b.dqkv + hd + kd;
    a.lse = b.lse, a.delta = b.delta;
    a.q_stride = a.k_stride = a.v_stride = a.dq_stride = a.dk_stride = a.dv_stride = p.wide;
    a.out_stride = a.dout_stride = p.narrow;
    a.low = p.low, a.high = p.high;
    a.tokens = p.tokens, a.heads = p.heads, a.kv_heads = p.kv_heads, a.head_size = p.head_size;
    a.scale = 1 / sqrtf((float)p.head_size), a.dtype = DTYPE_BF16;
    return a;
}

static copy reference(const problem &p)
{
    struct buffers b = buffers_of(p);
    struct kernel_attention plain = kernel_of(p, b);
    if (p.longest <= (getenv("LONG") ? atoi(getenv("LONG")) : LONG))
        plain_forward(0, &plain), plain_backward(0, &plain);
    else
        kernel_forward(0, &plain), kernel_backward(0, &plain);
    copy right = copy_of(p, b);
    release(b);
    return right;
}

static void probe_kernels(const problem &p, const copy &right)
{
    struct buffers c = buffers_of(p);
    struct kernel_attention own = kernel_of(p, c);
    kernel_forward(0, &own), kernel_backward(0, &own);
    OK(cudaGetLastError());
    copy first = copy_of(p, c);
    compare(p, "built-in kernels", first, right);
    kernel_forward(0, &own), kernel_backward(0, &own);
    twice("built-in kernels", first, copy_of(p, c));
    double forward = median_seconds([&] { kernel_forward(0, &own); }, 20);
    speed(p, "built-in kernels", forward, median_seconds([&] { kernel_backward(0, &own); }, 20));
    release(c);
}

// The backward pass for 9.0, with out and lse of the built-in kernels: all heads at once.
static void probe_hopper(const problem &p, const copy &right)
{
    struct buffers b = buffers_of(p);
    struct kernel_attention a = kernel_of(p, b);
    int64_t documents = (int64_t)p.spans.size(), most = hopper_most(p.tokens, documents);
    std::vector<struct hopper_block> keys(most), queries(most);
    struct hopper_lists lists = { keys.data(), queries.data() };
    size_t list_bytes = (size_t)most * sizeof(struct hopper_block);
    int32_t *late;
    void *at;
    OK(cudaHostAlloc(&late, 4, cudaHostAllocDefault));
    *late = 0;
    hopper_list(&lists, p.spans.data(), documents, p.kv_heads, PROCESSORS);
    OK(cudaMalloc(&lists.keys, list_bytes));
    OK(cudaMalloc(&lists.queries, list_bytes));
    OK(cudaMemcpy(lists.keys, keys.data(), list_bytes, cudaMemcpyHostToDevice));
    OK(cudaMemcpy(lists.queries, queries.data(), list_bytes, cudaMemcpyHostToDevice));
    int64_t bytes = attention_own_bytes(lists.query_count, p.heads);
    OK(cudaMalloc(&at, (size_t)bytes));
    OK(cudaMemset(at, 0xff, (size_t)bytes)); // what it holds must not matter
    kernel_forward(0, &a);
    auto backward = [&] { OK(hopper_backward(0, &a, &lists, p.kv_heads, PROCESSORS, at, late)); };
    backward();
    copy first = copy_of(p, b);
    if (*late)
        printf("    for 9.0: SOMEBODY WAITED IN VAIN\n"), failures++;
    compare(p, "for 9.0", first, right);
    for (int i = 0; i < 3; i++) {
        backward();
        twice("for 9.0", first, copy_of(p, b));
    }
    double seconds = median_seconds(backward, 20);
    printf("    %-14s backward %.3f ms %.0f TFLOP/s, workspace %.1f MiB\n", "for 9.0",
           seconds * 1e3, 2.5 * p.flops / seconds / 1e12, bytes / 1048576.);
    release(b);
}

enum { OWN, BACKEND, CUDNN, ANY_ORDER, FOR_HOPPER };

// --- the backend's own operations -----------------------------------------------

const char *const dtype_names[] = { "fp32", "bf16", "fp64", "fp8", NULL };

enum err fail(enum err code, const char *format, ...)
{
    printf("    fail: %s\n", format);
    return code;
}

void cuda_fail(struct cuda *cuda, enum err err, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(cuda->problem, sizeof cuda->problem, format, list);
    va_end(list);
    cuda->err = err;
    printf("    cuda_fail: %s\n", cuda->problem);
}

void cuda_launched(struct cuda *, const char *what)
{
    cudaError_t status = cudaGetLastError();
    if (status != cudaSuccess)
        printf("    %s: %s\n", what, cudaGetErrorString(status));
}

bool cuda_check(struct cuda *cuda, cudaError_t status, const char *what)
{
    if (status != cudaSuccess)
        cuda_fail(cuda, ERR_UNAVAILABLE, "%s: %s", what, cudaGetErrorString(status));
    return status == cudaSuccess;
}

static void upload(struct device *, void *out, const void *in, int64_t bytes)
{
    OK(cudaMemcpy(out, in, (size_t)bytes, cudaMemcpyHostToDevice));
}

static struct tensor view(const void *at, enum dtype dtype, int64_t rows, int64_t columns,
                          int64_t stride)
{
    struct tensor t = { (void *)at, dtype, rows, columns, stride };
    return t;
}

struct trial {
    const char *name;
    int heads, kv_heads, head_size;
    std::vector<int> sizes;
    int64_t window;
    int64_t card; // MiB, of which the workspace is a share; 0: an H200
};

// what: BACKEND with our own kernel for 9.0, CUDNN without it.
static void probe_backend(const problem &p, const trial &of, int what, const copy &right)
{
    bool any_order = what == ANY_ORDER;
    const char *name = any_order ? "any order" : what == CUDNN ? "cuDNN" : "backend";
    struct backend backend = {};
    struct cuda cuda = {};
    struct device device = {};
    struct attention a = { p.device_spans, p.spans.data(), (int64_t)p.spans.size(),
                           p.longest,      p.tokens,       p.heads,
                           p.kv_heads,     p.head_size,    of.window,
                           any_order };
    int64_t hd = p.heads * p.head_size, kd = p.kv_heads * p.head_size, t = p.tokens;
    struct buffers b = buffers_of(p);
    void *at = NULL;
    backend.upload = upload, device.backend = &backend, device.own = &cuda;
    cuda.multiprocessors = PROCESSORS, cuda.shared_bytes = what == BACKEND ? 227 << 10 : 0;
    cuda.capability = 90, device.total_bytes = (of.card ? of.card : 139 << 10) << 20;
    cuda_attention_open(&cuda);
    int64_t bytes = cuda_attention_bytes(&device, &a, DTYPE_BF16);
    OK(cudaMalloc(&at, (size_t)bytes));
    OK(cudaMemset(at, 0xff, (size_t)bytes)); // what it holds must not matter
    printf("    backend: %s, workspace %.1f MiB\n", cuda_attention_name(&cuda), bytes / 1048576.);
    struct tensor q = view(p.qkv, DTYPE_BF16, t, hd, p.wide),
                  k = view(p.qkv + hd, DTYPE_BF16, t, kd, p.wide),
                  v = view(p.qkv + hd + kd, DTYPE_BF16, t, kd, p.wide),
                  out = view(b.out, DTYPE_BF16, t, hd, p.narrow),
                  dout = view(p.dout, DTYPE_BF16, t, hd, p.narrow),
                  dq = view(b.dqkv, DTYPE_BF16, t, hd, p.wide),
                  dk = view(b.dqkv + hd, DTYPE_BF16, t, kd, p.wide),
                  dv = view(b.dqkv + hd + kd, DTYPE_BF16, t, kd, p.wide),
                  lse = view(b.lse, DTYPE_F32, t, p.heads, p.heads);
    auto forward = [&] { cuda_attention_forward(&device, out, lse, q, k, v, &a, at); };
    auto backward = [&] {
        cuda_attention_backward(&device, dq, dk, dv, dout, out, lse, q, k, v, &a, at);
    };
    auto all = [&] { cuda_attention_begin(&device, &a, at), forward(), backward(); };
    double began = now();
    all();
    printf("    plans took %.2f s\n", now() - began);
    copy first = copy_of(p, b);
    compare(p, name, first, right);
    all();
    if (!any_order)
        twice(name, first, copy_of(p, b));
    cuda_attention_check(&cuda);
    if (cuda.err)
        failures++;
    if (*cuda_attention_note(&cuda))
        printf("    note: %s\n", cuda_attention_note(&cuda));
    double seconds = median_seconds(forward, 20);
    speed(p, name, seconds, median_seconds(backward, 20));
    cuda_attention_close(&cuda);
}

static problem problem_of(const trial &t)
{
    problem p = {};
    p.name = t.name, p.heads = t.heads, p.kv_heads = t.kv_heads, p.head_size = t.head_size;
    p.wide = (t.heads + 2 * t.kv_heads) * t.head_size, p.narrow = t.heads * t.head_size;
    for (int n : t.sizes) {
        p.spans.push_back({ p.tokens, n });
        p.tokens += n, p.longest = std::max(p.longest, (int64_t)n);
        p.flops += 2. * t.heads * t.head_size * n * n;
    }
    OK(cudaMalloc(&p.qkv, (size_t)p.tokens * p.wide * 2));
    OK(cudaMalloc(&p.dout, (size_t)p.tokens * p.narrow * 2));
    OK(cudaMalloc(&p.low, p.tokens * 4));
    OK(cudaMalloc(&p.high, p.tokens * 4));
    OK(cudaMalloc(&p.device_spans, p.spans.size() * sizeof(struct span)));
    OK(cudaMemcpy(p.device_spans, p.spans.data(), p.spans.size() * sizeof(struct span),
                  cudaMemcpyHostToDevice));
    fill<<<1024, 256>>>(p.qkv, (size_t)p.tokens * p.wide, 1);
    fill<<<1024, 256>>>(p.dout, (size_t)p.tokens * p.narrow, 2);
    kernel_ranges(0, p.low, p.high, p.device_spans, (int64_t)p.spans.size(), t.window);
    OK(cudaDeviceSynchronize());
    return p;
}

static void probe(const trial &t, int what)
{
    problem p = problem_of(t);
    copy right = reference(p);
    if (what == OWN)
        probe_kernels(p, right);
    else if (what == FOR_HOPPER)
        probe_hopper(p, right);
    else
        probe_backend(p, t, what, right);
}

// Each in a process of its own: an address gone wrong ends that one only.
static bool apart(const trial &t, int what)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(100);
        probe(t, what);
        OK(cudaDeviceSynchronize());
        fflush(stdout);
        _exit(failures > 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status)
        printf("    FAILED with status %x\n", status);
    return status == 0;
}

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : NULL;
    bool good = true;
    std::vector<int> long_and_short(50, 82);
    long_and_short.push_back(4092);
    std::vector<trial> trials = {
        { "small", 4, 2, 64, { 200, 1, 55 }, 0 },
        { "small 128", 8, 2, 128, { 300, 1, 64, 147 }, 0 },
        { "same heads", 4, 4, 128, { 512, 512 }, 0 },
        { "even", 8, 2, 128, std::vector<int>(5, 256), 0 },
        { "even, then not", 8, 2, 64, { 1024, 1024, 1023, 1024 }, 0 },
        { "groups of 7", 28, 4, 128, { 1200, 77, 3000 }, 0 },
        { "8B 2x4096", 32, 8, 128, { 4096, 4096 }, 0 },
        { "8B 4x4096", 32, 8, 128, { 4096, 4096, 4096, 4096 }, 0 },
        { "8B 1x8192", 32, 8, 128, { 8192 }, 0 },
        { "8B 2x8192", 32, 8, 128, { 8192, 8192 }, 0 },
        { "8B 1x16384", 32, 8, 128, { 16384 }, 0 },
        { "8B mixed", 32, 8, 128, { 1, 700, 2048, 33, 128, 129, 1500, 3000, 64, 5, 511, 73 }, 0 },
        { "8B one long", 32, 8, 128, long_and_short, 0 },
        { "1B 2x4096", 32, 8, 64, { 4096, 4096 }, 0 },
        { "8B 8x2048", 32, 8, 128, std::vector<int>(8, 2048), 0 },
        { "8B 16x1024", 32, 8, 128, std::vector<int>(16, 1024), 0 },
        { "8B 16x512", 32, 8, 128, std::vector<int>(16, 512), 0 },
        { "8B 128x64", 32, 8, 128, std::vector<int>(128, 64), 0 },
        { "8B 64x128", 32, 8, 128, std::vector<int>(64, 128), 0 },
        { "8B 1x32768", 32, 8, 128, { 32768 }, 0 },
        { "8B 1x65536", 32, 8, 128, { 65536 }, 0 },
        { "8B 1x131072", 32, 8, 128, { 131072 }, 0 },
        { "cut", 8, 2, 128, { 3000, 100, 2100, 1 }, 0, 1000 },
        { "cut, same heads", 4, 4, 64, { 64, 5000, 1025 }, 0, 1000 },
        { "cut, even", 8, 2, 128, { 2048, 4096, 4096 }, 0, 1000 },
        { "window", 8, 2, 128, { 2000, 48, 1000 }, 256 },
        { "wide window", 8, 2, 128, { 2000, 48, 1000 }, 4096 },
        { "D 80", 8, 2, 80, { 700, 33, 291 }, 0 },
        { "D 256", 8, 2, 256, { 700, 33, 291 }, 0 },
    };
    for (const trial &t : trials) {
        if (word ? !strstr(t.name, word) : t.sizes[0] > LONG)
            continue;
        printf("%s: H %d K %d D %d, %d documents, window %d\n", t.name, t.heads, t.kv_heads,
               t.head_size, (int)t.sizes.size(), (int)t.window);
        if (t.head_size == 128 && t.window == 0)
            good &= apart(t, FOR_HOPPER);
        if (getenv("ONLY_HOPPER"))
            continue;
        good &=
            getenv("NO_OWN") || t.sizes[0] > 65536 || apart(t, OWN); // which would take a minute
        good &= apart(t, BACKEND);
        good &= t.head_size != 128 || apart(t, CUDNN);
        good &= apart(t, ANY_ORDER);
    }
    printf(good ? "all within bounds\n" : "SOME FAILED\n");
    return !good;
}
