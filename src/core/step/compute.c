// SPDX-License-Identifier: Apache-2.0
// Times each operation by the roofline and adds communication, pipeline bubbles and the update.

#include "core/step/compute.h"

#include "core/step/attended.h"
#include "core/step/engine.h"
#include "core/step/memory.h"
#include "core/step/moe.h"

#include <math.h>
#include <string.h>

// Shares that hold for a generation of cards. Hopper's are measured (bench/results/h200.md):
// products of training shapes sustain 0.86 of the best short run under the power limit; attention
// as a share of that rate. FlashAttention-2 runs on the tensor instructions of Ampere: Qwen3-4B on
// rows of 65,536 tokens takes longer on B200 than on H100 with FlashAttention-3 (prime-rl, 19.9 s).
// The other rows are assumptions of the same kind, corrected by what stacks reach. A long run also
// has to live on the board's power, which a short product does not show: cards of one chip differ
// by it: a GB300 of 1,400 W runs fp8 1.12 to 1.21 times as fast as a GB200 of 1,200 W in the same
// tables (Megatron-Bridge, MLPerf 5.1). Collectives are kernels that share the processors with
// compute. Over NVLink NCCL is taken to run on 16 of them, which products lack for that time: 16 of
// 132 on Hopper, of 148 on Blackwell, of 108 on Ampere, of 80 on Volta (15 % of a card that is not
// named were seen busy: NVIDIA/nccl issue 1432; products beside collectives are 18.9 % slower on
// average: arXiv 2507.03114); over PCIe on 2 (its issue 689).
// On MI300X, products and collectives side by side gain 21 % of what they would without getting in
// each other's way (AMD, arXiv 2412.14335). Two published steps of CDNA 4 hide all of it.
static const struct generation {
    const char *begins;     // the compute capability, or the architecture where there is none
    double datasheet_share; // of the peak that a product sustains, where nothing was measured
    double measured_share;  // of the best measured product
    double power_flops_per_s,
        power_watts;       // bf16, that a board of that power sustains; 0: not known
    double flash2, modern; // attention forward against products: FlashAttention-2; cuDNN, FA3
    double overlap;        // share of a collective's time that can overlap with compute
} generations[] = {
    { "9.0", 0.68, 0.86, 700e12, 700, 0.50, 0.88, 0.88 },     // Hopper
    { "10.3", 0.64, 0.76, 0, 0, 0.26, 0.72, 0.89 },           // Blackwell Ultra
    { "10.", 0.58, 0.76, 0, 0, 0.30, 0.80, 0.89 },            // Blackwell for data centres
    { "12.", 0.97, 1.00, 410e12, 600, 0.78, 0.80, 0.98 },     // Blackwell for workstations
    { "8.9", 0.72, 0.92, 217e12, 350, 0.78, 0.80, 0.98 },     // Ada
    { "8.", 0.78, 0.92, 0, 0, 0.78, 0.80, 0.85 },             // Ampere
    { "7.", 0.65, 0.92, 0, 0, 0.40, 0.40, 0.80 },             // Volta, Turing
    { "gfx942", 0.55, 0.90, 700e12, 1000, 0.50, 0.60, 0.21 }, // CDNA 3
    { "gfx950", 0.60, 0.95, 1500e12, 1400, 0.50, 0.60, 1 },   // CDNA 4
    { "gfx", 0.46, 0.76, 0, 0, 0.50, 0.60, 0.21 },            // CDNA 2, RDNA
    { "Gaudi2", 0.71, 0.90, 0, 0, 0.50, 0.60, 1 }, // a published linear layer: 309 of 432 TFLOP/s
    { "Gaudi3", 0.30, 0.90, 0, 0, 0.50, 0.60, 1 }, // trains at 1.4 to 1.7 times a Gaudi 2
    { "", 0.60, 0.90, 0, 0, 0.50, 0.60, 1 },       // anything else
};

static const struct generation *generation_of(const struct gpu *gpu)
{
    const char *named = gpu->compute_capability ? gpu->compute_capability : gpu->architecture;
    const struct generation *g = generations;
    while (*g->begins && (!named || strncmp(named, g->begins, strlen(g->begins))))
        g++;
    return g;
}

// The share of a collective's time that can overlap with compute.
static double collective_overlap(const struct gpu *gpu)
{
    bool over_pcie = !strcmp(gpu->vendor, "nvidia") && !(network_usual_link(gpu) > 0);
    return over_pcie ? 0.98 : generation_of(gpu)->overlap;
}

double compute_peak_flops_per_s(const struct gpu *gpu, int precision)
{
    double half = gpu->bf16_flops_per_s > 0 ? gpu->bf16_flops_per_s : gpu->fp16_flops_per_s;
    switch (precision) {
    case RECIPE_FP32:
        return gpu->tf32_flops_per_s > 0 ? gpu->tf32_flops_per_s : gpu->fp32_flops_per_s;
    case RECIPE_FP16: return gpu->fp16_flops_per_s > 0 ? gpu->fp16_flops_per_s : half;
    case RECIPE_FP8: return gpu->fp8_flops_per_s > 0 ? gpu->fp8_flops_per_s : half;
    case RECIPE_FP4:
        return gpu->fp4_flops_per_s > 0 ? gpu->fp4_flops_per_s
                                        : compute_peak_flops_per_s(gpu, RECIPE_FP8);
    default: return half;
    }
}

// What the board's power feeds for long. Power grows with the clock times the square of a voltage
// that falls with it, so the rate with the power of 2/3: from the H100 of 700 W this gives 441
// TFLOP/s at 350 W, where 430 are measured, and 559 at 500 W.
static double powered_flops_per_s(const struct gpu *gpu, const struct generation *g)
{
    if (!(g->power_watts > 0) || !(gpu->tdp_watts > 0))
        return INFINITY;
    return g->power_flops_per_s * pow(gpu->tdp_watts / g->power_watts, 2.0 / 3);
}

// A card cut down in its units alone, with power, caches and memory for several times as much, runs
// products near its peak, and attention's kernels too. Published steps of a 7B on four H20: 87 % of
// the peak in all with FlashAttention-2, 95 % with FlashAttention-3 (NOV-042 and 043). GeForce
// cards, whose units add in fp32 at half their rate, are alike: products alone reach 1.08 of the
// datasheet on an RTX 4090, 0.97 on a 5090.
static const double CUT_SHARE = 0.95, CUT_ATTENTION = 0.9;

static bool is_cut(const struct gpu *gpu)
{
    double powered = powered_flops_per_s(gpu, generation_of(gpu));
    return !(gpu->measured_bf16_flops_per_s > 0) && !isinf(powered) &&
           powered > 1.8 * compute_peak_flops_per_s(gpu, RECIPE_BF16);
}

double compute_matmul_flops_per_s(const struct gpu *gpu, int precision)
{
    const struct generation *g = generation_of(gpu);
    double peak = compute_peak_flops_per_s(gpu, precision),
           half = compute_peak_flops_per_s(gpu, RECIPE_BF16);
    double rate = gpu->measured_bf16_flops_per_s > 0
                      ? g->measured_share * gpu->measured_bf16_flops_per_s
                      : (is_cut(gpu) ? CUT_SHARE : g->datasheet_share) * half;
    return fmin(rate, powered_flops_per_s(gpu, g)) * peak / half;
}

double compute_memory_bytes_per_s(const struct gpu *gpu)
{
    return 0.87 * gpu->memory_bytes_per_s; // a copy on the H200 reaches 4.25 of 4.8 TB/s
}

struct machine {
    double product, small_product; // of 16-bit operands; of 8- or 4-bit ones
    double memory;
    struct attention_rate {
        double most;   // FLOP/s, of rows without end
        double length; // at which it is half of that
    } forward, backward;
    double missed_bytes; // of keys and values in memory, per FLOP of the forward pass
    double narrow;       // memory's rate in products of adapters
    double share;        // of a copy's rate, where an elementwise operation has none of its own
    double cached, cache_bytes; // elementwise, of what the cache still holds
    double fp32_product;        // of fp32 adapters, by shape
    bool serial;                // products of groups run one by one
};

// Of a copy's rate, what PyTorch's own kernels reach where nobody profiled them: the mean of
// those of transformers that were (docs/formulas.md, traffic).
static const double EAGER_SHARE = 0.8;

// Of a copy's rate, what products with a rank among their sides read and write at under PEFT: 0.69
// to 0.8 in three profiles of steps on an H200 (bench/results/h200.md).
static const double NARROW_SHARE = 0.72;

// Of the board's power, what kernels that only move data draw: assumed. With it an H200 runs the
// products of transformers at 795 TFLOP/s, where profiles of three steps have 778 to 810, and our
// own engine's at 712, where 703 are left of a step (bench/results/h200.md).
static const double MOVING_POWER = 0.65;

// What kernels read from the cache: published tests give 4 to 6 TB/s from A100 to H100 and Ada.
static const double CACHE_BYTES_PER_S = 5e12;

// Of the causal kernel's rate, what attention under a mask runs at on an H200; it computes the
// whole square, so that fewer columns are lost to short rows (bench/results/h200.md).
static const double MASKED_RATE = 0.58, MASKED_LENGTH = 180;

// Causal attention on an H200, by kernel: most/(1 + length/l) for rows of l tokens, in both passes.
// Measured from 128 to 131,072 tokens in PyTorch 2.11, the sum of both passes within 6 % from 256
// on (bench/results/h200.md).
static const struct attention_curve {
    double forward_length;
    double backward, backward_length; // of the forward pass's rate
} curves[] = {
    [STACK_CUDNN] = { 550, 0.90, 850 },
    [STACK_FLASH3] = { 550, 0.90, 850 }, // taken to be alike
    [STACK_FLASH2] = { 370, 0.96, 1000 },
    [STACK_TRITON] = { 370, 0.96, 1000 },
    [STACK_ATTENTION_EAGER] = { 230, 1, 230 }, // its products alone
};

// Of the rate that heads of 128 elements have, forward and backward: kernels fill tiles made for
// 64, 128 and more, and backward passes of wide heads lack registers. There too, rows of 4,096
// tokens.
static const struct head_rate {
    int64_t size; // at most
    double cudnn[2], flash2[2];
} head_rates[] = {
    { 64, { 0.76, 0.78 }, { 0.88, 0.87 } },  { 80, { 0.67, 0.70 }, { 0.80, 0.70 } },
    { 96, { 0.78, 0.81 }, { 0.97, 0.88 } },  { 128, { 1, 1 }, { 1, 1 } },
    { 192, { 1.07, 0.66 }, { 0.95, 0.90 } }, { 256, { 1.11, 0.78 }, { 0.94, 0.88 } },
};

// Of FlashAttention-2's rate. llm-foundry's tables of 2023 grow by 94 to 107 TFLOP/s on A100s and
// by 172 to 184 on H100s between contexts of 2,048 and 65,536 tokens, whatever the model.
static const double TRITON_RATE = 0.54;

// The price of the same bits twice: cuDNN's backward pass adds up the gradients of queries in one
// order. 388, 424 and, in parts, 396 TFLOP/s of rows of 4,096, 32,768 and 131,072 tokens; in any
// order 416, 499 and 500; short rows are no slower.
static const double ORDERED_RATE = 0.8, ORDERED_LENGTH = 550, PARTS_RATE = 0.92;

// Those are of documents of any length. Even ones need no mask of their ends: 606 to 668 TFLOP/s
// forward at 4,096 to 32,768 tokens (564 to 598), 401 to 442 backward (388 to 424), 432 to 526 in
// any order; a step of 131,072 tokens, in parts, takes 42.4 s (46.3).
static const double EVEN_FORWARD = 1.08, EVEN_BACKWARD = 1.05, EVEN_PARTS_RATE = 1;

// Our own kernel for heads of 128 on Hopper, always in one order: 516, 490, 512 and 522 TFLOP/s at
// 4,096 to 32,768 tokens, even or not, 249 at 512; cuDNN's any order is the curve.
static const double HOPPER_LENGTH = 350;

// Our engine's built-in kernels against FlashAttention-2, whose tensor instructions they use: 306
// and 191 TFLOP/s at 32,768 tokens, 268 and 171 at 4,096, 158 and 118 at 512.
static const double BUILT_IN_FORWARD = 0.92, BUILT_IN_BACKWARD = 0.6, BUILT_IN_LENGTH = 400;

// All rows of a head read its keys and values, in tiles of so many: from the cache, as far as that
// holds them. What it does not hold costs so much of the time that memory takes for it: an H200's
// cache has three quarters of a head of 131,072 tokens, and the forward pass lost a tenth.
static const double TILE_ROWS = 128, MISSED_SHARE = 0.33;

// Of the rate of products whose rows begin at multiples of 16 bytes, as tensor maps need them.
// 8,192 × 4,096 by 32,000 columns ran at 695 TFLOP/s on an H200, by 32,004 and 32,002 at 287, by
// 32,001 at 99; 3,420 columns, or as many rows, at 0.37 and 0.33 of 3,424's
// (bench/results/h200.md).
static double aligned_rate(int aligned)
{
    return aligned <= 0 || aligned >= 16 ? 1 : aligned >= 4 ? 0.38 : 0.15;
}

// A product is cut into tiles that run on the multiprocessors in waves; the last wave is partly
// empty.
static double shape_share(const struct step_op *op, bool serial)
{
    if (op->share > 0 && !(serial && op->groups > 0))
        return op->share;
    double tiles = ceil(op->rows / 128) * ceil(op->columns / 128), processors = 128;
    double waves = tiles / processors;
    return aligned_rate(op->aligned) * waves / (waves + 0.3) * op->depth / (op->depth + 96);
}

// A product with a rank among its sides fills a part of a 128-wide tile of the 32-bit units.
// Measured at rank 16: PEFT against bf16 adapters, 8B on an H200, 8,939 against 12,066 tokens/s.
// With the rate of rank 16, steps of 64 and 256 were 1.4 and 2 times too slow; this takes 1.22
// and 1.74 off (8B, 8,192 tokens), a wider tile being fuller. Nobody measured these two products
// alone.
static double narrow_share(const struct step_op *op)
{
    double narrow = fmin(fmin(op->rows, op->columns), op->depth);
    return 0.75 * narrow / (narrow + 30);
}

// What a kernel writes, the next one finds in the cache, as far as that holds a kernel's tensors.
static double held_share(const struct step_op *op, const struct machine *m)
{
    double touched = op->bytes / fmax(op->launches, 1);
    return m->cache_bytes > touched ? 1 - touched / m->cache_bytes : 0;
}

static double op_seconds(const struct step_op *op, const struct machine *m, double length)
{
    double memory = op->bytes / m->memory;
    length = op->length > 0 ? op->length : length;
    switch (op->kind) {
    case STEP_MATMUL: {
        if (op->fp32)
            return fmax(op->flops / (m->fp32_product * narrow_share(op)), memory);
        double rate = (op->small ? m->small_product : m->product) * shape_share(op, m->serial);
        return fmax(op->flops / rate, op->adapter ? op->bytes / m->narrow : memory);
    }
    case STEP_ATTENTION: { // short rows fill the kernel badly
        bool back = op->phase == STEP_BACKWARD;
        const struct attention_rate *rate = back ? &m->backward : &m->forward;
        double half = op->masked ? MASKED_LENGTH : rate->length;
        double most = rate->most * (op->share > 0 ? op->share : 1);
        double seconds = op->flops / most * (1 + half / length);
        if (op->masked)
            seconds /= MASKED_RATE;
        if (!back)
            seconds += MISSED_SHARE * op->flops * m->missed_bytes / m->memory;
        return fmax(seconds, memory);
    }
    case STEP_ELEMENTWISE: {
        double held = held_share(op, m), share = op->share > 0 ? op->share : m->share;
        return op->bytes / share * ((1 - held) / m->memory + held / m->cached);
    }
    default: return memory;
    }
}

// Of the pieces that attention runs on: rings of context parallelism cut rows into one per rank.
static double length_of(const struct step_request *r)
{
    double pieces = (double)r->layout->context;
    return r->batch.tokens > 0 ? r->batch.squares / r->batch.tokens / pieces : 1;
}

// Of the best measured rate of products, what a board sustains that runs nothing else, if it is
// known that more power than it has would be needed for all of it; else 1.
static double sustained_share(const struct gpu *gpu)
{
    const struct generation *g = generation_of(gpu);
    if (!(g->power_watts > 0))
        return 1;
    double half = compute_peak_flops_per_s(gpu, RECIPE_BF16);
    double best = gpu->measured_bf16_flops_per_s > 0
                      ? gpu->measured_bf16_flops_per_s
                      : g->datasheet_share / g->measured_share * half;
    return fmin(1, compute_matmul_flops_per_s(gpu, RECIPE_BF16) / best);
}

// How much faster products run because the other kernels of the step leave them power: products
// that take the time p at the rate they sustain alone, others that take the time o. Power goes with
// the rate to the power of 3/2 (powered_flops_per_s), so that at the best rate they would draw
// s^-3/2 of the board's; the board then slows them until the mean over the step is its own.
// Attention draws as much as products do on their own, and neither leaves nor takes any.
static double relief(double products, double moving, double sustained)
{
    // products · (rate^3/2 − 1) / rate = moving · (1 − power): with x = √rate, x³ − left·x² = 1.
    double left = products > 0 ? moving * (1 - MOVING_POWER) / products : 0, x = 1 + left;
    for (int i = 0; i < 6; i++) // Newton, from above
        x -= (x * x * (x - left) - 1) / (x * (3 * x - 2 * left));
    return fmin(x * x, 1 / sustained);
}

// Of a head's keys and values, the bytes that a FLOP of the forward pass reads from memory.
static double missed_bytes(const struct step_request *r, const struct gpu *gpu, double length)
{
    double head = (double)r->model->head_size, bytes = 2 * 2 * head * length;
    double missed = gpu->cache_bytes > 0 ? fmax(0, 1 - gpu->cache_bytes / bytes) : 0;
    return missed / TILE_ROWS; // of a key and its value, 4 bytes an element, 4 FLOP in each row
}

static const double *rate_of_heads(enum stack_attention kernel, int64_t size)
{
    size_t last = sizeof head_rates / sizeof *head_rates - 1, i = 0;
    while (i < last && head_rates[i].size < size)
        i++;
    bool older = kernel == STACK_FLASH2 || kernel == STACK_TRITON;
    return older ? head_rates[i].flash2 : head_rates[i].cudnn;
}

// Latent attention's keys and values have sizes of their own, which nobody measured here.
static const double *head_rate(const struct step_request *r)
{
    static const double as_measured[2] = { 1, 1 };
    enum stack_attention kernel = attended_kernel(r);
    bool as_table = !r->model->kv_lora_rank && kernel != STACK_ATTENTION_EAGER;
    return as_table ? rate_of_heads(kernel, r->model->head_size) : as_measured;
}

double compute_head_share(const struct step_request *r, int64_t size, bool backward)
{
    enum stack_attention kernel = attended_kernel(r);
    if (kernel == STACK_ATTENTION_EAGER)
        return 1;
    return rate_of_heads(kernel, size)[backward] / head_rate(r)[backward];
}

// The rates of attention, forward as a share of that of products.
static void set_attention(struct machine *m, const struct step_request *r, const struct gpu *gpu)
{
    const struct generation *g = generation_of(gpu);
    enum stack_attention kind = attended_kernel(r);
    const struct attention_curve *curve = &curves[kind];
    struct memory_device card = memory_device(gpu, false);
    struct engine_attention kernel = engine_attention(r, card.bytes, card.is_hopper);
    double share = kind == STACK_FLASH2            ? g->flash2
                   : kind == STACK_TRITON          ? TRITON_RATE * g->flash2
                   : kind == STACK_ATTENTION_EAGER ? 0.7
                                                   : g->modern;
    if (is_cut(gpu) && kind != STACK_ATTENTION_EAGER)
        share = CUT_ATTENTION;
    double most = share * m->product;
    const double *head = head_rate(r);
    m->forward = (struct attention_rate){ head[0] * most, curve->forward_length };
    m->backward =
        (struct attention_rate){ head[1] * curve->backward * most, curve->backward_length };
    if (r->stack->exact_gradients && !r->recipe->nondeterministic)
        m->backward = (struct attention_rate){ ORDERED_RATE * m->backward.most, ORDERED_LENGTH };
    if (kernel.backward == ENGINE_CUDNN_IN_PARTS)
        m->backward.most *= kernel.even ? EVEN_PARTS_RATE : PARTS_RATE;
    if (kernel.even) {
        m->forward.most *= EVEN_FORWARD;
        m->backward.most *= EVEN_BACKWARD;
    }
    if (kernel.backward == ENGINE_HOPPER)
        m->backward = (struct attention_rate){ curve->backward * most, HOPPER_LENGTH };
    double built_in = g->flash2 * m->product;
    if (kernel.backward == ENGINE_BUILT_IN)
        m->backward = (struct attention_rate){ BUILT_IN_BACKWARD * built_in, BUILT_IN_LENGTH };
    if (kernel.forward == ENGINE_BUILT_IN)
        m->forward = (struct attention_rate){ BUILT_IN_FORWARD * built_in, BUILT_IN_LENGTH };
    if (kind == STACK_CUDNN)
        m->missed_bytes = missed_bytes(r, gpu, length_of(r));
}

static struct machine machine_of(const struct step_request *r, const struct gpu *gpu)
{
    int precision = r->recipe->precision;
    int half = recipe_is_small(r->recipe) ? RECIPE_BF16 : precision;
    double product = compute_matmul_flops_per_s(gpu, half);
    double memory = compute_memory_bytes_per_s(gpu);
    bool eager = r->stack->kernels == STACK_EAGER;
    struct machine machine = {
        .product = product,
        .small_product = compute_matmul_flops_per_s(gpu, precision),
        .memory = memory,
        .narrow = (eager ? NARROW_SHARE : 1) * memory,
        .share = eager ? EAGER_SHARE : 1,
        .cached = fmax(memory, CACHE_BYTES_PER_S),
        .cache_bytes = gpu->cache_bytes,
        .fp32_product = gpu->fp32_flops_per_s,
        .serial = moe_is_serial(r, gpu),
    };
    set_attention(&machine, r, gpu);
    return machine;
}

static bool is_limited_by_power(const struct step_op *op)
{
    return op->kind == STEP_MATMUL && !op->fp32;
}

// All operations as if products ran alone; then products again, with the power that others leave.
void compute_op_times(double seconds[], const struct step *step, const struct step_request *r,
                      const struct gpu *gpu)
{
    struct machine machine = machine_of(r, gpu);
    double length = length_of(r), products = 0, moving = 0, sustained = sustained_share(gpu);
    for (size_t i = 0; i < step->count; i++) {
        const struct step_op *op = &step->ops[i];
        seconds[i] = op_seconds(op, &machine, length);
        if (is_limited_by_power(op))
            products += seconds[i] * op->repeats;
        else if (op->kind == STEP_ELEMENTWISE || op->kind == STEP_DEQUANTIZE)
            moving += seconds[i] * op->repeats;
    }
    if (sustained >= 1)
        return;
    double faster = relief(products, moving, sustained);
    machine.product *= faster;
    machine.small_product *= faster;
    for (size_t i = 0; i < step->count; i++)
        if (is_limited_by_power(&step->ops[i]))
            seconds[i] = op_seconds(&step->ops[i], &machine, length);
}

// Of the host, per operation. Backward is started from C++, without the interpreter; a recomputed
// operation passes the hooks of its saved tensors, in forward and again in backward. Without
// gradients no graph is built: evaluations of two Trainer runs took 0.57 and 0.75 of a forward pass
// of training (bench/results/h200.md).
static double launch_seconds(enum step_phase phase, const struct stack *stack)
{
    static const double without_gradients = 0.65;
    double share = phase == STEP_BACKWARD            ? 0.6
                   : phase == STEP_RECOMPUTE         ? stack->recompute_launches
                   : phase == STEP_WITHOUT_GRADIENTS ? without_gradients
                                                     : 1;
    return share * stack->launch_seconds;
}

double compute_host_seconds(const struct step_op *op, const struct stack *stack)
{
    enum step_phase phase = op->graphless ? STEP_WITHOUT_GRADIENTS : op->phase;
    return op->launches * launch_seconds(phase, stack);
}

// What the host starts beside the operation's own launch where products of groups run one by one:
// each of them, after it has waited for where the groups end.
static double serial_seconds(const struct step_op *op, enum step_phase phase,
                             const struct stack *stack, bool serial)
{
    return serial && op->groups > 0
               ? (1 + op->groups * STEP_PLAIN_LAUNCH) * launch_seconds(phase, stack)
               : 0;
}

// Under ZeRO-3 and FSDP the host fetches and frees weights in every pass, in Python: DeepSpeed each
// tensor, PyTorch's FSDP each unit. PEFT makes a unit of every layer and of every adapter matrix,
// unless they lie in the layer's flat tensor. Measured: Mistral-7B with 256 adapter matrices on two
// A100 (fms-acceleration), 0.89 s more a micro-batch than on one; without adapters 0.15 s.
// trains: in all passes of a micro-batch; else in one without gradients, as evaluation has.
static double fetch_seconds(const struct step *step, const struct step_request *r, bool trains)
{
    if (r->layout->zero != 3)
        return 0;
    bool apart = r->stack->held_gradients != STACK_GRADIENTS_FLAT;
    double tensors = 0, adapters = 0, passes = trains ? 2 : 1;
    for (size_t i = 0; i < step->count; i++) {
        const struct step_op *op = &step->ops[i];
        bool forward = op->phase == STEP_FORWARD;
        if (trains || forward)
            tensors += op->weighs * op->repeats;
        if (apart && op->adapter && op->kind == STEP_MATMUL && forward)
            adapters += op->repeats;
        if (trains && op->phase == STEP_RECOMPUTE)
            passes = 3;
    }
    double units = passes * (step->layers + adapters);
    return r->stack->fetch_seconds * (r->stack->fetches == STACK_FETCHES_UNITS ? units : tensors);
}

static void add_ops(struct timing *t, const struct step *step, const struct step_request *r,
                    const double once[], bool serial)
{
    double rounds = step_rounds(r);
    for (size_t i = 0; i < step->count; i++) {
        const struct step_op *op = &step->ops[i];
        double repeats = op->repeats * (step_trains(op->phase) ? rounds : 1);
        double seconds = once[i] * repeats;
        double host = repeats * (compute_host_seconds(op, r->stack) +
                                 serial_seconds(op, op->phase, r->stack, serial));
        if (op->phase == STEP_UPDATE) {
            t->update_seconds += seconds + host;
            continue;
        }
        t->host_seconds += host;
        t->flops += op->flops * repeats * r->accumulation;
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

// What transformers' Trainer adds to each micro-batch while the GPU has nothing to do
// (docs/formulas.md, section compute).
static double pause_seconds(const struct step *step, const struct step_request *r)
{
    double adapted = 0;
    for (size_t i = 0; i < step->count; i++) {
        const struct step_op *op = &step->ops[i];
        if (op->adapter && op->kind == STEP_MATMUL && op->phase == STEP_FORWARD)
            adapted += 0.5 * op->repeats; // two products each
    }
    return r->stack->pause_seconds * adapted;
}

// The same on average over micro-batches whose tokens vary: narrow ones wait for the host, wide
// ones do not, so that it is more than in a mean one. Five points of Gauss and Hermite, lognormal.
static double mean_waiting(double device, double host, double varies)
{
    static const struct {
        double at, weight;
    } points[] = { { -2.8569700138728, 0.0112574113277 },
                   { -1.3556261799743, 0.2220759220057 },
                   { 0, 0.5333333333333 },
                   { 1.3556261799743, 0.2220759220057 },
                   { 2.8569700138728, 0.0112574113277 } };
    if (!(varies > 0))
        return waiting(device, host);
    double sum = 0;
    for (size_t i = 0; i < sizeof points / sizeof *points; i++)
        sum += points[i].weight *
               waiting(device * exp(varies * points[i].at - varies * varies / 2), host);
    return sum;
}

static double evaluation_share(const struct timing *timing, const struct step *step,
                               const struct step_request *r, const double once[], bool serial)
{
    double device = 0, host = 0;
    for (size_t i = 0; i < step->count; i++) {
        const struct step_op *op = &step->ops[i];
        if (op->phase != STEP_FORWARD && op->phase != STEP_WITHOUT_GRADIENTS)
            continue;
        device += once[i] * op->repeats;
        host += op->repeats * (op->launches * launch_seconds(STEP_WITHOUT_GRADIENTS, r->stack) +
                               serial_seconds(op, STEP_WITHOUT_GRADIENTS, r->stack, serial));
    }
    host += fetch_seconds(step, r, false);
    double busy =
        device + mean_waiting(device, host, r->batch.varies) + timing->forward_exposed_seconds;
    // The batch of a step passes a pipeline in evaluation too.
    double passes = r->accumulation * timing->micro_seconds + timing->bubble_seconds;
    return busy / timing->micro_seconds * passes / timing->step_seconds;
}

// Ranks that meet have to wait for the one with most tokens: in every micro-batch where weights are
// gathered, else once a step, when differences have partly evened out. Measured: Mistral-7B on rows
// of 289 tokens without padding, eight a rank, on 1, 2, 4, 8 A100 (fms-acceleration): 1, 0.84,
// 0.79, 0.69 of the rate, where full rows of 4,096 keep 0.97. No rank has more than the fullest.
static double fullest_rank(const struct step_request *r)
{
    if (!(r->batch.spread > 0) || r->layout->data <= 1)
        return 1;
    double batches = step_rounds(r) * r->accumulation / step_updates(r);
    double together = r->layout->zero == 3 ? 1 : fmax(1, batches);
    double most = r->batch.fullest > 0 ? fmax(1, r->batch.fullest / r->batch.tokens) : INFINITY;
    return fmin(most,
                stats_lognormal_longest(r->batch.spread / sqrt(together), (double)r->layout->data));
}

// A pipeline is empty while its first micro-batch runs to the last stage and the last one back. The
// batch of a step is cut into as many micro-batches as there are stages at least, rows allowing,
// as PyTorch's schedules do.
static double bubble_seconds(const struct step_request *r, double micro_seconds)
{
    double stages = r->layout->split ? 1 : (double)r->layout->pipeline;
    double updates = step_updates(r), batches = step_rounds(r) * r->accumulation / updates;
    double pieces = fmax(batches, fmin(stages, batches * r->batch.rows));
    double each = (stages - 1) * micro_seconds * batches / pieces / (double)r->layout->interleave;
    return updates / step_rounds(r) * each; // micro_seconds are of all rounds
}

// A step ends when the slowest GPU ends. Its delay is a sum of many small ones, which grows with
// the root of the time between two synchronisations, and each doubling of the GPUs finds a slower
// one: 5 ms at 0.2 s (GB200), 13 to 17 ms at 0.6 s, 18 ms at 0.9 s (H100, H200; MLPerf's 70B LoRA).
static double straggling_seconds(double micro_seconds, double doublings)
{
    return 0.017 * sqrt(micro_seconds) * doublings;
}

// Cards of one kind differ: those of five clusters by 8 % from one end to the other on average
// (arXiv 2208.11035), taken as the ends of a box plot, 5.4 deviations. Cards of a node that meet go
// at the speed of the slowest; straggling_seconds() has what further nodes add.
static double slowest_card(const struct step_request *r, const struct links *links)
{
    static const double deviation = 0.08 / 5.4;
    double gpus = fmin((double)layout_gpus(r->layout), links->node_gpus);
    if (!(gpus > 1))
        return 0;
    return deviation * stats_normal_quantile((gpus - 0.375) / (gpus + 0.25)); // Blom
}

// How much longer the slowest of all hosts takes to start a step's operations than one alone; each
// doubling of the hosts finds a slower one. A layer that is a CUDA graph is started at once.
static double slowest_host(const struct stack *stack, double doublings)
{
    return stack->cuda_graphs ? 1 : pow(1.28, doublings);
}

// FSDP2 gathers the weights of a unit into one buffer, and copies each of them out of it on the
// stream of the passes; gradients are copied into another one, in the type in which they are
// summed (PyTorch, _fsdp_collectives.py: all_gather_copy_out, reduce_scatter_copy_in). FSDP1 has
// views instead.
static double buffer_bytes(const struct step *step, const struct step_request *r, double gathers)
{
    if (r->layout->zero != 3 || !r->stack->copies_gathered || layout_shards(r->layout) <= 1)
        return 0;
    double element = r->recipe->precision == RECIPE_FP32 ? 4 : 2;
    double summed = r->recipe->method == RECIPE_FULL ? recipe_dtype_bytes(r->stack->reduces) : 2;
    return 2 * element * gathers * (step->trained_weights + step->frozen_weights) +
           (element + summed) * step->trained_weights;
}

// What can hide behind compute. A loop over experts waits for the device in each turn of a forward
// pass, one over their products before each kind of them, so its host asks for the next layer's
// weights too late; only backward runs ahead.
static double overlap_of(const struct step *step, const struct step_request *r, bool serial)
{
    bool waits = r->recipe->experts == RECIPE_EXPERTS_EAGER || serial;
    double passes = r->recipe->checkpointing == RECIPE_RECOMPUTE ? 3 : 2;
    double sparse = step->layers > 0 ? step->sparse_layers / step->layers : 0;
    return r->stack->overlap * (waits ? 1 - sparse * (passes - 1) / passes : 1);
}

void compute_time(struct timing *out, const struct step *step, const struct step_request *r,
                  const struct gpu *gpu, const struct links *links)
{
    double once[STEP_OPS];
    bool serial = moe_is_serial(r, gpu);
    *out = (struct timing){ 0 };
    compute_op_times(once, step, r, gpu);
    add_ops(out, step, r, once, serial);
    struct network_seconds network = network_time(step, r, links);
    out->elementwise_seconds +=
        step_rounds(r) * buffer_bytes(step, r, network.gathers) / compute_memory_bytes_per_s(gpu);
    double device = out->matmul_seconds + out->attention_seconds + out->elementwise_seconds +
                    out->dequantize_seconds;
    out->host_seconds += step_rounds(r) * fetch_seconds(step, r, true);
    out->host_seconds *= slowest_host(r->stack, network.host_doublings);
    out->pause_seconds = fmin(step_rounds(r) * pause_seconds(step, r), out->host_seconds);
    double pause = out->pause_seconds, beside = out->host_seconds - pause;
    double waiting = mean_waiting(device, beside, r->batch.varies);
    out->waiting_seconds = pause + waiting;
    double busy = device + out->waiting_seconds;
    double most = device * fullest_rank(r);
    out->uneven_seconds = most + mean_waiting(most, beside, r->batch.varies) - (device + waiting);

    double rounds = step_rounds(r);
    double beside_compute = collective_overlap(gpu) * network.hideable + network.copied;
    double hidden = fmin(rounds * overlap_of(step, r, serial) * beside_compute, 0.9 * busy);
    out->exposed_seconds = rounds * network.per_layer - hidden;
    if (network.per_layer > 0)
        out->forward_exposed_seconds = out->exposed_seconds * network.forward / network.per_layer;
    // Gradients are reduced beside the backward of the micro-batch that does so, in the time that
    // its gathers leave. Stages that a GPU holds in turns end one after another, while as many
    // micro-batches as there are stages drain from the pipeline.
    double updates = step_updates(r);
    double backward = r->recipe->method == RECIPE_FULL ? 2.0 / 3 : 0.5; // of the products
    double draining = r->layout->interleave > 1 ? (double)r->layout->pipeline : 1;
    double room = backward * fmax(draining, network.reductions) * (0.9 * busy - hidden);
    double reduced_beside =
        (network.per_step - network.late) * r->stack->overlap * collective_overlap(gpu);
    out->reduce_seconds = network.per_step - fmin(reduced_beside, room) +
                          updates * straggling_seconds(busy, network.doublings) +
                          r->accumulation * device * slowest_card(r, links);
    out->update_seconds *= updates;
    out->micro_seconds = busy + out->uneven_seconds + out->exposed_seconds;
    out->bubble_seconds = bubble_seconds(r, out->micro_seconds);
    out->offload_seconds = network.offload;
    out->step_seconds = r->accumulation * out->micro_seconds + out->bubble_seconds +
                        out->reduce_seconds + out->update_seconds + out->offload_seconds +
                        updates * r->stack->step_seconds;
    if (r->passes.sampling)
        out->sampling_seconds = r->passes.sampling(r, gpu, links, out->step_seconds);
    out->step_seconds += out->sampling_seconds;
    out->peak_share =
        out->flops / out->step_seconds / compute_peak_flops_per_s(gpu, r->recipe->precision);
    out->evaluation_share = evaluation_share(out, step, r, once, serial);
}

static double device_seconds(const struct timing *timing)
{
    return timing->matmul_seconds + timing->attention_seconds + timing->elementwise_seconds +
           timing->dequantize_seconds;
}

// The slope of (device⁴ + host⁴)^¼. Left out: the pause of a trainer after each micro-batch
// depends on the host also where the device sets the time. It is about a tenth of such steps.
double compute_host_share(const struct timing *timing)
{
    double device = device_seconds(timing);
    return timing->host_seconds > 0 ? 1 / (1 + pow(device / timing->host_seconds, 4)) : 0;
}

double compute_network_share(const struct timing *timing)
{
    double once = timing->bubble_seconds + timing->reduce_seconds;
    double passes = timing->step_seconds - once - timing->update_seconds - timing->offload_seconds;
    double exposed = timing->exposed_seconds / timing->micro_seconds;
    return fmin(1, (passes * exposed + once) / timing->step_seconds);
}

double compute_slowed(const struct timing *timing, double host)
{
    double device = device_seconds(timing);
    double pause = timing->pause_seconds, beside = timing->host_seconds - pause;
    double usual = device + waiting(device, beside) + pause;
    double slowed = device + waiting(device, host * beside) + host * pause;
    return usual > 0 ? slowed / usual : 1;
}

double compute_tokens_per_s(const struct timing *timing, const struct step_request *r)
{
    return r->batch.tokens * r->accumulation * (double)r->layout->data / timing->step_seconds;
}
