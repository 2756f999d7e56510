// SPDX-License-Identifier: Apache-2.0
// Tunes the products of a transformer: before the first step, or between the first ones.

#include "base/checksum.h"
#include "train/files/tuned.h"
#include "train/transformer_internal.h"

#include <math.h>

// Whatever decides which products run: the model's shape, what is trained, and where it lies.
static uint64_t work_of(const struct transformer *t)
{
    const struct transformer_setup *s = &t->setup;
    const struct model *m = &t->decoder->model;
    const int64_t numbers[] = {
        m->layers,         m->width,        m->ffn_width,   m->heads,
        m->kv_heads,       m->head_size,    m->experts,     m->vocabulary,
        s->tokens,         s->labelled,     s->compute,     s->fp8,
        s->level,          s->only_forward, t->chunk_bytes, s->recipe->rank,
        s->recipe->method,
    };
    uint64_t sum = checksum((struct text){ (const char *)numbers, sizeof numbers }, 0);
    sum = checksum((struct text){ (const char *)t->blocks.bytes, sizeof t->blocks.bytes }, sum);
    const char *targets = s->recipe->targets ? s->recipe->targets : "";
    return checksum((struct text){ targets, strlen(targets) }, sum);
}

// As many tokens as a micro-batch may have, in documents as long as they may be.
static struct micro_batch full_batch(const struct transformer *t, struct arena *arena)
{
    int64_t tokens = t->setup.tokens, longest = t->setup.longest;
    struct micro_batch batch = { .tokens = tokens, .labelled = t->setup.labelled };
    int32_t *ids = ARENA_NEW(arena, int32_t, tokens);
    int32_t *positions = ARENA_NEW(arena, int32_t, tokens);
    int32_t *rows = ARENA_NEW(arena, int32_t, tokens);
    struct span *spans = ARENA_NEW(arena, struct span, tokens);
    for (int64_t i = 0; i < tokens; i++) {
        ids[i] = (int32_t)(i * 7919 % t->decoder->model.vocabulary);
        positions[i] = (int32_t)(i % longest);
        rows[i] = (int32_t)i;
    }
    for (int64_t first = 0; first < tokens; first += longest)
        spans[batch.span_count++] =
            (struct span){ (int32_t)first,
                           (int32_t)(tokens - first < longest ? tokens - first : longest) };
    batch.ids = ids, batch.positions = positions, batch.spans = spans;
    batch.rows = rows, batch.targets = ids;
    return batch;
}

void transformer_tune(struct transformer *t, enum tuning when)
{
    if (!ops(t)->tune || tuned_recall(t->device, work_of(t)))
        return;
    struct arena scratch = { 0 };
    struct micro_batch batch = full_batch(t, &scratch);
    struct transformer_trace *trace = t->trace;
    t->trace = NULL;
    ops(t)->tune(t->device, when);
    transformer_loss(t, &batch, t->setup.only_forward ? 0 : 1);
    if (!t->setup.only_forward)
        transformer_backward(t, &batch);
    ops(t)->tune(t->device, TUNE_OFF);
    transformer_begin(t);
    t->trace = trace;
    arena_release(&scratch);
    t->waits_for_tuning = true;
    if (when == TUNE_NOW)
        transformer_tune_some(t, INFINITY); // what this micro-batch could not tell
}

// Activations are of one micro-batch: between steps nobody needs them.
void transformer_tune_some(struct transformer *t, double seconds)
{
    const struct blocks *blocks = &t->blocks;
    if (!t->waits_for_tuning || seconds <= 0)
        return;
    t->waits_for_tuning = ops(t)->tune_some(t->device, blocks->at[BLOCKS_ACTIVATIONS],
                                            blocks->bytes[BLOCKS_ACTIVATIONS], seconds);
    if (!t->waits_for_tuning)
        tuned_keep(t->device, work_of(t));
}
