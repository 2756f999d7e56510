// SPDX-License-Identifier: Apache-2.0
// Masters and moments that ranks share (ZeRO-1): each keeps and updates one part of all elements.
//
//     gradients    │ rank 0 │ rank 1 │ rank 2 │ rank 3 │   reduce-scatter: each sums its own part
//     moments               │ rank 1 │                     the only part that rank 1 has
//     weights      │ rank 0 │ rank 1 │ rank 2 │ rank 3 │   all-gather, after the update
//
// The parts are of the gradients as one row, without regard to where a weight begins. Weights that
// are saved or loaded pass whole through the gradients' memory, one state after the other: no rank
// needs more memory for it, and a checkpoint is the same for any number of ranks.

#include "train/transformer_internal.h"

#include <assert.h>

bool transformer_is_sharded(const struct transformer *t)
{
    return t->setup.ranks > 1 && t->setup.recipe->method == RECIPE_FULL && !t->setup.only_forward;
}

struct tensor transformer_values(const struct transformer *t)
{
    return tensor_of(t->blocks.at[BLOCKS_TRAINABLES], t->setup.compute, 1,
                     transformer_gradients(t).columns);
}

static struct tensor own_part(const struct transformer *t, struct tensor all)
{
    return tensor_columns(all, t->shard.part.first, t->shard.part.count);
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

void transformer_gather_state(struct transformer *t, struct group *group,
                              enum transformer_state state)
{
    struct tensor own = t->shard.states[state], all = transformer_gradients(t);
    if (!transformer_is_sharded(t) || !own.at)
        return;
    copy(t, own_part(t, all), own);
    group_all_gather(group, all);
}

void transformer_keep_state(struct transformer *t, enum transformer_state state)
{
    if (transformer_is_sharded(t) && t->shard.states[state].at)
        copy(t, t->shard.states[state], own_part(t, transformer_gradients(t)));
}

void transformer_loaded(struct transformer *t)
{
    transformer_hold(t, -1);
    if (!transformer_is_sharded(t))
        return;
    transformer_keep_state(t, TRANSFORMER_MASTER);
    transformer_clear(t);
}
