// SPDX-License-Identifier: Apache-2.0
// Lists the operations of the encoder of images and of its projector, with what they hold and keep.

#include "core/step/encoder.h"

#include "core/step/attended.h"
#include "core/step/compute.h"
#include "core/step/step_internal.h"

#include <assert.h>
#include <math.h>

struct build {
    struct encoder *out;
    const struct step_request *request;
    const struct vision *vision;
    double size; // bytes of an element
    double repeats;
    bool trained, adapted; // its weights; adapters on them
    bool passed;           // gradients pass all the same, to no use
    bool in_layer;
};

static bool has_gradients(const struct build *b)
{
    return b->trained || b->adapted || b->passed;
}

static bool recomputes(const struct step_request *request)
{
    return request->recipe->checkpointing == RECIPE_RECOMPUTE;
}

static void add(struct build *b, struct step_op op)
{
    struct encoder *out = b->out;
    bool gradients = has_gradients(b);
    if (op.phase == STEP_BACKWARD && !gradients)
        return;
    assert(out->count + 2 <= ENCODER_OPS);
    op.repeats = b->repeats;
    op.of_images = true;
    op.graphless = !gradients;
    out->ops[out->count++] = op;
    if (op.phase != STEP_FORWARD || !gradients || !b->in_layer || !recomputes(b->request))
        return;
    op.phase = STEP_RECOMPUTE;
    out->ops[out->count++] = op;
}

static void add_adapter(struct build *b, double rows, double in, double out)
{
    double rank = (double)b->request->recipe->rank;
    static const char *const names[] = { "encoder adapter a", "encoder adapter b" };
    struct step_op ops[STEP_ADAPTER_PRODUCTS];
    step_adapter_products(ops, b->size, names, rows, in, out, rank);
    for (size_t i = 0; i < STEP_ADAPTER_PRODUCTS; i++) {
        ops[i].adapter = true;
        add(b, ops[i]);
    }
    b->out->trained_weights += b->repeats * rank * (in + out);
}

static void add_linear(struct build *b, const char *name, double rows, double out, double in)
{
    struct step_op ops[STEP_LINEAR_PRODUCTS];
    step_linear_products(ops, b->size, name, rows, in, out);
    for (size_t i = 0; i < (b->trained ? STEP_LINEAR_PRODUCTS : STEP_LINEAR_PRODUCTS - 1); i++) {
        ops[i].aligned = step_alignment(b->size, in, out);
        add(b, ops[i]);
    }
    if (b->adapted)
        add_adapter(b, rows, in, out);
    *(b->trained ? &b->out->trained_weights : &b->out->frozen_weights) += b->repeats * in * out;
}

// Bytes per element read and written, by PyTorch's own kernels. Under autocast norms run in fp32,
// to and from which their inputs and outputs are cast; so do rotary positions (kernels of Qwen's
// encoders, bench/results/h200.md).
static void add_elementwise(struct build *b, const char *name, double forward, double backward,
                            double elements)
{
    for (int phase = STEP_FORWARD; phase <= STEP_BACKWARD; phase += STEP_BACKWARD - STEP_FORWARD)
        add(b, (struct step_op){ .name = name,
                                 .phase = (enum step_phase)phase,
                                 .kind = STEP_ELEMENTWISE,
                                 .bytes = (phase == STEP_FORWARD ? forward : backward) * b->size /
                                          2 * elements,
                                 .launches = 1 });
}

// Every patch sees all others: nothing is masked. squares: Σ n² over the images. Images of their
// own sizes lie in one row, of which a kernel without lengths computes one image or window after
// the other. A window costs the host of an H200 41 to 53 µs without gradients, 318 µs with them and
// recomputation (bench/results/h200.md).
static void add_attention(struct build *b, int64_t head, double patches, double width,
                          double squares)
{
    static const double launches = 3, of_piece = 2.2;
    double moved = 4 * b->size * patches * width, length = patches > 0 ? squares / patches : 0;
    bool cut = b->vision->rule == VISION_NATIVE && attended_by_piece(b->request) && length > 0;
    struct step_op op = { .name = "encoder attention",
                          .phase = STEP_FORWARD,
                          .kind = STEP_ATTENTION,
                          .flops = 4 * squares * width,
                          .bytes = moved,
                          .share = compute_head_share(b->request, head, false),
                          .launches = launches + (cut ? of_piece * patches / length : 0),
                          .length = length };
    add(b, op);
    op.phase = STEP_BACKWARD;
    op.share = compute_head_share(b->request, head, true);
    op.flops *= 2.5;
    op.bytes *= 2;
    add(b, op);
}

// Layers of one kind: those with windows, or those without.
static void add_layers(struct build *b, double layers, double squares)
{
    const struct vision *v = b->vision;
    double patches = b->request->batch.images.patches, width = (double)v->width,
           inner = (double)v->ffn_width;
    if (!(layers > 0))
        return;
    b->repeats = layers;
    b->in_layer = true;
    add_elementwise(b, "encoder norm", 20, 20, 2 * patches * width);
    add_linear(b, "encoder q k v", patches, 3 * width, width);
    if (v->rotary)
        add_elementwise(b, "encoder rotary", 90, 90, 2 * patches * width);
    add_attention(b, v->width / v->heads, patches, width, squares);
    add_linear(b, "encoder o", patches, width, width);
    if (v->gated)
        add_linear(b, "encoder gate", patches, inner, width);
    add_linear(b, "encoder up", patches, inner, width);
    add_elementwise(b, "encoder activation", v->gated ? 10 : 4, v->gated ? 18 : 6, patches * inner);
    add_linear(b, "encoder down", patches, width, inner);
    add_elementwise(b, "encoder residual", 6, 6, 2 * patches * width);
    b->in_layer = false;
}

// What one layer keeps: the inputs of norms (2), of q k v and up (2), q, k, v (3), the output of
// attention, and of the feed-forward network the products and their activation.
static double layer_kept(const struct build *b)
{
    const struct vision *v = b->vision;
    double each = 8 * (double)v->width + (v->gated ? 3 : 2) * (double)v->ffn_width;
    if (recomputes(b->request))
        each = (double)v->width;
    return b->size * b->request->batch.images.patches * each;
}

static void add_projector(struct build *b)
{
    const struct vision *v = b->vision;
    double rows = b->request->batch.images.projected, in = (double)v->projector_in;
    double out = (double)b->request->model->width, between = vision_projector_width(v, out);
    b->repeats = v->projectors ? (double)v->projectors : 1;
    if (between > 0) {
        add_linear(b, "projector", rows, between, in);
        add_linear(b, "projector", rows, out, between);
    } else {
        add_linear(b, "projector", rows, out, in);
    }
    b->repeats = 1;
    add_elementwise(b, "image tokens", 4, 4, rows * out);
}

// Layers of the decoder that attend to images: keys and values of the projected tokens, and every
// token of a row sees those of its images. Their weights are the decoder's.
static void add_cross_attention(struct build *b)
{
    const struct step_request *r = b->request;
    const struct model *model = r->model;
    double every = (double)b->vision->cross_every, rows = r->batch.images.projected;
    if (!(every > 0) || !(r->batch.rows > 0))
        return;
    double query = (double)model_query_width(model), keys = (double)model_key_width(model);
    double squares = r->batch.tokens * rows / r->batch.rows;
    b->repeats = floor((double)model->layers / every);
    add(b, step_product(b->size, "cross k v", STEP_FORWARD, rows, 2 * keys, (double)model->width));
    b->trained = true; // the decoder's gradients pass here
    add(b, step_product(b->size, "cross k v", STEP_BACKWARD, 2 * keys, (double)model->width, rows));
    add_attention(b, model->head_size, r->batch.tokens, query, squares);
}

void encoder_list(struct encoder *out, const struct step_request *request)
{
    const struct recipe *recipe = request->recipe;
    const struct vision *v = request->model->tower;
    const struct vision_load *images = &request->batch.images;
    *out = (struct encoder){ .ops = out->ops };
    if (!v || (v->apart && !(images->images > 0)))
        return;
    struct build b = { .out = out,
                       .request = request,
                       .vision = v,
                       .size = recipe->precision == RECIPE_FP32 ? 4 : 2,
                       .trained = recipe->trains_encoder && recipe->method == RECIPE_FULL,
                       .adapted = recipe->trains_encoder && recipe->method != RECIPE_FULL };
    // Under recomputation transformers asks for gradients of all embeddings, those of patches too:
    // a frozen encoder then runs backward as well (transformers 5.17, seen on an H200).
    b.passed = !b.trained && !b.adapted && recomputes(request) && request->stack->input_gradients &&
               !v->unnamed_embedding;
    double pixels = 3 * (double)(v->patch * v->patch), layers = (double)v->layers;
    double full = v->window > 0 ? (double)v->full_layers : layers;
    b.repeats = 1;
    add_linear(&b, "patches", images->patches, (double)v->width, pixels);
    add_layers(&b, full, images->squares);
    add_layers(&b, layers - full, images->in_window);
    if (has_gradients(&b))
        out->kept_bytes = layers * layer_kept(&b);
    out->kept_bytes += 4 * images->patches * pixels; // the pixels themselves, in fp32
    add_projector(&b);
    add_cross_attention(&b);
    if (!(images->images > 0))
        out->count = 0; // held, not run
}
