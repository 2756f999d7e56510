// SPDX-License-Identifier: Apache-2.0
// Times each operation by the roofline and adds communication, pipeline bubbles and the update.

#include "core/step/compute.h"

#include <math.h>
#include <string.h>

// Shares that hold for a generation of cards. Hopper's are measured (bench/results/h200.md):
// products of training shapes sustain 0.86 of the best short run under the power limit; attention
// as a share of that rate. The other rows are assumptions of the same kind, corrected by what
// stacks reach.
static const struct generation {
    const char *capability; // how the compute capability begins
    double datasheet_share; // of the peak that a product sustains, where nothing was measured
    double measured_share;  // of the best measured product
    double flash2, modern;  // attention forward against products: FlashAttention-2; cuDNN, FA3
} generations[] = {
    { "9.0", 0.68, 0.86, 0.48, 0.92 }, // Hopper
    { "10.", 0.58, 0.76, 0.35, 0.80 }, // Blackwell for data centres
    { "12.", 0.80, 0.95, 0.78, 0.80 }, // Blackwell for workstations
    { "8.9", 0.72, 0.92, 0.78, 0.80 }, // Ada
    { "8.", 0.78, 0.92, 0.78, 0.80 },  // Ampere
    { "7.", 0.65, 0.92, 0.40, 0.40 },  // Volta, Turing
    { "gfx", 0.46, 0.76, 0.50, 0.60 }, // CDNA
    { "", 0.60, 0.90, 0.50, 0.60 },    // anything else
};

static const struct generation *generation_of(const struct gpu *gpu)
{
    const struct generation *g = generations;
    while (*g->capability &&
           (!gpu->compute_capability ||
            strncmp(gpu->compute_capability, g->capability, strlen(g->capability))))
        g++;
    return g;
}

double compute_peak_flops_per_s(const struct gpu *gpu, int precision)
{
    double half = gpu->bf16_flops_per_s > 0 ? gpu->bf16_flops_per_s : gpu->fp16_flops_per_s;
    switch (precision) {
    case RECIPE_FP32:
        return gpu->tf32_flops_per_s > 0 ? gpu->tf32_flops_per_s : gpu->fp32_flops_per_s;
    case RECIPE_FP16: return gpu->fp16_flops_per_s > 0 ? gpu->fp16_flops_per_s : half;
    case RECIPE_FP8: return gpu->fp8_flops_per_s > 0 ? gpu->fp8_flops_per_s : half;
    default: return half;
    }
}

double compute_matmul_flops_per_s(const struct gpu *gpu, int precision)
{
    const struct generation *g = generation_of(gpu);
    double peak = compute_peak_flops_per_s(gpu, precision),
           half = compute_peak_flops_per_s(gpu, RECIPE_BF16);
    double sustained = gpu->measured_bf16_flops_per_s > 0
                           ? g->measured_share * gpu->measured_bf16_flops_per_s
                           : g->datasheet_share * half;
    return sustained * peak / half;
}

double compute_memory_bytes_per_s(const struct gpu *gpu)
{
    return 0.87 * gpu->memory_bytes_per_s; // a copy on the H200 reaches 4.25 of 4.8 TB/s
}

struct machine {
    double product, fp8_product, memory, flash_forward;
    double narrow_product; // of fp32 adapters: a rank fills an eighth of a tile
};

// Of the causal kernel's rate, what attention under a mask runs at on an H200; it computes the
// whole square, of which 325 columns are the work that 650 are of the half (bench/results/h200.md).
static const double MASKED_RATE = 0.62;

// A product is cut into tiles that run on the multiprocessors in waves; the last wave is partly
// empty.
static double shape_share(const struct step_op *op)
{
    if (op->share > 0)
        return op->share;
    double tiles = ceil(op->rows / 128) * ceil(op->columns / 128), processors = 128;
    double waves = tiles / processors;
    return waves / (waves + 0.3) * op->depth / (op->depth + 96);
}

static double op_seconds(const struct step_op *op, const struct machine *m, double length)
{
    double memory = op->bytes / m->memory;
    switch (op->kind) {
    case STEP_MATMUL: {
        if (op->fp32)
            return fmax(op->flops / m->narrow_product, memory);
        double rate = (op->fp8 ? m->fp8_product : m->product) * shape_share(op);
        return fmax(op->flops / rate, memory);
    }
    case STEP_ATTENTION: { // short rows fill the kernel badly; backward runs at about 0.75 of
                           // forward
        double rate = op->masked ? MASKED_RATE * m->flash_forward * length / (length + 325)
                                 : m->flash_forward * length / (length + 650);
        if (op->phase == STEP_BACKWARD)
            rate *= 0.78;
        return fmax(op->flops / rate, memory);
    }
    case STEP_DEQUANTIZE: return memory / 0.6;
    default: return memory;
    }
}

static struct machine machine_of(const struct step_request *r, const struct gpu *gpu)
{
    const struct generation *g = generation_of(gpu);
    int half = r->recipe->precision == RECIPE_FP8 ? RECIPE_BF16 : r->recipe->precision;
    double product = compute_matmul_flops_per_s(gpu, half);
    double attention = r->stack->attention == STACK_FLASH2            ? g->flash2
                       : r->stack->attention == STACK_ATTENTION_EAGER ? 0.5
                                                                      : g->modern;
    return (struct machine){
        .product = product,
        .fp8_product = compute_matmul_flops_per_s(gpu, RECIPE_FP8),
        .memory = compute_memory_bytes_per_s(gpu),
        // Measured: PEFT against bf16 adapters, 8B on an H200, 8,939 against 12,066 tokens/s.
        .narrow_product = 0.26 * gpu->fp32_flops_per_s,
        .flash_forward = attention * product,
    };
}

static double length_of(const struct step_request *r)
{
    return r->batch.tokens > 0 ? r->batch.squares / r->batch.tokens : 1;
}

double compute_op_seconds(const struct step_op *op, const struct step_request *r,
                          const struct gpu *gpu)
{
    struct machine machine = machine_of(r, gpu);
    return op_seconds(op, &machine, length_of(r));
}

static void add_ops(struct timing *t, const struct step *step, const struct step_request *r,
                    const struct machine *m)
{
    double length = length_of(r);
    for (size_t i = 0; i < step->count; i++) {
        const struct step_op *op = &step->ops[i];
        double seconds = op_seconds(op, m, length) * op->repeats;
        if (op->phase == STEP_UPDATE) {
            t->update_seconds += seconds + op->launches * r->stack->launch_seconds;
            continue;
        }
        // Backward is started from C++, without the interpreter.
        double launch = r->stack->launch_seconds * (op->phase == STEP_BACKWARD ? 0.6 : 1);
        t->host_seconds += op->launches * op->repeats * launch;
        t->flops += op->flops * op->repeats * r->accumulation;
        switch (op->kind) {
        case STEP_MATMUL: t->matmul_seconds += seconds; break;
        case STEP_ATTENTION: t->attention_seconds += seconds; break;
        case STEP_DEQUANTIZE: t->dequantize_seconds += seconds; break;
        default: t->elementwise_seconds += seconds;
        }
    }
}

// What the host adds to the device's time. The larger of the two counts, smoothed where they are
// close because neither queue hides the other wholly: (d⁴ + h⁴)^¼ − d. expm1 and log1p, because the
// difference itself would cancel.
static double waiting(double device, double host)
{
    return device > 0 ? device * expm1(0.25 * log1p(pow(host / device, 4))) : host;
}

void compute_time(struct timing *out, const struct step *step, const struct step_request *r,
                  const struct gpu *gpu, const struct links *links)
{
    *out = (struct timing){ 0 };
    struct machine machine = machine_of(r, gpu);
    add_ops(out, step, r, &machine);
    double device = out->matmul_seconds + out->attention_seconds + out->elementwise_seconds +
                    out->dequantize_seconds;
    out->waiting_seconds = waiting(device, out->host_seconds);
    double busy = device + out->waiting_seconds;

    struct network_seconds network = network_time(step, r, links);
    double hidden = fmin(network.hideable * r->stack->overlap, 0.9 * busy);
    out->exposed_seconds = network.per_layer - hidden;
    // Reduction of gradients overlaps with the backward of the last micro-batch.
    out->reduce_seconds = network.per_step - fmin(network.per_step * r->stack->overlap, 0.9 * busy);
    out->micro_seconds = busy + out->exposed_seconds;

    double stages = r->layout->split ? 1 : (double)r->layout->pipeline;
    out->bubble_seconds = (stages - 1) * out->micro_seconds / (double)r->layout->interleave;
    out->offload_seconds = network.offload;
    out->step_seconds = r->accumulation * out->micro_seconds + out->bubble_seconds +
                        out->reduce_seconds + out->update_seconds + out->offload_seconds +
                        r->stack->step_seconds;
    out->peak_share =
        out->flops / out->step_seconds / compute_peak_flops_per_s(gpu, r->recipe->precision);
}

double compute_tokens_per_s(const struct timing *timing, const struct step_request *r)
{
    return r->batch.tokens * r->accumulation * (double)r->layout->data / timing->step_seconds;
}
