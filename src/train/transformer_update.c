// SPDX-License-Identifier: Apache-2.0
// The optimizer step. Parameter groups that are neighbours in every kind of memory, and that decay
// alike, are updated by one call:
//
//     masters      │ group 3 │░│ group 4 │ group 5 │
//     gradients    │ group 3 │░│ group 4 │ group 5 │
//     moments      │ group 3 │░│ group 4 │ group 5 │
//
// ░ is an alignment gap: it holds zeros in all of them, and an update of zeros gives zeros.

#include "train/transformer_internal.h"

#include <assert.h>

// The same range of everything that an optimizer step reads and writes.
struct flat_range {
    struct tensor weight, m, v, gradient;
    bool decays;
};

static struct tensor from_first_to_last(struct tensor first, struct tensor last)
{
    if (!first.at)
        return first;
    int64_t bytes = (char *)last.at + tensor_bytes(last) - (char *)first.at;
    assert(bytes > 0 && bytes % dtype_bytes(first.dtype) == 0 && first.dtype == last.dtype);
    return tensor_of(first.at, first.dtype, 1, bytes / dtype_bytes(first.dtype));
}

static bool follows(struct tensor next, struct tensor before)
{
    int64_t gap = (char *)next.at - ((char *)before.at + tensor_bytes(before));
    return (!next.at && !before.at) || (gap >= 0 && gap < 2 * BLOCKS_ALIGNMENT);
}

static bool can_extend(const struct parameter_group *next, const struct parameter_group *before)
{
    return next->is_trained && next->parts[0]->decays == before->parts[0]->decays &&
           follows(next->master, before->master) && follows(next->gradient, before->gradient) &&
           follows(next->m, before->m) && follows(next->v, before->v);
}

static void update_range(struct transformer *t, const struct update *update,
                         const struct flat_range *r, uint64_t first_group)
{
    struct adamw adamw = update->adamw;
    adamw.decay = r->decays ? adamw.decay : 0;
    adamw.key += first_group;
    if (r->v.at)
        t->device->backend->adamw(t->device, r->weight, r->m, r->v, r->gradient, &adamw, t->clip);
    else
        t->device->backend->sgd(t->device, r->weight, r->m, r->gradient, adamw.rate,
                                update->momentum, adamw.decay, t->clip);
}

// --- this rank's part --------------------------------------------------------

static struct tensor elements(struct tensor row, int64_t first, int64_t count)
{
    return row.at ? tensor_columns(row, first, count) : row;
}

// The part of a range that is this rank's, in one piece. Elements count from the start of the
// gradients; in the rank's states the piece's begin at `kept`.
static void update_part(struct transformer *t, const struct update *update,
                        const struct flat_range *r, const struct transformer_piece *piece,
                        uint64_t first_group)
{
    const struct transformer_shard *shard = &t->shard;
    struct tensor gradients = transformer_gradients(t), master = shard->states[TRANSFORMER_MASTER];
    int64_t begin = ((char *)r->gradient.at - (char *)gradients.at) / dtype_bytes(gradients.dtype);
    int64_t from = begin > piece->own.first ? begin : piece->own.first;
    int64_t part_end = piece->own.first + piece->own.count;
    int64_t end = begin + r->gradient.columns < part_end ? begin + r->gradient.columns : part_end;
    int64_t inside = piece->kept + from - piece->own.first, count = end - from;
    if (count <= 0)
        return;
    struct flat_range own = {
        master.at ? elements(master, inside, count) : elements(transformer_values(t), from, count),
        elements(shard->states[TRANSFORMER_M], inside, count),
        elements(shard->states[TRANSFORMER_V], inside, count),
        elements(gradients, from, count),
        r->decays,
    };
    struct update moved = *update;
    moved.adamw.first = from - begin;
    update_range(t, &moved, &own, first_group);
}

// The weights of the own parts; those of the others come by an all-gather.
static void refresh_parts(struct transformer *t)
{
    struct tensor master = t->shard.states[TRANSFORMER_MASTER];
    for (int64_t i = 0; master.at && i < t->shard.piece_count; i++) {
        const struct transformer_piece *piece = &t->shard.pieces[i];
        if (piece->own.count)
            t->device->backend->cast(
                t->device, elements(transformer_values(t), piece->own.first, piece->own.count),
                elements(master, piece->kept, piece->own.count));
    }
}

void transformer_update(struct transformer *t, const struct update *update)
{
    bool is_sharded = transformer_is_sharded(t);
    for (size_t i = 0, end; i < t->group_count; i = end) {
        const struct parameter_group *first = &t->groups[i], *last = first;
        for (end = i + 1; end < t->group_count && can_extend(&t->groups[end], last); end++)
            last = &t->groups[end];
        if (!first->is_trained)
            continue;
        struct flat_range range = { from_first_to_last(first->master, last->master),
                                    from_first_to_last(first->m, last->m),
                                    from_first_to_last(first->v, last->v),
                                    from_first_to_last(first->gradient, last->gradient),
                                    first->parts[0]->decays };
        if (!is_sharded)
            update_range(t, update, &range, i);
        for (int64_t piece = 0; is_sharded && piece < t->shard.piece_count; piece++)
            update_part(t, update, &range, &t->shard.pieces[piece], i);
    }
    if (is_sharded)
        refresh_parts(t);
    else
        transformer_refresh(t);
}
