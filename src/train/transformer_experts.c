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
// needs no output of an expert, which so is not kept. An expert with no rows runs nothing.

#include "train/transformer_internal.h"

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

static void note_router(struct transformer *t, const struct micro_batch *batch)
{
    const struct model *m = &t->decoder->model;
    transformer_note(t, "router",
                     2.0 * (double)batch->tokens * (double)m->width * (double)m->experts);
}

// --- forward -----------------------------------------------------------------

// The rows of each expert are needed on the host, which starts its products: this waits.
void transformer_route(struct transformer *t, const struct micro_batch *batch,
                       struct transformer_layer *l)
{
    struct mixture *m = &l->mixture;
    struct tensor logits = first_rows(t->scratch.router_logits, batch->tokens);
    note_router(t, batch);
    ops(t)->matmul_nt(t->device, logits, width_of(t, first_rows(l->middle_normed, batch->tokens)),
                      m->router->value, 1, 0);
    transformer_note(t, "top-k", 0);
    ops(t)->route_forward(t->device, first_rows(m->probabilities, batch->tokens),
                          first_rows(m->weights, rows_of(t, batch)), &m->routing, t->scratch.load,
                          logits);
    ops(t)->download(t->device, m->counts, m->routing.counts,
                     t->decoder->model.experts * (int64_t)sizeof *m->counts);
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
    int64_t F = t->decoder->model.expert_width, first = 0;
    dispatch(t, batch, l);
    for (int64_t e = 0; e < t->decoder->model.experts; first += m->counts[e++])
        if (m->counts[e])
            transformer_project(
                t, batch, &m->experts[e].gate,
                tensor_columns(tensor_rows(m->gate_up, first, m->counts[e]), 0, 2 * F),
                tensor_rows(m->rows, first, m->counts[e]));
}

// z of the rows of all experts' gate or down projections, where the products do not run again: z
// lies beside its input and is computed with it, which costs less than to keep it.
static void low_ranks(struct transformer *t, const struct micro_batch *batch,
                      const struct mixture *m, enum expert_linear which, struct tensor x)
{
    for (int64_t e = 0, first = 0; e < t->decoder->model.experts; first += m->counts[e++]) {
        struct expert *expert = &m->experts[e];
        if (m->counts[e])
            transformer_low_rank(t, batch, which == EXPERT_DOWN ? &expert->down : &expert->gate,
                                 tensor_rows(x, first, m->counts[e]));
    }
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
                           first_rows(m->weights, n));
    if (t->phase == STEP_RECOMPUTE)
        low_ranks(t, batch, m, EXPERT_DOWN, m->activated);
}

void transformer_experts_down(struct transformer *t, const struct micro_batch *batch,
                              struct transformer_layer *l)
{
    const struct mixture *m = &l->mixture;
    int64_t n = rows_of(t, batch), first = 0;
    struct tensor out = width_of(t, first_rows(t->scratch.expert_rows, n));
    for (int64_t e = 0; e < t->decoder->model.experts; first += m->counts[e++])
        if (m->counts[e])
            transformer_project(t, batch, &m->experts[e].down,
                                tensor_rows(out, first, m->counts[e]),
                                tensor_rows(m->activated, first, m->counts[e]));
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

void transformer_experts_recompute(struct transformer *t, const struct micro_batch *batch,
                                   struct transformer_layer *l)
{
    if (l->level == RECOMPUTE_GATE) {
        transformer_experts_gate(t, batch, l);
    } else {
        dispatch(t, batch, l);
        low_ranks(t, batch, &l->mixture, EXPERT_GATE, l->mixture.rows);
    }
    transformer_experts_activate(t, batch, l);
}

// Of an expert without rows nothing is added; the first micro-batch overwrites.
static void clear_unused(struct transformer *t, const struct projection *p)
{
    if (t->is_fresh && p->gradient.at)
        ops(t)->zero(t->device, p->gradient);
}

static void expert_backward(struct transformer *t, const struct micro_batch *batch,
                            struct projection *p, struct tensor dx, struct tensor dy,
                            struct tensor x, int64_t first, int64_t count)
{
    if (count)
        transformer_project_backward(t, batch, p, tensor_rows(dx, first, count),
                                     tensor_rows(dy, first, count), tensor_rows(x, first, count));
    else
        clear_unused(t, p);
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
}

void transformer_experts_backward(struct transformer *t, const struct micro_batch *batch,
                                  struct transformer_layer *l)
{
    struct mixture *m = &l->mixture;
    struct transformer_scratch *s = &t->scratch;
    int64_t n = rows_of(t, batch), F = t->decoder->model.expert_width;
    int64_t experts = t->decoder->model.experts, first = 0;
    struct tensor rows = first_rows(s->expert_rows, n), gate_up = first_rows(m->gate_up, n);
    struct tensor gate = tensor_columns(gate_up, 0, F), up = tensor_columns(gate_up, F, F);
    struct tensor dactivated = first_rows(s->dexpert_activated, n);
    transformer_note(t, "combine", 0);
    ops(t)->gather(t->device, width_of(t, rows), width_of(t, first_rows(s->dx, batch->tokens)),
                   m->routing.rows);
    for (int64_t e = 0; e < experts; first += m->counts[e++])
        expert_backward(t, batch, &m->experts[e].down, dactivated, rows, m->activated, first,
                        m->counts[e]);
    transformer_note(t, "expert activation", 0);
    ops(t)->swiglu_backward(t->device, gate, up, first_rows(s->dexpert_weights, n), dactivated,
                            gate, up, first_rows(m->weights, n));
    first = 0;
    for (int64_t e = 0; e < experts; first += m->counts[e++])
        expert_backward(t, batch, &m->experts[e].gate, width_of(t, rows), gate_up, m->rows, first,
                        m->counts[e]);
    transformer_note(t, "dispatch", 0);
    ops(t)->combine(t->device, first_rows(s->branch, batch->tokens), width_of(t, rows),
                    &m->routing);
    router_backward(t, batch, l);
}
