// SPDX-License-Identifier: Apache-2.0
// Plans and allocates a transformer; loss, gradient clipping and sums of a step.

#include "train/transformer_internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// --- planning ----------------------------------------------------------------

// Of all layers; 0: one of them attends to all tokens before.
static int64_t widest_window(const struct decoder *d)
{
    int64_t widest = 0;
    for (int64_t i = 0; i < d->model.layers; i++) {
        int64_t window = decoder_window(d, i);
        if (!window)
            return 0;
        widest = window > widest ? window : widest;
    }
    return widest;
}

static enum err list(struct transformer *t, struct arena *arena, struct device *device,
                     const struct transformer_setup *setup)
{
    *t = (struct transformer){ .device = device, .setup = *setup, .decoder = setup->decoder };
    assert(setup->tokens > 0 && setup->labelled <= setup->tokens);
    TRY(transformer_list(t, arena));
    const struct model *m = &t->decoder->model;
    struct attention shape = { .span_count = setup->tokens,
                               .longest = setup->longest,
                               .tokens = setup->tokens,
                               .heads = m->heads,
                               .kv_heads = m->kv_heads,
                               .head_size = m->head_size,
                               .window = widest_window(t->decoder),
                               .any_order = setup->any_order,
                               .cap = t->decoder->attention_cap };
    t->chunk_bytes = device->chunk_bytes;
    t->attention_bytes = device->backend->attention_bytes(device, &shape, setup->compute);
    return OK;
}

static void plan(struct transformer *t)
{
    blocks_init(&t->blocks);
    transformer_place(t);
    transformer_plan_host(t);
}

enum { CHUNK_LEAST = 16 << 20, CHUNK_SHARE = 16 };

// Raises the level of one layer at a time, the last layer first, until everything fits into the
// budget: every layer gets a level before any layer gets the next one, since each level costs more
// seconds per byte saved. Norms and activations only read and write memory. An element of gate, up,
// q, k, v or the middle residual costs 2 C FLOPs, whichever it is; one of attention's output about
// 2 C per C tokens of its document, which is more in long documents and kept for last. Logits get
// at most a CHUNK_SHARE-th of the budget; as a last resort their chunks are halved.
static enum err choose_levels(struct transformer *t)
{
    double budget = t->setup.budget_bytes;
    while (budget && (double)t->chunk_bytes * CHUNK_SHARE > budget && t->chunk_bytes > CHUNK_LEAST)
        t->chunk_bytes /= 2;
    plan(t);
    for (int level = (int)t->setup.level + 1; level < RECOMPUTE_LEVELS; level++)
        for (int64_t i = t->decoder->model.layers; i-- > 0;) {
            if (!budget || (double)blocks_total(&t->blocks) <= budget)
                return OK;
            t->layers[i].level = (enum recompute)level;
            plan(t);
        }
    for (; budget && (double)blocks_total(&t->blocks) > budget && t->chunk_bytes > CHUNK_LEAST;
         plan(t))
        t->chunk_bytes /= 2;
    if (budget && (double)blocks_total(&t->blocks) > budget)
        return fail(
            ERR_MEMORY,
            "%lld bytes are needed even if every layer is recomputed, the budget is %.0f; try a "
            "smaller --context or --micro-batch, or --method qlora",
            (long long)blocks_total(&t->blocks), budget);
    return OK;
}

enum err transformer_plan(struct blocks *out, enum recompute *level, struct arena *arena,
                          struct device *device, const struct transformer_setup *setup)
{
    struct transformer t;
    TRY(list(&t, arena, device, setup));
    TRY(choose_levels(&t));
    *out = t.blocks;
    *level = RECOMPUTE_NONE;
    for (int64_t i = 0; i < t.decoder->model.layers; i++)
        *level = t.layers[i].level > *level ? t.layers[i].level : *level;
    return OK;
}

enum err transformer_init(struct transformer *t, struct arena *arena, struct device *device,
                          const struct transformer_setup *setup)
{
    TRY(list(t, arena, device, setup));
    TRY(choose_levels(t));
    TRY(blocks_allocate(&t->blocks, device));
    transformer_place(t);
    device->backend->upload(device, t->frequencies.at, t->decoder->frequencies,
                            tensor_bytes(t->frequencies));
    assert(blocks_are_full(&t->blocks)); // both passes placed the same tensors
    transformer_clear(t);                // also the gaps between tensors, which stay zero
    enum err err = transformer_offload_init(t);
    if (err)
        blocks_release(&t->blocks, device);
    return err;
}

void transformer_release(struct transformer *t)
{
    if (t->device)
        transformer_offload_release(t);
    if (t->device)
        blocks_release(&t->blocks, t->device);
}

// --- running -----------------------------------------------------------------

void transformer_note(struct transformer *t, const char *name, double flops)
{
    struct transformer_trace *trace = t->trace;
    if (!trace)
        return;
    int i = 0;
    while (i < trace->count &&
           (strcmp(trace->items[i].name, name) || trace->items[i].phase != t->phase))
        i++;
    assert(i < (int)(sizeof trace->items / sizeof *trace->items));
    if (i == trace->count)
        trace->items[trace->count++] = (struct transformer_traced){ name, t->phase, 0, 0 };
    trace->items[i].flops += flops;
    trace->items[i].count++;
}

// Head and loss of a chunk of labelled rows, and at once their gradients, while the logits exist.
static void score_rows(struct transformer *t, int64_t first, int64_t rows, double scale)
{
    const struct backend *backend = t->device->backend;
    struct transformer_scratch *s = &t->scratch;
    struct tensor picked = tensor_rows(s->picked, first, rows);
    struct tensor logits = tensor_rows(s->logits, 0, rows);
    t->phase = transformer_forward_phase(t);
    transformer_head(t, logits, picked);
    transformer_note(t, "loss", 0);
    struct tensor losses = tensor_rows(s->losses, first, rows);
    if (t->decoder->logit_cap > 0)
        backend->capped_cross_entropy(t->device, losses, logits, s->targets + first, scale,
                                      t->decoder->logit_cap);
    else
        backend->cross_entropy(t->device, losses, logits, s->targets + first, scale);
    if (!scale)
        return;
    t->phase = STEP_BACKWARD;
    transformer_note(t, "loss", 0);
    transformer_head_backward(t, tensor_rows(s->dpicked, first, rows), logits, picked);
}

void transformer_clear(struct transformer *t)
{
    if (!t->setup.only_forward)
        t->device->backend->zero(t->device, transformer_gradients(t));
}

static bool is_set_by_product(const struct parameter_group *group)
{
    return group->projection && group->gradient.at == group->projection->gradient.at;
}

void transformer_begin(struct transformer *t)
{
    const struct backend *backend = t->device->backend;
    if (t->setup.recipe->method != RECIPE_FULL)
        transformer_clear(t);
    else
        for (size_t i = 0; i < t->group_count; i++)
            if (t->groups[i].gradient.at && !is_set_by_product(&t->groups[i]))
                backend->zero(t->device, t->groups[i].gradient);
    t->is_fresh = true;
    backend->zero(t->device, t->loss);
    backend->zero(t->device, t->squared_norm);
    t->preferences = (struct preference_sums){ 0 };
}

void transformer_score(struct transformer *t, const struct micro_batch *batch, double scale)
{
    const struct backend *backend = t->device->backend;
    transformer_run_forward(t, batch);
    if (!batch->labelled)
        return;
    if (t->decoder->balance > 0)
        transformer_balance(t, batch, scale);
    backend->gather(t->device, tensor_rows(t->scratch.picked, 0, batch->labelled), t->hidden,
                    t->scratch.rows);
    for (int64_t first = 0; first < batch->labelled; first += t->scratch.logits.rows) {
        int64_t left = batch->labelled - first;
        score_rows(t, first, left < t->scratch.logits.rows ? left : t->scratch.logits.rows, scale);
    }
}

void transformer_loss(struct transformer *t, const struct micro_batch *batch, double scale)
{
    assert(batch->tokens <= t->setup.tokens && batch->labelled <= t->setup.labelled);
    assert(!scale || !t->setup.only_forward);
    if (t->setup.beta > 0) {
        transformer_prefer(t, batch, scale);
        return;
    }
    transformer_score(t, batch, scale);
    if (batch->labelled)
        t->device->backend->sum(t->device, t->loss,
                                tensor_rows(t->scratch.losses, 0, batch->labelled));
}

void transformer_backward(struct transformer *t, const struct micro_batch *batch)
{
    transformer_run_backward(t, batch);
    t->is_fresh = false;
}

void transformer_norm(struct transformer *t)
{
    struct tensor gradients = transformer_gradients(t);
    const struct backend *backend = t->device->backend;
    if (!transformer_is_sharded(t)) {
        backend->sum_squares(t->device, t->squared_norm, gradients);
        return;
    }
    for (int64_t i = 0; i < t->shard.piece_count; i++) {
        struct group_part own = t->shard.pieces[i].own;
        if (own.count)
            backend->sum_squares(t->device, t->squared_norm,
                                 tensor_columns(gradients, own.first, own.count));
    }
}

void transformer_clip(struct transformer *t, double limit)
{
    t->device->backend->clip(t->device, t->clip, t->squared_norm, limit);
}

enum err transformer_sums(struct transformer *t, struct transformer_sums *out)
{
    const struct backend *backend = t->device->backend;
    *out = (struct transformer_sums){ .preferences = t->preferences };
    backend->download(t->device, &out->loss, t->loss.at, sizeof out->loss);
    backend->download(t->device, &out->squared_norm, t->squared_norm.at, sizeof out->squared_norm);
    enum err err = backend->sync(t->device);
    out->loss += t->preferences.loss; // one of the two is zero
    return err;
}

void transformer_logits(struct transformer *t, const struct micro_batch *batch, double *out)
{
    const struct backend *backend = t->device->backend;
    struct tensor picked = tensor_rows(t->scratch.picked, 0, batch->labelled);
    struct tensor logits = tensor_rows(t->scratch.logits, 0, 1), host = logits;
    transformer_run_forward(t, batch);
    backend->gather(t->device, picked, t->hidden, t->scratch.rows);
    struct arena scratch = { 0 };
    host.at = arena_alloc(&scratch, (size_t)tensor_bytes(logits));
    for (int64_t i = 0; i < batch->labelled; i++) {
        transformer_head(t, logits, tensor_rows(picked, i, 1));
        backend->download(t->device, host.at, logits.at, tensor_bytes(logits));
        tensor_load(out + i * logits.columns, host, 0, 0, logits.columns);
        for (int64_t j = 0; t->decoder->logit_cap > 0 && j < logits.columns; j++)
            out[i * logits.columns + j] =
                t->decoder->logit_cap * tanh(out[i * logits.columns + j] / t->decoder->logit_cap);
    }
    arena_release(&scratch);
}

struct tensor transformer_gradients(const struct transformer *t)
{
    enum dtype type = t->setup.bf16_states            ? DTYPE_BF16
                      : t->setup.compute == DTYPE_F64 ? DTYPE_F64
                                                      : DTYPE_F32;
    return tensor_of(t->blocks.at[BLOCKS_GRADIENTS], type, 1,
                     t->blocks.bytes[BLOCKS_GRADIENTS] / dtype_bytes(type));
}
