// SPDX-License-Identifier: Apache-2.0
// The head and its adapter, on a chunk of rows: logits and their way back.
//
//     z = s · x Aᵀ,  logits = c · (x Wᵀ + z Bᵀ)       c: the model's scale of logits, mostly 1
//     dz = c s · dlogits B,  dB += c · dlogitsᵀ z,  dA += dzᵀ x,  dx = c · dlogits W + dz A
//
// The head is no projection (transformer_place.c): its weights may be those of the embedding, and
// one chunk of its outputs is as wide as the vocabulary, so that another pass over it for the
// adapter is seldom, and its factors lie apart.

#include "train/transformer_internal.h"

static void note(struct transformer *t, const char *name, int64_t rows, int64_t in, int64_t out)
{
    transformer_note(t, name, 2.0 * (double)rows * (double)in * (double)out);
}

void transformer_head(struct transformer *t, struct tensor logits, struct tensor rows)
{
    note(t, "head", rows.rows, rows.columns, logits.columns);
    ops(t)->matmul_nt(t->device, logits, rows, t->head->value, t->decoder->logit_scale, 0);
    if (!t->head_a)
        return;
    struct tensor z = first_rows(t->scratch.head_z, rows.rows);
    note(t, "adapter a", rows.rows, rows.columns, z.columns);
    ops(t)->matmul_nt(t->device, z, rows, t->head_a->value, t->adapter_scale, 0);
    note(t, "adapter b", rows.rows, z.columns, logits.columns);
    ops(t)->matmul_nt(t->device, logits, z, t->head_b->value, t->decoder->logit_scale, 1);
}

static void adapter_backward(struct transformer *t, struct tensor drows, struct tensor dlogits,
                             struct tensor rows)
{
    struct tensor z = first_rows(t->scratch.head_z, rows.rows);
    struct tensor dz = first_rows(t->scratch.dhead_z, rows.rows);
    double scale = t->decoder->logit_scale;
    for (int i = 0; i < 2; i++) { // two products with each factor
        note(t, "adapter b", rows.rows, z.columns, dlogits.columns);
        note(t, "adapter a", rows.rows, rows.columns, z.columns);
    }
    ops(t)->matmul_nn(t->device, dz, dlogits, t->head_b->value, scale * t->adapter_scale, 0);
    ops(t)->matmul_tn(t->device, t->head_b->gradient, dlogits, z, scale, 1);
    ops(t)->matmul_tn(t->device, t->head_a->gradient, dz, rows, 1, 1);
    ops(t)->matmul_nn(t->device, drows, dz, t->head_a->value, 1, 1);
}

void transformer_head_backward(struct transformer *t, struct tensor drows, struct tensor dlogits,
                               struct tensor rows)
{
    double scale = t->decoder->logit_scale;
    note(t, "head", rows.rows, rows.columns, dlogits.columns);
    ops(t)->matmul_nn(t->device, drows, dlogits, t->head->value, scale, 0);
    if (t->head->gradient.at) {
        note(t, "head", rows.rows, rows.columns, dlogits.columns);
        ops(t)->matmul_tn(t->device, t->head->gradient, dlogits, rows, scale, 1);
    }
    if (t->head_a)
        adapter_backward(t, drows, dlogits, rows);
}
