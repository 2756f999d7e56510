// SPDX-License-Identifier: Apache-2.0
// The mixture of experts of a layer: a router sends each token to k feed-forward networks.
//
//     tokens       t0  t1  t2  t3          middle_normed, (T, C)
//     choices      0,2 2,1 0,1 2,0         the k most probable experts of each
//     rows         t0 t2 t3 │ t1 t2 │ t0 t1 t3      copies, sorted by expert, (T · k, C)
//                  expert 0 │ exp 1 │ expert 2      each runs its own projections on its rows
//     branch       t0  t1  t2  t3          Σ of a token's k rows
//
// No token is dropped. The weight that the router gives to a row multiplies the activation, before
// the down projection: the sum over a token's rows is then plain, and the gradient of the weight
// needs no output of an expert, which so is not kept.
//
// A projection of all experts is one operation of the backend. It knows from the routing which rows
// are whose, so that the host never waits for a router. Experts are placed alike, one after
// another: where a matrix of the first two lies says where those of all lie. The stacked blocks of
// experts in NF4 are assembled in the workspace, as many at a time as fit.

#include "train/transformer_internal.h"

#include <assert.h>

int64_t transformer_expert_rows(const struct transformer *t)
{
    return t->setup.tokens * t->decoder->model.experts_active;
}

static int64_t rows_of(const struct transformer *t, const struct micro_batch *batch)
{
    return batch->tokens * t->decoder->model.experts_active;
}

static struct tensor width_of(const struct transformer *t, struct tensor x)
{
    return tensor_columns(x, 0, t->decoder->model.width);
}

// --- matrices of all experts -------------------------------------------------

static struct projection *projection_of(const struct mixture *m, enum expert_linear which,
                                        int64_t index)
{
    return which == EXPERT_DOWN ? &m->experts[index].down : &m->experts[index].gate;
}

static int64_t block_elements(const struct projection *p)
{
    return (p->out + p->rank) * (p->in + p->rank);
}

static bool is_unpacked(const struct transformer *t)
{
    return t->setup.recipe->method == RECIPE_QLORA;
}

int64_t transformer_experts_at_once(const struct transformer *t, const struct mixture *m)
{
    int64_t gate = block_elements(projection_of(m, EXPERT_GATE, 0));
    int64_t down = block_elements(projection_of(m, EXPERT_DOWN, 0));
    int64_t bytes = (gate > down ? gate : down) * dtype_bytes(t->setup.compute);
    int64_t fit = t->chunk_bytes / bytes, experts = t->decoder->model.experts;
    return !is_unpacked(t) || fit > experts ? experts : fit > 1 ? fit : 1;
}

// Neighbouring experts whose products run together.
struct neighbours {
    int64_t first, count;
};

static struct neighbours range_from(const struct transformer *t, const struct mixture *m,
                                    int64_t first)
{
    int64_t left = t->decoder->model.experts - first, most = transformer_experts_at_once(t, m);
    return (struct neighbours){ first, left < most ? left : most };
}

// From where a matrix of the first and of the second expert lie; a single expert is its own second.
static struct expert_matrices matrices(struct neighbours range, struct tensor first,
                                       struct tensor next)
{
    int64_t size = dtype_bytes(first.dtype), bytes = (char *)next.at - (char *)first.at;
    assert(bytes % size == 0);
    struct expert_matrices out = { first, bytes / size, range.first, range.count };
    out.each.at = (char *)first.at + range.first * bytes;
    return out;
}

static struct expert_matrices part_of(struct expert_matrices all, int64_t row, int64_t column,
                                      int64_t rows, int64_t columns)
{
    all.each = tensor_columns(tensor_rows(all.each, row, rows), column, columns);
    return all;
}

static int64_t second(const struct transformer *t)
{
    return t->decoder->model.experts > 1 ? 1 : 0;
}

static struct expert_matrices unpack(struct transformer *t, const struct mixture *m,
                                     enum expert_linear which, struct neighbours range)
{
    struct projection *p = projection_of(m, which, range.first);
    const struct projection *next = projection_of(m, which, range.first + (range.count > 1));
    struct expert_matrices block = { tensor_of(t->scratch.unpacked.at, t->setup.compute,
                                               p->out + p->rank, p->in + p->rank),
                                     block_elements(p), range.first, range.count };
    transformer_note(t, "dequantize", 0);
    for (int i = 0; i < p->count; i++) {
        const struct quantized *codes = &p->linears[i]->weight->quantized;
        ops(t)->experts_dequantize(
            t->device, part_of(block, p->linears[i]->first, 0, p->linears[i]->out, p->in), codes,
            next->linears[i]->weight->quantized.codes - codes->codes);
    }
    return block;
}

// Copies [ B; A 0] of the masters beside W, with zeros where ranks are padded.
static void stack_adapters(struct transformer *t, const struct mixture *m, enum expert_linear which,
                           struct neighbours range, struct expert_matrices block)
{
    const struct projection *p = projection_of(m, which, 0);
    const struct projection *next = projection_of(m, which, second(t));
    struct expert_matrices none = { 0 };
    int64_t rows = p->a_master.rows;
    ops(t)->experts_cast(t->device, part_of(block, 0, p->in, p->out, p->rank), none);
    ops(t)->experts_cast(t->device, part_of(block, p->out, 0, rows, p->in),
                         matrices(range, p->a_master, next->a_master));
    if (rows < p->rank)
        ops(t)->experts_cast(t->device, part_of(block, p->out + rows, 0, p->rank - rows, p->in),
                             none);
    for (int i = 0; i < p->count; i++) {
        const struct linear *l = p->linears[i];
        if (l->b)
            ops(t)->experts_cast(
                t->device,
                part_of(block, l->first, p->in + l->first_z, l->out, t->setup.recipe->rank),
                matrices(range, l->b->master, next->linears[i]->b->master));
    }
}

// The stacked blocks [W B; A 0] of a range of experts.
static struct expert_matrices blocks_of(struct transformer *t, const struct mixture *m,
                                        enum expert_linear which, struct neighbours range)
{
    const struct projection *p = projection_of(m, which, 0);
    bool assembled = is_unpacked(t) || transformer_shares_base(t); // without the adapters
    struct expert_matrices out =
        is_unpacked(t) ? unpack(t, m, which, range)
                       : matrices(range, p->stacked, projection_of(m, which, second(t))->stacked);
    if (assembled && p->rank)
        stack_adapters(t, m, which, range, out);
    return out;
}

void transformer_experts_refresh(struct transformer *t, const struct mixture *m)
{
    struct neighbours all = { 0, t->decoder->model.experts };
    for (int i = 0; i < EXPERT_LINEARS; i++) {
        const struct linear *l = &m->experts[0].linears[i],
                            *next = &m->experts[second(t)].linears[i];
        const struct parameter *ours[] = { l->weight, l->bias, l->a, l->b };
        const struct parameter *theirs[] = { next->weight, next->bias, next->a, next->b };
        for (int j = 0; j < 4; j++)
            if (ours[j] && parameter_is_copied(ours[j]))
                ops(t)->experts_cast(t->device, matrices(all, ours[j]->value, theirs[j]->value),
                                     matrices(all, ours[j]->master, theirs[j]->master));
    }
}

// --- projections of all experts ----------------------------------------------

// z = s · x Aᵀ, into the columns after x.
static void low_rank(struct transformer *t, const struct micro_batch *batch,
                     const struct mixture *m, const struct projection *p,
                     struct expert_matrices block, struct tensor x_and_z)
{
    struct tensor x = tensor_columns(x_and_z, 0, p->in);
    struct tensor z = tensor_columns(x_and_z, p->in, p->rank);
    int64_t rank = t->setup.recipe->rank;
    if (!transformer_drops(t, batch, p)) {
        ops(t)->experts_nt(t->device, z, x, part_of(block, p->out, 0, p->rank, p->in), &m->routing,
                           t->adapter_scale, 0);
        return;
    }
    if (!block.first)
        ops(t)->zero(t->device, z);
    for (int i = 0; i < p->count; i++) {
        const struct linear *l = p->linears[i];
        if (l->a)
            ops(t)->experts_nt(t->device, tensor_columns(z, l->first_z, rank),
                               transformer_dropped_input(t, batch, l, x),
                               part_of(block, p->out + l->first_z, 0, rank, p->in), &m->routing,
                               t->adapter_scale, 0);
    }
}

// z alone, where x was recomputed and y was not: z lies beside its input and is computed with it,
// which costs less than to keep it.
static void low_rank_again(struct transformer *t, const struct micro_batch *batch,
                           const struct mixture *m, enum expert_linear which, struct tensor x)
{
    const struct projection *p = projection_of(m, which, 0);
    if (!p->rank)
        return;
    transformer_note_adapters(t, "adapter a", p, x.rows);
    for (struct neighbours r = range_from(t, m, 0); r.count;
         r = range_from(t, m, r.first + r.count))
        low_rank(t, batch, m, p, blocks_of(t, m, which, r), x);
}

// y = x Wᵀ + z Bᵀ. x is (N, in + rank); its last columns become z.
static void project(struct transformer *t, const struct micro_batch *batch, const struct mixture *m,
                    enum expert_linear which, struct tensor y, struct tensor x)
{
    const struct projection *p = projection_of(m, which, 0);
    int64_t columns = p->in + transformer_rank(t, p);
    transformer_note_linears(t, p, x.rows);
    transformer_note_adapters(t, "adapter a", p, x.rows);
    transformer_note_adapters(t, "adapter b", p, x.rows);
    for (struct neighbours r = range_from(t, m, 0); r.count;
         r = range_from(t, m, r.first + r.count)) {
        struct expert_matrices block = blocks_of(t, m, which, r);
        if (columns > p->in)
            low_rank(t, batch, m, p, block, x);
        ops(t)->experts_nt(t->device, y, tensor_columns(x, 0, columns),
                           part_of(block, 0, 0, p->out, columns), &m->routing, 1, 0);
    }
}

// dz = s · dy B, dB += dyᵀ z and, without dropout, dA += dzᵀ x.
static void adapter_gradients(struct transformer *t, const struct micro_batch *batch,
                              const struct mixture *m, enum expert_linear which,
                              struct expert_matrices block, struct tensor dy, struct tensor x)
{
    const struct projection *p = projection_of(m, which, 0);
    const struct projection *next = projection_of(m, which, second(t));
    struct neighbours range = { block.first, block.count };
    struct tensor dz = tensor_columns(dy, p->out, p->rank), z = tensor_columns(x, p->in, p->rank);
    ops(t)->experts_nn(t->device, dz, tensor_columns(dy, 0, p->out),
                       part_of(block, 0, p->in, p->out, p->rank), &m->routing, t->adapter_scale, 0);
    for (int i = 0; i < p->count; i++) {
        const struct linear *l = p->linears[i];
        if (l->b)
            ops(t)->experts_tn(
                t->device, matrices(range, l->b->gradient, next->linears[i]->b->gradient),
                tensor_columns(dy, l->first, l->out),
                tensor_columns(z, l->first_z, t->setup.recipe->rank), &m->routing, 1, 1);
    }
    if (!transformer_drops(t, batch, p))
        ops(t)->experts_tn(t->device, matrices(range, p->a_gradient, next->a_gradient),
                           tensor_columns(dz, 0, p->a_gradient.rows), tensor_columns(x, 0, p->in),
                           &m->routing, 1, 1);
}

// Backward through the dropout of each adapter: dA += dzᵀ x', dx += dropout(dz A). Rows of experts
// outside of the range add zeros.
static void dropped_backward(struct transformer *t, const struct micro_batch *batch,
                             const struct mixture *m, enum expert_linear which,
                             struct expert_matrices block, struct tensor dx, struct tensor dz,
                             struct tensor x)
{
    const struct projection *p = projection_of(m, which, 0);
    const struct projection *next = projection_of(m, which, second(t));
    struct neighbours range = { block.first, block.count };
    int64_t rank = t->setup.recipe->rank;
    for (int i = 0; i < p->count; i++) {
        const struct linear *l = p->linears[i];
        if (!l->a)
            continue;
        struct tensor own = tensor_columns(dz, l->first_z, rank);
        struct tensor back = tensor_of(t->scratch.ddropped.at, x.dtype, x.rows, x.columns);
        ops(t)->experts_tn(t->device,
                           matrices(range, l->a->gradient, next->linears[i]->a->gradient), own,
                           transformer_dropped_input(t, batch, l, x), &m->routing, 1, 1);
        ops(t)->zero(t->device, back);
        ops(t)->experts_nn(t->device, back, own,
                           part_of(block, p->out + l->first_z, 0, rank, p->in), &m->routing, 1, 0);
        transformer_add_dropped(t, batch, l, dx, back);
    }
}

// dx = dy W + dz A, with dz in the last columns of dy; and the gradients of what is trained.
static void project_backward(struct transformer *t, const struct micro_batch *batch,
                             const struct mixture *m, enum expert_linear which, struct tensor dx,
                             struct tensor dy, struct tensor x)
{
    const struct projection *p = projection_of(m, which, 0);
    bool drops = transformer_drops(t, batch, p);
    int64_t rank = drops ? 0 : p->rank;
    transformer_note_linears(t, p, x.rows);
    for (int i = 0; i < 2; i++) { // each factor has a product for its input and for itself
        transformer_note_adapters(t, "adapter a", p, x.rows);
        transformer_note_adapters(t, "adapter b", p, x.rows);
    }
    for (struct neighbours r = range_from(t, m, 0); r.count;
         r = range_from(t, m, r.first + r.count)) {
        struct expert_matrices block = blocks_of(t, m, which, r);
        if (p->rank)
            adapter_gradients(t, batch, m, which, block, dy, x);
        ops(t)->experts_nn(t->device, dx, tensor_columns(dy, 0, p->out + rank),
                           part_of(block, 0, 0, p->out + rank, p->in), &m->routing, 1, 0);
        if (drops)
            dropped_backward(t, batch, m, which, block, dx, tensor_columns(dy, p->out, p->rank),
                             tensor_columns(x, 0, p->in));
    }
    if (!p->gradient.at)
        return;
    transformer_note_linears(t, p, x.rows);
    ops(t)->experts_tn(
        t->device,
        matrices(range_from(t, m, 0), p->gradient, projection_of(m, which, second(t))->gradient),
        tensor_columns(dy, 0, p->out), x, &m->routing, 1, t->is_fresh ? 0 : 1);
}

// --- biases of all experts ---------------------------------------------------

// Of a linear of all experts: the biases, or their gradients; none where it has none.
static struct expert_matrices biases_of(const struct transformer *t, const struct mixture *m,
                                        enum expert_linear which, bool gradients)
{
    struct neighbours all = { 0, t->decoder->model.experts };
    const struct parameter *first = m->experts[0].linears[which].bias;
    const struct parameter *next = m->experts[second(t)].linears[which].bias;
    if (!first || (gradients && !first->gradient.at))
        return (struct expert_matrices){ 0 };
    return gradients ? matrices(all, first->gradient, next->gradient)
                     : matrices(all, first->value, next->value);
}

// The weight of a row multiplies what its expert gives, and so the bias of down.
static void add_biases(struct transformer *t, const struct mixture *m, enum expert_linear which,
                       struct tensor y, struct tensor weights)
{
    const struct linear *l = &m->experts[0].linears[which];
    if (l->bias)
        ops(t)->experts_bias_forward(t->device, tensor_columns(y, l->first, l->out),
                                     biases_of(t, m, which, false), weights, &m->routing);
}

static void biases_backward(struct transformer *t, const struct mixture *m,
                            enum expert_linear which, struct tensor dweights, struct tensor dy,
                            struct tensor weights)
{
    const struct linear *l = &m->experts[0].linears[which];
    if (l->bias)
        ops(t)->experts_bias_backward(t->device, biases_of(t, m, which, true), dweights,
                                      tensor_columns(dy, l->first, l->out),
                                      biases_of(t, m, which, false), weights, &m->routing);
}

static void note_router(struct transformer *t, const struct micro_batch *batch)
{
    const struct model *m = &t->decoder->model;
    transformer_note(t, "router",
                     2.0 * (double)batch->tokens * (double)m->width * (double)m->experts);
}

// --- forward -----------------------------------------------------------------

void transformer_route(struct transformer *t, const struct micro_batch *batch,
                       struct transformer_layer *l)
{
    struct mixture *m = &l->mixture;
    struct tensor logits = first_rows(t->scratch.router_logits, batch->tokens);
    note_router(t, batch);
    ops(t)->matmul_nt(t->device, logits, width_of(t, first_rows(l->middle_normed, batch->tokens)),
                      m->router->value, 1, 0);
    if (m->bias)
        ops(t)->bias_forward(t->device, logits, m->bias->value);
    transformer_note(t, "top-k", 0);
    ops(t)->route_forward(t->device, first_rows(m->probabilities, batch->tokens),
                          first_rows(m->weights, rows_of(t, batch)), &m->routing, t->scratch.load,
                          logits);
}

static void dispatch(struct transformer *t, const struct micro_batch *batch,
                     struct transformer_layer *l)
{
    transformer_note(t, "dispatch", 0);
    ops(t)->gather(t->device, width_of(t, first_rows(l->mixture.rows, rows_of(t, batch))),
                   width_of(t, first_rows(l->middle_normed, batch->tokens)),
                   l->mixture.routing.rows);
}

void transformer_experts_gate(struct transformer *t, const struct micro_batch *batch,
                              struct transformer_layer *l)
{
    const struct mixture *m = &l->mixture;
    int64_t n = rows_of(t, batch), F = t->decoder->model.expert_width;
    struct tensor gate_up = tensor_columns(first_rows(m->gate_up, n), 0, 2 * F);
    dispatch(t, batch, l);
    project(t, batch, m, EXPERT_GATE, gate_up, first_rows(m->rows, n));
    add_biases(t, m, EXPERT_GATE, gate_up, (struct tensor){ 0 });
    add_biases(t, m, EXPERT_UP, gate_up, (struct tensor){ 0 });
}

void transformer_experts_activate(struct transformer *t, const struct micro_batch *batch,
                                  struct transformer_layer *l)
{
    struct mixture *m = &l->mixture;
    int64_t n = rows_of(t, batch), F = t->decoder->model.expert_width;
    struct tensor gate_up = first_rows(m->gate_up, n);
    transformer_note(t, "expert activation", 0);
    ops(t)->swiglu_forward(t->device, tensor_columns(first_rows(m->activated, n), 0, F),
                           tensor_columns(gate_up, 0, F), tensor_columns(gate_up, F, F),
                           first_rows(m->weights, n), t->decoder->swiglu);
    if (t->phase == STEP_RECOMPUTE)
        low_rank_again(t, batch, m, EXPERT_DOWN, first_rows(m->activated, n));
}

void transformer_experts_down(struct transformer *t, const struct micro_batch *batch,
                              struct transformer_layer *l)
{
    const struct mixture *m = &l->mixture;
    int64_t n = rows_of(t, batch);
    struct tensor out = width_of(t, first_rows(t->scratch.expert_rows, n));
    project(t, batch, m, EXPERT_DOWN, out, first_rows(m->activated, n));
    add_biases(t, m, EXPERT_DOWN, out, first_rows(m->weights, n));
    transformer_note(t, "combine", 0);
    ops(t)->combine(t->device, first_rows(t->scratch.branch, batch->tokens), out, &m->routing);
}

void transformer_balance(struct transformer *t, const struct micro_batch *batch, double scale)
{
    const struct model *m = &t->decoder->model;
    double decisions = (double)batch->tokens * (double)model_layers(m, MODEL_SPARSE);
    double weight = t->decoder->balance * (double)batch->labelled;
    ops(t)->balance(t->device, t->loss, t->scratch.dprobabilities, t->scratch.load, decisions,
                    weight, weight * scale);
}

// --- backward ----------------------------------------------------------------

void transformer_experts_rows(struct transformer *t, const struct micro_batch *batch,
                              struct transformer_layer *l)
{
    dispatch(t, batch, l);
    low_rank_again(t, batch, &l->mixture, EXPERT_GATE,
                   first_rows(l->mixture.rows, rows_of(t, batch)));
}

static void router_backward(struct transformer *t, const struct micro_batch *batch,
                            struct transformer_layer *l)
{
    struct mixture *m = &l->mixture;
    int64_t n = batch->tokens, rows = rows_of(t, batch);
    struct tensor dlogits = first_rows(t->scratch.router_logits, n);
    struct tensor input = width_of(t, first_rows(l->middle_normed, n));
    transformer_note(t, "top-k", 0);
    ops(t)->route_backward(t->device, dlogits, first_rows(t->scratch.dexpert_weights, rows),
                           first_rows(m->probabilities, n), first_rows(m->weights, rows),
                           &m->routing, t->scratch.dprobabilities);
    note_router(t, batch);
    ops(t)->matmul_nn(t->device, first_rows(t->scratch.branch, n), dlogits, m->router->value, 1, 1);
    if (!m->router->gradient.at)
        return;
    note_router(t, batch);
    ops(t)->matmul_tn(t->device, m->router->gradient, dlogits, input, 1, 1);
    if (m->bias)
        ops(t)->bias_backward(t->device, m->bias->gradient, dlogits);
}

void transformer_experts_backward(struct transformer *t, const struct micro_batch *batch,
                                  struct transformer_layer *l)
{
    struct mixture *m = &l->mixture;
    struct transformer_scratch *s = &t->scratch;
    int64_t n = rows_of(t, batch), F = t->decoder->model.expert_width;
    struct tensor rows = first_rows(s->expert_rows, n), gate_up = first_rows(m->gate_up, n);
    struct tensor gate = tensor_columns(gate_up, 0, F), up = tensor_columns(gate_up, F, F);
    struct tensor dactivated = first_rows(s->dexpert_activated, n), none = { 0 };
    struct tensor weights = first_rows(m->weights, n), dweights = first_rows(s->dexpert_weights, n);
    transformer_note(t, "combine", 0);
    ops(t)->gather(t->device, width_of(t, rows), width_of(t, first_rows(s->dx, batch->tokens)),
                   m->routing.rows);
    project_backward(t, batch, m, EXPERT_DOWN, dactivated, rows, first_rows(m->activated, n));
    transformer_note(t, "expert activation", 0);
    ops(t)->swiglu_backward(t->device, gate, up, dweights, dactivated, gate, up, weights,
                            t->decoder->swiglu);
    biases_backward(t, m, EXPERT_DOWN, dweights, rows, weights);
    biases_backward(t, m, EXPERT_GATE, none, gate_up, none);
    biases_backward(t, m, EXPERT_UP, none, gate_up, none);
    project_backward(t, batch, m, EXPERT_GATE, width_of(t, rows), gate_up, first_rows(m->rows, n));
    transformer_note(t, "dispatch", 0);
    ops(t)->combine(t->device, first_rows(s->branch, batch->tokens), width_of(t, rows),
                    &m->routing);
    router_backward(t, batch, l);
}
