// SPDX-License-Identifier: Apache-2.0
// Packs examples into rows and fills micro-batches from them.

#include "train/loader.h"

#include <assert.h>
#include <string.h>

void loader_init(struct loader *loader, struct arena *arena, const struct loader_settings *settings)
{
    *loader = (struct loader){ .settings = *settings, .arena = arena };
    loader->starts = ARENA_NEW(arena, int64_t, 1);
}

void loader_release(struct loader *loader)
{
    arena_release(&loader->epoch_arena);
}

static int64_t documents_each(const struct loader_settings *settings) // of an example
{
    return settings->pairs ? 2 : 1;
}

int64_t loader_row_tokens(const struct loader_settings *settings)
{
    return documents_each(settings) * settings->window;
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

void loader_add(struct loader *loader, const int32_t *ids, const uint8_t *learned, int64_t count)
{
    grow(loader, count);
    int64_t at = loader->starts[loader->count];
    memcpy(loader->ids + at, ids, (size_t)count * sizeof *ids);
    memcpy(loader->learned + at, learned, (size_t)count);
    loader->starts[++loader->count] = at + count;
}

void loader_drop_half(struct loader *loader)
{
    loader->count -= loader->count % (size_t)documents_each(&loader->settings);
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
    for (loader->count = 0; loader->count < count; loader->count++)
        loader->starts[loader->count + 1] =
            loader->starts[loader->count] + ((const int64_t *)lengths)[loader->count];
    return OK;
}

// --- sets --------------------------------------------------------------------

// The tokens of a document that can be trained on. Packing cuts an example at the end of a row;
// each answer of a pair is cut by itself.
static int64_t document_size(const struct loader *loader, size_t document)
{
    int64_t size = loader->starts[document + 1] - loader->starts[document];
    return loader->settings.pairs && size > loader->settings.window ? loader->settings.window
                                                                    : size;
}

// A pair needs both its answers.
static void add_length(const struct loader *loader, struct loader_set *set, size_t first)
{
    int64_t labelled = 0, all = 0;
    for (int64_t i = 0; i < documents_each(&loader->settings); i++) {
        const uint8_t *learned = loader->learned + loader->starts[first + (size_t)i];
        int64_t size = document_size(loader, first + (size_t)i);
        if (!size && loader->settings.pairs)
            return;
        for (int64_t j = 0; j < size; j++)
            labelled += learned[j];
        all += size;
    }
    set->examples[set->lengths.count] = (uint32_t)first;
    lengths_add(&set->lengths, all, labelled);
}

// The last examples of a seeded shuffle are held out; each set keeps the order of the data.
static void split(struct loader *loader)
{
    size_t each = (size_t)documents_each(&loader->settings), count = loader->count / each;
    size_t held_out = (size_t)(loader->settings.held_out * (double)count);
    uint32_t *order = ARENA_NEW(loader->arena, uint32_t, count + 1);
    uint8_t *is_held_out = ARENA_NEW(loader->arena, uint8_t, count + 1);
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    packing_shuffle(order, count, loader->settings.seed ^ 0x68656C64u);
    for (size_t i = count - held_out; i < count; i++)
        is_held_out[order[i]] = 1;
    struct loader_set *sets[] = { &loader->train, &loader->held_out };
    for (int s = 0; s < 2; s++) {
        sets[s]->lengths.arena = loader->arena;
        sets[s]->examples = ARENA_NEW(loader->arena, uint32_t, count + 1);
    }
    for (size_t i = 0; i < count; i++)
        add_length(loader, sets[is_held_out[i]], i * each);
    for (size_t i = 0; i < loader->count; i++)
        packing_loss_add(&loader->loss, loader->starts[i + 1] - loader->starts[i],
                         loader->settings.window);
}

static enum err pack(struct loader *loader, struct loader_set *set, struct arena *arena,
                     uint64_t seed)
{
    const struct packing_trainer *trainer;
    TRY(packing_trainer_find(&trainer, "native", NULL));
    struct packing_rule rule = packing_rule(trainer, BATCHING_PACKED);
    struct packing_setup setup = { .window = loader_row_tokens(&loader->settings),
                                   .micro_batch = loader->settings.micro_batch,
                                   .seed = seed };
    TRY(packing_plan(&set->packing, arena, &set->lengths, &rule, &setup));
    int64_t rows = (int64_t)set->packing.rows, each = loader->settings.micro_batch;
    set->micro_batches = (rows + each - 1) / each;
    return OK;
}

// --- rows --------------------------------------------------------------------

// Tokens of the data that attend to each other: a document, a part of one, or an answer of a pair.
struct stretch {
    int64_t first;
    int32_t size;
};

static struct stretch stretch_of(const struct loader *loader, const struct loader_set *set,
                                 const struct packing_piece *piece, int64_t number)
{
    size_t document = set->examples[piece->example] + (size_t)number;
    if (loader->settings.pairs)
        return (struct stretch){ loader->starts[document],
                                 (int32_t)document_size(loader, document) };
    return (struct stretch){ loader->starts[document] + piece->start, piece->size };
}

// Each token predicts the next one, if that one is labelled.
static void fill_stretch(struct loader *l, struct micro_batch *out, struct stretch s)
{
    l->spans[out->span_count++] = (struct span){ (int32_t)out->tokens, s.size };
    for (int32_t i = 0; i < s.size; i++) {
        if (i + 1 < s.size && l->learned[s.first + i + 1]) {
            l->rows[out->labelled] = (int32_t)out->tokens;
            l->targets[out->labelled++] = l->ids[s.first + i + 1];
        }
        l->batch_ids[out->tokens] = l->ids[s.first + i];
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
    for (size_t row = first; row < end && row < packing->rows; row++)
        for (size_t i = packing->starts[row]; i < packing->starts[row + 1]; i++)
            for (int64_t j = 0; j < documents_each(&loader->settings); j++)
                fill_stretch(loader, out, stretch_of(loader, set, &packing->pieces[i], j));
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
    int64_t sum = 0;
    for (int64_t j = 0; j < documents_each(&loader->settings); j++) {
        struct stretch s = stretch_of(loader, &loader->train, piece, j);
        for (int32_t i = 1; i < s.size; i++)
            sum += loader->learned[s.first + i] != 0;
    }
    return sum;
}

// The pieces of `count` micro-batches: those from .first to before .end.
struct pieces {
    size_t first, end;
};

static struct pieces pieces_of(const struct loader *loader, int64_t first, int64_t count)
{
    const struct packing *packing = &loader->train.packing;
    size_t row = (size_t)(first * loader->settings.micro_batch);
    size_t end = (size_t)((first + count) * loader->settings.micro_batch);
    if (!packing->rows)
        return (struct pieces){ 0 };
    row = row < packing->rows ? row : packing->rows;
    end = end < packing->rows ? end : packing->rows;
    return (struct pieces){ packing->starts[row], packing->starts[end] };
}

int64_t loader_labelled(const struct loader *loader, int64_t first, int64_t count)
{
    struct pieces pieces = pieces_of(loader, first, count);
    int64_t sum = 0;
    for (size_t i = pieces.first; i < pieces.end; i++)
        sum += piece_labelled(loader, &loader->train.packing.pieces[i]);
    return sum;
}

int64_t loader_losses(const struct loader *loader, int64_t first, int64_t count)
{
    struct pieces pieces = pieces_of(loader, first, count);
    return loader->settings.pairs ? (int64_t)(pieces.end - pieces.first)
                                  : loader_labelled(loader, first, count);
}

int64_t loader_losses_of(const struct loader *loader, const struct micro_batch *batch)
{
    return loader->settings.pairs ? batch->span_count / 2 : batch->labelled;
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

// FNV-1a.
static uint64_t fingerprint_of(const struct loader *loader)
{
    const uint64_t prime = 0x100000001B3u;
    uint64_t sum = 0xCBF29CE484222325u;
    for (size_t i = 0; i < loader->count; i++) {
        int64_t first = loader->starts[i], end = loader->starts[i + 1];
        for (int64_t j = first; j < end; j++)
            sum = (sum ^ (uint64_t)loader->ids[j] ^ (uint64_t)loader->learned[j] << 32) * prime;
        sum = (sum ^ (uint64_t)(end - first)) * prime;
    }
    return sum;
}

static enum err no_examples(const struct loader *loader)
{
    if (loader->held_out.lengths.count)
        return fail(ERR_INPUT,
                    "--held-out %g leaves no example for training: all %zu are held out; give a "
                    "smaller share",
                    loader->settings.held_out, loader->held_out.lengths.count);
    return fail(ERR_INPUT, "the data has no examples that can be trained on");
}

enum err loader_start(struct loader *loader)
{
    loader->fingerprint = fingerprint_of(loader);
    size_t tokens = (size_t)(loader_row_tokens(&loader->settings) * loader->settings.micro_batch);
    loader->batch_ids = ARENA_NEW(loader->arena, int32_t, tokens);
    loader->positions = ARENA_NEW(loader->arena, int32_t, tokens);
    loader->rows = ARENA_NEW(loader->arena, int32_t, tokens);
    loader->targets = ARENA_NEW(loader->arena, int32_t, tokens);
    loader->spans = ARENA_NEW(loader->arena, struct span, tokens);
    split(loader);
    TRY(pack(loader, &loader->held_out, loader->arena, loader->settings.seed));
    TRY(loader_epoch(loader, 0));
    if (!loader->train.lengths.count)
        return no_examples(loader);
    if (!loader_labelled(loader, 0, loader->train.micro_batches))
        return fail(
            ERR_INPUT,
            "none of the %zu examples has a labelled token within --context %lld; give --labels "
            "all to train on every token, or the --template that marks the answers",
            loader->train.lengths.count, (long long)loader->settings.window);
    return OK;
}
