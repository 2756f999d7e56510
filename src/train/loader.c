// SPDX-License-Identifier: Apache-2.0
// Packs examples into rows and fills micro-batches from them.

#include "train/loader.h"

#include <assert.h>
#include <string.h>

static const uint64_t FINGERPRINT_START = 0xCBF29CE484222325u; // of FNV-1a

void loader_init(struct loader *loader, struct arena *arena, const struct loader_settings *settings)
{
    *loader = (struct loader){ .settings = *settings, .arena = arena };
    loader->starts = ARENA_NEW(arena, int64_t, 1);
    loader->fingerprint = FINGERPRINT_START;
}

void loader_release(struct loader *loader)
{
    arena_release(&loader->epoch_arena);
}

static void grow(struct loader *loader, int64_t tokens)
{
    if (loader->count + 2 > loader->room) {
        size_t room = 2 * loader->count + 64;
        loader->starts =
            arena_grow(loader->arena, loader->starts, (loader->count + 1) * sizeof *loader->starts,
                       room * sizeof *loader->starts);
        loader->room = room;
    }
    size_t used = (size_t)loader->starts[loader->count];
    if (used + (size_t)tokens > loader->token_room) {
        size_t room = 2 * (used + (size_t)tokens) + 4096;
        loader->ids = arena_grow(loader->arena, loader->ids, used * sizeof *loader->ids,
                                 room * sizeof *loader->ids);
        loader->learned = arena_grow(loader->arena, loader->learned, used, room);
        loader->token_room = room;
    }
}

static void add_to_fingerprint(struct loader *loader, size_t example)
{
    const uint64_t prime = 0x100000001B3u;
    uint64_t sum = loader->fingerprint;
    int64_t first = loader->starts[example], end = loader->starts[example + 1];
    for (int64_t i = first; i < end; i++)
        sum = (sum ^ (uint64_t)loader->ids[i] ^ (uint64_t)loader->learned[i] << 32) * prime;
    loader->fingerprint = (sum ^ (uint64_t)(end - first)) * prime;
}

void loader_add(struct loader *loader, const int32_t *ids, const uint8_t *learned, int64_t count)
{
    grow(loader, count);
    int64_t at = loader->starts[loader->count];
    memcpy(loader->ids + at, ids, (size_t)count * sizeof *ids);
    memcpy(loader->learned + at, learned, (size_t)count);
    loader->starts[++loader->count] = at + count;
    add_to_fingerprint(loader, loader->count - 1);
}

// --- ranks -------------------------------------------------------------------

// Bytes of `element` for each of a rank's examples or tokens: its own are put in their place, and
// those of the others are gathered around them.
static enum err gather(struct loader *loader, struct group *group, void **all, const void *own,
                       const double *counts, int64_t element)
{
    struct arena scratch = { 0 };
    int64_t *sizes = ARENA_NEW(&scratch, int64_t, group->size), before = 0, bytes = 0;
    for (int i = 0; i < group->size; i++) {
        sizes[i] = (int64_t)counts[2 * i] * element;
        before += i < group->rank ? sizes[i] : 0;
        bytes += sizes[i];
    }
    *all = arena_alloc(loader->arena, (size_t)bytes + 1);
    if (sizes[group->rank])
        memcpy((char *)*all + before, own, (size_t)sizes[group->rank]);
    enum err err = group_gather(group, *all, sizes);
    arena_release(&scratch);
    return err;
}

enum err loader_gather(struct loader *loader, struct group *group)
{
    if (group->size == 1)
        return OK;
    double *counts = ARENA_NEW(loader->arena, double, 2 * group->size); // examples, tokens; by rank
    void *lengths, *ids, *learned;
    counts[2 * group->rank] = (double)loader->count;
    counts[2 * group->rank + 1] = (double)loader->starts[loader->count];
    TRY(group_sum(group, counts, 2 * group->size));
    for (size_t i = 0; i < loader->count; i++) // lengths, in place
        loader->starts[i] = loader->starts[i + 1] - loader->starts[i];
    TRY(gather(loader, group, &lengths, loader->starts, counts, sizeof *loader->starts));
    TRY(gather(loader, group, &ids, loader->ids, counts + 1, sizeof *loader->ids));
    TRY(gather(loader, group, &learned, loader->learned, counts + 1, sizeof *loader->learned));
    size_t count = 0;
    for (int i = 0; i < group->size; i++)
        count += (size_t)counts[2 * i];
    loader->starts = ARENA_NEW(loader->arena, int64_t, count + 1);
    loader->ids = ids;
    loader->learned = learned;
    loader->fingerprint = FINGERPRINT_START;
    for (loader->count = 0; loader->count < count; loader->count++) {
        loader->starts[loader->count + 1] =
            loader->starts[loader->count] + ((const int64_t *)lengths)[loader->count];
        add_to_fingerprint(loader, loader->count);
    }
    return OK;
}

// --- sets --------------------------------------------------------------------

// The last examples of a seeded shuffle are held out; each set keeps the order of the data.
static void split(struct loader *loader)
{
    size_t held_out = (size_t)(loader->settings.held_out * (double)loader->count);
    uint32_t *order = ARENA_NEW(loader->arena, uint32_t, loader->count + 1);
    uint8_t *is_held_out = ARENA_NEW(loader->arena, uint8_t, loader->count + 1);
    for (size_t i = 0; i < loader->count; i++)
        order[i] = (uint32_t)i;
    packing_shuffle(order, loader->count, loader->settings.seed ^ 0x68656C64u);
    for (size_t i = loader->count - held_out; i < loader->count; i++)
        is_held_out[order[i]] = 1;
    struct loader_set *sets[] = { &loader->train, &loader->held_out };
    for (int s = 0; s < 2; s++) {
        sets[s]->lengths.arena = loader->arena;
        sets[s]->examples = ARENA_NEW(loader->arena, uint32_t, loader->count + 1);
    }
    for (size_t i = 0; i < loader->count; i++) {
        struct loader_set *set = sets[is_held_out[i]];
        int64_t labelled = 0, size = loader->starts[i + 1] - loader->starts[i];
        for (int64_t j = 0; j < size; j++)
            labelled += loader->learned[loader->starts[i] + j];
        set->examples[set->lengths.count] = (uint32_t)i;
        lengths_add(&set->lengths, size, labelled);
    }
}

static enum err pack(struct loader *loader, struct loader_set *set, struct arena *arena,
                     uint64_t seed)
{
    const struct packing_trainer *trainer;
    TRY(packing_trainer_find(&trainer, "native", NULL));
    struct packing_rule rule = packing_rule(trainer, BATCHING_PACKED);
    struct packing_setup setup = { .window = loader->settings.window,
                                   .micro_batch = loader->settings.micro_batch,
                                   .seed = seed };
    TRY(packing_plan(&set->packing, arena, &set->lengths, &rule, &setup));
    int64_t rows = (int64_t)set->packing.rows, each = loader->settings.micro_batch;
    set->micro_batches = (rows + each - 1) / each;
    return OK;
}

// --- rows --------------------------------------------------------------------

struct filling {
    struct loader *loader;
    const struct loader_set *set;
    struct micro_batch *out;
};

// A document: each token predicts the next one, if that one is labelled.
static void fill_piece(struct filling *f, const struct packing_piece *piece)
{
    struct loader *l = f->loader;
    struct micro_batch *out = f->out;
    int64_t first = l->starts[f->set->examples[piece->example]] + piece->start;
    l->spans[out->span_count++] = (struct span){ (int32_t)out->tokens, piece->size };
    for (int32_t i = 0; i < piece->size; i++) {
        if (i + 1 < piece->size && l->learned[first + i + 1]) {
            l->rows[out->labelled] = (int32_t)out->tokens;
            l->targets[out->labelled++] = l->ids[first + i + 1];
        }
        l->batch_ids[out->tokens] = l->ids[first + i];
        l->positions[out->tokens++] = i;
    }
}

static void fill_batch(struct loader *loader, const struct loader_set *set, struct micro_batch *out,
                       int64_t index)
{
    const struct packing *packing = &set->packing;
    size_t first = (size_t)(index * loader->settings.micro_batch);
    size_t end = first + (size_t)loader->settings.micro_batch;
    assert(index < set->micro_batches);
    *out = (struct micro_batch){ .ids = loader->batch_ids,
                                 .positions = loader->positions,
                                 .spans = loader->spans,
                                 .rows = loader->rows,
                                 .targets = loader->targets };
    struct filling filling = { loader, set, out };
    for (size_t row = first; row < end && row < packing->rows; row++)
        for (size_t i = packing->starts[row]; i < packing->starts[row + 1]; i++)
            fill_piece(&filling, &packing->pieces[i]);
}

void loader_batch(struct loader *loader, struct micro_batch *out, int64_t index)
{
    fill_batch(loader, &loader->train, out, index);
}

void loader_held_out(struct loader *loader, struct micro_batch *out, int64_t index)
{
    fill_batch(loader, &loader->held_out, out, index);
}

static int64_t piece_labelled(const struct loader *loader, const struct packing_piece *piece)
{
    int64_t first = loader->starts[loader->train.examples[piece->example]] + piece->start, sum = 0;
    for (int32_t i = 1; i < piece->size; i++)
        sum += loader->learned[first + i] != 0;
    return sum;
}

int64_t loader_labelled(const struct loader *loader, int64_t first, int64_t count)
{
    const struct packing *packing = &loader->train.packing;
    size_t row = (size_t)(first * loader->settings.micro_batch);
    size_t end = (size_t)((first + count) * loader->settings.micro_batch);
    int64_t sum = 0;
    for (; row < end && row < packing->rows; row++)
        for (size_t i = packing->starts[row]; i < packing->starts[row + 1]; i++)
            sum += piece_labelled(loader, &packing->pieces[i]);
    return sum;
}

// --- epochs ------------------------------------------------------------------

// Orders rows by memory: tokens first, then the sum of squared lengths.
static double row_memory(const struct packing *packing, size_t row)
{
    double tokens = 0, squared_lengths = 0;
    for (size_t i = packing->starts[row]; i < packing->starts[row + 1]; i++) {
        tokens += packing->pieces[i].size;
        squared_lengths += (double)packing->pieces[i].size * packing->pieces[i].size;
    }
    return tokens * 0x1p40 + squared_lengths;
}

// Swaps row 0 and another row by rebuilding the list: they may have different numbers of pieces.
static void put_first(struct packing *packing, size_t row, struct arena *arena)
{
    size_t total = packing->starts[packing->rows], at = 0;
    struct packing_piece *pieces = ARENA_NEW(arena, struct packing_piece, total + 1);
    size_t *starts = ARENA_NEW(arena, size_t, packing->rows + 1);
    for (size_t i = 0; i < packing->rows; i++) {
        size_t from = i == 0 ? row : i == row ? 0 : i;
        starts[i] = at;
        for (size_t j = packing->starts[from]; j < packing->starts[from + 1]; j++)
            pieces[at++] = packing->pieces[j];
    }
    starts[packing->rows] = at;
    packing->pieces = pieces;
    packing->starts = starts;
}

enum err loader_epoch(struct loader *loader, int64_t epoch)
{
    struct packing *packing = &loader->train.packing;
    arena_rewind(&loader->epoch_arena, (struct arena_mark){ 0 });
    TRY(pack(loader, &loader->train, &loader->epoch_arena,
             loader->settings.seed + 0x9E3779B97F4A7C15u * (uint64_t)epoch));
    if (epoch || !packing->rows)
        return OK;
    size_t largest = 0;
    for (size_t row = 1; row < packing->rows; row++)
        if (row_memory(packing, row) > row_memory(packing, largest))
            largest = row;
    put_first(packing, largest, &loader->epoch_arena);
    return OK;
}

enum err loader_start(struct loader *loader)
{
    size_t tokens = (size_t)(loader->settings.window * loader->settings.micro_batch);
    loader->batch_ids = ARENA_NEW(loader->arena, int32_t, tokens);
    loader->positions = ARENA_NEW(loader->arena, int32_t, tokens);
    loader->rows = ARENA_NEW(loader->arena, int32_t, tokens);
    loader->targets = ARENA_NEW(loader->arena, int32_t, tokens);
    loader->spans = ARENA_NEW(loader->arena, struct span, tokens);
    split(loader);
    TRY(pack(loader, &loader->held_out, loader->arena, loader->settings.seed));
    TRY(loader_epoch(loader, 0));
    if (!loader_labelled(loader, 0, loader->train.micro_batches))
        return fail(
            ERR_INPUT,
            "none of the %zu examples has a labelled token within --context %lld; give --labels "
            "all to train on every token, or the --template that marks the answers",
            loader->train.lengths.count, (long long)loader->settings.window);
    return OK;
}
