// SPDX-License-Identifier: Apache-2.0
// Lists the operations of a step, layer by layer, as PyTorch modules, a compiler or fused kernels
// run them: products, attention, element-wise operations, loss, optimizer.

#include "core/step/step_internal.h"

#include "core/step/attended.h"
#include "core/step/encoder.h"
#include "core/step/recompute.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// An RMSNorm of transformers is seven operations on fp32 copies; a LayerNorm is PyTorch's own
// kernel. Shares are of profiled steps (bench/gpu/kernels.py): kernels that read and write whole
// rows of one type run at a copy's rate, those that cast at two thirds of it, and those that find
// each value's place in a view of four or five sides at less than half.
static const struct traffic eager_norm = { 36, 96, 7, 14, 0.79 },
                            one_norm_kernel = { 4, 10, 1, 2, 0 };
static const struct traffic rotary_traffic[] = { { 20, 30, 5, 6, 0.38 },
                                                 { 4, 4, 0.5, 0.5, 0 },
                                                 { 4, 4, 0.5, 0.5, 0 } };
static const struct traffic gate_traffic[] = { { 10, 18, 2, 4, 1 },
                                               { 6, 10, 1, 1, 0 },
                                               { 6, 10, 1, 1, 0 } };
static const struct traffic gelu_traffic[] = { { 4, 6, 1, 1, 1 },
                                               { 4, 6, 1, 1, 0 },
                                               { 4, 6, 1, 1, 0 } };
static const struct traffic residual_traffic[] = { { 6, 6, 1, 1, 1 },
                                                   { 2, 2, 0, 0, 0 },
                                                   { 6, 6, 1, 1, 0 } };
// Under autocast hidden states are fp32: a sum reads a result of 16 bits beside them, at 0.64 of a
// copy's rate, and gives it a gradient of 16 bits.
static const struct traffic wide_residual = { 16, 18, 1, 2, 1 };
// GELU by its formula (transformers' gelu_new: the cube, the tanh and their factors one by one),
// which autocast runs in fp32. Bytes are what the profiled kernels' time is worth at a copy's rate;
// kept are the input and two results in fp32, and half of the input.
static const struct traffic composed_gelu = { 86, 88, 10, 14, 1 };
static const double composed_gelu_kept = 14;

int step_alignment(double element_bytes, double width, double other_width)
{
    int64_t bytes = (int64_t)(element_bytes * width) | (int64_t)(element_bytes * other_width) | 16;
    return (int)(bytes & -bytes); // the lowest bit that one of them has
}

double step_element_bytes(const struct step_build *b)
{
    return b->request->recipe->precision == RECIPE_FP32 ? 4 : 2;
}

// The lightest checkpointing that recomputes a forward operation of a layer. Experts of stacks that
// recompute products alone keep no copy of what their first factors gave, as small as it is.
static int recomputed_from(const struct step_build *b, const struct step_op *op)
{
    const struct stack *stack = b->request->stack;
    bool of_experts = b->linear && b->linear->role == MODEL_EXPERT;
    if (stack->partial && of_experts && !strcmp(op->name, "adapter a"))
        return RECIPE_SELECTIVE;
    if (b->is_last && stack->stops_early)
        return RECOMPUTE_NEVER;
    if (stack->partial)
        return recompute_level(b->request, b->linear ? b->linear->name : op->name);
    bool again = recompute_again(b->request, op, of_experts, b->products);
    return again ? RECIPE_SELECTIVE : RECIPE_RECOMPUTE;
}

// Whether linears that read one input keep a 16-bit copy of it each, as autocast makes them.
static bool casts_each(const struct step_build *b)
{
    const struct step_request *r = b->request;
    return step_autocasts(r) && r->recipe->method == RECIPE_FULL &&
           r->stack->kernels == STACK_EAGER;
}

// Of hidden states between products: norms and residuals.
static double stream_bytes(const struct step_build *b)
{
    return step_autocasts(b->request) ? 4 : step_element_bytes(b);
}

// Most lists have a fifth of STEP_OPS, and clearing the memory of all would take as long as them.
static void make_room(struct step_build *b, size_t count)
{
    enum { BLOCK = 128 };
    size_t room = (b->step->count + count + BLOCK - 1) / BLOCK * BLOCK;
    assert(room <= STEP_OPS);
    if (room <= b->room)
        return;
    b->step->ops = arena_grow(b->arena, b->step->ops, b->room * sizeof *b->step->ops,
                              room * sizeof *b->step->ops);
    b->room = room;
}

static struct step_op *append(struct step_build *b, const struct step_op *op)
{
    make_room(b, 1);
    struct step_op *added = &b->step->ops[b->step->count++];
    *added = *op;
    return added;
}

void step_add(struct step_build *b, const struct step_op *given)
{
    struct step_op *op = append(b, given);
    op->repeats = b->repeats;
    if (op->phase != STEP_FORWARD || !b->in_layer)
        return;
    b->kept += op->kept_bytes;
    bool of_experts = b->linear && b->linear->role == MODEL_EXPERT;
    bool again = recompute_again(b->request, op, of_experts, b->products);
    b->lean += recompute_kept(b->request, op, again, b->is_last);
    int checkpointing = b->request->recipe->checkpointing, from = recomputed_from(b, op);
    if (checkpointing < RECIPE_AUTO && checkpointing >= from) {
        struct step_op *recomputed = append(b, given); // op may have moved
        recomputed->phase = STEP_RECOMPUTE;
        recomputed->repeats =
            b->repeats * (checkpointing == from ? 1 - b->request->lighter_share : 1);
    }
}

void step_add_elementwise(struct step_build *b, const char *name, struct traffic traffic,
                          double elements, double kept_bytes)
{
    double scale = step_element_bytes(b) / 2;
    step_add(b, &(struct step_op){ .name = name,
                                   .phase = STEP_FORWARD,
                                   .kind = STEP_ELEMENTWISE,
                                   .bytes = traffic.forward_bytes * elements * scale,
                                   .launches = traffic.forward_launches,
                                   .share = traffic.share,
                                   .kept_bytes = kept_bytes,
                                   .cheap = true });
    step_add(b, &(struct step_op){ .name = name,
                                   .phase = STEP_BACKWARD,
                                   .kind = STEP_ELEMENTWISE,
                                   .bytes = traffic.backward_bytes * elements * scale,
                                   .launches = traffic.backward_launches,
                                   .share = traffic.share });
}

// --- norms, attention, feed-forward ------------------------------------------

static void add_norm(struct step_build *b, const char *name, double elements, double weights)
{
    const struct recipe *recipe = b->request->recipe;
    int kernels = b->request->stack->kernels;
    bool many = kernels == STACK_EAGER && b->request->model->norm == MODEL_RMS_NORM;
    double kept = stream_bytes(b) * elements; // the input, from which the output is recomputed
    if (many) // an fp32 copy, and for a trained weight the normalised input
        kept = (4 + (recipe->method == RECIPE_FULL ? stream_bytes(b) : 0)) * elements;
    step_add_elementwise(b, name, many ? eager_norm : one_norm_kernel, elements, kept);
    bool trained = recipe->method == RECIPE_FULL;
    *(trained ? &b->step->trained_weights : &b->step->frozen_weights) += b->repeats * weights;
    b->step->trained_tensors += trained ? b->repeats : 0;
}

// What transformers' sdpa adds around its kernel under a mask: it copies keys and values for each
// query head, sums their gradients, and turns the mask into numbers in every layer.
static void add_mask(struct step_build *b, double copied, double heads_each, double squares)
{
    double shared = 2 / heads_each; // of the keys and values themselves, per element of the copies
    if (heads_each > 1)
        step_add_elementwise(b, "repeat keys",
                             (struct traffic){ 2 + shared, 2 + shared, 2, 2, 0.23 }, copied, 0);
    step_add_elementwise(b, "mask", (struct traffic){ 3, 0, 2, 0, 0 }, squares, 0);
}

// Eager attention writes all scores, scales and masks them, has their softmax in fp32, and reads
// them again: by transformers' code 28 bytes a score in each pass in 16 bits, 24 and 20 in fp32,
// which its kernels move at 0.66 of a copy's rate (bench/results/h200.md). A fused softmax reads
// the half below the diagonal and writes all, as llm.c's without cuDNN does.
static void add_scores(struct step_build *b, double scores)
{
    bool wide = step_element_bytes(b) == 4; // a table's bytes are of elements of 16 bits
    struct traffic traffic = { wide ? 12 : 28, wide ? 10 : 28, 5, 4, 0.66 };
    if (b->request->stack->kernels == STACK_FUSED)
        traffic = (struct traffic){ 7, 11, 1, 1, 0 };
    step_add_elementwise(b, "scores", traffic, scores, 0);
}

// The kernel of that share of the layers. Causal ones compute half of the scores, under a mask all.
// Backward runs five products for the forward's two.
static void add_kernel(struct step_build *b, double share, bool masked, double squares)
{
    const struct step_request *r = b->request;
    bool eager = attended_kernel(r) == STACK_ATTENTION_EAGER;
    double heads_each = masked ? (double)r->model->heads / (double)r->model->kv_heads : 1;
    double query = (double)model_query_width(r->model) / b->tensor;
    double key = (double)model_key_width(r->model) / b->tensor * heads_each;
    double value = (double)model_value_width(r->model) / b->tensor * heads_each;
    double out = (double)model_attention_width(r->model) / b->tensor;
    double heads = (double)r->model->heads / b->tensor, size = step_element_bytes(b);
    double tokens = share * b->tokens;
    squares *= share / (double)r->layout->context;
    double flops = squares * (query + out); // 2 · (q·kᵀ + p·v) · ½
    double moved = size * tokens * (query + key + value + out);
    double kept = moved + 4 * tokens * heads; // and the log-sum-exp of each row
    double scores = 0;
    // Values that are a part of a fused product's output hold all of it, beside the rotated queries
    // and keys.
    if (r->model->fused_qkv && !r->model->learned_positions && r->stack->kernels == STACK_EAGER)
        kept += size * tokens * (query + key / heads_each);
    // Its products write and read the scores. Kept are the softmax and its 16-bit copy; backward
    // has 16 bytes a score at its peak (bench/results/h200.md).
    if (eager) {
        double kept_bytes = size == 4 ? 4 : 6;
        flops *= 2;
        moved += 2 * size * heads * squares;
        add_scores(b, heads * squares);
        scores = kept_bytes * heads * squares;
        kept += scores;
        b->step->score_bytes = (16 - kept_bytes) * heads * squares;
    }
    if (masked) {
        flops *= 2;
        kept += size * squares; // the mask as numbers, one for all heads
        add_mask(b, tokens * (key + value), heads_each, squares);
    }
    step_add(b, &(struct step_op){ .name = "attention",
                                   .phase = STEP_FORWARD,
                                   .kind = STEP_ATTENTION,
                                   .flops = flops,
                                   .bytes = moved,
                                   .launches = share * (eager ? 2 : 3),
                                   .kept_bytes = kept,
                                   .output_bytes = tokens * (size * out + 4 * heads),
                                   .score_bytes = scores,
                                   .masked = masked });
    step_add(b, &(struct step_op){ .name = "attention",
                                   .phase = STEP_BACKWARD,
                                   .kind = STEP_ATTENTION,
                                   .flops = 2.5 * flops,
                                   .bytes = 2 * moved,
                                   .launches = share * 4,
                                   .masked = masked });
}

// The attention core of one layer. A mask hides what lies before a window, but its scores are
// computed all the same.
static void add_attention(struct step_build *b)
{
    const struct step_request *r = b->request;
    double hidden = attended_masked_share(r), pieces = (double)r->layout->context;
    double out = (double)model_attention_width(r->model) / b->tensor;
    if (hidden > 0)
        add_kernel(b, hidden, true, r->batch.squares);
    if (r->stack->kernels == STACK_EAGER && attended_kernel(r) == STACK_CUDNN)
        step_add_elementwise(b, "attention layout", (struct traffic){ 8, 8, 0, 0, 1 },
                             b->tokens * out, 0);
    if (pieces > 1) // each piece's output is merged into the sum in fp32, and its gradients added
        step_add_elementwise(b, "ring",
                             (struct traffic){ 12 * pieces, 8 * pieces, pieces, pieces, 0 },
                             b->tokens * out, 0);
    if (hidden < 1) // windows with a mask are added above: only layers without one are left
        add_kernel(b, 1 - hidden, false, hidden > 0 ? r->batch.squares : attended_squares(r));
}

// What belongs to routed experts beside their products: activation, router, dispatch, combine.
static void add_experts(struct step_build *b, struct traffic gate, double values)
{
    struct step_op ops[MOE_OPS];
    size_t count = moe_ops(ops, &b->moe, b->request);
    if (b->moe.kernel == RECIPE_EXPERTS_EAGER)
        gate.forward_launches = gate.backward_launches = 0; // counted with the loop
    gate.share = 0; // their views were profiled against the mean of eager kernels
    moe_gate_bytes(&gate.forward_bytes, &gate.backward_bytes, &b->moe, b->request);
    step_add_elementwise(b, "expert activation", gate, values,
                         moe_kept_widths(&b->moe, b->request->model) * step_element_bytes(b) *
                             values);
    for (size_t i = 0; i < count; i++)
        step_add(b, &ops[i]);
}

static void add_feed_forward(struct step_build *b, enum model_layer kind,
                             const struct model_linear *linears, size_t count)
{
    const struct model *model = b->request->model;
    const struct recipe *recipe = b->request->recipe;
    int kernels = b->request->stack->kernels;
    bool saved = false, saved_rows = false;
    double tokens = b->tokens, size = step_element_bytes(b),
           input = size * b->input_tokens * (double)model->width;
    bool remakes = b->request->stack->remakes && recipe->method == RECIPE_FULL;
    bool composed =
        model->composed_gelu && kernels == STACK_EAGER && !b->request->stack->fused_gelu;
    double held = model->gated ? kernels == STACK_EAGER ? 3 : 2 : 1; // gate, up, their activation
    bool sparse = kind == MODEL_SPARSE;
    double dense_width = (double)(sparse ? model->shared_width : model->ffn_width) / b->tensor;
    struct traffic gate = (model->gated ? gate_traffic : gelu_traffic)[kernels];
    if (composed)
        gate = composed_gelu;
    if (sparse)
        b->moe = moe_of(b->request, tokens);
    double routed = sparse ? b->moe.copies : 0;
    double expert_width = sparse ? (double)model->expert_width / b->moe.tensor : 0;
    for (size_t i = 0; i < count; i++) {
        const struct model_linear *l = &linears[i];
        if (l->role == MODEL_ATTENTION)
            continue;
        bool down = strstr(l->name, "down") != NULL;
        if (!down) {
            bool needs = step_trains_linear(b, l) || recipe_targets(recipe, l);
            bool expert = l->role == MODEL_EXPERT; // its input is the dispatched rows
            bool *first = expert ? &saved_rows : &saved;
            step_add_linear(b, l, false, needs && (!*first || casts_each(b)) && !remakes,
                            expert ? size * routed * (double)model->width : input);
            *first |= needs;
            continue;
        }
        b->is_last = true;
        step_add_linear(
            b, l, true, !remakes,
            size * (l->role == MODEL_EXPERT ? routed * expert_width : tokens * dense_width));
        b->is_last = false;
    }
    if (dense_width > 0)
        step_add_elementwise(b, "activation", gate, tokens * dense_width,
                             (composed ? composed_gelu_kept : held * size) * tokens * dense_width);
    if (sparse)
        add_experts(b, gate, routed * expert_width);
}

// Linears that read one input each give it a gradient, which PyTorch adds up one by one.
static double gradient_sums(const struct model *model, const struct model_linear *linears,
                            size_t count)
{
    double attention = 0, dense = 0;
    for (size_t i = 0; i < count; i++) {
        const struct model_linear *l = &linears[i];
        if (l->in != model->width || !strcmp(l->name, "o") || strstr(l->name, "down"))
            continue;
        attention += l->role == MODEL_ATTENTION;
        dense += l->role != MODEL_ATTENTION && l->role != MODEL_EXPERT && l->role != MODEL_ROUTER;
    }
    return fmax(0, attention - 1) + fmax(0, dense - 1);
}

static void add_layer(struct step_build *b, enum model_layer kind)
{
    const struct model *model = b->request->model;
    const struct recipe *recipe = b->request->recipe;
    int kernels = b->request->stack->kernels;
    struct model_linear linears[MODEL_LINEARS];
    struct model_norm norms[MODEL_NORMS];
    size_t count = model_linears(model, kind, linears), norm_count = model_norms(model, norms);
    double width = (double)model->width, size = step_element_bytes(b);
    bool remakes = b->request->stack->remakes && recipe->method == RECIPE_FULL, saved = false;
    bool own = casts_each(b);
    double trained = b->step->trained_weights, frozen = b->step->frozen_weights,
           quantized = b->step->quantized_weights;
    b->kept = b->lean = 0;
    b->products = 0;

    for (size_t i = 0; i < norm_count; i++) {
        double elements = (double)(norms[i].size * norms[i].vectors);
        bool of_width = norms[i].vectors == 1 && norms[i].size == model->width;
        add_norm(b, norms[i].name,
                 of_width ? b->own_tokens * elements : b->tokens * elements / b->tensor,
                 (double)norms[i].weights);
    }
    for (size_t i = 0; i < count; i++) {
        const struct model_linear *l = &linears[i];
        if (l->role != MODEL_ATTENTION)
            continue;
        bool output =
            !strcmp(l->name, "o"); // its input is the output of attention, which is kept already
        bool needs = step_trains_linear(b, l) || recipe_targets(recipe, l);
        bool keeps = needs && (!saved || own) && !output && !remakes && l->in == model->width;
        step_add_linear(b, l, output, keeps, size * b->input_tokens * width);
        saved |= needs && !output;
    }
    if (!model->learned_positions)
        step_add_elementwise(
            b, "rotary", rotary_traffic[kernels],
            b->tokens * (double)(model_query_width(model) + model_key_width(model)) / b->tensor, 0);
    add_attention(b);
    add_feed_forward(b, kind, linears, count);
    bool wide = kernels == STACK_EAGER && step_autocasts(b->request);
    step_add_elementwise(b, "residual", wide ? wide_residual : residual_traffic[kernels],
                         2 * b->own_tokens * width, 0);
    if (kernels == STACK_EAGER)
        step_add_elementwise(b, "sums of gradients", (struct traffic){ 0, wide ? 12 : 6, 0, 0, 1 },
                             gradient_sums(model, linears, count) * b->own_tokens * width, 0);

    double layer = (b->step->trained_weights - trained + b->step->frozen_weights - frozen +
                    b->step->quantized_weights - quantized) /
                   b->repeats;
    if (kind == MODEL_SPARSE && b->request->layout->expert > 1 &&
        moe_shards(b->request->layout) <= 1) // held whole, never gathered
        layer -= (b->step->expert_trained_weights + b->step->expert_frozen_weights +
                  b->step->expert_quantized_weights) /
                 b->repeats;
    b->step->largest_layer_weights = fmax(b->step->largest_layer_weights, layer);
    b->step->layer_kept_bytes = fmax(b->step->layer_kept_bytes, b->kept);
    double states = recompute_states(b->request) * size * b->own_tokens * width;
    b->step->layer_lean_bytes = fmax(b->step->layer_lean_bytes, b->lean + states);
}

// --- around the layers -------------------------------------------------------

static void add_head(struct step_build *b)
{
    const struct step_request *r = b->request;
    const struct model *model = r->model;
    struct model_linear head = model_head(model);
    if (r->passes.scores_rows)
        head.out = 1;
    double width = (double)model->width;
    double vocabulary = (double)head.out / (r->stack->whole_logits ? 1 : b->tensor);
    double per_logit = r->passes.loss_bytes > 0 ? r->passes.loss_bytes : r->stack->loss_bytes;
    bool usual = !(r->passes.loss_bytes > 0); // the stack's own loss
    double all = b->tokens, share = r->batch.tokens > 0 ? r->batch.labelled / r->batch.tokens : 1;
    double scored = r->stack->labelled_head ? all * share : all;
    // The pipeline stage with the head has fewer layers for it: count every stage's share.
    b->repeats = 1 / (r->layout->split ? 1 : (double)r->layout->pipeline);
    b->in_layer = false;
    add_norm(b, "final norm", b->own_tokens * width, width);
    b->tokens = scored;
    double trained = b->step->trained_weights, frozen = b->step->frozen_weights;
    step_add_linear(b, &head, false, false, 0);
    b->tokens = all;
    if (model->tied_embeddings && !r->stack->unties) { // counted with the embedding
        b->step->trained_weights = trained;
        b->step->frozen_weights = frozen;
    }
    // A cap divides, takes the tanh, which is kept, and multiplies.
    bool capped = model_caps_scores(model) && r->stack->kernels == STACK_EAGER;
    if (capped)
        step_add_elementwise(b, "soft cap", (struct traffic){ 12, 14, 3, 3, 0 },
                             scored * vocabulary, 0);
    double moved = usual ? r->stack->loss_moved_bytes : r->passes.loss_moved_bytes;
    double kernels = r->stack->kernels == STACK_EAGER ? 4 : 2;
    double rate = usual && r->stack->kernels == STACK_EAGER ? 0.96 : 0;
    step_add_elementwise(b, "loss",
                         (struct traffic){ moved * 0.45, moved * 0.55, kernels, kernels, rate },
                         scored * vocabulary, 0);
    step_add_elementwise(b, "embedding",
                         (struct traffic){ 4, r->recipe->method == RECIPE_FULL ? 8 : 0, 1, 1, 0 },
                         b->own_tokens * width, 0);
    double embedding = (double)model_embedding_parameters(model) / b->tensor * b->repeats;
    bool learns = r->recipe->method == RECIPE_FULL || r->recipe->trains_embeddings;
    *(learns ? &b->step->trained_weights : &b->step->frozen_weights) += embedding;
    b->step->head_kept_bytes = 2 * stream_bytes(b) * b->own_tokens * width;
    // A model in pure fp16, without autocast, keeps its logits in 16 bits: 8 bytes of the 12.
    double narrow = r->recipe->precision == RECIPE_FP16 && r->stack->copies_weights ? 2.0 / 3 : 1;
    double row = scored / fmax(1, r->batch.rows) * r->passes.loss_row_bytes;
    double cap = capped ? step_element_bytes(b) : 0;
    b->step->loss_peak_bytes = fmin(((narrow * per_logit + cap) * scored + row) * vocabulary,
                                    usual ? r->stack->loss_most_bytes : INFINITY);
}

// The encoder of images stands before the first layer; as with the head, every pipeline stage
// counts its share of it.
static void add_encoder(struct step_build *b)
{
    const struct layout *layout = b->request->layout;
    double stages = layout->split ? 1 : (double)layout->pipeline;
    make_room(b, ENCODER_OPS);
    struct encoder encoder = { .ops = b->step->ops + b->step->count };
    encoder_list(&encoder, b->request);
    for (size_t i = 0; i < encoder.count; i++)
        encoder.ops[i].repeats /= stages;
    b->step->count += encoder.count;
    b->step->trained_weights += encoder.trained_weights / stages;
    b->step->frozen_weights += encoder.frozen_weights / stages;
    b->step->images_kept_bytes = encoder.kept_bytes / stages;
}

// Adafactor goes from tensor to tensor, by 28 of PyTorch's operations: 143 bytes a weight in 207 ms
// of 6B in bf16 on an H200, of which 18 are casts. The host starts them in the time of two launches
// with a graph (bench/results/h200.md).
static const double adafactor_bytes = 143, adafactor_bytes_fp32 = 125, adafactor_launches = 2;

// Once per optimizer step: each trained weight with its gradient and states is read and written.
static void add_update(struct step_build *b)
{
    const struct step_request *r = b->request;
    const struct recipe *recipe = r->recipe;
    double shards = r->layout->zero ? (double)layout_shards(r->layout) : 1;
    double weights =
        moe_held(b->step->trained_weights, b->step->expert_trained_weights, shards, r->layout);
    double gradient = recipe_dtype_bytes(stack_gradients(r->stack, recipe));
    double states = recipe_state_bytes(recipe, recipe->states);
    double weight = recipe_dtype_bytes(recipe->weights);
    struct step_op update = { .name = "optimizer",
                              .phase = STEP_UPDATE,
                              .kind = STEP_OPTIMIZER,
                              .bytes = weights * (gradient + 2 * states + 2 * weight),
                              .launches = 64 };
    if (recipe->optimizer == RECIPE_ADAFACTOR) {
        update.bytes = weights * (weight < 4 ? adafactor_bytes : adafactor_bytes_fp32);
        update.launches = adafactor_launches * b->step->trained_tensors;
    }
    b->repeats = 1;
    step_add(b, &update);
    step_add(b, &(struct step_op){ .name = "clip",
                                   .phase = STEP_UPDATE,
                                   .kind = STEP_OPTIMIZER,
                                   .bytes = weights * gradient * 3,
                                   .launches = 16 });
}

// Lists the forward operations once more for the passes without gradients. Without adapters, the
// reference is the model itself.
static void add_passes(struct step_build *b)
{
    const struct step_passes *passes = &b->request->passes;
    struct step *step = b->step;
    size_t count = step->count;
    for (size_t i = 0; i < count; i++) {
        struct step_op op = step->ops[i];
        double times = passes->policy + (op.adapter ? 0 : passes->reference + passes->reward);
        if (op.phase != STEP_FORWARD)
            continue;
        op.phase = STEP_WITHOUT_GRADIENTS;
        if (op.adapter && op.kind == STEP_MATMUL && passes->switch_launches > 0)
            append(b, &(struct step_op){ .name = "adapter switch",
                                         .phase = STEP_WITHOUT_GRADIENTS,
                                         .kind = STEP_ELEMENTWISE,
                                         .repeats = op.repeats * passes->reference,
                                         .launches = passes->switch_launches });
        if (!(times > 0))
            continue;
        op.repeats *= times;
        op.kept_bytes = 0;
        append(b, &op);
    }
}

// A critic is a second model of the same shape that is trained as the first: its layers judge the
// answers once without gradients, and are then trained. In place of logits it has one value a
// token.
static void add_critic(struct step_build *b, size_t layer_ops)
{
    double critics = b->request->passes.critic;
    struct step *step = b->step;
    for (size_t i = 0; critics > 0 && i < layer_ops; i++) {
        struct step_op op = step->ops[i];
        op.repeats *= critics;
        op.kept_bytes = 0; // it is trained when the policy's activations are gone
        append(b, &op);
        if (op.phase != STEP_FORWARD)
            continue;
        op.phase = STEP_WITHOUT_GRADIENTS;
        append(b, &op);
    }
    double *const weights[] = { &step->trained_weights,       &step->frozen_weights,
                                &step->quantized_weights,     &step->expert_trained_weights,
                                &step->expert_frozen_weights, &step->expert_quantized_weights };
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++)
        *weights[i] *= 1 + critics;
}

enum err step_list(struct step *out, struct arena *arena, const struct step_request *request)
{
    const struct layout *layout = request->layout;
    *out = (struct step){ 0 };
    struct step_build b = {
        .step = out,
        .arena = arena,
        .request = request,
        .tensor = (double)layout->tensor,
        .tokens = request->batch.tokens / (double)layout->context,
    };
    b.own_tokens = b.tokens / (request->stack->whole_sequences ? 1 : b.tensor);
    b.input_tokens = request->stack->whole_inputs ? b.tokens : b.own_tokens;
    double stages =
        layout->split ? 1 : (double)layout->pipeline; // device_map runs one GPU after another
    for (int kind = MODEL_DENSE; kind <= MODEL_SPARSE; kind++) {
        b.repeats = (double)model_layers(request->model, (enum model_layer)kind) / stages;
        b.in_layer = true;
        out->layers += b.repeats;
        out->sparse_layers += kind == MODEL_SPARSE ? b.repeats : 0;
        if (b.repeats > 0)
            add_layer(&b, (enum model_layer)kind);
    }
    // With fp32 embeddings and norms the residual stream is fp32 as well.
    bool wide = stack_widens(request->stack, request->recipe);
    out->layer_input_bytes =
        (wide ? 4 : stream_bytes(&b)) * b.own_tokens * (double)request->model->width;
    size_t layer_ops = out->count;
    add_head(&b);
    if (request->model->tower)
        add_encoder(&b);
    add_passes(&b);
    add_critic(&b, layer_ops);
    add_update(&b);
    return OK;
}

static double sum_flops(const struct step *step, bool recomputed)
{
    double sum = 0;
    for (size_t i = 0; i < step->count; i++)
        if (step->ops[i].phase != STEP_UPDATE &&
            (recomputed || step->ops[i].phase != STEP_RECOMPUTE))
            sum += step->ops[i].flops * step->ops[i].repeats;
    return sum;
}

double step_flops(const struct step *step)
{
    return sum_flops(step, true);
}

double step_model_flops(const struct step *step)
{
    return sum_flops(step, false);
}
