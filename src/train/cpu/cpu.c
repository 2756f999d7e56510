// SPDX-License-Identifier: Apache-2.0
// The CPU backend: its memory, and the table of its operations.

#include "train/cpu/cpu.h"

#include "train/cpu/product.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_WORKERS = 64, ALIGNMENT = 64 };

static int devices(void)
{
    return 1;
}

static void close_device(struct device *device)
{
    free(device->own);
    *device = (struct device){ 0 };
}

static enum err open_device(struct device *device, int index)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int workers = cores < 1 ? 1 : cores > MOST_WORKERS ? MOST_WORKERS : (int)cores;
    *device = (struct device){ .backend = &backend_cpu,
                               .index = index,
                               .workers = workers,
                               .chunk_bytes = 64 << 20,
                               .padding = 1,
                               .name = "CPU" };
    device->own = malloc((size_t)workers * sizeof(struct cpu_tile));
    if (!device->own) {
        close_device(device);
        return fail(ERR_MEMORY, "out of memory for the tiles of the CPU backend");
    }
    enum err err = product_begin(workers);
    if (err)
        close_device(device);
    return err;
}

static enum err sync_device(struct device *device)
{
    (void)device;
    return OK;
}

static int64_t used_bytes(struct device *device)
{
    (void)device;
    return 0;
}

static enum err allocate(struct device *device, void **out, int64_t bytes)
{
    size_t rounded = ((size_t)bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    *out = aligned_alloc(ALIGNMENT, rounded ? rounded : ALIGNMENT);
    if (!*out)
        return fail(ERR_MEMORY,
                    "out of memory: cannot allocate %lld bytes; give --memory-limit, or a smaller "
                    "--context",
                    (long long)bytes);
    memset(*out, 0, (size_t)bytes);
    device->allocated_bytes += bytes;
    return OK;
}

static void release(struct device *device, void *at, int64_t bytes)
{
    if (at)
        device->allocated_bytes -= bytes;
    free(at);
}

static void upload(struct device *device, void *out, const void *host, int64_t bytes)
{
    (void)device;
    memcpy(out, host, (size_t)bytes);
}

// Copies are done at once, so that there is nothing to wait for.
static enum err pin(struct device *device, void **out, int64_t bytes)
{
    enum err err = allocate(device, out, bytes);
    device->allocated_bytes -= err ? 0 : bytes; // it is the host's
    return err;
}

static void unpin(struct device *device, void *host, int64_t bytes)
{
    (void)device, (void)bytes;
    free(host);
}

static void copy_out(struct device *device, int lane, void *host, const void *at, int64_t bytes)
{
    (void)device, (void)lane;
    memcpy(host, at, (size_t)bytes);
}

static void copy_in(struct device *device, int lane, void *at, const void *host, int64_t bytes)
{
    (void)device, (void)lane;
    memcpy(at, host, (size_t)bytes);
}

static void copied(struct device *device, int lane)
{
    (void)device, (void)lane;
}

static void download(struct device *device, void *host, const void *in, int64_t bytes)
{
    (void)device;
    memcpy(host, in, (size_t)bytes);
}

const struct backend backend_cpu = {
    .name = "cpu",
    .devices = devices,
    .open = open_device,
    .close = close_device,
    .sync = sync_device,
    .allocate = allocate,
    .release = release,
    .upload = upload,
    .download = download,
    .pin = pin,
    .unpin = unpin,
    .copy_out = copy_out,
    .copy_in = copy_in,
    .copied = copied,
    .zero = cpu_zero,
    .cast = cpu_cast,
    .fill = cpu_fill,
    .used_bytes = used_bytes,
    .embedding_forward = cpu_embedding_forward,
    .embedding_backward = cpu_embedding_backward,
    .norm_forward = cpu_norm_forward,
    .norm_backward = cpu_norm_backward,
    .add = cpu_add,
    .rotary = cpu_rotary,
    .attention_bytes = cpu_attention_bytes,
    .attention_begin = cpu_attention_begin,
    .attention_forward = cpu_attention_forward,
    .attention_backward = cpu_attention_backward,
    .sink_forward = cpu_sink_forward,
    .sink_backward = cpu_sink_backward,
    .swiglu_forward = cpu_swiglu_forward,
    .swiglu_backward = cpu_swiglu_backward,
    .geglu_forward = cpu_geglu_forward,
    .geglu_backward = cpu_geglu_backward,
    .scale = cpu_scale,
    .capped_cross_entropy = cpu_capped_cross_entropy,
    .route_forward = cpu_route_forward,
    .route_backward = cpu_route_backward,
    .combine = cpu_combine,
    .balance = cpu_balance,
    .matmul_nt = cpu_matmul_nt,
    .matmul_nn = cpu_matmul_nn,
    .matmul_tn = cpu_matmul_tn,
    .experts_nt = cpu_experts_nt,
    .experts_nn = cpu_experts_nn,
    .experts_tn = cpu_experts_tn,
    .experts_bias_forward = cpu_experts_bias_forward,
    .experts_bias_backward = cpu_experts_bias_backward,
    .experts_cast = cpu_experts_cast,
    .adapters_backward = cpu_adapters_backward,
    .row_norms = cpu_row_norms,
    .magnify = cpu_magnify,
    .magnify_backward = cpu_magnify_backward,
    .quantize_rows = cpu_quantize_rows,
    .quantize_adapters = cpu_quantize_adapters,
    .quantize_inputs = cpu_quantize_inputs,
    .matmul_scaled = cpu_matmul_scaled,
    .bias_forward = cpu_bias_forward,
    .bias_backward = cpu_bias_backward,
    .gather = cpu_gather,
    .scatter = cpu_scatter,
    .cross_entropy = cpu_cross_entropy,
    .weigh_rows = cpu_weigh_rows,
    .dropout = cpu_dropout,
    .quantize = cpu_quantize,
    .dequantize = cpu_dequantize,
    .experts_dequantize = cpu_experts_dequantize,
    .adamw = cpu_adamw,
    .sgd = cpu_sgd,
    .sum = cpu_sum,
    .sum_squares = cpu_sum_squares,
    .clip = cpu_clip,
};
