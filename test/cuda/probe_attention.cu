// Attention on a GPU: what cuDNN makes of the graphs, what the own kernels give, how fast each is.
//
//     nvcc -arch=sm_90 -O3 -std=c++17 -Isrc -o /tmp/probe test/cuda/probe_attention.cu
//         src/train/cuda/attention{,_cudnn,_kernel,_plain}.cu -ldl && /tmp/probe

#include "train/cuda/attention_cudnn.h"
#include "train/cuda/attention_kernel.h"
#include "train/cuda/cuda.h"

#include <algorithm>
#include <cuda_bf16.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

extern int cudnn_variant;

typedef __nv_bfloat16 bf16;
enum { GUARD = 64 }; // rows behind the last token that nobody may touch

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

static void compare(const problem &p, const char *name, const copy &a, const copy &b)
{
    int d = p.head_size, hd = p.heads * d, kd = p.kv_heads * d, t = p.tokens;
    printf("    %-14s error out %.2e lse %.2e dq %.2e dk %.2e dv %.2e%s\n", name,
           error(a.out, b.out, t, p.narrow, 0, hd), error(a.lse, b.lse, t, p.heads, 0, p.heads),
           error(a.dqkv, b.dqkv, t, p.wide, 0, hd), error(a.dqkv, b.dqkv, t, p.wide, hd, kd),
           error(a.dqkv, b.dqkv, t, p.wide, hd + kd, kd),
           untouched(a.out, (size_t)t * p.narrow) && untouched(a.dqkv, (size_t)t * p.wide) &&
                   untouched(a.lse, (size_t)t * p.heads)
               ? ""
               : " WROTE BEHIND THE LAST ROW");
}

static bool same(const copy &a, const copy &b)
{
    return !memcmp(a.out.data(), b.out.data(), a.out.size() * 2) &&
           !memcmp(a.dqkv.data(), b.dqkv.data(), a.dqkv.size() * 2) &&
           !memcmp(a.lse.data(), b.lse.data(), a.lse.size() * 4);
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

// A set of documents that one plan computes.
struct group {
    std::vector<int> members;
    int documents, length; // of the plan
};

struct prepared {
    struct cudnn_plan *forward, *backward;
    struct cudnn_pointers at;
};

static bool prepare(struct cudnn *cudnn, const problem &p, const group &g, struct buffers b,
                    struct prepared *out, int64_t *workspace)
{
    char note[CUDNN_NOTE] = "";
    int hd = p.heads * p.head_size, kd = p.kv_heads * p.head_size, n = g.documents;
    struct cudnn_shape s = { n,      g.length, p.heads, p.kv_heads, p.head_size, p.wide, p.wide,
                             p.wide, p.narrow, p.heads, 0,          0,           0,      0 };
    out->forward = cudnn_plan_make(cudnn, &s, note);
    if (!out->forward) {
        printf("    forward plan %d x %d: %s\n", n, g.length, note);
        return false;
    }
    s.dout_stride = p.narrow, s.dq_stride = s.dk_stride = s.dv_stride = p.wide;
    out->backward = cudnn_plan_make(cudnn, &s, note);
    if (!out->backward) {
        printf("    backward plan %d x %d: %s\n", n, g.length, note);
        return false;
    }
    printf("    plan %d x %d: forward %.1f MiB, backward %.1f MiB\n", n, g.length,
           cudnn_plan_bytes(out->forward) / 1048576., cudnn_plan_bytes(out->backward) / 1048576.);
    *workspace = std::max(
        *workspace, std::max(cudnn_plan_bytes(out->forward), cudnn_plan_bytes(out->backward)));
    std::vector<int32_t> sizes(n, 0);
    std::vector<int64_t> offsets[3];
    std::vector<int32_t> narrow[3];
    int64_t strides[3] = { p.wide, p.narrow, p.heads }, *device[3];
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i <= n; i++) {
            int64_t start = i < (int)g.members.size() ? p.spans[g.members[i]].start : p.tokens;
            offsets[k].push_back(start * strides[k]),
                narrow[k].push_back((int32_t)(start * strides[k]));
        }
        OK(cudaMalloc(&device[k], (n + 1) * 8));
        if (cudnn_variant & 1)
            OK(cudaMemcpy(device[k], narrow[k].data(), (n + 1) * 4, cudaMemcpyHostToDevice));
        else
            OK(cudaMemcpy(device[k], offsets[k].data(), (n + 1) * 8, cudaMemcpyHostToDevice));
    }
    for (size_t i = 0; i < g.members.size(); i++)
        sizes[i] = p.spans[g.members[i]].size;
    int32_t *device_sizes;
    OK(cudaMalloc(&device_sizes, n * 4));
    OK(cudaMemcpy(device_sizes, sizes.data(), n * 4, cudaMemcpyHostToDevice));
    struct cudnn_pointers at = {
        p.qkv,       p.qkv + hd,       p.qkv + hd + kd, b.out,     b.lse,     p.dout,    b.dqkv,
        b.dqkv + hd, b.dqkv + hd + kd, device_sizes,    device[0], device[0], device[0], device[1],
        device[2],   device[1],        device[0],       device[0], device[0]
    };
    out->at = at;
    return true;
}

static void probe_cudnn(struct cudnn *cudnn, const problem &p, const char *name,
                        const std::vector<group> &groups, const copy &right, int variant)
{
    char note[CUDNN_NOTE] = "";
    struct buffers b = buffers_of(p);
    std::vector<struct prepared> all(groups.size());
    int64_t workspace = 0;
    printf("    cuDNN %d\n", (int)cudnn_version(cudnn));
    void *at = NULL;
    bool good = true;
    cudnn_variant = variant;
    for (size_t i = 0; i < groups.size() && good; i++)
        good = prepare(cudnn, p, groups[i], b, &all[i], &workspace);
    if (good && cudaMalloc(&at, workspace) != cudaSuccess)
        good = false, printf("    %s: no room for %.0f MiB\n", name, workspace / 1048576.);
    auto run = [&](bool backward) {
        for (auto &x : all)
            if (good && !cudnn_run(cudnn, backward ? x.backward : x.forward, 0, &x.at, at, note))
                good = false, printf("    %s: %s\n", name, note);
    };
    if (good) {
        run(false), run(true);
        copy first = copy_of(p, b);
        compare(p, name, first, right);
        OK(cudaMemset(at, 0xff, workspace)); // what the workspace holds must not matter
        run(false), run(true);
        printf("    %-14s twice: %s\n", name,
               same(first, copy_of(p, b)) ? "same bits" : "OTHER BITS");
        double forward = median_seconds([&] { run(false); }, 20);
        speed(p, name, forward, median_seconds([&] { run(true); }, 20));
    }
    for (auto &x : all)
        cudnn_plan_free(cudnn, x.forward), cudnn_plan_free(cudnn, x.backward);
    cudaFree(at);
    release(b);
    fflush(stdout);
}

static copy reference(const problem &p)
{
    struct buffers b = buffers_of(p);
    struct kernel_attention plain = kernel_of(p, b);
    plain_forward(0, &plain), plain_backward(0, &plain);
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
    compare(p, "own kernels", first, right);
    kernel_forward(0, &own), kernel_backward(0, &own);
    printf("    %-14s twice: %s\n", "own kernels",
           same(first, copy_of(p, c)) ? "same bits" : "OTHER BITS");
    double forward = median_seconds([&] { kernel_forward(0, &own); }, 20);
    speed(p, "own kernels", forward, median_seconds([&] { kernel_backward(0, &own); }, 20));
    release(c);
}

static int power_above(int n)
{
    int x = 1;
    while (x < n)
        x *= 2;
    return x;
}

// Documents of one size class together, so that no plan is much longer than its documents.
static std::vector<group> classes(const problem &p, double most_bytes)
{
    std::vector<group> all;
    for (int length = power_above((int)p.longest); length >= 128; length /= 2) {
        int most = std::max(1, (int)(most_bytes / (2. * p.heads * length * length)));
        group g;
        g.length = length;
        for (size_t i = 0; i < p.spans.size(); i++)
            if (std::max(128, power_above(p.spans[i].size)) == length) {
                g.members.push_back((int)i);
                if ((int)g.members.size() == most)
                    g.documents = power_above(most), all.push_back(g), g.members.clear();
            }
        if (!g.members.empty())
            g.documents = power_above((int)g.members.size()), all.push_back(g);
    }
    return all;
}

static std::vector<group> whole(const problem &p)
{
    group g;
    g.documents = power_above((int)p.spans.size()), g.length = power_above((int)p.longest);
    for (size_t i = 0; i < p.spans.size(); i++)
        g.members.push_back((int)i);
    return { g };
}

enum { OWN = -1, WHOLE_BACKEND = -2, GROUPED = 8, BY_LARGE = 16 };

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

static void probe_backend(const problem &p, int64_t window, const copy &right)
{
    struct backend backend = {};
    struct cuda cuda = {};
    struct device device = {};
    struct attention a = { p.device_spans, p.spans.data(), (int64_t)p.spans.size(),
                           p.longest,      p.tokens,       p.heads,
                           p.kv_heads,     p.head_size,    window };
    int64_t hd = p.heads * p.head_size, kd = p.kv_heads * p.head_size, t = p.tokens;
    struct buffers b = buffers_of(p);
    void *at = NULL;
    backend.upload = upload, device.backend = &backend, device.own = &cuda;
    cuda_attention_open(&cuda);
    int64_t bytes = cuda_attention_bytes(&device, &a, DTYPE_BF16);
    OK(cudaMalloc(&at, (size_t)bytes));
    printf("    backend: %s, workspace %.1f MiB, note: %s\n", cuda_attention_name(&cuda),
           bytes / 1048576., cuda_attention_note(&cuda));
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
    all();
    copy first = copy_of(p, b);
    compare(p, "backend", first, right);
    all();
    printf("    %-14s twice: %s, note: %s\n", "backend",
           same(first, copy_of(p, b)) ? "same bits" : "OTHER BITS", cuda_attention_note(&cuda));
    double seconds = median_seconds(forward, 20);
    speed(p, "backend", seconds, median_seconds(backward, 20));
    cuda_attention_close(&cuda);
}

struct trial {
    const char *name;
    int heads, kv_heads, head_size;
    std::vector<int> sizes;
    int64_t window;
    std::vector<int> variants;
};

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

static void probe(const trial &t, int variant)
{
    problem p = problem_of(t);
    copy right = reference(p);
    if (variant == OWN) {
        probe_kernels(p, right);
        return;
    }
    if (variant == WHOLE_BACKEND) {
        probe_backend(p, t.window, right);
        return;
    }
    char note[CUDNN_NOTE] = "", label[64];
    struct cudnn *cudnn = cudnn_open(NULL, note);
    if (!cudnn) {
        printf("    no cuDNN: %s\n", note);
        return;
    }
    double room = variant & BY_LARGE ? 1.1 : 0.3;
    if (variant & GROUPED)
        snprintf(label, sizeof label, "cuDNN v%d %.1fG", variant % 8, room);
    else
        snprintf(label, sizeof label, "cuDNN v%d", variant % 8);
    probe_cudnn(cudnn, p, label, variant & GROUPED ? classes(p, room * 1073741824) : whole(p),
                right, variant % 8);
    cudnn_close(cudnn);
}

// Each in a process of its own: an address gone wrong ends that one only.
static void apart(const trial &t, int variant)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(100);
        probe(t, variant);
        OK(cudaDeviceSynchronize());
        fflush(stdout);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status)
        printf("    variant %d ended with status %x\n", variant, status);
}

int main(void)
{
    const int both = GROUPED + BY_LARGE;
    std::vector<trial> trials = {
        { "small", 4, 2, 64, { 200, 1, 55 }, 0, { OWN, WHOLE_BACKEND, 0, 1, 2, 3, 4 } },
        { "small 128", 8, 2, 128, { 300, 1, 64, 147 }, 0, { OWN, WHOLE_BACKEND, 0, 1, GROUPED } },
        { "same heads", 4, 4, 128, { 512, 512 }, 0, { OWN, WHOLE_BACKEND, 0 } },
        { "8B 2x4096", 32, 8, 128, { 4096, 4096 }, 0, { OWN, WHOLE_BACKEND, 0, 4, GROUPED, both } },
        { "8B 4x4096", 32, 8, 128, { 4096, 4096, 4096, 4096 }, 0, { OWN, WHOLE_BACKEND, both } },
        { "8B mixed",
          32,
          8,
          128,
          { 1, 700, 2048, 33, 128, 129, 1500, 3000, 64, 5, 511, 73 },
          0,
          { OWN, WHOLE_BACKEND, 0, GROUPED, both } },
        { "1B 2x4096", 32, 8, 64, { 4096, 4096 }, 0, { OWN, WHOLE_BACKEND, 0, both } },
        { "8B 16x512",
          32,
          8,
          128,
          std::vector<int>(16, 512),
          0,
          { OWN, WHOLE_BACKEND, 0, GROUPED } },
        { "8B 128x64", 32, 8, 128, std::vector<int>(128, 64), 0, { OWN, WHOLE_BACKEND, 0 } },
        { "window", 8, 2, 128, { 2000, 48, 1000 }, 256, { OWN, WHOLE_BACKEND } },
        { "D 80", 8, 2, 80, { 700, 33, 291 }, 0, { OWN, WHOLE_BACKEND, 0 } },
        { "D 256", 8, 2, 256, { 700, 33, 291 }, 0, { OWN, WHOLE_BACKEND } },
    };
    for (const trial &t : trials) {
        printf("%s: H %d K %d D %d, %d documents, window %d\n", t.name, t.heads, t.kv_heads,
               t.head_size, (int)t.sizes.size(), (int)t.window);
        for (int variant : t.variants)
            apart(t, variant);
    }
    return 0;
}
