// SPDX-License-Identifier: Apache-2.0
// DPO: scores pairs of answers with and without adapters, and weighs the gradient of each answer.
//
// The reference is the model itself in a pass that skips the adapters: no second copy of the
// weights, and no memory of its own. The pass that is trained scores the answers after it, and
// leaves the gradient of each labelled row as if its weight were one; the weights are known when
// all rows of the pair are scored, and multiply the rows then. Only a frozen head allows that: what
// a trained one adds up over rows is already summed.

#include "train/transformer_internal.h"

enum err transformer_check_preference(const struct transformer *t)
{
    const struct transformer_setup *s = &t->setup;
    const char *with = s->recipe->method == RECIPE_FULL ? "--method full: its reference is the "
                                                          "model without its adapters"
                       : s->recipe->trains_embeddings   ? "--trains-embeddings"
                       : t->decoder->balance > 0
                           ? "an auxiliary loss of routers: output_router_logits in config.json"
                           : NULL;
    return s->beta > 0 && with
               ? fail(ERR_USAGE, "--objective dpo does not go together with %s", with)
               : OK;
}

// The losses of the rows, which lie one after another, added up for each document.
static void sum_documents(struct transformer *t, const struct micro_batch *batch, double *sums)
{
    struct arena scratch = { 0 };
    struct tensor rows = tensor_rows(t->scratch.losses, 0, batch->labelled);
    int64_t row = 0;
    rows.at = arena_alloc(&scratch, (size_t)tensor_bytes(rows) + 1);
    ops(t)->download(t->device, rows.at, t->scratch.losses.at, tensor_bytes(rows));
    for (int64_t i = 0; i < batch->span_count; i++) {
        int64_t end = batch->spans[i].start + batch->spans[i].size;
        sums[i] = 0;
        for (; row < batch->labelled && batch->rows[row] < end; row++) {
            double loss;
            tensor_load(&loss, rows, row, 0, 1);
            sums[i] += loss;
        }
    }
    arena_release(&scratch);
}

// The gradients of all rows times the weights of their documents, which take the place of the
// losses.
static void weigh_rows(struct transformer *t, const struct micro_batch *batch,
                       const double *weights, double scale)
{
    struct arena scratch = { 0 };
    struct tensor device = tensor_rows(t->scratch.losses, 0, batch->labelled), host = device;
    int64_t row = 0;
    host.at = arena_alloc(&scratch, (size_t)tensor_bytes(host) + 1);
    for (int64_t i = 0; i < batch->span_count; i++) {
        double weight = weights[i] * scale;
        int64_t end = batch->spans[i].start + batch->spans[i].size;
        for (; row < batch->labelled && batch->rows[row] < end; row++)
            tensor_store(host, row, 0, &weight, 1);
    }
    ops(t)->upload(t->device, device.at, host.at, tensor_bytes(host));
    ops(t)->weigh_rows(t->device, tensor_rows(t->scratch.dpicked, 0, batch->labelled), device);
    arena_release(&scratch);
}

void transformer_prefer(struct transformer *t, const struct micro_batch *batch, double scale)
{
    struct arena scratch = { 0 };
    int64_t documents = batch->span_count;
    double *own = ARENA_NEW(&scratch, double, 3 * documents + 1);
    double *reference = own + documents, *weights = reference + documents;
    t->skips_adapters = true;
    transformer_score(t, batch, 0);
    sum_documents(t, batch, reference);
    t->skips_adapters = false;
    transformer_score(t, batch, scale ? 1 : 0);
    sum_documents(t, batch, own);
    preference_weigh(weights, &t->preferences, t->setup.beta, own, reference, documents);
    if (scale && batch->labelled)
        weigh_rows(t, batch, weights, scale);
    arena_release(&scratch);
}
