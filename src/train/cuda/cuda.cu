// SPDX-License-Identifier: Apache-2.0
// The CUDA backend: memory, stream and errors of the device, and the table of its operations.

#include "train/cuda/cuda.h"

#include "train/cuda/operations.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

// --- errors ------------------------------------------------------------------

void cuda_fail(struct cuda *cuda, enum err err, const char *format, ...)
{
    if (cuda->err)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(cuda->problem, sizeof cuda->problem, format, arguments);
    va_end(arguments);
    cuda->err = err;
}

bool cuda_check(struct cuda *cuda, cudaError_t status, const char *what)
{
    if (status == cudaSuccess)
        return !cuda->err;
    enum err err = status == cudaErrorMemoryAllocation ? ERR_MEMORY : ERR_UNAVAILABLE;
    cudaGetLastError(); // clears it, so that it is reported once
    cuda_fail(cuda, err, "%s failed on the GPU: %s", what, cudaGetErrorString(status));
    return false;
}

void cuda_launched(struct cuda *cuda, const char *what)
{
    cuda_check(cuda, cudaGetLastError(), what);
}

static enum err sync_device(struct device *device)
{
    struct cuda *cuda = cuda_of(device);
    if (cuda_check(cuda, cudaStreamSynchronize(cuda->stream), "an operation"))
        cuda_attention_check(cuda);
    enum err err = cuda->err;
    cuda->err = OK;
    return err ? fail(err, "%s: %s", device->name, cuda->problem) : OK;
}

// --- memory ------------------------------------------------------------------

static double gib(size_t bytes)
{
    return (double)bytes / (1 << 30);
}

static enum err allocate(struct device *device, void **out, int64_t bytes)
{
    struct cuda *cuda = cuda_of(device);
    cudaError_t status = cudaMalloc(out, bytes > 0 ? (size_t)bytes : 1);
    if (status == cudaErrorMemoryAllocation) {
        size_t available = 0, total = 0;
        cudaGetLastError();
        cudaMemGetInfo(&available, &total);
        return fail(ERR_MEMORY, "%s: cannot allocate %.2f GiB: %.2f of %.2f GiB are free",
                    device->name, gib((size_t)bytes), gib(available), gib(total));
    }
    if (status != cudaSuccess)
        return fail(ERR_UNAVAILABLE, "%s: cannot allocate memory: %s", device->name,
                    cudaGetErrorString(status));
    device->allocated_bytes += bytes;
    cuda_check(cuda, cudaMemsetAsync(*out, 0, (size_t)bytes, cuda->stream), "zeroing memory");
    return OK;
}

static void release(struct device *device, void *at, int64_t bytes)
{
    if (!at)
        return;
    device->allocated_bytes -= bytes;
    cuda_check(cuda_of(device), cudaFree(at), "freeing memory"); // waits for its users
}

static void zero(struct device *device, struct tensor out)
{
    struct cuda *cuda = cuda_of(device);
    size_t size = out.dtype == DTYPE_F64    ? 8
                  : out.dtype == DTYPE_F32  ? 4
                  : out.dtype == DTYPE_BF16 ? 2
                                            : 1;
    size_t row = (size_t)out.columns * size, rows = (size_t)out.rows;
    if (cuda->err || !row || !rows)
        return;
    bool dense = out.stride == out.columns || rows == 1;
    cuda_check(
        cuda,
        dense ? cudaMemsetAsync(out.at, 0, row * rows, cuda->stream)
              : cudaMemset2DAsync(out.at, (size_t)out.stride * size, 0, row, rows, cuda->stream),
        "zeroing");
}

// --- to and from the host, through pinned memory -----------------------------

// The next slot of the ring, after its last copy has finished; NULL after an error.
static char *next_slot(struct cuda *cuda, int *index)
{
    auto *ring = &cuda->ring;
    *index = ring->next;
    ring->next = (ring->next + 1) % CUDA_RING_SLOTS;
    if (!cuda_check(cuda, cudaEventSynchronize(ring->free[*index]), "a copy"))
        return NULL;
    return ring->at + (int64_t)*index * CUDA_RING_SLOT;
}

static int64_t slot_bytes(int64_t left)
{
    return left < CUDA_RING_SLOT ? left : (int64_t)CUDA_RING_SLOT;
}

static void upload(struct device *device, void *out, const void *host, int64_t bytes)
{
    struct cuda *cuda = cuda_of(device);
    for (int64_t at = 0; at < bytes && !cuda->err; at += CUDA_RING_SLOT) {
        int slot;
        size_t size = (size_t)slot_bytes(bytes - at);
        char *pinned = next_slot(cuda, &slot);
        if (!pinned)
            return;
        memcpy(pinned, (const char *)host + at, size);
        cuda_check(
            cuda,
            cudaMemcpyAsync((char *)out + at, pinned, size, cudaMemcpyHostToDevice, cuda->stream),
            "an upload");
        cuda_check(cuda, cudaEventRecord(cuda->ring.free[slot], cuda->stream), "an upload");
    }
}

// While one slot is being copied out, the next ones are being filled.
static void download(struct device *device, void *host, const void *in, int64_t bytes)
{
    struct cuda *cuda = cuda_of(device);
    int64_t asked = 0, done = 0;
    int slots[CUDA_RING_SLOTS];
    while (done < bytes && !cuda->err) {
        for (; asked < bytes && asked - done < (int64_t)CUDA_RING_SLOT * CUDA_RING_SLOTS;
             asked += CUDA_RING_SLOT) {
            int slot;
            char *pinned = next_slot(cuda, &slot);
            if (!pinned)
                break;
            slots[asked / CUDA_RING_SLOT % CUDA_RING_SLOTS] = slot;
            cuda_check(cuda,
                       cudaMemcpyAsync(pinned, (const char *)in + asked,
                                       (size_t)slot_bytes(bytes - asked), cudaMemcpyDeviceToHost,
                                       cuda->stream),
                       "a download");
            cuda_check(cuda, cudaEventRecord(cuda->ring.free[slot], cuda->stream), "a download");
        }
        int slot = slots[done / CUDA_RING_SLOT % CUDA_RING_SLOTS];
        if (!cuda->err &&
            cuda_check(cuda, cudaEventSynchronize(cuda->ring.free[slot]), "a download"))
            memcpy((char *)host + done, cuda->ring.at + (int64_t)slot * CUDA_RING_SLOT,
                   (size_t)slot_bytes(bytes - done));
        done += CUDA_RING_SLOT;
    }
    if (cuda->err)
        memset(host, 0, (size_t)bytes);
}

// --- opening -----------------------------------------------------------------

static int devices(void)
{
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess) {
        cudaGetLastError();
        return 0;
    }
    return count;
}

static const int built_for[] = { __CUDA_ARCH_LIST__ }; // 800, 900, …; the largest as PTX too

// Which of the compute capabilities in built_for runs on a GPU with that capability; 0: none. Code
// for 8.0 runs on 8.6, not on 9.0; the PTX of the largest runs on everything newer than it.
static int code_for(int capability)
{
    int last = 0, code = 0;
    for (int built : built_for) {
        if (built / 100 == capability / 10 && built / 10 <= capability && built / 10 > code)
            code = built / 10;
        last = built / 10 > last ? built / 10 : last;
    }
    return code || capability < last ? code : last;
}

static void close_device(struct device *device)
{
    struct cuda *cuda = cuda_of(device);
    if (cuda) {
        if (cuda->stream)
            cudaStreamSynchronize(cuda->stream);
        cuda_group_close(device);
        cuda_lanes_close(cuda);
        cuda_attention_close(cuda);
        cuda_products_close(cuda);
        for (int i = 0; i < CUDA_RING_SLOTS; i++)
            if (cuda->ring.free[i])
                cudaEventDestroy(cuda->ring.free[i]);
        cudaFreeHost(cuda->ring.at);
        cudaFree(cuda->partials);
        if (cuda->stream)
            cudaStreamDestroy(cuda->stream);
        cudaGetLastError();
        free(cuda);
    }
    memset(device, 0, sizeof *device);
}

static int64_t used_bytes(struct device *device)
{
    size_t available = 0, total = 0;
    cuda_check(cuda_of(device), cudaMemGetInfo(&available, &total), "querying free memory");
    return (int64_t)(total - available);
}

// Kernels of libraries are loaded when they first run: 4 to 11 MB in 20 runs on an H200.
enum { LOADED_LATER = 12 << 20 };

static enum err open_parts(struct device *device)
{
    struct cuda *cuda = cuda_of(device);
    cuda_check(cuda, cudaStreamCreateWithFlags(&cuda->stream, cudaStreamNonBlocking), "a stream");
    cuda_check(cuda, cudaMalloc(&cuda->partials, CUDA_PARTIALS), "allocating memory for sums");
    cuda_check(cuda,
               cudaHostAlloc((void **)&cuda->ring.at, (size_t)CUDA_RING_SLOT * CUDA_RING_SLOTS,
                             cudaHostAllocDefault),
               "allocating pinned memory");
    for (int i = 0; i < CUDA_RING_SLOTS; i++)
        cuda_check(cuda, cudaEventCreateWithFlags(&cuda->ring.free[i], cudaEventDisableTiming),
                   "an event");
    if (cuda->err)
        return fail(cuda->err, "%s: %s", device->name, cuda->problem);
    TRY(cuda_products_open(cuda));
    TRY(cuda_attention_open(cuda));
    device->overhead_bytes = used_bytes(device) + LOADED_LATER;
    return OK;
}

static enum err open_device(struct device *device, int index)
{
    struct cudaDeviceProp properties;
    memset(device, 0, sizeof *device);
    cudaError_t status = cudaSetDevice(index);
    if (status == cudaSuccess)
        status = cudaGetDeviceProperties(&properties, index);
    if (status != cudaSuccess) {
        cudaGetLastError();
        return fail(ERR_UNAVAILABLE, "GPU %d cannot be used: %s", index,
                    cudaGetErrorString(status));
    }
    int capability = properties.major * 10 + properties.minor;
    if (!code_for(capability))
        return fail(ERR_UNAVAILABLE,
                    "%s has compute capability %d.%d, which this build has no code for: build "
                    "with make ARCHS=%d (80 at least)",
                    properties.name, properties.major, properties.minor, capability);
    struct cuda *cuda = (struct cuda *)calloc(1, sizeof *cuda);
    if (!cuda)
        return fail(ERR_MEMORY, "out of memory: cannot open a GPU");
    cuda->multiprocessors = properties.multiProcessorCount;
    cuda->capability = capability;
    cuda->code = code_for(capability);
    cuda->shared_bytes = (int)properties.sharedMemPerBlockOptin;
    device->backend = &backend_cuda;
    device->index = index;
    device->workers = cuda->multiprocessors;
    device->total_bytes = (int64_t)properties.totalGlobalMem;
    device->chunk_bytes = (int64_t)1 << 30;
    device->padding = 64; // 128 bytes of bf16
    snprintf(device->name, sizeof device->name, "%.63s", properties.name);
    device->own = cuda;
    enum err err = open_parts(device);
    if (err)
        close_device(device);
    return err;
}

// --- the table ---------------------------------------------------------------

const struct backend backend_cuda = {
    .name = "cuda",
    .devices = devices,
    .open = open_device,
    .close = close_device,
    .sync = sync_device,
    .allocate = allocate,
    .release = release,
    .upload = upload,
    .download = download,
    .pin = cuda_pin,
    .unpin = cuda_unpin,
    .copy_out = cuda_copy_out,
    .copy_in = cuda_copy_in,
    .copied = cuda_copied,
    .zero = zero,
    .cast = cuda_cast,
    .fill = cuda_fill,
    .used_bytes = used_bytes,
    .tune = cuda_tune,
    .tune_some = cuda_tune_some,
    .tuned_about = cuda_tuned_about,
    .tuned_list = cuda_tuned_list,
    .tuned_take = cuda_tuned_take,
    .embedding_forward = cuda_embedding_forward,
    .embedding_backward = cuda_embedding_backward,
    .norm_forward = cuda_norm_forward,
    .norm_backward = cuda_norm_backward,
    .add = cuda_add,
    .rotary = cuda_rotary,
    .attention_bytes = cuda_attention_bytes,
    .attention_begin = cuda_attention_begin,
    .attention_forward = cuda_attention_forward,
    .attention_backward = cuda_attention_backward,
    .sink_forward = cuda_sink_forward,
    .sink_backward = cuda_sink_backward,
    .swiglu_forward = cuda_swiglu_forward,
    .swiglu_backward = cuda_swiglu_backward,
    .geglu_forward = cuda_geglu_forward,
    .geglu_backward = cuda_geglu_backward,
    .scale = cuda_scale,
    .capped_cross_entropy = cuda_capped_cross_entropy,
    .route_forward = cuda_route_forward,
    .route_backward = cuda_route_backward,
    .combine = cuda_combine,
    .balance = cuda_balance,
    .matmul_nt = cuda_matmul_nt,
    .matmul_nn = cuda_matmul_nn,
    .matmul_tn = cuda_matmul_tn,
    .experts_nt = cuda_experts_nt,
    .experts_nn = cuda_experts_nn,
    .experts_tn = cuda_experts_tn,
    .experts_bias_forward = cuda_experts_bias_forward,
    .experts_bias_backward = cuda_experts_bias_backward,
    .experts_cast = cuda_experts_cast,
    .adapters_backward = cuda_adapters_backward,
    .row_norms = cuda_row_norms,
    .magnify = cuda_magnify,
    .magnify_backward = cuda_magnify_backward,
    .quantize_rows = cuda_quantize_rows,
    .quantize_adapters = cuda_quantize_adapters,
    .quantize_inputs = cuda_quantize_inputs,
    .matmul_scaled = cuda_matmul_scaled,
    .bias_forward = cuda_bias_forward,
    .bias_backward = cuda_bias_backward,
    .gather = cuda_gather,
    .scatter = cuda_scatter,
    .cross_entropy = cuda_cross_entropy,
    .weigh_rows = cuda_weigh_rows,
    .dropout = cuda_dropout,
    .quantize = cuda_quantize,
    .dequantize = cuda_dequantize,
    .experts_dequantize = cuda_experts_dequantize,
    .sum = cuda_sum,
    .sum_squares = cuda_sum_squares,
    .clip = cuda_clip,
    .adamw = cuda_adamw,
    .sgd = cuda_sgd,
    .group_id = cuda_group_id,
    .group_open = cuda_group_open,
    .group_close = cuda_group_close,
    .all_reduce = cuda_all_reduce,
    .reduce_scatter = cuda_reduce_scatter,
    .all_gather = cuda_all_gather,
    .broadcast = cuda_broadcast,
    .group_wait = cuda_group_wait,
    .group_seconds = cuda_group_seconds,
};

extern "C" __attribute__((visibility("default"))) const struct backend *gpuhours_cuda(int version)
{
    return version == BACKEND_VERSION ? &backend_cuda : NULL;
}
