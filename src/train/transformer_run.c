// The layers, forward and backward: two plain lists of calls.

#include "train/transformer_internal.h"

static const struct backend *ops(const struct transformer *t)
{
    return t->device->backend;
}

// The tokens of this micro-batch in a tensor that has room for the largest.
static struct tensor first_rows(struct tensor tensor, int64_t rows)
{
    return tensor.at ? tensor_rows(tensor, 0, rows) : tensor;
}

static struct tensor none(void)
{
    return (struct tensor){ 0 };
}

// --- linears and their adapters ----------------------------------------------

static double product_flops(int64_t rows, int64_t in, int64_t out)
{
    return 2.0 * (double)rows * (double)in * (double)out;
}

static uint64_t dropout_key(const struct micro_batch *batch, const struct linear *linear)
{
    return batch->key ^ ((uint64_t)linear->index + 1) * 0x9E3779B97F4A7C15u;
}

// What the adapter sees of its linear's input.
static struct tensor adapter_input(struct transformer *t, const struct micro_batch *batch,
                                   const struct linear *linear, struct tensor x)
{
    double rate = t->setup.recipe->dropout;
    if (!(rate > 0) || !batch->key)
        return x;
    struct tensor out = tensor_of(t->scratch.dropped.at, x.dtype, x.rows, x.columns);
    ops(t)->dropout(t->device, out, x, rate, dropout_key(batch, linear));
    return out;
}

// y = x Wᵀ + bias + s · (x Aᵀ) Bᵀ
static void linear_forward(struct transformer *t, const struct micro_batch *batch,
                           struct linear *linear, struct tensor y, struct tensor x)
{
    struct tensor weight = transformer_weight(t, linear->weight);
    transformer_note(t, linear->name, product_flops(x.rows, linear->in, linear->out));
    ops(t)->matmul_nt(t->device, y, x, weight, 1, 0);
    if (linear->bias)
        ops(t)->bias_forward(t->device, y, linear->bias->value);
    if (!linear->a)
        return;
    struct tensor z = first_rows(linear->z, x.rows);
    struct tensor seen = adapter_input(t, batch, linear, x);
    transformer_note(t, "adapter a", product_flops(x.rows, linear->in, z.columns));
    ops(t)->matmul_nt(t->device, z, seen, linear->a->value, 1, 0);
    transformer_note(t, "adapter b", product_flops(x.rows, z.columns, linear->out));
    ops(t)->matmul_nt(t->device, y, z, linear->b->value, t->adapter_scale, 1);
}

// dB += s · dyᵀ z,  dz = s · dy B,  dA += dzᵀ x,  dx += dz A
static void adapter_backward(struct transformer *t, const struct micro_batch *batch,
                             struct linear *linear, struct tensor dx, struct tensor dy,
                             struct tensor x)
{
    struct tensor z = first_rows(linear->z, x.rows), dz = first_rows(t->scratch.dz, x.rows);
    struct tensor seen = adapter_input(t, batch, linear, x);
    double a = product_flops(x.rows, linear->in, z.columns);
    double b = product_flops(x.rows, z.columns, linear->out);
    transformer_note(t, "adapter b", b);
    ops(t)->matmul_tn(t->device, linear->b->gradient, dy, z, t->adapter_scale, 1);
    transformer_note(t, "adapter b", b);
    ops(t)->matmul_nn(t->device, dz, dy, linear->b->value, t->adapter_scale, 0);
    transformer_note(t, "adapter a", a);
    ops(t)->matmul_tn(t->device, linear->a->gradient, dz, seen, 1, 1);
    transformer_note(t, "adapter a", a);
    if (seen.at == x.at) {
        ops(t)->matmul_nn(t->device, dx, dz, linear->a->value, 1, 1);
        return;
    }
    struct tensor back = tensor_of(t->scratch.ddropped.at, x.dtype, x.rows, x.columns);
    ops(t)->matmul_nn(t->device, back, dz, linear->a->value, 1, 0);
    ops(t)->dropout(t->device, back, back, t->setup.recipe->dropout, dropout_key(batch, linear));
    ops(t)->add(t->device, dx, dx, back);
}

// dx = dy W + before · dx, and the gradients of what is trained.
static void linear_backward(struct transformer *t, const struct micro_batch *batch,
                            struct linear *linear, struct tensor dx, double before,
                            struct tensor dy, struct tensor x)
{
    double flops = product_flops(x.rows, linear->in, linear->out);
    struct tensor weight = transformer_weight(t, linear->weight);
    transformer_note(t, linear->name, flops);
    ops(t)->matmul_nn(t->device, dx, dy, weight, 1, before);
    if (linear->weight->gradient.at) {
        transformer_note(t, linear->name, flops);
        ops(t)->matmul_tn(t->device, linear->weight->gradient, dy, x, 1, 1);
    }
    if (linear->bias && linear->bias->gradient.at)
        ops(t)->bias_backward(t->device, linear->bias->gradient, dy);
    if (linear->a)
        adapter_backward(t, batch, linear, dx, dy, x);
}

// --- attention ---------------------------------------------------------------

static struct attention attention_shape(const struct transformer *t,
                                        const struct micro_batch *batch, int64_t window)
{
    const struct model *m = &t->decoder->model;
    return (struct attention){ batch->spans, batch->span_count, t->setup.longest,
                               m->heads,     m->kv_heads,       m->head_size,
                               window };
}

// Counted as the step list does: half of each document's square, or of its band.
static double attention_flops(const struct transformer *t, const struct micro_batch *batch,
                              int64_t window)
{
    double squares = 0, width = (double)model_query_width(&t->decoder->model);
    for (int64_t i = 0; i < batch->span_count; i++) {
        double size = batch->spans[i].size, w = (double)window;
        squares += window && size > w ? size * (2 * w - w * w / size) : size * size;
    }
    return squares * 2 * width;
}

// A norm over each head: (T, heads · D) as (T · heads, D).
static struct tensor by_head(const struct transformer *t, struct tensor x)
{
    int64_t size = t->decoder->model.head_size;
    return tensor_shape(x, x.rows * x.columns / size, size);
}

// q and k from what was projected: normalised where the model does so, and turned.
static void turn(struct transformer *t, const struct micro_batch *batch,
                 struct transformer_layer *l)
{
    const struct model *m = &t->decoder->model;
    int64_t n = batch->tokens;
    struct tensor q = first_rows(l->q_turned, n), k = first_rows(l->k_turned, n);
    if (l->q_norm) {
        double epsilon = t->decoder->norm_epsilon;
        transformer_note(t, "q_norm", 0);
        ops(t)->norm_forward(t->device, none(), by_head(t, q), l->q_rms,
                             by_head(t, first_rows(l->q, n)), none(), l->q_norm->value, epsilon);
        transformer_note(t, "k_norm", 0);
        ops(t)->norm_forward(t->device, none(), by_head(t, k), l->k_rms,
                             by_head(t, first_rows(l->k, n)), none(), l->k_norm->value, epsilon);
    }
    transformer_note(t, "rotary", 0);
    ops(t)->rotary(t->device, q, batch->positions, t->decoder->frequencies, m->head_size, 1);
    ops(t)->rotary(t->device, k, batch->positions, t->decoder->frequencies, m->head_size, 1);
}

static void attend(struct transformer *t, const struct micro_batch *batch,
                   struct transformer_layer *l)
{
    int64_t n = batch->tokens;
    struct attention shape = attention_shape(t, batch, l->window);
    struct tensor normed = first_rows(l->normed, n);
    linear_forward(t, batch, &l->linears[LINEAR_Q], first_rows(l->q, n), normed);
    linear_forward(t, batch, &l->linears[LINEAR_K], first_rows(l->k, n), normed);
    linear_forward(t, batch, &l->linears[LINEAR_V], first_rows(l->v, n), normed);
    turn(t, batch, l);
    transformer_note(t, "attention", attention_flops(t, batch, l->window));
    ops(t)->attention_forward(t->device, first_rows(l->attended, n), first_rows(l->lse, n),
                              first_rows(l->q_turned, n), first_rows(l->k_turned, n),
                              first_rows(l->v, n), &shape, t->scratch.attention);
    linear_forward(t, batch, &l->linears[LINEAR_O], first_rows(t->scratch.branch, n),
                   first_rows(l->attended, n));
}

// --- forward -----------------------------------------------------------------

static void norm(struct transformer *t, const char *name, struct parameter *weight,
                 struct tensor sum, struct tensor out, struct tensor rms, struct tensor a,
                 struct tensor b)
{
    if (b.at)
        transformer_note(t, "residual", 0);
    transformer_note(t, name, 0);
    ops(t)->norm_forward(t->device, sum, out, rms, a, b, weight->value, t->decoder->norm_epsilon);
}

static void gate(struct transformer *t, const struct micro_batch *batch,
                 struct transformer_layer *l)
{
    struct tensor x = first_rows(l->middle_normed, batch->tokens);
    linear_forward(t, batch, &l->linears[LINEAR_GATE], first_rows(l->gate, batch->tokens), x);
    linear_forward(t, batch, &l->linears[LINEAR_UP], first_rows(l->up, batch->tokens), x);
}

static void activate(struct transformer *t, const struct micro_batch *batch,
                     struct transformer_layer *l)
{
    int64_t n = batch->tokens;
    transformer_note(t, "activation", 0);
    ops(t)->swiglu_forward(t->device, first_rows(l->activated, n), first_rows(l->gate, n),
                           first_rows(l->up, n));
}

// From the layer's normalised input to its activation: all but the down projection.
static void run_block(struct transformer *t, const struct micro_batch *batch,
                      struct transformer_layer *l)
{
    int64_t n = batch->tokens;
    attend(t, batch, l);
    norm(t, "mlp_norm", l->mlp_norm, first_rows(l->middle, n), first_rows(l->middle_normed, n),
         first_rows(l->middle_rms, n), first_rows(l->input, n), first_rows(t->scratch.branch, n));
    gate(t, batch, l);
    activate(t, batch, l);
}

void transformer_run_forward(struct transformer *t, const struct micro_batch *batch)
{
    int64_t n = batch->tokens, layers = t->decoder->model.layers;
    struct tensor branch = first_rows(t->scratch.branch, n);
    struct tensor residual = first_rows(t->layers[0].input, n), added = none();
    t->phase = STEP_FORWARD;
    transformer_note(t, "embedding", 0);
    ops(t)->embedding_forward(t->device, residual, t->embedding->value, batch->ids);
    for (int64_t i = 0; i < layers; i++) {
        struct transformer_layer *l = &t->layers[i];
        norm(t, "attention_norm", l->attention_norm, first_rows(l->input, n),
             first_rows(l->normed, n), first_rows(l->input_rms, n), residual, added);
        run_block(t, batch, l);
        linear_forward(t, batch, &l->linears[LINEAR_DOWN], branch, first_rows(l->activated, n));
        residual = first_rows(l->middle, n);
        added = branch;
    }
    norm(t, "final norm", t->final_norm, first_rows(t->last, n), first_rows(t->hidden, n),
         first_rows(t->last_rms, n), residual, added);
}

// --- backward ----------------------------------------------------------------

// Makes again what the layer did not keep.
static void recompute(struct transformer *t, const struct micro_batch *batch,
                      struct transformer_layer *l)
{
    int64_t n = batch->tokens;
    if (l->level == RECOMPUTE_NONE)
        return;
    t->phase = STEP_RECOMPUTE;
    norm(t, "attention_norm", l->attention_norm, none(), first_rows(l->normed, n),
         first_rows(l->input_rms, n), first_rows(l->input, n), none());
    if (l->level == RECOMPUTE_BLOCK) {
        run_block(t, batch, l);
    } else {
        if (l->q_norm)
            turn(t, batch, l);
        norm(t, "mlp_norm", l->mlp_norm, none(), first_rows(l->middle_normed, n),
             first_rows(l->middle_rms, n), first_rows(l->middle, n), none());
        if (l->level == RECOMPUTE_GATE)
            gate(t, batch, l);
        activate(t, batch, l);
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
    ops(t)->norm_backward(t->device, dx, weight->gradient, residual, dout, x, rms, weight->value);
}

static void feed_forward_backward(struct transformer *t, const struct micro_batch *batch,
                                  struct transformer_layer *l)
{
    int64_t n = batch->tokens;
    struct tensor dx = first_rows(t->scratch.dx, n), back = first_rows(t->scratch.branch, n);
    struct tensor gate_ = first_rows(l->gate, n), up = first_rows(l->up, n);
    struct tensor normed = first_rows(l->middle_normed, n);
    struct tensor dactivated = first_rows(t->scratch.dactivated, n);
    linear_backward(t, batch, &l->linears[LINEAR_DOWN], dactivated, 0, dx,
                    first_rows(l->activated, n));
    transformer_note(t, "activation", 0);
    ops(t)->swiglu_backward(t->device, gate_, up, dactivated, gate_, up);
    linear_backward(t, batch, &l->linears[LINEAR_GATE], back, 0, gate_, normed);
    linear_backward(t, batch, &l->linears[LINEAR_UP], back, 1, up, normed);
    norm_backward(t, "mlp_norm", l->mlp_norm, dx, dx, back, first_rows(l->middle, n),
                  first_rows(l->middle_rms, n));
}

static void turn_back(struct transformer *t, const struct micro_batch *batch,
                      struct transformer_layer *l, struct tensor dq, struct tensor dk)
{
    int64_t n = batch->tokens, size = t->decoder->model.head_size;
    transformer_note(t, "rotary", 0);
    ops(t)->rotary(t->device, dq, batch->positions, t->decoder->frequencies, size, -1);
    ops(t)->rotary(t->device, dk, batch->positions, t->decoder->frequencies, size, -1);
    if (!l->q_norm)
        return;
    norm_backward(t, "q_norm", l->q_norm, by_head(t, dq), none(), by_head(t, dq),
                  by_head(t, first_rows(l->q, n)), l->q_rms);
    norm_backward(t, "k_norm", l->k_norm, by_head(t, dk), none(), by_head(t, dk),
                  by_head(t, first_rows(l->k, n)), l->k_rms);
}

static void attention_backward(struct transformer *t, const struct micro_batch *batch,
                               struct transformer_layer *l)
{
    int64_t n = batch->tokens;
    struct transformer_scratch *s = &t->scratch;
    struct tensor dx = first_rows(s->dx, n), back = first_rows(s->branch, n);
    struct tensor dq = first_rows(s->dq, n), dk = first_rows(s->dk, n), dv = first_rows(s->dv, n);
    struct tensor attended = first_rows(l->attended, n), dattended = first_rows(s->dattended, n);
    struct tensor normed = first_rows(l->normed, n);
    struct attention shape = attention_shape(t, batch, l->window);
    linear_backward(t, batch, &l->linears[LINEAR_O], dattended, 0, dx, attended);
    transformer_note(t, "attention", 2.5 * attention_flops(t, batch, l->window));
    ops(t)->attention_backward(t->device, dq, dk, dv, dattended, attended, first_rows(l->lse, n),
                               first_rows(l->q_turned, n), first_rows(l->k_turned, n),
                               first_rows(l->v, n), &shape, s->attention);
    turn_back(t, batch, l, dq, dk);
    linear_backward(t, batch, &l->linears[LINEAR_Q], back, 0, dq, normed);
    linear_backward(t, batch, &l->linears[LINEAR_K], back, 1, dk, normed);
    linear_backward(t, batch, &l->linears[LINEAR_V], back, 1, dv, normed);
    norm_backward(t, "attention_norm", l->attention_norm, dx, dx, back, first_rows(l->input, n),
                  first_rows(l->input_rms, n));
}

void transformer_run_backward(struct transformer *t, const struct micro_batch *batch)
{
    int64_t n = batch->tokens;
    struct tensor dx = first_rows(t->scratch.dx, n), dhidden = first_rows(t->scratch.branch, n);
    t->phase = STEP_BACKWARD;
    ops(t)->zero(t->device, dhidden);
    ops(t)->scatter(t->device, dhidden, first_rows(t->scratch.dpicked, batch->labelled),
                    batch->rows);
    norm_backward(t, "final norm", t->final_norm, dx, none(), dhidden, first_rows(t->last, n),
                  first_rows(t->last_rms, n));
    for (int64_t i = t->decoder->model.layers; i-- > 0;) {
        recompute(t, batch, &t->layers[i]);
        feed_forward_backward(t, batch, &t->layers[i]);
        attention_backward(t, batch, &t->layers[i]);
    }
    transformer_note(t, "embedding", 0);
    if (t->embedding->gradient.at)
        ops(t)->embedding_backward(t->device, t->embedding->gradient, dx, batch->ids);
}
