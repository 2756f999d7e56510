// SPDX-License-Identifier: Apache-2.0
// Lists the products of a linear, with its adapter, its casts and what dequantises its weights.

#include "core/step/step_internal.h"

#include <math.h>

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
    struct step_op ops[] = {
        step_product(b, "adapter a", STEP_FORWARD, rows, rank, in),
        step_product(b, "adapter b", STEP_FORWARD, rows, out, rank),
        step_product(b, "adapter b", STEP_BACKWARD, rank, out, rows),
        step_product(b, "adapter b", STEP_BACKWARD, rows, rank, out),
        step_product(b, "adapter a", STEP_BACKWARD, rank, in, rows),
        step_product(b, "adapter a", STEP_BACKWARD, rows, in, rank),
    };
    ops[0].kept_bytes = rows * rank * (cost->fp32 ? 4 : 2);
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
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
static const struct {
    double bytes, launches;
} dequantizers[] = {
    [RECIPE_NF4] = { 4.3, 2 },  [RECIPE_NF4_NESTED] = { 4.2, 2 },
    [RECIPE_GPTQ4] = { 22, 6 }, [RECIPE_GPTQ8] = { 22, 6 }, // the same operations on wider values
    [RECIPE_INT8] = { 5, 2 },
};

static void add_dequantize(struct step_build *b, const char *name, double weights)
{
    int quantization = b->request->recipe->quantization;
    for (int phase = STEP_FORWARD; phase <= STEP_BACKWARD; phase += STEP_BACKWARD - STEP_FORWARD)
        step_add(b, &(struct step_op){ .name = name,
                                       .phase = (enum step_phase)phase,
                                       .kind = STEP_DEQUANTIZE,
                                       .bytes = dequantizers[quantization].bytes * weights,
                                       .launches = dequantizers[quantization].launches });
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

// Counts weights that are held alike; those of routed experts also by themselves.
static void hold(double weights, double *all, double *experts, bool routed)
{
    *all += weights;
    *experts += routed ? weights : 0;
}

// DoRA's magnitudes: lengths of the rows of W + B A for each pass, the product's output once more
// in the backward pass, and a read and a write of what they multiply.
static void add_magnitudes(struct step_build *b, double rows, double in, double out)
{
    size_t first = b->step->count;
    double rank = (double)b->request->recipe->rank;
    const struct step_op ops[] = { step_product(b, "magnitudes", STEP_FORWARD, out, in, rank),
                                   step_product(b, "magnitudes", STEP_BACKWARD, out, in, rank),
                                   step_product(b, "magnitudes", STEP_BACKWARD, rows, out, in),
                                   step_product(b, "magnitudes", STEP_BACKWARD, rows, out, rank) };
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        step_add(b, &ops[i]);
    step_add_elementwise(b, "magnitudes", (struct traffic){ 4, 6, 1, 1, 0 }, rows * out, 0);
    for (size_t i = first; i < b->step->count; i++)
        b->step->ops[i].adapter = true; // a reference skips them
}

// Whether inputs are kept in 8 bits: of the input and its cast, which the backward pass reads, a
// compiler keeps the smaller one.
static bool casts_kept(const struct step_build *b, bool small)
{
    return small && b->request->stack->kernels == STACK_COMPILED;
}

void step_add_linear(struct step_build *b, const struct model_linear *linear, bool row_split,
                     bool saves_input, double input_bytes)
{
    const struct recipe *recipe = b->request->recipe;
    bool routed = linear->role == MODEL_EXPERT;
    double in = (double)linear->in, out = (double)linear->out;
    *(row_split ? &in : &out) /= routed ? b->moe.tensor : b->tensor;
    double copies = routed ? b->moe.experts : 1;
    double rows = routed ? b->moe.copies / copies : b->tokens; // per copy held here
    bool trained = step_trains_linear(b, linear), adapted = recipe_targets(recipe, linear);
    b->linear = linear;
    bool small =
        recipe_is_small(recipe) && linear->role != MODEL_HEAD && linear->role != MODEL_ROUTER;
    struct step_op forward = step_product(b, linear->name, STEP_FORWARD, rows, out, in);
    struct step_op to_input = step_product(b, linear->name, STEP_BACKWARD, rows, in, out);
    struct step_op to_weight = step_product(b, linear->name, STEP_BACKWARD, in, out, rows);
    struct step_op *ops[] = { &forward, &to_input, &to_weight };
    bool padded = routed || (linear->role == MODEL_HEAD && b->request->stack->pads_vocabulary);
    for (int i = 0; i < 3; i++) {
        ops[i]->small = small;
        ops[i]->aligned =
            padded || b->tensor > 1 ? 0 : step_alignment(step_element_bytes(b), in, out);
        if (routed)
            moe_repeat(ops[i], &b->moe, b->request);
    }
    if (routed)
        to_weight.bytes += moe_gradient_bytes(&b->moe, b->request->model, copies * in * out);
    forward.weighs = to_input.weighs =
        routed ? moe_tensors(&b->moe, b->request->model) : linear->role != MODEL_ROUTER;
    b->products += !routed;
    forward.output_bytes = step_element_bytes(b) * rows * copies * out;
    if (saves_input && (trained || (adapted && adapter_cost(b)->copy_bytes == 0)))
        forward.kept_bytes = casts_kept(b, small && trained) ? input_bytes / 2 : input_bytes;
    bool quantized = recipe->method == RECIPE_QLORA && linear->role != MODEL_HEAD &&
                     linear->role != MODEL_ROUTER;
    if (quantized && b->request->stack->casts_quantized)
        forward.kept_bytes += 2 * rows * copies * out;
    if (quantized)
        add_dequantize(b, "dequantize", copies * in * out);
    step_add(b, &forward);
    step_add(b, &to_input);
    if (trained)
        step_add(b, &to_weight);
    if (small)
        add_casts(b, rows * copies, in, out, trained);
    if (adapted)
        add_adapter(b, rows * copies, in, out, routed ? moe_turns(&b->moe) : 1);
    if (adapted && recipe->dora)
        add_magnitudes(b, rows, in, out);
    b->linear = NULL;
    struct step *step = b->step;
    double weights = b->repeats * copies * in * out;
    if (trained)
        hold(weights, &step->trained_weights, &step->expert_trained_weights, routed);
    else if (quantized)
        hold(weights, &step->quantized_weights, &step->expert_quantized_weights, routed);
    else
        hold(weights, &step->frozen_weights, &step->expert_frozen_weights, routed);
    if (adapted)
        hold(b->repeats * copies * (double)recipe->rank *
                 (row_split ? in + (double)linear->out : (double)linear->in + out),
             &step->trained_weights, &step->expert_trained_weights, routed);
}
