// SPDX-License-Identifier: Apache-2.0
// The frozen linears of LoRA and QLoRA, if ranks share them: each keeps a part of every layer.
//
//     own         │ layer 0, part r │ layer 1, part r │ layer 2, part r │ …
//     gathered    │ layer 4, all parts │ layer 5, all parts │
//
// While one layer computes, the next one is gathered, forward as well as backward. Two layers are
// whole at any time, and a pass begins with the two that the last one ended with: of L layers, a
// forward and a backward pass gather L − 2 each. Norms, biases, embedding and head are whole on
// every rank; so are the adapters, which are stacked into a gathered layer for each product.
//
// Every rank calls for the same layers in the same order, whatever it computes.

#include "train/transformer_internal.h"

bool transformer_shares_base(const struct transformer *t)
{
    return t->setup.shards_base && t->setup.ranks > 1 && t->setup.recipe->method != RECIPE_FULL;
}

void transformer_join(struct transformer *t, struct group *group)
{
    t->base.group = transformer_shares_base(t) ? group : NULL;
    t->base.layers[0] = t->base.layers[1] = -1;
}

static struct tensor own_part(const struct transformer *t, int64_t layer)
{
    return tensor_rows(t->base.own, layer, 1);
}

bool transformer_is_in_base(const struct transformer *t, const struct parameter_group *group)
{
    return transformer_shares_base(t) && group->layer >= 0 && group->projection &&
           !group->parts[0]->is_adapter;
}

// --- setting weights ---------------------------------------------------------

// Where the own part lies in the whole layer.
static struct tensor own_in_whole(const struct transformer *t, int64_t layer)
{
    int64_t part = t->base.own.columns;
    return tensor_columns(t->base.gathered[layer % 2], t->setup.rank * part, part);
}

// Prepares a layer for setting its weights. They are set in a buffer for the whole layer. Only this
// rank's part of it is loaded before, and only this part is stored when another layer's turn comes;
// so weights can be set in any order, and without the other ranks.
void transformer_hold(struct transformer *t, int64_t layer)
{
    struct transformer_base *base = &t->base;
    const struct backend *ops = t->device->backend;
    if (!transformer_shares_base(t) || layer == base->held)
        return;
    if (base->held >= 0)
        ops->cast(t->device, own_part(t, base->held), own_in_whole(t, base->held));
    if (layer >= 0)
        ops->cast(t->device, own_in_whole(t, layer), own_part(t, layer));
    base->layers[0] = base->layers[1] = -1;
    base->held = layer;
}

// --- gathering ---------------------------------------------------------------

static bool is_gathered(const struct transformer *t, int64_t layer)
{
    return layer < 0 || layer >= t->decoder->model.layers || t->base.layers[layer % 2] == layer;
}

static void gather(struct transformer *t, int64_t layer)
{
    if (is_gathered(t, layer))
        return;
    group_all_gather_from(t->base.group, t->base.gathered[layer % 2], own_part(t, layer));
    t->base.layers[layer % 2] = layer;
}

// The next layer's place is free, because what the layer before this one does is queued.
void transformer_fetch(struct transformer *t, int64_t layer, int64_t next)
{
    if (!t->base.group)
        return;
    gather(t, layer);
    group_order(t->base.group);
    gather(t, next);
}

void transformer_attend(struct transformer *t, bool backward)
{
    int64_t layers = t->decoder->model.layers;
    for (int pass = t->setup.beta > 0 ? 0 : 1; pass < 2; pass++) // DPO's reference is the first
        for (int64_t i = 0; i < layers; i++)
            transformer_fetch(t, i, i + 1);
    for (int64_t i = layers; backward && i-- > 0;)
        transformer_fetch(t, i, i - 1);
}
