// SPDX-License-Identifier: Apache-2.0
// Keeps the activations of some layers in host memory from forward to backward.
//
// Offloaded layers, spread evenly over the model and numbered in its order, have two places on the
// device in turn. Copies run beside the computation, in the lane of their place:
//
//     forward    place 0   │ layer 0 │ copy 0 out      │ layer 2 │ copy 2 out      │ layer 4 │
//                place 1             │ layer 1 │ copy 1 out      │ layer 3 │
//     backward   place 0   │ layer 4 │ copy 2 in       │ layer 2 │ copy 0 in       │ layer 0 │
//                place 1             │ layer 3 │ copy 1 in       │ layer 1 │
//
// The last two are still there when backward begins, and are never copied. A copy has the time of
// the layers between two of its place: if that is enough, it costs nothing.

#include "train/transformer_internal.h"

static int64_t count_of(const struct transformer *t)
{
    return t->setup.only_forward ? 0 : t->setup.offloaded;
}

int64_t transformer_offloaded(const struct transformer *t, int64_t layer)
{
    int64_t layers = t->decoder->model.layers, number = layer * count_of(t) / layers;
    return (layer + 1) * count_of(t) / layers > number ? number : -1;
}

static struct transformer_layer *layer_of(struct transformer *t, int64_t number)
{
    return &t->layers[((number + 1) * t->decoder->model.layers - 1) / count_of(t)];
}

static bool is_copied(const struct transformer *t, int64_t number)
{
    return number >= 0 && number < count_of(t) - TRANSFORMER_PLACES;
}

// --- host memory -------------------------------------------------------------

void transformer_plan_host(struct transformer *t)
{
    t->host_bytes = 0;
    for (int64_t i = 0; is_copied(t, i); i++)
        t->host_bytes += layer_of(t, i)->kept_bytes;
}

enum err transformer_offload_init(struct transformer *t)
{
    void *host = NULL;
    if (!t->host_bytes)
        return OK;
    enum err err = ops(t)->pin(t->device, &host, t->host_bytes);
    if (err)
        return err;
    t->host = host;
    char *at = t->host;
    for (int64_t i = 0; is_copied(t, i); i++) {
        layer_of(t, i)->kept_by_host = at;
        at += layer_of(t, i)->kept_bytes;
    }
    return OK;
}

void transformer_offload_release(struct transformer *t)
{
    if (t->host)
        ops(t)->unpin(t->device, t->host, t->host_bytes);
    t->host = NULL;
}

// --- copies ------------------------------------------------------------------

void transformer_before_forward(struct transformer *t, int64_t layer)
{
    int64_t number = transformer_offloaded(t, layer);
    if (number >= 0)
        ops(t)->copied(t->device, number % TRANSFORMER_PLACES); // what was in its place
}

void transformer_after_forward(struct transformer *t, int64_t layer)
{
    int64_t number = transformer_offloaded(t, layer);
    const struct transformer_layer *l = &t->layers[layer];
    if (is_copied(t, number))
        ops(t)->copy_out(t->device, number % TRANSFORMER_PLACES, l->kept_by_host, l->kept,
                         l->kept_bytes);
}

void transformer_before_backward(struct transformer *t, int64_t layer)
{
    int64_t number = transformer_offloaded(t, layer);
    if (is_copied(t, number))
        ops(t)->copied(t->device, number % TRANSFORMER_PLACES);
}

// Its place is free for the layer that was there before it.
void transformer_after_backward(struct transformer *t, int64_t layer)
{
    int64_t number = transformer_offloaded(t, layer);
    if (number < TRANSFORMER_PLACES)
        return;
    const struct transformer_layer *before = layer_of(t, number - TRANSFORMER_PLACES);
    ops(t)->copy_in(t->device, number % TRANSFORMER_PLACES, before->kept, before->kept_by_host,
                    before->kept_bytes);
}
