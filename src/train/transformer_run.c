// SPDX-License-Identifier: Apache-2.0
// Runs the layers: forward and backward are two plain lists of calls on the backend.

#include "train/transformer_internal.h"

#include <string.h>

static struct tensor none(void)
{
    return (struct tensor){ 0 };
}

// --- projections and their adapters ------------------------------------------

static double product_flops(int64_t rows, int64_t in, int64_t out)
{
    return 2.0 * (double)rows * (double)in * (double)out;
}

bool transformer_reads_input(const struct transformer *t, const struct projection *p)
{
    return t->setup.recipe->method == RECIPE_FULL || p->rank > 0;
}

void transformer_note_linears(struct transformer *t, const struct projection *p, int64_t rows)
{
    for (int i = 0; i < p->count; i++)
        transformer_note(t, p->linears[i]->name, product_flops(rows, p->in, p->linears[i]->out));
}

void transformer_note_adapters(struct transformer *t, const char *name, const struct projection *p,
                               int64_t rows)
{
    bool first = !strcmp(name, "adapter a");
    for (int i = 0; i < p->count; i++)
        if (p->linears[i]->a && !t->skips_adapters)
            transformer_note(
                t, name,
                product_flops(rows, first ? p->in : p->linears[i]->out, t->setup.recipe->rank));
}

bool transformer_drops(const struct transformer *t, const struct micro_batch *batch,
                       const struct projection *p)
{
    return transformer_rank(t, p) && t->setup.recipe->dropout > 0 && batch->key;
}

static uint64_t dropout_key(const struct micro_batch *batch, const struct linear *linear)
{
    return batch->key ^ ((uint64_t)linear->index + 1) * 0x9E3779B97F4A7C15u;
}

struct tensor transformer_dropped_input(struct transformer *t, const struct micro_batch *batch,
                                        const struct linear *linear, struct tensor x)
{
    struct tensor out = tensor_of(t->scratch.dropped.at, x.dtype, x.rows, x.columns);
    ops(t)->dropout(t->device, out, x, t->setup.recipe->dropout, dropout_key(batch, linear));
    return out;
}

void transformer_add_dropped(struct transformer *t, const struct micro_batch *batch,
                             const struct linear *linear, struct tensor dx, struct tensor back)
{
    ops(t)->dropout(t->device, back, back, t->setup.recipe->dropout, dropout_key(batch, linear));
    ops(t)->add(t->device, dx, dx, back);
}

static struct tensor low_rank_of(const struct projection *p, struct tensor x)
{
    return p->z.at ? first_rows(p->z, x.rows) : tensor_columns(x, p->in, p->rank);
}

// z = s · x Aᵀ, into the columns after x.
static void compute_low_rank(struct transformer *t, const struct micro_batch *batch,
                             const struct projection *p, struct tensor a, struct tensor x_and_z)
{
    struct tensor x = tensor_columns(x_and_z, 0, p->in);
    struct tensor z = tensor_columns(x_and_z, p->in, p->rank);
    int64_t rank = t->setup.recipe->rank;
    transformer_note_adapters(t, "adapter a", p, x.rows);
    if (!transformer_drops(t, batch, p)) {
        ops(t)->matmul_nt(t->device, z, x, a, t->adapter_scale, 0);
    } else {
        ops(t)->zero(t->device, z);
        for (int i = 0; i < p->count; i++) {
            const struct linear *l = p->linears[i];
            if (l->a)
                ops(t)->matmul_nt(t->device, tensor_columns(z, l->first_z, rank),
                                  transformer_dropped_input(t, batch, l, x),
                                  tensor_rows(a, l->first_z, rank), t->adapter_scale, 0);
        }
    }
    if (p->z.at)
        ops(t)->cast(t->device, first_rows(p->z, x.rows), z);
}

// y = x wᵀ + z bᵀ in fp8, where x has z in its next columns. b is (N, z_columns), or (z_columns, N)
// if it is transposed; z_columns: 0 leaves the adapters out.
static void multiply_in_fp8(struct transformer *t, struct tensor y, struct tensor x,
                            struct scaled w, struct tensor b, bool transposed, int64_t z_columns,
                            int64_t columns)
{
    struct tensor shifts = tensor_columns(t->scratch.shifts, 0, z_columns);
    struct tensor codes = z_columns ? w.codes : tensor_columns(w.codes, 0, columns);
    struct scaled input = { tensor_of(t->scratch.input.codes.at, DTYPE_F8, x.rows, codes.columns),
                            first_rows(t->scratch.input.scales, x.rows) };
    if (z_columns)
        ops(t)->quantize_adapters(
            t->device, tensor_columns(w.codes, columns, 3 * z_columns), shifts,
            transposed ? tensor_rows(b, 0, z_columns) : tensor_columns(b, 0, z_columns), transposed,
            w.scales);
    ops(t)->quantize_inputs(t->device, input.codes, input.scales, tensor_columns(x, 0, columns),
                            tensor_columns(x, columns, z_columns), shifts);
    ops(t)->matmul_scaled(t->device, y, input.codes, input.scales, codes, w.scales, 0);
}

static struct tensor first_factors(const struct projection *p, struct tensor block)
{
    return block.at ? tensor_columns(tensor_rows(block, p->out, p->rank), 0, p->in) : p->a;
}

// y = x Wᵀ + z Bᵀ + bias. x is (rows, in + rank); its last columns become z.
static void project(struct transformer *t, const struct micro_batch *batch, struct projection *p,
                    struct tensor y, struct tensor x)
{
    struct tensor block = transformer_stacked(t, p), a = first_factors(p, block);
    int64_t rank = transformer_rank(t, p);
    if (rank)
        compute_low_rank(t, batch, p, a, x);
    transformer_note_linears(t, p, x.rows);
    transformer_note_adapters(t, "adapter b", p, x.rows);
    if (block.at) {
        ops(t)->matmul_nt(t->device, y, tensor_columns(x, 0, p->in + rank),
                          tensor_columns(tensor_rows(block, 0, p->out), 0, p->in + rank), 1, 0);
    } else {
        multiply_in_fp8(t, y, x, p->forward, p->b, false, rank ? p->z_columns : 0, p->in);
    }
    if (rank && t->setup.recipe->dora)
        transformer_magnify(t, p, block, y);
    for (int i = 0; i < p->count; i++)
        if (p->linears[i]->bias)
            ops(t)->bias_forward(t->device,
                                 tensor_columns(y, p->linears[i]->first, p->linears[i]->out),
                                 p->linears[i]->bias->value);
}

// Backward through the dropout of each adapter: dA += dzᵀ x', dx += dropout(dz A).
static void dropped_backward(struct transformer *t, const struct micro_batch *batch,
                             struct projection *p, struct tensor a, struct tensor dx,
                             struct tensor dz, struct tensor x)
{
    int64_t rank = t->setup.recipe->rank;
    for (int i = 0; i < p->count; i++) {
        const struct linear *l = p->linears[i];
        if (!l->a)
            continue;
        struct tensor own = tensor_columns(dz, l->first_z, rank);
        struct tensor back = tensor_of(t->scratch.ddropped.at, x.dtype, x.rows, x.columns);
        ops(t)->matmul_tn(t->device, l->a->gradient, own, transformer_dropped_input(t, batch, l, x),
                          1, 1);
        ops(t)->matmul_nn(t->device, back, own, tensor_rows(a, l->first_z, rank), 1, 0);
        transformer_add_dropped(t, batch, l, dx, back);
    }
}

// dz = s · dy B and dB += dyᵀ z, then dA += dzᵀ x.
static void adapter_gradients(struct transformer *t, const struct micro_batch *batch,
                              struct projection *p, struct tensor dz, struct tensor dy,
                              struct tensor b, struct tensor x)
{
    struct adapter_part parts[PROJECTION_LINEARS];
    int count = 0;
    for (int i = 0; i < p->count; i++) {
        const struct linear *l = p->linears[i];
        if (l->b)
            parts[count++] = (struct adapter_part){ l->first, l->first_z, l->b->gradient };
    }
    for (int i = 0; i < 2; i++) // two products, although dy is read once for both
        transformer_note_adapters(t, "adapter b", p, x.rows);
    ops(t)->adapters_backward(t->device, dz, parts, count, dy, b, low_rank_of(p, x),
                              t->adapter_scale);
    transformer_note_adapters(t, "adapter a", p, x.rows);
    if (!transformer_drops(t, batch, p))
        ops(t)->matmul_tn(t->device, p->a_gradient, tensor_columns(dz, 0, p->a_gradient.rows),
                          tensor_columns(x, 0, p->in), 1, 1);
}

// dx = dy W + dz A, with dz in the last columns of dy.
static void input_gradient(struct transformer *t, const struct micro_batch *batch,
                           struct projection *p, struct tensor block, struct tensor a,
                           struct tensor dx, struct tensor dy, struct tensor x)
{
    bool has_dropout = transformer_drops(t, batch, p);
    int64_t rank = has_dropout ? 0 : p->rank;
    struct tensor dz = tensor_columns(dy, p->out, p->rank);
    transformer_note_linears(t, p, x.rows);
    if (block.at) {
        ops(t)->matmul_nn(t->device, dx, tensor_columns(dy, 0, p->out + rank),
                          tensor_columns(tensor_rows(block, 0, p->out + rank), 0, p->in), 1, 0);
    } else {
        multiply_in_fp8(t, dx, dy, p->backward, a, true, rank ? p->z_columns : 0, p->out);
    }
    if (p->rank)
        transformer_note_adapters(t, "adapter a", p, x.rows);
    if (has_dropout)
        dropped_backward(t, batch, p, a, dx, dz, tensor_columns(x, 0, p->in));
}

// dx = dy W + dz A, with dz in the last columns of dy; and the gradients of what is trained. dy is
// (T, out + rank), x (T, in + rank).
static void project_backward(struct transformer *t, const struct micro_batch *batch,
                             struct projection *p, struct tensor dx, struct tensor dy,
                             struct tensor x)
{
    struct tensor block = transformer_stacked(t, p), dy_only = tensor_columns(dy, 0, p->out);
    struct tensor dz = tensor_columns(dy, p->out, p->rank);
    struct tensor a =
        block.at ? tensor_columns(tensor_rows(block, p->out, p->rank), 0, p->in) : p->a;
    struct tensor b =
        block.at ? tensor_columns(tensor_rows(block, 0, p->out), p->in, p->rank) : p->b;
    if (p->rank && t->setup.recipe->dora)
        transformer_magnify_backward(t, p, block, dy_only, x, low_rank_of(p, x));
    if (p->rank)
        adapter_gradients(t, batch, p, dz, dy_only, b, x);
    input_gradient(t, batch, p, block, a, dx, dy, x);
    if (p->gradient.at) {
        transformer_note_linears(t, p, x.rows);
        ops(t)->matmul_tn(t->device, p->gradient, dy_only, x, 1, t->is_fresh ? 0 : 1);
    }
    for (int i = 0; i < p->count; i++) {
        const struct linear *l = p->linears[i];
        if (l->bias && l->bias->gradient.at)
            ops(t)->bias_backward(t->device, l->bias->gradient,
                                  tensor_columns(dy, l->first, l->out));
    }
}

// --- attention ---------------------------------------------------------------

static struct attention attention_shape(const struct transformer *t,
                                        const struct micro_batch *batch, int64_t window)
{
    const struct model *m = &t->decoder->model;
    int64_t longest = 0;
    for (int64_t i = 0; i < batch->span_count; i++)
        longest = batch->spans[i].size > longest ? batch->spans[i].size : longest;
    return (struct attention){ .spans = t->scratch.spans,
                               .host_spans = batch->spans,
                               .span_count = batch->span_count,
                               .longest = longest,
                               .tokens = batch->tokens,
                               .heads = m->heads,
                               .kv_heads = m->kv_heads,
                               .head_size = m->head_size,
                               .window = window,
                               .any_order = t->setup.any_order,
                               .scale = t->decoder->attention_scale,
                               .cap = t->decoder->attention_cap };
}

// Counted as in the step list: half of the squared length of each document, or of its band.
static double attention_flops(const struct transformer *t, const struct micro_batch *batch,
                              int64_t window)
{
    double squared_lengths = 0, width = (double)model_query_width(&t->decoder->model);
    for (int64_t i = 0; i < batch->span_count; i++) {
        double size = batch->spans[i].size, w = (double)window;
        squared_lengths += window && size > w ? size * (2 * w - w * w / size) : size * size;
    }
    return squared_lengths * 2 * width;
}

static void norm(struct transformer *t, const char *name, struct parameter *weight,
                 struct tensor sum, struct tensor out, struct tensor rms, struct tensor a,
                 struct tensor b)
{
    if (b.at)
        transformer_note(t, "residual", 0);
    transformer_note(t, name, 0);
    ops(t)->norm_forward(t->device, sum, out, rms, a, b, weight->value,
                         t->decoder->architecture->norm_offset, t->decoder->norm_epsilon);
}

// q, k and v side by side in a tensor's columns.
struct heads {
    struct tensor q, k, v, qk; // qk: q and k together
};

static struct heads heads_of(const struct transformer *t, struct tensor qkv)
{
    int64_t Q = model_query_width(&t->decoder->model), K = model_key_width(&t->decoder->model);
    struct heads heads = { .q = tensor_columns(qkv, 0, Q),
                           .k = tensor_columns(qkv, Q, K),
                           .qk = tensor_columns(qkv, 0, Q + K) };
    if (qkv.columns >= Q + 2 * K)
        heads.v = tensor_columns(qkv, Q + K, K);
    return heads;
}

// Rotates the queries and keys of a layer, or rotates their gradients back. Documents side by side
// that are rotated alike are one call: most often all of them.
static void rotate_documents(struct transformer *t, const struct micro_batch *batch,
                             struct transformer_layer *l, struct tensor qk, int direction)
{
    const struct decoder *d = t->decoder;
    int64_t layer = l - t->layers, end;
    for (int64_t i = 0; i < batch->span_count; i = end) {
        enum decoder_rotation rotation = decoder_rotation(d, layer, batch->spans[i].size);
        int64_t first = batch->spans[i].start, rows = batch->spans[i].size;
        for (end = i + 1; end < batch->span_count &&
                          decoder_rotation(d, layer, batch->spans[end].size) == rotation;
             end++)
            rows += batch->spans[end].size;
        if (rotation != ROTATION_NONE)
            ops(t)->rotary(t->device, tensor_rows(qk, first, rows), t->scratch.positions + first,
                           tensor_rows(t->frequencies, rotation, 1), d->model.head_size, direction,
                           d->rotary_scale);
    }
}

// Normalises q and k if the model has norms for them, and rotates them (RoPE).
static void rotate(struct transformer *t, const struct micro_batch *batch,
                   struct transformer_layer *l)
{
    int64_t n = batch->tokens;
    struct heads from = heads_of(t, first_rows(l->qkv, n));
    struct heads to = heads_of(t, first_rows(l->rotated, n));
    if (l->norms[NORM_Q]) {
        norm(t, "q_norm", l->norms[NORM_Q], none(), to.q, first_rows(l->q_rms, n), from.q, none());
        norm(t, "k_norm", l->norms[NORM_K], none(), to.k, first_rows(l->k_rms, n), from.k, none());
    }
    transformer_note(t, "rotary", 0);
    rotate_documents(t, batch, l, to.qk, 1);
}

// The norm or the scale of what a layer adds to the residual stream, where the model has one: from
// `out`, where a projection left it, into the branch; or in the branch.
static void change_added(struct transformer *t, const struct micro_batch *batch, const char *name,
                         struct parameter *weight, struct tensor out, struct tensor rms)
{
    int64_t n = batch->tokens;
    struct tensor branch = first_rows(t->scratch.branch, n);
    if (weight)
        norm(t, name, weight, none(), branch, first_rows(rms, n), first_rows(out, n), none());
    else if (t->decoder->added_scale != 1)
        ops(t)->scale(t->device, branch, t->decoder->added_scale);
}

// What attention gave is not recomputed where it was kept.
static void attend(struct transformer *t, const struct micro_batch *batch,
                   struct transformer_layer *l)
{
    bool kept = t->phase == STEP_RECOMPUTE && l->level < RECOMPUTE_BLOCK;
    int64_t n = batch->tokens, Q = model_query_width(&t->decoder->model);
    struct attention shape = attention_shape(t, batch, l->window);
    struct tensor qkv = first_rows(l->qkv, n), attended = first_rows(l->attended, n);
    project(t, batch, &l->projections[PROJECTION_QKV], qkv, first_rows(l->normed, n));
    rotate(t, batch, l);
    struct heads rotated = heads_of(t, first_rows(l->rotated, n));
    if (!kept) {
        struct tensor out = tensor_columns(attended, 0, Q), lse = first_rows(l->lse, n);
        transformer_note(t, "attention", attention_flops(t, batch, l->window));
        ops(t)->attention_forward(t->device, out, lse, rotated.q, rotated.k, heads_of(t, qkv).v,
                                  &shape, t->scratch.attention);
        if (l->sinks)
            ops(t)->sink_forward(t->device, out, lse, l->sinks->value);
    }
    struct tensor out = l->norms[NORM_ATTENTION_OUT] ? l->attention_out : t->scratch.branch;
    project(t, batch, &l->projections[PROJECTION_O], first_rows(out, n), attended);
    change_added(t, batch, "attention_out_norm", l->norms[NORM_ATTENTION_OUT], l->attention_out,
                 l->attention_out_rms);
}

// --- forward -----------------------------------------------------------------

static struct tensor input_of(const struct transformer *t, struct tensor x)
{
    return tensor_columns(x, 0, t->decoder->model.width);
}

static void gate(struct transformer *t, const struct micro_batch *batch,
                 struct transformer_layer *l)
{
    if (l->mixture.experts) {
        transformer_experts_gate(t, batch, l);
        return;
    }
    int64_t n = batch->tokens, F = t->decoder->model.ffn_width;
    project(t, batch, &l->projections[PROJECTION_GATE],
            tensor_columns(first_rows(l->gate_up, n), 0, 2 * F), first_rows(l->middle_normed, n));
}

static void activate(struct transformer *t, const struct micro_batch *batch,
                     struct transformer_layer *l)
{
    if (l->mixture.experts) {
        transformer_experts_activate(t, batch, l);
        return;
    }
    int64_t n = batch->tokens, F = t->decoder->model.ffn_width;
    struct tensor gate_up = first_rows(l->gate_up, n);
    struct tensor activated = tensor_columns(first_rows(l->activated, n), 0, F);
    struct tensor gate_ = tensor_columns(gate_up, 0, F), up = tensor_columns(gate_up, F, F);
    transformer_note(t, "activation", 0);
    if (t->decoder->architecture->activation == ACTIVATION_GELU)
        ops(t)->geglu_forward(t->device, activated, gate_, up);
    else
        ops(t)->swiglu_forward(t->device, activated, gate_, up, none(), t->decoder->swiglu);
}

static void down(struct transformer *t, const struct micro_batch *batch,
                 struct transformer_layer *l)
{
    struct tensor out = l->norms[NORM_MLP_OUT] ? l->mlp_out : t->scratch.branch;
    if (l->mixture.experts)
        transformer_experts_down(t, batch, l);
    else
        project(t, batch, &l->projections[PROJECTION_DOWN], first_rows(out, batch->tokens),
                first_rows(l->activated, batch->tokens));
    change_added(t, batch, "mlp_out_norm", l->norms[NORM_MLP_OUT], l->mlp_out, l->mlp_out_rms);
}

static const struct projection *gate_of(const struct transformer_layer *l)
{
    return l->mixture.experts ? &l->mixture.experts[0].gate : &l->projections[PROJECTION_GATE];
}

static const struct projection *down_of(const struct transformer_layer *l)
{
    return l->mixture.experts ? &l->mixture.experts[0].down : &l->projections[PROJECTION_DOWN];
}

// From the layer's normalised input to its activation: everything but the down projection.
static void run_block(struct transformer *t, const struct micro_batch *batch,
                      struct transformer_layer *l)
{
    int64_t n = batch->tokens;
    attend(t, batch, l);
    norm(t, "mlp_norm", l->norms[NORM_MLP], first_rows(l->middle, n),
         input_of(t, first_rows(l->middle_normed, n)), first_rows(l->middle_rms, n),
         first_rows(l->input, n), first_rows(t->scratch.branch, n));
    if (l->mixture.experts && t->phase != STEP_RECOMPUTE)
        transformer_route(t, batch, l);
    gate(t, batch, l);
    if (t->phase != STEP_RECOMPUTE || transformer_reads_input(t, down_of(l)))
        activate(t, batch, l);
}

// Uploads the micro-batch. Uploads are queued after the operations that still read the old data.
static void upload_batch(struct transformer *t, const struct micro_batch *batch)
{
    struct transformer_scratch *s = &t->scratch;
    struct attention shape = attention_shape(t, batch, 0);
    int64_t tokens = 4 * batch->tokens, labelled = 4 * batch->labelled;
    ops(t)->upload(t->device, s->ids, batch->ids, tokens);
    ops(t)->upload(t->device, s->positions, batch->positions, tokens);
    ops(t)->upload(t->device, s->spans, batch->spans,
                   batch->span_count * (int64_t)sizeof *batch->spans);
    if (labelled) {
        ops(t)->upload(t->device, s->rows, batch->rows, labelled);
        ops(t)->upload(t->device, s->targets, batch->targets, labelled);
    }
    ops(t)->attention_begin(t->device, &shape, s->attention);
}

void transformer_run_forward(struct transformer *t, const struct micro_batch *batch)
{
    int64_t n = batch->tokens, layers = t->decoder->model.layers;
    struct tensor branch = first_rows(t->scratch.branch, n);
    struct tensor residual = first_rows(t->layers[0].input, n), added = none();
    upload_batch(t, batch);
    if (t->scratch.load.at)
        ops(t)->zero(t->device, t->scratch.load);
    t->phase = transformer_forward_phase(t);
    transformer_note(t, "embedding", 0);
    ops(t)->embedding_forward(t->device, residual, t->embedding->value, t->scratch.ids);
    if (t->decoder->embedding_scale != 1)
        ops(t)->scale(t->device, residual, t->decoder->embedding_scale);
    for (int64_t i = 0; i < layers; i++) {
        struct transformer_layer *l = &t->layers[i];
        transformer_fetch(t, i, i + 1);
        transformer_before_forward(t, i);
        norm(t, "attention_norm", l->norms[NORM_ATTENTION], first_rows(l->input, n),
             input_of(t, first_rows(l->normed, n)), first_rows(l->input_rms, n), residual, added);
        run_block(t, batch, l);
        down(t, batch, l);
        transformer_after_forward(t, i);
        residual = first_rows(l->middle, n);
        added = branch;
    }
    norm(t, "final norm", t->final_norm, first_rows(t->last, n), first_rows(t->hidden, n),
         first_rows(t->last_rms, n), residual, added);
}

// --- backward ----------------------------------------------------------------

// Recomputes what the feed-forward network of a layer did not keep and backward reads.
static void recompute_feed_forward(struct transformer *t, const struct micro_batch *batch,
                                   struct transformer_layer *l)
{
    int64_t n = batch->tokens;
    if (l->level == RECOMPUTE_GATE || transformer_reads_input(t, gate_of(l))) {
        norm(t, "mlp_norm", l->norms[NORM_MLP], none(),
             input_of(t, first_rows(l->middle_normed, n)), first_rows(l->middle_rms, n),
             first_rows(l->middle, n), none());
        if (l->level == RECOMPUTE_GATE)
            gate(t, batch, l);
        else if (l->mixture.experts)
            transformer_experts_rows(t, batch, l);
    }
    if (transformer_reads_input(t, down_of(l)))
        activate(t, batch, l);
}

// Recomputes what the layer did not keep and backward reads.
static void recompute(struct transformer *t, const struct micro_batch *batch,
                      struct transformer_layer *l)
{
    int64_t n = batch->tokens;
    if (l->level == RECOMPUTE_NONE)
        return;
    t->phase = STEP_RECOMPUTE;
    bool whole = l->level >= RECOMPUTE_PROJECTIONS;
    if (whole || transformer_reads_input(t, &l->projections[PROJECTION_QKV]))
        norm(t, "attention_norm", l->norms[NORM_ATTENTION], none(),
             input_of(t, first_rows(l->normed, n)), first_rows(l->input_rms, n),
             first_rows(l->input, n), none());
    if (whole) {
        run_block(t, batch, l);
    } else {
        if (l->norms[NORM_Q])
            rotate(t, batch, l);
        recompute_feed_forward(t, batch, l);
    }
    t->phase = STEP_BACKWARD;
}

static void norm_backward(struct transformer *t, const char *name, struct parameter *weight,
                          struct tensor dx, struct tensor residual, struct tensor dout,
                          struct tensor x, struct tensor rms)
{
    if (residual.at)
        transformer_note(t, "residual", 0);
    transformer_note(t, name, 0);
    ops(t)->norm_backward(t->device, dx, weight->gradient, residual, dout, x, rms, weight->value,
                          t->decoder->architecture->norm_offset);
}

// The gradient of what a projection left, from that of the residual stream, through the norm that
// some models have between them, or its scale; with magnitudes a copy, which they change. It has
// room for dz in its last columns.
static struct tensor added_backward(struct transformer *t, const struct micro_batch *batch,
                                    const char *name, struct parameter *weight, struct tensor out,
                                    struct tensor rms)
{
    int64_t n = batch->tokens;
    struct tensor dx = first_rows(t->scratch.dx, n), dadded = first_rows(t->scratch.dadded, n);
    if (!dadded.at)
        return dx;
    if (!weight) {
        ops(t)->cast(t->device, input_of(t, dadded), input_of(t, dx));
        if (t->decoder->added_scale != 1)
            ops(t)->scale(t->device, input_of(t, dadded), t->decoder->added_scale);
        return dadded;
    }
    norm_backward(t, name, weight, input_of(t, dadded), none(), input_of(t, dx), first_rows(out, n),
                  first_rows(rms, n));
    return dadded;
}

// From the gradient of the residual stream to that of middle_normed, in the branch.
static void dense_backward(struct transformer *t, const struct micro_batch *batch,
                           struct transformer_layer *l)
{
    int64_t n = batch->tokens, C = t->decoder->model.width, F = t->decoder->model.ffn_width;
    struct projection *down = &l->projections[PROJECTION_DOWN];
    struct tensor gate_up = first_rows(l->gate_up, n);
    struct tensor gate_ = tensor_columns(gate_up, 0, F), up = tensor_columns(gate_up, F, F);
    struct tensor dactivated = first_rows(t->scratch.dactivated, n);
    struct tensor dadded = added_backward(t, batch, "mlp_out_norm", l->norms[NORM_MLP_OUT],
                                          l->mlp_out, l->mlp_out_rms);
    project_backward(t, batch, down, dactivated, tensor_columns(dadded, 0, C + down->rank),
                     first_rows(l->activated, n));
    transformer_note(t, "activation", 0);
    if (t->decoder->architecture->activation == ACTIVATION_GELU)
        ops(t)->geglu_backward(t->device, gate_, up, dactivated, gate_, up);
    else
        ops(t)->swiglu_backward(t->device, gate_, up, none(), dactivated, gate_, up, none(),
                                t->decoder->swiglu);
    project_backward(t, batch, &l->projections[PROJECTION_GATE], first_rows(t->scratch.branch, n),
                     gate_up, first_rows(l->middle_normed, n));
}

static void feed_forward_backward(struct transformer *t, const struct micro_batch *batch,
                                  struct transformer_layer *l)
{
    int64_t n = batch->tokens;
    struct tensor dx = input_of(t, first_rows(t->scratch.dx, n));
    if (l->mixture.experts)
        transformer_experts_backward(t, batch, l);
    else
        dense_backward(t, batch, l);
    norm_backward(t, "mlp_norm", l->norms[NORM_MLP], dx, dx, first_rows(t->scratch.branch, n),
                  first_rows(l->middle, n), first_rows(l->middle_rms, n));
}

static void rotate_backward(struct transformer *t, const struct micro_batch *batch,
                            struct transformer_layer *l, struct heads d)
{
    int64_t n = batch->tokens;
    struct heads x = heads_of(t, first_rows(l->qkv, n));
    transformer_note(t, "rotary", 0);
    rotate_documents(t, batch, l, d.qk, -1);
    if (!l->norms[NORM_Q])
        return;
    norm_backward(t, "q_norm", l->norms[NORM_Q], d.q, none(), d.q, x.q, first_rows(l->q_rms, n));
    norm_backward(t, "k_norm", l->norms[NORM_K], d.k, none(), d.k, x.k, first_rows(l->k_rms, n));
}

static void attention_backward(struct transformer *t, const struct micro_batch *batch,
                               struct transformer_layer *l)
{
    int64_t n = batch->tokens, C = t->decoder->model.width;
    int64_t Q = model_query_width(&t->decoder->model);
    struct transformer_scratch *s = &t->scratch;
    struct projection *o = &l->projections[PROJECTION_O];
    struct tensor dx = first_rows(s->dx, n), back = first_rows(s->branch, n);
    struct tensor dqkv = first_rows(s->dqkv, n), dattended = first_rows(s->dattended, n);
    struct tensor attended = first_rows(l->attended, n);
    struct attention shape = attention_shape(t, batch, l->window);
    struct heads d = heads_of(t, dqkv), rotated = heads_of(t, first_rows(l->rotated, n));
    struct tensor dadded =
        added_backward(t, batch, "attention_out_norm", l->norms[NORM_ATTENTION_OUT],
                       l->attention_out, l->attention_out_rms);
    project_backward(t, batch, o, dattended, tensor_columns(dadded, 0, C + o->rank), attended);
    transformer_note(t, "attention", 2.5 * attention_flops(t, batch, l->window));
    struct tensor out = tensor_columns(attended, 0, Q), lse = first_rows(l->lse, n);
    if (l->sinks && l->sinks->gradient.at)
        ops(t)->sink_backward(t->device, l->sinks->gradient, dattended, out, lse, l->sinks->value);
    ops(t)->attention_backward(t->device, d.q, d.k, d.v, dattended, out, lse, rotated.q, rotated.k,
                               heads_of(t, first_rows(l->qkv, n)).v, &shape, s->attention);
    rotate_backward(t, batch, l, d);
    project_backward(t, batch, &l->projections[PROJECTION_QKV], back, dqkv,
                     first_rows(l->normed, n));
    dx = input_of(t, dx);
    norm_backward(t, "attention_norm", l->norms[NORM_ATTENTION], dx, dx, back,
                  first_rows(l->input, n), first_rows(l->input_rms, n));
}

void transformer_run_backward(struct transformer *t, const struct micro_batch *batch)
{
    int64_t n = batch->tokens;
    struct tensor dx = input_of(t, first_rows(t->scratch.dx, n));
    struct tensor dhidden = first_rows(t->scratch.branch, n);
    t->phase = STEP_BACKWARD;
    ops(t)->zero(t->device, dhidden);
    ops(t)->scatter(t->device, dhidden, first_rows(t->scratch.dpicked, batch->labelled),
                    t->scratch.rows);
    norm_backward(t, "final norm", t->final_norm, dx, none(), dhidden, first_rows(t->last, n),
                  first_rows(t->last_rms, n));
    transformer_completed(t, t->decoder->model.layers);
    for (int64_t i = t->decoder->model.layers; i-- > 0;) {
        transformer_fetch(t, i, i - 1);
        transformer_before_backward(t, i);
        recompute(t, batch, &t->layers[i]);
        feed_forward_backward(t, batch, &t->layers[i]);
        attention_backward(t, batch, &t->layers[i]);
        transformer_after_backward(t, i);
        transformer_completed(t, i);
    }
    transformer_note(t, "embedding", 0);
    if (t->embedding->gradient.at && t->decoder->embedding_scale != 1)
        ops(t)->scale(t->device, dx, t->decoder->embedding_scale);
    if (t->embedding->gradient.at)
        ops(t)->embedding_backward(t->device, t->embedding->gradient, dx, t->scratch.ids);
    transformer_completed(t, TRANSFORMER_EMBEDDING);
}
