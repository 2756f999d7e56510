// SPDX-License-Identifier: Apache-2.0
// Lists the products of a linear, with its adapter, its casts and what dequantises its weights.

#include "core/step/step_internal.h"

#include <math.h>

struct step_op step_product(double element_bytes, const char *name, enum step_phase phase,
                            double rows, double columns, double depth)
{
    double elements = rows * depth + depth * columns + rows * columns;
    return (struct step_op){ .name = name,
                             .phase = phase,
                             .kind = STEP_MATMUL,
                             .flops = 2 * rows * columns * depth,
                             .bytes = element_bytes * elements,
                             .rows = rows,
                             .columns = columns,
                             .depth = depth,
                             .launches = 1 };
}

void step_linear_products(struct step_op *products, double element_bytes, const char *name,
                          double rows, double in, double out)
{
    products[0] = step_product(element_bytes, name, STEP_FORWARD, rows, out, in);
    products[1] = step_product(element_bytes, name, STEP_BACKWARD, rows, in, out);
    products[2] = step_product(element_bytes, name, STEP_BACKWARD, in, out, rows);
}

void step_adapter_products(struct step_op *products, double element_bytes, const char *const *names,
                           double rows, double in, double out, double rank)
{
    const char *a = names[0], *b = names[1];
    products[0] = step_product(element_bytes, a, STEP_FORWARD, rows, rank, in);
    products[1] = step_product(element_bytes, b, STEP_FORWARD, rows, out, rank);
    products[2] = step_product(element_bytes, b, STEP_BACKWARD, rank, out, rows);
    products[3] = step_product(element_bytes, b, STEP_BACKWARD, rows, rank, out);
    products[4] = step_product(element_bytes, a, STEP_BACKWARD, rank, in, rows);
    products[5] = step_product(element_bytes, a, STEP_BACKWARD, rows, in, rank);
}

bool step_trains_linear(const struct step_build *b, const struct model_linear *linear)
{
    const struct recipe *recipe = b->request->recipe;
    return recipe->method == RECIPE_FULL ||
           (linear->role == MODEL_HEAD && recipe->trains_embeddings);
}

// The traffic around an adapter's products, per element of the linear's output and input: B(A(x)) ·
// scale is added to the output, its gradient to the gradient of the input. fp32 adapters cast their
// input and keep the copy in its place. Compared with PEFT on an H200 (bench/results/h200.md).
struct adapter_cost {
    struct traffic on_output, on_input;
    double copy_bytes; // of the input, kept for A; 0: the input itself is kept
    bool fp32;         // products run on the 32-bit units
};

static const struct adapter_cost *adapter_cost(const struct step_build *b)
{
    static const struct adapter_cost bf16 = { { 10, 4, 2, 1, 1 }, { 0, 6, 0, 1, 1 }, 0, false },
                                     fp32 = { { 24, 28, 4, 5, 0 }, { 6, 16, 1, 3, 0 }, 4, true },
                                     autocast = { { 10, 4, 2, 1, 1 },
                                                  { 12, 18, 3, 5, 0.68 },
                                                  2,
                                                  false },
                                     fused = { { 2, 2, 0, 0, 0 }, { 0, 2, 0, 0, 0 }, 0, false };
    bool wide = b->request->recipe->adapter_dtype == RECIPE_FP32;
    switch (b->request->stack->adapters) {
    case STACK_ADAPTERS_FUSED: return &fused;
    case STACK_ADAPTERS_AUTOCAST: return wide ? &autocast : &bf16;
    default: return wide ? &fp32 : &bf16;
    }
}

// rows: of all copies of the linear; starts: how often the host starts the adapter's operations.
static void add_adapter(struct step_build *b, double rows, double in, double out, double starts)
{
    size_t first = b->step->count;
    const struct recipe *recipe = b->request->recipe;
    const struct adapter_cost *cost = adapter_cost(b);
    double rank = (double)recipe->rank;
    static const char *const names[] = { "adapter a", "adapter b" };
    struct step_op ops[STEP_ADAPTER_PRODUCTS];
    step_adapter_products(ops, step_element_bytes(b), names, rows, in, out, rank);
    ops[0].kept_bytes = rows * rank * (cost->fp32 ? 4 : 2);
    for (size_t i = 0; i < STEP_ADAPTER_PRODUCTS; i++) {
        ops[i].bytes *= cost->fp32 ? 2 : 1;
        ops[i].fp32 = cost->fp32;
        step_add(b, &ops[i]);
    }
    struct traffic on_input = cost->on_input;
    double copy = cost->copy_bytes;
    if (recipe->dropout > 0 && b->request->stack->adapters != STACK_ADAPTERS_FUSED) {
        on_input.forward_bytes += 5; // the input, its mask and the product
        on_input.backward_bytes += 5;
        on_input.forward_launches += 1;
        on_input.backward_launches += 1;
        copy = fmax(copy, step_element_bytes(b)) + 1;
    }
    step_add_elementwise(b, "adapter sum", cost->on_output, rows * out, 0);
    step_add_elementwise(b, "adapter input", on_input, rows * in, copy * rows * in);
    for (size_t i = first; i < b->step->count; i++) {
        b->step->ops[i].adapter = true;
        b->step->ops[i].launches *= starts;
    }
}

// Bytes moved at the memory's rate, and kernels, to make 16-bit weights in each pass. bitsandbytes
// looks every value up in a kernel that reaches 0.6 of the memory's rate; AutoGPTQ unpacks 4-bit
// values in PyTorch: a shift and a mask over 32-bit copies, the zeros taken off, the scale
// multiplied, each a kernel that reads and writes all weights (22 bytes by Qwen's runs of 7B to
// 72B).
static const struct dequantizer {
    double bytes, launches;
} dequantizers[] = {
    [RECIPE_NF4] = { 4.3, 2 },  [RECIPE_NF4_NESTED] = { 4.2, 2 },
    [RECIPE_GPTQ4] = { 22, 6 }, [RECIPE_GPTQ8] = { 22, 6 }, // the same operations on wider values
    [RECIPE_INT8] = { 5, 2 },
};

// torchao makes NF4 of PyTorch's operations: 64-bit indices of both halves of a byte, two searches,
// a concatenation, a product with the scales (bench/gpu/nf4_in_torch.py: 58 to 63 bytes for a
// weight, 25 kernels). Compiled they are one or two: alone they take 17 to 27 bytes, but
// torchtune's published steps leave no room for more than a kernel's.
static const struct dequantizer in_torch = { 58, 25 };

static void add_dequantize(struct step_build *b, double weights)
{
    const struct recipe *recipe = b->request->recipe;
    struct dequantizer dequantizer = stack_widens_in_parts(b->request->stack, recipe)
                                         ? in_torch
                                         : dequantizers[recipe->quantization];
    for (int phase = STEP_FORWARD; phase <= STEP_BACKWARD; phase += STEP_BACKWARD - STEP_FORWARD)
        step_add(b, &(struct step_op){ .name = "dequantize",
                                       .phase = (enum step_phase)phase,
                                       .kind = STEP_DEQUANTIZE,
                                       .bytes = dequantizer.bytes * weights,
                                       .launches = dequantizer.launches });
}

// 8- and 4-bit products need their operands cast: activations each time, trained weights each time.
// A compiled stack is torchao's, with scales of the values at hand: one for each tensor costs 6.5
// bytes for each element of input, gradient of the output and weight, one for each row 10.5, where
// products of both sides need codes of their own (bench/results/h200.md, linears in fp8).
static void add_casts(struct step_build *b, double rows, double in, double out, bool trained)
{
    const struct stack *stack = b->request->stack;
    bool dynamic = stack->kernels == STACK_COMPILED;
    double again = stack->rowwise_scales ? 5.5 : 1.5; // in backward
    struct traffic input = { 5, dynamic ? again : 5, 2, 2, 0 }, gradient = { 0, 5, 0, 2, 0 },
                   weight = { 4, 0, 1, 0, 0 };
    if (dynamic) {
        gradient.backward_bytes = 5 + again;
        weight = input;
    }
    step_add_elementwise(b, "cast", input, rows * in, 0);
    step_add_elementwise(b, "cast", gradient, rows * out, 0);
    if (trained)
        step_add_elementwise(b, "weight cast", weight, in * out, 0);
}

// Autocast makes 16-bit copies of fp32 weights: of those that are trained once in a pass, whose
// gradients become fp32 again, of others for each product. An input that is fp32 is copied for each
// linear that reads it, and its gradient cast back. Those casts reach 0.46 of a copy's rate: 37 ms
// in a step of 8B with 4,096 tokens on an H200 (bench/results/h200.md). PyTorch starts them without
// coming back to Python.
static void add_autocast(struct step_build *b, double rows, double in, double weights, bool trained)
{
    const double widened = 6 / 0.46, launch = 0.3;
    bool eager = b->request->stack->kernels == STACK_EAGER;
    struct traffic weight = { 6, trained ? widened : 0, launch, trained ? launch : 0, 1 };
    struct traffic input = { 6, widened, launch, launch, 1 };
    step_add_elementwise(b, "cast of weights", weight, weights, 0);
    if (eager && (int64_t)in == b->request->model->width)
        step_add_elementwise(b, "cast of inputs", input, rows * in, 0);
}

// Counts weights that are held alike; those of routed experts also by themselves.
static void hold(double weights, double *all, double *experts, bool routed)
{
    *all += weights;
    *experts += routed ? weights : 0;
}

// DoRA's magnitudes: lengths of the rows of W + B A for each pass, the product's output once more
// in the backward pass, and a read and a write of what they multiply. Experts have none: a plan
// refuses them as the engine does.
static void add_magnitudes(struct step_build *b, double rows, double in, double out)
{
    size_t first = b->step->count;
    double rank = (double)b->request->recipe->rank, size = step_element_bytes(b);
    const struct step_op ops[] = { step_product(size, "magnitudes", STEP_FORWARD, out, in, rank),
                                   step_product(size, "magnitudes", STEP_BACKWARD, out, in, rank),
                                   step_product(size, "magnitudes", STEP_BACKWARD, rows, out, in),
                                   step_product(size, "magnitudes", STEP_BACKWARD, rows, out,
                                                rank) };
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        step_add(b, &ops[i]);
    step_add_elementwise(b, "magnitudes", (struct traffic){ 4, 6, 1, 1, 0 }, rows * out, 0);
    for (size_t i = first; i < b->step->count; i++)
        b->step->ops[i].adapter = true; // a reference skips them
}

// What this GPU has of a linear, and what is done with it.
struct part {
    const struct model_linear *linear;
    double in, out; // after tensor parallelism has split it
    double copies;  // routed experts that are held here; of others 1
    double rows;    // of the input of each copy
    bool routed, trained, adapted;
    bool small;     // products of 8 or 4 bits
    bool quantized; // frozen weights of few bits
};

static struct part part_of(const struct step_build *b, const struct model_linear *linear,
                           bool row_split)
{
    const struct recipe *recipe = b->request->recipe;
    bool routed = linear->role == MODEL_EXPERT;
    bool narrowed = linear->role != MODEL_HEAD && linear->role != MODEL_ROUTER;
    double copies = routed ? b->moe.experts : 1;
    struct part part = {
        .linear = linear,
        .in = (double)linear->in,
        .out = (double)linear->out,
        .copies = copies,
        .rows = routed ? b->moe.copies / copies : b->tokens,
        .routed = routed,
        .trained = step_trains_linear(b, linear),
        .adapted = recipe_targets(recipe, linear),
        .small = narrowed && recipe_is_small(recipe),
        .quantized = narrowed && recipe->method == RECIPE_QLORA,
    };
    *(row_split ? &part.in : &part.out) /= routed ? b->moe.tensor : b->tensor;
    return part;
}

// Of the input and its 8-bit cast, which the backward pass reads, a compiler keeps the smaller one.
static double kept_of_input(const struct step_build *b, const struct part *p, double input_bytes)
{
    bool cast = p->small && p->trained && b->request->stack->kernels == STACK_COMPILED;
    bool reads = p->trained || (p->adapted && adapter_cost(b)->copy_bytes == 0);
    return !reads ? 0 : cast ? input_bytes / 2 : input_bytes;
}

// The products of the weights themselves. input_bytes: kept of the input if one of them reads it.
static void add_products(struct step_build *b, const struct part *p, double input_bytes)
{
    const struct step_request *r = b->request;
    double size = step_element_bytes(b), outputs = p->rows * p->copies * p->out;
    bool padded = p->routed || (p->linear->role == MODEL_HEAD && r->stack->pads_vocabulary);
    struct step_op ops[STEP_LINEAR_PRODUCTS];
    step_linear_products(ops, size, p->linear->name, p->rows, p->in, p->out);
    struct step_op *forward = &ops[0], *to_input = &ops[1], *to_weight = &ops[2];
    for (int i = 0; i < STEP_LINEAR_PRODUCTS; i++) {
        ops[i].small = p->small;
        ops[i].aligned = padded || b->tensor > 1 ? 0 : step_alignment(size, p->in, p->out);
        if (p->routed)
            moe_repeat(&ops[i], &b->moe, r);
    }
    if (p->routed)
        to_weight->bytes += moe_gradient_bytes(&b->moe, r->model, p->copies * p->in * p->out);
    forward->weighs = to_input->weighs =
        p->routed ? moe_tensors(&b->moe, r->model) : p->linear->role != MODEL_ROUTER;
    forward->output_bytes = size * outputs;
    forward->kept_bytes = kept_of_input(b, p, input_bytes);
    if (p->quantized && r->stack->casts_quantized)
        forward->kept_bytes += 2 * outputs;
    step_add(b, forward);
    step_add(b, to_input);
    if (p->trained)
        step_add(b, to_weight);
}

static void count_weights(struct step_build *b, const struct part *p, bool row_split)
{
    struct step *step = b->step;
    double in = (double)p->linear->in, out = (double)p->linear->out;
    double weights = b->repeats * p->copies * p->in * p->out;
    step->trained_tensors += b->repeats * (p->trained + 2 * p->adapted);
    if (p->trained)
        hold(weights, &step->trained_weights, &step->expert_trained_weights, p->routed);
    else if (p->quantized)
        hold(weights, &step->quantized_weights, &step->expert_quantized_weights, p->routed);
    else
        hold(weights, &step->frozen_weights, &step->expert_frozen_weights, p->routed);
    if (p->adapted) // of its two factors, one is split
        hold(b->repeats * p->copies * (double)b->request->recipe->rank *
                 (row_split ? p->in + out : in + p->out),
             &step->trained_weights, &step->expert_trained_weights, p->routed);
}

void step_add_linear(struct step_build *b, const struct model_linear *linear, bool row_split,
                     bool saves_input, double input_bytes)
{
    struct part p = part_of(b, linear, row_split);
    double rows = p.rows * p.copies, weights = p.copies * p.in * p.out;
    b->linear = linear;
    b->products += !p.routed;
    if (p.quantized)
        add_dequantize(b, weights);
    add_products(b, &p, saves_input ? input_bytes : 0);
    if (p.small)
        add_casts(b, rows, p.in, p.out, p.trained);
    else if (step_autocasts(b->request))
        add_autocast(b, rows, p.in, weights, p.trained);
    if (p.adapted)
        add_adapter(b, rows, p.in, p.out, p.routed ? moe_turns(&b->moe) : 1);
    if (p.adapted && b->request->recipe->dora && !p.routed)
        add_magnitudes(b, rows, p.in, p.out);
    b->linear = NULL;
    count_weights(b, &p, row_split);
}
