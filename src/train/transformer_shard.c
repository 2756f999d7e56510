// SPDX-License-Identifier: Apache-2.0
// Masters and moments that ranks share (ZeRO-1): each keeps and updates one part of all elements.
//
//                │ embedding │  layer 0  │  layer 1  │ … │
//     gradients  │ 0 │ 1 │ 2 │ 0 │ 1 │ 2 │ 0 │ 1 │ 2 │ … │  reduce-scatter: each sums its parts
//     moments        │ 1 │       │ 1 │       │ 1 │     …    what rank 1 has
//     weights    │ 0 │ 1 │ 2 │ 0 │ 1 │ 2 │ 0 │ 1 │ 2 │ … │  all-gather, after the update
//
// The row of all gradients is cut into pieces, and each piece into parts, without regard to where a
// weight begins. A piece is complete when the last micro-batch's backward pass leaves its layer,
// and is summed while the pass goes on. Weights that are saved or loaded pass whole through the
// gradients' memory, one state after the other: no rank needs more memory for it, and a checkpoint
// is the same for any number of ranks.
//
// Adapters whose ranks share the base share their moments so, in a single piece: layers are
// gathered in an order of their own, which sums do not disturb. Their masters are whole on every
// rank, and are what is updated and gathered; the copies that products read are made from them.

#include "train/transformer_internal.h"

#include <assert.h>

bool transformer_is_sharded(const struct transformer *t)
{
    bool full = t->setup.recipe->method == RECIPE_FULL;
    bool only_layers = !full && !t->setup.recipe->trains_embeddings && !t->head_a;
    return t->setup.ranks > 1 && !t->setup.only_forward &&
           (full || (only_layers && t->setup.shards_base));
}

struct tensor transformer_values(const struct transformer *t)
{
    struct tensor row = transformer_gradients(t);
    row.at = t->blocks.at[BLOCKS_TRAINABLES];
    if (t->setup.recipe->method == RECIPE_FULL)
        row.dtype = t->setup.compute;
    return row;
}

struct tensor transformer_state(const struct transformer *t, const struct parameter *p,
                                enum transformer_state state)
{
    if (transformer_is_sharded(t) && t->shard.states[state].at)
        return p->gradient;
    return state == TRANSFORMER_MASTER ? p->master : state == TRANSFORMER_M ? p->m : p->v;
}

static void copy(struct transformer *t, struct tensor to, struct tensor from)
{
    assert(to.dtype == from.dtype);
    if (to.columns)
        t->device->backend->cast(t->device, to, from);
}

// Copies this rank's parts between a row of all elements and a state.
static void copy_own(struct transformer *t, struct tensor all, struct tensor state, bool to_state)
{
    for (int64_t i = 0; i < t->shard.piece_count; i++) {
        const struct transformer_piece *piece = &t->shard.pieces[i];
        struct tensor there = tensor_columns(all, piece->own.first, piece->own.count);
        struct tensor here = tensor_columns(state, piece->kept, piece->own.count);
        copy(t, to_state ? here : there, to_state ? there : here);
    }
}

static struct tensor of_piece(struct tensor all, const struct transformer_piece *piece)
{
    return tensor_columns(all, piece->first, piece->count);
}

static void gather_pieces(struct transformer *t, struct group *group, struct tensor all)
{
    for (int64_t i = 0; i < t->shard.piece_count; i++)
        group_all_gather(group, of_piece(all, &t->shard.pieces[i]));
}

void transformer_gather_values(struct transformer *t, struct group *group)
{
    if (!transformer_is_sharded(t))
        return;
    gather_pieces(t, group, transformer_values(t));
    if (t->setup.recipe->method != RECIPE_FULL) {
        group_order(group);
        transformer_refresh(t);
    }
}

void transformer_gather_state(struct transformer *t, struct group *group,
                              enum transformer_state state)
{
    struct tensor own = t->shard.states[state], all = transformer_gradients(t);
    if (!transformer_is_sharded(t) || !own.at)
        return;
    copy_own(t, all, own, false);
    gather_pieces(t, group, all);
}

void transformer_keep_state(struct transformer *t, enum transformer_state state)
{
    if (transformer_is_sharded(t) && t->shard.states[state].at)
        copy_own(t, transformer_gradients(t), t->shard.states[state], true);
}

// --- sums over ranks ---------------------------------------------------------

void transformer_reduce_in(struct transformer *t, struct group *group)
{
    t->shard.reducing = transformer_is_sharded(t) && !transformer_shares_base(t) ? group : NULL;
}

static void reduce_piece(struct transformer *t, struct group *group, int64_t piece)
{
    group_reduce_scatter(group, of_piece(transformer_gradients(t), &t->shard.pieces[piece]));
}

void transformer_completed(struct transformer *t, int64_t layer)
{
    if (t->shard.reducing)
        reduce_piece(t, t->shard.reducing, layer + 1);
}

// A rank without a micro-batch sums the pieces in the order of the others' backward pass.
void transformer_reduce(struct transformer *t, struct group *group)
{
    if (!transformer_is_sharded(t)) {
        group_all_reduce(group, transformer_gradients(t));
        return;
    }
    for (int64_t i = t->shard.reducing ? 0 : t->shard.piece_count; i-- > 0;)
        reduce_piece(t, group, i);
    t->shard.reducing = NULL;
}

void transformer_loaded(struct transformer *t)
{
    transformer_hold(t, -1);
    if (!transformer_is_sharded(t))
        return;
    transformer_keep_state(t, TRANSFORMER_MASTER);
    transformer_clear(t);
}
